"""The content of the ``_metadata`` document of a checkpoint (`metadata_document` encodes it).

A job's checkpoint directory is a chain of entries with dense ids. Most are checkpoints; a driver that takes the job
over claims an id with a *takeover* entry, and a job that ends for good leaves a *terminal* one. All of them name the
checkpoint that they follow, so the newest entry alone tells where the job stands.

A savepoint is an entry outside the chain, in a directory of its own with all files that it names.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.batch_program import BatchProgram  # noqa: TC001 - msgspec reads it
from penstock._engine.protocol.control import ChannelStatus
from penstock._engine.protocol.rows import MIN_WATERMARK
from penstock._engine.protocol.state_handle import Lineage  # noqa: TC001 - msgspec reads it
from penstock.errors import AccumulatorSizeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock._engine.protocol.state_handle import StateHandle

#: The limit in bytes of one operator's accumulators, which are in the document itself.
MAX_ACCUMULATOR_BYTES: Final = 1 << 20


class ChainEntryKind(StrEnum):
    """The kind of a chain entry."""

    CHECKPOINT = "checkpoint"
    TAKEOVER = "takeover"
    FINISHED = "finished"
    DRAINED = "drained"
    SUSPENDED = "suspended"
    SAVEPOINT = "savepoint"
    CANCELED = "canceled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OperatorSubtaskState:
    """One subtask's part of an operator's state."""

    lineage: Lineage = ()
    #: The state from the operator's last accepted snapshot; None without any.
    state: bytes | None = None
    finished: bool = False
    #: Whether it finished because the job drained: then it continues when the savepoint is restored.
    drained: bool = False
    #: Lists and broadcast maps of functions; each union item belongs to one subtask, even if that has finished.
    operator_state: Lineage = ()


@dataclass(frozen=True, slots=True)
class ReaderMessages:
    """The events of one reader in an accepted epoch that its enumerator has not seen yet."""

    subtask: int
    #: Pickled source events, in order.
    events: tuple[bytes, ...] = ()
    split_requests: int = 0
    #: Where the reader ran; empty if that is not known.
    host: str = ""


@dataclass(frozen=True, slots=True)
class ReturnedSplits:
    """Splits of a former reader that go back to the enumerator, because that reader does not continue."""

    subtask: int
    splits: tuple[bytes, ...]
    #: Version of the split serializer that wrote them.
    version: int


@dataclass(frozen=True, slots=True)
class SourceCoordinatorState:
    """The state of a source's coordination; each split is in exactly one of these fields, or with a reader."""

    #: The enumerator's own snapshot, by its serializer or pickled.
    state: bytes
    version: int = 0
    #: Operator events not yet delivered to their readers, by subtask.
    undelivered: dict[int, tuple[bytes, ...]] = field(default_factory=dict[int, tuple[bytes, ...]])
    #: The events that the enumerator has not seen, oldest first.
    unseen: tuple[ReaderMessages, ...] = ()
    #: The splits that the enumerator gets back first.
    returned: tuple[ReturnedSplits, ...] = ()
    #: Whether the source had finished and continues: the enumerator first looks for new input.
    reopened: bool = False


@dataclass(frozen=True, slots=True)
class StoredAccumulator:
    """A stored accumulator."""

    #: The name of its class, with the module.
    type: str
    #: The value as text, truncated where it is long.
    text: str
    #: The pickled accumulator.
    data: bytes


#: The accumulator of dropped late records; the name differs from Flink's metric, which a user's accumulator may have.
LATE_RECORDS: Final = "penstock.late-records"


def late_records(accumulators: Mapping[str, Mapping[str, StoredAccumulator]]) -> dict[str, int]:
    """Return how many late records were dropped, by the uids of the operators that have dropped any."""
    return {uid: int(stored[LATE_RECORDS].text) for uid, stored in accumulators.items() if LATE_RECORDS in stored}


@dataclass(frozen=True, slots=True)
class OperatorMetadata:
    """One operator: its identity, and the state of its subtasks."""

    name: str
    #: Position of its vertex in `JobSnapshot.vertices`.
    vertex: int
    parallelism: int
    max_parallelism: int
    #: By subtask.
    subtasks: tuple[OperatorSubtaskState, ...]
    #: Sources only.
    enumerator: SourceCoordinatorState | None = None
    #: The accumulators of all its subtasks together, by name.
    accumulators: dict[str, StoredAccumulator] = field(default_factory=dict[str, StoredAccumulator])

    @property
    def finished(self) -> bool:
        """Whether all subtasks have finished."""
        return all(subtask.finished for subtask in self.subtasks)

    @property
    def drained(self) -> bool:
        """Whether subtasks finished because the job was drained."""
        return any(subtask.drained for subtask in self.subtasks)


@dataclass(frozen=True, slots=True)
class PlaceInput:
    """One edge into an operator: the sending operator and its output, and the input of the receiver."""

    sender: str
    input_index: int = 0
    #: The side output, None for the main output.
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class OperatorPlace:
    """The place of an operator in the program, so that an operator without a uid is not confused with another."""

    kind: str
    #: Whether the program set its uid; else its place alone identifies it.
    has_own_uid: bool
    inputs: tuple[PlaceInput, ...] = ()
    #: Its name and a digest of its functions, which show that operators have changed places.
    name: str = ""
    fingerprint: str = ""
    #: What its state is of: the declared type of its keys, the class of a source's splits; "" if unknown.
    key_type: str = ""
    splits: str = ""


@dataclass(frozen=True, slots=True)
class VertexSubtaskState:
    """The position of one subtask of a vertex."""

    watermark: int = MIN_WATERMARK
    finished: bool = False
    #: Earliest processing-time timer that is pending, None without one.
    next_timer_ms: int | None = None
    drained: bool = False
    #: The watermark of its inputs.
    input_watermark: int = MIN_WATERMARK
    #: Whether it has run with its current senders, and knows which of them have finished.
    has_run: bool = False
    #: The status of its channels by outgoing edge, the same for all receivers.
    outputs: dict[int, ChannelStatus] = field(default_factory=dict[int, ChannelStatus])


@dataclass(frozen=True, slots=True)
class VertexMetadata:
    """One vertex: its operators' uids in chain order, and its subtasks."""

    name: str
    operators: tuple[str, ...]
    subtasks: tuple[VertexSubtaskState, ...]
    #: The signature of each edge into it, in order: the sending operator and the partitioning.
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Committable:
    """One committable of a sink, pickled by its writer or changed by its committer."""

    subtask: int
    payload: bytes
    #: The number of times that the committer asked to retry it.
    retries: int = 0


@dataclass(frozen=True, slots=True)
class OutstandingCommit:
    """The committables of one sink and checkpoint that are not known to be committed."""

    uid: str
    checkpoint_id: int
    committables: tuple[Committable, ...]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Committables that a sink's committer has given up: their records are in no output."""

    uid: str
    #: The sink's name at that time, because the loss is reported even after the sink was removed.
    name: str
    #: The checkpoints of the committables; they differ only where several entries were merged.
    first_checkpoint_id: int
    last_checkpoint_id: int
    count: int
    #: The committer's error for the first of them, perhaps truncated.
    reason: str


@dataclass(frozen=True, slots=True)
class StoredCommits:
    """What is known of the commits of a checkpoint, and of those before it, at a moment after it; see `JobSnapshot`."""

    outstanding: tuple[OutstandingCommit, ...] = ()
    given_up: tuple[GivenUp, ...] = ()
    committed: tuple[OutstandingCommit, ...] = ()

    def of_operators(self, renamed: Mapping[str, str]) -> StoredCommits:
        """Return the same of operators that have other uids now, see `ChainEntry.renamed`."""
        now = {before: uid for uid, before in renamed.items()}
        outstanding, committed = (
            tuple(replace(commit, uid=now.get(commit.uid, commit.uid)) for commit in commits)
            for commits in (self.outstanding, self.committed)
        )
        return replace(self, outstanding=outstanding, committed=committed)


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """The whole state of a job at a checkpoint; a driver needs nothing else to continue."""

    vertices: tuple[VertexMetadata, ...]
    #: By operator uid.
    operators: dict[str, OperatorMetadata]
    #: Oldest first.
    outstanding: tuple[OutstandingCommit, ...] = ()
    #: The places of the operators by uid, in the order of the program; with operators whose state was removed from a
    #: savepoint, and without those that were added to one.
    places: dict[str, OperatorPlace] = field(default_factory=dict[str, OperatorPlace])
    #: The committables that sinks have given up in all runs of the job, oldest first.
    given_up: tuple[GivenUp, ...] = ()
    #: What is committed and not passed on yet to operators behind the committer, oldest first; the uids are those of
    #: the operators that pass it on.
    committed: tuple[OutstandingCommit, ...] = ()

    @property
    def commits(self) -> StoredCommits:
        """What is known of its commits."""
        return StoredCommits(self.outstanding, self.given_up, self.committed)

    def with_commits(self, commits: StoredCommits) -> JobSnapshot:
        """Return this state, with what is known later of its commits."""
        return replace(self, outstanding=commits.outstanding, given_up=commits.given_up, committed=commits.committed)

    @property
    def finished(self) -> bool:
        """Whether every subtask has finished."""
        return all(subtask.finished for vertex in self.vertices for subtask in vertex.subtasks)

    @property
    def all_accumulators(self) -> dict[str, dict[str, StoredAccumulator]]:
        """The accumulators by operator uid, for operators that have any."""
        return {uid: operator.accumulators for uid, operator in self.operators.items() if operator.accumulators}


@dataclass(frozen=True, slots=True)
class ParentCheckpoint:
    """The checkpoint that a chain entry continues from."""

    checkpoint_id: int
    #: The path relative to the checkpoint directory, or a URL outside of it.
    path: str


@dataclass(frozen=True, slots=True)
class ChainEntry:
    """One link of a job's chain."""

    kind: ChainEntryKind
    job_id: str
    job_name: str
    checkpoint_id: int
    #: The driver that wrote it, and a random mark of this write: both are equal only for the same entry.
    run_id: str
    nonce: str
    created_ms: int
    penstock_version: str
    #: None for the first entry of a job that started without state.
    parent: ParentCheckpoint | None = None
    #: Checkpoints only.
    snapshot: JobSnapshot | None = None
    #: Why the job ended: the error's text in an entry of kind FAILED.
    reason: str = ""
    #: The savepoint that the job stops into: in the checkpoint that it stops with, and in its terminal entry.
    savepoint: str | None = None
    #: Whether the job ends as cancelled after the stop.
    cancels: bool = False
    #: Whether the checkpoints of an ended job are kept; otherwise they are deleted after this entry.
    keeps_checkpoints: bool = True
    #: Claimed checkpoints and savepoints from elsewhere that are not deleted yet, as `ParentCheckpoint.path`.
    claimed: tuple[str, ...] = ()
    #: The first id that the job owns here. Lower ids are the user's: checkpoints of runs that it does not continue.
    begins: int = 0
    #: The runs that this run continues, and itself, oldest first: staged files of them that no entry names may go.
    runs: tuple[str, ...] = ()
    #: Whether its writer continues from the parent, and does not complete a stop that the parent belonged to.
    resumes: bool = False
    #: Takeovers of batch jobs with recovery: the program.
    program: BatchProgram | None = None
    #: For a finished job: its accumulators, by operator uid and name.
    accumulators: dict[str, dict[str, StoredAccumulator]] = field(
        default_factory=dict[str, dict[str, StoredAccumulator]]
    )
    #: Takeovers and ends of jobs: what is known then of the commits of the parent. A start from the parent goes by it.
    commits: StoredCommits | None = None
    #: Savepoints that were changed: by uid of an operator that had another one, the uid that its job knows it by.
    renamed: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_terminal(self) -> bool:
        """Whether the job ended with this entry."""
        return self.kind not in {ChainEntryKind.CHECKPOINT, ChainEntryKind.TAKEOVER, ChainEntryKind.SAVEPOINT}

    def same_write(self, other: ChainEntry) -> bool:
        """Return whether another entry is the same write."""
        return (self.run_id, self.nonce) == (other.run_id, other.nonce)


def check_accumulators(sizes: Mapping[str, int]) -> None:
    """Raise AccumulatorSizeError when the accumulators of an operator are too large in total.

    Args:
        sizes: The sizes in bytes, by name.
    """
    if (size := sum(sizes.values())) > MAX_ACCUMULATOR_BYTES:
        raise AccumulatorSizeError(max(sizes, key=sizes.__getitem__), size, MAX_ACCUMULATOR_BYTES)


def handles_of(snapshot: JobSnapshot | None) -> Iterator[StateHandle]:
    """Iterate the handles of all state in a snapshot; a file may occur twice."""
    for operator in () if snapshot is None else snapshot.operators.values():
        for subtask in operator.subtasks:
            yield from subtask.lineage
            yield from subtask.operator_state

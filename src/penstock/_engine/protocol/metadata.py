"""The ``_metadata`` document of a checkpoint: its content, and its readable, versioned, checked encoding.

A job's checkpoint directory is a chain of entries with dense ids. Most are checkpoints; a driver that takes the job
over claims an id with a *takeover* entry, and a job that ends for good leaves a *terminal* one. All of them name the
checkpoint that they follow, so the newest entry alone tells where the job stands.

A savepoint is an entry outside the chain, in a directory of its own with all files that it names.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from penstock._engine.protocol.batch_program import BatchProgram  # noqa: TC001 - msgspec reads it
from penstock._engine.protocol.control import ChannelStatus
from penstock._engine.protocol.decoders import json_decoder
from penstock._engine.protocol.formats import StoredFormat
from penstock._engine.protocol.rows import MIN_WATERMARK
from penstock._engine.protocol.signing import UNSIGNED
from penstock._engine.protocol.soundness import why_unsound
from penstock._engine.protocol.state_handle import Lineage  # noqa: TC001 - msgspec reads it
from penstock.common.user_values import encoded
from penstock.errors import AccumulatorSizeError, CorruptCheckpointError, SignatureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock._engine.protocol.signing import SigningKeys
    from penstock._engine.protocol.state_handle import StateHandle

#: The content is the JSON of a `ChainEntry`.
DOCUMENT: Final = StoredFormat("checkpoint's metadata")

#: Errors of a decoder for damaged bytes.
_NOT_DECODED: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)

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
    likeness: str = ""
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

    @property
    def is_terminal(self) -> bool:
        """Whether the job ended with this entry."""
        return self.kind not in {ChainEntryKind.CHECKPOINT, ChainEntryKind.TAKEOVER, ChainEntryKind.SAVEPOINT}

    def same_write(self, other: ChainEntry) -> bool:
        """Return whether another entry is the same write."""
        return (self.run_id, self.nonce) == (other.run_id, other.nonce)


class _Document(msgspec.Struct, frozen=True):
    """The outer document: the version is first, so that any version of Penstock can report an unknown one."""

    format: int
    sha256: str
    entry: msgspec.Raw = msgspec.field(name="record")
    #: None where its writer had no key.
    hmac: str | None = None


def check_accumulators(sizes: Mapping[str, int]) -> None:
    """Raise AccumulatorSizeError when the accumulators of an operator are too large in total.

    Args:
        sizes: The sizes in bytes, by name.
    """
    if (size := sum(sizes.values())) > MAX_ACCUMULATOR_BYTES:
        raise AccumulatorSizeError(max(sizes, key=sizes.__getitem__), size, MAX_ACCUMULATOR_BYTES)


def encode_chain_entry(entry: ChainEntry, keys: SigningKeys = UNSIGNED) -> bytes:
    """Return the document of an entry: indented JSON with a checksum of its body, and a signature where there is a key.

    Args:
        entry: The entry.
        keys: The keys of the user; the first one signs.
    """
    body = msgspec.json.format(encoded(entry, msgspec.json.encode), indent=1)
    signature = keys.sign(body, DOCUMENT.number)
    signed = b"" if signature is None else b'"hmac": "%s",\n' % signature.encode()
    head = b'{\n"format": %d,\n"sha256": "%s",\n' % (DOCUMENT.number, _digest(body).encode())
    return b'%s%s"record": %s\n}\n' % (head, signed, body)


def decode_chain_entry(data: bytes, path: str, keys: SigningKeys = UNSIGNED) -> ChainEntry:
    """Decode a document.

    Args:
        data: The bytes of the file.
        path: The file, for messages.
        keys: The keys, one of which must have signed it; without keys, any document is accepted.

    Raises:
        CorruptCheckpointError: The bytes are cut short or altered.
        SignatureError: None of the keys has signed it.
        UnsupportedFormatError: It is in a format that this version does not read.
    """
    try:
        document = json_decoder(_Document).decode(data)
    except _NOT_DECODED as error:
        raise CorruptCheckpointError(path, f"it is not a whole metadata document ({error})") from error
    DOCUMENT.way(document.format, path)  # of an unknown format neither checksum nor signature mean anything
    body = bytes(document.entry)
    if _digest(body) != document.sha256:
        raise CorruptCheckpointError(path, "its checksum does not match, so it was altered after it was written")
    if not keys.accept(body, document.format, document.hmac):
        reason = "it has no signature" if document.hmac is None else "another key has signed it, or it was altered"
        raise SignatureError(path, reason)
    entry = _entry_of(DOCUMENT.content(document.format, body, path), path)
    if keys and not all(handle.inline is not None or handle.digest for handle in handles_of(entry.snapshot)):
        raise SignatureError(path, "its signature does not cover the files that it names")
    return entry


def handles_of(snapshot: JobSnapshot | None) -> Iterator[StateHandle]:
    """Iterate the handles of all state in a snapshot; a file may occur twice."""
    for operator in () if snapshot is None else snapshot.operators.values():
        for subtask in operator.subtasks:
            yield from subtask.lineage
            yield from subtask.operator_state


def _entry_of(body: bytes, path: str) -> ChainEntry:
    try:
        entry = json_decoder(ChainEntry).decode(body)
    except _NOT_DECODED as error:
        raise CorruptCheckpointError(path, f"it is not the metadata of a checkpoint ({error})") from error
    fault = why_unsound(entry)
    if fault is not None:
        raise CorruptCheckpointError(path, f"it is not the metadata of a checkpoint: {fault}")
    return entry


def document_format(data: bytes) -> int:
    """Return the format of a readable document."""
    return json_decoder(_Document).decode(data).format


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()

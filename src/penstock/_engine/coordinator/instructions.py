"""The instructions that a coordinator gives the driver.

Each instruction is one action with an effect outside, and fault tests stop between any two. The docstring of an
answered instruction names its events; the others have no answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock._engine.coordinator.job_event_instructions import (
    ClaimJobEvents,
    DeleteResults,
    FindJobEvents,
    ListPartitions,
    RecordJobEvents,
)
from penstock._engine.coordinator.start_instructions import (
    FindDriver,
    FindLaterCheckpoint,
    ListJobs,
    ReadMark,
    RecordStart,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator.alarms import Alarm
    from penstock._engine.coordinator.epochs.sources import EnumeratorDelivery, EnumeratorStart
    from penstock._engine.gateway.progress import JobProgress
    from penstock._engine.gateway.recovery_view import RecoveryView
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.plan.bounds import Bounds
    from penstock._engine.protocol.control import (
        EdgeStatus,
        ResultPartition,
        StopMode,
        SubtaskAck,
        SubtaskDispatch,
        TaskFailure,
    )
    from penstock._engine.protocol.metadata import (
        ChainEntry,
        GivenUp,
        JobSnapshot,
        OutstandingCommit,
        StoredAccumulator,
    )
    from penstock.common.job_status import JobStatus


@dataclass(frozen=True, slots=True)
class ListChainEntries:
    """List the ids of a job's chain: ChainEntriesListed or InstructionFailed."""

    job_id: str


@dataclass(frozen=True, slots=True)
class ReadChainEntry:
    """Read the entry at a path, in or outside of the checkpoint directory: ChainEntryRead or InstructionFailed."""

    path: str
    #: Whether another file names the entry, and not the user. Then an unsigned entry is refused if other users can
    #: change it.
    is_followed: bool = False
    #: The job that is to continue from its own checkpoint; it is refused if another job has claimed that.
    continued_by: str | None = None


@dataclass(frozen=True, slots=True)
class PutChainEntry:
    """Put an entry under its id if that is free: ChainEntryStored, ChainEntryTaken or ChainEntryUncertain."""

    entry: ChainEntry


@dataclass(frozen=True, slots=True)
class AdoptGraph:
    """Run the job with this graph from now on, which has the max parallelism of the restored state."""

    graph: JobGraph


@dataclass(frozen=True, slots=True)
class CopyState:
    """Copy state files of another job's checkpoint for this job: StateCopied or InstructionFailed."""

    #: The path of the checkpoint that names them.
    checkpoint: str
    #: Their paths below its directory, each with the path of the copy.
    files: tuple[tuple[str, str], ...]
    #: By path: the bytes that they are to have; others are not copied.
    sizes: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class StoreState:
    """Write state to files that the metadata has no room for: StateStored or InstructionFailed."""

    files: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class StartEnumerators:
    """Make and start the enumerators of a job, by source uid: EnumeratorsCalled or InstructionFailed."""

    sources: Mapping[str, EnumeratorStart]


@dataclass(frozen=True, slots=True)
class CallEnumerators:
    """Notify enumerators of a checkpoint and deliver their readers' events: EnumeratorsCalled or InstructionFailed."""

    #: 0 if none has completed since they started.
    completed_checkpoint: int
    deliveries: Mapping[str, EnumeratorDelivery]


@dataclass(frozen=True, slots=True)
class SnapshotEnumerators:
    """Take a snapshot of each running enumerator: EnumeratorsSnapshotted or InstructionFailed."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AccumulatorUpdate:
    """The accumulators of one operator subtask in an epoch."""

    uid: str
    subtask: int
    #: By name: the pickled accumulators.
    accumulators: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class MergeAccumulators:
    """Merge the accumulators of an epoch into the job's: AccumulatorsMerged, MergeFailed or InstructionFailed."""

    #: The accumulators before the epoch, by operator uid and name.
    before: Mapping[str, Mapping[str, StoredAccumulator]]
    #: In the order of the vertices and their subtasks.
    added: tuple[AccumulatorUpdate, ...]


@dataclass(frozen=True, slots=True)
class CloseEnumerators:
    """Close all enumerators."""


@dataclass(frozen=True, slots=True)
class RunEpoch:
    """Start an epoch on Spark, or a stage: later EpochEnded, EpochLost or EpochFailed."""

    checkpoint_id: int
    #: The number of the attempt at this checkpoint, from 1.
    attempt: int
    job_attempt: int
    #: Differs from epoch to epoch, so that slots do not always have the same subtasks.
    rotation: int
    #: Whether the job stops with it.
    stop: StopMode
    dispatches: Mapping[tuple[int, int], SubtaskDispatch]
    #: The channel status by edge.
    inputs: Mapping[int, EdgeStatus]
    #: For a stage of a batch job: the results that it reads, in the order of their senders. None for an epoch.
    results: tuple[ResultPartition, ...] | None = None
    #: By vertex that runs fewer subtasks than the job graph says: which receivers each of them reads for.
    bounds: Mapping[int, Bounds] = field(default_factory=dict[int, "Bounds"])
    #: The most bytes of state that an operator of a subtask may return in its ack; see `LevelDispatch`.
    inline_bytes: int = 0
    #: How long it lasts at least unless a request or a failure ends it, see `EndEpoch`.
    least_ms: int = 0


@dataclass(frozen=True, slots=True)
class NotifyListeners:
    """Notify the checkpoint listeners, then close all functions: later EpochEnded, EpochLost or EpochFailed."""

    #: Holds only notifications, and makes no checkpoint.
    epoch: RunEpoch


@dataclass(frozen=True, slots=True)
class ObserveEpoch:
    """Observe the progress of the running epoch: EpochObserved."""


@dataclass(frozen=True, slots=True)
class CancelEpoch:
    """Interrupt the running epoch, which then ends with its usual events."""


@dataclass(frozen=True, slots=True)
class EndEpoch:
    """Let the sources of the running epoch read no further: what came up waits for its end.

    A request ends it at once; for what an enumerator has for its readers, it ends after its least length.
    """

    at_once: bool


@dataclass(frozen=True, slots=True)
class WriteSavepoint:
    """Fill the directory of a savepoint in the background: later SavepointWritten or SavepointFailed."""

    path: str
    #: State files below the checkpoint directory, each with its name in the savepoint.
    files: tuple[tuple[str, str], ...]
    #: Written last.
    entry: ChainEntry
    #: Whether CompleteSavepoint names the entry later; until then the savepoint does not exist.
    is_staged: bool = False


@dataclass(frozen=True, slots=True)
class CompleteSavepoint:
    """Give the entry of a staged savepoint its name in the background: later SavepointWritten or SavepointFailed.

    Staged files may have been deleted, or belong to another attempt at the checkpoint. Then all of them are written
    again.
    """

    path: str
    #: As in WriteSavepoint.
    files: tuple[tuple[str, str], ...]
    entry: ChainEntry


@dataclass(frozen=True, slots=True)
class DiscardSavepoint:
    """Delete the files of an abandoned savepoint in the background."""

    path: str


@dataclass(frozen=True, slots=True)
class SavepointRequest:
    """A request for a savepoint, or for a stop with one."""

    id: int
    #: The savepoint's own directory.
    path: str
    #: Whether and how the job stops with it.
    stop: StopMode
    #: Milliseconds after which a job that has not stopped is cancelled; None to wait without limit.
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AnswerSavepoint:
    """Answer a request for a savepoint with its completion, or with the reason why there is none."""

    request: SavepointRequest
    error: Exception | None


@dataclass(frozen=True, slots=True)
class AnswerCheckpoint:
    """Answer a request for a checkpoint with its id, or with the reason why there is none."""

    request_id: int
    checkpoint_id: int
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """Have a sink's committer publish in the background: later Committed or CommitFailed."""

    commit: OutstandingCommit
    #: Whether an earlier try, of this or an earlier driver, may have committed it.
    may_be_done: bool
    #: The ids of committables that count as never tried, because the user has decided so.
    anew: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HandOverRecords:
    """Write the records of committables that are given up into files: RecordsHandedOver or InstructionFailed."""

    #: By file: the committable, as a commit of its own.
    files: Mapping[str, OutstandingCommit]
    job_id: str
    runs: tuple[str, ...]
    restored_checkpoint_id: int


@dataclass(frozen=True, slots=True)
class OperatorOutput:
    """The records that one operator subtask printed or collected in an epoch."""

    uid: str
    subtask: int
    #: Encoded blocks, or the storage path of one file of them.
    blocks: tuple[bytes, ...]
    path: str | None
    #: Of that file.
    digest: bytes | None = None


@dataclass(frozen=True, slots=True)
class DeliverOutputs:
    """Hand outputs to the program: their epoch's checkpoint has completed. OutputsDelivered, or DriverFailed.

    A repeated instruction continues where the last try failed.
    """

    outputs: tuple[OperatorOutput, ...]


@dataclass(frozen=True, slots=True)
class SetAlarm:
    """Set an alarm: its event after a delay in milliseconds."""

    delay_ms: int
    event: Alarm


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What a job needs no more, and deletes."""

    #: Ids of checkpoints of this job, and paths of files in its shared directory.
    checkpoints: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    #: Paths of checkpoints and savepoints from elsewhere that the job has claimed.
    claimed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Delete files of this job in the background; a failure is logged."""

    job_id: str
    leftovers: Leftovers
    #: Checkpoints below this id are not the job's own: they stay, with their files.
    begins: int


@dataclass(frozen=True, slots=True)
class SweepLeftovers:
    """Delete leftovers in the background: what no kept checkpoint and no running epoch can need.

    These are checkpoints from `begins` up to `before` that are not in `checkpoints`, and shared files of such
    checkpoints that are not in `files` and not younger than `age_ms`.
    """

    job_id: str
    before: int
    checkpoints: frozenset[int]
    files: frozenset[str]
    #: Checkpoints below this id are not the job's own.
    begins: int
    #: An attempt of a running epoch may have written younger files.
    age_ms: int


@dataclass(frozen=True, slots=True)
class ChangeStatus:
    """Show a new status of the job."""

    status: JobStatus


@dataclass(frozen=True, slots=True)
class PublishProgress:
    """Publish the job's figures after an epoch, the epoch's acks and the state of its checkpoint."""

    progress: JobProgress
    acks: tuple[SubtaskAck, ...]
    snapshot: JobSnapshot
    #: What was recovered of a batch job; None without recovery.
    recovery: RecoveryView | None = None
    #: Whether the figures start fresh with these acks, which are all that count.
    begins: bool = False


@dataclass(frozen=True, slots=True)
class PublishGivenUp:
    """Publish the committables that the job's committers gave up, and the job's figures."""

    given_up: tuple[GivenUp, ...]
    progress: JobProgress


@dataclass(frozen=True, slots=True)
class ReportFailure:
    """Add a failure to the job's exception history."""

    cause: TaskFailure | Exception
    checkpoint_id: int
    job_attempt: int
    #: Whether the restart strategy was asked.
    counted: bool


@dataclass(frozen=True, slots=True)
class LogMessage:
    """Write a line to the log for the users of the job."""

    text: str
    #: The error that it is about, if there is one.
    error: TaskFailure | Exception | None = None
    #: Whether it is shown even without a log, because the job differs from what its user expects.
    unexpected: bool = False
    #: Whether it is on the terminal whatever the log shows.
    shown: bool = False


@dataclass(frozen=True, slots=True)
class EndDriver:
    """End the driver of this job: nothing follows."""

    status: JobStatus
    #: Why the job failed or its driver gave it up.
    error: TaskFailure | Exception | None
    #: The newest retained checkpoint, as a path below the checkpoint directory.
    checkpoint: str | None


Instruction: TypeAlias = (
    ListJobs
    | ReadMark
    | RecordStart
    | FindLaterCheckpoint
    | ListChainEntries
    | ReadChainEntry
    | FindDriver
    | PutChainEntry
    | AdoptGraph
    | CopyState
    | StoreState
    | StartEnumerators
    | CallEnumerators
    | SnapshotEnumerators
    | MergeAccumulators
    | CloseEnumerators
    | RunEpoch
    | DeleteResults
    | FindJobEvents
    | ClaimJobEvents
    | ListPartitions
    | RecordJobEvents
    | NotifyListeners
    | ObserveEpoch
    | CancelEpoch
    | EndEpoch
    | WriteSavepoint
    | CompleteSavepoint
    | DiscardSavepoint
    | AnswerSavepoint
    | AnswerCheckpoint
    | Commit
    | HandOverRecords
    | DeliverOutputs
    | SetAlarm
    | DeleteFiles
    | SweepLeftovers
    | ChangeStatus
    | PublishProgress
    | PublishGivenUp
    | ReportFailure
    | LogMessage
    | EndDriver
)

#: Calls: the coordinator waits for their answer, which is InstructionFailed after an error.
ANSWERED: Final = (
    ListJobs,
    ReadMark,
    RecordStart,
    FindLaterCheckpoint,
    ListChainEntries,
    ReadChainEntry,
    FindDriver,
    CopyState,
    StoreState,
    StartEnumerators,
    CallEnumerators,
    SnapshotEnumerators,
    MergeAccumulators,
    FindJobEvents,
    ClaimJobEvents,
)

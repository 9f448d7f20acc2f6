"""The instructions that a coordinator gives the driver.

Each instruction is one step in the world, and fault tests stop between any two.
An instruction that is answered names its events; the others have no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator.checkpoints.retention import Garbage
    from penstock._engine.coordinator.epochs.sources import EnumeratorDelivery, EnumeratorStart
    from penstock._engine.gateway.progress import JobProgress
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.protocol.control import StopMode, SubtaskAck, SubtaskDispatch, TaskFailure
    from penstock._engine.protocol.metadata import (
        ChainEntry,
        GivenUp,
        JobSnapshot,
        OutstandingCommit,
        StoredAccumulator,
    )
    from penstock.common.job_status import JobStatus


@dataclass(frozen=True, slots=True)
class ListJobs:
    """Look up the jobs below the checkpoint directory: JobsListed or InstructionFailed."""

    #: The name that one is looked for by.
    job_name: str


@dataclass(frozen=True, slots=True)
class FindLaterCheckpoint:
    """Look up who has gone on behind a checkpoint or savepoint: LaterCheckpointFound."""

    #: The checkpoint or savepoint, as in `ReadChainEntry`.
    path: str
    entry: ChainEntry
    #: The job that starts from it.
    job_name: str
    job_id: str


@dataclass(frozen=True, slots=True)
class RecordStart:
    """Store that of all jobs of its name this one was claimed last: StartRecorded or InstructionFailed."""

    job_name: str
    job_id: str


@dataclass(frozen=True, slots=True)
class ReadMark:
    """Read the mark of the checkpoint directory, or give it one: MarkRead or InstructionFailed."""

    #: The mark that it gets where it has none.
    fresh: str


@dataclass(frozen=True, slots=True)
class ListChainEntries:
    """Look up the ids of a job's chain: ChainEntriesListed or InstructionFailed."""

    job_id: str


@dataclass(frozen=True, slots=True)
class ReadChainEntry:
    """Read the entry at a path, in or outside of the checkpoint directory: ChainEntryRead or InstructionFailed."""

    path: str


@dataclass(frozen=True, slots=True)
class PutChainEntry:
    """Put an entry where its id says, unless there is one: ChainEntryStored, ChainEntryTaken or ChainEntryUncertain."""

    entry: ChainEntry


@dataclass(frozen=True, slots=True)
class AdoptGraph:
    """Run the job in this form from now on: with the max parallelism of the state that it starts from."""

    graph: JobGraph


@dataclass(frozen=True, slots=True)
class CopyState:
    """Copy files of another job's or directory's checkpoint, for this job: StateCopied or InstructionFailed."""

    #: The checkpoint that names them, as it was read.
    checkpoint: str
    #: Their paths below its directory, each with the path of the copy.
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StoreState:
    """Write small state that the metadata has no room for to files: StateStored or InstructionFailed."""

    files: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class StartEnumerators:
    """Make and start the enumerators of a job's start, by source uid: EnumeratorsCalled or InstructionFailed."""

    sources: Mapping[str, EnumeratorStart]


@dataclass(frozen=True, slots=True)
class CallEnumerators:
    """Tell enumerators of a checkpoint and what readers sent: EnumeratorsCalled or InstructionFailed."""

    #: 0 when none has completed since they started.
    completed_checkpoint: int
    deliveries: Mapping[str, EnumeratorDelivery]


@dataclass(frozen=True, slots=True)
class SnapshotEnumerators:
    """Take the snapshots of all enumerators that run: EnumeratorsSnapshotted or InstructionFailed."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AccumulatorUpdate:
    """What one operator subtask has added to its accumulators in an epoch."""

    uid: str
    subtask: int
    #: By name: the pickled accumulators.
    accumulators: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class MergeAccumulators:
    """Add up what an epoch has counted: AccumulatorsMerged, MergeFailed or InstructionFailed."""

    #: What was counted before, by operator uid and name.
    before: Mapping[str, Mapping[str, StoredAccumulator]]
    #: In the order of the vertices and their subtasks.
    added: tuple[AccumulatorUpdate, ...]


@dataclass(frozen=True, slots=True)
class CloseEnumerators:
    """Close all enumerators."""


@dataclass(frozen=True, slots=True)
class RunEpoch:
    """Begin an epoch on Spark: later EpochEnded, EpochLost or EpochFailed."""

    checkpoint_id: int
    #: Which try of this checkpoint it is, from 1.
    attempt: int
    job_attempt: int
    #: Differs from epoch to epoch, so that no slot always has the same subtasks.
    rotation: int
    #: Whether the job stops with it.
    stop: StopMode
    dispatches: Mapping[tuple[int, int], SubtaskDispatch]


@dataclass(frozen=True, slots=True)
class NotifyListeners:
    """Notify the checkpoint listeners, then close all functions: later EpochEnded, EpochLost or EpochFailed."""

    #: Has notices alone, and makes no checkpoint.
    epoch: RunEpoch


@dataclass(frozen=True, slots=True)
class ObserveEpoch:
    """See how far the running epoch has come: EpochObserved."""


@dataclass(frozen=True, slots=True)
class CancelEpoch:
    """Interrupt the running epoch, which then ends with its usual events."""


@dataclass(frozen=True, slots=True)
class WriteSavepoint:
    """Fill the directory of a savepoint in the background: later SavepointWritten or SavepointFailed."""

    path: str
    #: State files below the checkpoint directory, each with its name in the savepoint.
    files: tuple[tuple[str, str], ...]
    #: Written last.
    entry: ChainEntry
    #: The entry gets its name later, by CompleteSavepoint: until then there is no savepoint.
    is_staged: bool = False


@dataclass(frozen=True, slots=True)
class CompleteSavepoint:
    """Give the entry of a staged savepoint its name in the background: later SavepointWritten or SavepointFailed.

    What was staged may be gone, or be of another attempt at the same checkpoint. Then all of it is written anew.
    """

    path: str
    #: As in WriteSavepoint.
    files: tuple[tuple[str, str], ...]
    entry: ChainEntry


@dataclass(frozen=True, slots=True)
class DiscardSavepoint:
    """Delete in the background what there is of a savepoint that will not be."""

    path: str


@dataclass(frozen=True, slots=True)
class SavepointRequest:
    """A request for a savepoint, or for a stop with one."""

    id: int
    #: The savepoint's own directory.
    path: str
    #: Whether, and how, the job stops with it.
    stop: StopMode
    #: Milliseconds after which a job that has not stopped is cancelled; None to wait as long as it takes.
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AnswerSavepoint:
    """Answer a request for a savepoint: it is complete, or why there is none."""

    request: SavepointRequest
    error: Exception | None


@dataclass(frozen=True, slots=True)
class AnswerCheckpoint:
    """Answer a request for a checkpoint: its id, or why there is none."""

    request_id: int
    checkpoint_id: int
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """Have a sink's committer publish in the background: later Committed or CommitFailed."""

    commit: OutstandingCommit
    #: Whether an earlier try, in this driver or one before it, may have done it.
    may_be_done: bool


@dataclass(frozen=True, slots=True)
class OperatorOutput:
    """What one operator printed or collected in an epoch."""

    uid: str
    subtask: int
    #: Encoded blocks, or the storage path of one file of them.
    blocks: tuple[bytes, ...]
    path: str | None


@dataclass(frozen=True, slots=True)
class DeliverOutputs:
    """Hand outputs to the program: their epoch's checkpoint has completed. OutputsDelivered, or DriverFailed.

    The same instruction again goes on where the try before broke off.
    """

    outputs: tuple[OperatorOutput, ...]


@dataclass(frozen=True, slots=True)
class SetAlarm:
    """Set an alarm: AlarmFired after so many milliseconds."""

    alarm: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Delete files of this job in the background; a failure is logged."""

    job_id: str
    garbage: Garbage
    #: Checkpoints below this id are not the job's own: they stay, with what they name.
    begins: int


@dataclass(frozen=True, slots=True)
class SweepOrphans:
    """Delete in the background what no kept checkpoint needs and no running epoch can.

    That is: checkpoints from `begins` on and older than `before` that are not in `checkpoints`, and shared files that
    were written for a checkpoint from `begins` up to `before`, are older than a minute and not in `files`.
    """

    job_id: str
    before: int
    checkpoints: frozenset[int]
    files: frozenset[str]
    #: What is below this id is not the job's own.
    begins: int


@dataclass(frozen=True, slots=True)
class ChangeStatus:
    """Show a new status of the job."""

    status: JobStatus


@dataclass(frozen=True, slots=True)
class PublishProgress:
    """Show the job's figures after an epoch, and the epoch itself: its acks, and the state of its checkpoint."""

    progress: JobProgress
    acks: tuple[SubtaskAck, ...]
    snapshot: JobSnapshot


@dataclass(frozen=True, slots=True)
class PublishGivenUp:
    """Show all that the job's committers have given up, and its figures with that."""

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
    """Write a line to the log that a person following the job wants to read."""

    text: str
    #: What went wrong, when something did.
    error: TaskFailure | Exception | None = None
    #: Shown also where no log was asked for: the job did not do what a start promises.
    unexpected: bool = False


@dataclass(frozen=True, slots=True)
class EndDriver:
    """End the driver of this job: nothing follows."""

    status: JobStatus
    #: Why a job failed or was given up.
    error: TaskFailure | Exception | None
    #: The newest checkpoint that was kept, as a path below the checkpoint directory.
    checkpoint: str | None


Instruction: TypeAlias = (
    ListJobs
    | ReadMark
    | RecordStart
    | FindLaterCheckpoint
    | ListChainEntries
    | ReadChainEntry
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
    | NotifyListeners
    | ObserveEpoch
    | CancelEpoch
    | WriteSavepoint
    | CompleteSavepoint
    | DiscardSavepoint
    | AnswerSavepoint
    | AnswerCheckpoint
    | Commit
    | DeliverOutputs
    | SetAlarm
    | DeleteFiles
    | SweepOrphans
    | ChangeStatus
    | PublishProgress
    | PublishGivenUp
    | ReportFailure
    | LogMessage
    | EndDriver
)

#: Calls: the coordinator waits for the answer, which is InstructionFailed when they fail.
ANSWERED: Final = (
    ListJobs,
    ReadMark,
    RecordStart,
    FindLaterCheckpoint,
    ListChainEntries,
    ReadChainEntry,
    CopyState,
    StoreState,
    StartEnumerators,
    CallEnumerators,
    SnapshotEnumerators,
    MergeAccumulators,
)

"""The events that a job's coordinator handles.

Most events answer one instruction, which their docstrings name; the driver adds the moment when it hands them in, by
both of its clocks (`protocol.clocks.Moment`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator.epochs.sources import EnumeratorSnapshot
    from penstock._engine.coordinator.instructions import SavepointRequest
    from penstock._engine.plan.epoch_plan import EpochOutcome
    from penstock._engine.protocol.control import TaskFailure
    from penstock._engine.protocol.metadata import ChainEntry, Committable, GivenUp, StoredAccumulator

#: By source uid and subtask: operator events for readers, oldest first.
Assigned: TypeAlias = "Mapping[str, Mapping[int, tuple[bytes, ...]]]"


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job below the checkpoint directory, by its newest entry."""

    job_id: str
    job_name: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class JobsListed:
    """Answers ListJobs."""

    jobs: tuple[ListedJob, ...]
    #: The job of that name that was claimed last; the others are listed only where that is not known.
    started_last: str | None = None
    #: The directories of jobs of which no entry can be read, so that their names are not known.
    nameless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkRead:
    """Answers ReadMark."""

    mark: str


@dataclass(frozen=True, slots=True)
class LaterCheckpointFound:
    """Answers FindLaterCheckpoint."""

    #: The last checkpoint that its job has completed behind it; None where there is none, or it cannot be told.
    checkpoint_id: int | None
    #: The checkpoint or savepoint as a person would name it.
    path: str
    #: Other jobs that go on from there, as far as their records say.
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StartRecorded:
    """Answers RecordStart."""


@dataclass(frozen=True, slots=True)
class ChainEntriesListed:
    """Answers ListChainEntries: the ids of the job's chain, rising."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChainEntryRead:
    """Answers ReadChainEntry; None when there is no such entry."""

    entry: ChainEntry | None
    #: The checkpoint as a person would give it.
    path: str


@dataclass(frozen=True, slots=True)
class ChainEntryStored:
    """Answers PutChainEntry: it is there, and durable."""


@dataclass(frozen=True, slots=True)
class ChainEntryTaken:
    """Answers PutChainEntry: the id was taken already, by this entry."""

    existing: ChainEntry


@dataclass(frozen=True, slots=True)
class ChainEntryUncertain:
    """Answers PutChainEntry: it may or may not be there."""

    error: Exception


@dataclass(frozen=True, slots=True)
class StateCopied:
    """Answers CopyState."""


@dataclass(frozen=True, slots=True)
class StateStored:
    """Answers StoreState."""


@dataclass(frozen=True, slots=True)
class EnumeratorsCalled:
    """Answers StartEnumerators and CallEnumerators with what they assigned."""

    assigned: Assigned
    #: Whether one of them reads old records, so that throughput matters more than delay.
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class SplitsAssigned:
    """Enumerators assigned something in answer to a call of their own (``call_async``)."""

    assigned: Assigned


@dataclass(frozen=True, slots=True)
class EnumeratorsSnapshotted:
    """Answers SnapshotEnumerators; sources whose readers have all finished are left out."""

    snapshots: Mapping[str, EnumeratorSnapshot]
    #: What was decided before or during the snapshots: it is in none of them as something that is still to be done.
    assigned: Assigned = field(default_factory=dict[str, dict[int, tuple[bytes, ...]]])


@dataclass(frozen=True, slots=True)
class AccumulatorsMerged:
    """Answers MergeAccumulators: all that has been counted, by the uids of the operators that have counted."""

    accumulators: Mapping[str, dict[str, StoredAccumulator]]


@dataclass(frozen=True, slots=True)
class MergeFailed:
    """Answers MergeAccumulators: an accumulator of a user's function raised, or does not fit the others."""

    failure: TaskFailure


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """Answers RunEpoch and NotifyListeners: Spark ran it to its end."""

    outcome: EpochOutcome
    #: How long it took.
    wall_ms: int


@dataclass(frozen=True, slots=True)
class EpochLost:
    """Answers RunEpoch: it ended early for a reason that is not the user's, or because of CancelEpoch."""

    error: Exception


@dataclass(frozen=True, slots=True)
class EpochObserved:
    """Answers ObserveEpoch."""

    tasks_done: int
    #: The subtasks whose tasks run, as a person would name them.
    running: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EpochFailed:
    """Answers RunEpoch: it failed for a reason that running it again does not heal."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Committed:
    """Answers Commit: what is not in `retry` is published, but for what the committer has given up."""

    uid: str
    retry: tuple[Committable, ...] = ()
    given_up: tuple[GivenUp, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputsDelivered:
    """Answers DeliverOutputs: the program has all of it."""


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """Answers Commit: the committer raised, or gave a committable up for a reason that it does not know."""

    uid: str
    error: Exception


@dataclass(frozen=True, slots=True)
class AlarmFired:
    """Answers Wake, after its time."""

    alarm: int


@dataclass(frozen=True, slots=True)
class InstructionFailed:
    """Answers an instruction that could not be performed: storage failed, or an enumerator raised."""

    error: Exception


@dataclass(frozen=True, slots=True)
class DriverFailed:
    """Something on the driver failed that answers no instruction: a handler of an enumerator, or a full pipe."""

    error: Exception


@dataclass(frozen=True, slots=True)
class SavepointRequested:
    """A request for a savepoint, or for a stop with one."""

    request: SavepointRequest


@dataclass(frozen=True, slots=True)
class SavepointWritten:
    """Answers WriteSavepoint and CompleteSavepoint."""

    path: str


@dataclass(frozen=True, slots=True)
class SavepointFailed:
    """Answers WriteSavepoint and CompleteSavepoint: the savepoint cannot be restored."""

    path: str
    error: Exception


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """A request for a checkpoint now."""

    #: Names the request.
    id: int


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """A request to cancel the job."""


Event: TypeAlias = (
    JobsListed
    | MarkRead
    | StartRecorded
    | LaterCheckpointFound
    | ChainEntriesListed
    | ChainEntryRead
    | ChainEntryStored
    | ChainEntryTaken
    | ChainEntryUncertain
    | StateCopied
    | StateStored
    | EnumeratorsCalled
    | SplitsAssigned
    | EnumeratorsSnapshotted
    | AccumulatorsMerged
    | MergeFailed
    | EpochObserved
    | EpochEnded
    | EpochLost
    | EpochFailed
    | Committed
    | CommitFailed
    | OutputsDelivered
    | AlarmFired
    | InstructionFailed
    | DriverFailed
    | SavepointRequested
    | SavepointWritten
    | SavepointFailed
    | CheckpointRequested
    | CancelRequested
)

"""The events that a job's coordinator handles.

Most events answer one instruction, which their docstrings name; those of `alarms` answer SetAlarm. The driver passes
the current moment of both clocks (`protocol.clocks.Moment`) with each event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from penstock._engine.coordinator.alarms import Alarm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator.epochs.sources import EnumeratorSnapshot
    from penstock._engine.coordinator.instructions import SavepointRequest
    from penstock._engine.coordinator.stages.tracker import PartitionWithMetrics
    from penstock._engine.plan.epoch_plan import EpochOutcome
    from penstock._engine.protocol.control import SubtaskAck, TaskFailure
    from penstock._engine.protocol.job_events import JobEvent
    from penstock._engine.protocol.metadata import ChainEntry, Committable, GivenUp, StoredAccumulator, StoredCommits

#: By source uid and subtask: operator events for readers, oldest first.
Assigned: TypeAlias = "Mapping[str, Mapping[int, tuple[bytes, ...]]]"


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job in the checkpoint directory, by its newest chain entry."""

    job_id: str
    job_name: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class JobsListed:
    """Answers ListJobs."""

    jobs: tuple[ListedJob, ...]
    #: The job of that name that was started last; None if the start order does not say it, and then `jobs` lists all.
    started_last: str | None = None
    #: The directories of jobs without a readable entry, so that their names are unknown.
    nameless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkRead:
    """Answers ReadMark."""

    mark: str


@dataclass(frozen=True, slots=True)
class LaterCheckpointFound:
    """Answers FindLaterCheckpoint."""

    #: The last checkpoint that its job has completed after it; None if there is none, or if it is unknown.
    checkpoint_id: int | None
    #: The checkpoint or savepoint, as shown to users.
    path: str
    #: Other live jobs that continue from it, as far as their chain entries say.
    others: tuple[str, ...] = ()
    #: What its job knew of its commits when it ended after it; None if it has gone on, or has not ended.
    commits: StoredCommits | None = None


@dataclass(frozen=True, slots=True)
class StartRecorded:
    """Answers RecordStart."""


@dataclass(frozen=True, slots=True)
class ChainEntriesListed:
    """Answers ListChainEntries: the ids of the job's chain, rising."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChainEntryRead:
    """Answers ReadChainEntry; the entry is None if there is none."""

    entry: ChainEntry | None
    #: The checkpoint, as shown to users.
    path: str


@dataclass(frozen=True, slots=True)
class ChainEntryStored:
    """Answers PutChainEntry: the entry is durable."""


@dataclass(frozen=True, slots=True)
class ChainEntryTaken:
    """Answers PutChainEntry: this entry has taken the id already."""

    existing: ChainEntry


@dataclass(frozen=True, slots=True)
class ChainEntryUncertain:
    """Answers PutChainEntry: the entry may or may not be stored."""

    error: Exception


@dataclass(frozen=True, slots=True)
class StateCopied:
    """Answers CopyState."""


@dataclass(frozen=True, slots=True)
class StateStored:
    """Answers StoreState."""


@dataclass(frozen=True, slots=True)
class EnumeratorsCalled:
    """Answers StartEnumerators and CallEnumerators with the assigned splits."""

    assigned: Assigned
    #: Whether one of them reports a backlog, so that throughput matters more than latency.
    backlog: bool = False
    #: By source uid: the metrics of its enumerator in this run.
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, "Mapping[str, float]"])


@dataclass(frozen=True, slots=True)
class SplitsAssigned:
    """Enumerators assigned splits in a handler of ``call_async``."""

    assigned: Assigned


@dataclass(frozen=True, slots=True)
class EnumeratorsSnapshotted:
    """Answers SnapshotEnumerators; sources whose readers have all finished are left out."""

    snapshots: Mapping[str, EnumeratorSnapshot]
    #: Splits assigned before or during the snapshots; no snapshot has them as unassigned.
    assigned: Assigned = field(default_factory=dict[str, dict[int, tuple[bytes, ...]]])


@dataclass(frozen=True, slots=True)
class AccumulatorsMerged:
    """Answers MergeAccumulators: all accumulators so far, by operator uid."""

    accumulators: Mapping[str, dict[str, StoredAccumulator]]


@dataclass(frozen=True, slots=True)
class MergeFailed:
    """Answers MergeAccumulators: a user's accumulator raised, or does not fit the others of its name."""

    failure: TaskFailure


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """Answers RunEpoch and NotifyListeners: the Spark job ran to its end."""

    outcome: EpochOutcome
    #: Its duration in milliseconds.
    wall_ms: int
    #: The number of its tasks that could run at the same time.
    slots: int


@dataclass(frozen=True, slots=True)
class EpochLost:
    """Answers RunEpoch: the Spark job ended early, because of CancelEpoch or for a reason outside of user code."""

    error: Exception


@dataclass(frozen=True, slots=True)
class EpochObserved:
    """Answers ObserveEpoch."""

    tasks_done: int
    #: The subtasks whose tasks run, as shown to users.
    running: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DriverFound:
    """Answers FindDriver."""

    #: Where it runs, for people; "" if none is known.
    place: str


@dataclass(frozen=True, slots=True)
class JobEventsFound:
    """Answers FindJobEvents."""

    are_there: bool


@dataclass(frozen=True, slots=True)
class JobEventsClaimed:
    """Answers ClaimJobEvents: the events of earlier drivers, in their order."""

    events: tuple[JobEvent, ...] = ()
    #: Why the replay stops before the end of the log; "" if it does not.
    damage: str = ""


@dataclass(frozen=True, slots=True)
class JobEventsFenced:
    """Answers RecordJobEvents: another driver has taken the log over."""

    error: Exception


@dataclass(frozen=True, slots=True)
class PartitionsListed:
    """Answers ListPartitions; with an error if the storage does not answer."""

    partitions: tuple[PartitionWithMetrics, ...] = ()
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class SubtasksFinished:
    """Subtasks of the running stage have finished, while others run on."""

    #: The number of the job's restarts in this driver when they ran.
    job_attempt: int
    acks: tuple[SubtaskAck, ...]


@dataclass(frozen=True, slots=True)
class ResultsLost:
    """Answers RunEpoch: tasks of a stage have found results missing or damaged."""

    outcome: EpochOutcome
    #: The subtasks whose results they are, as vertex and index.
    subtasks: tuple[tuple[int, int], ...]
    error: Exception


@dataclass(frozen=True, slots=True)
class EpochFailed:
    """Answers RunEpoch: the epoch failed for a reason that another attempt does not mend."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Committed:
    """Answers Commit: all committables are published, except those in `retry` and those that the committer gave up."""

    uid: str
    retry: tuple[Committable, ...] = ()
    given_up: tuple[GivenUp, ...] = ()
    #: The metrics of the sink's committers in this run.
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    #: The published ones.
    committed: tuple[Committable, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordsHandedOver:
    """Answers HandOverRecords: the files are written."""


@dataclass(frozen=True, slots=True)
class OutputsDelivered:
    """Answers DeliverOutputs: the program has all of the output."""


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """Answers Commit: the committer raised, or gave a committable up for an unknown reason."""

    uid: str
    error: Exception


@dataclass(frozen=True, slots=True)
class InstructionFailed:
    """Answers an instruction that failed: storage failed, or an enumerator raised."""

    error: Exception


@dataclass(frozen=True, slots=True)
class DriverFailed:
    """Something failed on the driver outside of an instruction, such as a handler of an enumerator."""

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
    | DriverFound
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
    | JobEventsFound
    | JobEventsClaimed
    | JobEventsFenced
    | PartitionsListed
    | SubtasksFinished
    | ResultsLost
    | Committed
    | CommitFailed
    | RecordsHandedOver
    | OutputsDelivered
    | Alarm
    | InstructionFailed
    | DriverFailed
    | SavepointRequested
    | SavepointWritten
    | SavepointFailed
    | CheckpointRequested
    | CancelRequested
)

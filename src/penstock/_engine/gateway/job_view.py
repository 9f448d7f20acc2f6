"""A job as others see it: frozen data that the driver's loop makes and any thread reads without a lock."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock._engine.protocol.control import IOMetrics
from penstock._engine.protocol.rows import MIN_WATERMARK
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.gateway.checkpoint_view import CheckpointsView
    from penstock._engine.gateway.lost_view import LostView
    from penstock._engine.gateway.progress import JobFailure, JobProgress
    from penstock._engine.gateway.recovery_view import RecoveryView
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.protocol.control import LogLine
    from penstock._engine.protocol.metadata import GivenUp, StoredAccumulator


class TaskStatus(StrEnum):
    """The state of a subtask.

    Source: org.apache.flink.runtime.execution.ExecutionState.
    """

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    RECONCILING = "RECONCILING"
    INITIALIZING = "INITIALIZING"


@dataclass(frozen=True, slots=True)
class OperatorView:
    """One operator of a chain."""

    uid: str
    name: str
    #: Where the user's program made it: "file:line".
    created_at: str
    #: Whether it is a part of the one before it, and not shown by itself.
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class InputView:
    """An edge into a vertex."""

    #: The id of the vertex that feeds it.
    source: str
    #: Flink's name of the partitioner, such as HASH.
    ship_strategy: str


@dataclass(frozen=True, slots=True)
class VertexView:
    """The constant part of a vertex's view."""

    #: 32 hexadecimal digits, the same in each start of a job whose uids are the same.
    id: str
    name: str
    parallelism: int
    max_parallelism: int
    operators: tuple[OperatorView, ...]
    inputs: tuple[InputView, ...]


@dataclass(frozen=True, slots=True)
class PlanView:
    """The constant part of a job's view."""

    vertices: tuple[VertexView, ...]
    #: Whether the job ends by itself.
    bounded: bool
    parallelism: int
    #: -1 if it is derived from the parallelism.
    max_parallelism: int
    #: STREAMING or BATCH.
    job_type: str = "STREAMING"

    def vertex_of(self, uid: str) -> VertexView | None:
        """Return the vertex that an operator is in."""
        return next((one for one in self.vertices if any(node.uid == uid for node in one.operators)), None)


@dataclass(frozen=True, slots=True)
class SubtaskView:
    """The figures of a subtask: sums over the accepted epochs of this run, and over what it has recovered."""

    io: IOMetrics = field(default_factory=IOMetrics)
    #: Those of the last accepted epoch.
    last_io: IOMetrics = field(default_factory=IOMetrics)
    #: The milliseconds from the end of its turn to the end of the epoch: in all epochs of this run, and in the last.
    waited_ms: int = 0
    last_waited_ms: int = 0
    input_watermark: int = MIN_WATERMARK
    output_watermark: int = MIN_WATERMARK
    finished: bool = False
    finished_at: Moment | None = None
    #: The host on which it ran last; how many epochs it began there, and how many on another one than before.
    host: str = ""
    returns: int = 0
    moves: int = 0
    #: By operator uid: the metrics of its functions.
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, dict[str, float]])


@dataclass(frozen=True, slots=True)
class JobView:
    """A job at one moment."""

    #: 32 hexadecimal digits; empty while the id is unknown.
    job_id: str
    #: The id of this run.
    run_id: str
    name: str
    status: JobStatus
    #: When the job entered each status last.
    status_times: Mapping[JobStatus, Moment]
    started: Moment
    #: None as long as it has not ended.
    ended: Moment | None
    plan: PlanView
    #: By vertex and subtask, in the order of the plan.
    subtasks: tuple[tuple[SubtaskView, ...], ...]
    progress: JobProgress
    #: The time between the ends of the last two epochs, over which rates are computed.
    last_interval_ms: int
    #: The time in which the job was RUNNING.
    running_ms: int
    checkpoints: CheckpointsView
    #: Oldest first; `failures_dropped` older ones are not kept.
    failures: tuple[JobFailure, ...] = ()
    failures_dropped: int = 0
    #: Why a job ended without finishing: type and text on one line, and the error of the program.
    error: str | None = None
    error_text: str | None = None
    #: Whether it has ended with all of its input read in this run: a job that was stopped has FINISHED, too.
    is_complete: bool = False
    #: The numbers of committables that are not known to be published, by sink uid.
    pending_commits: Mapping[str, int] = field(default_factory=dict[str, int])
    #: By sink uid: the metrics of its committers in this run.
    commit_metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, "Mapping[str, float]"])
    #: By source uid: the metrics of its enumerator in this run.
    enumerator_metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, "Mapping[str, float]"])
    #: The accumulators of the job up to its last completed checkpoint, by name; and by vertex id and name.
    accumulators: Mapping[str, StoredAccumulator] = field(default_factory=dict[str, "StoredAccumulator"])
    vertex_accumulators: Mapping[str, Mapping[str, StoredAccumulator]] = field(
        default_factory=dict[str, "dict[str, StoredAccumulator]"]
    )
    #: By operator uid: the number of dropped late records, as of the last checkpoint.
    late_records: Mapping[str, int] = field(default_factory=dict[str, int])
    #: Committables that sinks' committers have given up in all runs of the job, oldest first.
    given_up: tuple[GivenUp, ...] = ()
    #: By source uid: the number of splits that finished readers left unread.
    unread_splits: Mapping[str, int] = field(default_factory=dict[str, int])
    #: The effective configuration, without secrets.
    configuration: Mapping[str, str] = field(default_factory=dict[str, str])
    #: The vertices of the stage that runs, or has run last; None for a stream, whose vertices run side by side.
    stage: frozenset[int] | None = None
    #: What was recovered of a batch job; None for a job without recovery.
    recovery: RecoveryView | None = None
    #: The last lines that user functions have logged in tasks.
    task_log: tuple[LogLine, ...] = ()
    #: For a run whose driver is gone without having ended it.
    lost: LostView | None = None

    @property
    def late_records_by_name(self) -> dict[str, int]:
        """The dropped records by the names of their operators; duplicate names are followed by the uid."""
        return self._by_name(self.late_records)

    @property
    def unread_splits_by_name(self) -> dict[str, int]:
        """The unread splits by the names of their sources, in the same way."""
        return self._by_name(self.unread_splits)

    def _by_name(self, counts: Mapping[str, int]) -> dict[str, int]:
        names = {operator.uid: operator.name for vertex in self.plan.vertices for operator in vertex.operators}
        often = Counter(names.values())
        return {
            names[uid] if often[names[uid]] == 1 else f"{names[uid]} ({uid})": count
            for uid, count in counts.items()
            if uid in names
        }

    @property
    def returned_share(self) -> float:
        """The share of subtasks that began an epoch on the host of the epoch before; 1 before the second epoch."""
        returns = sum(subtask.returns for vertex in self.subtasks for subtask in vertex)
        moves = sum(subtask.moves for vertex in self.subtasks for subtask in vertex)
        return returns / (returns + moves) if returns or moves else 1.0

    @property
    def restored_bytes(self) -> int:
        """The bytes of state that the subtasks read from checkpoints."""
        return sum(subtask.io.restored_bytes for vertex in self.subtasks for subtask in vertex)

    @property
    def is_of_chain(self) -> bool:
        """Whether its chain entries alone tell of it: all other figures went with its driver."""
        return self.progress.records < 0

    @property
    def is_over(self) -> bool:
        """Whether the job has ended in this driver."""
        return self.status.is_terminal_state()

    def task_status(self, vertex: int, subtask: int) -> TaskStatus:
        """Return the state of a subtask, from the state of the job and whether the subtask has finished.

        Args:
            vertex: Position of the vertex in the plan.
            subtask: Position of the subtask in the vertex.
        """
        if self.subtasks[vertex][subtask].finished:
            return TaskStatus.FINISHED
        if self.status is JobStatus.FAILED:
            return TaskStatus.FAILED if self._failed_at() == (vertex, subtask) else TaskStatus.CANCELED
        if self.status is JobStatus.RUNNING and self.stage is not None and vertex not in self.stage:
            return TaskStatus.CREATED
        return _STATUS_OF_TASKS[self.status]

    def _failed_at(self) -> tuple[int, int] | None:
        place = self.failures[-1].place if self.failures else None
        if place is None:
            return None
        vertex = self.plan.vertex_of(place.operator_uid)
        return None if vertex is None else (self.plan.vertices.index(vertex), place.subtask_index)


#: By status of the job: the status of its unfinished subtasks.
_STATUS_OF_TASKS = {
    JobStatus.INITIALIZING: TaskStatus.CREATED,
    JobStatus.CREATED: TaskStatus.CREATED,
    JobStatus.RUNNING: TaskStatus.RUNNING,
    JobStatus.RESTARTING: TaskStatus.CREATED,
    JobStatus.RECONCILING: TaskStatus.RECONCILING,
    JobStatus.FAILING: TaskStatus.CANCELING,
    JobStatus.CANCELLING: TaskStatus.CANCELING,
    JobStatus.CANCELED: TaskStatus.CANCELED,
    JobStatus.SUSPENDED: TaskStatus.CANCELED,
    JobStatus.FINISHED: TaskStatus.FINISHED,
}


def vertex_id(head_uid: str) -> str:
    """Return the id of a vertex, which is derived from the uid of its first operator.

    Example:
        >>> vertex_id("orders")
        '1c168adb00d208e42f93314529f1fa9c'
    """
    return hashlib.sha256(head_uid.encode("utf-8", "surrogatepass")).hexdigest()[:32]

"""The checkpoints of a job: counts, the last ones, a short history, and how a job makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from penstock._engine.gateway.checkpoint_view import CheckpointKind, CheckpointStatus, StatsSummary
from penstock._engine.rest.http_error import HttpError
from penstock._engine.rest.paths import as_uri
from penstock._engine.rest.routing import Route

if TYPE_CHECKING:
    from penstock._engine.gateway.checkpoint_view import (
        CheckpointsView,
        CheckpointView,
        RestoredView,
        SubtaskCheckpoint,
    )
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.rest.routing import HandlerRequest

#: Flink's text for a checkpoint whose directory is deleted with the job.
_NOT_ADDRESSABLE = "<checkpoint-not-externally-addressable>"


class CheckpointCounts(msgspec.Struct):
    """The numbers of checkpoints by state."""

    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class StatsSummaryInfo(msgspec.Struct):
    """The distribution of a figure over the completed checkpoints."""

    min: int
    max: int
    avg: int
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float


class CheckpointStatsSummary(msgspec.Struct):
    """The distributions of the figures of completed checkpoints."""

    checkpointed_size: StatsSummaryInfo
    state_size: StatsSummaryInfo
    end_to_end_duration: StatsSummaryInfo
    alignment_buffered: StatsSummaryInfo
    processed_data: StatsSummaryInfo
    persisted_data: StatsSummaryInfo


class TaskCheckpointStatistics(msgspec.Struct):
    """The part of a vertex in a checkpoint."""

    id: int
    status: str
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    penstock: FinishedSubtasks


class FinishedSubtasks(msgspec.Struct):
    """Penstock's own members: subtasks that had finished before, and added nothing."""

    finished_subtasks: int


class CheckpointNumber(msgspec.Struct):
    """Penstock's own members: the checkpoint that a savepoint was copied from, or that was tried."""

    checkpoint_id: int


class CheckpointStatistics(msgspec.Struct):
    """One checkpoint or savepoint; members that belong to one class are left out in others."""

    class_name: Literal["completed", "failed", "in_progress"] = msgspec.field(name="className")
    id: int
    status: str
    is_savepoint: bool
    savepoint_format: str | None = msgspec.field(name="savepointFormat")
    trigger_timestamp: int
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    tasks: dict[str, TaskCheckpointStatistics]
    penstock: CheckpointNumber
    external_path: str | msgspec.UnsetType = msgspec.UNSET
    discarded: bool | msgspec.UnsetType = msgspec.UNSET
    failure_timestamp: int | msgspec.UnsetType = msgspec.UNSET
    failure_message: str | msgspec.UnsetType = msgspec.UNSET


class RestoredCheckpointStatistics(msgspec.Struct):
    """The checkpoint or savepoint that the job last continued from."""

    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str | None


class LatestCheckpoints(msgspec.Struct):
    """The last one of each kind."""

    completed: CheckpointStatistics | None
    savepoint: CheckpointStatistics | None
    failed: CheckpointStatistics | None
    restored: RestoredCheckpointStatistics | None


class PendingCommits(msgspec.Struct):
    """Penstock's own members: committables that are not yet known to be published, by the uid of the sink."""

    pending_commits: dict[str, int]


class CheckpointRange(msgspec.Struct):
    """Checkpoints with neighbouring ids."""

    first: int
    last: int


class CheckpointExtras(PendingCommits):
    """Penstock's own members of the checkpoints."""

    #: Checkpoints that the origin of the job has completed after the checkpoint from which this job continued.
    published_again: CheckpointRange | None


class CheckpointingStatistics(msgspec.Struct):
    """The checkpoints of a job in this run."""

    counts: CheckpointCounts
    summary: CheckpointStatsSummary
    latest: LatestCheckpoints
    history: list[CheckpointStatistics]
    penstock: CheckpointExtras


class ExternalizedCheckpointInfo(msgspec.Struct):
    """Whether checkpoints stay."""

    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfigInfo(msgspec.Struct):
    """The checkpoint settings of a job, with times in milliseconds."""

    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: ExternalizedCheckpointInfo
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str


def checkpoints(request: HandlerRequest) -> CheckpointingStatistics:
    """The checkpoints of a job in this run."""
    return job_checkpoints(request.job)


def job_checkpoints(job: JobView) -> CheckpointingStatistics:
    """Return the checkpoints of a job."""
    known = _enabled(job)
    nothing = distribution(StatsSummary())
    restored = known.last_restored
    return CheckpointingStatistics(
        counts=CheckpointCounts(
            restored=known.restored,
            total=known.completed + known.failed + known.in_progress,
            in_progress=known.in_progress,
            completed=known.completed,
            failed=known.failed,
        ),
        summary=CheckpointStatsSummary(
            checkpointed_size=distribution(known.written_bytes),
            state_size=distribution(known.state_bytes),
            end_to_end_duration=distribution(known.durations_ms),
            alignment_buffered=nothing,
            processed_data=nothing,
            persisted_data=nothing,
        ),
        latest=LatestCheckpoints(
            completed=known.last_completed and _checkpoint(job, known.last_completed),
            savepoint=known.last_savepoint and _checkpoint(job, known.last_savepoint),
            failed=known.last_failed and _checkpoint(job, known.last_failed),
            restored=restored
            and RestoredCheckpointStatistics(
                restored.checkpoint_id, restored.restored_ms, restored.is_savepoint, _path(restored.path)
            ),
        ),
        history=[_checkpoint(job, entry) for entry in known.history],
        penstock=CheckpointExtras(dict(job.pending_commits), restored and _published_again(restored)),
    )


def _published_again(restored: RestoredView) -> CheckpointRange | None:
    return None if restored.later is None else CheckpointRange(restored.checkpoint_id + 1, restored.later)


def _enabled(job: JobView) -> CheckpointsView:
    if not job.checkpoints.settings.enabled:
        raise HttpError(404, f"Checkpointing has not been enabled for job {job.job_id}.")
    return job.checkpoints


def distribution(spread: StatsSummary) -> StatsSummaryInfo:
    """Return the distribution of a figure."""
    values = spread.values or (0,)
    quantiles = (spread.quantile(share) for share in (0.5, 0.9, 0.95, 0.99, 0.999))
    return StatsSummaryInfo(min(values), max(values), sum(values) // len(values), *quantiles)


def _path(path: str | None) -> str:
    return _NOT_ADDRESSABLE if path is None else as_uri(path)


def _checkpoint(job: JobView, entry: CheckpointView, *, tasks: bool = False) -> CheckpointStatistics:
    is_savepoint = entry.kind is not CheckpointKind.CHECKPOINT
    answer = CheckpointStatistics(
        class_name=_CLASSES[entry.status],
        id=entry.entry_id,
        status=entry.status.value,
        is_savepoint=is_savepoint,
        savepoint_format="CANONICAL" if is_savepoint else None,
        trigger_timestamp=entry.triggered.now_ms,
        latest_ack_timestamp=-1 if entry.acked is None else entry.acked.now_ms,
        checkpointed_size=entry.written_bytes,
        state_size=entry.state_bytes,
        end_to_end_duration=-1 if entry.duration_ms is None else entry.duration_ms,
        alignment_buffered=0,
        processed_data=0,
        persisted_data=0,
        num_subtasks=entry.subtask_count + sum(entry.finished),
        num_acknowledged_subtasks=entry.acknowledged + sum(entry.finished),
        checkpoint_type=entry.kind.value,
        tasks=_tasks(job, entry) if tasks else {},
        penstock=CheckpointNumber(entry.id),
    )
    match entry.status:
        case CheckpointStatus.COMPLETED:
            answer.external_path, answer.discarded = _path(entry.path), entry.discarded
        case CheckpointStatus.FAILED:
            answer.failure_timestamp, answer.failure_message = entry.ended.now_ms if entry.ended else 0, entry.failure
        case CheckpointStatus.IN_PROGRESS:
            pass
    return answer


_CLASSES: dict[CheckpointStatus, Literal["completed", "failed", "in_progress"]] = {
    CheckpointStatus.COMPLETED: "completed",
    CheckpointStatus.FAILED: "failed",
    CheckpointStatus.IN_PROGRESS: "in_progress",
}


def _tasks(job: JobView, entry: CheckpointView) -> dict[str, TaskCheckpointStatistics]:
    counts = entry.finished or (0,) * len(entry.subtasks)
    return {
        vertex.id: task_statistics(entry, list(parts.values()), vertex.parallelism, finished)
        for vertex, parts, finished in zip(job.plan.vertices, entry.subtasks, counts, strict=False)
        if parts or finished
    }


def task_statistics(
    entry: CheckpointView, parts: list[SubtaskCheckpoint], parallelism: int, finished: int
) -> TaskCheckpointStatistics:
    """Return the parts of a vertex's subtasks in a checkpoint; subtasks that had finished before count as done."""
    return TaskCheckpointStatistics(
        id=entry.id,
        status=entry.status.value,
        latest_ack_timestamp=max((part.acked_ms for part in parts), default=-1),
        checkpointed_size=sum(part.written_bytes for part in parts),
        state_size=sum(part.state_bytes for part in parts),
        end_to_end_duration=max((part.duration_ms for part in parts), default=-1),
        alignment_buffered=0,
        processed_data=0,
        persisted_data=0,
        num_subtasks=parallelism,
        num_acknowledged_subtasks=len(parts) + finished,
        penstock=FinishedSubtasks(finished),
    )


def details(request: HandlerRequest) -> CheckpointStatistics:
    """One checkpoint, with what each vertex added to it."""
    return checkpoint_details(request.job, request.number("checkpointid"))


def checkpoint_details(job: JobView, checkpoint_id: int) -> CheckpointStatistics:
    """Return one checkpoint of a job."""
    return _checkpoint(job, find_checkpoint(job, checkpoint_id), tasks=True)


def find_checkpoint(job: JobView, checkpoint_id: int) -> CheckpointView:
    """Return a checkpoint of a job; raises HttpError for one that is not in the history."""
    entry = _enabled(job).find(checkpoint_id)
    if entry is None:
        raise HttpError(404, f"Could not find checkpointing statistics for checkpoint {checkpoint_id}.")
    return entry


def config(request: HandlerRequest) -> CheckpointConfigInfo:
    """The checkpoint settings of a job."""
    return checkpoint_config(request.job)


def checkpoint_config(job: JobView) -> CheckpointConfigInfo:
    """Return the checkpoint settings of a job."""
    settings = _enabled(job).settings
    return CheckpointConfigInfo(
        mode="exactly_once",
        interval=settings.interval_ms,
        timeout=settings.timeout_ms,
        min_pause=settings.min_pause_ms,
        max_concurrent=1,
        externalization=ExternalizedCheckpointInfo(
            enabled=settings.durable, delete_on_cancellation=not settings.kept_on_cancel
        ),
        state_backend="Penstock (LMDB)",
        checkpoint_storage="FileSystemCheckpointStorage",
        unaligned_checkpoints=False,
        tolerable_failed_checkpoints=settings.tolerable_failures,
        aligned_checkpoint_timeout=0,
        checkpoints_after_tasks_finish=True,
        state_changelog_enabled=False,
        changelog_periodic_materialization_interval=0,
        changelog_storage="",
    )


#: Of all routes about checkpoints.
UNKNOWN = {404: "There is no such job or checkpoint, or it makes no checkpoints that stay."}

ROUTES = (
    Route("GET", "/jobs/{jobid}/checkpoints", checkpoints, CheckpointingStatistics, errors=UNKNOWN),
    Route("GET", "/jobs/{jobid}/checkpoints/config", config, CheckpointConfigInfo, errors=UNKNOWN),
    Route("GET", "/jobs/{jobid}/checkpoints/details/{checkpointid}", details, CheckpointStatistics, errors=UNKNOWN),
)

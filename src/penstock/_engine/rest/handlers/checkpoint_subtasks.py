"""One checkpoint of a job by the subtasks of a vertex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from penstock._engine.gateway.checkpoint_view import StatsSummary
from penstock._engine.rest.handlers.checkpoints import (
    UNKNOWN,
    StatsSummaryInfo,
    TaskCheckpointStatistics,
    distribution,
    find_checkpoint,
    task_statistics,
)
from penstock._engine.rest.http_error import HttpError
from penstock._engine.rest.routing import Route

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.gateway.checkpoint_view import SubtaskCheckpoint
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.rest.routing import HandlerRequest


class CheckpointDuration(msgspec.Struct):
    """Time of the two parts of a snapshot; ours has one."""

    sync: int
    async_: int = msgspec.field(name="async")


class CheckpointAlignment(msgspec.Struct):
    """Times and bytes of barrier alignment; always 0, as there are no barriers."""

    buffered: int
    processed: int
    persisted: int
    duration: int


class SubtaskCheckpointStatistics(msgspec.Struct):
    """The part of one subtask in a checkpoint; before its acknowledgement, only its index and status."""

    class_name: Literal["completed", "pending"] = msgspec.field(name="className")
    index: int
    status: str
    ack_timestamp: int | msgspec.UnsetType = msgspec.UNSET
    end_to_end_duration: int | msgspec.UnsetType = msgspec.UNSET
    checkpointed_size: int | msgspec.UnsetType = msgspec.UNSET
    state_size: int | msgspec.UnsetType = msgspec.UNSET
    checkpoint: CheckpointDuration | msgspec.UnsetType = msgspec.UNSET
    alignment: CheckpointAlignment | msgspec.UnsetType = msgspec.UNSET
    start_delay: int | msgspec.UnsetType = msgspec.UNSET
    unaligned_checkpoint: bool | msgspec.UnsetType = msgspec.UNSET
    aborted: bool | msgspec.UnsetType = msgspec.UNSET


class CheckpointDurationSummary(msgspec.Struct):
    """The distribution of the synchronous and asynchronous times."""

    sync: StatsSummaryInfo
    async_: StatsSummaryInfo = msgspec.field(name="async")


class CheckpointAlignmentSummary(msgspec.Struct):
    """The distribution of the figures of barrier alignment."""

    buffered: StatsSummaryInfo
    processed: StatsSummaryInfo
    persisted: StatsSummaryInfo
    duration: StatsSummaryInfo


class SubtaskCheckpointSummary(msgspec.Struct):
    """The distribution of the figures over the subtasks of a vertex."""

    checkpointed_size: StatsSummaryInfo
    state_size: StatsSummaryInfo
    end_to_end_duration: StatsSummaryInfo
    checkpoint_duration: CheckpointDurationSummary
    alignment: CheckpointAlignmentSummary
    start_delay: StatsSummaryInfo


class TaskCheckpointStatisticsWithSubtaskDetails(TaskCheckpointStatistics):
    """The part of each subtask of a vertex in a checkpoint."""

    summary: SubtaskCheckpointSummary
    subtasks: list[SubtaskCheckpointStatistics]


def subtasks(request: HandlerRequest) -> TaskCheckpointStatisticsWithSubtaskDetails:
    """The part of each subtask of a vertex in a checkpoint."""
    return subtask_details(request.job, request.number("checkpointid"), request.id("vertexid"))


def subtask_details(job: JobView, checkpoint_id: int, vertex_id: str) -> TaskCheckpointStatisticsWithSubtaskDetails:
    """Return the part of each subtask of a vertex in a checkpoint."""
    entry = find_checkpoint(job, checkpoint_id)
    places = [place for place, vertex in enumerate(job.plan.vertices) if vertex.id == vertex_id]
    if not places:
        raise HttpError(404, f"JobVertex {vertex_id} not found")
    vertex = job.plan.vertices[places[0]]
    parts = entry.subtasks[places[0]] if entry.subtasks else {}
    finished = entry.finished[places[0]] if entry.finished else 0
    task = task_statistics(entry, list(parts.values()), vertex.parallelism, finished)
    return TaskCheckpointStatisticsWithSubtaskDetails(
        **msgspec.structs.asdict(task),
        summary=_subtask_summary(parts.values()),
        subtasks=[_subtask(index, parts.get(index)) for index in range(vertex.parallelism)],
    )


def _subtask_summary(parts: Iterable[SubtaskCheckpoint]) -> SubtaskCheckpointSummary:
    known = list(parts)
    durations = distribution(StatsSummary(tuple(part.duration_ms for part in known)))
    nothing = distribution(StatsSummary())
    return SubtaskCheckpointSummary(
        checkpointed_size=distribution(StatsSummary(tuple(part.written_bytes for part in known))),
        state_size=distribution(StatsSummary(tuple(part.state_bytes for part in known))),
        end_to_end_duration=durations,
        checkpoint_duration=CheckpointDurationSummary(durations, nothing),
        alignment=CheckpointAlignmentSummary(nothing, nothing, nothing, nothing),
        start_delay=nothing,
    )


def _subtask(index: int, part: SubtaskCheckpoint | None) -> SubtaskCheckpointStatistics:
    if part is None:
        return SubtaskCheckpointStatistics("pending", index, "pending_or_failed")
    return SubtaskCheckpointStatistics(
        class_name="completed",
        index=index,
        status="completed",
        ack_timestamp=part.acked_ms,
        end_to_end_duration=part.duration_ms,
        checkpointed_size=part.written_bytes,
        state_size=part.state_bytes,
        checkpoint=CheckpointDuration(part.duration_ms, 0),
        alignment=CheckpointAlignment(0, 0, 0, 0),
        start_delay=0,
        unaligned_checkpoint=False,
        aborted=False,
    )


ROUTES = (
    Route(
        "GET",
        "/jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}",
        subtasks,
        TaskCheckpointStatisticsWithSubtaskDetails,
        errors=UNKNOWN,
    ),
)

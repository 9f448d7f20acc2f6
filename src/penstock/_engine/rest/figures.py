"""Figures that several answers share: states of tasks, what subtasks read and wrote, and times."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from penstock._engine.gateway.job_view import TaskStatus
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.gateway.job_view import JobView, SubtaskView
    from penstock._engine.protocol.clocks import Moment


class IOMetricsInfo(msgspec.Struct, rename="kebab"):
    """Records and bytes read and written since the job started in this process, and its times in milliseconds."""

    read_bytes: int
    write_bytes: int
    read_records: int
    write_records: int
    accumulated_backpressured_time: int
    accumulated_idle_time: int
    accumulated_busy_time: float
    read_bytes_complete: bool = True
    write_bytes_complete: bool = True
    read_records_complete: bool = True
    write_records_complete: bool = True


def io_metrics(job: JobView, subtasks: Iterable[SubtaskView]) -> IOMetricsInfo:
    """Return the figures of some subtasks added up."""
    parts = list(subtasks)
    return IOMetricsInfo(
        read_bytes=sum(part.io.bytes_in for part in parts),
        write_bytes=sum(part.io.bytes_out for part in parts),
        read_records=sum(part.io.records_in for part in parts),
        write_records=sum(part.io.records_out for part in parts),
        accumulated_backpressured_time=sum(part.waited_ms for part in parts),
        accumulated_idle_time=sum(idle_ms(job, part) for part in parts),
        accumulated_busy_time=float(sum(part.io.busy_ms for part in parts)),
    )


def status_counts(statuses: Iterable[TaskStatus]) -> dict[TaskStatus, int]:
    """Return the number of occurrences of each status, including those that do not occur."""
    found = Counter(statuses)
    return {status: found[status] for status in TaskStatus}


def vertex_statuses(job: JobView, vertex: int) -> list[TaskStatus]:
    """Return the state of each subtask of a vertex."""
    return [job.task_status(vertex, subtask) for subtask in range(job.plan.vertices[vertex].parallelism)]


def aggregate_status(statuses: Iterable[TaskStatus]) -> TaskStatus:
    """Return the state of a vertex: the worst state of its subtasks, and FINISHED when all of them have finished.

    Source: org.apache.flink.runtime.executiongraph.ExecutionJobVertex.getAggregateJobVertexState.
    """
    found = list(statuses)
    for status in (TaskStatus.FAILED, TaskStatus.CANCELING, TaskStatus.CANCELED, TaskStatus.RUNNING):
        if status in found:
            return status
    if all(status is TaskStatus.FINISHED for status in found):
        return TaskStatus.FINISHED
    return TaskStatus.CREATED


class TimeSpan(msgspec.Struct):
    """Start and end in epoch milliseconds, and the duration; -1 for a time that has not come."""

    start: int
    end: int
    duration: int


def subtask_span(job: JobView, subtask: SubtaskView, now: Moment) -> TimeSpan:
    """Return start and end of a subtask."""
    start = job.status_times.get(JobStatus.RUNNING)
    if start is None:
        return TimeSpan(-1, -1, -1)
    # It may have finished before the job was restarted last.
    return _span(start, subtask.finished_at if subtask.finished else job.ended, now)


def job_span(job: JobView, now: Moment) -> TimeSpan:
    """Return start and end of a job in this process."""
    return _span(job.started, job.ended, now)


def _span(start: Moment, end: Moment | None, now: Moment) -> TimeSpan:
    """Return a span: its ends by the time of day, its duration by the monotonic clock."""
    return TimeSpan(start.now_ms, -1 if end is None else end.now_ms, max(0, (end or now).since(start)))


def idle_ms(job: JobView, subtask: SubtaskView) -> int:
    """Return the time of this run in which a subtask neither worked nor waited."""
    return max(0, job.running_ms - subtask.io.busy_ms - subtask.waited_ms)


class TimeShares(msgspec.Struct):
    """What a subtask did with the time of the last epoch; the shares sum up to 1.

    The levels of an epoch run in turn. So a subtask waits from the end of its own turn to the end of the epoch, while
    its slower siblings and the levels below work: this is what holds it back, as back pressure does in Flink. It is
    idle while the levels above work, while its own input has nothing, and between two epochs.
    """

    busy: float
    waiting: float
    idle: float


def time_shares(job: JobView, subtask: SubtaskView) -> TimeShares:
    """Return what a subtask did with the time of the last epoch."""
    whole = job.last_interval_ms
    busy = min(1.0, subtask.last_io.busy_ms / whole) if whole > 0 else 0.0
    waiting = min(1.0 - busy, subtask.last_waited_ms / whole) if whole > 0 else 0.0
    return TimeShares(busy, waiting, 1.0 - busy - waiting)

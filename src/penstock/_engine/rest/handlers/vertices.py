"""The vertices of a job: their subtasks with what each read and wrote, watermarks, and how busy they are."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

import msgspec

from penstock._engine.gateway.executor_view import SPARK
from penstock._engine.gateway.job_view import TaskStatus
from penstock._engine.rest.accumulators import UserTaskAccumulator, shown_accumulators
from penstock._engine.rest.figures import (
    IOMetricsInfo,
    aggregate_status,
    io_metrics,
    status_counts,
    subtask_span,
    time_shares,
    vertex_statuses,
)
from penstock._engine.rest.http_error import HttpError
from penstock._engine.rest.routing import Route
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from penstock._engine.gateway.job_view import JobView, VertexView
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.rest.routing import HandlerRequest

#: Spark has executors where Flink has task managers, and moves subtasks between them from epoch to epoch.
_TASK_MANAGER: Final = SPARK
_OK: Final = 0.1
_LOW: Final = 0.5
_ENDPOINT: Final = f"{socket.gethostname()}:0"


class SubtaskExecutionAttemptDetailsInfo(msgspec.Struct, rename="kebab"):
    """One subtask."""

    subtask: int
    status: TaskStatus
    attempt: int
    endpoint: str
    start_time: int
    #: Flink has it twice.
    start_time_again: int = msgspec.field(name="start_time")
    end_time: int
    duration: int
    metrics: IOMetricsInfo
    taskmanager_id: str
    status_duration: dict[TaskStatus, int]


class MetricRange(msgspec.Struct):
    """A figure over all subtasks."""

    min: float
    max: float
    avg: float
    sum: float


class AggregatedTaskDetailsInfo(msgspec.Struct, rename="kebab"):
    """The figures of all subtasks together."""

    metrics: dict[str, MetricRange]
    status_duration: dict[TaskStatus, MetricRange]


class JobVertexDetailsInfo(msgspec.Struct, rename="camel"):
    """A vertex with its subtasks."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    now: int
    subtasks: list[SubtaskExecutionAttemptDetailsInfo]
    aggregated: AggregatedTaskDetailsInfo


class SubtaskTimeInfo(msgspec.Struct):
    """When a subtask was in which state, in epoch milliseconds."""

    subtask: int
    endpoint: str
    duration: int
    timestamps: dict[TaskStatus, int]


class SubtasksTimesInfo(msgspec.Struct):
    """When the subtasks of a vertex were in which state."""

    id: str
    name: str
    now: int
    subtasks: list[SubtaskTimeInfo]


class JobVertexTaskManager(msgspec.Struct, rename="kebab"):
    """The subtasks of a vertex that are in one place; there is one place, because Spark chooses anew each epoch."""

    endpoint: str
    status: TaskStatus
    start_time: int
    end_time: int
    duration: int
    metrics: IOMetricsInfo
    status_counts: dict[TaskStatus, int]
    taskmanager_id: str
    aggregated: AggregatedTaskDetailsInfo


class JobVertexTaskManagersInfo(msgspec.Struct):
    """Where the subtasks of a vertex are."""

    id: str
    name: str
    now: int
    taskmanagers: list[JobVertexTaskManager]


class SubtaskWatermark(msgspec.Struct):
    """The watermark of a subtask, as text."""

    id: str
    value: str


class SubtaskBackPressureInfo(msgspec.Struct):
    """How busy a subtask is, as shares of its time."""

    subtask: int
    level: str = msgspec.field(name="backpressureLevel")
    #: Flink has it twice.
    level_again: str = msgspec.field(name="backpressure-level")
    ratio: float
    idle_ratio: float = msgspec.field(name="idleRatio")
    busy_ratio: float = msgspec.field(name="busyRatio")


class JobVertexBackPressureInfo(msgspec.Struct):
    """How busy the subtasks of a vertex are, and how long they wait for others."""

    status: str
    level: str = msgspec.field(name="backpressureLevel")
    level_again: str = msgspec.field(name="backpressure-level")
    end_timestamp: int = msgspec.field(name="end-timestamp")
    subtasks: list[SubtaskBackPressureInfo]
    penstock: RatioMeaning


class RatioMeaning(msgspec.Struct):
    """Penstock's own members: what a ratio means where the levels of an epoch run in turn."""

    ratio: str = (
        "the share of the last epoch's time from the end of the subtask's turn to the end of the epoch: its slower "
        "siblings and the levels below work meanwhile"
    )
    busy_ratio: str = "the share in which it works"
    idle_ratio: str = "the rest: the levels above work, its input has nothing, or no epoch runs"


class JobVertexAccumulatorsInfo(msgspec.Struct, rename="kebab"):
    """The accumulators of a vertex."""

    id: str
    user_accumulators: list[UserTaskAccumulator]


class SubtaskAccumulatorsInfo(msgspec.Struct, rename="kebab"):
    """The accumulators of one subtask: none, because they are known for the whole vertex only."""

    subtask: int
    attempt: int
    endpoint: str
    user_accumulators: list[UserTaskAccumulator]


class SubtasksAllAccumulatorsInfo(msgspec.Struct):
    """The accumulators of a vertex by its subtasks."""

    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulatorsInfo]


class SubtaskExecutionAttemptAccumulatorsInfo(msgspec.Struct, rename="kebab"):
    """The accumulators of one attempt of a subtask."""

    subtask: int
    attempt: int
    id: str
    user_accumulators: list[UserTaskAccumulator]


def find_vertex(job: JobView, vertex_id: str) -> tuple[int, VertexView]:
    """Return a vertex and its place in the plan; raise HttpError for an unknown id."""
    for place, vertex in enumerate(job.plan.vertices):
        if vertex.id == vertex_id:
            return place, vertex
    raise HttpError(404, f"JobVertex {vertex_id} not found")


def details(request: HandlerRequest) -> JobVertexDetailsInfo:
    """A vertex with its subtasks."""
    return vertex_details(request.job, request.id("vertexid"), request.context.clock())


def vertex_details(job: JobView, vertex_id: str, now: Moment) -> JobVertexDetailsInfo:
    """Return a vertex with its subtasks."""
    place, vertex = find_vertex(job, vertex_id)
    subtasks = [execution(job, place, index, now) for index in range(vertex.parallelism)]
    return JobVertexDetailsInfo(
        id=vertex.id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        now=now.now_ms,
        subtasks=subtasks,
        aggregated=_aggregated(subtasks),
    )


def execution(job: JobView, place: int, index: int, now: Moment) -> SubtaskExecutionAttemptDetailsInfo:
    """Return one subtask of a vertex."""
    subtask = job.subtasks[place][index]
    span = subtask_span(job, subtask, now)
    return SubtaskExecutionAttemptDetailsInfo(
        subtask=index,
        status=job.task_status(place, index),
        attempt=job.progress.restarts,
        endpoint=_ENDPOINT,
        start_time=span.start,
        start_time_again=span.start,
        end_time=span.end,
        duration=span.duration,
        metrics=io_metrics(job, [subtask]),
        taskmanager_id=_TASK_MANAGER,
        status_duration=_durations(job, span.duration),
    )


def _durations(job: JobView, duration_ms: int) -> dict[TaskStatus, int]:
    """Return the time of a subtask in each state up to RUNNING; -1 for states that it has not reached."""
    created = job.status_times.get(JobStatus.CREATED)
    if created is None:
        return dict.fromkeys(_WAY, -1)
    running = job.status_times.get(JobStatus.RUNNING)
    if running is None:
        return dict.fromkeys(_WAY, -1) | {TaskStatus.CREATED: (job.ended or created).since(created)}
    return dict.fromkeys(_WAY, 0) | {
        TaskStatus.CREATED: max(0, running.since(created)),
        TaskStatus.RUNNING: duration_ms,
    }


_WAY = (TaskStatus.CREATED, TaskStatus.SCHEDULED, TaskStatus.DEPLOYING, TaskStatus.INITIALIZING, TaskStatus.RUNNING)
_FIGURES = (
    "read_bytes",
    "write_bytes",
    "read_records",
    "write_records",
    "accumulated_backpressured_time",
    "accumulated_idle_time",
    "accumulated_busy_time",
)


def _aggregated(subtasks: list[SubtaskExecutionAttemptDetailsInfo]) -> AggregatedTaskDetailsInfo:
    return AggregatedTaskDetailsInfo(
        {name.replace("_", "-"): _range([getattr(subtask.metrics, name) for subtask in subtasks]) for name in _FIGURES},
        {status: _range([subtask.status_duration[status] for subtask in subtasks]) for status in _WAY},
    )


def _range(values: list[float]) -> MetricRange:
    return MetricRange(min(values), max(values), sum(values) / len(values), sum(values))


def subtask(request: HandlerRequest) -> SubtaskExecutionAttemptDetailsInfo:
    """One subtask of a vertex."""
    place, vertex = find_vertex(request.job, request.id("vertexid"))
    index = request.number("subtaskindex")
    if index >= vertex.parallelism:
        raise HttpError(404, f"Invalid subtask index for vertex {vertex.id}: {index}")
    return execution(request.job, place, index, request.context.clock())


def attempt(request: HandlerRequest) -> SubtaskExecutionAttemptDetailsInfo:
    """One attempt of a subtask; only the last one is known."""
    found = subtask(request)
    wanted = request.number("attempt")
    if wanted != found.attempt:
        raise HttpError(404, f"Only the current attempt is known, which is {found.attempt}, and not attempt {wanted}.")
    return found


def attempt_accumulators(request: HandlerRequest) -> SubtaskExecutionAttemptAccumulatorsInfo:
    """The accumulators of an attempt: none, because they are known for the whole vertex alone."""
    found = attempt(request)
    name = f"{request.id('vertexid')}_{found.subtask}_{found.attempt}"
    return SubtaskExecutionAttemptAccumulatorsInfo(found.subtask, found.attempt, name, [])


def subtask_accumulators(request: HandlerRequest) -> SubtasksAllAccumulatorsInfo:
    """The accumulators by subtask: none, because they are known for the whole vertex alone."""
    _, vertex = find_vertex(request.job, request.id("vertexid"))
    number = request.job.progress.restarts
    rows = [SubtaskAccumulatorsInfo(index, number, _ENDPOINT, []) for index in range(vertex.parallelism)]
    return SubtasksAllAccumulatorsInfo(vertex.id, vertex.parallelism, rows)


def times(request: HandlerRequest) -> SubtasksTimesInfo:
    """When the subtasks of a vertex were in which state."""
    return subtask_times(request.job, request.id("vertexid"), request.context.clock())


def subtask_times(job: JobView, vertex_id: str, now: Moment) -> SubtasksTimesInfo:
    """Return the times of the subtasks of a vertex in each state."""
    place, vertex = find_vertex(job, vertex_id)
    rows: list[SubtaskTimeInfo] = []
    for index, figures in enumerate(job.subtasks[place]):
        span, status = subtask_span(job, figures, now), job.task_status(place, index)
        stamps = dict.fromkeys(TaskStatus, 0)
        created = job.status_times.get(JobStatus.CREATED)
        stamps[TaskStatus.CREATED] = 0 if created is None else created.now_ms
        for reached in (TaskStatus.SCHEDULED, TaskStatus.DEPLOYING, TaskStatus.INITIALIZING, TaskStatus.RUNNING):
            stamps[reached] = max(0, span.start)
        if span.end >= 0:
            stamps[status] = span.end
        rows.append(SubtaskTimeInfo(index, _ENDPOINT, span.duration, stamps))
    return SubtasksTimesInfo(vertex.id, vertex.name, now.now_ms, rows)


def task_managers(request: HandlerRequest) -> JobVertexTaskManagersInfo:
    """Where the subtasks of a vertex are: Spark chooses that anew for each epoch."""
    return vertex_task_managers(request.job, request.id("vertexid"), request.context.clock())


def vertex_task_managers(job: JobView, vertex_id: str, now: Moment) -> JobVertexTaskManagersInfo:
    """Return the task managers of the subtasks of a vertex."""
    place, vertex = find_vertex(job, vertex_id)
    subtasks = [execution(job, place, index, now) for index in range(vertex.parallelism)]
    statuses = vertex_statuses(job, place)
    over = all(one.end_time >= 0 for one in subtasks)
    row = JobVertexTaskManager(
        endpoint=_ENDPOINT,
        status=aggregate_status(statuses),
        start_time=min(one.start_time for one in subtasks),
        end_time=max(one.end_time for one in subtasks) if over else -1,
        duration=max(one.duration for one in subtasks),
        metrics=io_metrics(job, job.subtasks[place]),
        status_counts=status_counts(statuses),
        taskmanager_id=_TASK_MANAGER,
        aggregated=_aggregated(subtasks),
    )
    return JobVertexTaskManagersInfo(vertex.id, vertex.name, now.now_ms, [row])


def watermarks(request: HandlerRequest) -> list[SubtaskWatermark]:
    """The watermark of each subtask of a vertex, as of the last epoch."""
    place, _ = find_vertex(request.job, request.id("vertexid"))
    return [
        SubtaskWatermark(f"{index}.currentInputWatermark", str(subtask.input_watermark))
        for index, subtask in enumerate(request.job.subtasks[place])
    ]


def back_pressure(request: HandlerRequest) -> JobVertexBackPressureInfo:
    """How busy the subtasks of a vertex were in the last epoch."""
    place, _ = find_vertex(request.job, request.id("vertexid"))
    rows: list[SubtaskBackPressureInfo] = []
    for index, figures in enumerate(request.job.subtasks[place]):
        shares = time_shares(request.job, figures)
        level = _level(shares.waiting)
        rows.append(SubtaskBackPressureInfo(index, level, level, shares.waiting, shares.idle, shares.busy))
    level = _level(max(row.ratio for row in rows))
    return JobVertexBackPressureInfo("ok", level, level, request.context.clock().now_ms, rows, RatioMeaning())


def _level(ratio: float) -> str:
    """Return the level of a ratio; source: org.apache.flink.runtime.rest.handler.job.JobVertexBackPressureHandler."""
    return "ok" if ratio <= _OK else "low" if ratio <= _LOW else "high"


def accumulators(request: HandlerRequest) -> JobVertexAccumulatorsInfo:
    """The accumulators of a vertex as of the job's last completed checkpoint, as texts."""
    find_vertex(request.job, request.id("vertexid"))
    return vertex_accumulators(request.job, request.id("vertexid"))


def vertex_accumulators(job: JobView, vertex_id: str) -> JobVertexAccumulatorsInfo:
    """Return the accumulators of a vertex."""
    return JobVertexAccumulatorsInfo(vertex_id, shown_accumulators(job.vertex_accumulators.get(vertex_id, {})))


_UNKNOWN = {404: "There is no such job, vertex or subtask."}
_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"
_ATTEMPT = f"{_VERTEX}/subtasks/{{subtaskindex}}/attempts/{{attempt}}"

ROUTES = (
    Route("GET", _VERTEX, details, JobVertexDetailsInfo, errors=_UNKNOWN),
    Route("GET", f"{_VERTEX}/subtasktimes", times, SubtasksTimesInfo, errors=_UNKNOWN),
    Route("GET", f"{_VERTEX}/taskmanagers", task_managers, JobVertexTaskManagersInfo, errors=_UNKNOWN),
    Route("GET", f"{_VERTEX}/watermarks", watermarks, list[SubtaskWatermark], errors=_UNKNOWN),
    Route("GET", f"{_VERTEX}/backpressure", back_pressure, JobVertexBackPressureInfo, errors=_UNKNOWN),
    Route("GET", f"{_VERTEX}/accumulators", accumulators, JobVertexAccumulatorsInfo, errors=_UNKNOWN),
    Route("GET", f"{_VERTEX}/subtasks/{{subtaskindex}}", subtask, SubtaskExecutionAttemptDetailsInfo, errors=_UNKNOWN),
    Route(
        *("GET", f"{_VERTEX}/subtasks/accumulators", subtask_accumulators, SubtasksAllAccumulatorsInfo),
        errors=_UNKNOWN,
    ),
    Route("GET", _ATTEMPT, attempt, SubtaskExecutionAttemptDetailsInfo, errors=_UNKNOWN),
    Route(
        *("GET", f"{_ATTEMPT}/accumulators", attempt_accumulators, SubtaskExecutionAttemptAccumulatorsInfo),
        errors=_UNKNOWN,
    ),
)

"""Jobs: the lists, one job with its vertices and plan, its settings, and how it ended."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import msgspec

from penstock._engine.gateway.job_view import TaskStatus
from penstock._engine.rest.accumulators import JobAccumulatorsInfo, job_accumulators
from penstock._engine.rest.figures import (
    IOMetricsInfo,
    aggregate_status,
    io_metrics,
    job_span,
    status_counts,
    subtask_span,
    vertex_statuses,
)
from penstock._engine.rest.http_error import HttpError
from penstock._engine.rest.job_progress import JobProgressNumbers, job_progress
from penstock._engine.rest.routing import QueryParameter, Route
from penstock._engine.rest.throwable import FailureCause, failure_cause
from penstock.common.configuration import Configuration
from penstock.common.job_status import JobStatus
from penstock.common.option_table import GLOBAL_JOB_PARAMETERS, OBJECT_REUSE

if TYPE_CHECKING:
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.rest.routing import HandlerRequest

_SCHEDULER = "Default"


class JobIdWithStatus(msgspec.Struct):
    """A job's id and status."""

    id: str
    status: str


class JobIdsWithStatusOverview(msgspec.Struct):
    """The jobs of this process."""

    jobs: list[JobIdWithStatus]


class TaskCounts(msgspec.Struct):
    """The numbers of a job's subtasks by state."""

    total: int
    created: int
    scheduled: int
    deploying: int
    running: int
    finished: int
    canceling: int
    canceled: int
    failed: int
    reconciling: int
    initializing: int


class JobDetailsSummary(msgspec.Struct, rename="kebab"):
    """One job in the list."""

    jid: str
    name: str
    job_type: str = msgspec.field(name="jobType")
    scheduler_type: str = msgspec.field(name="schedulerType")
    start_time: int
    end_time: int
    duration: int
    state: str
    last_modification: int
    pending_operators: int
    tasks: TaskCounts
    penstock: JobProgressNumbers


class MultipleJobsDetails(msgspec.Struct):
    """The jobs of this process, with some figures."""

    jobs: list[JobDetailsSummary]


class PlanInput(msgspec.Struct):
    """An edge into a node."""

    id: str
    num: int
    exchange: str
    ship_strategy: str


class PlanOperator(msgspec.Struct):
    """One operator of a chain."""

    uid: str
    name: str
    #: Where the program made it: "file:line".
    created_at: str


class PlanNode(msgspec.Struct):
    """A vertex in the plan."""

    id: str
    parallelism: int
    description: str
    penstock: list[PlanOperator]
    operator: str = ""
    operator_strategy: str = ""
    optimizer_properties: dict[str, str] = {}
    inputs: list[PlanInput] | msgspec.UnsetType = msgspec.UNSET


class Plan(msgspec.Struct):
    """The vertices of a job and the edges between them, last vertex first."""

    jid: str
    name: str
    type: str
    nodes: list[PlanNode]


class JobPlanInfo(msgspec.Struct):
    """A job's plan."""

    plan: Plan


class JobVertexDetails(msgspec.Struct, rename="kebab"):
    """A vertex in the details of a job."""

    id: str
    slot_sharing_group_id: str = msgspec.field(name="slotSharingGroupId")
    name: str
    max_parallelism: int = msgspec.field(name="maxParallelism")
    parallelism: int
    status: TaskStatus
    start_time: int
    end_time: int
    duration: int
    tasks: dict[TaskStatus, int]
    metrics: IOMetricsInfo


class JobDetailsInfo(msgspec.Struct, rename="kebab"):
    """All about a job at one moment."""

    jid: str
    application_id: str
    name: str
    is_stoppable: bool = msgspec.field(name="isStoppable")
    state: str
    job_type: str
    scheduler_type: str = msgspec.field(name="schedulerType")
    start_time: int
    end_time: int
    duration: int
    max_parallelism: int = msgspec.field(name="maxParallelism")
    now: int
    timestamps: dict[str, int]
    vertices: list[JobVertexDetails]
    status_counts: dict[TaskStatus, int]
    plan: Plan
    pending_operators: int
    penstock: JobProgressNumbers


class JobStatusInfo(msgspec.Struct):
    """A job's status."""

    status: str


class QueueStatus(msgspec.Struct):
    """IN_PROGRESS or COMPLETED."""

    id: str


class JobResult(msgspec.Struct, rename="kebab"):
    """The result of a job."""

    id: str
    application_id: str
    name: str
    application_status: str
    net_runtime: int
    start_time: int
    end_time: int
    accumulator_results: dict[str, str] = {}
    failure_cause: FailureCause | msgspec.UnsetType = msgspec.UNSET


class JobExecutionResultResponseBody(msgspec.Struct, rename="kebab"):
    """The result of a job, once it has ended."""

    status: QueueStatus
    job_execution_result: JobResult | msgspec.UnsetType = msgspec.UNSET


class ExecutionConfigInfo(msgspec.Struct, rename="kebab"):
    """Some of a job's settings."""

    restart_strategy: str
    job_parallelism: int
    object_reuse_mode: bool
    user_config: dict[str, str]


class JobConfigInfo(msgspec.Struct, rename="kebab"):
    """A job's settings."""

    jid: str
    name: str
    execution_config: ExecutionConfigInfo


def job_ids(request: HandlerRequest) -> JobIdsWithStatusOverview:
    """The ids and statuses of all jobs of this process."""
    return JobIdsWithStatusOverview([JobIdWithStatus(view.job_id, view.status.name) for view in _views(request)])


def overview(request: HandlerRequest) -> MultipleJobsDetails:
    """All jobs of this process: those that run, and those that ended within jobstore.expiration-time."""
    return MultipleJobsDetails([job_overview(view, request.context.clock()) for view in _views(request)])


def _views(request: HandlerRequest) -> list[JobView]:
    return [control.view for control in request.context.jobs.all()]


def job_overview(job: JobView, now: Moment) -> JobDetailsSummary:
    """Return a job's line in the list."""
    span = job_span(job, now)
    counts = status_counts(status for at in range(len(job.plan.vertices)) for status in vertex_statuses(job, at))
    return JobDetailsSummary(
        jid=job.job_id,
        name=job.name,
        job_type=job.plan.job_type,
        scheduler_type=_SCHEDULER,
        start_time=span.start,
        end_time=span.end,
        duration=span.duration,
        state=job.status.name,
        last_modification=max(job.status_times.values(), key=lambda entered: entered.passed_ms).now_ms,
        pending_operators=0,
        tasks=TaskCounts(sum(counts.values()), **{status.name.lower(): number for status, number in counts.items()}),
        penstock=job_progress(job),
    )


def details(request: HandlerRequest) -> JobDetailsInfo:
    """All about a job at one moment: its vertices, its plan, when it was in which status."""
    return job_details(request.job, request.context.clock())


def job_details(job: JobView, now: Moment) -> JobDetailsInfo:
    """Return the details of a job."""
    span = job_span(job, now)
    vertices = [_vertex(job, place, now) for place in range(len(job.plan.vertices))]
    return JobDetailsInfo(
        jid=job.job_id,
        application_id=job.job_id,
        name=job.name,
        is_stoppable=False,
        state=job.status.name,
        job_type=job.plan.job_type,
        scheduler_type=_SCHEDULER,
        start_time=span.start,
        end_time=span.end,
        duration=span.duration,
        max_parallelism=job.plan.max_parallelism,
        now=now.now_ms,
        timestamps={
            status.name: job.status_times[status].now_ms if status in job.status_times else 0 for status in JobStatus
        },
        vertices=vertices,
        status_counts=status_counts(vertex.status for vertex in vertices),
        plan=job_plan(job),
        pending_operators=0,
        penstock=job_progress(job),
    )


def _vertex(job: JobView, place: int, now: Moment) -> JobVertexDetails:
    vertex, statuses = job.plan.vertices[place], vertex_statuses(job, place)
    spans = [subtask_span(job, subtask, now) for subtask in job.subtasks[place]]
    over = all(span.end >= 0 for span in spans)
    return JobVertexDetails(
        id=vertex.id,
        slot_sharing_group_id="0" * 32,
        name=vertex.name,
        max_parallelism=vertex.max_parallelism,
        parallelism=vertex.parallelism,
        status=aggregate_status(statuses),
        start_time=min(span.start for span in spans),
        end_time=max(span.end for span in spans) if over else -1,
        duration=max(span.duration for span in spans),
        tasks=status_counts(statuses),
        metrics=io_metrics(job, job.subtasks[place]),
    )


def plan(request: HandlerRequest) -> JobPlanInfo:
    """The vertices of a job and the edges between them."""
    return JobPlanInfo(job_plan(request.job))


def job_plan(job: JobView) -> Plan:
    """Return the plan of a job."""
    nodes = [
        PlanNode(
            id=vertex.id,
            parallelism=vertex.parallelism,
            description=escape(vertex.name),
            penstock=[
                PlanOperator(node.uid, node.name, node.created_at) for node in vertex.operators if not node.is_part
            ],
            inputs=[
                PlanInput(edge.source, number, "pipelined_bounded", edge.ship_strategy)
                for number, edge in enumerate(vertex.inputs)
            ]
            or msgspec.UNSET,
        )
        for vertex in reversed(job.plan.vertices)
    ]
    return Plan(job.job_id, job.name, job.plan.job_type, nodes)


def status(request: HandlerRequest) -> JobStatusInfo:
    """A job's status."""
    return JobStatusInfo(request.job.status.name)


def execution_result(request: HandlerRequest) -> JobExecutionResultResponseBody:
    """The result of a job, once it has ended."""
    control = request.context.jobs.find(request.id("jobid"))
    if control is None:
        raise HttpError(404, f"Could not find Flink job ({request.id('jobid')})")
    job = control.view
    if not job.status.is_globally_terminal_state():
        return JobExecutionResultResponseBody(QueueStatus("IN_PROGRESS"))
    span = job_span(job, request.context.clock())
    cause = msgspec.UNSET
    if job.status is not JobStatus.FINISHED and job.error is not None:
        cause = failure_cause(job.error.partition(":")[0], job.error, job.error_text or job.error)
    result = JobResult(
        id=job.job_id,
        application_id=job.job_id,
        name=job.name,
        application_status="SUCCEEDED" if job.status is JobStatus.FINISHED else job.status.name,
        net_runtime=span.duration,
        start_time=span.start,
        end_time=span.end,
        failure_cause=cause,
    )
    return JobExecutionResultResponseBody(QueueStatus("COMPLETED"), result)


def config(request: HandlerRequest) -> JobConfigInfo:
    """Some of a job's settings."""
    return job_config(request.job)


def job_config(job: JobView) -> JobConfigInfo:
    """Return the settings of a job."""
    known, configuration = job.configuration, Configuration.from_dict(dict(job.configuration))
    settings = ExecutionConfigInfo(
        restart_strategy=known.get("restart-strategy.type", "Cluster level default restart strategy"),
        job_parallelism=job.plan.parallelism,
        object_reuse_mode=configuration.get(OBJECT_REUSE),
        user_config=dict(configuration.get(GLOBAL_JOB_PARAMETERS)),
    )
    return JobConfigInfo(job.job_id, job.name, settings)


def accumulators(request: HandlerRequest) -> JobAccumulatorsInfo:
    """A job's accumulators as of its last completed checkpoint, as texts; serialized ones are for Java alone."""
    return job_accumulators(request.job)


_UNKNOWN = {404: "There is no such job."}

ROUTES = (
    Route("GET", "/jobs", job_ids, JobIdsWithStatusOverview),
    Route("GET", "/jobs/overview", overview, MultipleJobsDetails),
    Route("GET", "/jobs/{jobid}", details, JobDetailsInfo, errors=_UNKNOWN),
    Route("GET", "/jobs/{jobid}/status", status, JobStatusInfo, errors=_UNKNOWN),
    Route("GET", "/jobs/{jobid}/execution-result", execution_result, JobExecutionResultResponseBody, errors=_UNKNOWN),
    Route("GET", "/jobs/{jobid}/plan", plan, JobPlanInfo, errors=_UNKNOWN),
    Route("GET", "/jobs/{jobid}/config", config, JobConfigInfo, errors=_UNKNOWN),
    Route(
        "GET",
        "/jobs/{jobid}/accumulators",
        accumulators,
        JobAccumulatorsInfo,
        query=(QueryParameter("includeSerializedValue", "taken and ignored", ("true", "false")),),
        errors=_UNKNOWN,
    ),
)

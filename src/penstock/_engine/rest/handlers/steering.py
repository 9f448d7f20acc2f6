"""Changing a running job: cancelling it, and its parallelism, which stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock._engine.rest.access import Role
from penstock._engine.rest.handlers.cluster import EmptyResponseBody
from penstock._engine.rest.http_error import HttpError
from penstock._engine.rest.routing import QueryParameter, Route
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from penstock._engine.rest.routing import HandlerRequest


class ParallelismBounds(msgspec.Struct, rename="camel"):
    """Between which parallelisms a vertex may be."""

    lower_bound: int
    upper_bound: int


class JobVertexResourceRequirements(msgspec.Struct):
    """The resource requirements of a vertex."""

    parallelism: ParallelismBounds


def cancel(request: HandlerRequest) -> EmptyResponseBody:
    """Cancel a job."""
    if request.query("mode") == "stop":
        raise HttpError(
            308,
            'The termination mode "stop" has been removed. For an ungraceful shutdown, please use "cancel" instead. '
            'For a graceful shutdown, please use "jobs/:jobId/stop" instead.',
        )
    control = request.context.jobs.find(request.id("jobid"))
    if control is None:
        raise HttpError(404, "Job could not be found.")
    ended = control.view.status
    if ended in {JobStatus.FINISHED, JobStatus.FAILED, JobStatus.SUSPENDED}:
        reason = f"the job has already reached another terminal state ({ended.name})"
        raise HttpError(409, f"Job cancellation failed because {reason}.")
    control.cancel()
    return EmptyResponseBody()


def heartbeat(request: HandlerRequest) -> EmptyResponseBody:
    """Say that a client is there: no job ends because its client does."""
    assert request.job
    return EmptyResponseBody()


def requirements(request: HandlerRequest) -> dict[str, JobVertexResourceRequirements]:
    """Between which parallelisms each vertex may be: it has the one that it has."""
    return {
        one.id: JobVertexResourceRequirements(ParallelismBounds(one.parallelism, one.parallelism))
        for one in request.job.plan.vertices
    }


def change_requirements(request: HandlerRequest) -> EmptyResponseBody:
    """Change parallelisms: refused, unless each vertex may stay as it is."""
    wanted: dict[str, JobVertexResourceRequirements] = request.body
    for vertex in request.job.plan.vertices:
        bounds = wanted[vertex.id].parallelism if vertex.id in wanted else None
        if bounds is not None and not bounds.lower_bound <= vertex.parallelism <= bounds.upper_bound:
            raise _fixed_parallelism()
    return EmptyResponseBody()


def rescale(request: HandlerRequest) -> EmptyResponseBody:
    """Change a job's parallelism: refused."""
    assert request.job
    raise _fixed_parallelism()


def _fixed_parallelism() -> HttpError:
    return HttpError(
        400,
        "A running job keeps its parallelism. Stop it with a savepoint, and start it from there with another one.",
    )


_UNKNOWN = {404: "There is no such job."}
_MODE = QueryParameter("mode", "how to end it; only cancel is left", ("cancel", "stop"), default="cancel")
_CANCEL_REFUSALS = {
    308: "The mode is stop, which Flink has removed.",
    404: "There is no such job.",
    409: "The job has ended in another way already.",
}

ROUTES = (
    Route("PATCH", "/jobs/{jobid}", cancel, EmptyResponseBody, 202, query=(_MODE,), errors=_CANCEL_REFUSALS),
    Route(
        *("GET", "/jobs/{jobid}/yarn-cancel", cancel, EmptyResponseBody, 202),
        query=(_MODE,),
        role=Role.OPERATOR,
        errors=_CANCEL_REFUSALS,
    ),
    Route("PATCH", "/jobs/{jobid}/clientHeartbeat", heartbeat, EmptyResponseBody, 202, errors=_UNKNOWN),
    Route(
        "GET",
        "/jobs/{jobid}/resource-requirements",
        requirements,
        dict[str, JobVertexResourceRequirements],
        errors=_UNKNOWN,
    ),
    Route(
        "PUT",
        "/jobs/{jobid}/resource-requirements",
        change_requirements,
        EmptyResponseBody,
        body=dict[str, JobVertexResourceRequirements],
        errors=_UNKNOWN,
    ),
    Route(
        "PATCH",
        "/jobs/{jobid}/rescaling",
        rescale,
        EmptyResponseBody,
        query=(QueryParameter("parallelism", "the parallelism to have", number=True),),
        errors=_UNKNOWN,
    ),
)

"""Changing a running job: cancelling it, and its parallelism, which stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock._engine.rest.handlers.cluster import Empty
from penstock._engine.rest.refusal import Refusal
from penstock._engine.rest.routing import Query, Route
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from penstock._engine.rest.routing import Call


class Bounds(msgspec.Struct, rename="camel"):
    """Between which parallelisms a vertex may be."""

    lower_bound: int
    upper_bound: int


class Requirements(msgspec.Struct):
    """What a vertex needs."""

    parallelism: Bounds


def cancel(call: Call) -> Empty:
    """Cancel a job."""
    if call.query("mode") == "stop":
        raise Refusal(
            308,
            'The termination mode "stop" has been removed. For an ungraceful shutdown, please use "cancel" instead. '
            'For a graceful shutdown, please use "jobs/:jobId/stop" instead.',
        )
    control = call.site.jobs.find(call.id("jobid"))
    if control is None:
        raise Refusal(404, "Job could not be found.")
    ended = control.view.status
    if ended in {JobStatus.FINISHED, JobStatus.FAILED, JobStatus.SUSPENDED}:
        reason = f"the job has already reached another terminal state ({ended.name})"
        raise Refusal(409, f"Job cancellation failed because {reason}.")
    control.cancel()
    return Empty()


def requirements(call: Call) -> dict[str, Requirements]:
    """Between which parallelisms each vertex may be: it has the one that it has."""
    return {one.id: Requirements(Bounds(one.parallelism, one.parallelism)) for one in call.job.plan.vertices}


def change_requirements(call: Call) -> Empty:
    """Change parallelisms: refused, unless each vertex may stay as it is."""
    wanted: dict[str, Requirements] = call.body
    for vertex in call.job.plan.vertices:
        bounds = wanted[vertex.id].parallelism if vertex.id in wanted else None
        if bounds is not None and not bounds.lower_bound <= vertex.parallelism <= bounds.upper_bound:
            raise _fixed_parallelism()
    return Empty()


def rescale(call: Call) -> Empty:
    """Change a job's parallelism: refused."""
    assert call.job
    raise _fixed_parallelism()


def _fixed_parallelism() -> Refusal:
    return Refusal(
        400,
        "A running job keeps its parallelism. Stop it with a savepoint, and start it from there with another one.",
    )


_UNKNOWN = {404: "There is no such job."}
_MODE = Query("mode", "how to end it; only cancel is left", ("cancel", "stop"), default="cancel")
_CANCEL_REFUSALS = {
    308: "The mode is stop, which Flink has removed.",
    404: "There is no such job.",
    409: "The job has ended in another way already.",
}

ROUTES = (
    Route("PATCH", "/jobs/{jobid}", cancel, Empty, 202, query=(_MODE,), refusals=_CANCEL_REFUSALS),
    Route("GET", "/jobs/{jobid}/yarn-cancel", cancel, Empty, 202, query=(_MODE,), refusals=_CANCEL_REFUSALS),
    Route("GET", "/jobs/{jobid}/resource-requirements", requirements, dict[str, Requirements], refusals=_UNKNOWN),
    Route(
        "PUT",
        "/jobs/{jobid}/resource-requirements",
        change_requirements,
        Empty,
        body=dict[str, Requirements],
        refusals=_UNKNOWN,
    ),
    Route(
        "PATCH",
        "/jobs/{jobid}/rescaling",
        rescale,
        Empty,
        query=(Query("parallelism", "the parallelism to have", number=True),),
        refusals=_UNKNOWN,
    ),
)

"""The archive of an ended job for Flink's history server: one file with the REST answers about the job, by path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock._engine.rest.handlers import checkpoint_subtasks, checkpoints, exceptions, jobs, vertices
from penstock._engine.rest.http_error import ErrorResponseBody, HttpError
from penstock._engine.rest.routing import json_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.protocol.clocks import Moment


class ArchivedAnswer(msgspec.Struct):
    """An answer as text, with the path that it answers."""

    path: str
    json: str


class Archive(msgspec.Struct):
    """All REST answers about a job."""

    archive: list[ArchivedAnswer]


def archive(job: JobView) -> bytes:
    """Return the content of the file, which is named by the job's id.

    Source: org.apache.flink.runtime.history.FsJsonArchivist.
    """
    answers = [ArchivedAnswer(path, json_of(answer).decode()) for path, answer in _answers(job)]
    return json_of(Archive(answers))


def _answers(job: JobView) -> Iterator[tuple[str, Any]]:
    now = job.ended or job.started
    at = f"/jobs/{job.job_id}"
    yield "/jobs/overview", {"jobs": [_overview(job, now)]}
    yield at, jobs.job_details(job, now)
    yield f"{at}/plan", jobs.JobPlanInfo(jobs.job_plan(job))
    yield f"{at}/config", jobs.job_config(job)
    yield f"{at}/accumulators", jobs.job_accumulators(job)
    yield f"{at}/exceptions", exceptions.job_exceptions(job, len(job.failures))
    yield f"{at}/checkpoints", _or_refusal(lambda: checkpoints.job_checkpoints(job))
    yield f"{at}/checkpoints/config", _or_refusal(lambda: checkpoints.checkpoint_config(job))
    if job.checkpoints.settings.enabled:
        for number in dict.fromkeys(entry.entry_id for entry in job.checkpoints.history):
            yield f"{at}/checkpoints/details/{number}", checkpoints.checkpoint_details(job, number)
            for vertex in job.plan.vertices:
                path = f"{at}/checkpoints/details/{number}/subtasks/{vertex.id}"
                yield path, checkpoint_subtasks.subtask_details(job, number, vertex.id)
    for vertex in job.plan.vertices:
        below = f"{at}/vertices/{vertex.id}"
        yield below, vertices.vertex_details(job, vertex.id, now)
        yield f"{below}/subtasktimes", vertices.subtask_times(job, vertex.id, now)
        yield f"{below}/taskmanagers", vertices.vertex_task_managers(job, vertex.id, now)
        yield f"{below}/accumulators", vertices.vertex_accumulators(job, vertex.id)


def _overview(job: JobView, now: Moment) -> dict[str, Any]:
    """Return a job's line in the list of jobs.

    The history server puts the lines of all jobs together, and lists none where one has a member that is not Flink's.
    """
    line: dict[str, Any] = msgspec.to_builtins(jobs.job_overview(job, now))
    del line["penstock"]
    return line


def _or_refusal(answer: Callable[[], Any]) -> Any:
    try:
        return answer()
    except HttpError as error:
        return ErrorResponseBody([error.text])

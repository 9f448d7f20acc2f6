"""The archive of an ended job for history servers, Flink's and ours: a file with the REST answers about it, by path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from penstock._engine.protocol.decoders import json_decoder
from penstock._engine.rest.context import Jobs, RestContext
from penstock._engine.rest.directories import DirectoryPolicy
from penstock._engine.rest.handlers import (
    checkpoint_subtasks,
    checkpoints,
    cluster,
    configuration,
    exceptions,
    jobs,
    log,
    metric_series,
    metrics,
    vertices,
)
from penstock._engine.rest.http_error import ErrorResponseBody, HttpError
from penstock._engine.rest.routing import HandlerRequest, json_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.gateway.job_control import JobControl
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.rest.metric_history import MetricHistory
    from penstock._engine.rest.routing import Route

#: All that readers ask about one job. A subtask's own metrics are among those of its vertex.
_JOB: Final = "/jobs/{jobid}"
_DETAILS: Final = re.compile("/jobs/[0-9a-f]{32}")
_ROUTES: Final = tuple(
    route
    for module in (
        jobs,
        exceptions,
        checkpoints,
        checkpoint_subtasks,
        vertices,
        metrics,
        metric_series,
        cluster,
        configuration,
        log,
    )
    for route in module.ROUTES
    if (route.method, route.role) == ("GET", None)
    and route.path.startswith(_JOB)
    and not route.path.endswith("{subtaskindex}/metrics")
)


#: What the process of the driver tells, and no other.
_OF_PROCESS: Final = frozenset(route.path for route in (*configuration.ROUTES, *log.ROUTES))


class ArchivedAnswer(msgspec.Struct):
    """An answer as text, with the path that it answers."""

    path: str
    json: str


class Archive(msgspec.Struct):
    """All REST answers about a job."""

    archive: list[ArchivedAnswer]


def archive(job: JobView, figures: MetricHistory | None = None) -> bytes:
    """Return the content of the file, which is named by the job's id.

    Source: org.apache.flink.runtime.history.FsJsonArchivist.

    Args:
        job: The job.
        figures: Its metrics over time; None without them.
    """
    answers = [ArchivedAnswer(path, json_of(answer).decode()) for path, answer in _answers(job, figures)]
    return json_of(Archive(answers))


@dataclass(frozen=True, slots=True)
class _EndedJob:
    """All that handlers ask of the control of a job that has ended."""

    view: JobView


def _answers(job: JobView, figures: MetricHistory | None) -> Iterator[tuple[str, Any]]:
    now = job.ended or job.started
    yield "/jobs/overview", {"jobs": [_overview(job, now)]}
    context = _context(job, now, figures)
    for route in _ROUTES:
        if job.is_of_chain and route.path in _OF_PROCESS:
            continue
        for parameters in _parameters(job, route.parameters, {}):
            path = route.path.format_map(parameters)
            yield path, _or_refusal(context, route, parameters)


def _context(job: JobView, now: Moment, figures: MetricHistory | None) -> RestContext:
    """Return a context of one job, in which nothing can be steered."""
    one = Jobs(0, lambda: now)
    one.add(cast("JobControl", _EndedJob(job)), figures)
    nothing = cast("Any", None)
    return RestContext(
        *(one, nothing, lambda: now, tuple, job.configuration, DirectoryPolicy(()), nothing, nothing, None, nothing)
    )


def _parameters(job: JobView, names: list[str], chosen: dict[str, str]) -> Iterator[dict[str, str]]:
    """Iterate all values of the parameters of a path, which are ids of the job and of its parts."""
    if not names:
        yield chosen
        return
    for value in _values(job, names[0], chosen):
        yield from _parameters(job, names[1:], {**chosen, names[0]: str(value)})


def _values(job: JobView, name: str, chosen: dict[str, str]) -> list[Any]:
    match name:
        case "jobid":
            return [job.job_id]
        case "vertexid":
            return [vertex.id for vertex in job.plan.vertices]
        case "subtaskindex":
            return list(range(next(one.parallelism for one in job.plan.vertices if one.id == chosen["vertexid"])))
        case "attempt":
            return [job.progress.restarts]
        case "checkpointid" if job.checkpoints.settings.enabled:
            return list(dict.fromkeys(entry.entry_id for entry in job.checkpoints.history))
        case _:
            return []


def _or_refusal(context: RestContext, route: Route, parameters: dict[str, str]) -> Any:
    """Return the whole answer: all failures, and all metrics with their values."""
    known = {parameter.name for parameter in route.query}
    try:
        query = {"maxExceptions": str(len(context.jobs.all()[0].view.failures))} if "maxExceptions" in known else {}
        answer = route.handler(HandlerRequest(context, route, parameters, query, b""))
        if "get" in known:
            names = ",".join(metric.id for metric in answer)
            answer = route.handler(HandlerRequest(context, route, parameters, {"get": names}, b""))
    except HttpError as error:
        return ErrorResponseBody([error.text])
    else:
        return answer


def _overview(job: JobView, now: Moment) -> dict[str, Any]:
    """Return a job's line in the list of jobs.

    The history server puts the lines of all jobs together, and lists none where one has a member that is not Flink's.
    """
    line: dict[str, Any] = msgspec.to_builtins(jobs.job_overview(job, now))
    del line["penstock"]
    return line


def answers_of(content: bytes) -> dict[str, bytes] | None:
    """Return the answers of an archive by path, Flink's own as well; None for what is no archive."""
    try:
        return {answer.path: answer.json.encode() for answer in json_decoder(Archive).decode(content).archive}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def run_of(content: bytes) -> tuple[str, int] | None:
    """Return the run that an archive is of, and when it began; None where it does not say so."""
    answers = answers_of(content) or {}
    details = msgspec.json.decode(next((answers[path] for path in answers if _DETAILS.fullmatch(path)), b"{}"))
    run = details.get("penstock", {}).get("run_id")
    return None if run is None else (run, details["start-time"])

"""Metrics by name, of one thing or over several of a kind."""

from __future__ import annotations

from statistics import fmean, pstdev
from typing import TYPE_CHECKING

import msgspec

from penstock._engine.rest.handlers.vertices import find_vertex
from penstock._engine.rest.metrics import (
    enumerator_metrics,
    flat,
    job_metrics,
    process_metrics,
    subtask_metrics,
    value_text,
    vertex_metrics,
)
from penstock._engine.rest.prometheus import exposition
from penstock._engine.rest.routing import QueryParameter, Route

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._engine.rest.metrics import Value
    from penstock._engine.rest.routing import HandlerRequest


class MetricValue(msgspec.Struct):
    """A metric, with its value as text if the request asks for values."""

    id: str
    value: str | msgspec.UnsetType = msgspec.UNSET


class AggregatedMetric(msgspec.Struct):
    """A metric over several things, with the aggregates that the request asks for."""

    id: str
    min: float | msgspec.UnsetType = msgspec.UNSET
    max: float | msgspec.UnsetType = msgspec.UNSET
    avg: float | msgspec.UnsetType = msgspec.UNSET
    sum: float | msgspec.UnsetType = msgspec.UNSET
    #: Standard deviation in percent of the mean.
    skew: float | msgspec.UnsetType = msgspec.UNSET


def of_process(request: HandlerRequest) -> list[MetricValue]:
    """Metrics of the process."""
    return chosen(
        request, process_metrics(request.context.jobs.all(), request.context.slots, len(request.context.executors()))
    )


def of_job(request: HandlerRequest) -> list[MetricValue]:
    """Metrics of a job; none when there is no such job, as in Flink."""
    control = request.context.jobs.find(request.id("jobid"))
    return [] if control is None else chosen(request, job_metrics(control.view, request.context.clock()))


def of_vertex(request: HandlerRequest) -> list[MetricValue]:
    """Metrics of the subtasks of a vertex and of their operators; names begin with the index of the subtask."""
    place, _ = find_vertex(request.job, request.id("vertexid"))
    return chosen(request, vertex_metrics(request.job, place))


def of_coordinators(request: HandlerRequest) -> list[MetricValue]:
    """Metrics of the enumerators of a vertex; names begin with the operator."""
    _, vertex = find_vertex(request.job, request.id("vertexid"))
    figures = {
        f"{flat(operator.name)}.{name}": value
        for operator in vertex.operators
        for name, value in enumerator_metrics(request.job, operator.uid).items()
    }
    return chosen(request, figures)


def of_subtask(request: HandlerRequest) -> list[MetricValue]:
    """Metrics of one subtask."""
    place, vertex = find_vertex(request.job, request.id("vertexid"))
    index = request.number("subtaskindex")
    figures = subtask_metrics(request.job, request.job.subtasks[place][index]) if index < vertex.parallelism else {}
    return chosen(request, figures)


def of_jobs(request: HandlerRequest) -> list[AggregatedMetric]:
    """Metrics over several jobs, all when none is named."""
    wanted = request.names("jobs")
    views = [control.view for control in request.context.jobs.all()]
    chosen = [view for view in views if wanted is None or view.job_id in wanted]
    return aggregated(request, [job_metrics(view, request.context.clock()) for view in chosen])


def of_subtasks(request: HandlerRequest) -> list[AggregatedMetric]:
    """Metrics over several subtasks of a vertex, all when none is named: "0", or ranges such as "0-3"."""
    place, vertex = find_vertex(request.job, request.id("vertexid"))
    wanted = _indexes(request.names("subtasks"), vertex.parallelism)
    return aggregated(request, [subtask_metrics(request.job, request.job.subtasks[place][index]) for index in wanted])


def prometheus(request: HandlerRequest) -> str:
    """All metrics in the text format of Prometheus, with the names that Flink's reporter gives them."""
    return exposition(request.context)


def _indexes(names: list[str] | None, parallelism: int) -> list[int]:
    if names is None:
        return list(range(parallelism))
    found: set[int] = set()
    for name in names:
        first, _, last = name.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), min(int(last or first), parallelism - 1) + 1))
    return sorted(found)


def chosen(request: HandlerRequest, known: Mapping[str, Value]) -> list[MetricValue]:
    """Return the metrics of one thing that a request asks for; their names alone where it names none."""
    wanted = request.names("get")
    if wanted is None:
        return [MetricValue(name) for name in known]
    return [MetricValue(name, value_text(known[name])) for name in wanted if name in known]


def aggregated(request: HandlerRequest, rows: list[dict[str, Value]]) -> list[AggregatedMetric]:
    """Return metrics over several things, as a request asks for them."""
    wanted = request.names("get")
    if wanted is None:
        return [AggregatedMetric(name) for name in (rows[0] if rows else {})]
    modes = request.names("agg") or ["min", "max", "avg", "sum", "skew"]
    answers: list[AggregatedMetric] = []
    for name in wanted:
        values = [value for row in rows if isinstance(value := row.get(name), int | float)]
        if values:
            answers.append(_over(name, values, modes))
    return answers


def _over(name: str, values: list[int | float], modes: Iterable[str]) -> AggregatedMetric:
    mean = fmean(values)
    figures = {
        "min": float(min(values)),
        "max": float(max(values)),
        "avg": mean,
        "sum": float(sum(values)),
        "skew": pstdev(values) / mean * 100 if mean else 0.0,
    }
    return AggregatedMetric(name, **{mode: figures[mode] for mode in modes if mode in figures})


NAMED = QueryParameter("get", "names of metrics, with commas between; the names of all when left out")
_AGG = QueryParameter("agg", "min, max, avg, sum or skew, with commas between; all of them when left out")
AGGREGATED = (NAMED, _AGG)
_UNKNOWN = {404: "There is no such job or vertex."}
_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"

ROUTES = (
    Route("GET", "/metrics", prometheus, str),
    Route("GET", "/jobmanager/metrics", of_process, list[MetricValue], query=(NAMED,)),
    Route(
        "GET",
        "/jobs/metrics",
        of_jobs,
        list[AggregatedMetric],
        query=(*AGGREGATED, QueryParameter("jobs", "ids of jobs")),
    ),
    Route("GET", "/jobs/{jobid}/metrics", of_job, list[MetricValue], query=(NAMED,)),
    Route("GET", f"{_VERTEX}/metrics", of_vertex, list[MetricValue], query=(NAMED,), errors=_UNKNOWN),
    Route(
        *("GET", f"{_VERTEX}/jm-operator-metrics", of_coordinators, list[MetricValue]),
        query=(NAMED,),
        errors=_UNKNOWN,
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/metrics",
        of_subtasks,
        list[AggregatedMetric],
        query=(*AGGREGATED, QueryParameter("subtasks", "indexes of subtasks, or ranges of them")),
        errors=_UNKNOWN,
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/{{subtaskindex}}/metrics",
        of_subtask,
        list[MetricValue],
        query=(NAMED,),
        errors=_UNKNOWN,
    ),
)

"""Metrics by name, of one thing or over several of a kind."""

from __future__ import annotations

from statistics import fmean, pstdev
from typing import TYPE_CHECKING

import msgspec

from penstock._engine.rest.handlers.vertices import find_vertex
from penstock._engine.rest.metrics import job_metrics, process_metrics, subtask_metrics, vertex_metrics
from penstock._engine.rest.prometheus import exposition
from penstock._engine.rest.routing import Query, Route

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._engine.rest.metrics import Value
    from penstock._engine.rest.routing import Call


class Metric(msgspec.Struct):
    """A metric; its value, as text, where values were asked for."""

    id: str
    value: str | msgspec.UnsetType = msgspec.UNSET


class AggregatedMetric(msgspec.Struct):
    """A metric over several things; what was asked for of it."""

    id: str
    min: float | msgspec.UnsetType = msgspec.UNSET
    max: float | msgspec.UnsetType = msgspec.UNSET
    avg: float | msgspec.UnsetType = msgspec.UNSET
    sum: float | msgspec.UnsetType = msgspec.UNSET
    #: Standard deviation in percent of the mean.
    skew: float | msgspec.UnsetType = msgspec.UNSET


def of_process(call: Call) -> list[Metric]:
    """Metrics of the process."""
    return _chosen(call, process_metrics(call.site.jobs.all(), call.site.slots))


def of_job(call: Call) -> list[Metric]:
    """Metrics of a job; none when there is no such job, as in Flink."""
    control = call.site.jobs.find(call.id("jobid"))
    return [] if control is None else _chosen(call, job_metrics(control.view, call.site.clock()))


def of_vertex(call: Call) -> list[Metric]:
    """Metrics of the subtasks of a vertex, and of their operators; the index of the subtask stands first."""
    place, _ = find_vertex(call.job, call.id("vertexid"))
    return _chosen(call, vertex_metrics(call.job, place))


def of_subtask(call: Call) -> list[Metric]:
    """Metrics of one subtask."""
    place, vertex = find_vertex(call.job, call.id("vertexid"))
    index = call.number("subtaskindex")
    figures = subtask_metrics(call.job, call.job.subtasks[place][index]) if index < vertex.parallelism else {}
    return _chosen(call, figures)


def of_jobs(call: Call) -> list[AggregatedMetric]:
    """Metrics over several jobs, all when none is named."""
    wanted = call.names("jobs")
    views = [control.view for control in call.site.jobs.all()]
    chosen = [view for view in views if wanted is None or view.job_id in wanted]
    return _aggregated(call, [job_metrics(view, call.site.clock()) for view in chosen])


def of_subtasks(call: Call) -> list[AggregatedMetric]:
    """Metrics over several subtasks of a vertex, all when none is named: "0", or ranges such as "0-3"."""
    place, vertex = find_vertex(call.job, call.id("vertexid"))
    wanted = _indexes(call.names("subtasks"), vertex.parallelism)
    return _aggregated(call, [subtask_metrics(call.job, call.job.subtasks[place][index]) for index in wanted])


def of_task_managers(_: Call) -> list[AggregatedMetric]:
    """Metrics over Flink's task managers: none, Spark shows its executors itself."""
    return []


def prometheus(call: Call) -> str:
    """All metrics in the text format of Prometheus, with the names that Flink's reporter gives them."""
    return exposition(call.site)


def _indexes(names: list[str] | None, parallelism: int) -> list[int]:
    if names is None:
        return list(range(parallelism))
    found: set[int] = set()
    for name in names:
        first, _, last = name.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), min(int(last or first), parallelism - 1) + 1))
    return sorted(found)


def _chosen(call: Call, known: Mapping[str, Value]) -> list[Metric]:
    wanted = call.names("get")
    if wanted is None:
        return [Metric(name) for name in known]
    return [Metric(name, str(known[name])) for name in wanted if name in known]


def _aggregated(call: Call, rows: list[dict[str, Value]]) -> list[AggregatedMetric]:
    wanted = call.names("get")
    if wanted is None:
        return [AggregatedMetric(name) for name in (rows[0] if rows else {})]
    modes = call.names("agg") or ["min", "max", "avg", "sum", "skew"]
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


_GET = Query("get", "names of metrics, with commas between; the names of all when left out")
_AGG = Query("agg", "min, max, avg, sum or skew, with commas between; all of them when left out")
_UNKNOWN = {404: "There is no such job or vertex."}
_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"

ROUTES = (
    Route("GET", "/metrics", prometheus, str),
    Route("GET", "/jobmanager/metrics", of_process, list[Metric], query=(_GET,)),
    Route("GET", "/taskmanagers/metrics", of_task_managers, list[AggregatedMetric], query=(_GET, _AGG)),
    Route("GET", "/jobs/metrics", of_jobs, list[AggregatedMetric], query=(_GET, _AGG, Query("jobs", "ids of jobs"))),
    Route("GET", "/jobs/{jobid}/metrics", of_job, list[Metric], query=(_GET,)),
    Route("GET", f"{_VERTEX}/metrics", of_vertex, list[Metric], query=(_GET,), refusals=_UNKNOWN),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/metrics",
        of_subtasks,
        list[AggregatedMetric],
        query=(_GET, _AGG, Query("subtasks", "indexes of subtasks, or ranges of them")),
        refusals=_UNKNOWN,
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/{{subtaskindex}}/metrics",
        of_subtask,
        list[Metric],
        query=(_GET,),
        refusals=_UNKNOWN,
    ),
)

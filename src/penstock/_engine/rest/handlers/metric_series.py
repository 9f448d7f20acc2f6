"""Metrics over time: of a job, and of a vertex over all its subtasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock._engine.rest.handlers.metrics import NAMED
from penstock._engine.rest.handlers.vertices import find_vertex
from penstock._engine.rest.routing import Route

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._engine.rest.metric_history import Sample
    from penstock._engine.rest.routing import HandlerRequest


class MetricSeries(msgspec.Struct):
    """A metric over the last hour, with its values if the request asks for them by its name."""

    id: str
    #: The time of the first value in epoch milliseconds, and the milliseconds from it to each value.
    start: int | msgspec.UnsetType = msgspec.UNSET
    offsets: list[int] | msgspec.UnsetType = msgspec.UNSET
    values: list[float] | msgspec.UnsetType = msgspec.UNSET


def of_job(request: HandlerRequest) -> list[MetricSeries]:
    """Metrics of a job over the last hour, with those of its checkpoints."""
    return _series(request, [(sample, sample.job) for sample in _samples(request)])


def of_vertex(request: HandlerRequest) -> list[MetricSeries]:
    """Metrics of a vertex over the last hour: those of its subtasks added up, and the smallest of their watermarks."""
    place, _ = find_vertex(request.job, request.id("vertexid"))
    return _series(request, [(sample, sample.vertices[place]) for sample in _samples(request)])


def _samples(request: HandlerRequest) -> Iterable[Sample]:
    control = request.control
    return request.context.jobs.samples(control)


def _series(request: HandlerRequest, rows: list[tuple[Sample, Mapping[str, float]]]) -> list[MetricSeries]:
    wanted, known = request.names("get"), dict.fromkeys(name for _, row in rows for name in row)
    if wanted is None:
        return [MetricSeries(name) for name in known]
    return [
        _one(name, [(sample, row[name]) for sample, row in rows if name in row]) for name in wanted if name in known
    ]


def _one(name: str, values: list[tuple[Sample, float]]) -> MetricSeries:
    first = values[0][0].at
    offsets = [sample.at.since(first) for sample, _ in values]
    return MetricSeries(name, first.now_ms, offsets, [round(value, 3) for _, value in values])


_UNKNOWN = {404: "There is no such job or vertex."}

ROUTES = (
    Route("GET", "/jobs/{jobid}/penstock/metrics", of_job, list[MetricSeries], query=(NAMED,), errors=_UNKNOWN),
    Route(
        *("GET", "/jobs/{jobid}/vertices/{vertexid}/penstock/metrics", of_vertex, list[MetricSeries]),
        query=(NAMED,),
        errors=_UNKNOWN,
    ),
)

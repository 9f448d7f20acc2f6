"""Metrics in plain Python, which a task keeps and an ack carries as a plain dict.

Counting is an addition on an attribute, cheap enough for a function that runs once per record. Nothing here reports:
``snapshot()`` is what the engine sends on.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from penstock.common.redaction import shown_name
from penstock.common.user_values import in_64_bits
from penstock.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)

MetricT = TypeVar("MetricT", bound=Metric)


class InMemoryCounter(Counter):
    """A count.

    Example:
        >>> counter = InMemoryCounter()
        >>> counter.inc(5)
        >>> counter.dec()
        >>> counter.get_count()
        4
    """

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Add to the count."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Take from the count."""
        self._count -= n

    def get_count(self) -> int:
        """Return the count."""
        return self._count


class InMemoryMeter(Meter):
    """A count of events, in total and in the last seconds.

    Args:
        time_span_in_seconds: How many seconds.
        clock: Returns the time in seconds.

    Example:
        >>> meter = InMemoryMeter(10, clock=lambda: 100.0)
        >>> meter.mark_event(30)
        >>> meter.get_count(), meter.get_rate()
        (30, 3.0)
    """

    def __init__(self, time_span_in_seconds: int = 60, clock: Callable[[], float] = time.monotonic) -> None:
        self._time_span, self._clock = time_span_in_seconds, clock
        self._count = 0
        # One (second, events) for each second with events, so the time span bounds it.
        self._recent: deque[tuple[int, int]] = deque()

    def mark_event(self, value: int = 1) -> None:
        """Count some events that happened now."""
        self._count += value
        second, recent = int(self._clock()), self._recent
        if recent and recent[-1][0] == second:
            value += recent.pop()[1]
        else:
            self._forget(second)
        recent.append((second, value))

    def get_count(self) -> int:
        """Return how many events there were."""
        return self._count

    def get_rate(self) -> float:
        """Return the events per second over the time span."""
        self._forget(int(self._clock()))
        return _quotient(sum(events for _, events in self._recent), self._time_span)

    def _forget(self, second: int) -> None:
        while self._recent and self._recent[0][0] <= second - self._time_span:
            self._recent.popleft()


class InMemoryDistribution(Distribution):
    """Number, sum, minimum and maximum of some values.

    Example:
        >>> distribution = InMemoryDistribution()
        >>> for value in (2, 4, 9):
        ...     distribution.update(value)
        >>> distribution.values()
        {'count': 3, 'sum': 15, 'min': 2, 'max': 9, 'mean': 5.0}
    """

    def __init__(self) -> None:
        self._count = 0
        self._sum: float = 0
        self._min: float | None = None
        self._max: float | None = None

    def update(self, value: float) -> None:
        """Take in one value."""
        self._count += 1
        self._sum += value
        self._min = value if self._min is None or value < self._min else self._min
        self._max = value if self._max is None or value > self._max else self._max

    def values(self) -> dict[str, float | None]:
        """Return number, sum, minimum, maximum and mean; the last three are None without values."""
        mean = _quotient(self._sum, self._count) if self._count else None
        return {"count": self._count, "sum": self._sum, "min": self._min, "max": self._max, "mean": mean}


def _quotient(dividend: float, divisor: int) -> float:
    try:
        return dividend / divisor
    except OverflowError:  # of an integer beyond the range of floats
        return math.inf if dividend > 0 else -math.inf


class InMemoryGauge(Metric):
    """A function that is called when the metrics are read.

    Args:
        read: Returns the value.
    """

    def __init__(self, read: Callable[[], float]) -> None:
        self._read, self._failed = read, False

    def get_value(self) -> float | None:
        """Return the value; None when the function raises, which is logged the first time."""
        try:
            return self._read()
        except Exception:  # noqa: BLE001 - a user's gauge must not fail the job
            if not self._failed:
                _log.warning("A gauge failed and has no value now.", exc_info=True)
            self._failed = True
            return None


@dataclass(frozen=True, slots=True)
class _Registered:
    metric: Metric
    labels: tuple[str, ...]
    variables: Mapping[str, str]


@dataclass(slots=True)
class InMemoryMetricGroup(MetricGroup):
    """A group of metrics in memory; the root of a subtask is made by the engine, the others by ``add_group``.

    A metric asked for again by its name is the same one. A name that is taken by another kind of metric gives one that
    works but is not in snapshots, and a warning.

    Args:
        clock: Returns the time in seconds, for the meters.

    Example:
        >>> root = InMemoryMetricGroup()
        >>> root.add_group("shard", "7").counter("reads").inc(3)
        >>> root.snapshot()["shard.7.reads"]
        {'kind': 'counter', 'name': 'shard.reads', 'variables': {'shard': '7'}, 'count': 3}
    """

    clock: Callable[[], float] = time.monotonic
    _scope: tuple[str, ...] = ()
    _labels: tuple[str, ...] = ()
    _variables: Mapping[str, str] = field(default_factory=dict[str, str])
    _registry: dict[str, _Registered] = field(default_factory=dict[str, _Registered])
    #: The names of metrics that were too large to be shown.
    _beyond: set[str] = field(default_factory=set[str])

    def add_group(self, name: str, extra: str | None = None) -> InMemoryMetricGroup:
        """Return the group of a name inside this one; with ``extra``, the group of that value of the variable."""
        name = shown_name(name)
        extra = extra if extra is None else shown_name(extra, name)
        scope = (*self._scope, name) if extra is None else (*self._scope, name, extra)
        variables = self._variables if extra is None else {**self._variables, name: extra}
        return InMemoryMetricGroup(self.clock, scope, (*self._labels, name), variables, self._registry, self._beyond)

    def counter(self, name: str) -> Counter:
        """Return the counter of a name."""
        return self._register(name, InMemoryCounter())

    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """Have a function called for each snapshot; a later function of the same name takes the place of this one."""
        identifier = self._identifier(shown_name(name))
        if identifier in self._registry and isinstance(self._registry[identifier].metric, InMemoryGauge):
            del self._registry[identifier]
        self._register(name, InMemoryGauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return the meter of a name."""
        return self._register(name, InMemoryMeter(time_span_in_seconds, self.clock))

    def distribution(self, name: str) -> Distribution:
        """Return the distribution of a name."""
        return self._register(name, InMemoryDistribution())

    def snapshot(self) -> dict[str, dict[str, object]]:
        """Return the metrics of this group's tree as plain values, by their place in the tree.

        Each has its ``kind``, its ``name`` without the values of variables, the ``variables``, and its figures.
        """
        prefix = "".join(f"{part}." for part in self._scope)
        return {
            identifier: {
                "kind": _kind(entry.metric),
                "name": ".".join(entry.labels),
                "variables": dict(entry.variables),
                **_figures(entry.metric),
            }
            for identifier, entry in self._registry.items()
            if identifier.startswith(prefix)
        }

    def figures(self) -> dict[str, float]:
        """Return the values by name; if a metric has several figures, each has its own suffix.

        Integers beyond 64 bits, which Flink's counters cannot have, become the nearest ones within; the log says so
        once.
        """
        found: dict[str, float] = {}
        for name, metric in self.snapshot().items():
            for figure, value in metric.items():
                shown = name if figure in {"count", "value"} else f"{name}.{figure}"
                if isinstance(value, float):
                    found[shown] = float.__float__(value)
                elif isinstance(value, int):
                    found[shown] = within = in_64_bits(value)
                    if within != value and self._is_first_beyond(name):
                        _log.warning("The metric %s is beyond 64 bits, and shown as %d.", name, within)
        return found

    def _is_first_beyond(self, name: str) -> bool:
        """Note that a metric is too large to be shown; return whether it was not before."""
        known = len(self._beyond)
        self._beyond.add(name)
        return len(self._beyond) > known

    def _identifier(self, name: str) -> str:
        return ".".join((*self._scope, name))

    def _register(self, name: str, metric: MetricT) -> MetricT:
        name = shown_name(name)
        identifier = self._identifier(name)
        entry = self._registry.setdefault(identifier, _Registered(metric, (*self._labels, name), self._variables))
        if isinstance(entry.metric, type(metric)):
            return entry.metric
        _log.warning(
            "The metric %s is a %s already; the %s of that name is not reported.",
            identifier,
            _kind(entry.metric),
            _kind(metric),
        )
        return metric


def _kind(metric: Metric) -> str:
    return type(metric).__name__.removeprefix("InMemory").lower()


def _figures(metric: Metric) -> Mapping[str, object]:
    match metric:
        case InMemoryCounter():
            return {"count": metric.get_count()}
        case InMemoryMeter():
            return {"count": metric.get_count(), "rate": metric.get_rate()}
        case InMemoryDistribution():
            return metric.values()
        case InMemoryGauge():
            return {"value": metric.get_value()}
        case _:
            return {}

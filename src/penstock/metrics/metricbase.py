"""The interfaces of metrics (``pyflink.metrics.metricbase``).

A function gets its group from ``runtime_context.get_metrics_group()`` and makes its metrics in ``open()``. That may run
again, and then gets the metrics that it made before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Metric(ABC):  # noqa: B024 - PyFlink's root of all metrics, which have nothing in common
    """A figure that a function keeps about itself."""


class Counter(Metric):
    """A count that goes up and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Add to the count."""

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Take from the count."""

    @abstractmethod
    def get_count(self) -> int:
        """Return the count of this subtask."""


class Meter(Metric):
    """How many events there were, and how many there are per second."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Count some events that happened now."""

    @abstractmethod
    def get_count(self) -> int:
        """Return how many events this subtask has had."""


class Distribution(Metric):
    """The number, sum, minimum, maximum and mean of some values."""

    @abstractmethod
    def update(self, value: float) -> None:
        """Take in one value."""


class MetricGroup(ABC):
    """A named place for metrics and for further groups.

    Source: ``pyflink.metrics.MetricGroup``.

    Example:
        >>> from penstock.metrics.in_memory import InMemoryMetricGroup
        >>> late = InMemoryMetricGroup().add_group("orders").counter("late")
        >>> late.inc()
        >>> late.get_count()
        1
    """

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return the group of a name inside this one.

        Args:
            name: The name of the group.
            extra: Makes ``name`` a variable with this value: reporters that know labels show ``name="extra"``.
        """

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """Return the counter of a name."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Have a function called whenever the metrics are read.

        Args:
            name: The name of the gauge.
            obj: Returns the value; one that raises leaves the gauge without a value.
        """

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return the meter of a name.

        Args:
            name: The name of the meter.
            time_span_in_seconds: The time over which events per second are counted.
        """

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Return the distribution of a name."""

"""Evictors, which remove records from a window that fires, as in Flink's Java API; PyFlink has none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._api.windows.triggers import CallContext
from penstock._api.windows.window import NO_TIMESTAMP
from penstock._shelf import show
from penstock.common.time import millis_of_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common.time import Time

__all__ = ["CountEvictor", "DeltaEvictor", "DeltaFunction", "Evictor", "TimeEvictor", "TimestampedValue"]

T = TypeVar("T")
W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class TimestampedValue(Generic[T]):
    """A record of a window, and its timestamp.

    Attributes:
        value: The record.
        timestamp: In milliseconds since the epoch; -2**63 if it has none.

    Source: org.apache.flink.streaming.runtime.operators.windowing.TimestampedValue.
    """

    value: T
    timestamp: int

    def has_timestamp(self) -> bool:
        """Tell whether the record has a timestamp."""
        return self.timestamp != NO_TIMESTAMP


class Evictor(ABC, Generic[T, W]):
    """Removes records from a firing window, before or after the window's function sees them.

    Windows with an evictor keep all of their records, also if these are reduced.

    Source: org.apache.flink.streaming.api.windowing.evictors.Evictor.

    Example:
        >>> class LastOnly(Evictor):
        ...     def evict_before(self, elements, size, window, ctx):
        ...         return elements[-1:]
        >>> LastOnly().evict_before([TimestampedValue("a", 1), TimestampedValue("b", 2)], 2, None, None)
        [TimestampedValue(value='b', timestamp=2)]
    """

    class EvictorContext(CallContext):
        """The context of an evictor."""

    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> Iterable[TimestampedValue[T]]:
        """Return the records that stay, before the window's function sees them.

        Args:
            elements: The records in the order of their arrival.
            size: How many they are.
            window: The window.
            ctx: Valid during this call only.
        """
        return elements

    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> Iterable[TimestampedValue[T]]:
        """Return the records that stay, after the window's function has seen them.

        Args:
            elements: The records in the order of their arrival.
            size: How many they are.
            window: The window.
            ctx: Valid during this call only.
        """
        return elements


class _OneTimeEvictor(Evictor[Any, Any]):
    """Evicts by one rule, before or after the function.

    Args:
        do_evict_after: Evict after the function saw the records, not before.
    """

    def __init__(self, *, do_evict_after: bool) -> None:
        self._after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue[Any]], size: int, window: Any, ctx: Evictor.EvictorContext
    ) -> Iterable[TimestampedValue[Any]]:
        return elements if self._after else self._stay(elements)

    def evict_after(
        self, elements: list[TimestampedValue[Any]], size: int, window: Any, ctx: Evictor.EvictorContext
    ) -> Iterable[TimestampedValue[Any]]:
        return self._stay(elements) if self._after else elements

    @abstractmethod
    def _stay(self, elements: list[TimestampedValue[Any]]) -> list[TimestampedValue[Any]]:
        """Return the records that stay."""


class CountEvictor(_OneTimeEvictor):
    """Keeps the last records, up to a number.

    Args:
        count: How many records stay.
        do_evict_after: Evict after the function saw the records, not before.

    Source: org.apache.flink.streaming.api.windowing.evictors.CountEvictor.

    Example:
        >>> values = [TimestampedValue(value, 0) for value in "abc"]
        >>> [one.value for one in CountEvictor.of(2).evict_before(values, 3, None, None)]
        ['b', 'c']
    """

    def __init__(self, count: int, *, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after=do_evict_after)
        self._count = count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Return one.

        Args:
            max_count: How many records stay.
            do_evict_after: Evict after the function saw the records, not before.
        """
        return CountEvictor(max_count, do_evict_after=do_evict_after)

    def _stay(self, elements: list[TimestampedValue[Any]]) -> list[TimestampedValue[Any]]:
        return elements[max(len(elements) - self._count, 0) :]

    def __repr__(self) -> str:
        return f"CountEvictor({self._count})"


class TimeEvictor(_OneTimeEvictor):
    """Keeps the records that are less than a length of time older than the newest one.

    Records without timestamps stay.

    Args:
        window_size: The length of time in milliseconds.
        do_evict_after: Evict after the function saw the records, not before.

    Source: org.apache.flink.streaming.api.windowing.evictors.TimeEvictor.

    Example:
        >>> values = [TimestampedValue("a", 1_000), TimestampedValue("b", 3_500), TimestampedValue("c", 3_000)]
        >>> [one.value for one in TimeEvictor(1_000).evict_before(values, 3, None, None)]
        ['b', 'c']
    """

    def __init__(self, window_size: int, *, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after=do_evict_after)
        self._size_ms = window_size

    @staticmethod
    def of(window_size: Time, do_evict_after: bool = False) -> TimeEvictor:
        """Return one.

        Args:
            window_size: The length of time.
            do_evict_after: Evict after the function saw the records, not before.
        """
        return TimeEvictor(millis_of_time("window_size", window_size), do_evict_after=do_evict_after)

    def _stay(self, elements: list[TimestampedValue[Any]]) -> list[TimestampedValue[Any]]:
        if not elements or not elements[0].has_timestamp():
            return elements
        end = max(element.timestamp for element in elements) - self._size_ms
        return [element for element in elements if element.timestamp > end]

    def __repr__(self) -> str:
        return f"TimeEvictor({self._size_ms})"


class DeltaFunction(ABC, Generic[T]):
    """Returns how far two records are apart.

    Source: org.apache.flink.streaming.api.functions.windowing.delta.DeltaFunction.
    """

    @abstractmethod
    def get_delta(self, old_data_point: T, new_data_point: T) -> float:
        """Return the distance.

        Args:
            old_data_point: A record of the window.
            new_data_point: The last record of the window.
        """


class DeltaEvictor(_OneTimeEvictor):
    """Keeps the records whose distance from the last one is below a threshold.

    Args:
        threshold: The smallest distance of records that go.
        delta_function: Returns the distance of a record from the last one: a DeltaFunction or a callable.
        do_evict_after: Evict after the function saw the records, not before.

    Raises:
        TypeError: The function is neither of the two.

    Source: org.apache.flink.streaming.api.windowing.evictors.DeltaEvictor.

    Example:
        >>> values = [TimestampedValue(value, 0) for value in (1, 7, 5)]
        >>> near = DeltaEvictor.of(3, lambda old, new: abs(new - old))
        >>> [one.value for one in near.evict_before(values, 3, None, None)]
        [7, 5]
    """

    def __init__(
        self,
        threshold: float,
        delta_function: DeltaFunction[Any] | Callable[[Any, Any], float],
        *,
        do_evict_after: bool = False,
    ) -> None:
        super().__init__(do_evict_after=do_evict_after)
        if not isinstance(delta_function, DeltaFunction) and not callable(delta_function):
            msg = f"delta_function must be a DeltaFunction or a callable, not {delta_function!r}."
            raise TypeError(msg)
        self._threshold = threshold
        self._function: Any = delta_function

    @staticmethod
    def of(
        threshold: float,
        delta_function: DeltaFunction[Any] | Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> DeltaEvictor:
        """Return one.

        Args:
            threshold: The smallest distance of records that go.
            delta_function: Returns the distance of a record from the last one: a DeltaFunction or a callable.
            do_evict_after: Evict after the function saw the records, not before.
        """
        return DeltaEvictor(threshold, delta_function, do_evict_after=do_evict_after)

    def _stay(self, elements: list[TimestampedValue[Any]]) -> list[TimestampedValue[Any]]:
        delta: Any = getattr(self._function, "get_delta", self._function)
        return [one for one in elements if delta(one.value, elements[-1].value) < self._threshold]

    def __repr__(self) -> str:
        return f"DeltaEvictor({self._function!r}, {self._threshold})"


show(
    "penstock.datastream.window",
    CountEvictor,
    DeltaEvictor,
    DeltaFunction,
    Evictor,
    TimeEvictor,
    TimestampedValue,
)

"""Accumulators: values that functions add to, shown in the job's result (``org.apache.flink.api.common.accumulators``).

A function registers an accumulator in ``open``, and adds to it. Each subtask has its own; the job's value is the merge
of all. The additions of an epoch count when its checkpoint has completed: exactly once, also after restarts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Generic, TypeVar

__all__ = [
    "Accumulator",
    "AverageAccumulator",
    "DoubleCounter",
    "Histogram",
    "IntCounter",
    "ListAccumulator",
    "Maximum",
    "Minimum",
]

ValueT = TypeVar("ValueT")
ResultT = TypeVar("ResultT")


class Accumulator(ABC, Generic[ValueT, ResultT]):
    """Adds up values one by one, and can be merged with accumulators of its class.

    An accumulator of your own must be picklable, begin empty, and have a merge whose order does not matter, because the
    engine decides which subtask gets which value in which epoch. ``merge`` runs on the driver.

    Source: org.apache.flink.api.common.accumulators.Accumulator; it needs no ``clone``, because ours are pickled.

    Example:
        >>> class Distinct(Accumulator):
        ...     def __init__(self):
        ...         self.seen = set()
        ...
        ...     def add(self, value):
        ...         self.seen.add(value)
        ...
        ...     def get_local_value(self):
        ...         return len(self.seen)
        ...
        ...     def reset_local(self):
        ...         self.seen.clear()
        ...
        ...     def merge(self, other):
        ...         self.seen |= other.seen
        >>> here, there = Distinct(), Distinct()
        >>> for word in ("to", "be", "to"):
        ...     here.add(word)
        >>> there.add("be")
        >>> here.merge(there)
        >>> here.get_local_value()
        2
    """

    @abstractmethod
    def add(self, value: ValueT) -> None:
        """Take one value."""

    @abstractmethod
    def get_local_value(self) -> ResultT:
        """Return the result of the values so far."""

    @abstractmethod
    def reset_local(self) -> None:
        """Forget all values; runs when it is added to a function, and at the end of each epoch."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Add all values of another one, which does not change.

        Args:
            other: One of the same class.
        """

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.get_local_value()!r}>"


class _Sum(Accumulator[ValueT, ValueT]):
    """A sum; its zero determines the type."""

    _zero: ValueT

    def __init__(self) -> None:
        self._sum: Any = self._zero

    def add(self, value: ValueT) -> None:
        self._sum += value

    def get_local_value(self) -> ValueT:
        return self._sum

    def reset_local(self) -> None:
        self._sum = self._zero

    def merge(self, other: Any) -> None:
        self._sum += other._sum


class IntCounter(_Sum[int]):
    """A sum of integers, of any size: Flink's ``LongCounter``, too.

    Source: org.apache.flink.api.common.accumulators.IntCounter, LongCounter.

    Example:
        >>> lines = IntCounter()
        >>> lines.add(1)
        >>> lines.add(2**70)
        >>> lines.get_local_value()
        1180591620717411303425
    """

    _zero = 0


class DoubleCounter(_Sum[float]):
    """A sum of floats. Each value counts once; the last digits may depend on the order of the additions.

    Source: org.apache.flink.api.common.accumulators.DoubleCounter.

    Example:
        >>> amount = DoubleCounter()
        >>> amount.add(0.5)
        >>> amount.get_local_value()
        0.5
    """

    _zero = 0.0


class _Extremum(Accumulator[ValueT, "ValueT | None"]):
    """One of the values, None without any."""

    def __init__(self) -> None:
        self._value: Any = None

    @staticmethod
    @abstractmethod
    def _choose(one: Any, other: Any) -> Any:
        """Return the one to keep."""

    def add(self, value: ValueT) -> None:
        self._value = value if self._value is None else self._choose(self._value, value)

    def get_local_value(self) -> ValueT | None:
        return self._value

    def reset_local(self) -> None:
        self._value = None

    def merge(self, other: Any) -> None:
        if other._value is not None:
            self.add(other._value)


class Minimum(_Extremum[ValueT]):
    """The smallest value, of any kind that can be compared; None without values.

    Source: org.apache.flink.api.common.accumulators.IntMinimum, LongMinimum, DoubleMinimum.

    Example:
        >>> lowest = Minimum()
        >>> lowest.add(7)
        >>> lowest.add(3)
        >>> lowest.get_local_value()
        3
    """

    @staticmethod
    def _choose(one: Any, other: Any) -> Any:
        return min(one, other)


class Maximum(_Extremum[ValueT]):
    """The largest value, of any kind that can be compared; None without values.

    Source: org.apache.flink.api.common.accumulators.IntMaximum, LongMaximum, DoubleMaximum.

    Example:
        >>> highest = Maximum()
        >>> highest.get_local_value() is None
        True
        >>> highest.add(2.5)
        >>> highest.get_local_value()
        2.5
    """

    @staticmethod
    def _choose(one: Any, other: Any) -> Any:
        return max(one, other)


class AverageAccumulator(Accumulator[float, float]):
    """The mean of all values; 0.0 without any.

    Source: org.apache.flink.api.common.accumulators.AverageAccumulator.

    Example:
        >>> mean = AverageAccumulator()
        >>> mean.add(1)
        >>> mean.add(2)
        >>> mean.get_local_value()
        1.5
    """

    def __init__(self) -> None:
        self._count = 0
        self._sum: float = 0

    def add(self, value: float) -> None:
        """Take one value."""
        self._count += 1
        self._sum += value

    def get_local_value(self) -> float:
        """Return the mean."""
        return self._sum / self._count if self._count else 0.0

    def reset_local(self) -> None:
        """Forget all values."""
        self._count, self._sum = 0, 0

    def merge(self, other: Any) -> None:
        """Take all values of another one."""
        self._count += other._count
        self._sum += other._sum


class Histogram(Accumulator[ValueT, "dict[ValueT, int]"]):
    """The number of occurrences of each value, in ascending order; values are ints, or others that hash and sort.

    Source: org.apache.flink.api.common.accumulators.Histogram.

    Example:
        >>> widths = Histogram()
        >>> for width in (3, 1, 3):
        ...     widths.add(width)
        >>> widths.get_local_value()
        {1: 1, 3: 2}
    """

    def __init__(self) -> None:
        self._counts: Counter[ValueT] = Counter()

    def add(self, value: ValueT) -> None:
        """Take one value."""
        self._counts[value] += 1

    def get_local_value(self) -> dict[ValueT, int]:
        """Return the count of each value."""
        counts: Any = self._counts
        return dict(sorted(counts.items()))

    def reset_local(self) -> None:
        """Forget all values."""
        self._counts.clear()

    def merge(self, other: Any) -> None:
        """Take all values of another one."""
        self._counts.update(other._counts)


class ListAccumulator(Accumulator[ValueT, "list[ValueT]"]):
    """All values, for a handful of them: every checkpoint holds the whole list.

    The values of one epoch are adjacent, and those of one subtask in the order of their addition.

    Source: org.apache.flink.api.common.accumulators.ListAccumulator.

    Example:
        >>> refused = ListAccumulator()
        >>> refused.add("line 7")
        >>> refused.get_local_value()
        ['line 7']
    """

    def __init__(self) -> None:
        self._values: list[ValueT] = []

    def add(self, value: ValueT) -> None:
        """Take one value."""
        self._values.append(value)

    def get_local_value(self) -> list[ValueT]:
        """Return the values."""
        return list(self._values)

    def reset_local(self) -> None:
        """Forget all values."""
        self._values.clear()

    def merge(self, other: Any) -> None:
        """Take all values of another one."""
        self._values += other._values

"""Adapts functions of two streams to the windows of one stream of tagged records. Tasks load this module."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock._api.functions.basic import Function, KeySelector, MapFunction
from penstock._api.functions.joins import CoGroupFunction, FlatJoinFunction
from penstock._api.functions.windows import WindowFunction
from penstock._api.functions.wrapping import WrappingFunction
from penstock._api.functions.wrong_results import refuse_no_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._api.runtime_context import RuntimeContext


class Tag(MapFunction[Any, Any]):
    """Tags each record with the number of its stream: 0 or 1.

    Args:
        side: The stream.
    """

    def __init__(self, side: int) -> None:
        self._side = side

    def map(self, value: Any) -> tuple[int, Any]:
        return self._side, value


class KeyOfTagged(KeySelector[Any, Any]):
    """Selects the key of a tagged record by the selector of its stream.

    Args:
        key_selectors: By stream.
    """

    def __init__(self, *key_selectors: Any) -> None:
        self._key_selectors = key_selectors
        self._selects: list[Callable[[Any], Any]] = [getattr(one, "get_key", one) for one in key_selectors]

    def open(self, runtime_context: RuntimeContext) -> None:
        for selector in self._key_selectors:
            if isinstance(selector, Function):
                selector.open(runtime_context)

    def close(self) -> None:
        for selector in self._key_selectors:
            if isinstance(selector, Function):
                selector.close()

    def get_key(self, value: tuple[int, Any]) -> Any:
        side, record = value
        return self._selects[side](record)


class OfBoth(WrappingFunction[Any], WindowFunction[Any, Any, Any, Any]):
    """A function of the records of both streams in a window."""

    def apply(self, key: Any, window: Any, inputs: Iterable[tuple[int, Any]]) -> Iterable[Any] | None:
        sides: tuple[list[Any], list[Any]] = [], []
        for side, record in inputs:
            sides[side].append(record)
        return self.of_sides(*sides)

    @abstractmethod
    def of_sides(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        """Return the results of the records of each stream."""


class Join(OfBoth):
    """A JoinFunction, or a callable, of all pairs."""

    def of_sides(self, first: list[Any], second: list[Any]) -> Iterable[Any]:
        call = getattr(self.function, "join", self.function)
        return (call(one, other) for one in first for other in second)


class FlatJoin(OfBoth):
    """A FlatJoinFunction of all pairs."""

    def of_sides(self, first: list[Any], second: list[Any]) -> Iterable[Any]:
        call = self.function.join
        return (result for one in first for other in second for result in self._records(call(one, other)))

    def _records(self, results: Any) -> Iterable[Any]:
        refuse_no_records(self.function, results)
        return results or ()


class CoGroup(OfBoth):
    """A CoGroupFunction."""

    def of_sides(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        return self.function.co_group(first, second)


def joining(function: Any) -> OfBoth:
    """Return the function of a join as one of the windows."""
    return FlatJoin(function) if isinstance(function, FlatJoinFunction) else Join(function)


def grouping(function: CoGroupFunction[Any, Any, Any]) -> OfBoth:
    """Return the function of a co-group as one of the windows."""
    return CoGroup(function)

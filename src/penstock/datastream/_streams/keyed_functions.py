"""Map, flat map and filter functions as keyed process functions, so that their ``open`` may take keyed state.

Tasks load this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.datastream.functions import FilterFunction, FlatMapFunction, Function, KeyedProcessFunction, MapFunction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.functions import RuntimeContext


F = TypeVar("F", bound=Function)


class _Adapter(KeyedProcessFunction, Generic[F]):
    def __init__(self, function: F) -> None:
        self.function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        self.function.open(runtime_context)

    def close(self) -> None:
        self.function.close()


class KeyedMap(_Adapter[MapFunction]):
    """A MapFunction on a keyed stream."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        return (self.function.map(value),)


class KeyedFlatMap(_Adapter[FlatMapFunction]):
    """A FlatMapFunction on a keyed stream."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        return self.function.flat_map(value)


class KeyedFilter(_Adapter[FilterFunction]):
    """A FilterFunction on a keyed stream."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        return (value,) if self.function.filter(value) else None

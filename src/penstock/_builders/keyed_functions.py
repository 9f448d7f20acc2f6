"""Wraps functions of other kinds as keyed process functions, so that their ``open`` may use keyed state.

Tasks load this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from penstock._api.functions.basic import FilterFunction, FlatMapFunction, Function, MapFunction
from penstock._api.functions.co import CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from penstock._api.functions.process import KeyedProcessFunction
from penstock._api.functions.wrapping import WrappingFunction
from penstock.common.types import Row

if TYPE_CHECKING:
    from collections.abc import Iterable


F = TypeVar("F", bound=Function)


class Wrapping(WrappingFunction[F]):
    """A wrapper around a function of another kind."""

    #: Whether a yielded pair of an OutputTag and a value always goes to a side output, as in process functions.
    parts_tagged: ClassVar[bool] = False
    #: Whether the function yields records instead of returning one.
    yields: ClassVar[bool] = False


class KeyedMap(Wrapping[MapFunction[Any, Any]], KeyedProcessFunction[Any, Any, Any]):
    """A MapFunction on a keyed stream."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        return (self.function.map(value),)


class WithKey(WrappingFunction[Any], MapFunction[Any, Row]):
    """Gives each record with its key, as PyFlink collects a keyed stream."""

    def map(self, value: Any) -> Row:
        select: Any = getattr(self.function, "get_key", self.function)
        return Row(f0=select(value), f1=value)


class KeyedFlatMap(Wrapping[FlatMapFunction[Any, Any]], KeyedProcessFunction[Any, Any, Any]):
    """A FlatMapFunction on a keyed stream."""

    yields = True

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        return self.function.flat_map(value)


class KeyedFilter(Wrapping[FilterFunction[Any]], KeyedProcessFunction[Any, Any, Any]):
    """A FilterFunction on a keyed stream."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        return (value,) if self.function.filter(value) else None


class KeyedCoMap(Wrapping[CoMapFunction[Any, Any, Any]], KeyedCoProcessFunction[Any, Any, Any, Any]):
    """A CoMapFunction on keyed streams."""

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        result = self.function.map1(value)
        return None if result is None else (result,)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        result = self.function.map2(value)
        return None if result is None else (result,)


class KeyedCoFlatMap(Wrapping[CoFlatMapFunction[Any, Any, Any]], KeyedCoProcessFunction[Any, Any, Any, Any]):
    """A CoFlatMapFunction on keyed streams."""

    yields = True

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        return self.function.flat_map1(value)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        return self.function.flat_map2(value)


class KeyedCoProcess(Wrapping[CoProcessFunction[Any, Any, Any]], KeyedCoProcessFunction[Any, Any, Any, Any]):
    """A CoProcessFunction on keyed streams; its context is the one of the key then, as in Flink."""

    parts_tagged = True
    yields = True

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return self.function.process_element1(value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return self.function.process_element2(value, ctx)

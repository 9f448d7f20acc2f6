"""Converts results of reduce functions, accumulators and keys to their declared types. Tasks load this module.

Records are converted to their declared type after their operator. These results are used before that, as state or for
routing, so they are converted when the function returns them. PyFlink encodes them at the same place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from penstock._api.functions.basic import AggregateFunction, KeySelector, ReduceFunction
from penstock._api.functions.wrapping import WrappingFunction
from penstock.common.conversion import Conversion, conversion

if TYPE_CHECKING:
    from penstock._api.runtime_context import RuntimeContext
    from penstock.common.typeinfo import TypeInformation

F = TypeVar("F")


class _Held(WrappingFunction[F]):
    #: The name of its result, for errors.
    result = "The result"

    def __init__(self, function: F, type_info: TypeInformation) -> None:
        super().__init__(function)
        self.type_info = type_info
        self._held: Conversion

    def open(self, runtime_context: RuntimeContext) -> None:
        held = conversion(self.type_info, f"{self.result} in {runtime_context.get_task_name()!r}")
        assert held is not None
        self._held = held
        super().open(runtime_context)


class HeldReduce(_Held[Any], ReduceFunction[Any]):
    """A reduce function with a type for its results."""

    result = "The result of reduce"

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self._call: Any = getattr(self.function, "reduce", self.function)

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self._held.value(self._call(value1, value2))


class HeldAggregate(_Held[AggregateFunction[Any, Any, Any]], AggregateFunction[Any, Any, Any]):
    """An aggregate function with a type for its accumulators."""

    result = "The accumulator"

    def create_accumulator(self) -> Any:
        return self._held.value(self.function.create_accumulator())

    def add(self, value: Any, accumulator: Any) -> Any:
        return self._held.value(self.function.add(value, accumulator))

    def get_result(self, accumulator: Any) -> Any:
        return self.function.get_result(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return self._held.value(self.function.merge(acc_a, acc_b))


class HeldKey(_Held[Any], KeySelector[Any, Any]):
    """A key selector with a type for its keys."""

    result = "A key"

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self._call: Any = getattr(self.function, "get_key", self.function)

    def get_key(self, value: Any) -> Any:
        return self._held.value(self._call(value))


def typed_reduce(function: Any, type_info: TypeInformation | None) -> Any:
    """Return a reduce function whose results are converted to a type, if there is one."""
    return function if conversion(type_info, "") is None or type_info is None else HeldReduce(function, type_info)


def typed_aggregate(
    function: AggregateFunction[Any, Any, Any], type_info: TypeInformation | None
) -> AggregateFunction[Any, Any, Any]:
    """Return an aggregate function whose accumulators are converted to a type, if there is one."""
    return function if conversion(type_info, "") is None or type_info is None else HeldAggregate(function, type_info)


def typed_key(key_selector: Any, type_info: TypeInformation | None) -> Any:
    """Return a key selector whose keys are converted to a type, if there is one."""
    return key_selector if conversion(type_info, "") is None or type_info is None else HeldKey(key_selector, type_info)

"""Functions that stand for one of the program's whose results have a declared type. Tasks load this module.

Records are converted to their declared type after their operator. These results are used before that, as state or for
routing, so they are converted when the function returns them. PyFlink encodes them at the same place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from penstock._api.functions.basic import AggregateFunction, KeySelector, ReduceFunction
from penstock._api.functions.wrapping import WrappingFunction
from penstock.common.conversion import Conversion, conversion

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._api.runtime_context import RuntimeContext
    from penstock.common.typeinfo import TypeInformation

F = TypeVar("F")


class _Held(WrappingFunction[F]):
    #: The name of its result, for errors.
    result = "The result"

    def __init__(self, function: F, type_info: TypeInformation) -> None:
        super().__init__(function)
        self.type_info = type_info
        #: Converts its results, once it is open.
        self.held: Conversion

    def open(self, runtime_context: RuntimeContext) -> None:
        held = conversion(self.type_info, f"{self.result} in {runtime_context.get_task_name()!r}")
        assert held is not None
        self.held = held
        super().open(runtime_context)

    def _compile(self, method: str, call: Callable[[Any, Any], Any]) -> None:
        """Make a method of a compiled function; the object has it where it is found first, once it is open."""
        vars(self)[method] = self.held.result_of(call)


def _not_open() -> NoReturn:
    msg = "it runs for each record, and open() compiles it"
    raise AssertionError(msg)


class HeldReduce(_Held[Any], ReduceFunction[Any]):
    """A reduce function with a type for its results."""

    result = "The result of reduce"

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self._compile("reduce", getattr(self.function, "reduce", self.function))

    def reduce(self, value1: Any, value2: Any) -> Any:
        _not_open()


class HeldAggregate(_Held[AggregateFunction[Any, Any, Any]], AggregateFunction[Any, Any, Any]):
    """An aggregate function with a type for its accumulators."""

    result = "The accumulator"

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self._compile("add", self.function.add)
        self._compile("merge", self.function.merge)

    def create_accumulator(self) -> Any:
        return self.held.value(self.function.create_accumulator())

    def add(self, value: Any, accumulator: Any) -> Any:
        _not_open()

    def get_result(self, accumulator: Any) -> Any:
        return self.function.get_result(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        _not_open()


class HeldKey(_Held[Any], KeySelector[Any, Any]):
    """A key selector with a type for its keys."""

    result = "A key"

    @property
    def select(self) -> Callable[[Any], Any]:
        """Returns the key of a record as the program's selector gives it."""
        return getattr(self.function, "get_key", self.function)

    def get_key(self, value: Any) -> Any:
        return self.held.value(self.select(value))


def method_and_type(function: Any, method: str) -> tuple[Callable[..., Any], Conversion | None]:
    """Return the method of an open function that is called for each record, and what converts its results.

    For loops that convert results themselves: of a function that stands for one of the program's, that one's method.

    Args:
        function: The function: an object, or a callable.
        method: The name of the method.
    """
    if isinstance(function, HeldReduce | HeldAggregate):
        own: Any = function.function
        return getattr(own, method, own), function.held
    return getattr(function, method, function), None

"""Finds the methods of a function that handle the end of the input: `finish`, and with two inputs `end_input`.

PyFlink has neither, so a PyFlink program may have a helper of that name. A method counts only with the parameters of
the engine's call: `finish` has none, `end_input` has one. The builders use this module to refuse records that would be
lost silently, and the operators to call the methods.
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._api.functions.basic import (
    AggregateFunction,
    FilterFunction,
    Function,
    KeySelector,
    MapFunction,
    Partitioner,
    ReduceFunction,
    TwoInputFunction,
)
from penstock._api.functions.co import CoMapFunction
from penstock._api.functions.wrapping import unwrapped
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_log = logging.getLogger(__name__)

#: Kinds of functions that yield no records: they return a result, a truth value or a key.
SILENT: Final = (
    MapFunction,
    FilterFunction,
    ReduceFunction,
    AggregateFunction,
    CoMapFunction,
    KeySelector,
    Partitioner,
)
#: The parameters of the methods.
_PARAMETERS: Final = {"finish": 0, "end_input": 1}
#: The classes and methods that this process has warned about.
_warned: set[tuple[type, str]] = set()


def ending(function: object, name: str) -> Callable[..., Iterable[Any] | None] | None:
    """Return a function's method for the end of an input; None if it has none with the right parameters.

    Args:
        function: The function, which may be a plain callable.
        name: ``finish`` or ``end_input``.
    """
    function = unwrapped(function)
    if not _may_have(function, name):
        return None
    found = getattr(function, name, None)
    if found is None or getattr(found, "__func__", None) in (Function.finish, TwoInputFunction.end_input):
        return None
    return cast("Callable[..., Iterable[Any] | None]", found) if _counts(found, name) else None


def check_endings(function: object, kinds: tuple[type[Function], ...]) -> None:
    """Check a function's methods for the end of an input, and warn once of those with wrong parameters.

    Args:
        function: The function, which may be a plain callable.
        kinds: The kinds of function that it is used as.

    Raises:
        UnsupportedOperationError: ``close`` yields, or such a method yields although its kind of function does not.
    """
    if not isinstance(function, Function):
        return
    if _is_generator(function.close):
        reason = (
            "nothing takes records after the last checkpoint; yield them in finish(), and release things in close()"
        )
        raise UnsupportedOperationError(f"close() of {type(function).__qualname__} that yields", reason)
    for name in _PARAMETERS:
        method = ending(function, name)
        if method is None:
            _warn_of_helper(function, name)
        elif _is_asynchronous(method):
            operation = f"{name}() of {type(function).__qualname__} as a coroutine"
            raise UnsupportedOperationError(operation, "it is called and not awaited; leave out the async")
        elif _is_generator(method) and all(issubclass(kind, SILENT) for kind in kinds):
            raise _yields_in_vain(function, name)


def call_silent(function: object, name: str, *arguments: Any) -> None:
    """Call a method for the end of an input of a function that yields no records.

    Raises:
        UnsupportedOperationError: It returned a generator or another iterator, whose items would be lost.
    """
    method = ending(function, name)
    if method is not None and hasattr(method(*arguments), "__next__"):
        raise _yields_in_vain(function, name)


def _may_have(function: object, name: str) -> bool:
    return isinstance(function, Function if name == "finish" else TwoInputFunction)


def _counts(found: object, name: str) -> bool:
    if not callable(found):
        return False
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):  # callables that are not written in Python
        return False
    taken = {parameter.kind for parameter in parameters}
    one_each = taken <= {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return one_each and len(parameters) == _PARAMETERS[name]


def _is_generator(method: object) -> bool:
    """Tell whether a method is a generator function, which runs nothing when it is called."""
    return inspect.isgeneratorfunction(method) or _is_asynchronous(method)


def _is_asynchronous(method: object) -> bool:
    return inspect.isasyncgenfunction(method) or inspect.iscoroutinefunction(method)


def _warn_of_helper(function: Function, name: str) -> None:
    kind = type(function)
    own = getattr(kind, name, None) not in (Function.finish, TwoInputFunction.end_input, None) or name in vars(function)
    if not own or not _may_have(function, name) or (kind, name) in _warned:
        return
    _warned.add((kind, name))
    wanted = "without parameters" if name == "finish" else "with one parameter, the index of the input"
    _log.warning(
        "%s of %s is not called at the end of the input: only a method %s is. Give a helper another name.",
        name,
        kind.__qualname__,
        wanted,
    )


def _yields_in_vain(function: object, name: str) -> UnsupportedOperationError:
    function = unwrapped(function)
    reason = "a function of its kind yields nothing; use a FlatMapFunction or a process function"
    return UnsupportedOperationError(f"{name}() of {type(function).__qualname__} that yields", reason)

"""Which methods of a function hear of the end of the input: `finish`, and `end_input` where there are two inputs.

PyFlink has neither, so a program of PyFlink's may have a helper of such a name. One counts if it can be called as the
engine calls it: `finish` without parameters, `end_input` with one. Used where a function is added to a job, to refuse
what would be lost in silence, and by the operators that call the methods.
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
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_log = logging.getLogger(__name__)

#: Kinds of functions that yield nothing: what they return is a result, a truth value or a key.
_SILENT: Final = (
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
#: What was warned about in this process: classes and methods.
_warned: set[tuple[type, str]] = set()


def ending(function: object, name: str) -> Callable[..., Iterable[Any] | None] | None:
    """Return a method of a function that hears of an end; None where it has none that counts.

    Args:
        function: The function, which may be a plain callable.
        name: ``finish`` or ``end_input``.
    """
    function = getattr(function, "wrapped_function", function)
    if not _may_have(function, name):
        return None
    found = getattr(function, name, None)
    if found is None or getattr(found, "__func__", None) in (Function.finish, TwoInputFunction.end_input):
        return None
    return cast("Callable[..., Iterable[Any] | None]", found) if _counts(found, name) else None


def check_endings(function: object, kinds: tuple[type[Function], ...]) -> None:
    """Check the methods of a function that hear of its end, and warn once of those that do not count.

    Args:
        function: The function, which may be a plain callable.
        kinds: What it is used as.

    Raises:
        UnsupportedOperationError: ``close`` yields, or a method that hears of an end yields where its kind does not.
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
        elif _is_generator(method) and all(issubclass(kind, _SILENT) for kind in kinds):
            raise _yields_in_vain(function, name)


def call_silent(function: object, name: str, *arguments: Any) -> None:
    """Call a method that hears of an end where its kind yields nothing.

    Raises:
        UnsupportedOperationError: It returned a generator or another iterator, whose items would go nowhere.
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
    """Return whether a method returns something that has done nothing yet."""
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
    function = getattr(function, "wrapped_function", function)
    reason = "a function of its kind yields nothing; use a FlatMapFunction or a process function"
    return UnsupportedOperationError(f"{name}() of {type(function).__qualname__} that yields", reason)

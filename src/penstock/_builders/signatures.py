"""Checks the parameters of functions where the program adds them: one that its operator cannot call is refused there.

Only functions and methods that are written in Python are judged, by what their own ``def`` or ``lambda`` says.
"""

from __future__ import annotations

import inspect
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from penstock._api.functions.asynchronous import AsyncFunction
from penstock._api.functions.basic import Function
from penstock._api.functions.endings import SILENT
from penstock._api.functions.joins import JoinFunction
from penstock._engine.graph.pickling import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Methods that return nothing, whatever the kind of the function.
_LIFECYCLE: Final = frozenset({"open", "clear"})
#: They are checked by `endings`, or may be coroutines.
_OTHERS: Final = frozenset({"finish", "end_input", "close"})


def check_calls(argument: str, function: object, kinds: tuple[type[Function], ...], *, may_yield: bool) -> None:
    """Raise unless a function can be called as the operator does, and gives what the operator takes.

    Args:
        argument: The name of the argument, for errors.
        function: A function object or a plain callable.
        kinds: The kinds of function that it is used as.
        may_yield: Whether functions of any kind may yield.

    Raises:
        TypeError: It takes another number of arguments, is a coroutine function, or yields where it is to return.
    """
    if isinstance(function, Function):
        kind = next(kind for kind in kinds if isinstance(function, kind))
        for name, pattern in _methods(kind):
            own = getattr(function, name)
            if getattr(own, "__func__", own) is not pattern:
                yields = may_yield or _may_yield(kind, name)
                _check(argument, own, pattern, f"{kind.__name__}.{name}", yields=yields)
        return
    kind = kinds[0]
    for name, pattern in _methods(kind):
        if getattr(pattern, "__isabstractmethod__", False):
            yields = may_yield or _may_yield(kind, name)
            _check(argument, function, pattern, f"{kind.__name__}.{name}", yields=yields)


def _methods(kind: type[Function]) -> Iterator[tuple[str, Any]]:
    """Yield the methods of a kind of function that operators call, with their declarations there."""
    for name in dir(kind):
        method = getattr(kind, name)
        if not name.startswith("_") and name not in _OTHERS and isinstance(method, FunctionType):
            yield name, method


def _may_yield(kind: type[Function], name: str) -> bool:
    return name not in _LIFECYCLE and not issubclass(kind, (*SILENT, JoinFunction))


def _check(argument: str, function: object, pattern: FunctionType, call: str, *, yields: bool) -> None:
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType) or hasattr(plain, "__signature__"):
        return
    names = [*inspect.signature(pattern).parameters][1:]
    try:
        inspect.signature(function, follow_wrapped=False).bind(*names)  # type: ignore[arg-type]
    except TypeError:
        taken = inspect.signature(function, follow_wrapped=False)  # type: ignore[arg-type]
        wanted = f"({', '.join(names)})"
        msg = f"{argument} must take the arguments of {call}, which are {wanted}; {describe(function)} takes {taken}."
        raise TypeError(msg) from None
    if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain):
        if not inspect.iscoroutinefunction(pattern) and call != f"{AsyncFunction.__name__}.timeout":
            own = call.startswith(f"{AsyncFunction.__name__}.")
            way = ", and make what needs the event loop in async_invoke" if own else ", or use an AsyncFunction"
            msg = (
                f"{argument} cannot be asynchronous: {describe(function)} is called as {call} and not awaited. Leave "
                f"out the async{way}."
            )
            raise TypeError(msg)
    elif not yields and inspect.isgeneratorfunction(plain):
        msg = (
            f"{argument} must return its result: {describe(function)} is called as {call}, and yields. Use return, or "
            "flat_map() and the process functions for any number of records."
        )
        raise TypeError(msg)

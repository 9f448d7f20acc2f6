"""Checking, at the call, what a program hands to an operator."""

from __future__ import annotations

from penstock.datastream.functions import Function


def check_function(argument: str, function: object, *kinds: type[Function], or_callable: bool = True) -> None:
    """Raise TypeError unless the argument is a function object of one of the kinds, or a callable where allowed."""
    if isinstance(function, kinds):
        return
    is_callable = callable(function)
    forgot_call = isinstance(function, type) and issubclass(function, Function)
    if or_callable and is_callable and not forgot_call and not isinstance(function, Function):
        return
    wanted = " or ".join([kind.__name__ for kind in kinds] + ["a callable"] * or_callable)
    hint = f"; did you mean {function.__name__}()?" if isinstance(function, type) else "."
    msg = f"{argument} must be a {wanted}, not {function!r}{hint}"
    raise TypeError(msg)

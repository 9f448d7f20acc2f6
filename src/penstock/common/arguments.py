"""Checks of arguments that programs give, so that a wrong one is named at its call."""

from __future__ import annotations

from operator import index
from typing import Any


def whole_number(name: str, value: Any) -> int:
    """Return an argument that has to be a whole number.

    Args:
        name: The argument.
        value: Its value.

    Raises:
        TypeError: It is none.

    Example:
        >>> whole_number("size", "3")
        Traceback (most recent call last):
        TypeError: size must be a whole number, not '3'.
    """
    try:
        return index(value)
    except TypeError:
        msg = f"{name} must be a whole number, not {value!r}."
        raise TypeError(msg) from None


def text(name: str, value: Any) -> str:
    """Return an argument that has to be a text.

    Args:
        name: The argument.
        value: Its value.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, str):
        msg = f"{name} must be a text, not {value!r}."
        raise TypeError(msg)
    return value

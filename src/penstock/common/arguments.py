"""Checks of arguments that programs give, so that a wrong one is named at its call."""

from __future__ import annotations

from enum import Enum
from operator import index
from typing import TYPE_CHECKING, Any, TypeVar, cast

from penstock.common.user_values import short_repr

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


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


def texts(name: str, values: Sequence[Any]) -> tuple[str, ...]:
    """Return arguments that have to be texts, given one by one and not as a list.

    Args:
        name: The arguments.
        values: Their values.

    Raises:
        TypeError: One is no text.

    Example:
        >>> texts("topics", (["a", "b"],))
        Traceback (most recent call last):
        TypeError: topics must be texts, one by one, not ['a', 'b'].
    """
    for value in values:
        if not isinstance(value, str):
            msg = f"{name} must be texts, one by one, not {short_repr(value)}."
            raise TypeError(msg)
    return tuple(values)


def instance(name: str, value: Any, kind: type[T], otherwise: str = "") -> T:
    """Return an argument that has to be an object of a class.

    Args:
        name: The argument.
        value: Its value.
        kind: The class.
        otherwise: What the error says where the value gives no hint.

    Raises:
        TypeError: It is something else; the message guesses what was forgotten.

    Example:
        >>> from penstock.common import SimpleStringSchema
        >>> from penstock.common.serialization import DeserializationSchema
        >>> instance("schema", SimpleStringSchema, DeserializationSchema)
        Traceback (most recent call last):
        TypeError: schema must be a DeserializationSchema, not the class SimpleStringSchema; an object of it is meant.
    """
    if isinstance(value, kind):
        return value
    hint = otherwise and f"; {otherwise}"
    its_class = cast("type[Any]", type(value))
    if isinstance(value, type):
        given = f"the class {value.__name__}"
        hint = "; an object of it is meant" if issubclass(value, kind) else hint
    elif callable(getattr(value, "build", None)):
        given, hint = _one(its_class), "; call its build()"
    elif its_class.__repr__ is object.__repr__:
        given = _one(its_class)
    else:
        given = short_repr(value)
    if issubclass(kind, Enum):
        hint = f"; there are {', '.join(str(one) for one in kind)}"
    msg = f"{name} must be {_one(kind)}, not {given}{hint}."
    raise TypeError(msg)


def _one(kind: type[Any]) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"

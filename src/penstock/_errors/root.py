"""The root of all errors, how errors are declared, and the two groups without members."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

from penstock._errors.text import sentences

if TYPE_CHECKING:
    from collections.abc import Callable

ErrorT = TypeVar("ErrorT", bound="PenstockError")


class PenstockError(Exception):
    """The root of all errors that Penstock raises on purpose.

    Example:
        >>> from penstock.errors import ConfigurationError
        >>> try:
        ...     raise ConfigurationError("parallelism.default", "many", "it is not a whole number")
        ... except PenstockError as error:
        ...     print(error)
        parallelism.default cannot be 'many': it is not a whole number.
    """

    def __init_subclass__(cls) -> None:
        # Errors name files, states and values from anywhere, and a traceback puts them on a terminal.
        text = cls.__dict__.get("__str__")
        if text is not None:
            type.__setattr__(cls, "__str__", _printable(text))

    def __post_init__(self) -> None:
        if is_dataclass(self):
            # An exception is pickled and copied by its arguments, in the order of the constructor.
            self.args: tuple[Any, ...] = tuple(getattr(self, one.name) for one in fields(self) if one.init)


def _printable(text: Callable[[Any], str]) -> Callable[[Any], str]:
    @wraps(text)
    def shown(error: Any) -> str:
        return sentences(text(error))

    return shown


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def declared(error: type[ErrorT]) -> type[ErrorT]:
    """Make the constructor of an error class from its declared fields; ``__str__`` makes the text.

    A class without fields has its parent's constructor; a group takes a text.
    """
    return dataclass(eq=False, repr=False)(error)


class RetryableError(PenstockError):
    """Something outside was not available; the same call may succeed later."""


class InternalError(PenstockError):
    """An invariant of Penstock does not hold: a bug to report, with this text and the log."""

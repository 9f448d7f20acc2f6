"""Values that have no place in their column: the error for them, and how the first of many is found."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any

from penstock.common.user_values import short_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class MisfitError(ValueError):
    """A value has no place in its column; whoever makes the column tells its name and the record.

    Args:
        place: The number of the value; of the column where columns are joined.
        reason: What is wrong with it, a clause.
        column: The name of the column where columns are joined.
    """

    def __init__(self, place: int, reason: str, column: str = "") -> None:
        super().__init__(place, reason, column)
        self.place, self.reason, self.column = place, reason, column

    def __str__(self) -> str:
        return self.reason


def with_class(value: Any) -> str:
    """Return a value as errors show it, with its class."""
    return f"{short_repr(value)} ({type(value).__name__})"


def made(values: Sequence[Any], make: Callable[[Sequence[Any]], Any]) -> Any:
    """Return an array of values; where Arrow refuses one, the error has its place."""
    try:
        return make(values)
    except MisfitError:
        raise
    except misfits() as error:
        for place, value in enumerate(values):
            try:
                make([value])
            except misfits() as one:
                if value is not None:
                    raise MisfitError(place, f"{with_class(value)} does not fit: {_why(value, one)}") from error
        raise MisfitError(0, str(error).rstrip(".")) from error


def _why(value: Any, error: Exception) -> str:
    """Return what is wrong with a value, a clause; of decimals Arrow speaks as of its own texts and numbers."""
    if isinstance(value, decimal.Decimal) and not value.is_finite():
        return "columns of decimals have finite numbers alone"
    return str(error).rstrip(".")


def misfits() -> tuple[type[Exception], ...]:
    """Return Arrow's exceptions for values that do not fit a type; Arrow is loaded at the first use."""
    import pyarrow as pa

    ours = (TypeError, ValueError, AttributeError, OverflowError, RecursionError, decimal.InvalidOperation)
    return pa.ArrowException, *ours

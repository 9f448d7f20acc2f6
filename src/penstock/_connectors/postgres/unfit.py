"""What both directions of values have in common: the error of one without a counterpart, and scalars of NumPy."""

from __future__ import annotations

from typing import Any, Final, cast

#: Their ``tolist`` may return a bare number.
_TIMES_OF_NUMPY: Final = {"datetime64", "timedelta64"}


class UnfitError(ValueError):
    """A value has no counterpart on the other side; the text says why, a clause without a full stop."""


def python_scalar(value: Any) -> Any:
    """Return a scalar or an array of NumPy as Python has it."""
    kind = cast("type[Any]", type(value))
    return value.tolist() if kind.__module__ == "numpy" and kind.__name__ not in _TIMES_OF_NUMPY else value

"""Shortens the repr of a record for errors and the log."""

from __future__ import annotations

import reprlib
from typing import Any, Final

_REPR: Final = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 200
_REPR.maxtuple = _REPR.maxlist = _REPR.maxdict = 10


def short_repr(value: Any) -> str:
    """Return a value's repr, shortened; never raises."""
    try:
        return _REPR.repr(value)
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must not hide what is told of the value
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"


def begin_of(value: Any) -> str:
    """Return the first 200 characters of a value's repr, in which a dict has its own order; never raises."""
    try:
        return f"{value!r:.200}"
    except Exception:  # noqa: BLE001 - as above; also the text of a great number is an error
        return short_repr(value)

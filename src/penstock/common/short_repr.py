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

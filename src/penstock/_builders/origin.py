"""Where in the user's program a call comes from."""

from __future__ import annotations

import sys
from pathlib import Path

_PACKAGE = __name__.partition(".")[0]


def calling_line() -> str:
    """Return file and line of the nearest caller outside of Penstock, such as ``job.py:12``; empty without one."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module != _PACKAGE and not module.startswith(f"{_PACKAGE}."):
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""

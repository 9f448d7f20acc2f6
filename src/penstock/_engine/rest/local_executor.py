"""The driver's process as the executor of a local Spark."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Final

from penstock._engine.gateway.executor_view import SPARK, ExecutorView

_STATM: Final = Path("/proc/self/statm")


def local_executor(slots: int, running_tasks: int) -> ExecutorView:
    """Return this process as an executor, with its memory."""
    return ExecutorView(SPARK, socket.gethostname(), 0, slots, running_tasks, _physical_bytes(), _resident_bytes())


def _physical_bytes() -> int:
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return 0
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _resident_bytes() -> int:
    """Return the resident bytes of this process; their peak if the system does not tell the current number."""
    if _STATM.exists():
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if sys.platform == "win32":
        return 0
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10

"""Looks at processes from outside: who descends from whom, and when they have ended. Needs Linux."""

from __future__ import annotations

import contextlib
import os
import select
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # ended while we look
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(status.parent.name))
    found = [pid]
    for ancestor in found:
        found += children.get(ancestor, [])
    return found[1:]


class Watched:
    """Processes of which each is known by more than a number that might be used again.

    Args:
        pids: The processes.
    """

    def __init__(self, pids: list[int]) -> None:
        self._alive: dict[int, int] = {}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                self._alive[os.pidfd_open(pid)] = pid

    def still_alive_after(self, seconds: float) -> list[int]:
        """Wait for the end of all of them, and return those that still live after a time."""
        deadline = time.monotonic() + seconds
        while self._alive and (left := deadline - time.monotonic()) > 0:
            for descriptor in select.select(list(self._alive), [], [], left)[0]:
                os.close(descriptor)
                del self._alive[descriptor]
        return list(self._alive.values())


def kill(program: subprocess.Popen[Any], seconds: float) -> list[int]:
    """Kill a program alone, and return which of the processes that it has started still live after a time."""
    watched = Watched(descendants(program.pid))
    program.kill()
    program.wait()
    return watched.still_alive_after(seconds)

"""What jobs of this process have lost although they finished: for the command that runs the program."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.common.job_execution_result import GivenUpCommittables

_lock = threading.Lock()
_lines: Final[list[str]] = []


def note_given_up(job_name: str, given_up: Sequence[GivenUpCommittables]) -> None:
    """Note what the sinks of a job that has come to its end have lost."""
    with _lock:
        _lines.extend(f"Job {job_name!r}: {entry}" for entry in given_up)


def take_given_up() -> list[str]:
    """Return what was noted, a line for each entry, and forget it."""
    with _lock:
        lines = list(_lines)
        _lines.clear()
    return lines

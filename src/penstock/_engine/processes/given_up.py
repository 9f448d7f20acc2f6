"""Collects the losses of finished jobs of this process, for the command that runs the program."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.common.job_execution_result import GivenUpCommittables

_lock = threading.Lock()
_lines: Final[list[str]] = []


def note_given_up(job_name: str, given_up: Sequence[GivenUpCommittables]) -> None:
    """Note the committables that the sinks of a finished job gave up."""
    with _lock:
        _lines.extend(f"Job {job_name!r}: {entry}" for entry in given_up)


def take_given_up() -> list[str]:
    """Return and clear the notes, a line for each entry."""
    with _lock:
        lines = list(_lines)
        _lines.clear()
    return lines

"""Collects the losses of finished jobs of this process, for the command that runs the program."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.common.job_execution_result import GivenUpCommittables

_lock = threading.Lock()
_lines: Final[list[str]] = []


def note_given_up(job_name: str, given_up: GivenUpCommittables) -> None:
    """Note committables that a sink of a finished job gave up."""
    with _lock:
        _lines.append(f"Job {job_name!r}: {given_up}")


def take_given_up() -> list[str]:
    """Return and clear the notes, a line for each entry."""
    with _lock:
        lines = list(_lines)
        _lines.clear()
    return lines

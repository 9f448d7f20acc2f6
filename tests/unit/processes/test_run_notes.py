"""Notes of runs: whether the process that one names lives."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from penstock._engine.processes.run_notes import RunNote
from penstock._engine.storage.executor_directory import process_name

if TYPE_CHECKING:
    import pytest


def test_a_process_of_another_user_lives_as_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(pid: int, signal: int) -> None:
        raise PermissionError(pid, signal)

    monkeypatch.setattr(os, "kill", refused)
    here = "host", os.getpid(), process_name(os.getpid())
    note = RunNote("a" * 32, "b" * 32, "job", "STREAMING", 0, *here, None)
    assert note.process is not None
    assert note.lives
    assert not msgspec.structs.replace(note, process=f"{os.getpid()}-0").lives  # the number is another process's now

"""Directories that a process holds: others can tell that it lives."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING, Any

from penstock._engine.storage.scratch import LOCK, DirectoryLock, is_dead

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_directory_is_at_no_moment_taken_for_that_of_a_dead_process_while_it_is_being_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, seen = fcntl.flock, list[bool]()

    def look_first(file: Any, how: int) -> None:
        with monkeypatch.context() as as_others:  # another process looks for what dead ones have left
            as_others.setattr(fcntl, "flock", lock)
            seen.append(is_dead(tmp_path))
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", look_first)
    hold = DirectoryLock(tmp_path)
    monkeypatch.undo()
    seen.append(is_dead(tmp_path))
    assert seen == [False] * 3
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    hold.close()
    assert is_dead(tmp_path)

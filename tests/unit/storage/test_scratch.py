"""Directories that a process holds: others can tell that it lives."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock._engine.storage.local_state import LocalStateDirectory
from penstock._engine.storage.scratch import LOCK, DirectoryLock, ScratchDirectory, is_dead, remove_dead


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


def test_a_run_that_is_taken_while_its_directory_is_removed_keeps_what_it_puts_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, taker = tmp_path / "run", LocalStateDirectory("run", tmp_path)
    path.mkdir(mode=0o700)
    DirectoryLock(path, shared=True).close()
    (path / "dead").mkdir()
    remove, kept = shutil.rmtree, list[Path]()

    def take_first(place: Path, **options: Any) -> None:
        if not kept:
            (path / LOCK).unlink(missing_ok=True)  # the lock file may be the first that goes
            kept.append(taker.hold() / "kept")
            kept[0].touch()
        remove(place, **options)

    monkeypatch.setattr(shutil, "rmtree", take_first)
    remove_dead(path)
    assert kept[0].exists()
    assert not (path / "dead").exists()
    monkeypatch.undo()
    taker.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_whose_removal_is_interrupted_is_known_as_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(place: Path, **_: Any) -> None:
        if place.name != "below":
            (place / LOCK).unlink(missing_ok=True)  # as it may happen to be the first
        raise KeyboardInterrupt

    directory = ScratchDirectory("some-", tmp_path)
    (directory.path / "below").mkdir()
    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        directory.remove()
    monkeypatch.undo()
    [left] = tmp_path.iterdir()
    assert is_dead(left)
    remove_dead(left)
    assert list(tmp_path.iterdir()) == []

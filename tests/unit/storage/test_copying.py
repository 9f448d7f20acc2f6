"""Copies between storages of every kind, and what their failures say."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from penstock._engine.storage import local
from penstock._engine.storage.checkpoint_storage import copy_files
from penstock._engine.storage.opening import open_storage
from penstock.errors import CheckpointStorageError, CorruptCheckpointError
from penstock.testing import FailingStorage

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.storage.checkpoint_storage import FileStorage

_names = itertools.count()
CONTENTS = {f"job/shared/{number}": os.urandom(number * 1000) for number in range(30)}
#: More than is copied at once.
LARGE = os.urandom(local._COPY_BYTES + 1000)


def opened(kind: str, place: Path) -> FileStorage:
    return open_storage(str(place) if kind == "local" else f"memory://copies-{next(_names)}")


def filled(storage: FileStorage) -> FileStorage:
    for path, data in CONTENTS.items():
        storage.put(path, data)
    return storage


def copies() -> list[tuple[str, str]]:
    return [(path, path.rpartition("/")[2]) for path in CONTENTS]


@pytest.mark.parametrize("target", ["local", "memory"])
@pytest.mark.parametrize("source", ["local", "memory"])
def test_files_arrive_whole_under_their_new_names(tmp_path: Path, source: str, target: str) -> None:
    there = opened(target, tmp_path / "target")
    copy_files(filled(opened(source, tmp_path / "source")), there, copies())
    assert {file.path: there.read(file.path) for file in there.files("")} == {
        name: CONTENTS[path] for path, name in copies()
    }


def test_a_file_that_is_larger_than_what_is_copied_at_once_arrives_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = opened("local", tmp_path / "source"), opened("local", tmp_path / "target")
    source.put("job/shared/large", LARGE)
    copy_files(source, target, [("job/shared/large", "at once")])
    monkeypatch.delattr(os, "copy_file_range")
    copy_files(source, target, [("job/shared/large", "by hand")])
    assert target.read("at once") == target.read("by hand") == LARGE


def test_copy_within_one_store_needs_no_reading() -> None:
    storage = filled(opened("memory", None))  # type: ignore[arg-type]
    unreadable = pytest.MonkeyPatch()
    unreadable.setattr(type(storage), "find", lambda *_: pytest.fail("read"))
    try:
        copy_files(storage, storage, [("job/shared/7", "seven")])
    finally:
        unreadable.undo()
    assert storage.read("seven") == CONTENTS["job/shared/7"]


def test_file_system_without_ranges_is_copied_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = opened("local", tmp_path / "source"), opened("local", tmp_path / "target")
    real, calls = os.copy_file_range, itertools.count()

    def half(*arguments: int) -> int:
        if next(calls):
            raise OSError(local.errno.EXDEV, "cross-device")
        return real(*arguments[:2], 100)

    monkeypatch.setattr(os, "copy_file_range", half)
    copy_files(filled(source), target, [("job/shared/7", "seven")])
    assert target.read("seven") == CONTENTS["job/shared/7"]


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_missing_file_is_named_and_nothing_half_written_stays(tmp_path: Path, kind: str) -> None:
    source, target = opened(kind, tmp_path / "source"), opened("local", tmp_path / "target")
    with pytest.raises(CorruptCheckpointError, match="job/shared/gone"):
        copy_files(filled(source), target, [("job/shared/gone", "gone")])
    assert target.files("") == target.unfinished() == []


def test_storage_that_refuses_a_write_ends_the_copy_with_its_reason(tmp_path: Path) -> None:
    target = FailingStorage(str(tmp_path / "target"))
    target.refuse("put", paths="7", reason="the disk is full")
    with pytest.raises(CheckpointStorageError, match="the disk is full"):
        copy_files(filled(opened("local", tmp_path / "source")), target, copies())


def test_file_of_a_killed_writer_is_found(tmp_path: Path) -> None:
    storage = filled(opened("local", tmp_path))
    (tmp_path / "job" / ".tmp-77-abc").write_bytes(b"12345")
    assert [(file.path, file.size) for file in storage.unfinished()] == [("job/.tmp-77-abc", 5)]

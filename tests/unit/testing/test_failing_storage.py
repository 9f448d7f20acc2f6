"""A storage that fails on demand: which calls fail, and what they have done by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock._engine.storage.opening import open_storage
from penstock.errors import CheckpointStorageError
from penstock.testing import FailingStorage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def storage(tmp_path: Path) -> FailingStorage:
    return FailingStorage(str(tmp_path / "checkpoints"))


def test_nothing_fails_unless_it_is_told_to(storage: FailingStorage) -> None:
    storage.probe()
    storage.put("job/a", b"one")
    assert storage.put_if_absent("job/b", b"two")
    assert not storage.put_if_absent("job/b", b"three")
    assert (storage.read("job/a"), storage.find("job/c"), storage.read_range("job/b", 1, 2)) == (b"one", None, b"wo")
    assert storage.names("job") == ["a", "b"]
    assert [file.path for file in storage.files("")] == ["job/a", "job/b"]
    storage.delete(["job/a"])
    assert storage.names("job") == ["b"]


def test_it_is_the_storage_that_it_stands_in_front_of(tmp_path: Path) -> None:
    behind = open_storage(str(tmp_path))
    storage = FailingStorage(behind)
    assert (storage.url, storage.full_path("job/a")) == (behind.url, str(tmp_path / "job/a"))
    storage.put("job/a", b"one")
    assert behind.read("job/a") == b"one"


def test_refused_call_has_no_effect_and_names_the_path_and_the_reason(storage: FailingStorage) -> None:
    storage.refuse("put", reason="the disk is full")
    with pytest.raises(CheckpointStorageError, match=r"job/a cannot be used: the disk is full"):
        storage.put("job/a", b"one")
    assert storage.find("job/a") is None


def test_call_whose_answer_is_lost_has_its_effect(storage: FailingStorage) -> None:
    storage.lose_answer("put_if_absent")
    with pytest.raises(CheckpointStorageError, match="the answer is lost"):
        storage.put_if_absent("job/a", b"one")
    assert not storage.put_if_absent("job/a", b"two")
    assert storage.read("job/a") == b"one"


def test_only_the_calls_and_paths_that_were_named_fail(storage: FailingStorage) -> None:
    storage.refuse("put", "delete", paths="*/chk-3/*", times=None)
    storage.put("job/chk-2/_metadata", b"")
    assert storage.put_if_absent("job/chk-3/_metadata", b"")
    for _ in range(3):
        with pytest.raises(CheckpointStorageError):
            storage.put("job/chk-3/_metadata", b"")
    with pytest.raises(CheckpointStorageError, match="chk-2"):  # the first of those that one call is about
        storage.delete(["job/chk-2/_metadata", "job/chk-3/_metadata"])
    assert storage.names("job") == ["chk-2", "chk-3"]


def test_calls_fail_as_often_as_was_asked_for_one_fault_after_the_other(storage: FailingStorage) -> None:
    storage.refuse("put", times=2)
    storage.lose_answer("put")
    found: list[bytes | None] = []
    for _ in range(4):
        try:
            storage.put("job/a", b"one")
        except CheckpointStorageError:
            found.append(storage.find("job/a"))
    assert found == [None, None, b"one"]


def test_healed_storage_fails_no_more(storage: FailingStorage) -> None:
    storage.refuse("put", times=None)
    storage.heal()
    storage.put("job/a", b"one")
    assert storage.read("job/a") == b"one"

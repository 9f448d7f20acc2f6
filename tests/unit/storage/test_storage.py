"""One contract for every kind of storage, and what only a local directory can show."""

from __future__ import annotations

import errno
import itertools
import json
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from penstock._connectors.files import local as local_files
from penstock._engine.storage import local
from penstock._engine.storage.local import LocalStorage
from penstock._engine.storage.object_store import ObjectStorage
from penstock._engine.storage.opening import local_path, open_storage
from penstock._files import disk
from penstock.errors import CheckpointStorageError, CorruptCheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.storage.checkpoint_storage import FileStorage

_names = itertools.count()


@pytest.fixture(params=["directory", "file url", "object store"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> FileStorage:
    place = tmp_path / "a b" / "checkpoints"
    urls = {
        "directory": str(place),
        "file url": place.as_uri(),
        "object store": f"memory://{next(_names)}",
    }
    return open_storage(urls[request.param])


def test_file_is_read_back(storage: FileStorage) -> None:
    storage.put("job/shared/a", b"one")
    storage.put("job/shared/a", b"two")
    assert storage.read("job/shared/a") == storage.find("job/shared/a") == b"two"
    assert storage.read_range("job/shared/a", 1, 2) == b"wo"


def test_missing_file_is_named(storage: FileStorage) -> None:
    assert storage.find("job/chk-1/_metadata") is None
    with pytest.raises(CorruptCheckpointError, match="job/chk-1/_metadata"):
        storage.read("job/chk-1/_metadata")
    with pytest.raises(CorruptCheckpointError, match="job/chk-1/_metadata"):
        storage.read_range("job/chk-1/_metadata", 0, 1)


def test_file_that_is_too_short_is_named(storage: FileStorage) -> None:
    storage.put("job/shared/a", b"1234")
    for start in (2, 4, 100):
        with pytest.raises(CorruptCheckpointError, match=f"job/shared/a.* ends before byte {start + 3}"):
            storage.read_range("job/shared/a", start, 3)


def test_second_conditional_put_changes_nothing(storage: FileStorage) -> None:
    assert storage.put_if_absent("job/chk-1/_metadata", b"first")
    assert not storage.put_if_absent("job/chk-1/_metadata", b"second")
    assert storage.read("job/chk-1/_metadata") == b"first"


def test_file_gets_another_name_once_and_again_changes_nothing(storage: FileStorage) -> None:
    storage.put("a/staged", b"1")
    for _ in range(2):
        storage.move("a/staged", "a/named")
        assert (storage.find("a/staged"), storage.find("a/named")) == (None, b"1")
    with pytest.raises(CorruptCheckpointError):
        storage.move("a/none", "a/other")


def test_another_name_needs_no_room_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path)
    storage.put("a/staged", b"1")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("os.write", full)
    storage.move("a/staged", "a/named")
    assert storage.find("a/named") == b"1"


def test_listing_shows_names_below_and_files_at_any_depth(storage: FileStorage) -> None:
    storage.put("job/chk-10/_metadata", b"ab")
    storage.put("job/chk-9/_metadata", b"a")
    storage.put("job/shared/x", b"")
    assert storage.names("") == ["job"]
    assert storage.names("job") == ["chk-10", "chk-9", "shared"]
    assert storage.names("nothing") == storage.files("nothing") == []
    files = storage.files("job")
    assert [(file.path, file.size) for file in files] == [
        ("job/chk-10/_metadata", 2),
        ("job/chk-9/_metadata", 1),
        ("job/shared/x", 0),
    ]
    assert all(file.modified_ms > 1_600_000_000_000 for file in files)


def test_deleting_leaves_no_empty_checkpoint(storage: FileStorage) -> None:
    storage.put("job/chk-1/_metadata", b"a")
    storage.put("job/chk-2/_metadata", b"a")
    storage.delete(["job/chk-1/_metadata", "job/chk-1/gone"])
    assert storage.names("job") == ["chk-2"]


def test_more_files_than_a_request_takes_are_all_deleted(storage: FileStorage) -> None:
    names = [f"job/shared/{number}" for number in range(450)]
    for name in names[::3]:  # others are gone already
        storage.put(name, b"")
    storage.put("job/shared/kept", b"")
    storage.delete(names)
    assert storage.names("job/shared") == ["kept"]


def test_same_storage_opens_by_its_url(storage: FileStorage) -> None:
    storage.put("job/x", b"x")
    assert open_storage(storage.url).read("job/x") == b"x"


def test_probe_leaves_nothing_behind(storage: FileStorage) -> None:
    storage.probe()
    assert storage.names("") == []


def test_probe_of_a_directory_that_is_not_there_makes_none(tmp_path: Path) -> None:
    open_storage(str(tmp_path / "a" / "b")).probe()
    assert list(tmp_path.iterdir()) == []


def test_store_that_overwrites_in_a_conditional_put_is_refused() -> None:
    class Forgetful(ObjectStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            self.put(path, data)
            return True

    sound = open_storage("memory://forgetful")
    assert isinstance(sound, ObjectStorage)
    with pytest.raises(CheckpointStorageError, match="does not refuse to overwrite"):
        Forgetful(sound.url, {}).probe()


def test_unknown_kind_of_storage_is_refused_by_its_url() -> None:
    with pytest.raises(CheckpointStorageError, match="gopher://host/path"):
        open_storage("gopher://host/path")
    for opened in (open_storage, local_path):
        with pytest.raises(CheckpointStorageError, match="Invalid IPv6 URL"):
            opened("http://[")


@pytest.mark.parametrize("kind", ["directory", "object store"])
def test_of_many_threads_that_put_one_name_one_wins(kind: str, tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path) if kind == "directory" else "memory://threads")
    for round_ in range(20):
        wins: list[int] = []
        together = threading.Barrier(4)

        def put(number: int, round_: int = round_, wins: list[int] = wins, start: threading.Barrier = together) -> None:
            start.wait()
            if storage.put_if_absent(f"job/chk-{round_}/_metadata", b"%d" % number):
                wins.append(number)

        threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [storage.read(f"job/chk-{round_}/_metadata")] == [b"%d" % number for number in wins]


PUT_ALL = """
import json, sys
from penstock._engine.storage.opening import open_storage
storage, mark = open_storage(sys.argv[1]), sys.argv[2].encode()
sys.stdin.readline()
print(json.dumps([at for at in range(200) if storage.put_if_absent(f"job/chk-{at}/_metadata", mark)]))
"""


def test_of_two_processes_that_put_the_same_names_each_name_has_one_winner(tmp_path: Path) -> None:
    with ExitStack() as stack:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        commands = ([sys.executable, "-c", PUT_ALL, str(tmp_path), mark] for mark in ("first", "second"))
        putting = [stack.enter_context(subprocess.Popen(command, **pipes)) for command in commands]
        for process in putting:
            process.stdin.write("begin\n")
            process.stdin.flush()
        first, second = (json.loads(process.stdout.read()) for process in putting)
    storage = open_storage(str(tmp_path))
    found = {number: storage.read(f"job/chk-{number}/_metadata") for number in range(200)}
    assert sorted(first + second) == list(range(200))
    assert found == dict.fromkeys(first, b"first") | dict.fromkeys(second, b"second")


def test_no_temporary_file_is_left_or_listed(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    storage.put("job/x", b"1")
    storage.put_if_absent("job/x", b"2")
    (tmp_path / "job" / ".tmp-1-abc").write_bytes(b"half")  # a process died here
    assert storage.names("job") == ["x"]
    assert [file.path for file in storage.files("job")] == ["job/x"]
    assert len(list((tmp_path / "job").iterdir())) == 2


def test_full_disk_is_said_with_the_path_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(str(tmp_path))

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(CheckpointStorageError, match=r"job/chk-1/_metadata.*the disk is full"):
        storage.put_if_absent("job/chk-1/_metadata", b"data")
    monkeypatch.undo()
    assert storage.files("") == []


def test_path_below_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CheckpointStorageError, match="a part of the path is a file"):
        open_storage(str(tmp_path / "file")).probe()


# ---------------------------------------------------------------------------------------- directories that fail to sync


class Disk:
    """Notes which directories are on the disk, and refuses to write the next ones that it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: Any) -> None:
        self.synced: list[Path] = []
        self.failures = 0
        for module in modules:
            monkeypatch.setattr(module, "sync_directory", self.sync)

    def sync(self, directory: Path) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EIO, "Input/output error")
        self.synced.append(directory)


def test_a_put_whose_name_is_not_on_the_disk_is_told_as_done_only_once_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs, storage = Disk(monkeypatch, local, disk), LocalStorage(tmp_path)
    syncs.failures = 2
    for _ in range(2):
        with pytest.raises(CheckpointStorageError):
            storage.put_if_absent("a", b"1")
    assert syncs.synced == []
    assert not storage.put_if_absent("a", b"1")
    assert syncs.synced == [tmp_path]


def test_a_directory_whose_name_is_not_on_the_disk_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs, storage = Disk(monkeypatch, local, disk), LocalStorage(tmp_path)
    syncs.failures = 1
    with pytest.raises(CheckpointStorageError):
        storage.put("job/chk-1/a", b"1")
    storage.put("job/chk-1/a", b"1")
    assert {tmp_path, tmp_path / "job", tmp_path / "job/chk-1"} <= set(syncs.synced)


def test_a_folder_of_a_sink_whose_name_is_not_on_the_disk_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs, filesystem = Disk(monkeypatch, local_files, disk), local_files.LocalFileSystem()
    syncs.failures = 1
    path = f"{tmp_path}/bucket/sub/part-0"
    with pytest.raises(OSError, match="Input/output"):
        filesystem.create(path)
    filesystem.finish(path, filesystem.create(path))
    assert {tmp_path, tmp_path / "bucket", tmp_path / "bucket/sub"} <= set(syncs.synced)

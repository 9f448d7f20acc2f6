"""A full disk below local state or the temporary directory: the error names the directory, and nothing is lost."""

from __future__ import annotations

import errno
import os
import tempfile
from typing import TYPE_CHECKING, Any

import lmdb
import pytest
from tests.kit.stories import Story

from penstock._connectors.files import object_store
from penstock._engine.state.local import environment
from penstock._engine.state.local.environment import LmdbEnvironment
from penstock._engine.storage import scratch
from penstock._engine.storage.scratch import ScratchDirectory
from penstock._engine.storage.temporary import TemporaryStorage
from penstock.common import Encoder
from penstock.common.job_status import JobStatus
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import CheckpointStorageError, LocalDirectoryError, LocalStateError, SinkFileError
from penstock.testing.sink_contract import SinkRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FULL = os.strerror(errno.ENOSPC)
NUMBERS = range(20)


class Count(KeyedProcessFunction[Any, Any, Any]):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield value % 4, self.count.value()


def of_four(number: int) -> int:
    return number % 4


def program(sheet: Any) -> None:
    sheet.env._configuration.set_string("penstock.state.memory", "1 b")
    sheet.collect(sheet.source("numbers", NUMBERS).key_by(of_four).process(Count()).uid("count"))


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, FULL)


def full_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the n-th write fail, when half of it is done."""
    original, writes = LmdbEnvironment.write, iter(range(1, 1_000))

    def write(self: LmdbEnvironment, action: Callable[[Any], Any]) -> Any:
        def cut_off(transaction: Any) -> None:
            action(transaction)
            raise lmdb.DiskError(f"mdb_txn_commit: {FULL}")

        return original(self, cut_off if next(writes) == number else action)

    monkeypatch.setattr(LmdbEnvironment, "write", write)


def no_new_one(_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise lmdb.DiskError(f"mdb_env_open: {FULL}")

    monkeypatch.setattr(environment.lmdb, "open", refused)


@pytest.mark.parametrize(("fill", "at"), [(full_at, 1), (full_at, 2), (full_at, 5), (full_at, 9), (no_new_one, 0)])
def test_full_disk_of_local_state_is_named_and_nothing_is_lost(
    tmp_path: Path, fill: Callable[[int, pytest.MonkeyPatch], None], at: int
) -> None:
    story = Story(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        fill(at, patch)
        failed = story.run(program, recover="latest")
    assert failed.status is JobStatus.FAILED
    cause = failed.error
    while cause is not None and not isinstance(cause, LocalStateError):
        cause = cause.__cause__
    assert isinstance(cause, LocalStateError), failed.error
    assert cause.path.startswith(str(tmp_path / "state-0"))
    assert FULL in str(cause)
    assert str(cause) in str(failed.error)
    assert story.run(program, recover="latest").status is JobStatus.FINISHED
    assert sorted(story.output()) == [(key, count) for key in range(4) for count in range(1, 6)]


def test_full_disk_of_local_state_is_tried_again_where_restarts_are_set(tmp_path: Path) -> None:
    story = Story(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        full_at(3, patch)
        assert story.run(program, restart="fixed-delay").status is JobStatus.FINISHED
    assert sorted(story.output()) == [(key, count) for key in range(4) for count in range(1, 6)]


def test_temporary_directory_that_takes_no_more_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(scratch.tempfile, "mkdtemp", refuse)
        with pytest.raises(LocalDirectoryError, match=f"{tmp_path}.*{FULL}"):
            ScratchDirectory("penstock-")
    directory = ScratchDirectory("penstock-")
    checkpoints = TemporaryStorage(directory)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        with pytest.raises(CheckpointStorageError, match=f"{tmp_path}.*the disk is full"):
            checkpoints.put("job/chk-1/_metadata", b"data")
    assert checkpoints.names("job/chk-1") == []
    directory.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_waits_for_its_upload_on_a_full_disk_is_named_and_written_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(object_store, "_IN_MEMORY_BYTES", 10)
    folder = "memory:///full-disk"
    sink = FileSink.for_row_format(folder, Encoder.simple_string_encoder()).build()
    run = SinkRun(sink)
    done = run.epoch(["one"])
    run.commit(done)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", refuse)
        with pytest.raises(SinkFileError, match=f"{FULL}.*{tmp_path}"):
            run.epoch(["x" * 100])
    run.close()
    again = SinkRun(sink, checkpoint=done)
    again.commit(again.epoch(["x" * 100], end_of_input=True))
    again.close()
    filesystem = object_store.ObjectFileSystem()
    found = [filesystem.open(status.path).read() for status in filesystem.find(folder)]
    assert sorted(b"".join(found).split()) == [b"one", b"x" * 100]
    assert not list(filesystem.hidden_files(folder))

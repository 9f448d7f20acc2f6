"""Logs that are renamed and started fresh while a source follows them: each line once, or a word about it."""

from __future__ import annotations

import itertools
import logging
import os
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from penstock._connectors.files.growing import TAIL_BYTES
from penstock._connectors.files.source_state import FileCheckpointSerializer
from penstock._formats import lines as line_blocks
from penstock.common.time import Duration
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.errors import SourceFileChangedError, SourceFileGoneError
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from pathlib import Path

TEXT = StreamFormat.text_line_format()


def source_of(path: Path | str, *, ends: bool = False) -> FileSource:
    builder = FileSource.for_record_stream_format(TEXT, str(path)).read_appended_files()
    return (builder if ends else builder.monitor_continuously(Duration.of_seconds(1))).build()


class Follower:
    """A source that follows logs, looked at step by step; it may be started again behind each."""

    def __init__(self, path: Path | str) -> None:
        self._source = source_of(path)
        self.run = SourceRun(self._source)
        self._before: list[str] = []

    def look(self) -> None:
        self.run.context.run_async_calls()

    def read(self) -> list[str]:
        """Look, read what is there, and return all that was ever read."""
        self.look()
        self.run.epoch()
        self._checkpoint = self.run.epoch()
        return sorted(self._before + self.run.records)

    def restart(self) -> None:
        self._before += self.run.records
        self.run = SourceRun(self._source, 1, self._checkpoint)

    @property
    def replaced(self) -> int:
        return int(str(self.run.context.metric_group.snapshot()["replacedFiles"]["count"]))


def append(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restart"])
@pytest.mark.parametrize("new", [["5"], ["5", "6", "7"], ["5", "6", "7", "8", "9"]], ids=["less", "as much", "more"])
@pytest.mark.parametrize("last", [[], ["4"]], ids=["", "appended before"])
def test_renamed_log_goes_on_and_the_new_one_is_read_from_its_beginning(
    tmp_path: Path, restarts: bool, new: list[str], last: list[str]
) -> None:
    log = tmp_path / "app.log"
    append(log, "1", "2", "3")
    follower = Follower(tmp_path)
    assert follower.read() == ["1", "2", "3"]
    if restarts:
        follower.restart()
    append(log, *last)
    log.rename(tmp_path / "app.log.1")
    append(log, *new)
    assert follower.read() == ["1", "2", "3", *last, *new]
    append(tmp_path / "app.log.1", "4a")  # a writer that has it open still
    assert follower.read() == sorted(["1", "2", "3", *last, *new, "4a"])
    assert follower.replaced == 0


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restart"])
def test_chain_of_renamed_logs_of_equal_content_is_read_once(tmp_path: Path, restarts: bool) -> None:
    log, follower = tmp_path / "app.log", Follower(tmp_path)
    for round_ in range(1, 5):
        for number in range(3, 0, -1):
            if (old := tmp_path / f"app.log.{number}").exists():
                old.rename(tmp_path / f"app.log.{number + 1}")
        if log.exists():
            log.rename(tmp_path / "app.log.1")
        append(log, "begun", "x")
        assert follower.read() == sorted(["begun", "x"] * round_)
        if restarts:
            follower.restart()


def test_any_order_of_appending_and_renaming_gives_each_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_blocks, "CHUNK_BYTES", 16)
    for seed in range(15):
        folder = tmp_path / str(seed)
        folder.mkdir()
        chance, numbers, olds = random.Random(seed), itertools.count(), itertools.count()
        follower, log, written = Follower(folder), folder / "a.log", 0
        for _ in range(30):
            step = chance.randrange(6)
            if step < 3:
                paths = [log, *folder.glob("a.log.*")]
                lines = [f"{next(numbers):05d}" for _ in range(chance.randrange(1, 20))]
                append(chance.choice(paths), *lines)
                written += len(lines)
            elif step == 3 and log.exists():
                log.rename(folder / f"a.log.{next(olds)}")
            elif step == 4:
                follower.read()
                follower.restart()
            else:
                follower.look()
                follower.run.epoch(polls=1)
        follower.read()
        follower.read()
        assert follower.read() == [f"{number:05d}" for number in range(written)], seed


def test_log_that_is_renamed_out_of_sight_is_counted_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "in").mkdir()
    log = tmp_path / "in" / "app.log"
    append(log, "1", "2")
    follower = Follower(tmp_path / "in")
    assert follower.read() == ["1", "2"]
    log.rename(tmp_path / "away")
    append(log, "1", "2", "3")
    with caplog.at_level(logging.WARNING):
        assert follower.read() == ["1", "1", "2", "2", "3"]
    assert follower.replaced == 1
    assert "what was appended to it behind byte 4 is not read" in caplog.text
    assert follower.read() == ["1", "1", "2", "2", "3"]


@pytest.mark.parametrize("ends", [False, True], ids=["followed", "once"])
@pytest.mark.parametrize("when", ["handed out", "after a restart", "under the reader"])
def test_log_that_is_renamed_before_it_is_read_is_found_by_its_inode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, ends: bool
) -> None:
    monkeypatch.setattr(line_blocks, "CHUNK_BYTES", 4)
    log, source = tmp_path / "app.log", source_of(tmp_path, ends=ends)
    append(log, "1", "2", "3", "4")
    run = SourceRun(source)
    before: list[str] = []
    if when != "handed out":
        checkpoint = run.epoch(polls=1)
        if when == "after a restart":
            before = run.records
            run = SourceRun(source, 1, checkpoint)
    log.rename(tmp_path / "app.log.1")
    append(log, "other", "lines", "there")
    run.epoch()
    run.epoch()
    assert before + run.records == ["1", "2", "3", "4"]


def test_log_that_is_gone_with_what_was_to_be_read_of_it_is_named(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, "1", "2")
    run = SourceRun(source_of(tmp_path))
    run.context.run_async_calls()
    append(tmp_path / "new", "3", "4")
    (tmp_path / "new").rename(log)
    with pytest.raises(SourceFileGoneError, match=r"app\.log .*no file of its folder is the one that it was"):
        run.epoch()


def test_copy_of_a_folder_goes_on_where_enough_was_read_to_know_it(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [f"{number:05d}" for number in range(TAIL_BYTES // 6 + 1)]
    append(folder / "app.log", *lines)
    follower = Follower(folder)
    assert follower.read() == lines
    follower.restart()
    folder.rename(tmp_path / "before")
    shutil.copytree(tmp_path / "before", folder)
    append(folder / "app.log", "more")
    assert follower.read() == [*lines, "more"]
    assert follower.replaced == 0


def test_log_that_is_cut_and_written_again_is_named(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, "1", "2")
    follower = Follower(tmp_path)
    assert follower.read() == ["1", "2"]
    with log.open("r+") as file:
        file.truncate()
        file.write("5\n6\n7\n")
    with pytest.raises(SourceFileChangedError, match="what stands before byte 4 is not what was read there"):
        follower.look()


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_second_name_of_a_followed_file_is_no_second_file(tmp_path: Path, link: object) -> None:
    append(tmp_path / "b.log", "1")
    assert callable(link)
    link(tmp_path / "b.log", tmp_path / "a.log")
    follower = Follower(tmp_path)
    assert follower.read() == ["1"]
    append(tmp_path / "b.log", "2")
    link(tmp_path / "b.log", tmp_path / "c.log")
    assert follower.read() == ["1", "2"]
    (tmp_path / "a.log").unlink()
    append(tmp_path / "b.log", "3")
    assert follower.read() == ["1", "2", "3"]


def test_inode_that_was_used_again_is_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path / "a.log", "1", "2")
    follower = Follower(tmp_path)
    assert follower.read() == ["1", "2"]
    # As after a deletion: the same inode, other bytes, another name.
    (tmp_path / "a.log").write_text("3\n4\n5\n")
    (tmp_path / "a.log").rename(tmp_path / "b.log")
    assert follower.read() == ["1", "2", "3", "4", "5"]


def test_files_of_a_checkpoint_without_inodes_are_followed_on(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, "1", "2")
    source = source_of(tmp_path)
    run = SourceRun(source)
    run.context.run_async_calls()
    run.epoch()
    state = FileCheckpointSerializer()
    known = run.enumerator.snapshot_state(1)
    serialized = state.serialize(known)
    import pickle

    columns = pickle.loads(serialized)
    columns["taken"] = columns["taken"][:4]
    old = state.deserialize(2, pickle.dumps(columns))
    [status] = old.taken.values()
    assert status is not None
    assert (status.inode, status.tail) == (None, None)
    enumerator = source.restore_enumerator(run.context, old)
    append(log, "3")
    enumerator.find_new_splits()
    assert [split.part.start for split in enumerator.waiting_splits] == [4]


# ------------------------------------------------------------------------------------------- lines without their end


def test_last_line_without_its_end_is_a_record_of_a_source_that_ends(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("1\n2\nha")
    assert SourceRun(source_of(tmp_path, ends=True)).run_to_end() == ["1", "2", "ha"]


@pytest.mark.parametrize("polls", [1, 2, 3])
@pytest.mark.parametrize("chunk", [2, 4, 100])
def test_restore_from_an_older_state_gives_the_whole_of_a_last_line_that_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polls: int, chunk: int
) -> None:
    monkeypatch.setattr(line_blocks, "CHUNK_BYTES", chunk)
    (tmp_path / "a.log").write_text("1\n2\n3\n4\n5\nha")
    source = source_of(tmp_path, ends=True)
    run = SourceRun(source)
    checkpoint = run.epoch(polls=polls)
    before = list(run.records)
    append(tmp_path / "a.log", "lf", "more")
    after = SourceRun(source, 1, checkpoint).run_to_end()
    records = before + after
    assert records in (["1", "2", "3", "4", "5", "half"], ["1", "2", "3", "4", "5", "ha"])
    assert (records[-1] == "ha") == ("ha" in before)  # it was given before it had grown, and is not given again


def test_line_that_a_source_that_ends_has_given_is_not_given_in_half_when_it_is_followed_then(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("1\nha")
    run = SourceRun(source_of(tmp_path, ends=True))
    checkpoint = run.epoch()
    assert run.records == ["1", "ha"]
    append(tmp_path / "a.log", "lf", "next")
    run = SourceRun(source_of(tmp_path), 1, checkpoint)
    run.context.run_async_calls()
    run.epoch()
    run.epoch()
    assert run.records == ["next"]

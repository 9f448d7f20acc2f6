"""How long files wait until they are read, and those that are followed."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.connectors.touched import (
    OLD,
    SECOND,
    TEXT,
    WAS_READ,
    look,
    monitored,
    read,
    waiting,
)

from penstock._connectors.files.source import FileCheckpoint, FileEnumerator
from penstock._connectors.files.source_state import FileCheckpointSerializer
from penstock._formats import lines as line_blocks
from penstock.common.time import Duration
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.errors import SourceFileChangedError
from penstock.testing.connector_contexts import TestEnumeratorContext
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from pathlib import Path


def test_an_empty_file_waits_for_its_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.touch()
    for options in ({}, {"by_rename": True}):
        run = SourceRun(monitored(tmp_path, **options))
        for _ in range(5):
            look(run)
        assert waiting(run) == 1
        path.write_text("1\n2\n3\n")
        look(run)
        look(run)
        assert read(run) == ["1", "2", "3"]
        assert waiting(run) == 0
        path.write_text("")


def test_a_file_that_is_written_piece_by_piece_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    run = SourceRun(monitored(tmp_path))
    for end in range(1, 12):
        path.write_text("111\n222\n333"[:end])
        look(run)
        assert read(run) == []
    look(run)
    assert read(run) == ["111", "222", "333"]


def test_files_that_come_by_rename_are_read_when_they_are_first_seen(tmp_path: Path) -> None:
    run = SourceRun(monitored(tmp_path, by_rename=True))
    (tmp_path / ".a.txt").write_text(OLD)
    look(run)
    (tmp_path / ".a.txt").rename(tmp_path / "a.txt")
    look(run)
    assert read(run) == WAS_READ


class Waiting:
    """An enumerator over a folder whose clock the test moves."""

    def __init__(self, folder: Path, checkpoint: FileCheckpoint | None = None) -> None:
        source = monitored(folder, stable_for=Duration.of_seconds(10))
        self.now_s = 1000.0
        self.context = TestEnumeratorContext()
        files = replace(source._files(is_batch=False), clock=lambda: self.now_s)
        self.enumerator = FileEnumerator(self.context, files, checkpoint)
        self.enumerator.start()

    def look(self, later_s: float) -> int:
        """Look some seconds later, and return how many files are taken."""
        self.now_s += later_s
        self.context.run_async_calls()
        return len(self.enumerator.waiting_splits)


def test_a_file_is_taken_when_it_has_been_the_same_for_as_long_as_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1")
    run = Waiting(tmp_path)
    assert run.look(9.9) == 0
    path.write_text("12")
    assert run.look(1) == 0
    assert run.look(9.9) == 0
    assert run.look(0.1) == 1


def test_waiting_goes_on_after_a_restart_without_the_time_in_which_no_look_was(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1")
    run = Waiting(tmp_path)
    assert run.look(6) == 0
    serializer = FileCheckpointSerializer()
    state = serializer.deserialize(2, serializer.serialize(run.enumerator.snapshot_state(1)))
    assert state.waiting[str(tmp_path / "a.txt")].unchanged_ms == 6000
    run = Waiting(tmp_path, state)
    assert run.look(3600) == 0
    assert run.look(3.9) == 0
    assert run.look(0.1) == 1


def test_monitoring_refuses_times_that_are_none_and_two_rules_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stable_for must be at least 1 ms"):
        monitored(tmp_path, stable_for=Duration.of_millis(0))
    with pytest.raises(TypeError, match=r"stable_for must be a Duration, such as Duration\.of_seconds\(10\), not 3\."):
        monitored(tmp_path, stable_for=3)
    with pytest.raises(ValueError, match="not both"):
        monitored(tmp_path, stable_for=SECOND, by_rename=True)


# ---------------------------------------------------------------------------------------------------- followed files


def following(folder: Path, file_format: StreamFormat = TEXT) -> FileSource:
    builder = FileSource.for_record_stream_format(file_format, str(folder)).read_appended_files()
    return builder.monitor_continuously(SECOND).build()


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restart"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_lines_that_are_appended_are_read_once_when_their_end_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, restarts: bool
) -> None:
    monkeypatch.setattr(line_blocks, "CHUNK_BYTES", 3)
    text = ending.join(["one", "", "three and a half", "ü€", "five", ""]).encode()
    path = tmp_path / "a.log"
    source = following(tmp_path)
    run = SourceRun(source)
    records: list[str] = []
    for end in range(1, len(text) + 1):
        path.write_bytes(text[:end])
        look(run)
        run.epoch()
        checkpoint = run.epoch()
        records += run.records
        run.records.clear()
        whole = text[:end].decode(errors="ignore").split(ending)[:-1]
        assert records == whole or records == whole[:-1]  # the second half of a line's end may be missing
        if restarts:
            run = SourceRun(source, 1, checkpoint)
    path.write_bytes(text + b"x")
    look(run)
    assert records + read(run) == ["one", "", "three and a half", "ü€", "five"]


def test_a_followed_file_of_csv_has_one_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    schema = CsvSchema.builder().add_string_column("s").set_use_header().disable_quote_char().build()
    run = SourceRun(following(tmp_path, CsvReaderFormat.for_schema(schema)))
    for text in ("s", "s\n", "s\na\n", "s\na\nb\nc"):
        path.write_text(text)
        look(run)
        run.epoch()
    run.epoch()
    assert [row["s"] for row in run.records] == ["a", "b"]


def test_a_followed_file_that_shrinks_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(OLD)
    run = SourceRun(following(tmp_path))
    assert read(run) == WAS_READ
    (tmp_path / "a.log").write_text("one\n")
    with pytest.raises(SourceFileChangedError, match=r"a\.log .* has 4 bytes, and had 8"):
        look(run)


def test_archives_among_followed_files_wait_and_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(b"one\n"))
    run = SourceRun(following(tmp_path))
    assert read(run) == []
    look(run)
    assert read(run) == ["one"]
    with path.open("ab") as file:
        file.write(gzip.compress(b"two\n"))
    with pytest.raises(SourceFileChangedError, match=r"a\.log\.gz"):
        look(run)


@pytest.mark.parametrize(
    "file_format",
    [
        StreamFormat.text_line_format("UTF-16"),
        CsvReaderFormat.for_schema(CsvSchema.builder().add_string_column("s").build()),
    ],
    ids=["UTF-16", "CSV"],
)
def test_files_whose_lines_are_no_records_cannot_be_followed(tmp_path: Path, file_format: StreamFormat) -> None:
    with pytest.raises(TypeError, match="only where each line is a record"):
        following(tmp_path, file_format)

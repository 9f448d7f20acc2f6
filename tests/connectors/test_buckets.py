"""Buckets of the file sink: names that cannot be, and more of them than files can be open."""

from __future__ import annotations

import itertools
import os
import random
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
import pytest

from penstock._connectors.files import local, object_store
from penstock._connectors.files.opening import FoundFile, filesystem_of
from penstock._connectors.files.staging import FinishedPart
from penstock._connectors.files.writer import FileWriter
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.errors import BucketNameError, SinkFileError
from penstock.testing.connector_contexts import TestWriterContext
from penstock.testing.sink_contract import SinkRun
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock._connectors.files.writer import FileWriterState
    from penstock.datastream.connectors.base import WriterInitContext

numbers = itertools.count()


class ByFirst(BucketAssigner):
    """The bucket of a pair is its first value."""

    def get_bucket_id(self, element: Any, timestamp: int | None, processing_time_ms: int) -> str:
        return element[0]


def sink_to(folder: Path | str, **options: Any) -> FileSink:
    builder = FileSink.for_row_format(folder, Encoder.simple_string_encoder()).with_bucket_assigner(ByFirst())
    return builder.with_max_open_buckets(options.get("open", 500)).build()


def store_folder() -> str:
    return f"memory:///buckets-{next(numbers)}"


def lines_below(folder: Path | str) -> list[str]:
    """Return all lines that a source finds which reads the folder."""
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build()
    return sorted(SourceRun(source).run_to_end())


# ---------------------------------------------------------------------------------------------------------------- names

NAMES = {
    "absolute": ("/etc", "absolute"),
    "step-up": ("..", "step up"),
    "step-up-between": ("a/../../b", "step up"),
    "nul": ("a\0b", "control character"),
    "too-long": ("x" * 256, "256 bytes"),
    "too-long-in-bytes": ("ü" * 128, "256 bytes"),
    "path-too-long": ("/".join(["x" * 200] * 21), "more than the 4095"),
    "half-of-a-pair": ("\ud800", "UTF-8"),
    "bytes-of-no-text": ("\udcff", "UTF-8"),
    "hidden": (".h", "pass over"),
    "temporary": ("_temporary", "pass over"),
    "hidden-below": ("a/_b/c", "pass over"),
    "none": (None, "NoneType"),
    "number": (7, "type int"),
    "list": (["a"], "type list"),
}
NAMES_OF_STORES = {
    **{name: case for name, case in NAMES.items() if name not in {"too-long", "too-long-in-bytes", "path-too-long"}},
    "line-feed": ("a\nb", "control character"),
    "delete": ("a\x7f", "control character"),
    "key-too-long": ("x" * 900, "bytes"),
}
GOOD_NAMES = {
    "empty": "",
    "dot": ".",
    "plain": "a",
    "deep": "a/b/c",
    "hive": "country=SE/day=2024-01-01",
    "escaped": "k=a%2Fb",
    "space": "a b",
    "umlaut": "ü/☃",
    "home": "~",
    "slashes": "a//b/",
    "dots": "./a/./b",
    "signs": "a:b#c?d*[e]",
    "backslash": "a\\..\\x",
}


@pytest.mark.parametrize(("bucket", "reason"), NAMES.values(), ids=NAMES)
def test_bucket_that_no_folder_can_be_is_refused_before_anything_is_written(
    tmp_path: Path, bucket: Any, reason: str
) -> None:
    writer = sink_to(tmp_path).create_writer(TestWriterContext())
    with pytest.raises(BucketNameError, match=r"let the bucket assigner return another") as caught:
        writer.write_all([("good", 1), (bucket, 2)])
    assert reason in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("bucket", "reason"), NAMES_OF_STORES.values(), ids=NAMES_OF_STORES)
def test_bucket_that_no_key_can_be_is_refused_before_anything_is_written(bucket: Any, reason: str) -> None:
    folder = store_folder()
    writer = sink_to(folder).create_writer(TestWriterContext())
    with pytest.raises(BucketNameError, match=r"let the bucket assigner return another") as caught:
        writer.write_all([("good", 1), (bucket, 2)])
    assert reason in str(caught.value)
    writer.flush(False)
    assert list(filesystem_of(folder).hidden_files(folder)) == []


def test_one_bucket_for_a_whole_block_is_looked_at_too(tmp_path: Path) -> None:
    sink = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).with_bucket_assigner(
        BucketAssigner.date_time_bucket_assigner("'_'yyyy")
    )
    with pytest.raises(BucketNameError, match="pass over"):
        sink.build().create_writer(TestWriterContext()).write_all(["a"])


@pytest.mark.parametrize("bucket", GOOD_NAMES.values(), ids=GOOD_NAMES)
@pytest.mark.parametrize("kind", ["disk", "store"])
def test_bucket_that_can_be_is_found_by_a_source_of_the_folder(tmp_path: Path, kind: str, bucket: str) -> None:
    folder = str(tmp_path) if kind == "disk" else store_folder()
    run = SinkRun(sink_to(folder))
    run.commit(run.epoch([(bucket, 1)], end_of_input=True))
    run.close()
    assert lines_below(folder) == [str((bucket, 1))]


def test_longest_name_that_is_taken_can_be_written(tmp_path: Path) -> None:
    base = tmp_path / "out"
    for length in range(250, 256):
        run = SinkRun(sink_to(base))
        run.commit(run.epoch([("x" * length, 1)], end_of_input=True))
        run.close()
    assert len(lines_below(base)) == 6


def test_two_buckets_that_the_file_system_takes_for_one_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Us").mkdir()
    (tmp_path / "uS").symlink_to("Us")  # plays a file system that takes the two for one, of which only one is listed
    (tmp_path / "se").mkdir()
    listed = local._names_in
    monkeypatch.setattr(local, "_names_in", lambda folder: [name for name in listed(folder) if name != "uS"])
    writer = sink_to(tmp_path).create_writer(TestWriterContext())
    writer.write_all([("Us", 1), ("se", 2), ("SE", 3)])
    with pytest.raises(BucketNameError, match=r"'uS' cannot be .*takes it for .*/Us"):
        writer.write_all([("uS", 4)])
    writer.close()


@pytest.mark.parametrize("name", ["a/b", "a\0b", "a\nb", ".part", "_part", "x" * 151, "\ud800"])
def test_names_of_files_that_cannot_be_are_refused_where_they_are_set(name: str) -> None:
    with pytest.raises(ValueError, match="Files cannot be called"):
        OutputFileConfig.builder().with_part_prefix(name).build()


def test_error_survives_pickling_and_is_one_of_the_sinks_files() -> None:
    import pickle

    error = BucketNameError("/out", "no", "'..'")
    assert isinstance(error, SinkFileError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


# ------------------------------------------------------------------------------------------------------------- how many


def descriptors(folder: Path) -> int:
    """Return how many files below a folder this process has open."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found += str(folder) in str(entry.readlink())
        except FileNotFoundError:
            continue
    return found


def blocks(buckets: int, seed: int) -> list[list[tuple[str, int]]]:
    """Return records of all buckets in any order, as blocks."""
    chance = random.Random(seed)
    records = [(f"b{number % buckets}", number) for number in range(2 * buckets)]
    chance.shuffle(records)
    return [records[start : start + 250] for start in range(0, len(records), 250)]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors as Linux shows them")
@pytest.mark.usefixtures("_no_waiting_for_the_disk")
def test_thousands_of_buckets_take_no_more_descriptors_than_allowed_and_each_record_is_there_once(
    tmp_path: Path,
) -> None:
    most = 0
    writer = sink_to(tmp_path, open=7).create_writer(TestWriterContext())
    for block in blocks(2000, seed=1):
        writer.write_all(block)
        most = max(most, descriptors(tmp_path))
    writer.flush(True)
    assert most == 7
    assert descriptors(tmp_path) == 0
    parts = [part for part in writer.prepare_commit() if isinstance(part, FinishedPart)]
    assert len(parts) == 2000
    assert all(len(part.segments) == 1 for part in parts)  # one file each, however often it was closed


@pytest.fixture
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


class InSmallBlocks(FileSink):
    """A file sink to which an epoch comes in blocks of seven records."""

    def restore_writer(self, context: WriterInitContext, recovered_state: Collection[FileWriterState]) -> FileWriter:
        return SmallBlocksWriter(context, self._options, recovered_state)


class SmallBlocksWriter(FileWriter):
    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        for start in range(0, len(elements), 7):
            super().write_all(elements[start : start + 7], timestamps)


@pytest.mark.usefixtures("_no_waiting_for_the_disk")
@pytest.mark.parametrize("policy", ["default", "every-checkpoint"])
@pytest.mark.parametrize("kind", ["disk", "store"])
def test_records_of_more_buckets_than_files_are_there_once_over_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, policy: str
) -> None:
    monkeypatch.setattr(object_store, "_PARKED_BYTES", 40)
    folder = str(tmp_path) if kind == "disk" else store_folder()
    rolling = (
        RollingPolicy.default_rolling_policy(part_size=60)
        if policy == "default"
        else RollingPolicy.on_checkpoint_rolling_policy()
    )
    builder = FileSink.for_row_format(folder, Encoder.simple_string_encoder()).with_bucket_assigner(ByFirst())
    sink = InSmallBlocks(builder.with_rolling_policy(rolling).with_max_open_buckets(3).build()._options)
    chance, expected, checkpoint = random.Random(2), list[str](), None
    for life in range(6):
        parallelism = 1 + life % 2
        run = SinkRun(sink, parallelism, checkpoint)
        records = [(f"b{chance.randrange(20)}", f"{life}-{number}") for number in range(120)]
        expected += map(str, records)
        done = run.epoch(*[records[subtask::parallelism] for subtask in range(parallelism)])
        run.commit(done)
        run.commit(done, may_be_committed=True)
        run.epoch([(f"b{number}", "lost with the crash") for number in range(20)])
        run.close()  # the second epoch never happened
        checkpoint = done
    last = SinkRun(sink, checkpoint=checkpoint)
    last.commit(last.epoch([], end_of_input=True))
    last.close()
    assert lines_below(folder) == sorted(expected)


def test_buckets_on_a_store_take_the_memory_that_a_writer_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    most, held, flush = 1 << 20, list[int](), FileWriter.flush

    def watched(writer: FileWriter, end_of_input: bool) -> None:
        held.append(tracemalloc.get_traced_memory()[0])
        flush(writer, end_of_input)

    monkeypatch.setattr(FileWriter, "flush", watched)
    monkeypatch.setattr("penstock._connectors.files.writer._MOST_PARKED_BYTES", most)
    folder, text = store_folder(), "x" * (48 << 10)
    builder = FileSink.for_row_format(folder, Encoder.simple_string_encoder()).with_bucket_assigner(ByFirst())
    builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    run = SinkRun(builder.with_max_open_buckets(2).build())
    names = [f"b{number}" for number in range(60)]
    tracemalloc.start()
    try:
        run.commit(run.epoch([(name, text) for name in names]))
    finally:
        tracemalloc.stop()
    assert held[0] < 2 * most  # without the limit, all 2.8 MiB and more
    run.commit(run.epoch([(name, "last") for name in names], end_of_input=True))
    run.close()
    store = object_store.store_of("memory://")
    objects = [meta["path"] for batch in obstore.list(store, folder.removeprefix("memory:///")) for meta in batch]
    lines = b"".join(bytes(obstore.get(store, path).bytes()) for path in objects).decode().splitlines()
    assert sorted(lines) == sorted(str((name, said)) for name in names for said in (text, "last"))


@pytest.mark.usefixtures("_no_waiting_for_the_disk")
def test_file_of_a_bulk_format_ends_when_another_bucket_needs_its_place(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    builder = FileSink.for_bulk_format(tmp_path, ParquetBulkWriters.for_schema()).with_bucket_assigner(ByName())
    run = SinkRun(InSmallBlocks(builder.with_max_open_buckets(2).build()._options))
    records = [{"name": name, "n": n} for n, name in enumerate("abcabcabcabcabc")]
    run.commit(run.epoch(records, end_of_input=True))
    run.close()
    files = sorted(path for path in tmp_path.rglob("part-*"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert sorted(rows, key=lambda row: row["n"]) == records
    assert len(files) > 3


class ByName(BucketAssigner):
    def get_bucket_id(self, element: Any, timestamp: int | None, processing_time_ms: int) -> str:
        return element["name"]


@pytest.mark.parametrize("change", ["longer", "shorter", "gone"])
def test_file_that_was_changed_while_it_was_closed_is_an_error(tmp_path: Path, change: str) -> None:
    writer = sink_to(tmp_path, open=1).create_writer(TestWriterContext())
    writer.write_all([("a", 1)])
    writer.write_all([("b", 1)])
    (file,) = (tmp_path / "a").iterdir()
    if change == "gone":
        file.unlink()
    else:
        file.write_text("" if change == "shorter" else "more than there was before")
    with pytest.raises(SinkFileError, match="No such file" if change == "gone" else "something else has changed it"):
        writer.write_all([("a", 2)])
    writer.close()


def test_closed_writer_leaves_nothing_of_what_it_had_let_go_of(tmp_path: Path) -> None:
    writer = sink_to(tmp_path, open=1).create_writer(TestWriterContext())
    writer.write_all([(name, 1) for name in "abc"])
    writer.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_number_of_open_buckets_is_at_least_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        sink_to(tmp_path, open=0)


# ------------------------------------------------------------------------------------------------------ large objects


def put(path: str, content: bytes) -> None:
    filesystem = filesystem_of(path)
    stream = filesystem.create(path)
    stream.write(content)
    filesystem.finish(path, stream)


@pytest.mark.parametrize("largest_copy", [0, 99, 100, 1000])
@pytest.mark.parametrize("segments", [1, 3])
def test_object_that_is_too_large_to_copy_is_published_all_the_same(largest_copy: int, segments: int) -> None:
    folder = store_folder()
    filesystem = object_store.ObjectFileSystem(largest_copy=largest_copy)
    staged = [f"{folder}/.s{number}" for number in range(segments)]
    for number, path in enumerate(staged):
        put(path, bytes([number]) * 100)
    assert filesystem.publish(staged, f"{folder}/part")
    (found,) = filesystem.find(f"{folder}/part")
    assert FoundFile.of(found).open().read() == b"".join(bytes([number]) * 100 for number in range(segments))
    assert not filesystem.publish(staged, f"{folder}/part")

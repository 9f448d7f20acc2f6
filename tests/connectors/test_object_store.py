"""The file connectors over obstore, whose memory store lives as long as the process."""

from __future__ import annotations

import errno
import itertools
from typing import Any

import obstore
import pytest
from tests.connectors.staged import lose_staged

from penstock._connectors.files import object_store
from penstock._connectors.files.object_store import ObjectFileSystem
from penstock._connectors.files.opening import FoundFile, filesystem_of
from penstock._connectors.files.staging import list_segments
from penstock._formats import lines as line_reader
from penstock.common.serialization import Encoder
from penstock.common.time import Duration
from penstock.datastream.connectors.file_system import FileSink, FileSource, RollingPolicy, StreamFormat
from penstock.errors import SourceFileChangedError, SourceFileError
from penstock.testing.connector_contexts import TestEnumeratorContext
from penstock.testing.sink_contract import SinkContract, SinkRun, SinkUnderTest
from penstock.testing.source_contract import SourceContract, SourceRun

ROOT = "memory://"
numbers = itertools.count()


def new_folder() -> str:
    return f"{ROOT}/folder-{next(numbers)}"


def put(path: str, content: bytes) -> None:
    filesystem = ObjectFileSystem()
    stream = filesystem.create(path)
    stream.write(content)
    filesystem.finish(path, stream)


def visible_lines(folder: str) -> list[str]:
    try:
        found = filesystem_of(folder).find(folder)
    except FileNotFoundError:
        return []
    return [line for status in found for line in bytes(FoundFile.of(status).open().read()).decode().splitlines()]


def test_text_source_contract() -> None:
    folder = new_folder()
    lines = [f"line {number} {'x' * 50}" for number in range(8000)]
    for name in ("a.txt", "sub/b.txt"):
        put(f"{folder}/{name}", "\n".join(lines).encode())
    put(f"{folder}/_hidden.txt", b"no")
    put(f"{folder}-other/c.txt", b"no")
    make = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build
    SourceContract(make, [*lines, *lines]).check_all()


def test_globs_match_keys() -> None:
    folder = new_folder()
    for name in ("a.txt", "b.csv", "c.txt"):
        put(f"{folder}/{name}", name.encode())
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{folder}/*.txt").build()
    assert SourceRun(source).run_to_end() == ["a.txt", "c.txt"]


def test_prefix_without_objects_is_an_error_at_enumeration() -> None:
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), new_folder()).build()
    with pytest.raises(SourceFileError, match="no such file"):
        source.create_enumerator(TestEnumeratorContext())


@pytest.mark.parametrize(
    "policy", [RollingPolicy.default_rolling_policy(), RollingPolicy.on_checkpoint_rolling_policy()]
)
def test_row_sink_contract(policy: RollingPolicy) -> None:
    def make() -> SinkUnderTest:
        folder = new_folder()
        builder = FileSink.for_row_format(folder, Encoder.simple_string_encoder()).with_rolling_policy(policy)
        return SinkUnderTest(builder.build(), lambda: visible_lines(folder), lambda: lose_staged(folder))

    SinkContract(make, [str(number) for number in range(2500)]).check_all()


def test_leftovers_are_listed() -> None:
    folder = new_folder()
    SinkRun(FileSink.for_row_format(folder, Encoder.simple_string_encoder()).build()).epoch(["a"])
    assert [segment.checkpoint_id for segment in list_segments(folder)] == [1]
    assert len(list(ObjectFileSystem().hidden_files(folder))) == 1


@pytest.mark.parametrize("content", [b"lonGER", b"line"])
def test_an_object_that_was_replaced_after_it_was_found_is_an_error_that_names_it(content: bytes) -> None:
    folder = new_folder()
    put(f"{folder}/a.txt", b"LINE")
    run = SourceRun(FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build())
    put(f"{folder}/a.txt", content)
    with pytest.raises(SourceFileError, match=r"a\.txt cannot be read: (it has 6 bytes|its ETag)"):
        run.run_to_end()


def test_an_object_that_is_replaced_while_it_is_read_is_an_error_before_a_checkpoint_has_records_of_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(object_store, "_READ_BYTES", 4096)
    monkeypatch.setattr(line_reader, "CHUNK_BYTES", 4096)
    folder = new_folder()
    put(f"{folder}/a.txt", b"line\n" * 10_000)
    run = SourceRun(FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build())
    for _ in range(3):
        run.epoch(polls=1)
    assert set(run.records) == {"line"}
    put(f"{folder}/a.txt", b"LINE\n" * 10_000)
    with pytest.raises(SourceFileChangedError, match="its ETag is"):
        run.epoch(polls=1)


@pytest.mark.parametrize("size", [0, 1, 8 << 20, 72_000 << 20, 1 << 40, 5 << 40])
def test_uploads_of_any_size_have_no_more_parts_than_s3_takes_and_few_bytes_on_their_way(size: int) -> None:
    part_bytes, at_once = object_store._parts(size)
    assert 5 << 20 <= part_bytes <= 5 << 30
    assert part_bytes * 10_000 >= size
    assert at_once >= 1
    assert part_bytes * at_once <= max(48 << 20, part_bytes)


def test_objects_of_many_parts_have_the_bytes_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_READ_BYTES", 10)
    monkeypatch.setattr(object_store, "_MOST_PARTS", 3)
    folder, files = new_folder(), ObjectFileSystem()
    names, contents = [f"{folder}/{name}" for name in "abc"], [bytes(range(length)) for length in (0, 101, 250)]
    for name, content in zip(names, contents, strict=True):
        with files.create(name) as stream:
            stream.write(content)
            files.finish(name, stream)
        assert files.open(name).read() == content
    assert files.publish(names, f"{folder}/all")
    assert files.open(f"{folder}/all").read() == b"".join(contents)


def test_a_monitored_prefix_may_be_empty() -> None:
    folder = new_folder()
    text = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder, f"{folder}/*.txt")
    run = SourceRun(text.monitor_continuously(Duration.of_seconds(1)).build())
    run.context.run_async_calls()
    put(f"{folder}/a.txt", b"line")
    put(f"{folder}/_temporary/0/part.txt", b"no")
    run.context.run_async_calls()
    run.context.run_async_calls()
    run.epoch()
    run.epoch()
    assert run.records == ["line"]


def test_a_monitored_object_that_is_written_over_is_told_by_its_etag() -> None:
    folder = new_folder()
    text = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)
    run = SourceRun(text.monitor_continuously(Duration.of_seconds(1)).build())
    for content in (b"one\n", b"two\n"):
        put(f"{folder}/a.txt", content)
        run.context.run_async_calls()
    run.context.run_async_calls()
    run.epoch()
    assert run.records == ["two"]
    put(f"{folder}/a.txt", b"ten\n")
    with pytest.raises(SourceFileChangedError, match=r"a\.txt cannot be read: its ETag is"):
        run.context.run_async_calls()


@pytest.mark.parametrize("largest_copy", [0, 1000], ids=["in parts", "copied"])
def test_object_that_a_store_says_it_has_and_has_not_is_no_published_one(
    monkeypatch: pytest.MonkeyPatch, largest_copy: int
) -> None:
    folder, filesystem = new_folder(), ObjectFileSystem(largest_copy=largest_copy)
    put(f"{folder}/.staged", b"bytes")

    def size_of(_: ObjectFileSystem, path: str) -> int | None:
        return 5 if path.endswith(".staged") else None

    monkeypatch.setattr(ObjectFileSystem, "size_of", size_of)
    with pytest.raises(OSError, match="the store took 5 bytes and has none"):
        filesystem.publish([f"{folder}/.staged"], f"{folder}/part")


def test_segments_that_cannot_be_read_to_their_end_publish_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, filesystem, real = new_folder(), ObjectFileSystem(), obstore.open_reader
    staged = [f"{folder}/.{number}" for number in range(2)]
    for path in staged:
        put(path, path[-1:].encode() * (9 << 20))  # more than one part

    class Broken:
        def read(self, size: int) -> bytes:
            raise ConnectionResetError(errno.ECONNRESET, "the connection was reset")

    def open_reader(store: Any, key: str) -> Any:
        return Broken() if key.endswith("1") else real(store, key)

    with monkeypatch.context() as patch:
        patch.setattr(obstore, "open_reader", open_reader)
        with pytest.raises(OSError, match="the connection was reset"):
            filesystem.publish(staged, f"{folder}/part")
    assert filesystem.size_of(f"{folder}/part") is None
    assert filesystem.publish(staged, f"{folder}/part")
    assert bytes(filesystem.open(f"{folder}/part").read()) == b"0" * (9 << 20) + b"1" * (9 << 20)


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b", "a*b", "[a]", "a%20b", "a~b", "a^b", "ü", "☃"])
def test_object_is_listed_read_and_deleted_by_the_name_that_it_was_given(name: str) -> None:
    folder, filesystem = new_folder(), ObjectFileSystem()
    path = f"{folder}/{name}/{name}.txt"
    put(path, b"line")
    (found,) = filesystem.find(folder)
    assert (found.path, found.size) == (path, 4)
    assert visible_lines(folder) == ["line"]
    filesystem.delete(path)
    assert visible_lines(folder) == []

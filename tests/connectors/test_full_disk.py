"""A disk that takes no more bytes is a named error of the sink at each step, and nothing stays behind."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock._connectors.files import local
from penstock._connectors.files.local import LocalFileSystem
from penstock._connectors.files.writer import FileWriter
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.errors import SinkFileError
from penstock.testing.connector_contexts import TestCommitterContext, TestWriterContext, requests_for

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBERS = [errno.ENOSPC, errno.EDQUOT, errno.EROFS]


class FullFile(io.FileIO):
    """A file on a disk without room; what is buffered is found out about later."""

    number = errno.ENOSPC

    def write(self, data: Any, /) -> int:
        raise OSError(self.number, os.strerror(self.number))


@pytest.fixture(params=NUMBERS, ids=lambda number: errno.errorcode[number])
def full_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(self: LocalFileSystem, path: str) -> io.BufferedWriter:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return io.BufferedWriter(FullFile(path, "xb"), 1 << 20)

    monkeypatch.setattr(FullFile, "number", request.param)
    monkeypatch.setattr(LocalFileSystem, "create", create)


class ByRecord(BucketAssigner):
    def get_bucket_id(self, element: Any, timestamp: int | None, now_ms: int) -> str:
        return f"b{element['n']}"


def writer_of_rows(folder: Path) -> FileWriter:
    builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    sink = builder.with_bucket_assigner(ByRecord()).with_max_open_buckets(1).build()
    return FileWriter(TestWriterContext(), sink._options, [])


def writer_of_parquet(folder: Path) -> FileWriter:
    factory = ParquetBulkWriters.for_schema(pa.schema([("n", pa.int64()), ("text", pa.string())]))
    sink = FileSink.for_bulk_format(str(folder), factory).with_bucket_assigner(ByRecord()).build()
    return FileWriter(TestWriterContext(), sink._options, [])


def record(number: int, length: int = 1) -> dict[str, Any]:
    return {"n": number, "text": "x" * length}


def flush(writer: FileWriter) -> None:
    writer.write_all([record(1)])
    writer.flush(False)


STEPS: dict[str, Callable[[FileWriter], None]] = {
    "write": lambda writer: writer.write_all([record(1, 3 << 20)]),
    "park": lambda writer: writer.write_all([record(1), record(2)]),
    "flush": flush,
}


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("step", STEPS)
def test_full_disk_is_named_and_the_writer_leaves_nothing(tmp_path: Path, step: str) -> None:
    writer = writer_of_rows(tmp_path / "out")
    with pytest.raises(SinkFileError, match="the space left") as caught:
        STEPS[step](writer)
    assert caught.value.__cause__ is not None
    assert os.strerror(FullFile.number) in str(caught.value)
    writer.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.usefixtures("full_disk")
def test_full_disk_is_named_by_a_bulk_format(tmp_path: Path) -> None:
    writer = writer_of_parquet(tmp_path / "out")
    with pytest.raises(SinkFileError, match="the space left"):
        flush(writer)
    writer.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_error_of_an_encoder_itself_stays_what_it_is(tmp_path: Path) -> None:
    class Looking(Encoder):
        def encode(self, element: Any, stream: Any) -> None:
            Path(f"{element}/none").read_bytes()

    writer = FileWriter(
        TestWriterContext(), FileSink.for_row_format(str(tmp_path / "out"), Looking()).build()._options, []
    )
    with pytest.raises(FileNotFoundError):
        writer.write_all([str(tmp_path)])
    writer.close()


@pytest.mark.parametrize("number", NUMBERS, ids=errno.errorcode.__getitem__)
def test_committer_names_a_full_disk_and_takes_no_room_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    states: list[Any] = []
    parts: list[Any] = []
    for checkpoint_id, ends in ((1, False), (2, True)):
        context = TestWriterContext(checkpoint_id=checkpoint_id)
        writer = sink.restore_writer(context, states) if states else sink.create_writer(context)
        writer.write_all(["a" * 100])
        writer.flush(ends)
        parts, states = list(writer.prepare_commit()), writer.snapshot_state(checkpoint_id)

    def full(source: Any, target: Any, length: int) -> None:
        target.write(b"some of it")
        raise OSError(number, os.strerror(number))

    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(local.shutil, "copyfileobj", full)
    with pytest.raises(SinkFileError, match="the space left"):
        sink.create_committer(TestCommitterContext()).commit(requests_for(parts, 2))
    assert [path for path in sorted(tmp_path.rglob("*")) if path.suffix != ".runs"] == before
    monkeypatch.undo()
    sink.create_committer(TestCommitterContext()).commit(requests_for(parts, 2))
    [published] = [path for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert published.read_text().split() == ["a" * 100] * 2

"""Arrow IPC files as source and as sink."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.connectors.staged import elsewhere, lose_staged

from penstock.common.typeinfo import Types
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from penstock.datastream.formats.arrow import ArrowBulkWriters, ArrowFormat
from penstock.errors import RecordValueError, SourceFileError
from penstock.testing.connector_contexts import TestEnumeratorContext
from penstock.testing.sink_contract import SinkContract, SinkUnderTest
from penstock.testing.source_contract import SourceContract, SourceRun

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
ROWS = [{"id": number, "word": f"w{number}"} for number in range(20)]


def source(place: Path, columns: list[str] | None = None) -> FileSource:
    return FileSource.for_bulk_file_format(ArrowFormat(columns), str(place)).build()


def write(path: Path, rows: list[dict[str, Any]], batch_rows: int = 3, *, stream: bool = False, **options: Any) -> None:
    options = {"options": pa.ipc.IpcWriteOptions(**options)}
    made = pa.ipc.new_stream if stream else pa.ipc.new_file
    with made(str(path), SCHEMA, **options) as writer:
        writer.write_table(pa.Table.from_pylist(rows, SCHEMA), max_chunksize=batch_rows)


def test_contract_over_the_file_format_the_stream_format_and_packed_buffers(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", ROWS[:8])
    write(tmp_path / "b.arrow", ROWS[8:14], compression="zstd")
    write(tmp_path / "c.arrows", ROWS[14:], stream=True)
    SourceContract(lambda: source(tmp_path), ROWS).check_all()


def test_large_files_are_cut_at_record_batches_and_columns_are_picked(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", ROWS)
    size = (tmp_path / "a.arrow").stat().st_size
    [split] = source(tmp_path).create_enumerator(TestEnumeratorContext(1)).snapshot_state(1).splits
    assert (split.part.start, split.part.end) == (0, 7)
    from penstock._connectors.files.opening import FoundFile

    found = FoundFile.of(split.file)
    assert [(part.start, part.end) for part in ArrowFormat().cut(found, size // 3)] == [(0, 2), (2, 4), (4, 7)]
    assert SourceRun(source(tmp_path, ["word"]), 1).run_to_end() == [{"word": row["word"]} for row in ROWS]


@pytest.mark.parametrize(
    "factory", [ArrowBulkWriters.for_schema(SCHEMA), ArrowBulkWriters.for_schema(compression="lz4")]
)
def test_sink_contract(tmp_path: Path, factory: Any) -> None:
    names = count()

    def make() -> SinkUnderTest:
        folder = tmp_path / str(next(names))
        sink = FileSink.for_bulk_format(str(folder), factory)
        sink = sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()

        def read() -> list[dict[str, Any]]:
            files = [path for path in folder.glob("*") if not path.name.startswith((".", "_"))]
            return [row for path in files for row in pa.ipc.open_file(str(path)).read_all().to_pylist()]

        return SinkUnderTest(sink, read, lambda: lose_staged(folder), unshared=lambda: elsewhere(folder))

    SinkContract(make, ROWS).check_all()


def test_what_is_wrong_with_a_file_is_named(tmp_path: Path) -> None:
    place = tmp_path / "a.arrow"
    place.write_bytes(b"no Arrow")
    with pytest.raises(SourceFileError, match=r"a\.arrow .*no Arrow file, or is damaged"):
        source(tmp_path).create_enumerator(TestEnumeratorContext(1))
    write(place, ROWS)
    with pytest.raises(SourceFileError, match="no column price; its columns are id, word"):
        source(tmp_path, ["price"]).create_enumerator(TestEnumeratorContext(1))
    whole = place.read_bytes()
    place.write_bytes(whole[:-30])
    with pytest.raises(SourceFileError, match="damaged"):
        SourceRun(source(tmp_path), 1).run_to_end()


def test_values_that_do_not_fit_are_told_as_in_parquet(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["id"], [Types.INT()])
    with (tmp_path / "a").open("wb") as stream:
        writer = ArrowBulkWriters.for_row_type(row_type).create(stream)
        writer.add_element({"id": 1 << 40})
        with pytest.raises(RecordValueError, match="'id'"):
            writer.finish()

"""Parquet, compared with pyarrow and DuckDB."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.connectors.staged import lose_staged

from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat, ParquetFormat
from penstock.errors import SourceFileError
from penstock.testing.connector_contexts import TestEnumeratorContext
from penstock.testing.sink_contract import SinkContract, SinkRun, SinkUnderTest
from penstock.testing.source_contract import SourceContract, SourceRun

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.common.serialization import BulkWriterFactory
    from penstock.datastream.connectors.file_system import BulkFormat


SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def table(rows: int) -> pa.Table:
    return pa.table([list(range(rows)), [f"row {number}" for number in range(rows)]], schema=SCHEMA)


def read(path: Path, bulk_format: BulkFormat, parallelism: int = 1) -> list[Any]:
    return SourceRun(FileSource.for_bulk_file_format(bulk_format, str(path)).build(), parallelism).run_to_end()


def test_source_contract_over_files_with_several_row_groups(tmp_path: Path) -> None:
    for number, rows in enumerate((25_000, 1, 7000)):
        pq.write_table(table(rows), tmp_path / f"{number}.parquet", row_group_size=3000)
    expected = [row for rows in (25_000, 1, 7000) for row in table(rows).to_pylist()]
    make = FileSource.for_bulk_file_format(ParquetFormat(), str(tmp_path)).build
    SourceContract(make, expected).check_all()


def test_large_files_are_cut_at_row_groups(tmp_path: Path) -> None:
    data = pa.table({"noise": [f"{number * 7919 % 1_000_003}-{number}" for number in range(400_000)]})
    pq.write_table(data, tmp_path / "a.parquet", row_group_size=50_000, use_dictionary=False, compression="none")
    source = FileSource.for_bulk_file_format(ParquetFormat(), str(tmp_path)).build()
    splits = source.create_enumerator(TestEnumeratorContext(2)).snapshot_state(1).splits
    assert len(splits) > 2
    assert [split.part.start for split in splits[1:]] == [split.part.end for split in splits[:-1]]


def test_columns_are_picked_by_name(tmp_path: Path) -> None:
    pq.write_table(table(2), tmp_path / "a.parquet")
    assert read(tmp_path, ParquetFormat(["text"])) == [{"text": "row 0"}, {"text": "row 1"}]
    row_type = Types.ROW_NAMED(["text", "id"], [Types.STRING(), Types.LONG()])
    assert read(tmp_path, ParquetColumnarRowInputFormat(row_type)) == [Row(text="row 0", id=0), Row(text="row 1", id=1)]


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1 no footer PAR1"])
def test_damaged_file_is_named_at_enumeration(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.parquet").write_bytes(content)
    source = FileSource.for_bulk_file_format(ParquetFormat(), str(tmp_path)).build()
    with pytest.raises(SourceFileError, match=r"bad\.parquet.*no Parquet file"):
        source.create_enumerator(TestEnumeratorContext())


def test_damaged_row_group_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    pq.write_table(table(1000), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)
    with pytest.raises(SourceFileError, match=r"bad\.parquet.*row group 0 is damaged"):
        read(path, ParquetFormat())


def test_missing_column_is_named_at_enumeration(tmp_path: Path) -> None:
    pq.write_table(table(1), tmp_path / "a.parquet")
    source = FileSource.for_bulk_file_format(ParquetFormat(["price"]), str(tmp_path)).build()
    with pytest.raises(SourceFileError, match=r"no column price; its columns are id, text"):
        source.create_enumerator(TestEnumeratorContext())


@pytest.mark.parametrize(
    "factory",
    [ParquetBulkWriters.for_schema(), ParquetBulkWriters.for_schema(SCHEMA)],
    ids=["inferred", "schema"],
)
def test_sink_contract(tmp_path: Path, factory: BulkWriterFactory) -> None:
    targets = 0

    def make() -> SinkUnderTest:
        nonlocal targets
        targets += 1
        folder = tmp_path / str(targets)
        folder.mkdir()
        sink = FileSink.for_bulk_format(str(folder), factory).build()
        return SinkUnderTest(sink, lambda: read(folder, ParquetFormat()), lambda: lose_staged(folder))

    SinkContract(make, table(900).to_pylist()).check_all()


def test_rows_of_a_type_are_read_back_as_they_were(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(
        ["i", "f", "t", "b", "d", "ts", "dec", "bytes", "list", "map"],
        [
            *(Types.INT(), Types.DOUBLE(), Types.STRING(), Types.BOOLEAN(), Types.SQL_DATE(), Types.SQL_TIMESTAMP()),
            *(Types.BIG_DEC(), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.LIST(Types.LONG())),
            Types.MAP(Types.STRING(), Types.INT()),
        ],
    )
    moment = datetime.datetime(2024, 2, 29, 1, 2, 3, 456)  # noqa: DTZ001 - a timestamp without zone
    values = [1, 0.5, "x", True, moment.date(), moment, Decimal("1.5"), b"\x00\xff", [1, 2], {"a": 1}]
    rows = [Row(*values), Row(*([None] * len(values)))]
    sink = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(row_type)).with_bucket_assigner(
        BucketAssigner.base_path_bucket_assigner()
    )
    run = SinkRun(sink.build())
    run.commit(run.epoch(rows))
    found = read(tmp_path, ParquetColumnarRowInputFormat(row_type))
    assert [list(row) for row in found] == [values, [None] * len(values)]
    summed = duckdb.sql("select sum(i), max(map['a']) from read_parquet(?)", params=[f"{tmp_path}/part-*"])
    assert summed.fetchall() == [(1, 1)]


def test_many_records_make_one_row_group(tmp_path: Path) -> None:
    sink = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_schema()).with_bucket_assigner(
        BucketAssigner.base_path_bucket_assigner()
    )
    run = SinkRun(sink.build())
    run.commit(run.epoch(table(30_000).to_pylist()))
    file = next(tmp_path.glob("part-*"))
    assert pq.read_metadata(file).num_row_groups == 1
    assert pq.read_table(file).equals(table(30_000))


def test_record_that_does_not_fit_the_columns_is_shown(tmp_path: Path) -> None:
    sink = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_schema(SCHEMA)).build()
    run = SinkRun(sink)
    with pytest.raises(ValueError, match=r"'many'.*id: int64"):
        run.epoch([{"id": "many", "text": "x"}])
    run.close()

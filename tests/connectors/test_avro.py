"""Avro files as source and sink, and Parquet files by Avro schemas."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.connectors.staged import elsewhere, lose_staged
from tests.kit.without_spark import Cluster

from penstock._formats.parts import FilePart
from penstock.common import Row, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource
from penstock.datastream.formats.avro import AvroBulkWriters, AvroFormat, AvroInputFormat, AvroSchema
from penstock.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters
from penstock.errors import RecordValueError, SourceFileError, UnsupportedOperationError
from penstock.testing.sink_contract import SinkContract, SinkUnderTest
from penstock.testing.source_contract import SourceContract

TEXT = """{"type": "record", "name": "Trip", "fields": [
    {"name": "id", "type": "long"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "tags", "type": {"type": "array", "items": "string"}}]}"""
SCHEMA = AvroSchema.parse_string(TEXT)
AT = datetime.datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - as SQL has them


@dataclass(frozen=True)
class OnDisk:
    """A file of this machine, for a format."""

    path: str

    @property
    def size(self) -> int:
        return Path(self.path).stat().st_size

    def open(self) -> BinaryIO:
        return Path(self.path).open("rb")


def records(file_format: AvroFormat, path: Path, position: int | None = None) -> list[list[dict[str, object]]]:
    file = OnDisk(str(path))
    return [block for block, _ in file_format.read(file, FilePart(0, file.size, file.size, position))]


def written(count: int, place: Path) -> Path:
    with (place / "a.avro").open("wb") as stream:
        writer = AvroBulkWriters.for_generic_record(SCHEMA).create(stream)
        writer.add_elements([{"id": number, "at": AT, "tags": ["x"]} for number in range(count)])
        writer.finish()
    return place / "a.avro"


def test_files_come_back_in_blocks_and_from_any_position(tmp_path: Path) -> None:
    path = written(5000, tmp_path)
    for file_format in (AvroFormat(), AvroFormat(SCHEMA)):
        blocks = records(file_format, path)
        assert [len(block) for block in blocks] == [2048, 2048, 904]
        assert blocks[0][1] == {"id": 1, "at": AT, "tags": ["x"]}
    assert [[record["id"] for record in block] for block in records(AvroFormat(), path, 4998)] == [[4998, 4999]]


def test_rows_are_written_by_name_and_by_position(tmp_path: Path) -> None:
    with (tmp_path / "a.avro").open("wb") as stream:
        writer = AvroBulkWriters.for_generic_record(SCHEMA).create(stream)
        writer.add_element(Row(tags=[], at=AT, id=1))
        writer.add_element((2, AT, ["y"]))
        writer.finish()
    assert [record["id"] for record in records(AvroFormat(), tmp_path / "a.avro")[0]] == [1, 2]


@pytest.mark.parametrize("record", [{"id": "one", "at": AT, "tags": []}, (1, 2), {"id": 1}])
def test_a_record_that_does_not_fit_is_an_error(record: object) -> None:
    writer = AvroBulkWriters.for_generic_record(SCHEMA).create(BytesIO())
    with pytest.raises(RecordValueError, match="Change the record, or the schema"):
        writer.add_element(record)


def test_a_file_that_is_none_or_is_cut_off_is_an_error(tmp_path: Path) -> None:
    whole = written(5000, tmp_path).read_bytes()
    for content in (b"no Avro", whole[: len(whole) // 2]):
        (tmp_path / "b.avro").write_bytes(content)
        with pytest.raises(SourceFileError, match="no Avro file of this schema, or is damaged"):
            records(AvroFormat(SCHEMA), tmp_path / "b.avro")


def test_a_file_of_another_schema_is_an_error_that_names_the_file_the_field_and_both_types(tmp_path: Path) -> None:
    path = written(3, tmp_path)
    other = AvroSchema.parse_string(TEXT.replace('"long"},', '["null", "string"]},', 1))
    with pytest.raises(
        SourceFileError, match=r"a\.avro .*its field id is of type long, and the schema has null or str"
    ):
        records(AvroFormat(other), path)


def test_parquet_files_are_written_and_read_by_an_avro_schema(tmp_path: Path) -> None:
    stream = BytesIO()
    writer = AvroParquetWriters.for_generic_record(SCHEMA).create(stream)
    writer.add_element({"id": 1, "at": AT, "tags": ["x"]})
    writer.finish()
    (tmp_path / "a.parquet").write_bytes(stream.getvalue())
    file = OnDisk(str(tmp_path / "a.parquet"))
    file_format = AvroParquetReaders.for_generic_record(SCHEMA)
    found = [
        record
        for part in file_format.cut(file, 1 << 20)
        for block, _ in file_format.read(file, part)
        for record in block
    ]
    assert found == [{"id": 1, "at": AT, "tags": ["x"]}]


def test_parquet_files_with_an_avro_schema_are_a_stream_format_as_in_flink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(tmp_path / "state").patch(monkeypatch)
    parquet.write_table(pa.table({"id": [1, 2], "at": [AT, AT], "tags": [["x"], []]}), tmp_path / "a.parquet")
    env = StreamExecutionEnvironment.get_execution_environment()
    source = FileSource.for_record_stream_format(
        AvroParquetReaders.for_generic_record(SCHEMA), str(tmp_path / "*.parquet")
    )
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "files")
    assert sorted(record["id"] for record in stream.execute_and_collect()) == [1, 2]


def test_create_input_takes_avro_files_and_nothing_else(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.create_input(AvroInputFormat(str(written(3, tmp_path)), SCHEMA))
    assert str(stream.get_type()).startswith("GenericRecord(")
    with pytest.raises(UnsupportedOperationError, match="needs the JVM"):
        env.create_input(object())


def test_source_and_sink_pass_their_contracts(tmp_path: Path) -> None:
    places = (tmp_path / str(number) for number in count())
    rows = [{"id": number, "at": AT, "tags": ["x"]} for number in range(300)]

    def make() -> SinkUnderTest:
        folder = next(places)
        sink = FileSink.for_bulk_format(str(folder), AvroBulkWriters.for_generic_record(SCHEMA)).build()

        def read() -> list[dict[str, object]]:
            files = [path for path in folder.rglob("part-*") if path.is_file()]
            return [record for path in files for block in records(AvroFormat(), path) for record in block]

        return SinkUnderTest(sink, read, lambda: lose_staged(folder), unshared=lambda: elsewhere(folder))

    SinkContract(make, rows).check_all()
    source = tmp_path / "in"
    for name in ("a", "b"):
        (source / name).mkdir(parents=True)
        written(3000, source / name)
    build = FileSource.for_bulk_file_format(AvroFormat(SCHEMA), str(source)).build
    SourceContract(build, [{"id": number, "at": AT, "tags": ["x"]} for number in range(3000)] * 2).check_all()

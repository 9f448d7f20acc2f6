"""Parquet files and Arrow's, with a schema and without one."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tests.values.table import NotAskedError, Path, each, read_back
from tests.values.values import FIELD, Value

from penstock._formats.arrow_types import arrow_schema
from penstock.datastream.formats.arrow import ArrowBulkWriters, ArrowFormat
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat, ParquetFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._formats.file_format import BulkFormat
    from penstock.common.serialization import BulkWriterFactory


class Written:
    """A file in memory, as formats read them."""

    path = "written"

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)

    def open(self) -> io.BytesIO:
        return io.BytesIO(self.data)


def there_and_back(writers: BulkWriterFactory, source: BulkFormat) -> Callable[[list[dict[str, Any]]], list[Any]]:
    """Return what writes records into one file, and reads them."""

    def run(records: list[dict[str, Any]]) -> list[Any]:
        stream = io.BytesIO()
        writer = writers.create(stream)
        for record in records:
            writer.add_element(record)
        writer.finish()
        file: Any = Written(stream.getvalue())
        return read_back(
            lambda: [
                record for part in source.cut(file, 1 << 20) for block, _ in source.read(file, part) for record in block
            ]
        )

    return run


def schema_of(value: Value) -> pa.Schema:
    """Return the schema of a value's column."""
    if "arrow" in value.columns:
        return pa.schema([(FIELD, value.columns["arrow"])])
    if value.row_type is None:
        raise NotAskedError
    return arrow_schema(value.row_type)


def _parquet(value: Value) -> Any:
    return there_and_back(ParquetBulkWriters.for_schema(schema_of(value)), ParquetFormat())


def _parquet_rows(value: Value) -> Any:
    if value.row_type is None:
        raise NotAskedError
    writers = ParquetBulkWriters.for_row_type(value.row_type)
    return there_and_back(writers, ParquetColumnarRowInputFormat(value.row_type))


def _arrow(value: Value) -> Any:
    return there_and_back(ArrowBulkWriters.for_schema(schema_of(value)), ArrowFormat())


def _parquet_inferred(value: Value) -> Any:
    del value
    return there_and_back(ParquetBulkWriters.for_schema(), ParquetFormat())


def _arrow_inferred(value: Value) -> Any:
    del value
    return there_and_back(ArrowBulkWriters.for_schema(), ArrowFormat())


PATHS = (
    Path("Parquet", "Files with an Arrow schema, read as dicts.", each(_parquet)),
    Path("Parquet, rows", "Files of a row type, read as rows by it.", each(_parquet_rows)),
    Path(
        "Parquet, inferred", "Files without a schema, whose columns follow from the records.", each(_parquet_inferred)
    ),
    Path("Arrow", "Arrow's own files with a schema.", each(_arrow)),
    Path("Arrow, inferred", "Arrow's own files without a schema.", each(_arrow_inferred)),
)

"""CSV: rows as messages, and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.values.paths.columnar_files import there_and_back
from tests.values.paths.json_and_avro import declared_row, messages
from tests.values.table import Path, each

from penstock.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.values.values import Value

    Run = Callable[[list[dict[str, Any]]], list[Any]]


def _rows(value: Value) -> Run:
    row_type = declared_row(value)
    write = CsvRowSerializationSchema.Builder(row_type).build()
    return messages(write, CsvRowDeserializationSchema.Builder(row_type).build())


def _files(value: Value) -> Run:
    row_type = declared_row(value)
    return there_and_back(CsvBulkWriters.for_schema(row_type), CsvReaderFormat.for_schema(row_type))


PATHS = (
    Path("CSV rows", "Messages by CsvRowSerializationSchema and CsvRowDeserializationSchema.", each(_rows)),
    Path("CSV", "Files by CsvBulkWriters and CsvReaderFormat.", each(_files)),
)

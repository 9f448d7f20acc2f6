"""Writes CSV, with Python's own csv module."""

from __future__ import annotations

import csv
import datetime
import io
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from penstock._formats.csv.checking import check_column
from penstock._formats.csv.schema import as_csv_schema
from penstock._formats.fields import LEFT_OUT, Columns
from penstock._shelf import show
from penstock.common.serialization import BulkWriter, BulkWriterFactory, Encoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock._formats.csv.schema import CsvSchema
    from penstock.common.typeinfo import RowTypeInfo


class CsvEncoder(Encoder):
    """Writes records as lines of CSV, for ``FileSink.for_row_format``; ours.

    It writes no header, because a file may be joined from parts of several epochs. ``CsvBulkWriters`` writes one.

    Args:
        schema: Columns and signs, or the type of the rows.
        lenient: Leave out fields that are no column, and write values as text whatever the column's type. By default
            they are errors: a reader of the schema would not get them back.

    Example:
        >>> schema = CsvSchema.builder().add_string_column("name").add_number_column("n").build()
        >>> from io import BytesIO
        >>> file = BytesIO()
        >>> CsvEncoder(schema).encode_all([("a,b", 1), {"name": "c", "n": None}], file)
        >>> print(file.getvalue().decode(), end="")
        "a,b",1
        c,
    """

    def __init__(self, schema: CsvSchema | RowTypeInfo, *, lenient: bool = False) -> None:
        self._schema = as_csv_schema(schema)
        self._names = [column.name for column in self._schema.columns]
        way_out = f"Add the column to the CsvSchema, or take the field out of the record; {LEFT_OUT}"
        self._columns = Columns(self._names, way_out, lenient=lenient)
        self._lenient = lenient
        self._separators = [column.separator for column in self._schema.columns]
        self._null = self._schema.dialect.null_value or ""

    def encode(self, element: Any, stream: BinaryIO) -> None:
        """Write one record: a Row, a dict by column name, or a tuple by position.

        Raises:
            RecordFieldError: It has a field that is no column.
            RecordValueError: A value cannot be read back unchanged.
        """
        self.encode_all([element], stream)

    def encode_all(self, elements: list[Any], stream: BinaryIO) -> None:
        """Write a block of records."""
        rows = [self._values(record) for record in elements]
        if not self._lenient:
            for column, values in zip(self._schema.columns, zip(*rows, strict=True), strict=False):
                check_column(column, values, self._schema.dialect.null_value, elements)
        stream.write(_lines(self._schema, map(self._texts, rows)))

    def _values(self, record: Any) -> Sequence[Any]:
        values = self._columns.values(record)
        if len(values) != len(self._names):
            wanted = f"{self._schema} has {len(self._names)} columns"
            msg = f"The record {record!r:.200} has {len(values)} values, and {wanted}."
            raise ValueError(msg)
        return values

    def _texts(self, values: Sequence[Any]) -> list[str]:
        return [
            value if type(value) is str else self._null if value is None else _text(value, separator)
            for value, separator in zip(values, self._separators, strict=True)
        ]


class CsvBulkWriters:
    """Makes writers of whole CSV files, with a header if the schema has one.

    Source: ``pyflink.datastream.formats.csv.CsvBulkWriters``.
    """

    @staticmethod
    def for_schema(schema: CsvSchema | RowTypeInfo, *, lenient: bool = False) -> BulkWriterFactory:
        """Return the factory for a schema, or for rows of a type; ``lenient`` as for `CsvEncoder`."""
        return _CsvWriterFactory(as_csv_schema(schema), lenient=lenient)


class _CsvWriterFactory(BulkWriterFactory):
    def __init__(self, schema: CsvSchema, *, lenient: bool) -> None:
        self._schema, self._lenient = schema, lenient

    def create(self, stream: BinaryIO) -> BulkWriter:
        return _CsvWriter(stream, self._schema, lenient=self._lenient)


class _CsvWriter(BulkWriter):
    def __init__(self, stream: BinaryIO, schema: CsvSchema, *, lenient: bool) -> None:
        self._stream, self._encoder = stream, CsvEncoder(schema, lenient=lenient)
        if schema.dialect.use_header:
            stream.write(_lines(schema, [[column.name for column in schema.columns]]))

    def add_element(self, element: Any) -> None:
        self._encoder.encode(element, self._stream)

    def add_elements(self, elements: list[Any]) -> None:
        self._encoder.encode_all(elements, self._stream)

    def flush(self) -> None:
        self._stream.flush()

    def finish(self) -> None:
        self._stream.flush()


def _lines(schema: CsvSchema, rows: Iterable[list[str]]) -> bytes:
    dialect = schema.dialect
    text = io.StringIO(newline="")
    writer = csv.writer(
        text,
        delimiter=dialect.column_separator,
        quotechar=dialect.quote_char,
        quoting=csv.QUOTE_NONE if dialect.quote_char is None else csv.QUOTE_MINIMAL,
        escapechar=dialect.escape_char,
        doublequote=dialect.escape_char is None,
        lineterminator=dialect.line_separator,
    )
    writer.writerows(rows)
    return text.getvalue().encode("utf-8")


def _text(value: Any, separator: str | None) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            return value.isoformat(" ")
        case list() | tuple() if separator is not None:
            return separator.join(_text(item, None) for item in cast("list[Any]", value))
        case _:
            return str(value)


show("penstock.datastream.formats.csv", CsvBulkWriters, CsvEncoder)

"""Writes files of CSV."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from penstock._formats.csv.schema import as_csv_schema
from penstock._formats.fields import LEFT_OUT, Columns
from penstock._shelf import show
from penstock.common._codecs.csv_encoding import CsvComposer, UnfitFieldError
from penstock.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from penstock.common.user_values import short_repr
from penstock.errors import RecordValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._formats.csv.schema import CsvSchema
    from penstock.common.typeinfo import RowTypeInfo

_WAY_OUT: Final = "Make the value one that fits, change the CsvSchema, or set lenient=True to write it as text"


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
        self._composer = CsvComposer(self._schema.columns, self._schema.dialect, any_text if lenient else None)

    def __reduce__(self) -> tuple[Any, ...]:
        return _encoder, (self._schema, self._composer.is_lenient)

    def encode(self, element: Any, stream: BinaryIO) -> None:
        """Write one record: a Row, a dict by column name, or a tuple by position.

        Raises:
            RecordFieldError: It has a field that is no column.
            RecordValueError: A value cannot be read back unchanged.
        """
        self.encode_all([element], stream)

    def encode_all(self, elements: list[Any], stream: BinaryIO) -> None:
        """Write a block of records."""
        if not elements:
            return
        rows = [self._values(record) for record in elements]
        try:
            lines = self._composer.lines(rows)
        except UnfitFieldError as error:
            column, record = error.column, short_repr(elements[error.index])
            raise RecordValueError(column.name, record, str(column.type_info), error.reason, _WAY_OUT) from error
        stream.write(lines)

    def header(self) -> bytes:
        """Return the line with the names of the columns."""
        return self._composer.header()

    def _values(self, record: Any) -> Sequence[Any]:
        values = self._columns.values(record)
        if len(values) != len(self._names):
            wanted = f"{self._schema} has {len(self._names)} columns"
            msg = f"The record {short_repr(record)} has {len(values)} values, and {wanted}."
            raise ValueError(msg)
        return values


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
        CsvEncoder(schema, lenient=lenient)
        self._schema, self._lenient = schema, lenient

    def create(self, stream: BinaryIO) -> BulkWriter:
        return _CsvWriter(stream, self._schema, lenient=self._lenient)


class _CsvWriter(BulkWriter):
    def __init__(self, stream: BinaryIO, schema: CsvSchema, *, lenient: bool) -> None:
        self._stream, self._encoder = stream, CsvEncoder(schema, lenient=lenient)
        if schema.dialect.use_header:
            stream.write(self._encoder.header())

    def add_element(self, element: Any) -> None:
        self._encoder.encode(element, self._stream)

    def add_elements(self, elements: list[Any]) -> None:
        self._encoder.encode_all(elements, self._stream)

    def flush(self) -> None:
        self._stream.flush()

    def finish(self) -> None:
        self._stream.flush()


def _encoder(schema: CsvSchema, lenient: bool) -> CsvEncoder:
    return CsvEncoder(schema, lenient=lenient)


def any_text(value: Any, separator: str | None) -> str:
    """Return a text of a value of any type, for a column that its value does not fit."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            return value.isoformat(" ")
        case list() | tuple() if separator is not None:
            return separator.join(any_text(item, None) for item in cast("list[Any]", value))
        case _:
            return str(value)


show("penstock.datastream.formats.csv", CsvBulkWriters, CsvEncoder)

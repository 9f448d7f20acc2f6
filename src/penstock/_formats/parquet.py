"""Parquet files as source and as sink (``pyflink.datastream.formats.parquet``)."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock._formats.arrow_types import arrow_array, arrow_schema, plain, unknown_field
from penstock._formats.batches import as_schema
from penstock._formats.fields import LEFT_OUT, Columns
from penstock._formats.file_format import BulkFormat
from penstock._formats.parts import FilePart
from penstock._shelf import show
from penstock.common.columns import layout_of, records_of
from penstock.common.serialization import BulkWriter, BulkWriterFactory
from penstock.common.types import Row
from penstock.errors import RecordValueError, SourceFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from penstock._formats.parts import InputFile
    from penstock.common.typeinfo import RowTypeInfo

__all__ = ["ParquetBulkWriters", "ParquetColumnarRowInputFormat", "ParquetFormat"]

#: The records of a batch, few enough to stay in the processor's cache, as in other sources.
_READ_ROWS = 2048
#: The same for columns, which need no Python object for each record.
_READ_COLUMN_ROWS = 16_384
_WRITE_ROWS = 8192
_ROW_GROUP_BYTES = 64 * 1024 * 1024

_BY_SCHEMA = "Give a schema that has all fields to ParquetBulkWriters.for_schema(), or change the records"
_BY_CASTING = "Make the value one that fits, give the column another type"
_BY_FIRST = (
    "Without a schema, a file has the columns of the records in its first row group: give one that has all fields to "
    "ParquetBulkWriters.for_schema()"
)


class _ParquetInput(BulkFormat):
    """Reads row groups; a subclass defines the columns and the records."""

    emits_new_records = True
    gives_batches = True

    def __init__(self, columns: Sequence[str] | None, batch_size: int) -> None:
        self._columns = None if columns is None else list(columns)
        self._batch_size = batch_size

    def cut(self, file: InputFile, part_size: int) -> list[FilePart]:
        """Return runs of row groups; the file's footer must be readable."""
        with file.open() as stream:
            metadata = self._opened(file, stream).metadata
        parts: list[FilePart] = []
        start = size = 0
        for group in range(metadata.num_row_groups):
            size += metadata.row_group(group).total_byte_size
            if size >= part_size or group == metadata.num_row_groups - 1:
                parts.append(FilePart(start, group + 1, size))
                start, size = group + 1, 0
        return parts

    def read(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        """Read row groups batch by batch; the position counts the rows of the part."""
        layout = layout_of(self.get_produced_type())
        for batch, position in self._read(file, part, self._batch_size):
            yield records_of(batch, layout), position

    def read_batches(self, file: InputFile, part: FilePart) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Read row groups in batches of columns."""
        return self._read(file, part, max(self._batch_size, _READ_COLUMN_ROWS))

    def _read(self, file: InputFile, part: FilePart, batch_size: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        import pyarrow as pa

        with file.open() as stream:
            parquet = self._opened(file, stream)
            names = self._columns or list(parquet.schema_arrow.names)
            position, done = 0, part.position or 0
            for group in range(part.start, part.end):
                rows = parquet.metadata.row_group(group).num_rows
                if position + rows <= done:
                    position += rows
                    continue
                try:
                    for batch in parquet.iter_batches(batch_size, [group], names, use_threads=False):
                        begin = min(max(0, done - position), batch.num_rows)
                        position += batch.num_rows
                        if begin < batch.num_rows:
                            yield batch.select(names).slice(begin), position
                except (pa.ArrowException, OSError) as error:
                    reason = f"its row group {group} is damaged ({error}); restore the file from a copy"
                    raise SourceFileError(file.path, reason) from error

    def _opened(self, file: InputFile, stream: BinaryIO) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            parquet = pq.ParquetFile(stream)
        except (pa.ArrowException, OSError) as error:
            reason = f"it is no Parquet file, or is damaged ({error}); restore it, or take it out of the source's paths"
            raise SourceFileError(file.path, reason) from error
        missing = [name for name in self._columns or () if name not in parquet.schema_arrow.names]
        if missing:
            reason = f"it has no column {', '.join(missing)}; its columns are {', '.join(parquet.schema_arrow.names)}"
            raise SourceFileError(file.path, reason)
        return parquet


class ParquetFormat(_ParquetInput):
    """Rows as dicts by column name; ours, it needs no type.

    Args:
        columns: The columns to read; all by default.

    Example:
        >>> from penstock.datastream.connectors.file_system import FileSource
        >>> source = FileSource.for_bulk_file_format(ParquetFormat(["id", "price"]), "/data/*.parquet").build()
    """

    def __init__(self, columns: Sequence[str] | None = None) -> None:
        super().__init__(columns, _READ_ROWS)


class ParquetColumnarRowInputFormat(_ParquetInput):
    """Rows as Row, with the columns and the order of a row type.

    Source: ``pyflink.datastream.formats.parquet.ParquetColumnarRowInputFormat``.

    Args:
        row_type: Names and types of the columns to read.
        hadoop_config: Not used here; PyFlink's parameter.
        batch_size: How many rows to read at a time.
        is_utc_timestamp: Not used here: timestamps come as the file has them.
        is_case_sensitive: Not used here: names are compared as they are.
    """

    def __init__(
        self,
        row_type: RowTypeInfo,
        hadoop_config: Any = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        del hadoop_config, is_utc_timestamp, is_case_sensitive
        super().__init__(row_type.get_field_names(), batch_size)
        self._row_type = row_type

    def get_produced_type(self) -> RowTypeInfo:
        """Return the row type."""
        return self._row_type

    @property
    def holds_produced_type(self) -> bool:
        """True: the file is read by that type."""
        return True


class ParquetBulkWriters:
    """Makes writers of Parquet files for the file sink.

    Source: ``pyflink.datastream.formats.parquet.ParquetBulkWriters``.
    """

    @staticmethod
    def for_row_type(
        row_type: RowTypeInfo, hadoop_config: Any = None, utc_timestamp: bool = False, *, lenient: bool = False
    ) -> BulkWriterFactory:
        """Write rows of a type.

        Args:
            row_type: Names and types of the columns.
            hadoop_config: Not used here; PyFlink's parameter.
            utc_timestamp: Not used here: timestamps are written as they are.
            lenient: As for ``for_schema``; ours.

        Raises:
            ValueError: A field's type has no counterpart in Parquet.
        """
        del hadoop_config, utc_timestamp
        return _ParquetWriterFactory(arrow_schema(row_type), lenient=lenient)

    @staticmethod
    def for_schema(schema: pa.Schema | None = None, *, lenient: bool = False) -> BulkWriterFactory:
        """Write dicts, rows or tuples by an Arrow schema; ours.

        Args:
            schema: Names and types of the columns; by default all fields of the first records of each file, some 64 MB,
                which then have to be dicts or rows with names.
            lenient: Drop parts of records that the schema cannot hold: fields without a column, fractions in columns of
                integers, fractions of a second that are too fine, time zones. By default they are errors.

        A field that a dict lacks is null. When records are written, one that is no column raises RecordFieldError, and
        a value that its column cannot hold as it is RecordValueError.
        """
        return _ParquetWriterFactory(schema, lenient=lenient)


class _ParquetWriterFactory(BulkWriterFactory):
    takes_batches = True

    def __init__(self, schema: pa.Schema | None, *, lenient: bool = False) -> None:
        self._schema, self._lenient = schema, lenient

    def create(self, stream: BinaryIO) -> BulkWriter:
        return _ParquetWriter(stream, self._schema, lenient=self._lenient)


class _ParquetWriter(BulkWriter):
    """Collects records into batches and batches into row groups.

    Without a schema, the columns are all fields of the records of the first row group, with types that hold all values.
    They are then the columns of the file.
    """

    def __init__(self, stream: BinaryIO, schema: pa.Schema | None, *, lenient: bool) -> None:
        self._stream, self._schema, self._lenient = stream, schema, lenient
        self._columns = None if schema is None else Columns(schema.names, f"{_BY_SCHEMA}; {LEFT_OUT}", lenient=lenient)
        self._writer: Any = None
        self._records: list[Any] = []
        #: Tables of the row group that is being filled, and their bytes.
        self._batches: list[Any] = []
        self._size = 0

    def add_element(self, element: Any) -> None:
        self._records.append(element)
        if len(self._records) >= _WRITE_ROWS:
            self._make_batch()

    def add_elements(self, elements: list[Any]) -> None:
        self._records += elements
        if len(self._records) >= _WRITE_ROWS:
            self._make_batch()

    def add_batch(self, batch: pa.RecordBatch, records: Callable[[], list[Any]]) -> None:
        self._make_batch()
        table = as_schema(batch, self._schema, lenient=self._lenient)
        if table is None:  # then a single record does not fit, and is named; or its value can be converted
            self.add_elements(records())
        else:
            self._take(table)

    def flush(self) -> None:
        self._make_batch()

    def finish(self) -> None:
        self._make_batch()
        self._write_row_group()
        if self._writer is not None:
            self._writer.close()

    def _make_batch(self) -> None:
        import pyarrow as pa

        records, self._records = self._records, []
        if not records:
            return
        try:
            batch = _inferred(records) if self._columns is None else self._by_columns(self._columns, records)
        except RecordValueError:
            raise
        except (pa.ArrowException, TypeError, ValueError, KeyError) as error:
            raise self._misfit(f"Records such as {records[0]!r:.200}", error) from error
        self._take(batch)

    def _take(self, table: Any) -> None:
        self._batches.append(table)
        self._size += table.nbytes
        if self._size >= _ROW_GROUP_BYTES:
            self._write_row_group()

    def _by_columns(self, columns: Columns, records: list[Any]) -> Any:
        import pyarrow as pa

        assert self._schema is not None
        values = list(zip(*map(columns.values, records), strict=True))
        fields: list[Any] = list(self._schema)
        typed = zip(values, fields, strict=True)
        arrays = [self._array(records, columns, column, field) for column, field in typed]
        return pa.table(arrays, schema=self._schema)  # pyright: ignore[reportUnknownMemberType]

    def _array(self, records: list[Any], columns: Columns, values: Sequence[Any], field: Any) -> Any:
        """Return one column of some records.

        Raises:
            RecordFieldError: A value contains a field that the column's structs lack.
            RecordValueError: The column cannot hold a value unchanged.
        """
        import pyarrow as pa

        if pa.types.is_nested(field.type):
            if not self._lenient:
                _check_inside(records, columns, field.name, values, field.type)
            values = [plain(value) for value in values]
        missing = None if field.nullable else next((place for place, one in enumerate(values) if one is None), None)
        if missing is not None:
            raise self._unfit(records[missing], field, "it is null or left out, and the column takes no nulls")
        make: Callable[[Sequence[Any], Any], Any] = pa.array if self._lenient else arrow_array
        try:
            return make(values, field.type)
        except _misfits() as error:
            record, told = _first_misfit(records, values, make, field.type) or (records[0], str(error))
            raise self._unfit(record, field, told) from error

    def _unfit(self, record: Any, field: Any, reason: str) -> RecordValueError:
        way_out = (
            _BY_CASTING if self._lenient else f"{_BY_CASTING}, or set lenient=True to let what does not fit be cut"
        )
        return RecordValueError(field.name, f"{record!r:.200}", str(field.type), reason.rstrip("."), way_out)

    def _misfit(self, what: str, error: Exception) -> ValueError:
        names = "not known yet"
        if self._schema is not None:
            names = ", ".join(map("{}: {}".format, self._schema.names, self._schema.types))
        return ValueError(f"{what} do not fit the Parquet file's columns ({names}): {error}. {_BY_SCHEMA}.")

    def _write_row_group(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._batches:
            return
        try:
            table = pa.concat_tables(self._batches, promote_options="permissive")
        except pa.ArrowException as error:
            raise self._misfit("The records of one file", error) from error
        if self._schema is None:
            self._schema, self._columns = table.schema, Columns(table.schema.names, _BY_FIRST)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._stream, self._schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._batches, self._size = [], 0


def _inferred(records: list[Any]) -> Any:
    """Return a table of all fields that records have, with types that hold all of their values."""
    import pyarrow as pa

    dicts = list(map(_as_dict, records))
    names = dict.fromkeys(chain.from_iterable(dicts))
    columns: dict[str, Any] = {name: pa.array([one.get(name) for one in dicts]) for name in names}
    return pa.table(columns)


def _check_inside(records: list[Any], columns: Columns, name: str, values: Sequence[Any], arrow_type: Any) -> None:
    """Raise for a record with a field inside of one column that the column's structs do not have."""
    for record, value in zip(records, values, strict=True):
        unknown = unknown_field(value, arrow_type, name)
        if unknown is not None:
            columns.refuse(record, [unknown])


def _as_dict(record: Any) -> dict[str, Any]:
    return record.as_dict(recursive=True) if isinstance(record, Row) else dict(record)


def _misfits() -> tuple[type[Exception], ...]:
    """Return Arrow's exceptions for values that do not fit a type; Arrow is loaded at the first use."""
    import pyarrow as pa

    return pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError


def _first_misfit(
    records: list[Any], values: Sequence[Any], make: Callable[[Sequence[Any], Any], Any], arrow_type: Any
) -> tuple[Any, str] | None:
    """Return the first record whose value does not fit a type, and the reason; None if each value fits by itself."""
    for record, value in zip(records, values, strict=True):
        try:
            make([value], arrow_type)
        except _misfits() as error:
            return record, str(error)
    return None


show("penstock.datastream.formats.parquet", ParquetBulkWriters, ParquetColumnarRowInputFormat, ParquetFormat)

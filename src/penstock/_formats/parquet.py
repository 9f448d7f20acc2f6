"""Parquet files as source and as sink (``pyflink.datastream.formats.parquet``)."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from penstock._formats import parts
from penstock._formats.arrow_types import arrow_schema, is_of_type
from penstock._formats.batches import check_names, records_in
from penstock._formats.file_format import BulkFormat
from penstock._formats.parts import FilePart
from penstock._formats.record_tables import RecordTables, TableWriter, checked_schema
from penstock._shelf import show
from penstock.common.columns import layout_of, needs_conversion
from penstock.common.serialization import BulkWriter, BulkWriterFactory
from penstock.common.typeinfo import RowTypeInfo
from penstock.errors import RecordValueError, SourceFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock._formats.parts import InputFile

__all__ = ["ParquetBulkWriters", "ParquetColumnarRowInputFormat", "ParquetFormat"]

#: The records of a batch, few enough to stay in the processor's cache, as in other sources.
_READ_ROWS = 2048
#: The same for columns, which need no Python object for each record.
_READ_COLUMN_ROWS = 16_384
_ROW_GROUP_BYTES = 64 * 1024 * 1024


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
        runs: list[FilePart] = []
        start = size = 0
        for group in range(metadata.num_row_groups):
            size += metadata.row_group(group).total_byte_size
            if size >= part_size or group == metadata.num_row_groups - 1:
                runs.append(FilePart(start, group + 1, size))
                start, size = group + 1, 0
        return runs

    def read(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        """Read row groups batch by batch; the position counts the rows of the part."""
        produced = self.get_produced_type()
        layout, types = layout_of(produced), produced.get_field_types() if isinstance(produced, RowTypeInfo) else None
        for batch, position in self._read(file, part, self._batch_size):
            yield records_in(file, batch, layout, types), position

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
                found = parquet.metadata.row_group(group)
                rows = found.num_rows
                if position + rows <= done:
                    position += rows
                    continue
                parts.check_length(file, f"its row group {group}", found.total_byte_size, parts.LARGEST_GROUP)
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
        check_names(file, parquet.schema_arrow.names, self._columns)
        self.check_types(file, parquet.schema_arrow)
        return parquet

    def check_types(self, file: InputFile, schema: pa.Schema) -> None:
        """Check the columns of a file, whatever their types are.

        Raises:
            SourceFileError: One is not what the records are to have.
        """


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
        #: Columns do not tell rows and instants from other structs and moments.
        self.gives_batches: bool = not any(map(needs_conversion, row_type.get_field_types()))

    def check_types(self, file: InputFile, schema: pa.Schema) -> None:
        """Check that each column is of the kind that the row type says.

        Raises:
            SourceFileError: One is not, such as text in place of numbers.
        """
        columns: Any = schema
        fields = zip(self._row_type.get_field_names(), self._row_type.get_field_types(), strict=True)
        for name, type_info in fields:
            found = columns.field(name).type
            if not is_of_type(found, type_info):
                reason = f"its column {name} is {found}, and the source's row type has it as {type_info}"
                raise SourceFileError(file.path, f"{reason}; read the files of each schema by a source of their own")

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
        return ParquetWriterFactory(_checked(arrow_schema(row_type)), lenient)

    @staticmethod
    def for_schema(schema: pa.Schema | None = None, *, lenient: bool = False) -> BulkWriterFactory:
        """Write dicts, rows or tuples by an Arrow schema; ours.

        Args:
            schema: Names and types of the columns; by default all fields of the first records of each file, some 64 MB,
                which then have to be dicts or rows with names.
            lenient: Drop parts of records that the schema cannot hold: fields without a column, fractions in columns of
                integers, fractions of a second that are too fine, time zones. By default they are errors.

        Raises:
            TypeError: It is no schema of Arrow.
            ValueError: Parquet does not have a column of it.

        A field that a dict lacks is null. When records are written, one that is no column raises RecordFieldError, and
        a value that its column cannot hold as it is RecordValueError.
        """
        return ParquetWriterFactory(_checked(checked_schema(schema)), lenient)


@dataclass(frozen=True, slots=True)
class ParquetWriterFactory(BulkWriterFactory):
    """Writers of Parquet; what its fields mean is told by ``for_schema`` and by `RecordTables`."""

    takes_batches = True

    schema: pa.Schema | None
    lenient: bool = False
    way_out: str | None = None

    def create(self, stream: BinaryIO) -> BulkWriter:
        tables = RecordTables(self.schema, lenient=self.lenient, way_out=self.way_out)
        return _ParquetWriter(stream, tables, _ROW_GROUP_BYTES)


class _ParquetWriter(TableWriter):
    def open_file(self, stream: BinaryIO, schema: pa.Schema) -> Any:
        import pyarrow.parquet as pq

        misfit = unwritable_column(schema)
        if misfit is not None:
            (field, reason), way_out = misfit, "Leave the field out, or give it another type in a schema, such as a map"
            raise RecordValueError(field.name, "*", str(field.type), reason, way_out)
        return pq.ParquetWriter(stream, schema)

    def write_group(self, writer: Any, table: Any) -> None:
        writer.write_table(table, row_group_size=table.num_rows)


def unwritable_column(schema: Any) -> tuple[Any, str] | None:
    """Return a column that Parquet cannot have, such as a dict without fields, and why; None if it can have all."""
    if _unwritable(schema) is None:
        return None
    import pyarrow as pa

    reasons = ((field, _unwritable(cast("Any", pa).schema([field]))) for field in schema)
    return next((field, reason) for field, reason in reasons if reason is not None)


def _unwritable(schema: Any) -> str | None:
    """Return why Parquet cannot have columns; None if they can be written, and read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stream = BytesIO()
        cast("Any", pq).write_table(schema.empty_table(), stream)
        pq.ParquetFile(stream)
    except (pa.ArrowException, OSError) as error:
        return f"Parquet has no such column ({str(error).splitlines()[0].rstrip('.')})"
    return None


def _checked(schema: Any) -> Any:
    """Return a schema that Parquet has.

    Raises:
        ValueError: It does not have a column of it.
    """
    misfit = None if schema is None else unwritable_column(schema)
    if misfit is not None:
        field, reason = misfit
        msg = f"The column {field.name!r} of type {field.type} cannot be written: {reason}. Give it another type."
        raise ValueError(msg)
    return schema


show("penstock.datastream.formats.parquet", ParquetBulkWriters, ParquetColumnarRowInputFormat, ParquetFormat)

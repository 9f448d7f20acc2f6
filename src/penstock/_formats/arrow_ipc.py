"""Arrow IPC files as source and as sink, in the file format; sources also read the stream format."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias

from penstock._formats.arrow_types import arrow_schema
from penstock._formats.batches import check_names, records_in
from penstock._formats.file_format import BulkFormat
from penstock._formats.parts import FilePart
from penstock._formats.record_tables import RecordTables, TableWriter, checked_schema
from penstock._shelf import show
from penstock.common.serialization import BulkWriter, BulkWriterFactory
from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import pyarrow as pa

    from penstock._formats.parts import InputFile
    from penstock.common.typeinfo import RowTypeInfo

_MAGIC = b"ARROW1"
_READ_ROWS = 2048
_READ_COLUMN_ROWS = 16_384
_GROUP_BYTES = 16 * 1024 * 1024
_WRITTEN_ROWS = 65_536

Compression: TypeAlias = Literal["zstd", "lz4"] | None


class ArrowFormat(BulkFormat):
    """Rows of Arrow IPC files as dicts by column name; ours.

    Files are in Arrow's file format (Feather 2), which is read in parts, or in its stream format, which is read as a
    whole. Compressed buffers are unpacked.

    Args:
        columns: The columns to read; all by default.

    Example:
        >>> from penstock.datastream.connectors.file_system import FileSource
        >>> source = FileSource.for_bulk_file_format(ArrowFormat(["id", "price"]), "/data/*.arrow").build()
    """

    emits_new_records = True
    gives_batches = True

    def __init__(self, columns: Sequence[str] | None = None) -> None:
        self._columns = None if columns is None else list(columns)

    def cut(self, file: InputFile, part_size: int) -> list[FilePart]:
        """Return runs of record batches; the file's footer must be readable."""
        with self._opened(file) as (reader, is_file):
            batches = reader.num_record_batches if is_file else 1
        parts = max(1, min(batches, round(file.size / part_size)))
        bounds = [batches * part // parts for part in range(parts + 1)]
        return [FilePart(bounds[part], bounds[part + 1], file.size // parts) for part in range(parts)]

    def read(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        """Read record batches as dicts; the position counts the rows of the part."""
        for batch, position in self._read(file, part, _READ_ROWS):
            yield records_in(file, batch), position

    def read_batches(self, file: InputFile, part: FilePart) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Read record batches as columns."""
        return self._read(file, part, _READ_COLUMN_ROWS)

    def _read(self, file: InputFile, part: FilePart, rows: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        import pyarrow as pa

        position, done = 0, part.position or 0
        with self._opened(file) as (reader, is_file):
            names = self._columns or reader.schema.names
            batches = map(reader.get_batch, range(part.start, part.end)) if is_file else iter(reader)
            try:
                for batch in batches:
                    for start in range(max(0, done - position), batch.num_rows, rows):
                        some = batch.select(names).slice(start, rows)
                        yield some, position + start + some.num_rows
                    position += batch.num_rows
            except (pa.ArrowException, OSError) as error:
                reason = f"its record batch behind row {position} of the part is damaged ({error}); restore the file"
                raise SourceFileError(file.path, reason) from error

    @contextmanager
    def _opened(self, file: InputFile) -> Generator[tuple[Any, bool]]:
        """Open a file; yield its reader, and whether it is in the file format.

        Raises:
            SourceFileError: It is neither, is damaged, or lacks a column.
        """
        import pyarrow as pa

        ipc: Any = pa.ipc
        with file.open() as stream:
            is_file = stream.read(len(_MAGIC)) == _MAGIC
            stream.seek(0)
            try:
                reader: Any = ipc.open_file(stream) if is_file else ipc.open_stream(stream)
            except (pa.ArrowException, OSError) as error:
                reason = (
                    f"it is no Arrow file, or is damaged ({error}); restore it, or take it out of the source's paths"
                )
                raise SourceFileError(file.path, reason) from error
            check_names(file, reader.schema.names, self._columns)
            yield reader, is_file


class ArrowBulkWriters:
    """Makes writers of Arrow IPC files for the file sink; ours. They are in Arrow's file format."""

    @staticmethod
    def for_row_type(
        row_type: RowTypeInfo, *, lenient: bool = False, compression: Compression = None
    ) -> BulkWriterFactory:
        """Write rows of a type.

        Args:
            row_type: Names and types of the columns.
            lenient: As for ``ParquetBulkWriters.for_schema``.
            compression: How buffers are compressed.

        Raises:
            ValueError: A field's type has no counterpart in Arrow.
        """
        return _ArrowWriterFactory(arrow_schema(row_type), lenient, compression)

    @staticmethod
    def for_schema(
        schema: pa.Schema | None = None, *, lenient: bool = False, compression: Compression = None
    ) -> BulkWriterFactory:
        """Write dicts, rows or tuples by an Arrow schema.

        Args:
            schema: Names and types of the columns; by default all fields of the first records of each file, some 16 MB,
                which then have to be dicts or rows with names.
            lenient: As for ``ParquetBulkWriters.for_schema``.
            compression: How buffers are compressed.

        Raises:
            TypeError: It is no schema of Arrow.

        Example:
            >>> from io import BytesIO
            >>> file = BytesIO()
            >>> writer = ArrowBulkWriters.for_schema(compression="zstd").create(file)
            >>> writer.add_element({"people": 7})
            >>> writer.finish()
            >>> file.getvalue()[:6]
            b'ARROW1'
        """
        return _ArrowWriterFactory(checked_schema(schema), lenient, compression)


@dataclass(frozen=True, slots=True)
class _ArrowWriterFactory(BulkWriterFactory):
    takes_batches = True

    schema: pa.Schema | None
    lenient: bool
    compression: Compression

    def create(self, stream: BinaryIO) -> BulkWriter:
        tables = RecordTables(self.schema, lenient=self.lenient)
        return _ArrowWriter(stream, tables, _GROUP_BYTES, self.compression)


class _ArrowWriter(TableWriter):
    def __init__(self, stream: BinaryIO, tables: RecordTables, group_bytes: int, compression: Compression) -> None:
        super().__init__(stream, tables, group_bytes)
        self._compression = compression

    def open_file(self, stream: BinaryIO, schema: pa.Schema) -> Any:
        import pyarrow as pa

        ipc: Any = pa.ipc
        return ipc.new_file(stream, schema, options=ipc.IpcWriteOptions(compression=self._compression))

    def write_group(self, writer: Any, table: Any) -> None:
        writer.write_table(table.combine_chunks(), max_chunksize=_WRITTEN_ROWS)


show("penstock.datastream.formats.arrow", ArrowBulkWriters, ArrowFormat)

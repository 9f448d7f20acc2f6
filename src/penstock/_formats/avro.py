"""Avro files as source and as sink (``pyflink.datastream.formats.avro``), and Parquet files by Avro schemas."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock._formats import parts
from penstock._formats.avro_arrow import arrow_schema_of
from penstock._formats.fields import check_insert
from penstock._formats.file_format import BulkFormat
from penstock._formats.input_format import InputFormat
from penstock._formats.parquet import ParquetBulkWriters, ParquetFormat
from penstock._shelf import show
from penstock.common._codecs.avro_codec import AvroCodec, reading_library
from penstock.common._codecs.avro_reading import readers_schema
from penstock.common._codecs.avro_resolution import mismatch
from penstock.common._codecs.avro_schema import AvroSchema, GenericRecordAvroTypeInfo
from penstock.common._conversion.checked import TypeMismatchError
from penstock.common.arguments import instance
from penstock.common.serialization import BulkWriter, BulkWriterFactory
from penstock.common.types import Row
from penstock.common.user_values import short_repr
from penstock.errors import RecordValueError, SourceFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._formats.parts import FilePart, InputFile
    from penstock.common.typeinfo import TypeInformation

__all__ = ["AvroBulkWriters", "AvroFormat", "AvroInputFormat", "AvroParquetReaders", "AvroParquetWriters"]

_BLOCK_RECORDS = 2048
_WAY_OUT = "read it by a schema that matches its own, or by AvroFormat() without one"
#: The way out where a schema is given in another form.
_PARSED = "AvroSchema.parse_string() reads a text, and AvroSchema() takes what JSON makes of it"


class AvroFormat(BulkFormat):
    """Records of Avro container files as dicts; ours. A file is read as a whole.

    Args:
        schema: The reader's schema, by Avro's rules for schema evolution; by default the schema of the file.

    Example:
        >>> from penstock.datastream.connectors.file_system import FileSource
        >>> source = FileSource.for_bulk_file_format(AvroFormat(), "/data/*.avro").build()
    """

    emits_new_records = True

    def __init__(self, schema: AvroSchema | None = None) -> None:
        self._schema = None if schema is None else instance("schema", schema, AvroSchema, _PARSED)

    def read(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        """Read the records; the position counts them."""
        import fastavro

        position = part.position or 0
        with file.open() as opened:
            stream: Any = _Bounded(file, opened)
            wanted = None if self._schema is None else readers_schema(self._schema)
            try:
                records: Any = fastavro.reader(stream, wanted)
                written = AvroSchema(records.writer_schema)
                library = reading_library(written)
                if library is not fastavro:  # begin again
                    opened.seek(0)
                    records = library.reader(stream, wanted)
            except (OSError, SourceFileError):
                raise
            except Exception as error:  # invalid bytes may raise any exception in the decoder
                raise SourceFileError(file.path, _damaged(error)) from error
            if self._schema is not None and (reason := mismatch(written, self._schema)) is not None:
                raise SourceFileError(file.path, f"{reason}; {_WAY_OUT}")
            ours = AvroCodec(self._schema or written).ours
            try:
                for _ in islice(records, position):
                    pass
                while True:
                    block: list[Any] = list(islice(records, _BLOCK_RECORDS))
                    if not block:
                        break
                    position += len(block)
                    yield block if ours is None else list(map(ours, block)), position
            except (OSError, SourceFileError):
                raise
            except Exception as error:
                behind = f"behind its record {position} {_damaged(error)}"
                raise SourceFileError(file.path, behind) from error

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the schema's records."""
        return None if self._schema is None else GenericRecordAvroTypeInfo(self._schema)

    @property
    def holds_produced_type(self) -> bool:
        """True: the file is read by that schema."""
        return True


class _Bounded:
    """The bytes of a file; what its blocks say of their length is checked before they are in memory."""

    def __init__(self, file: InputFile, stream: BinaryIO) -> None:
        self._file, self._stream = file, stream

    def read(self, size: int) -> bytes:
        parts.check_length(self._file, "one of its blocks", size, parts.LONGEST_RECORD)
        return self._stream.read(size)


class AvroInputFormat(InputFormat):
    """Avro files for ``create_input``; ``FileSource.for_bulk_file_format(AvroFormat(schema), path)`` does the same.

    Source: ``pyflink.datastream.formats.avro.AvroInputFormat``.

    Args:
        path: A file, a folder or a glob.
        schema: The schema of the records.
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        super().__init__(path, AvroFormat(schema), GenericRecordAvroTypeInfo(schema))


class AvroBulkWriters:
    """Makes writers of Avro container files.

    Source: ``pyflink.datastream.formats.avro.AvroBulkWriters``.

    Example:
        >>> from io import BytesIO
        >>> text = '{"type": "record", "name": "City", "fields": [{"name": "people", "type": "long"}]}'
        >>> file = BytesIO()
        >>> writer = AvroBulkWriters.for_generic_record(AvroSchema.parse_string(text)).create(file)
        >>> writer.add_element({"people": 7})
        >>> writer.finish()
        >>> file.getvalue()[:3]
        b'Obj'
    """

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Write dicts and rows by a schema.

        Args:
            schema: The schema of the records.

        Raises:
            TypeError: It is no AvroSchema.
        """
        return _AvroWriterFactory(instance("schema", schema, AvroSchema, _PARSED))


class _AvroWriterFactory(BulkWriterFactory):
    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def create(self, stream: BinaryIO) -> BulkWriter:
        return _AvroWriter(stream, self._schema)


class _AvroWriter(BulkWriter):
    def __init__(self, stream: BinaryIO, schema: AvroSchema) -> None:
        from fastavro.write import Writer

        self._theirs = AvroCodec(schema).theirs
        self._writer: Any = Writer(stream, schema.parsed)

    def add_element(self, element: Any) -> None:
        if isinstance(element, Row):
            check_insert(element)
        try:
            record = self._theirs(element)
        except TypeMismatchError as error:
            raise _misfit(element, error) from error
        self._writer.write(record)

    def flush(self) -> None:
        self._writer.flush()

    def finish(self) -> None:
        self._writer.flush()


def _misfit(element: Any, error: TypeMismatchError) -> RecordValueError:
    field, way_out = error.path.removeprefix(".") or "*", "Change the record, or the schema"
    return RecordValueError(field, short_repr(element), "by its Avro schema", error.reason, way_out)


def _damaged(error: Exception) -> str:
    return f"it is no Avro file of this schema, or is damaged ({error!r}); restore it from a copy"


class AvroParquetReaders:
    """Makes formats of Parquet files that are read by an Avro schema.

    Source: ``pyflink.datastream.formats.parquet.AvroParquetReaders``.
    """

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> ParquetFormat:
        """Return the format whose records are dicts with the fields of a schema.

        Args:
            schema: The schema of the records.
        """
        return ParquetFormat([field["name"] for field in schema.definition["fields"]])


class AvroParquetWriters:
    """Makes writers of Parquet files for records of an Avro schema.

    Source: ``pyflink.datastream.formats.parquet.AvroParquetWriters``.
    """

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Write dicts and rows by the columns of a schema.

        Args:
            schema: The schema of the records.

        Raises:
            ValueError: A field has a type that columns do not have.
        """
        return ParquetBulkWriters.for_schema(arrow_schema_of(schema))


show("penstock.datastream.formats.avro", AvroBulkWriters, AvroFormat, AvroInputFormat)
show("penstock.datastream.formats.parquet", AvroParquetReaders, AvroParquetWriters)

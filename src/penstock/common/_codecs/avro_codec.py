"""Avro as values and values as Avro, for files and messages."""

from __future__ import annotations

import importlib
import io
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from penstock.common._codecs.avro_reading import reader
from penstock.common._codecs.avro_writing import writer
from penstock.common._conversion.checked import TypeMismatchError, reason_of
from penstock.common.user_values import short_repr
from penstock.errors import MessageFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common._codecs.avro_schema import AvroSchema


def reading_library(schema: AvroSchema) -> Any:
    """Return the module of fastavro that reads values of a schema.

    The one in C calls itself for a value within a value of its type without a limit: a few kilobytes of a message end
    the process. So recursive schemas are read by the one in Python, which raises RecursionError.
    """
    return importlib.import_module("fastavro._read_py" if schema.is_recursive else "fastavro")


class AvroCodec:
    r"""Reads and writes Avro values of one schema, one by one and in blocks.

    Args:
        schema: The schema.
        rows: Whether records are read as Rows; otherwise they are dicts.

    Example:
        >>> from penstock.common._codecs.avro_schema import AvroSchema
        >>> text = '{"type": "record", "name": "City", "fields": [{"name": "people", "type": "long"}]}'
        >>> codec = AvroCodec(AvroSchema.parse_string(text))
        >>> codec.decode(codec.encode({"people": 7}))
        {'people': 7}
    """

    def __init__(self, schema: AvroSchema, *, rows: bool = False) -> None:
        self.schema, self._rows = schema, rows

    @cached_property
    def ours(self) -> Callable[[Any], Any] | None:
        """Makes our value of one that fastavro has read; None if they are the same."""
        return reader(self.schema, rows=self._rows)

    @cached_property
    def theirs(self) -> Callable[[Any], Any]:
        """Makes of our value one that fastavro writes unchanged; raises TypeMismatchError for one that does not fit."""
        return writer(self.schema)

    @cached_property
    def _library(self) -> Any:
        return reading_library(self.schema)

    def decode(self, message: bytes) -> Any:
        """Return the value of a message without a header.

        Raises:
            MessageFormatError: The message is not what the schema describes.
        """
        stream = io.BytesIO(message)
        try:
            found = self._library.schemaless_reader(stream, self.schema.parsed, None)
            value = found if self.ours is None else self.ours(found)
        except Exception as error:  # invalid bytes may raise any exception in the decoder
            raise MessageFormatError("Avro", f"{message[:200]!r}", str(self.schema), f"{error!r}") from error
        if left := len(message) - stream.tell():
            raise MessageFormatError("Avro", f"{message[:200]!r}", str(self.schema), f"{left} bytes are left behind it")
        return value

    def decode_block(self, messages: Iterable[bytes]) -> list[Any]:
        """Return the values of messages.

        Raises:
            MessageFormatError: One of them is not what the schema describes.
        """
        return list(map(self.decode, messages))

    def encode(self, value: Any) -> bytes:
        """Return a value as a message without a header.

        Raises:
            MessageFormatError: It is not what the schema describes.
        """
        import fastavro

        written = io.BytesIO()
        try:
            cast("Any", fastavro).schemaless_writer(written, self.schema.parsed, self.theirs(value))
        except TypeMismatchError as error:
            raise MessageFormatError("Avro", short_repr(value), str(self.schema), reason_of(error)) from error
        return written.getvalue()

    def encode_block(self, values: Iterable[Any]) -> list[bytes]:
        """Return values as messages.

        Raises:
            MessageFormatError: One of them is not what the schema describes.
        """
        return list(map(self.encode, values))

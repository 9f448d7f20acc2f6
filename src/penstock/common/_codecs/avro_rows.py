"""Rows as Avro messages (``pyflink.datastream.formats.avro``)."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, cast

from penstock._shelf import show
from penstock.common._codecs.avro_schema import AvroSchema
from penstock.common._codecs.avro_values import of_avro, type_of
from penstock.common._codecs.avro_written import to_avro
from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.errors import MessageFormatError, UnsupportedOperationError

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

__all__ = ["AvroRowDeserializationSchema", "AvroRowSerializationSchema"]


class AvroRowDeserializationSchema(DeserializationSchema):
    r"""Makes a Row of an Avro message without a header.

    Source: org.apache.flink.formats.avro.AvroRowDeserializationSchema.

    Args:
        record_class: A Java class; it cannot be used here.
        avro_schema_string: The schema of the record.

    Raises:
        UnsupportedOperationError: A Java class is given.
        TypeError: No schema is given.
        ValueError: It is no Avro schema of a record.

    Example:
        >>> text = '{"type": "record", "name": "City", "fields": [{"name": "people", "type": "long"}]}'
        >>> AvroRowDeserializationSchema(avro_schema_string=text).deserialize(b"\x0e")
        Row(people=7)
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _schema("AvroRowDeserializationSchema", record_class, avro_schema_string)
        self._type_info = type_of(self._schema.definition)
        self._convert = of_avro(self._schema.definition)

    def deserialize(self, message: bytes) -> Any:
        """Return the row; None for no message.

        Raises:
            MessageFormatError: The message is not what the schema describes.
        """
        import fastavro

        if message is None:  # pyright: ignore[reportUnnecessaryComparison] - a connector has none where a record has none
            return None
        try:
            read = cast("Any", fastavro).schemaless_reader
            record = read(io.BytesIO(message), self._schema.parsed, None)
        except Exception as error:  # invalid bytes may raise any exception in the decoder
            raise MessageFormatError("Avro", f"{message[:200]!r}", str(self._schema), f"{error!r}") from error
        return self._convert(record)

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type_info

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRowDeserializationSchema, (None, str(self._schema))


class AvroRowSerializationSchema(SerializationSchema):
    r"""Makes an Avro message without a header of a Row, by names where it has them, else by position.

    The names f0, f1 and so on are those of a type without names; they count only where the schema has them.

    Source: org.apache.flink.formats.avro.AvroRowSerializationSchema.

    Args:
        record_class: A Java class; it cannot be used here.
        avro_schema_string: The schema of the record.

    Raises:
        UnsupportedOperationError: A Java class is given.
        TypeError: No schema is given.
        ValueError: It is no Avro schema of a record.

    Example:
        >>> from penstock.common.types import Row
        >>> text = '{"type": "record", "name": "City", "fields": [{"name": "people", "type": "long"}]}'
        >>> AvroRowSerializationSchema(avro_schema_string=text).serialize(Row(7))
        b'\x0e'
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _schema("AvroRowSerializationSchema", record_class, avro_schema_string)
        self._convert = to_avro(self._schema.definition)

    def serialize(self, element: Any) -> bytes:
        """Return the message.

        Raises:
            MessageFormatError: The row is not what the schema describes.
        """
        import fastavro

        written = io.BytesIO()
        try:
            record = self._convert(element)
            write = cast("Any", fastavro).schemaless_writer
            write(written, self._schema.parsed, record, strict_allow_default=True)
        except Exception as error:  # a value may raise any exception in the encoder
            raise MessageFormatError("Avro", f"{element!r:.200}", str(self._schema), f"{error!r}") from error
        return written.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRowSerializationSchema, (None, str(self._schema))


def _schema(name: str, record_class: str | None, text: str | None) -> AvroSchema:
    if record_class is not None:
        raise UnsupportedOperationError(f"{name}(record_class=...)", "it is a Java class; give avro_schema_string")
    if text is None:
        msg = "avro_schema_string is required: the schema of the record as JSON."
        raise TypeError(msg)
    schema = AvroSchema.parse_string(text)
    if not isinstance(schema.definition, dict) or schema.definition.get("type") != "record":  # pyright: ignore[reportUnknownMemberType]
        raise ValueError(f"A row is an Avro record, not {schema}.")
    return schema


show("penstock.datastream.formats.avro", AvroRowDeserializationSchema, AvroRowSerializationSchema)

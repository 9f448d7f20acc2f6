"""Rows as Avro messages (``pyflink.datastream.formats.avro``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._shelf import show
from penstock.common._codecs.avro_codec import AvroCodec
from penstock.common._codecs.avro_reading import type_of
from penstock.common._codecs.avro_schema import AvroSchema
from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.errors import UnsupportedOperationError

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
        schema = _schema("AvroRowDeserializationSchema", record_class, avro_schema_string)
        self._codec = AvroCodec(schema, rows=True)

    def deserialize(self, message: bytes) -> Any:
        """Return the row; None for no message.

        Raises:
            MessageFormatError: The message is not what the schema describes.
        """
        if message is None:  # pyright: ignore[reportUnnecessaryComparison] - a connector has none where a record has none
            return None
        return self._codec.decode(message)

    def deserialize_all(self, messages: list[bytes]) -> list[Any]:
        """Return the rows of a block of messages.

        Raises:
            MessageFormatError: One of them is not what the schema describes.
        """
        return self._codec.decode_block(messages)

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return type_of(self._codec.schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRowDeserializationSchema, (None, str(self._codec.schema))


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
        self._codec = AvroCodec(_schema("AvroRowSerializationSchema", record_class, avro_schema_string))

    def serialize(self, element: Any) -> bytes:
        """Return the message.

        Raises:
            MessageFormatError: The row is not what the schema describes.
        """
        return self._codec.encode(element)

    def serialize_all(self, elements: list[Any]) -> list[bytes]:
        """Return the messages of a block of rows.

        Raises:
            MessageFormatError: A row is not what the schema describes.
        """
        return self._codec.encode_block(elements)

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRowSerializationSchema, (None, str(self._codec.schema))


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

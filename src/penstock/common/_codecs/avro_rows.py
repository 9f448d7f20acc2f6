"""Rows as Avro messages (``pyflink.datastream.formats.avro``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._shelf import show
from penstock.common._codecs.avro_codec import AvroCodec
from penstock.common._codecs.avro_reading import type_of
from penstock.common._codecs.avro_schema import AvroSchema
from penstock.common._codecs.codec import CodecDeserializationSchema, CodecSerializationSchema
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

__all__ = ["AvroRowDeserializationSchema", "AvroRowSerializationSchema"]


class AvroRowDeserializationSchema(CodecDeserializationSchema):
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
        super().__init__(AvroCodec(self._schema, rows=True))

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return type_of(self._schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRowDeserializationSchema, (None, str(self._schema))


class AvroRowSerializationSchema(CodecSerializationSchema):
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
        super().__init__(AvroCodec(self._schema))

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

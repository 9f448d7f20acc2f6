"""Avro schemas, and values between Avro and our types (``pyflink.datastream.formats.avro``)."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any, cast

from penstock._shelf import show
from penstock.common._typeinfo.base import TypeInformation
from penstock.common.types import Row, field_names

__all__ = ["AvroSchema", "GenericRecordAvroTypeInfo"]


class AvroSchema:
    """An Avro schema.

    Source: ``pyflink.datastream.formats.avro.AvroSchema``.

    Args:
        definition: The schema as JSON has it: a name, a list, or a dict.

    Raises:
        ValueError: It is no Avro schema.

    Example:
        >>> text = '{"type": "record", "name": "City", "fields": [{"name": "people", "type": "long"}]}'
        >>> str(AvroSchema.parse_string(text))
        '{"type":"record","name":"City","fields":[{"name":"people","type":"long"}]}'
    """

    def __init__(self, definition: Any) -> None:
        import fastavro.schema

        self.definition = definition
        try:
            #: The schema in fastavro's parsed form.
            self.parsed: Any = fastavro.schema.parse_schema(definition)
        except Exception as error:
            raise ValueError(f"It is no Avro schema: {error}") from error

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Return the schema that a text describes.

        Raises:
            ValueError: It is no JSON, or no Avro schema.
        """
        return AvroSchema(json.loads(json_schema))

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Return the schema that a file describes.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is no JSON, or no Avro schema.
        """
        return AvroSchema.parse_string(Path(file_path).read_text(encoding="utf-8"))

    def __str__(self) -> str:
        return json.dumps(self.definition, separators=(",", ":"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self.definition == other.definition

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroSchema, (self.definition,)


class GenericRecordAvroTypeInfo(TypeInformation):
    """The type of records that an Avro schema describes, which are dicts here.

    Source: ``pyflink.datastream.formats.avro.GenericRecordAvroTypeInfo``.

    Args:
        schema: The schema.
    """

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema

    def _parts(self) -> tuple[Any, ...]:
        return (self.schema,)

    def __repr__(self) -> str:
        return f"GenericRecord({self.schema})"


def plain(value: Any) -> Any:
    """Return a value in fastavro's form: dicts for rows with names, and timestamps with a zone.

    A timestamp without a zone is in UTC, as in Flink; fastavro would take it for the zone of the machine.
    """
    if isinstance(value, Row):
        names = field_names(value)
        if names is None:
            return [plain(one) for one in value]
        return {name: plain(value[name]) for name in names}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [plain(one) for one in cast("list[Any]", value)]
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    return value


def without_zone(value: Any) -> Any:
    """Return a value with its timestamps in UTC and without a zone."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, dict):
        return {name: without_zone(one) for name, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [without_zone(one) for one in cast("list[Any]", value)]
    return value


show("penstock.datastream.formats.avro", AvroSchema, GenericRecordAvroTypeInfo)

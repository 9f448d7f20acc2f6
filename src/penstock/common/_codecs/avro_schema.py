"""Avro schemas and their parts (``pyflink.datastream.formats.avro``)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from penstock._shelf import show
from penstock.common._typeinfo.base import TypeInformation

__all__ = ["AvroSchema", "GenericRecordAvroTypeInfo"]

Named: TypeAlias = dict[str, Any]


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
        #: Records, enums and fixed types by their full names.
        self.named: Named = {}
        try:
            #: The schema in fastavro's parsed form, with full names in place of types that were there before.
            self.parsed: Any = fastavro.schema.parse_schema(definition, named_schemas=self.named)
        except Exception as error:
            raise ValueError(f"It is no Avro schema: {error}") from error
        twice = _twice_in_a_union(self.parsed, self.named, "")
        if twice is not None:
            raise ValueError(f"It is no Avro schema: {twice} twice, and no value says of which of the two it is.")

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

    @property
    def is_recursive(self) -> bool:
        """Whether a value may be within another one of its type, so that only the value says how deep it is."""
        return _is_recursive(self.parsed, frozenset())

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


def kind_of(node: Any, named: Named) -> tuple[Any, str]:
    """Return a part of a schema with its kind: a name of Avro's types, or a union."""
    if isinstance(node, list):
        return cast("list[Any]", node), "union"
    if isinstance(node, str):
        return (named[node], str(named[node]["type"])) if node in named else ({}, node)
    return node, str(node["type"])


def branch_name(node: Any, named: Named) -> str:
    """Return the name of a branch of a union: that of a type that has one, or of its kind."""
    node, kind = kind_of(node, named)
    return str(node["name"]) if kind in ("record", "enum", "fixed") else kind


def _parts(node: Any) -> list[tuple[Any, str]]:
    """Return the parts of a part of a schema, each with the field that it is the type of, or without one."""
    if isinstance(node, list):
        return [(one, "") for one in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return []
    whole = cast("dict[str, Any]", node)
    fields = [(one["type"], str(one["name"])) for one in whole.get("fields", ())]
    return fields + [(whole[name], "") for name in ("items", "values") if name in whole]


def _is_recursive(node: Any, within: frozenset[str]) -> bool:
    if isinstance(node, str):
        return node in within
    if isinstance(node, dict) and "fields" in node:
        within |= {cast("dict[str, Any]", node)["name"]}
    return any(_is_recursive(part, within) for part, _ in _parts(node))


def _twice_in_a_union(node: Any, named: Named, place: str) -> str | None:
    """Tell which union of a schema has which branch twice, as logical types of one kind are one for Avro; or None."""
    if isinstance(node, list):
        counts = Counter(branch_name(part, named) for part, _ in _parts(node))
        twice = next((name for name, count in counts.items() if count > 1), None)
        if twice is not None:
            return f"a union{place} has {twice}"
    found = (
        _twice_in_a_union(part, named, f" in the field {field}" if field else place) for part, field in _parts(node)
    )
    return next(filter(None, found), None)


def logical_of(node: Any, kind: str) -> str | None:
    """Return the logical type of a part, if we have one for it and its kind; Avro lets all others be ignored."""
    logical = node.get("logicalType")
    return logical if kind in _LOGICAL.get(str(logical), ()) else None


def without_null(union: list[Any]) -> list[Any]:
    """Return the branches of a union beside null."""
    return [one for one in union if one not in ("null", {"type": "null"})]


_LOGICAL: Final = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string",),
}

show("penstock.datastream.formats.avro", AvroSchema, GenericRecordAvroTypeInfo)

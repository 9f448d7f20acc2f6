"""Converts Avro's types to ours, and Avro's records to Rows; maps stay dicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from penstock.common._codecs.avro_schema import without_zone
from penstock.common.typeinfo import Types
from penstock.common.types import RowKind, make_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

    #: The named types of a schema so far.
    Names = dict[str, Any]

_SINGLE: Final[dict[str, Callable[[], TypeInformation]]] = {
    "boolean": Types.BOOLEAN,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "string": Types.STRING,
    "enum": Types.STRING,
    "bytes": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "fixed": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
}
_LOGICAL: Final[dict[str, Callable[[], TypeInformation]]] = {
    "date": Types.SQL_DATE,
    "time-millis": Types.SQL_TIME,
    "time-micros": Types.SQL_TIME,
    "timestamp-millis": Types.SQL_TIMESTAMP,
    "timestamp-micros": Types.SQL_TIMESTAMP,
    "local-timestamp-millis": Types.SQL_TIMESTAMP,
    "local-timestamp-micros": Types.SQL_TIMESTAMP,
    "decimal": Types.BIG_DEC,
}


def type_of(definition: Any, names: Names | None = None) -> TypeInformation:
    """Return the type of the values of a schema; the pickled type if several types are possible."""
    names = {} if names is None else names
    definition, kind = resolved(definition, names)
    if kind == "union":
        left = without_null(definition)
        return type_of(left[0], names) if len(left) == 1 else Types.PICKLED_BYTE_ARRAY()
    if kind == "record":
        if definition.get("open"):  # within itself
            return Types.PICKLED_BYTE_ARRAY()
        note(definition, {**definition, "open": True}, names)
        fields = definition["fields"]
        types = [type_of(one["type"], names) for one in fields]
        note(definition, definition, names)
        return Types.ROW_NAMED([one["name"] for one in fields], types)
    if kind == "array":
        return Types.LIST(type_of(definition["items"], names))
    if kind == "map":
        return Types.MAP(Types.STRING(), type_of(definition["values"], names))
    logical = definition.get("logicalType")
    return _LOGICAL.get(str(logical), _SINGLE.get(kind, Types.PICKLED_BYTE_ARRAY))()


def of_avro(definition: Any, names: Names | None = None) -> Callable[[Any], Any]:
    """Return the converter from a value that was read by a schema to ours."""
    names = {} if names is None else names
    definition, kind = resolved(definition, names)
    if kind == "union":
        left = without_null(definition)
        if len(left) != 1:
            return without_zone
        convert = of_avro(left[0], names)
        return lambda value: None if value is None else convert(value)
    if kind == "record":
        return definition["ready"] if "ready" in definition else _record(definition, names)
    if kind == "array":
        convert = of_avro(definition["items"], names)
        return lambda value: [convert(one) for one in value]
    if kind == "map":
        convert = of_avro(definition["values"], names)
        return lambda value: {key: convert(one) for key, one in value.items()}
    return without_zone if "logicalType" in definition else _same


def _record(definition: dict[str, Any], names: Names) -> Callable[[Any], Any]:
    fields = [one["name"] for one in definition["fields"]]
    converters: list[Callable[[Any], Any]] = []

    def convert(value: Any) -> Any:
        values = [read(value[name]) for name, read in zip(fields, converters, strict=True)]
        return make_row(fields, values, RowKind.INSERT)

    note(definition, {**definition, "ready": convert}, names)  # it may have records of its own kind in it
    converters.extend(of_avro(one["type"], names) for one in definition["fields"])
    return convert


def note(definition: dict[str, Any], known: dict[str, Any], names: Names) -> None:
    """Note a named type, to which later parts of a schema may refer."""
    name = str(definition.get("name"))
    names[name] = known
    if "namespace" in definition:
        names[f"{definition['namespace']}.{name}"] = known


def _same(value: Any) -> Any:
    return value


def resolved(definition: Any, names: Names) -> tuple[Any, str]:
    """Return a schema with its kind, where it may be a name or a list."""
    if isinstance(definition, list):
        return cast("list[Any]", definition), "union"
    if isinstance(definition, str):
        return names.get(definition, {}), str(names.get(definition, {"type": definition})["type"])
    found = cast("dict[str, Any]", definition)
    kind = found["type"]
    if isinstance(kind, (dict, list)):
        return resolved(kind, names)
    if kind in names:
        return names[kind], str(names[kind]["type"])
    if kind in ("enum", "fixed") and "name" in found:
        note(found, found, names)
    return found, str(kind)


def without_null(definition: list[Any]) -> list[Any]:
    """Return the schemas of a union beside null."""
    return [one for one in definition if one != "null"]

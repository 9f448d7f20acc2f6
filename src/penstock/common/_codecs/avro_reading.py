"""What Avro's values are here: the types of a schema's values, and what becomes of those that fastavro reads."""

from __future__ import annotations

import datetime
from copy import deepcopy
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from penstock.common._codecs.avro_schema import kind_of, logical_of, without_null
from penstock.common._conversion.row_values import row_maker
from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common._codecs.avro_schema import AvroSchema, Named
    from penstock.common.typeinfo import TypeInformation

    Converter = Callable[[Any], Any]

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
    "uuid": Types.PICKLED_BYTE_ARRAY,
}
_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - as all times here, without a zone
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
#: What the numbers and texts of defaults are.
_DEFAULTS: Final[dict[str, Converter]] = {
    **dict.fromkeys(("float", "double"), float),
    "date": lambda days: (_EPOCH + datetime.timedelta(days)).date(),
    "time-millis": lambda count: (_EPOCH + count * 1000 * _MICROSECOND).time(),
    "time-micros": lambda count: (_EPOCH + count * _MICROSECOND).time(),
    "uuid": UUID,
    **dict.fromkeys(("timestamp-millis", "local-timestamp-millis"), lambda count: _EPOCH + count * 1000 * _MICROSECOND),
    **dict.fromkeys(("timestamp-micros", "local-timestamp-micros"), lambda count: _EPOCH + count * _MICROSECOND),
}
#: What defaults of a class are marked as.
_MARKS: Final[dict[type, Any]] = {kind: type("Default", (kind,), {}) for kind in (int, float, str, list, dict)}
_MARKED: Final = frozenset(_MARKS.values())
_IN_UTC: Final = ("timestamp-millis", "timestamp-micros")


def type_of(schema: AvroSchema) -> TypeInformation:
    """Return the type of the values of a schema; the pickled type if several types are possible."""
    return _type_of(schema, schema.parsed, ())


def _type_of(schema: AvroSchema, node: Any, outer: tuple[str, ...]) -> TypeInformation:
    node, kind = kind_of(node, schema.named)
    if kind == "union":
        left = without_null(node)
        return _type_of(schema, left[0], outer) if len(left) == 1 else Types.PICKLED_BYTE_ARRAY()
    if kind == "record":
        if node["name"] in outer:  # within itself
            return Types.PICKLED_BYTE_ARRAY()
        types = [_type_of(schema, one["type"], (*outer, node["name"])) for one in node["fields"]]
        return Types.ROW_NAMED([one["name"] for one in node["fields"]], types)
    if kind == "array":
        return Types.LIST(_type_of(schema, node["items"], outer))
    if kind == "map":
        return Types.MAP(Types.STRING(), _type_of(schema, node["values"], outer))
    logical = logical_of(node, kind)
    return _LOGICAL[logical]() if logical else _SINGLE.get(kind, Types.PICKLED_BYTE_ARRAY)()


def reader(schema: AvroSchema, *, rows: bool) -> Converter | None:
    """Return what makes our values of those that fastavro reads; None where they are the same.

    Timestamps lose their zone, which is UTC. In a union of several types records stay dicts.

    Args:
        schema: The schema of the values.
        rows: Whether records become Rows; otherwise they are dicts.
    """
    return _Reading(schema.named, rows).of(schema.parsed)


def readers_schema(schema: AvroSchema) -> Any:
    """Return the form of a schema by which fastavro reads what was written by another one: defaults are marked.

    A value may be equal to the default as the schema has it, and is another one: the default 0 of a date or a number is
    a day, and a number is 0.
    """
    reading = _Reading(schema.named, rows=False)
    whole = deepcopy(schema.parsed)
    waiting: list[Any] = [whole]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            reading.mark(cast("dict[str, Any]", node))
            waiting += cast("dict[str, Any]", node).values()
        elif isinstance(node, list):
            waiting += cast("list[Any]", node)
    return whole


class _Reading:
    """Makes the converters of a schema's parts."""

    def __init__(self, named: Named, rows: bool) -> None:
        self._named, self._rows = named, rows
        #: The converters of records, which may be within themselves.
        self._records: dict[str, Converter | None] = {}
        self._as_dicts = _Reading(named, False) if rows else self

    def of(self, node: Any) -> Converter | None:
        node, kind = kind_of(node, self._named)
        if kind == "union":
            return self._union(without_null(node))
        if kind == "record":
            return self._records[node["name"]] if node["name"] in self._records else self._record(node)
        if kind in ("array", "map"):
            convert = self.of(node["items" if kind == "array" else "values"])
            return None if convert is None else partial(_list if kind == "array" else _map, convert)
        return _naive if logical_of(node, kind) in _IN_UTC else None

    def _union(self, left: list[Any]) -> Converter | None:
        if len(left) == 1:
            convert = self.of(left[0])
            return None if convert is None else lambda value: None if value is None else convert(value)
        return None if all(self._as_dicts.of(one) is None for one in left) else _without_zones

    def _record(self, node: dict[str, Any]) -> Converter | None:
        names: list[str] = [one["name"] for one in node["fields"]]
        fixes: list[tuple[str, Converter]] = []

        def in_place(record: dict[str, Any]) -> dict[str, Any]:
            for name, fix in fixes:
                record[name] = fix(record[name])
            return record

        row_of = row_maker(names, lambda record: in_place(record).values())
        self._records[node["name"]] = row_of if self._rows else in_place
        found = [(name, self._field(one)) for name, one in zip(names, node["fields"], strict=True)]
        fixes += [(name, fix) for name, fix in found if fix is not None]
        if not self._rows and not fixes:
            self._records[node["name"]] = None
        return self._records[node["name"]]

    def _field(self, field: dict[str, Any]) -> Converter | None:
        """Return the converter of a field; of a default, too, which the decoder puts in as `readers_schema` has it."""
        convert, raw = self.of(field["type"]), field.get("default")
        if raw is None or self._default(field["type"], raw) is raw:
            return convert

        def of_field(value: Any) -> Any:
            if value.__class__ in _MARKED:
                return self._default(field["type"], raw)
            return value if convert is None else convert(value)

        return of_field

    def mark(self, field: dict[str, Any]) -> None:
        """Mark the default of a field, if it has one that is to be converted."""
        raw = field.get("default")
        if "type" in field and type(raw) in _MARKS and self._default(field["type"], raw) is not raw:
            field["default"] = _MARKS[type(raw)](raw)

    def _default(self, node: Any, raw: Any) -> Any:
        """Return what a default, which a schema has as JSON, is as a value."""
        node, kind = kind_of(node, self._named)
        if kind == "union":
            return self._default(node[0], raw)
        if kind == "record":
            given = {one["name"]: one.get("default") for one in node["fields"]} | raw
            values = [self._default(one["type"], given[one["name"]]) for one in node["fields"]]
            return dict(zip(given, values, strict=True))
        if kind == "array":
            return [self._default(node["items"], one) for one in raw]
        if kind == "map":
            return {key: self._default(node["values"], one) for key, one in raw.items()}
        data = raw.encode("latin-1") if kind in ("bytes", "fixed") else raw
        logical = logical_of(node, kind)
        if logical == "decimal":
            return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-int(node.get("scale", 0)))
        form = _DEFAULTS.get(logical or kind)
        return data if form is None else form(data)


def _list(convert: Converter, value: list[Any]) -> list[Any]:
    return list(map(convert, value))


def _map(convert: Converter, value: dict[str, Any]) -> dict[str, Any]:
    return {key: convert(one) for key, one in value.items()}


def _naive(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def _without_zones(value: Any) -> Any:
    if isinstance(value, dict):
        return _map(_without_zones, cast("dict[str, Any]", value))
    return _list(_without_zones, cast("list[Any]", value)) if isinstance(value, list) else _naive(value)

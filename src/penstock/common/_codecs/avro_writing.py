"""Makes of our values what fastavro writes by a schema: numbers, texts and bytes, which it cannot cut or round.

Each value is checked against its part of the schema. A logical type becomes the number or the bytes that Avro has for
it, and a value of a union names the branch that holds it exactly.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import MAX_PREC, Context, Decimal
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from uuid import UUID

from penstock.common._codecs.avro_schema import branch_name, kind_of, logical_of
from penstock.common._conversion import checked
from penstock.common._conversion.checked import TypeMismatchError
from penstock.common._conversion.row_values import are_of_a_type, elements_of, values_of
from penstock.common.types import Row, field_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common._codecs.avro_schema import AvroSchema, Named

    Converter = Callable[[Any], Any]

_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - as all times here, without a zone
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
#: How many levels a value of a recursive schema may have: readers need some five frames for each two of them.
_DEEPEST: Final = 200
_EXACT: Final = Context(prec=MAX_PREC)


def writer(schema: AvroSchema) -> Converter:
    """Return what makes of our values those that fastavro writes by a schema.

    Records are dicts, Rows with names, and by position tuples, lists and all other Rows. The names f0, f1 and so on are
    those of a type without names; they count only where the schema has them. It raises TypeMismatchError for a value
    that does not fit.

    Args:
        schema: The schema.
    """
    convert = _Writing(schema.named).of(schema.parsed)
    return partial(_not_too_deep, convert) if schema.is_recursive else convert


def _not_too_deep(convert: Converter, value: Any) -> Any:
    """Convert a value of a recursive schema, whose depth the schema does not limit."""
    try:
        made = convert(value)
    except RecursionError:
        made = None
    if made is None or _is_deeper(made, _DEEPEST):
        raise TypeMismatchError("it has too many values within each other to be read again")
    return made


def _inner(made: Any) -> Iterable[Any]:
    if isinstance(made, dict):
        return cast("dict[str, Any]", made).values()
    return cast("Iterable[Any]", made) if isinstance(made, (list, tuple)) else ()


def _is_deeper(value: Any, most: int) -> bool:
    """Tell whether a converted value has more levels than these; a branch of a union is one."""
    level: list[Any] = [value]
    for _ in range(most):
        level = list(chain.from_iterable(map(_inner, level)))
    return bool(level)


class _Writing:
    """Makes the converters of a schema's parts."""

    def __init__(self, named: Named) -> None:
        self._named = named
        #: The converters of records, which may be within themselves.
        self._records: dict[str, Converter] = {}

    def of(self, node: Any) -> Converter:
        node, kind = kind_of(node, self._named)
        if kind == "union":
            return self._union(node)
        if kind == "record":
            return self._records.get(node["name"]) or self._record(node)
        if kind == "array":
            return partial(_array, self.of(node["items"]))
        if kind == "map":
            return partial(_map, self.of(node["values"]))
        return _single(node, kind)

    # --------------------------------------------------------------------------------------------------------- records

    def _record(self, node: dict[str, Any]) -> Converter:
        fields: dict[str, _RecordField] = {}
        writers: list[tuple[str, Converter]] = []

        def convert(value: Any) -> dict[str, Any]:
            given = _by_name(value, list(fields))
            try:
                made = {name: write(given[name]) for name, write in writers}
                has_others = len(given) > len(fields)
            except (TypeMismatchError, KeyError):
                made = {name: _field_of(given, name, field) for name, field in fields.items()}
                has_others = not given.keys() <= fields.keys()
            if has_others:
                unknown = next(name for name in given if name not in fields)
                raise TypeMismatchError(f"it has a field {unknown!r}, and the schema has {', '.join(fields)}")
            return made

        self._records[node["name"]] = convert
        for one in node["fields"]:
            write = self.of(one["type"])
            fields[str(one["name"])] = _RecordField(write, self._missing(one, write))
        writers += [(name, field.write) for name, field in fields.items()]
        return convert

    def _missing(self, field: dict[str, Any], write: Converter) -> tuple[Any] | None:
        """Return what is written for a field that is not there: its default, or null if it may be null."""
        if "default" in field:
            return (self._default(field["type"], field["default"]),)
        try:
            return (write(None),)
        except TypeMismatchError:
            return None

    def _default(self, node: Any, value: Any) -> Any:
        """Return a default, which a schema has as JSON, as fastavro writes it."""
        node, kind = kind_of(node, self._named)
        if kind == "union":
            return branch_name(node[0], self._named), self._default(node[0], value)
        if kind == "record":
            given = {one["name"]: one.get("default") for one in node["fields"]} | value
            return {one["name"]: self._default(one["type"], given[one["name"]]) for one in node["fields"]}
        if kind == "array":
            return [self._default(node["items"], one) for one in value]
        if kind == "map":
            return {key: self._default(node["values"], one) for key, one in value.items()}
        return value.encode("latin-1") if kind in ("bytes", "fixed") else value

    # ---------------------------------------------------------------------------------------------------------- unions

    def _union(self, nodes: list[Any]) -> Converter:
        branches = [self._branch(node, nodes) for node in nodes]
        left = [one for one in branches if one.kind != "null"]
        has_null = len(left) < len(branches)
        kinds = ", ".join(one.name for one in branches)

        def convert(value: Any) -> tuple[str, Any]:
            if value is None and has_null:
                return "null", None
            # The sort is stable: among branches of one rank the first counts.
            ranked = left if len(left) == 1 else sorted(left, key=lambda branch: branch.rank(value))
            first: TypeMismatchError | None = None
            for branch in ranked:
                try:
                    return branch.name, branch.write(value)
                except TypeMismatchError as error:
                    first = first or error
            if first is not None and (len(left) == 1 or first.path):
                raise first
            return checked.refuse(value, f"fits none of {kinds}{f' ({first.reason})' if first else ''}")

        return convert

    def _branch(self, node: Any, nodes: list[Any]) -> _Branch:
        name, write = branch_name(node, self._named), self.of(node)
        node, kind = kind_of(node, self._named)
        kinds = [kind_of(one, self._named)[1] for one in nodes]
        if kind == "float" and "double" in kinds:
            write = _exact_single
        fields = frozenset(one["name"] for one in node["fields"]) if kind == "record" else None
        logical = None if kind in ("record", "union") else logical_of(node, kind)
        return _Branch(name, kind, write, _CLASSES.get(logical or kind, ()), fields)


class _RecordField(NamedTuple):
    """A field of a record."""

    write: Converter
    #: What is written if it is missing, in a tuple.
    missing: tuple[Any] | None


class _Branch(NamedTuple):
    """A branch of a union."""

    name: str
    kind: str
    write: Converter
    #: The classes of the values that it is for.
    classes: tuple[type, ...]
    #: The fields of a record.
    fields: frozenset[str] | None

    def rank(self, value: Any) -> int:
        """Return how well a value suits: 0 is best."""
        given = checked.unboxed(value)
        is_truth = isinstance(given, bool) != (self.kind == "boolean")
        if not isinstance(given, self.classes) or is_truth:
            return 2
        if self.fields is None:
            return 0
        names = field_names(given) if isinstance(given, Row) else given
        return 0 if names is not None and self.fields == frozenset(names) else 1


# --------------------------------------------------------------------------------------------------- values with parts


def _by_name(value: Any, fields: list[str]) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    own = field_names(value) if isinstance(value, Row) else None
    if own is not None and not are_of_a_type(own, fields):
        return dict(zip(own, value, strict=True))
    try:
        values = values_of(tuple(value if isinstance(value, Row) else elements_of(value)), fields)
    except ValueError as error:
        raise TypeMismatchError(str(error)) from None
    return dict(zip(fields, values, strict=True))


def _field_of(given: Mapping[str, Any], name: str, field: _RecordField) -> Any:
    if name in given:
        return _part(f".{name}", field.write, given[name])
    if field.missing is None:
        raise TypeMismatchError(f"it has no field {name!r}, for which the schema has no default")
    return field.missing[0]


def _array(write: Converter, value: Any) -> list[Any]:
    try:
        elements = elements_of(value)
    except ValueError as error:
        raise TypeMismatchError(str(error)) from None
    try:
        return [write(one) for one in elements]
    except TypeMismatchError:
        return [_part(f"[{at}]", write, one) for at, one in enumerate(elements)]


def _map(write: Converter, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        checked.refuse(value, "is no dict")
    made: dict[str, Any] = {}
    for key, one in cast("Mapping[Any, Any]", value).items():
        name = checked.shown(key)
        made[_part(f" key {name}", _text, key)] = _part(f"[{name}]", write, one)
    return made


def _part(step: str, write: Converter, value: Any) -> Any:
    try:
        return write(value)
    except TypeMismatchError as error:
        raise error.within(step) from None


# ------------------------------------------------------------------------------------------------------- single values


def _single(node: dict[str, Any], kind: str) -> Converter:
    logical = logical_of(node, kind)
    if logical == "decimal":
        return partial(_decimal, int(node["precision"]), int(node.get("scale", 0)), node.get("size"))
    if logical is not None:
        return _LOGICAL[logical]
    if kind == "enum":
        return partial(_symbol, tuple(node["symbols"]))
    return partial(_fixed, node["size"]) if kind == "fixed" else _SINGLE[kind]


def _decimal(precision: int, scale: int, size: int | None, value: Any) -> bytes:
    number = checked.decimal(value)
    if number and number.adjusted() + scale >= precision:
        checked.refuse(value, f"has more than {precision - scale} digits before the point")
    unscaled = int(_EXACT.scaleb(number, scale)) if number else 0
    if _EXACT.scaleb(Decimal(unscaled), -scale) != number:
        checked.refuse(value, f"has more than {scale} digits behind the point")
    length = size or unscaled.bit_length() // 8 + 1
    try:
        return unscaled.to_bytes(length, "big", signed=True)
    except OverflowError:
        checked.refuse(value, f"does not fit into {size} bytes")


def _timestamp(check: Converter, unit: int, value: Any) -> int:
    return _in_unit((check(value) - _EPOCH) // _MICROSECOND, unit, value)


def _time(unit: int, value: Any) -> int:
    time = checked.time(value)
    return _in_unit((datetime.datetime.combine(_EPOCH, time) - _EPOCH) // _MICROSECOND, unit, value)


def _in_unit(microseconds: int, unit: int, value: Any) -> int:
    count, rest = divmod(microseconds, unit)
    if rest:
        checked.refuse(value, "has microseconds, and its type has milliseconds")
    return count


def _date(value: Any) -> int:
    return checked.date(value).toordinal() - _EPOCH.toordinal()


def _uuid(value: Any) -> str:
    if not isinstance(value, UUID):
        checked.refuse(value, "is no UUID; uuid.UUID(text) is one")
    return str(value)


def _text(value: Any) -> str:
    text = checked.text(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            checked.refuse(value, "has half of a surrogate pair, which UTF-8 does not have")
    return text


def _symbol(symbols: tuple[str, ...], value: Any) -> str:
    if not isinstance(value, str) or value not in symbols:
        checked.refuse(value, f"is none of {', '.join(symbols)}")
    return str.__str__(value)


def _fixed(size: int, value: Any) -> bytes:
    found = checked.octets(value)
    if len(found) != size:
        checked.refuse(value, f"has {len(found)} bytes in place of {size}")
    return found


def _exact_single(value: Any) -> float:
    number = checked.single(value)
    if number != checked.double(value) and number == number:  # noqa: PLR0124 - NaN has no digits to lose
        checked.refuse(value, "has more digits than a float of 32 bits holds")
    return number


def _null(value: Any) -> None:
    if value is not None:
        checked.refuse(value, "is not None")


_SINGLE: Final[dict[str, Converter]] = {
    "null": _null,
    "boolean": checked.truth,
    "int": checked.whole(-(1 << 31), (1 << 31) - 1),
    "long": checked.whole(-(1 << 63), (1 << 63) - 1),
    "float": checked.single,
    "double": checked.double,
    "bytes": checked.octets,
    "string": _text,
}
_LOGICAL: Final[dict[str, Converter]] = {
    "date": _date,
    "time-millis": partial(_time, 1000),
    "time-micros": partial(_time, 1),
    "timestamp-millis": partial(_timestamp, checked.timestamp, 1000),
    "timestamp-micros": partial(_timestamp, checked.timestamp, 1),
    "local-timestamp-millis": partial(_timestamp, checked.local_timestamp, 1000),
    "local-timestamp-micros": partial(_timestamp, checked.local_timestamp, 1),
    "uuid": _uuid,
}
_TIMES: Final = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
#: The classes of the values that branches of unions are for.
_CLASSES: Final[dict[str, tuple[type, ...]]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (float,),
    "double": (float,),
    "bytes": (bytes, bytearray, memoryview),
    "fixed": (bytes, bytearray, memoryview),
    "string": (str,),
    "enum": (str,),
    "array": (list, tuple),
    "map": (Mapping,),
    "record": (Mapping, Row),
    "date": (datetime.date,),
    "time-millis": (datetime.time,),
    "time-micros": (datetime.time,),
    "decimal": (Decimal,),
    "uuid": (UUID,),
    **dict.fromkeys(_TIMES, (datetime.datetime,)),
}

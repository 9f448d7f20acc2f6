"""What comes back where a path converts a value: one function for each rule that conversions name.

A rule takes a record that went in and its `Value`, and returns the record that has to come back.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import uuid
from dataclasses import asdict, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.values.values import FIELD

from penstock.common import Instant, Row, Types
from penstock.common.typeinfo import ListTypeInfo, MapTypeInfo, ObjectArrayTypeInfo, RowTypeInfo
from penstock.common.types import field_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.values.values import Value

    from penstock.common.typeinfo import TypeInformation


class DoesNotApplyError(Exception):
    """A rule has nothing to say about a value."""


def filled(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """As ``plain``, and a field that a record or a struct lacks is None."""
    del value
    return {FIELD: None} | plain_part(record)


def plain(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """Rows are dicts, and tuples, sets and arrays of NumPy are lists, at every level; scalars of NumPy are Python's."""
    del value
    return plain_part(record)


def plain_part(field: Any) -> Any:
    """Return a part of a record by the rule ``plain``."""
    if isinstance(field, Row):
        field = field.as_dict() if field_names(field) else list(field)
    if is_dataclass(field) and not isinstance(field, (type, Instant)):
        field = asdict(field)
    if isinstance(field, dict):
        return {plain_part(key): plain_part(part) for key, part in field.items()}
    if isinstance(field, (list, tuple, set)):
        return [plain_part(part) for part in field]
    if isinstance(field, np.ndarray):
        return field.tolist()
    return field.item() if isinstance(field, np.generic) else of_python(field)


def of_python(field: Any) -> Any:
    """Return an object of a class below one of Python's own as one of that; those of pandas stay."""
    kind = next((kind for kind in _OWN if isinstance(field, kind)), type(field))
    if type(field) in (kind, bool) or type(field).__module__.startswith("pandas"):
        return field
    return _OWN[kind](field)


#: How objects of classes below Python's own become those; what they say of themselves does not count.
_OWN: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: bytes,
    Decimal: Decimal,
    dt.datetime: lambda one: dt.datetime.combine(one.date(), one.timetz()),
    dt.date: lambda one: dt.date(one.year, one.month, one.day),
}


def typed(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """As PyFlink's declared types have it; a time with a zone is in UTC, without it."""
    found = record.get(FIELD)
    if "fields" in value.columns.get("avro", ()):
        found = Row(**{one["name"]: found.get(one["name"], one["default"]) for one in value.columns["avro"]["fields"]})
    return {FIELD: in_utc(found) if value.declared is None else typed_part(found, value.declared)}


def csv(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """As ``typed``; None in a column of text, bytes or arrays is an empty value."""
    found, declared = typed(record, value)[FIELD], value.declared
    if found is not None or declared is None:
        return {FIELD: found}
    if isinstance(declared, (ListTypeInfo, ObjectArrayTypeInfo)):
        return {FIELD: []}
    return {FIELD: {Types.STRING(): "", Types.CHAR(): "", Types.PRIMITIVE_ARRAY(Types.BYTE()): b""}.get(declared)}


def typed_as_dicts(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """As ``typed``, with dicts in place of rows."""
    return plain_part(typed(record, value))


def typed_part(field: Any, declared: TypeInformation) -> Any:
    """Return a part of a record by the rule ``typed``."""
    if field is None:
        return None
    if isinstance(declared, RowTypeInfo):
        names, types = declared.get_field_names(), declared.get_field_types()
        given = field.as_dict() if isinstance(field, Row) and field_names(field) else field
        given = asdict(given) if is_dataclass(given) and not isinstance(given, type) else given
        parts = [given.get(name) for name in names] if isinstance(given, dict) else given
        return Row(**{name: typed_part(one, kind) for name, kind, one in zip(names, types, parts, strict=True)})
    if isinstance(declared, (ListTypeInfo, ObjectArrayTypeInfo)):
        return [typed_part(one, declared.elem_type) for one in field]
    if isinstance(declared, MapTypeInfo):
        key_type, value_type = declared.key_type, declared.value_type
        return {typed_part(key, key_type): typed_part(one, value_type) for key, one in field.items()}
    make = {Types.FLOAT(): lambda one: float(np.float32(one)), Types.DOUBLE(): float, Types.BIG_DEC(): Decimal}
    if declared in make:
        return make[declared](of_python(field))
    plain_kinds = {bytearray: bytes, memoryview: bytes, np.ndarray: np.ndarray.tolist, np.generic: np.generic.item}
    found = next((make(field) for kind, make in plain_kinds.items() if isinstance(field, kind)), field)
    return in_utc(of_python(found))


def in_utc(field: Any) -> Any:
    """Return a time in UTC without its zone, and without the mark of an hour that clocks show twice."""
    if not isinstance(field, (dt.datetime, dt.time)):
        return field
    moment = field.astimezone(dt.UTC) if isinstance(field, dt.datetime) and field.tzinfo else field
    return of_moment(moment).replace(tzinfo=None, fold=0)


def of_moment(field: Any) -> Any:
    """Return a moment of pandas as a datetime."""
    return field.to_pydatetime() if hasattr(field, "to_pydatetime") else field


def shortest_decimal(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A Decimal has no zeros at its end, and no sign if it is zero."""
    del value
    number = Decimal(record[FIELD])
    return {FIELD: Decimal(int(number)) if number == int(number) else number.normalize()}


def in_scale(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A Decimal has the scale of its column, and no sign if it is zero."""
    scale = value.columns["avro"]["scale"] if "avro" in value.columns else 30
    sign, digits, exponent = Decimal(record[FIELD]).as_tuple()
    assert isinstance(exponent, int)
    zeros = (0,) * (scale + exponent) if scale + exponent > 0 else ()
    exact = Decimal((sign, digits + zeros, -scale)) if scale + exponent >= 0 else Decimal(record[FIELD])
    places = Decimal((0, (1,), -scale))
    return {FIELD: abs(exact) if not exact else exact if scale + exponent >= 0 else exact.quantize(places)}


def as_json(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """As JSON has it without a type: texts for times and bytes, floats for Decimals, dicts for rows."""
    del value
    return {FIELD: as_json_part(record.get(FIELD))}


def as_json_part(field: Any) -> Any:
    """Return a part of a record by the rule ``as_json``."""
    if isinstance(field, Enum):
        field = field.value
    if hasattr(field, "tz_convert") and field.tzinfo is not None:  # a moment of pandas
        field = field.astimezone(dt.UTC)
    field = plain_part(field)
    if isinstance(field, dict):
        return {str(key): as_json_part(part) for key, part in field.items()}
    if isinstance(field, list):
        return [as_json_part(part) for part in field]
    for kind, text in _JSON_TEXTS:
        if isinstance(field, kind):
            return text(field)
    return str(field) if isinstance(field, str) else field


def _float_or_name(number: float) -> float | str:
    return number if np.isfinite(number) else json.dumps(number)


def _number(number: Decimal) -> float | int:
    return int(number) if number == int(number) else float(number)


def _iso(time: Any) -> str:
    return time.isoformat().replace("+00:00", "Z")


def _duration(span: dt.timedelta) -> str:
    sign, span = ("-", -span) if span.days < 0 else ("", span)
    rest = span - dt.timedelta(span.days)
    seconds = f"{rest.seconds}.{rest.microseconds:06}".rstrip("0").rstrip(".")
    return f"{sign}P{f'{span.days}D' if span.days else ''}T{seconds}S"


_JSON_TEXTS: list[tuple[Any, Any]] = [
    (float, _float_or_name),
    (Decimal, _number),
    ((bytes, bytearray, memoryview), lambda data: base64.b64encode(data).decode()),
    ((dt.date, dt.time), _iso),
    (dt.timedelta, _duration),
    (uuid.UUID, str),
    (Instant, lambda one: _iso(dt.datetime.fromtimestamp(one.seconds, dt.UTC).replace(tzinfo=None)) + _nanos(one)),
]


def _nanos(one: Instant) -> str:
    digits = f"{one.nanos:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}Z" if digits else "Z"


def from_text(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A text is read as a value of the declared type."""
    readers = {
        Types.LONG(): int,
        Types.DOUBLE(): float,
        Types.BIG_DEC(): Decimal,
        Types.BOOLEAN(): {"true": True}.__getitem__,
        Types.SQL_DATE(): dt.date.fromisoformat,
        Types.SQL_TIMESTAMP(): dt.datetime.fromisoformat,
    }
    read = next((one for declared, one in readers.items() if declared == value.declared), None)
    if read is None or not isinstance(record[FIELD], str):
        raise DoesNotApplyError
    return {FIELD: read(record[FIELD])}


def digits(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A number is a Decimal with its digits, without an exponent, a negative zero, and without a signal of NaN."""
    number = record[FIELD]
    if isinstance(number, Decimal) and number.is_snan():
        return {FIELD: Decimal("NaN")}
    exact = Decimal(number) if isinstance(number, int) else Decimal(str(number))
    found = Decimal(format(exact, "f"))
    return {
        FIELD: (found.quantize(Decimal("0.01")) if "sql" in value.columns else found) if number else found.copy_abs()
    }


def whole(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """An object of a class below one of Python's own is one of that, and numbers in ``double precision`` are floats."""
    found = plain_part(record)[FIELD]
    return {FIELD: float(found) if value.declared == Types.DOUBLE() else found}


def double(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A whole number is the float that equals it."""
    del value
    if float(record[FIELD]) != record[FIELD]:
        raise DoesNotApplyError
    return {FIELD: float(record[FIELD])}


def shortest(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A float has the fewest digits that single precision needs for it."""
    del value
    return {FIELD: float(str(np.float32(record[FIELD])))}


def octets(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """What has bytes is bytes."""
    del value
    return {FIELD: bytes(record[FIELD])}


def sql_moment(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A moment is in UTC: without a zone in a column without one, else with it."""
    moment = record[FIELD]
    aware = of_moment(moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC))
    return {FIELD: aware if "sql" in value.columns else aware.replace(tzinfo=None)}


def first_of_two(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A moment without a zone has no fold."""
    del value
    return {FIELD: record[FIELD].replace(fold=0)}


def as_jsonb(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """As ``plain``; fields are in the order of jsonb, and a Decimal is the float that is written alike."""
    del value
    found = plain_part(record).get(FIELD)
    if isinstance(found, dict):
        found = dict(sorted(found.items(), key=lambda item: (len(item[0]), item[0])))
    if isinstance(found, Decimal):
        found = float(found)
    return {FIELD: found}

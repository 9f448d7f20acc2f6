"""Converts a value to a declared type: to itself, to another value of the type, or to an error.

The rules are those of PyFlink's coders, which encode a value and decode it again: an int declared as a double comes
back as a float, a NumPy scalar as the number that it is, and a number beyond the range of its type not at all. Nothing
here is called for records that are of their type already; see `exact`.
"""

from __future__ import annotations

import datetime
import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import fields, is_dataclass
from decimal import Decimal, InvalidOperation
from numbers import Real
from typing import Any, Final, TypeAlias, cast

from penstock.common.time import Instant
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.common.types import Row, RowKind, field_names, make_row

Converter: TypeAlias = Callable[[Any], Any]
"""Takes a value, perhaps None, and returns it as its type has it; raises TypeMismatchError."""

#: The least and the greatest value of the types that have some.
RANGES: Final = {
    BasicType.BYTE: (-(1 << 7), (1 << 7) - 1),
    BasicType.SHORT: (-(1 << 15), (1 << 15) - 1),
    BasicType.INT: (-(1 << 31), (1 << 31) - 1),
    BasicType.LONG: (-(1 << 63), (1 << 63) - 1),
}


_NO_SCALARS: Final = frozenset((bool, int, float, str, Decimal))


class TypeMismatchError(Exception):
    """A value that does not fit its type.

    Args:
        reason: What is wrong with it, a clause without a full stop.
        path: Its path in the record, such as ``.scores[2]``; empty for the record itself.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason, path)
        self.reason, self.path = reason, path

    def within(self, step: str) -> TypeMismatchError:
        """Return the error for the value that contains this one."""
        return TypeMismatchError(self.reason, step + self.path)


def converter(type_info: TypeInformation | None) -> Converter | None:
    """Return the converter of values to a type; None if every value has the type."""
    match type_info:
        case BasicTypeInfo():
            convert = _basic(type_info.basic_type)
        case RowTypeInfo():
            convert = _row(type_info)
        case TupleTypeInfo():
            convert = _tuple(type_info)
        case PrimitiveArrayTypeInfo() if type_info.elem_type == BasicTypeInfo.BYTE_TYPE_INFO():
            convert = _bytes
        case PrimitiveArrayTypeInfo():
            convert = _list(_not_none(converter(type_info.elem_type)))
        case ListTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo():
            convert = _list(converter(type_info.elem_type))
        case MapTypeInfo():
            convert = _map(_not_none(converter(type_info.key_type)), converter(type_info.value_type))
        case DateTypeInfo() | TimeTypeInfo() | TimestampTypeInfo() | LocalTimeTypeInfo():
            convert = _time(type_info)
        case _:
            return None
    return lambda value: None if value is None else convert(value)


# ------------------------------------------------------------------------------------------------------- single values


def _basic(kind: BasicType) -> Converter:
    if kind in RANGES or kind is BasicType.BIG_INT:
        return _integer(RANGES.get(kind))
    return {
        BasicType.FLOAT: _float,
        BasicType.DOUBLE: _double,
        BasicType.BOOLEAN: _boolean,
        BasicType.STRING: _text,
        BasicType.CHAR: _character,
        BasicType.BIG_DEC: _decimal,
        BasicType.INSTANT: _instant,
    }[kind]


def _integer(limits: tuple[int, int] | None) -> Converter:
    def convert(value: Any) -> int:
        number = value
        if value.__class__ is not int:
            value = _plain(value)
            try:
                number = int.__int__(operator.index(value))
            except TypeError:
                raise _wanted("an integer", value) from None
        if limits is not None and not limits[0] <= number <= limits[1]:
            reason = f"it is out of range, which is {limits[0]} to {limits[1]}"
            raise TypeMismatchError(reason)
        return number

    return convert


def _double(value: Any) -> float:
    if value.__class__ is float:
        return value
    value = _plain(value)
    if not isinstance(value, (Real, Decimal)):
        raise _wanted("a number", value)
    try:
        return float(value)
    except (OverflowError, ValueError) as error:
        raise TypeMismatchError(str(error)) from None


def _float(value: Any) -> float:
    """Round to 32 bits, the size of Flink's Float."""
    number = _double(value)
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        reason = "it is out of range, which is that of floats of 32 bits"
        raise TypeMismatchError(reason) from None


def _boolean(value: Any) -> bool:
    if value.__class__ is bool:
        return value
    value = _plain(value)
    try:
        number = operator.index(value)
    except TypeError:
        raise _wanted("a truth value", value) from None
    if not 0 <= number <= 255:  # the byte that PyFlink has for it
        raise _wanted("a truth value", value)
    return bool(number)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wanted("a str", value)
    return value if value.__class__ is str else str.__str__(value)


def _character(value: Any) -> str:
    text = _text(value)
    if len(text) != 1:
        reason = f"it has {len(text)} characters in place of one"
        raise TypeMismatchError(reason)
    return text


def _decimal(value: Any) -> Decimal:
    if value.__class__ is Decimal:
        return value
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise _wanted("a Decimal", value)
    try:
        return Decimal(str(value))
    except InvalidOperation:
        raise _wanted("a Decimal", value) from None


def _instant(value: Any) -> Instant:
    if not isinstance(value, Instant):
        raise _wanted("an Instant", value)
    return value


def _time(type_info: TypeInformation) -> Converter:
    match type_info:
        case DateTypeInfo():
            return _date
        case TimeTypeInfo():
            return _time_of_day
        case TimestampTypeInfo():
            return _timestamp
        case _:
            kinds = LocalTimeTypeInfo.TimeType
            by_kind = {
                kinds.LOCAL_DATE: _date,
                kinds.LOCAL_TIME: _time_of_day,
                kinds.LOCAL_DATE_TIME: _timestamp,
            }
            return by_kind[cast("LocalTimeTypeInfo", type_info).time_type]


def _date(value: Any) -> datetime.date:
    if not isinstance(value, datetime.date) or _is_no_time(value):
        raise _wanted("a date", value)
    return value if value.__class__ is datetime.date else datetime.date(value.year, value.month, value.day)


def _time_of_day(value: Any) -> datetime.time:
    if isinstance(value, datetime.datetime):
        return _timestamp(value).time()
    if not isinstance(value, datetime.time):
        raise _wanted("a time", value)
    if value.tzinfo is None:
        return value
    info = TimeTypeInfo()
    since_midnight = info.to_internal_type(value)
    assert since_midnight is not None
    return cast("datetime.time", info.from_internal_type(since_midnight))


def _timestamp(value: Any) -> datetime.datetime:
    if not isinstance(value, datetime.datetime) or _is_no_time(value):
        raise _wanted("a datetime", value)
    return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)


def _is_no_time(value: Any) -> bool:
    """Return whether a value is pandas' NaT, a datetime by its class that is not equal to itself."""
    return value != value  # noqa: PLR0124


def _plain(value: Any) -> Any:
    """Return the number or truth value of a NumPy scalar; anything else unchanged."""
    if value.__class__ in _NO_SCALARS:
        return value
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return value.item() if kind in ("b", "i", "u", "f") and getattr(value, "ndim", None) == 0 else value


def _wanted(what: str, value: Any) -> TypeMismatchError:
    return TypeMismatchError(f"it is of {type(value).__qualname__}, not {what}")


# ----------------------------------------------------------------------------------------------- values made of values


def _not_none(convert: Converter | None) -> Converter | None:
    """Return a converter that refuses None, as for Java's primitive types and for keys."""
    if convert is None:
        return None

    def present(value: Any) -> Any:
        if value is None:
            reason = "None has no place here"
            raise TypeMismatchError(reason)
        return convert(value)

    return present


def _parts(converters: Iterable[Converter | None], values: Iterable[Any], step: Callable[[int], str]) -> list[Any]:
    """Return the values of some fields, each in its type; `step` returns the path of one."""
    parts: list[Any] = []
    try:
        for convert, value in zip(converters, values, strict=True):
            parts.append(value if convert is None else convert(value))
    except TypeMismatchError as error:
        raise error.within(step(len(parts))) from None
    return parts


def _same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return all(map(operator.is_, left, right))


def _bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise _wanted("bytes", value)
    given = cast("Any", value)
    return given if given.__class__ is bytes else bytes(given)


def _list(convert: Converter | None) -> Converter:
    def shape(values: Any) -> list[Any]:
        if not isinstance(values, Iterable) or not isinstance(values, Sized) or isinstance(values, (str, Mapping)):
            raise _wanted("a list", values)
        given = cast("Any", values)
        items = list(given)
        parts = items if convert is None else _parts([convert] * len(items), items, "[{}]".format)
        return given if given.__class__ is list and _same(items, parts) else parts

    return shape


def _map(convert_key: Converter | None, convert_value: Converter | None) -> Converter:
    def shape(entries: Any) -> dict[Any, Any]:
        if not isinstance(entries, Mapping):
            raise _wanted("a dict", entries)
        found = cast("Mapping[Any, Any]", entries)
        keys, values = list(found), [found[key] for key in found]
        new_keys = _parts([convert_key] * len(keys), keys, lambda place: f" key {keys[place]!r}")
        new_values = _parts([convert_value] * len(keys), values, lambda place: f"[{keys[place]!r}]")
        if found.__class__ is dict and _same(keys, new_keys) and _same(values, new_values):
            return cast("dict[Any, Any]", found)
        return dict(zip(new_keys, new_values, strict=True))

    return shape


def _tuple(type_info: TupleTypeInfo) -> Converter:
    converters = [converter(field_type) for field_type in type_info.get_field_types()]

    def shape(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (tuple, list, Row)):
            raise _wanted("a tuple", value)
        given = cast("Any", value)
        values = tuple(given)
        _check_count(len(values), len(converters))
        parts = _parts(converters, values, "[{}]".format)
        return given if given.__class__ is tuple and _same(values, parts) else tuple(parts)

    return shape


def _row(type_info: RowTypeInfo) -> Converter:
    names = type_info.get_field_names()
    converters = [converter(field_type) for field_type in type_info.get_field_types()]
    steps = [f".{name}" for name in names]

    def shape(value: Any) -> Row:
        is_row = isinstance(value, Row)
        values = _row_values(value, names)
        _check_count(len(values), len(names))
        parts = _parts(converters, values, steps.__getitem__)
        if is_row and field_names(value) == names and _same(values, parts):
            return value
        return make_row(names, parts, value.get_row_kind() if is_row else RowKind.INSERT)

    return shape


def _row_values(value: Any, names: list[str]) -> Sequence[Any]:
    """Return the values of a row's fields: by name from what has names, else by position.

    As in PyFlink, a dict or an object without one of the names gives None for it.
    """
    if isinstance(value, Row):
        own = field_names(value)
        if own is None:
            return list(value)
        _check_names(own, names)
        if len(own) < len(names):
            missing = [name for name in names if name not in own]
            reason = f"it lacks the field {', '.join(map(repr, missing))}"
            raise TypeMismatchError(reason)
        return value.get_fields_by_names(names)
    if isinstance(value, (tuple, list)):
        return cast("Sequence[Any]", value)
    named = _by_name(value)
    _check_names(named, names)
    return [named.get(name) for name in names]


def _by_name(value: Any) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return cast("Mapping[str, Any]", value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    named = getattr(value, "__dict__", None)
    if not named or isinstance(value, type) or callable(value):
        raise _wanted("a Row, a dict, a tuple, or an object with attributes", value)
    return {name: attribute for name, attribute in named.items() if not name.startswith("_")}


def _check_names(found: Iterable[str], names: list[str]) -> None:
    unknown = set(found).difference(names)
    if unknown:
        reason = f"the type has no field {', '.join(sorted(map(repr, unknown)))}"
        raise TypeMismatchError(reason)


def _check_count(found: int, wanted: int) -> None:
    if found != wanted:
        reason = f"it has {found} fields in place of {wanted}"
        raise TypeMismatchError(reason)

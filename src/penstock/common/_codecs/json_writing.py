"""Writes values as JSON: those of a type by converters that are made once for it, and any others as they are.

A value that is not of its type is refused, by an error that names its field.
"""

from __future__ import annotations

import base64
import datetime
from dataclasses import fields, is_dataclass
from decimal import MAX_PREC, Context, Decimal
from enum import Enum
from functools import partial
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

import msgspec

from penstock.common._codecs.times import to_rfc_instant, to_rfc_time, to_rfc_timestamp
from penstock.common._conversion import checked
from penstock.common._conversion.checked import TypeMismatchError
from penstock.common._conversion.row_values import elements_of, values_of
from penstock.common.record_text import float32_text
from penstock.common.time import Instant
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    Types,
)
from penstock.common.types import Row, field_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common.typeinfo import TypeInformation

    Converter = Callable[[Any], Any]

#: What writers raise about values that do not fit.
UNWRITABLE: Final = (TypeMismatchError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)

_ARRAYS: Final = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo, PrimitiveArrayTypeInfo)
_EXACT: Final = Context(prec=MAX_PREC)
#: Greater whole decimals are written with an exponent.
_MOST_DIGITS: Final = 40
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
#: Classes whose values msgspec writes as they are.
_AS_THEY_ARE: Final = frozenset((type(None), bool, int, str, bytes, datetime.date, datetime.timedelta, UUID))


def encoded(found: Any) -> bytes:
    """Return what converters have made as JSON in UTF-8.

    Raises:
        TypeMismatchError: A text is no Unicode.
    """
    try:
        return _ENCODER.encode(found)
    except UnicodeEncodeError:
        _refuse_surrogates(found)
        raise


def mapped(convert: Converter, value: Any) -> Any:
    """Return parsed JSON with its single values converted."""
    if isinstance(value, list):
        return [mapped(convert, inner) for inner in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: mapped(convert, inner) for key, inner in cast("dict[str, Any]", value).items()}
    return convert(value)


# --------------------------------------------------------------------------------------------------- values of a type


def writer(type_info: TypeInformation) -> Converter:
    """Return the converter from values of a type, but None, to what `encoded` takes.

    Raises:
        ValueError: The type has no JSON.
    """
    if isinstance(type_info, RowTypeInfo):
        return _row_writer(type_info)
    if isinstance(type_info, MapTypeInfo):
        return partial(_map, writer(type_info.key_type), writer(type_info.value_type))
    if isinstance(type_info, PickledBytesTypeInfo):
        return anything
    check = checked.CHECKS.get(type_info)
    if check is not None:
        return _single(type_info, check)
    if isinstance(type_info, _ARRAYS):
        may_be_null = not isinstance(type_info, PrimitiveArrayTypeInfo)
        return partial(_array, writer(type_info.elem_type), may_be_null)
    raise ValueError(f"{type_info} has no form in JSON")


def _row_writer(type_info: RowTypeInfo) -> Converter:
    names = list(type_info.get_field_names())
    writers = [writer(one) for one in type_info.get_field_types()]
    parts = list(zip(names, writers, strict=True))

    def convert(value: Any) -> dict[str, Any]:
        values = values_of(value, names)
        try:
            return {name: None if one is None else write(one) for (name, write), one in zip(parts, values, strict=True)}
        except UNWRITABLE:
            for (name, write), one in zip(parts, values, strict=True):
                _part(f".{name}", write, one)
            raise

    return convert


def _array(write: Converter, may_be_null: bool, value: Any) -> list[Any]:
    values = elements_of(value)
    if not may_be_null and any(one is None for one in values):
        checked.refuse(value, "has None in an array of primitive values")
    try:
        return [None if one is None else write(one) for one in values]
    except UNWRITABLE:
        for at, one in enumerate(values):
            _part(f"[{at}]", write, one)
        raise


def _map(write_key: Converter, write: Converter, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        checked.refuse(value, "is no dict")
    found: dict[str, Any] = {}
    for key, inner in cast("dict[Any, Any]", value).items():
        name = _part(f" key {checked.shown(key)}", lambda given: _key(write_key(given)), key, optional=False)
        if name in found:
            raise TypeMismatchError(f"two of its keys are {name!r:.80} in JSON")
        found[name] = _part(f"[{checked.shown(key)}]", write, inner)
    return found


def _part(step: str, write: Converter, value: Any, *, optional: bool = True) -> Any:
    """Convert a part of a value, and say where it is if it does not fit."""
    if value is None and optional:
        return None
    try:
        return write(value)
    except TypeMismatchError as error:
        raise error.within(step) from None
    except UNWRITABLE as error:
        shown = checked.shown(value)
        raise TypeMismatchError(str(error) if str(error).startswith(shown) else f"{shown}: {error}", step) from None


def _single(type_info: TypeInformation, check: Converter) -> Converter:
    if type_info == Types.DOUBLE():
        return _double
    form = _FORMS.get(type_info)
    return check if form is None else lambda value: form(check(value))


def _double(value: Any) -> float | str:
    return value if value.__class__ is float and isfinite(value) else _finite(checked.double(value))


def _finite(value: float) -> float | str:
    """Return a float, and as text one that is not finite, which JSON does not have."""
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _single_float(value: float) -> float | str:
    """Return a float of 32 bits with as few digits as it needs."""
    return float(float32_text(value)) if isfinite(value) else _finite(value)


def _number(value: Decimal) -> int | Decimal:
    """Return a decimal without the zeros at its end, as Flink's library writes it."""
    plain = _EXACT.normalize(value)
    return int(plain) if plain == plain.to_integral_value() and plain.adjusted() < _MOST_DIGITS else plain


def _near_a_float(value: Decimal) -> int | Decimal:
    """Return a decimal as a number, which readers without a type take for a float; refuse one that is beyond them."""
    if not isfinite(float(value)):
        checked.refuse(value, "is beyond the floats of 64 bits")
    return _number(value)


_FORMS: Final[dict[TypeInformation, Converter]] = {
    Types.SQL_DATE(): datetime.date.isoformat,
    Types.SQL_TIME(): to_rfc_time,
    Types.SQL_TIMESTAMP(): to_rfc_timestamp,
    Types.INSTANT(): to_rfc_instant,
    Types.PRIMITIVE_ARRAY(Types.BYTE()): lambda value: base64.b64encode(value).decode(),
    Types.FLOAT(): _single_float,
    Types.BIG_DEC(): _number,
}


# ----------------------------------------------------------------------------------------------- values without a type


def anything(value: Any) -> Any:
    """Return a value without a type in the form that `encoded` takes.

    Rows with names and dataclasses become objects, other rows, tuples, sets and arrays of NumPy arrays. Times become
    texts of ISO 8601, bytes Base64, and numbers that are not finite their names, because JSON does not have them.

    Raises:
        TypeMismatchError: It has no form in JSON.
    """
    kind = value.__class__
    if kind in _AS_THEY_ARE:
        return value
    if kind is float:
        return _finite(value)
    if isinstance(value, Row):
        value = list(value) if field_names(value) is None else value.as_dict()
    if isinstance(value, dict):
        return _object(cast("dict[Any, Any]", value))
    if isinstance(value, (list, tuple, set, frozenset)):
        return _values(cast("Iterable[Any]", value))
    return _special(value)


def exactly(value: Any) -> Any:
    """Return a value that JSON has in the form that `encoded` takes; all others are refused.

    Raises:
        TypeMismatchError: It is no dict with texts as keys, list, tuple, text, finite number, truth value or None.
    """
    found = value.tolist() if hasattr(value, "dtype") and hasattr(value, "tolist") else value
    if found is None or (isinstance(found, (bool, int, str)) and not isinstance(found, Enum)):
        return anything(found)
    if isinstance(found, dict):
        entries = cast("dict[Any, Any]", found).items()
        return {checked.text(key): _part(f".{key}", exactly, inner, optional=False) for key, inner in entries}
    if isinstance(found, (list, tuple)):
        items = cast("Iterable[Any]", found)
        return [_part(f"[{at}]", exactly, inner, optional=False) for at, inner in enumerate(items)]
    if isinstance(found, float) and isfinite(found):
        return float(found)
    return checked.decimal(found) if isinstance(found, Decimal) else checked.refuse(value, "is no value of JSON")


def _object(value: dict[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, inner in value.items():
        name = key if key.__class__ is str else _part(f" key {checked.shown(key)}", _any_key, key, optional=False)
        if name in found:
            raise TypeMismatchError(f"two of its keys are {name!r:.80} in JSON")
        found[name] = inner if inner.__class__ in _AS_THEY_ARE else _part(f".{name}", anything, inner)
    return found


def _values(values: Iterable[Any]) -> list[Any]:
    return [one if one.__class__ in _AS_THEY_ARE else _part(f"[{at}]", anything, one) for at, one in enumerate(values)]


def _special(value: Any) -> Any:
    """Return the form of a value of a less common class."""
    if isinstance(value, Enum):
        return anything(value.value)
    form = next((form for kind, form in _SPECIAL if isinstance(value, kind)), None)
    if form is not None:
        return form(value)
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return _of_numpy(value)
    if isinstance(value, msgspec.Struct):
        return _object(msgspec.structs.asdict(value))
    if is_dataclass(value) and not isinstance(value, type):
        return _object({field.name: getattr(value, field.name) for field in fields(value)})
    return checked.refuse(value, f"is a {type(value).__qualname__}, which is no value of JSON")


def _moment(value: datetime.datetime) -> datetime.datetime:
    if value.tzinfo is None:
        return checked.local_timestamp(value)
    is_pythons = value.__class__ is datetime.datetime  # that of pandas may have nanoseconds
    return _with_minutes(value) if is_pythons else checked.timestamp(value).replace(tzinfo=datetime.UTC)


def _with_minutes(value: Any) -> Any:
    """Return a time whose offset is in whole minutes, as in ISO 8601; msgspec would cut its seconds."""
    if value.tzinfo is not None:
        offset = value.utcoffset()
        if offset is None:
            checked.refuse(value, "has a zone whose offset depends on the day")
        if offset % datetime.timedelta(minutes=1):
            checked.refuse(value, f"is {offset} from UTC, and JSON has offsets in minutes: astimezone(UTC) is the same")
    return value


#: Base classes of values in another form, without those of `_AS_THEY_ARE`.
_SPECIAL: Final[list[tuple[type | tuple[type, ...], Converter]]] = [
    (str, checked.text),
    (int, checked.whole(None, None)),
    (float, lambda value: _finite(checked.double(value))),
    (Decimal, lambda value: _near_a_float(checked.decimal(value))),
    (datetime.datetime, _moment),
    (datetime.date, checked.date),
    (datetime.time, _with_minutes),
    (Instant, to_rfc_instant),
    ((bytes, bytearray, memoryview), checked.octets),
]


def _of_numpy(value: Any) -> Any:
    if value.dtype.kind not in "biufUO":
        checked.refuse(value, f"has the type {value.dtype}, which JSON does not have")
    return anything(value.tolist())


def _any_key(key: Any) -> str:
    if not isinstance(key, (str, int)) or isinstance(key, bool):
        checked.refuse(key, "is no str and no int, which keys are in JSON")
    return str(key.value if isinstance(key, Enum) else key)


def _key(found: Any) -> str:
    """Return what a writer has made of a key as a text."""
    return found if isinstance(found, str) else _ENCODER.encode(found).decode()


def _refuse_surrogates(found: Any, path: str = "") -> None:
    """Refuse the first text that is no Unicode."""
    if isinstance(found, str):
        try:
            found.encode()
        except UnicodeEncodeError:
            reason = f"{checked.shown(found)} has half of a surrogate pair, which UTF-8 does not have"
            raise TypeMismatchError(reason, path) from None
    elif isinstance(found, dict):
        for key, inner in cast("dict[str, Any]", found).items():
            _refuse_surrogates(key, f"{path} key {checked.shown(key)}")
            _refuse_surrogates(inner, f"{path}.{key}")
    elif isinstance(found, list):
        for at, inner in enumerate(cast("list[Any]", found)):
            _refuse_surrogates(inner, f"{path}[{at}]")

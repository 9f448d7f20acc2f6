"""Converts values to JSON and back, by converters that are made once for each type."""

from __future__ import annotations

import base64
import datetime
import math
from decimal import MAX_PREC, Context, Decimal
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.common._codecs.json_reading import truth
from penstock.common._codecs.row_values import elements_of, octets_of, values_of
from penstock.common._codecs.times import date_text, of_rfc_time, of_rfc_timestamp, to_rfc_time, to_rfc_timestamp
from penstock.common._conversion.values import TypeMismatchError
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    Types,
)
from penstock.common.types import Row, RowKind, field_names, make_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common.typeinfo import TypeInformation

    Converter = Callable[[Any], Any]

_BYTES: Final = Types.PRIMITIVE_ARRAY(Types.BYTE())
_EXACT: Final = Context(prec=MAX_PREC)
#: Greater whole decimals are written with an exponent.
_MOST_DIGITS: Final = 40
#: What the converters raise for a value that does not fit.
UNFIT: Final = (TypeMismatchError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)


def _text(value: Any) -> str:
    """Return a scalar's text as JSON has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (dict, list)):
        return encoded(_any(value)).decode()
    return str(value)


def _whole(low: int, high: int, value: Any) -> int:
    number = value if isinstance(value, int) and not isinstance(value, bool) else int(_digits(value))
    if not low <= number <= high:
        raise ValueError(f"{number} is not between {low} and {high}")
    return number


def _digits(value: Any) -> str:
    """Return a number's text; Python's numbers may have underscores, and no others."""
    text = str(value).strip()
    if "_" in text:
        raise ValueError(f"{value!r} is no number")
    return text


def decimal(value: Any) -> Decimal:
    """Return a decimal of a number or its text.

    Raises:
        ValueError: It is none, or not finite.
    """
    try:
        number = Decimal(_digits(value))
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite():
        raise ValueError(f"{value!r} is no decimal number")
    return number


def _range(bits: int) -> Converter:
    return partial(_whole, -(1 << bits - 1), (1 << bits - 1) - 1)


_SINGLE: Final[dict[BasicType, Converter]] = {
    BasicType.STRING: _text,
    BasicType.CHAR: _text,
    BasicType.BOOLEAN: truth,
    BasicType.BYTE: _range(8),
    BasicType.SHORT: _range(16),
    BasicType.INT: _range(32),
    BasicType.LONG: _range(64),
    BasicType.FLOAT: lambda value: float(_digits(value)),
    BasicType.DOUBLE: lambda value: float(_digits(value)),
    BasicType.BIG_INT: lambda value: int(_digits(value)),
    BasicType.BIG_DEC: decimal,
}
_OF_TEXT: Final[dict[TypeInformation, Converter]] = {
    Types.SQL_DATE(): lambda value: datetime.date.fromisoformat(str(value)),
    Types.SQL_TIME(): lambda value: of_rfc_time(str(value)),
    Types.SQL_TIMESTAMP(): lambda value: of_rfc_timestamp(str(value)),
    _BYTES: lambda value: base64.b64decode(str(value), validate=True),
}
_TO_TEXT: Final[dict[TypeInformation, Converter]] = {
    Types.SQL_DATE(): date_text,
    Types.SQL_TIME(): to_rfc_time,
    Types.SQL_TIMESTAMP(): to_rfc_timestamp,
    _BYTES: lambda value: base64.b64encode(octets_of(value)).decode(),
}


# ----------------------------------------------------------------------------------------------------------- from JSON


def of_json(type_info: TypeInformation, *, strict: bool, lenient: bool) -> Converter:
    """Return the converter from parsed JSON to values of a type.

    Args:
        type_info: The type.
        strict: Whether a missing field is an error.
        lenient: Whether a field that does not fit is None.

    Raises:
        ValueError: The type has no JSON.
    """
    if isinstance(type_info, RowTypeInfo):
        return _row_of_json(type_info, strict=strict, lenient=lenient)
    if isinstance(type_info, MapTypeInfo):
        convert = partial(_of_value, of_json(type_info.value_type, strict=strict, lenient=lenient), lenient)
        key_of = partial(_of_value, of_json(type_info.key_type, strict=strict, lenient=lenient), lenient)
        return lambda value: {key_of(key): convert(inner) for key, inner in _object(value).items()}
    if (elements := _elements(type_info)) is not None:
        convert = partial(_of_value, of_json(elements, strict=strict, lenient=lenient), lenient)
        return lambda value: [convert(inner) for inner in _array(value)]
    return _single(type_info, _OF_TEXT)


def _row_of_json(type_info: RowTypeInfo, *, strict: bool, lenient: bool) -> Converter:
    names = list(type_info.get_field_names())
    types = type_info.get_field_types()
    fields = [
        (name, partial(_of_value, of_json(one, strict=strict, lenient=lenient), lenient))
        for name, one in zip(names, types, strict=True)
    ]

    def convert(value: Any) -> Any:
        if isinstance(value, list):  # a tuple, in JSON schemas an array with a type for each place
            found: dict[str, Any] = dict(zip(names, cast("list[Any]", value), strict=False))
        else:
            found = _object(value)
        if strict and (missing := next((name for name in names if name not in found), None)) is not None:
            raise ValueError(f"it has no field {missing!r}")
        return make_row(names, [read(found.get(name)) for name, read in fields], RowKind.INSERT)

    return convert


def _of_value(convert: Converter, lenient: bool, value: Any) -> Any:
    if value is None:
        return None
    try:
        return convert(value)
    except UNFIT:
        if lenient:
            return None
        raise


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.80} is no object")  # noqa: TRY004 - of the message, as all that does not fit
    return cast("dict[str, Any]", value)


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.80} is no array")  # noqa: TRY004 - of the message, as all that does not fit
    return cast("list[Any]", value)


# ------------------------------------------------------------------------------------------------------------- to JSON


def to_json(type_info: TypeInformation) -> Converter:
    """Return the converter from values of a type to objects for `encoded`; None stays None.

    Raises:
        ValueError: The type has no JSON.
    """
    if isinstance(type_info, RowTypeInfo):
        return _row_to_json(type_info)
    if isinstance(type_info, MapTypeInfo):
        convert = to_json(type_info.value_type)
        return lambda value: None if value is None else {_text(key): convert(inner) for key, inner in value.items()}
    if (elements := _elements(type_info)) is not None:
        convert = to_json(elements)
        return lambda value: None if value is None else [convert(inner) for inner in elements_of(value)]
    if isinstance(type_info, PickledBytesTypeInfo):
        return _any
    write = _written(type_info, _single(type_info, _TO_TEXT))
    return lambda value: None if value is None else write(value)


def _row_to_json(type_info: RowTypeInfo) -> Converter:
    names = list(type_info.get_field_names())
    writers = [to_json(one) for one in type_info.get_field_types()]

    def convert(value: Any) -> Any:
        if value is None:
            return None
        values = values_of(value, names)
        return {name: write(one) for name, write, one in zip(names, writers, values, strict=True)}

    return convert


def _written(type_info: TypeInformation, convert: Converter) -> Converter:
    """Return the converter to what JSON can hold: it has no number that is not finite, so that is text, as in Flink."""
    if type_info in (Types.FLOAT(), Types.DOUBLE()):
        return lambda value: _finite(convert(value))
    if type_info == Types.BIG_DEC():
        return lambda value: _number(convert(value))
    return convert


def _finite(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _number(value: Decimal) -> int | Decimal:
    """Return a decimal without the zeros at its end, as Flink's library writes it."""
    plain = _EXACT.normalize(value)
    return int(plain) if plain == plain.to_integral_value() and plain.adjusted() < _MOST_DIGITS else plain


def _any(value: Any) -> Any:
    """Return a value without a type as JSON has it."""
    if isinstance(value, Row):
        value = value.as_dict() if field_names(value) is not None else list(value)
    if isinstance(value, dict):
        return {_text(key): _any(inner) for key, inner in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_any(inner) for inner in cast("Iterable[Any]", value)]
    return _finite(value) if isinstance(value, float) else value


def encoded(found: Any) -> bytes:
    """Return what the converters have made as JSON in UTF-8.

    Raises:
        ValueError: A text is no Unicode.
        TypeError: A value without a type has no JSON.
    """
    return _encoder().encode(found)


@cache
def _encoder() -> Any:
    import msgspec

    return msgspec.json.Encoder(decimal_format="number")


def _elements(type_info: TypeInformation) -> TypeInformation | None:
    """Return the type of the elements of an array; None for bytes, and for what is no array."""
    arrays = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo, PrimitiveArrayTypeInfo)
    return type_info.elem_type if isinstance(type_info, arrays) and type_info != _BYTES else None


def _single(type_info: TypeInformation, special: dict[TypeInformation, Converter]) -> Converter:
    if type_info in special:
        return special[type_info]
    if isinstance(type_info, BasicTypeInfo) and type_info.basic_type in _SINGLE:
        return _SINGLE[type_info.basic_type]
    if isinstance(type_info, PickledBytesTypeInfo):
        return lambda value: value
    raise ValueError(f"{type_info} has no form in JSON")

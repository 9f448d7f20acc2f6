"""Reads JSON as values of a type: fast where it has the form in which we write it, else by Flink's lenient rules.

The fast way is a decoder that msgspec makes for the type. What it refuses is read again by converters, one for each
type, which take the other forms that Flink takes (a number as text, a text as number, an array as row) and say which
field does not fit. Both ways give the same value wherever the first gives one.
"""

from __future__ import annotations

import base64
import json
import re
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, NoReturn, Optional, cast

import msgspec

from penstock.common._codecs.json_writing import encoded, mapped
from penstock.common._codecs.times import of_rfc_date, of_rfc_instant, of_rfc_time, of_rfc_timestamp
from penstock.common._conversion import checked
from penstock.common._conversion.checked import RANGES, TypeMismatchError
from penstock.common._conversion.row_values import row_maker
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
from penstock.common.types import Row, RowKind, make_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

    Converter = Callable[[Any], Any]

#: What readers raise about text that is no JSON, or does not fit.
UNREADABLE: Final = (TypeMismatchError, ValueError, ArithmeticError, RecursionError, msgspec.DecodeError)

_ARRAYS: Final = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo, PrimitiveArrayTypeInfo)
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE: Final = {"NaN", "Infinity", "-Infinity"}
_TRUTH: Final = {"true": True, "false": False}


class _Number(str):
    """A number with a fraction or an exponent, as it stands in JSON."""

    __slots__ = ()


# -------------------------------------------------------------------------------------------------------- the fast way


class _Shape(NamedTuple):
    """What msgspec is to make of JSON, and what becomes of that."""

    kind: Any
    fix: Converter | None = None


def quick_reader(type_info: TypeInformation, *, strict: bool) -> tuple[Converter, Converter]:
    """Return the two halves of a reader of JSON in the form in which we write a type.

    The first parses it, and the second makes a value of what it returns; they raise `UNREADABLE` for all other JSON.

    Args:
        type_info: The type.
        strict: Whether fields may not be missing.
    """
    try:
        kind, fix = _shape(type_info, strict)
    except ValueError:  # msgspec has no fields with quotes, backslashes or control characters in their names
        return _no_quick_way, _same
    decode = msgspec.json.Decoder(kind, float_hook=_Number if has_decimals(type_info) else None).decode
    return decode, fix or _same


def _no_quick_way(message: bytes) -> NoReturn:
    raise ValueError(message)


def _shape(type_info: TypeInformation, strict: bool) -> _Shape:
    if isinstance(type_info, RowTypeInfo):
        return _row_shape(type_info, strict)
    if isinstance(type_info, MapTypeInfo):
        kind, fix = _optional(type_info.value_type, strict)
        keys = None if type_info.key_type == Types.STRING() else _from_text(type_info.key_type)
        fix_map = None if fix is None and keys is None else partial(_map, keys or _same, fix or _same)
        return _Shape(dict[str, kind], fix_map)
    if (elements := elements_type(type_info)) is not None:
        of_primitives = isinstance(type_info, PrimitiveArrayTypeInfo)
        kind, fix = _shape(elements, strict) if of_primitives else _optional(elements, strict)
        return _Shape(list[kind], None if fix is None else partial(_fixed, fix))
    return _single_shape(type_info)


def _optional(type_info: TypeInformation, strict: bool) -> _Shape:
    """Return the shape of a value that may be null."""
    kind, fix = _shape(type_info, strict)
    return _Shape(Optional[kind], None if fix is None else partial(_of_some, fix))  # noqa: UP045 - a value, no annotation


def _row_shape(type_info: RowTypeInfo, strict: bool) -> _Shape:
    names = list(type_info.get_field_names())
    shapes = [_optional(one, strict) for one in type_info.get_field_types()]
    own = [f"f{at}" for at in range(len(names))]
    default = msgspec.NODEFAULT if strict else None
    fields = [(name, kind, default) for name, (kind, _) in zip(own, shapes, strict=True)]
    struct = msgspec.defstruct("Row", fields, rename=dict(zip(own, names, strict=True)), gc=False)
    fixes = [(at, fix) for at, (_, fix) in enumerate(shapes) if fix is not None]
    values_of = msgspec.structs.astuple

    def fixed(found: Any) -> list[Any]:
        values = list(values_of(found))
        for at, fix in fixes:
            values[at] = fix(values[at])
        return values

    return _Shape(struct, row_maker(names, fixed if fixes else values_of))


def _single_shape(type_info: TypeInformation) -> _Shape:
    if isinstance(type_info, PickledBytesTypeInfo):
        return _Shape(Any, plain)
    if type_info in _TEXTS:
        return _Shape(str, _TEXTS[type_info])
    kind = type_info.basic_type if isinstance(type_info, BasicTypeInfo) else None
    if kind in RANGES:
        low, high = RANGES[kind]
        return _Shape(Annotated[int, msgspec.Meta(ge=low, le=high)])
    if kind in _BASIC:
        return _BASIC[kind]
    raise ValueError(f"{type_info} has no form in JSON")


# -------------------------------------------------------------------------------------------------------- the slow way


def parsed(message: bytes) -> Any:
    """Return JSON as Python has it, with numbers that are not whole as their texts.

    Raises:
        ValueError: It is none, or has a number that Python does not hold.
    """
    message = message.removeprefix(b"\xef\xbb\xbf")
    try:
        return _PARSER.decode(message)
    except msgspec.DecodeError:
        if b"\\ud" not in message.lower():
            raise
        # msgspec has no surrogates that stand alone.
        return json.loads(str(message, "utf-8"), parse_float=_Number, parse_constant=_no_constant)


def exactly(message: bytes) -> Any:
    """Return JSON as Python has it, with numbers that a float does not hold as Decimals.

    Raises:
        ValueError: It is none, or an object in it has a name twice.
    """
    return json.loads(
        str(message, "utf-8"),
        parse_float=_exact_number,
        parse_int=_exact_integer,
        parse_constant=_no_constant,
        object_pairs_hook=_of_unique_names,
    )


def _exact_number(text: str) -> float | Decimal:
    number, exact = float(text), Decimal(text)
    return number if isfinite(number) and Decimal(repr(number)) == exact else exact


def _exact_integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= _LONGEST_INTEGER else Decimal(text)


def _of_unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        msg = "an object in it has a name twice"
        raise ValueError(msg)
    return found


def plain(value: Any) -> Any:
    """Return parsed JSON with its numbers as floats.

    Raises:
        ValueError: A number is beyond the floats.
    """
    return mapped(lambda one: _finite(one) if isinstance(one, _Number) else one, value)


def converter(type_info: TypeInformation, *, strict: bool, lenient: bool) -> Converter:
    """Return the converter from parsed JSON, but null, to values of a type.

    Args:
        type_info: The type.
        strict: Whether a missing field is an error.
        lenient: Whether a field that does not fit is None.

    Raises:
        ValueError: The type has no JSON.
    """
    if isinstance(type_info, RowTypeInfo):
        names = list(type_info.get_field_names())
        fields = [_JsonPart(one, strict, lenient) for one in type_info.get_field_types()]
        is_named = any(type_info.get_field_index(name) >= 0 for name in names)
        return partial(_row, names, fields, strict, is_named)
    if isinstance(type_info, MapTypeInfo):
        part = _JsonPart(type_info.value_type, strict, lenient)
        return partial(_map_of_parsed, _from_text(type_info.key_type), part, lenient)
    if (elements := elements_type(type_info)) is not None:
        part = _JsonPart(elements, strict, lenient, may_be_null=not isinstance(type_info, PrimitiveArrayTypeInfo))
        return lambda value: [part(f"[{at}]", one) for at, one in enumerate(_array(value))]
    return plain if isinstance(type_info, PickledBytesTypeInfo) else _loose(type_info)


class _JsonPart:
    """Reads a part of a value, and says where it is if it does not fit."""

    def __init__(self, type_info: TypeInformation, strict: bool, lenient: bool, *, may_be_null: bool = True) -> None:
        self._convert = converter(type_info, strict=strict, lenient=lenient)
        self._lenient, self._may_be_null = lenient, may_be_null

    def __call__(self, step: str, value: Any) -> Any:
        try:
            if value is not None:
                return self._convert(value)
            if not self._may_be_null:
                checked.refuse(None, "has no place in an array of primitive values")
        except TypeMismatchError as error:
            reason = error.within(step)
        except UNREADABLE as error:
            reason = TypeMismatchError(f"{_shown(value)}: {error}", step)
        else:
            return None
        if self._lenient:
            return None
        raise reason


def _row(names: list[str], fields: list[_JsonPart], strict: bool, is_named: bool, value: Any) -> Row:
    if isinstance(value, list) and not is_named:  # in JSON schemas an array with a type for each place
        given: dict[str, Any] = dict(zip(names, cast("list[Any]", value), strict=False))
        if len(cast("list[Any]", value)) > len(names):
            checked.refuse(value, f"has more than {len(names)} fields")
    else:
        given = _object(value)
    if strict and (missing := next((name for name in names if name not in given), None)) is not None:
        raise TypeMismatchError(f"it has no field {missing!r}")
    values = [read(f".{name}", given.get(name)) for name, read in zip(names, fields, strict=True)]
    return make_row(names, values, RowKind.INSERT)


def _map_of_parsed(key_of: Converter, part: _JsonPart, lenient: bool, value: Any) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for text, inner in _object(value).items():
        step = f"[{text!r}]"
        try:
            key = key_of(text)
        except UNREADABLE as error:
            if lenient:
                continue
            raise TypeMismatchError(f"{error}", step) from None
        if key in found and not lenient:
            raise TypeMismatchError(f"the key {key!r:.80} is there twice", step)
        found[key] = part(step, inner)
    return found


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        checked.refuse(value, "is no object")
    return cast("dict[str, Any]", value)


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        checked.refuse(value, "is no array")
    return cast("list[Any]", value)


# ------------------------------------------------------------------------------------------------------- single values


def _loose(type_info: TypeInformation) -> Converter:
    """Return the converter of a single value that may be of another kind, as Flink takes it."""
    if type_info in _TEXTS:
        read = _TEXTS[type_info]
        return lambda value: read(_scalar_text(value))
    kind = type_info.basic_type if isinstance(type_info, BasicTypeInfo) else None
    if kind in RANGES:
        return partial(_whole, checked.whole(*RANGES[kind]))
    if kind in _LOOSE:
        return _LOOSE[kind]
    raise ValueError(f"{type_info} has no form in JSON")


def _from_text(type_info: TypeInformation) -> Converter:
    """Return the converter of a key of an object."""
    if isinstance(type_info, PickledBytesTypeInfo):
        return _same
    return _loose(type_info)


def _text(value: Any) -> str:
    """Return a text; of anything else its JSON."""
    if isinstance(value, (dict, list)):
        return encoded(mapped(_number_as_decimal, value)).decode()
    return _scalar_text(value)


def _scalar_text(value: Any) -> str:
    if value is None or isinstance(value, (dict, list)):
        checked.refuse(cast("Any", value), "is no single value")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number_as_decimal(value: Any) -> Any:
    return Decimal(value) if isinstance(value, _Number) else value


def truth(value: Any) -> bool:
    """Return a truth value, which may be a text."""
    if isinstance(value, bool):
        return value
    found = _TRUTH.get(str(value).strip().lower())
    if found is None:
        checked.refuse(value, "is neither true nor false")
    return found


def _whole(check: Converter, value: Any) -> int:
    """Return a whole number, also of its text; 1.0 is one, and 1.5 is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return check(value)
    number = decimal_of(value)
    if number.adjusted() > _MOST_DIGITS or number != number.to_integral_value():
        checked.refuse(value, "is no whole number")
    return check(int(number))


def decimal_of(value: Any) -> Decimal:
    """Return a decimal of a number or its text.

    Raises:
        TypeMismatchError: It is none.
    """
    if isinstance(value, _Number):
        return Decimal(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    text = value.strip() if isinstance(value, str) else ""
    if not _NUMBER.fullmatch(text):
        checked.refuse(value, "is no number")
    return Decimal(text)


def _double(value: Any) -> float:
    if isinstance(value, str) and value.strip() in _NOT_FINITE:
        return float(value)
    decimal_of(value)
    return _finite(value)


def _finite(value: Any) -> float:
    """Return a number as the nearest float."""
    number = float(value)
    if not isfinite(number):
        checked.refuse(str(value), "is beyond the floats of 64 bits")
    return number


def _character(value: Any) -> str:
    return checked.character(_text(value))


def _octets(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _same(value: Any) -> Any:
    return value


def _of_some(convert: Converter, value: Any) -> Any:
    return None if value is None else convert(value)


def _fixed(fix: Converter, found: list[Any]) -> list[Any]:
    return list(map(fix, found))


def _map(key_of: Converter, fix: Converter, found: dict[str, Any]) -> dict[Any, Any]:
    made = {key_of(key): fix(value) for key, value in found.items()}
    if len(made) < len(found):  # the slow way names the key
        raise ValueError(found)
    return made


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _shown(value: Any) -> str:
    return f"{value!r:.80}"


#: A number with an exponent is no integer if it has more digits.
_MOST_DIGITS: Final = 1000
#: Python reads no longer ones.
_LONGEST_INTEGER: Final = 4000
_PARSER: Final = msgspec.json.Decoder[Any](float_hook=_Number)
#: Types whose values are texts of one form.
_TEXTS: Final[dict[TypeInformation, Converter]] = {
    Types.SQL_DATE(): of_rfc_date,
    Types.SQL_TIME(): of_rfc_time,
    Types.SQL_TIMESTAMP(): of_rfc_timestamp,
    Types.INSTANT(): of_rfc_instant,
    Types.PRIMITIVE_ARRAY(Types.BYTE()): _octets,
}
_BASIC: Final = {
    BasicType.STRING: _Shape(str),
    BasicType.CHAR: _Shape(Annotated[str, msgspec.Meta(min_length=1, max_length=1)]),
    BasicType.BOOLEAN: _Shape(bool),
    BasicType.BIG_INT: _Shape(int),
    BasicType.BIG_DEC: _Shape(Any, decimal_of),
    BasicType.DOUBLE: _Shape(float),
    BasicType.FLOAT: _Shape(float, checked.single),
}
_LOOSE: Final[dict[BasicType, Converter]] = {
    BasicType.STRING: _text,
    BasicType.CHAR: _character,
    BasicType.BOOLEAN: truth,
    BasicType.BIG_INT: partial(_whole, checked.whole(None, None)),
    BasicType.BIG_DEC: decimal_of,
    BasicType.DOUBLE: _double,
    BasicType.FLOAT: lambda value: checked.single(_double(value)),
}


def elements_type(type_info: TypeInformation) -> TypeInformation | None:
    """Return the type of the elements of an array; None for bytes, and for what is no array."""
    if isinstance(type_info, _ARRAYS) and type_info != Types.PRIMITIVE_ARRAY(Types.BYTE()):
        return type_info.elem_type
    return None


def has_decimals(type_info: TypeInformation) -> bool:
    """Tell whether a type has decimals in it."""
    if isinstance(type_info, RowTypeInfo):
        return any(map(has_decimals, type_info.get_field_types()))
    if isinstance(type_info, MapTypeInfo):
        return has_decimals(type_info.value_type)
    elements = elements_type(type_info)
    return has_decimals(elements) if elements is not None else type_info == Types.BIG_DEC()

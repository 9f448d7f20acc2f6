"""Canonical keys: one byte encoding per key, and one normal form for dicts.

Routing, hot dicts and the state store all use these functions, so equal keys are one key whatever their types. The
encodings are stored in checkpoints: the encoding of a value may never change.

An encoding is a tag and a payload. Parts of a composite key follow one another, each after its length,
so two encodings are equal only for equal keys. Their order is not that of the keys.
"""

from __future__ import annotations

import dataclasses
import struct
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from itertools import chain
from numbers import Complex, Rational, Real
from operator import itemgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from penstock._engine.protocol.key_frames import NAMED, framed
from penstock.common.types import Row, field_names
from penstock.common.user_values import short_repr
from penstock.errors import KeyEncodingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The form of a key in dicts: str and int as they are, any other key as its encoding.
NormalKey: TypeAlias = "str | int | bytes"

_pack_int64: Final = Struct(">q").pack
_unpack_int64: Final = Struct(">q").unpack_from
#: Numbers with a larger exponent (decimal128 ends at 6,144) would take megabytes as a key.
_MAX_EXPONENT: Final = 10_000
_MICROSECOND: Final = timedelta(microseconds=1)
#: The tag of a time of day with the name of its zone.
ZONED: Final = b"g"


def encode_key(key: object) -> bytes:
    """Return the canonical encoding of a key: equal keys have equal bytes, in every process and Python version.

    Raises:
        KeyEncodingError: The key, or a part of it, has no canonical encoding.

    Example:
        >>> encode_key(1) == encode_key(True) == encode_key(1.0)
        True
        >>> encode_key(["a"])
        Traceback (most recent call last):
            ...
        penstock.errors.KeyEncodingError: ...
    """
    try:
        return _encode(key)
    except _NoEncodingError:
        path, part = _culprit(key, "key")
        raise KeyEncodingError(short_repr(key), path, _type_name(part)) from None


def normal_key(key: object) -> NormalKey:
    r"""Return the normal key of a key, which is equal for equal keys, as their representative in dicts.

    Raises:
        KeyEncodingError: The key, or a part of it, has no canonical encoding.

    Example:
        >>> normal_key("a"), normal_key(7), normal_key(7.0), normal_key((1, "a"))
        ('a', 7, 7, b't\ti\x00\x00\x00\x00\x00\x00\x00\x01\x02sa')
    """
    kind = type(key)
    if kind is str or kind is int:
        return key  # pyright: ignore[reportReturnType]
    return decode_normal(encode_key(key))


def encode_normal(normal: NormalKey) -> bytes:
    """Return the encoding of the key of a normal key."""
    kind: type[object] = type(normal)
    if kind is str:
        return _encode_str(normal)  # pyright: ignore[reportArgumentType]
    if kind is int:
        return _encode_int(normal)  # pyright: ignore[reportArgumentType]
    return normal  # pyright: ignore[reportReturnType]


def decode_normal(encoded: bytes) -> NormalKey:
    """Return the normal key of an encoding."""
    tag = encoded[0]
    if tag == 105:  # "i"
        return _unpack_int64(encoded, 1)[0]
    if tag == 115:  # "s"
        return encoded[1:].decode("utf-8", "surrogatepass")
    if tag == 73:  # "I"
        return int.from_bytes(encoded[1:], "big", signed=True)
    return encoded


def equal_as_encoded(keys: list[Any]) -> bool:
    """Return whether keys that are equal in Python also have equal encodings.

    Example:
        >>> equal_as_encoded([1, "a"]), equal_as_encoded([("a", 1.5)]), equal_as_encoded([(("a",), 1)])
        (True, True, False)
    """
    kinds = list(map(type, keys))
    if kinds and kinds.count(kinds[0]) == len(kinds):  # keys usually have one type: this is faster than building a set
        kinds = list(set(map(type, chain.from_iterable(keys)))) if kinds[0] is tuple else kinds[:1]
    return all(map(_is_equal_as_encoded, set(kinds)))


def _is_equal_as_encoded(kind: type[Any]) -> bool:
    if kind in _EQUAL_AS_ENCODED:
        return True
    is_plain = issubclass(kind, Enum) and kind.__eq__ is object.__eq__  # each member is equal only to itself
    if is_plain:
        _EQUAL_AS_ENCODED.add(kind)
    return is_plain


# ----------------------------------------------------------------------------------------------------------- encodings


def _encode(key: object) -> bytes:
    encoder = _ENCODERS.get(type(key))
    return _encode_other(key) if encoder is None else encoder(key)


def _encode_str(key: str) -> bytes:
    try:
        return b"s" + key.encode()
    except UnicodeEncodeError:  # a lone surrogate; naming the error handler at once would make all strings slower
        return b"s" + key.encode("utf-8", "surrogatepass")


def _encode_int(key: int) -> bytes:
    try:
        return b"i" + _pack_int64(key)
    except struct.error:
        return b"I" + key.to_bytes(key.bit_length() // 8 + 1, "big", signed=True)


def _encode_float(key: float) -> bytes:
    if key.is_integer():
        return _encode_int(int(key))
    return b"f" + _pack_double(key) if key == key else _NAN  # noqa: PLR0124 - only nan differs from itself


def _encode_ratio(numerator: int, denominator: int) -> bytes:
    """Encode a fraction in lowest terms: as int or float where one of them is equal to it."""
    if denominator == 1:
        return _encode_int(numerator)
    try:
        nearest = numerator / denominator
    except OverflowError:
        pass
    else:
        if nearest.as_integer_ratio() == (numerator, denominator):
            return _encode_float(nearest)
    return b"q" + framed((_encode_int(numerator), _encode_int(denominator)))


def _encode_decimal(key: Decimal) -> bytes:
    if key.is_nan() or key.is_infinite():
        return _NAN if key.is_nan() else _encode_float(float(key))
    exponent = key.as_tuple().exponent
    if key and abs(int(exponent)) > _MAX_EXPONENT:
        raise _NoEncodingError
    return _encode_ratio(*key.as_integer_ratio())


def _encode_rational(key: Rational) -> bytes:
    return _encode_ratio(int(key.numerator), int(key.denominator))


def _encode_real(key: Real) -> bytes:
    if float(key) != key and key == key:  # noqa: PLR0124 - a wider float than Python's own
        raise _NoEncodingError
    return _encode_float(float(key))


def _encode_complex(key: Complex) -> bytes:
    number = complex(key)
    if not number.imag:
        return _encode_float(number.real)
    return b"c" + framed((_encode_float(number.real), _encode_float(number.imag)))


def _encode_bytes(key: bytes) -> bytes:
    return b"b" + key


def _encode_none(_: None) -> bytes:
    return b"n"


def _encode_tuple(key: Iterable[object]) -> bytes:
    # One call less for each part than _encode makes: composite keys are common.
    find = _ENCODERS.get
    return b"t" + framed([encoder(part) if (encoder := find(type(part))) else _encode_other(part) for part in key])


def _encode_row(key: Row) -> bytes:
    names = field_names(key)
    if names is None:
        return _encode_tuple(key)
    # As Row compares: rows with names are equal in any order of the names.
    try:
        fields = sorted(zip(names, key, strict=False), key=itemgetter(0))
    except TypeError:  # names of several types
        raise _NoEncodingError from None
    values, sorted_names = [value for _, value in fields], [name for name, _ in fields]
    return NAMED + framed((_encode_tuple(values), _encode_tuple(sorted_names)))


def _encode_frozenset(key: frozenset[Any]) -> bytes:
    return b"z" + framed(sorted(map(_encode, key)))


def _encode_datetime(key: datetime) -> bytes:
    if type(key) is not datetime:
        key = _plain_datetime(key)
    # Python compares and hashes aware values with fold 0, so the offset is that of fold 0 too.
    offset = key.replace(fold=0).utcoffset()
    moment = (key.replace(tzinfo=None) - _FIRST_MOMENT) // _MICROSECOND
    if offset is None:
        return b"m" + _pack_int64(moment)
    if type(key.tzinfo) is ZoneInfo and key.tzinfo.key and key.replace(fold=1).utcoffset() != offset:
        # In an hour that a clock skips or repeats, Python finds it equal to the same time of day in its zone alone.
        return ZONED + framed((_pack_int64(moment), key.tzinfo.key.encode()))
    return b"a" + _pack_int64(moment - offset // _MICROSECOND)


def _plain_datetime(key: datetime) -> datetime:
    """Return a subclass's value as a datetime; pandas' own NaT and nanoseconds have no place in one."""
    if key != key or getattr(key, "nanosecond", 0):  # noqa: PLR0124
        raise _NoEncodingError
    return datetime(
        key.year, key.month, key.day, key.hour, key.minute, key.second, key.microsecond, key.tzinfo, fold=key.fold
    )


def _encode_date(key: date) -> bytes:
    return b"D" + _pack_int64(key.toordinal())


def _encode_time(key: time) -> bytes:
    offset = key.utcoffset()
    moment = ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond
    if offset is None:
        return b"h" + _pack_int64(moment)
    return b"H" + _pack_int64(moment - offset // _MICROSECOND)


def _encode_timedelta(key: timedelta) -> bytes:
    if getattr(key, "nanoseconds", 0):  # pandas
        raise _NoEncodingError
    return b"l" + _encode_int((key.days * 86_400 + key.seconds) * 1_000_000 + key.microseconds)


def _encode_uuid(key: UUID) -> bytes:
    return b"u" + key.bytes


# ----------------------------------------------------------------------------------- types that are found by inspection


def _encode_other(key: object) -> bytes:
    """Encode a key of a new type, and remember the encoder of the type."""
    kind = type(key)
    encoder = _find_encoder(kind)
    if encoder is None:
        raise _NoEncodingError
    _ENCODERS[kind] = encoder
    return encoder(key)


def _find_encoder(kind: type[Any]) -> Callable[[Any], bytes] | None:
    for base, encoder in _BY_BASE:
        if issubclass(kind, base):
            return encoder
    if issubclass(kind, Enum):
        return _enum_encoder(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass_encoder(kind)
    if kind.__module__ == "numpy" and kind.__name__ in {"bool", "bool_"}:
        return lambda key: _encode_int(int(key))
    return None


def _enum_encoder(kind: type[Enum]) -> Callable[[Any], bytes]:
    head = b"e" + framed((_class_name(kind),))
    if issubclass(kind, Flag):  # combinations of members have no name of their own
        return lambda member: head + _encode(member.value)
    return lambda member: head + _encode_str(member.name)


def _dataclass_encoder(kind: type[Any]) -> Callable[[Any], bytes]:
    head = b"d" + framed((_class_name(kind),))
    names = [field.name for field in dataclasses.fields(kind) if field.compare]
    return lambda key: head + framed([_encode(getattr(key, name)) for name in names])


def _class_name(kind: type[Any]) -> bytes:
    return f"{kind.__module__}.{kind.__qualname__}".encode()


# --------------------------------------------------------------------------------------------------------------- errors


class _NoEncodingError(Exception):
    """A part of the current key has no encoding; `_culprit` finds it."""


def _culprit(key: Any, path: str) -> tuple[str, Any]:
    """Return the innermost part of a key that has no encoding, and its path."""
    for step, part in _parts(key):
        try:
            _encode(part)
        except _NoEncodingError:
            return _culprit(part, path + step)
    return path, key


def _parts(key: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(key, (tuple, Row)):
        return [(f"[{position}]", part) for position, part in enumerate(cast("Iterable[Any]", key))]
    if isinstance(key, frozenset):
        return [("{...}", part) for part in cast("frozenset[Any]", key)]
    if dataclasses.is_dataclass(key):
        return [(f".{field.name}", getattr(key, field.name)) for field in dataclasses.fields(key) if field.compare]
    return ()


def _type_name(value: object) -> str:
    kind: type[object] = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


# --------------------------------------------------------------------------------------------------------------- tables

_pack_double: Final = Struct(">d").pack
_NAN: Final = b"f" + _pack_double(float("nan"))
_FIRST_MOMENT: Final = datetime(1, 1, 1)  # noqa: DTZ001 - naive on purpose

#: A subclass of tuple may override iteration, but is compared by its contents.
_tuple_parts: Final = cast("Callable[[Any], Iterable[object]]", tuple.__iter__)  # pyright: ignore[reportUnknownMemberType]
#: Immutable types whose values are one key where Python finds them equal; enums are added.
_EQUAL_AS_ENCODED: Final[set[type[Any]]] = {
    *(str, int, bool, float, complex, bytes, type(None)),
    *(Decimal, Fraction, date, datetime, time, timedelta, UUID),
}

#: The encoders by exact type; types found by inspection are added.
_ENCODERS: Final[dict[type[Any], Callable[[Any], bytes]]] = {
    str: _encode_str,
    int: _encode_int,
    bool: _encode_int,
    float: _encode_float,
    bytes: _encode_bytes,
    type(None): _encode_none,
    tuple: _encode_tuple,
    Row: _encode_row,
}

#: For subclasses; the first base that fits decides (a datetime is a date, an IntEnum an int, numpy's ints rational).
_BY_BASE: Final[tuple[tuple[type[Any], Callable[[Any], bytes]], ...]] = (
    (str, lambda key: _encode_str(str.__str__(key))),
    (bytes, lambda key: _encode_bytes(b"".join((key,)))),
    (int, lambda key: _encode_int(int.__int__(key))),
    (float, lambda key: _encode_float(float.__float__(key))),
    (tuple, lambda key: _encode_tuple(_tuple_parts(key))),
    (Row, _encode_row),
    (Decimal, _encode_decimal),
    (Rational, _encode_rational),
    (Real, _encode_real),
    (Complex, _encode_complex),
    (frozenset, _encode_frozenset),
    (datetime, _encode_datetime),
    (date, _encode_date),
    (time, _encode_time),
    (timedelta, _encode_timedelta),
    (UUID, _encode_uuid),
)

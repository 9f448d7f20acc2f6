"""What becomes of values: for each type of PostgreSQL one function that parses its text, and one that writes it.

Tables, their changes and sinks use the same functions. A value that the other side cannot hold unchanged is refused;
the few conversions are in the table of docs/postgres.md.
"""

from __future__ import annotations

import datetime
import ipaddress
import math
import re
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._connectors.postgres.json_values import parse_json, write_json
from penstock._connectors.postgres.unfit import UnfitError, python_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NONE: Final = type(None)
_TEXT: Final = frozenset({str, _NONE})
_UTC: Final = datetime.UTC
_INTERVAL: Final = re.compile(
    r"(?:(-?\d+) years? ?)?(?:([-+]?\d+) mons? ?)?(?:([-+]?\d+) days? ?)?"
    r"(?:([-+]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)
_HEX: Final = re.compile(r"\\x(?:[0-9a-fA-F]{2})*")
#: What a real holds of any number, and the whole numbers up to which it holds all.
_DIGITS_OF_REAL, _WHOLE_IN_REAL = 6, 2**24
_BOOLEANS: Final = {"t": True, "true": True, "f": False, "false": False}


@dataclass(frozen=True, slots=True)
class Codec:
    """How values of a column are read and written.

    Attributes:
        name: The type in SQL.
        parse: Returns the value of a text of the server; raises ValueError.
        write: Returns what the client library writes as the same value; raises UnfitError.
        exact: The types of values that ``write`` would return as they are.
        is_native: Whether the client library reads the same value, faster.
        oid: The number of the type by which it does.
    """

    name: str
    parse: Callable[[str], Any]
    write: Callable[[Any], Any]
    exact: frozenset[type] = frozenset({_NONE})
    is_native: bool = True
    oid: int = 0

    def column(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the values of a column as the client library writes them; raises as ``write`` does."""
        if self.exact.issuperset(map(type, values)):
            return values
        write = self.write
        return [None if value is None else write(value) for value in values]


def as_text(name: str) -> Codec:
    """Return the codec of a column whose values are the texts of the server, whatever its type."""
    return Codec(name, str, _text_writer(), _TEXT, is_native=False)


def codec_of(name: str, base: str, modifier: int) -> Codec | None:
    """Return the codec of a base type; None if the type is not known.

    Args:
        name: The type in SQL, for errors.
        base: Its name in the catalog.
        modifier: What the catalog has for lengths and precisions; -1 without one.
    """
    make = _KNOWN.get(base)
    return None if make is None else make(name, modifier)


def enum_codec(name: str) -> Codec:
    """Return the codec of an enumerated type, whose values are its labels."""
    return Codec(name, str, _text_writer(), _TEXT)


def array_codec(name: str, element: Codec, texts: Callable[[bytes], Any]) -> Codec:
    """Return the codec of an array, whose values are lists.

    Args:
        name: The type in SQL.
        element: The codec of its elements.
        texts: Reads an array of texts.
    """
    parse_one = element.parse

    def inside(values: Any) -> Any:
        return [
            inside(one) if type(one) is list else None if one is None else parse_one(one)  # pyright: ignore[reportUnknownArgumentType]
            for one in values
        ]

    def parse(text: str) -> Any:
        if text.startswith("["):
            raise UnfitError("its places do not begin at 1, as those of a list do")
        return inside(texts(text.encode()))

    def write(value: Any) -> Any:
        value = python_scalar(value)
        if not isinstance(value, list | tuple):
            raise UnfitError(f"it is of type {type(value).__name__}, and no list")
        items = cast("Sequence[Any]", value)
        lists = [isinstance(one, list | tuple) for one in items]
        if not any(lists):
            return list(element.column(items))
        if not all(lists) or len({len(one) for one in items}) > 1 or not all(items):
            raise UnfitError("its lists are not all of one length, or are empty")
        return [write(one) for one in items]

    return Codec(name, parse, write, is_native=False)


def range_codec(name: str, bound: Codec, texts: Callable[[bytes], Any]) -> Codec:
    """Return the codec of a range, whose values are psycopg's ``Range``; the arguments are those of ``array_codec``."""
    from psycopg.types.range import Range

    def write(value: Any) -> Any:
        if not isinstance(value, Range):
            raise UnfitError(f"it is of type {type(value).__name__}, and no psycopg.types.range.Range")
        return _with_ends(value, bound.write)

    return Codec(name, lambda text: _with_ends(texts(text.encode()), bound.parse), write, is_native=False)


def _with_ends(value: Any, function: Callable[[Any], Any]) -> Any:
    from psycopg.types.range import Range

    lower, upper = (None if one is None else function(one) for one in (value.lower, value.upper))
    return value if value.isempty else cast("Any", Range)(lower, upper, value.bounds)


def multirange_codec(name: str, bound: Codec, texts: Callable[[bytes], Any]) -> Codec:
    """Return the codec of several ranges, psycopg's ``Multirange``.

    Args:
        name: The type in SQL.
        bound: The codec of the ends of a range.
        texts: Reads ranges of texts.
    """
    from psycopg.types.multirange import Multirange

    def parse(text: str) -> Any:
        return Multirange([_with_ends(one, bound.parse) for one in texts(text.encode())])

    def write(value: Any) -> Any:
        if not isinstance(value, Multirange):
            raise UnfitError(f"it is of type {type(value).__name__}, and no psycopg.types.multirange.Multirange")
        return Multirange([_with_ends(one, bound.write) for one in cast("Multirange[Any]", value)])

    return Codec(name, parse, write, is_native=False)


# ------------------------------------------------------------------------------------------------- numbers and truth


def _refuse(value: Any, wanted: str) -> UnfitError:
    return UnfitError(f"it is of type {type(value).__name__}, and not {wanted}")


def _whole(value: Any) -> int:
    value = python_scalar(value)
    if isinstance(value, str):
        return _parsed(int, value, "a whole number")
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refuse(value, "a whole number")
    return int.__int__(value)  # a class of its own may mean another number by its __int__


def _double(value: Any) -> float:
    value = python_scalar(value)
    if isinstance(value, str):
        return _parsed(float, value, "a number")
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _refuse(value, "a number")
    if isinstance(value, float):
        return float.__float__(value)
    try:
        found = float(value)
    except (OverflowError, ValueError):
        raise UnfitError("it is beyond the numbers of double precision") from None
    same = Decimal(repr(found)) == value if isinstance(value, Decimal) else found == value
    if not same and not math.isnan(found):
        raise UnfitError("it has more digits than double precision holds")
    return found


def _single(value: Any) -> float:
    found = _double(value)
    digits = len(value.normalize().as_tuple().digits) if isinstance(value, Decimal) else 0
    if digits > _DIGITS_OF_REAL or (isinstance(value, int) and abs(value) > _WHOLE_IN_REAL):
        raise UnfitError("it has more digits than a real holds")
    return found


def _numeric(name: str, modifier: int) -> Codec:
    def write(value: Any) -> Any:
        value = python_scalar(value)
        if isinstance(value, str):
            value = _parsed(Decimal, value, "a number")
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise _refuse(value, "a number")
        found = Decimal(float.__repr__(value)) if isinstance(value, float) else Decimal(value)
        _, digits, exponent = found.as_tuple()
        if modifier >= 0 and isinstance(exponent, int) and exponent < -scale and any(digits[exponent + scale :]):
            raise UnfitError(f"it has more than {scale} digits behind the point")
        return found

    scale = ((modifier - 4 & 0x7FF) ^ 1024) - 1024
    exact = (
        frozenset({Decimal, int, float, _NONE}) if modifier < 0 else frozenset({int, _NONE} if scale >= 0 else {_NONE})
    )
    return Codec(name, Decimal, write, exact)


def _boolean(value: Any) -> bool:
    value = python_scalar(value)
    found = _BOOLEANS.get(value) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise _refuse(value, "True or False")
    return found


def _parsed(parse: Callable[[str], Any], text: str, wanted: str) -> Any:
    try:
        return parse(text)
    except (ValueError, ArithmeticError) as error:
        raise UnfitError(
            str(error) if isinstance(error, UnfitError) else f"the text {text!r:.100} is not {wanted}"
        ) from None


# ------------------------------------------------------------------------------------------------------ texts, bytes


def _text_writer(longest: int | None = None, unit: str = "characters") -> Callable[[Any], str]:
    def write(value: Any) -> str:
        value = python_scalar(value)
        if not isinstance(value, str):
            raise _refuse(value, "a text")
        if (
            longest is not None
            and (len(value) if unit == "characters" else len(value.encode(errors="replace"))) > longest
        ):
            raise UnfitError(f"it has more than {longest} {unit}")
        return str.__str__(value)

    return write


def _limited(name: str, modifier: int) -> Codec:
    longest = modifier - 4 if modifier >= 4 else None
    return Codec(name, str, _text_writer(longest), _TEXT if longest is None else frozenset({_NONE}))


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        if not _HEX.fullmatch(value):
            raise UnfitError(r"it is a text, and does not begin with \x, as the server writes bytes")
        return bytes.fromhex(value[2:])
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _refuse(value, "bytes")
    return bytes(cast("Any", value))


def _uuid(value: Any) -> uuid.UUID:
    found = _parsed(uuid.UUID, value, "a UUID") if isinstance(value, str) else value
    if not isinstance(found, uuid.UUID):
        raise _refuse(value, "a UUID")
    return found


def _network(parse: Callable[[str], Any], wanted: str) -> Callable[[Any], Any]:
    kinds = (
        *(ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Interface, ipaddress.IPv6Interface),
        *(ipaddress.IPv4Network, ipaddress.IPv6Network),
    )

    def write(value: Any) -> Any:
        found = _parsed(parse, value, wanted) if isinstance(value, str) else value
        if not isinstance(found, kinds):
            raise _refuse(value, wanted)
        return found

    return write


# ------------------------------------------------------------------------------------------------------------- times


def _check_fraction(value: Any, modifier: int) -> None:
    if getattr(value, "nanosecond", 0):
        raise UnfitError("it has nanoseconds, and the server keeps microseconds")
    if 0 <= modifier < 6 and value.microsecond % 10 ** (6 - modifier):
        raise UnfitError(f"it has more than {modifier} digits behind the seconds")


def _date(value: Any) -> datetime.date:
    found = _parsed(datetime.date.fromisoformat, value, "a date") if isinstance(value, str) else value
    if isinstance(found, datetime.datetime) or not isinstance(found, datetime.date):
        raise _refuse(value, "a date")
    return found


def _time_codec(name: str, modifier: int, *, zoned: bool) -> Codec:
    def write(value: Any) -> datetime.time:
        found = _parsed(_time, value, "a time of day") if isinstance(value, str) else value
        if not isinstance(found, datetime.time):
            raise _refuse(value, "a time of day")
        _check_fraction(found, modifier)
        if found.tzinfo is not None and (not zoned or found.utcoffset() is None):
            reason = "it has a zone, and the column none" if not zoned else "the offset of its zone depends on the day"
            raise UnfitError(reason)
        return found

    return Codec(name, _time, write)


def _time(text: str) -> datetime.time:
    if text.startswith("24"):
        raise UnfitError("it is the end of a day, which no time of day in Python is")
    return datetime.time.fromisoformat(text)


def _moment_codec(name: str, modifier: int, *, zoned: bool) -> Codec:
    def write(value: Any) -> datetime.datetime:
        found = _parsed(datetime.datetime.fromisoformat, value, "a time") if isinstance(value, str) else value
        if not isinstance(found, datetime.datetime):
            raise _refuse(value, "a datetime")
        _check_fraction(found, modifier)
        if found.utcoffset() is None:
            return found.replace(tzinfo=None)
        try:
            utc = found.astimezone(_UTC)
        except OverflowError:
            raise UnfitError("it is before the year 1 or after 9999 in UTC") from None
        return utc if zoned else utc.replace(tzinfo=None)

    return Codec(name, datetime.datetime.fromisoformat, write)


def _interval_codec(name: str, modifier: int) -> Codec:
    fields, precision = modifier >> 16 & 0x7FFF, modifier & 0xFFFF

    def write(value: Any) -> datetime.timedelta:
        found = _interval(value) if isinstance(value, str) else value
        if not isinstance(found, datetime.timedelta):
            raise _refuse(value, "a timedelta")
        if getattr(found, "nanoseconds", 0):
            raise UnfitError("it has nanoseconds, and the server keeps microseconds")
        if modifier >= 0 and fields != 0x7FFF:
            raise UnfitError(f"a column of type {name} leaves parts of it out")
        if modifier >= 0 and precision < 6 and found.microseconds % 10 ** (6 - precision):
            raise UnfitError(f"it has more than {precision} digits behind the seconds")
        return found

    exact = frozenset({datetime.timedelta, _NONE}) if modifier < 0 else frozenset({_NONE})
    return Codec(name, _interval, write, exact, is_native=False)


def _interval(text: str) -> datetime.timedelta:
    """Return the value of an interval's text.

    Example:
        >>> _interval("2 days -00:00:01.5")
        datetime.timedelta(days=1, seconds=86398, microseconds=500000)
    """
    found = _INTERVAL.fullmatch(text)
    if not text or found is None:
        raise UnfitError("it has no end, or is no interval as the server writes it")
    years, months, days, sign, hours, minutes, seconds, fraction = found.groups()
    if years or months:
        raise UnfitError("it has years or months, whose length depends on the day")
    micros = int((fraction or "").ljust(6, "0"))
    rest = ((int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)) * 1_000_000 + micros
    try:
        return datetime.timedelta(int(days or 0)) + datetime.timedelta(microseconds=-rest if sign == "-" else rest)
    except OverflowError:
        raise UnfitError("it is longer than a timedelta can be") from None


def _json_codec(name: str, modifier: int) -> Codec:
    del modifier
    return Codec(name, parse_json, write_json, is_native=False)


def _address(text: str) -> Any:
    return ipaddress.ip_interface(text) if "/" in text else ipaddress.ip_address(text)


def _plain_codec(parse: Callable[[str], Any], write: Callable[[Any], Any], *exact: type) -> Callable[[str, int], Codec]:
    return lambda name, modifier: Codec(name, parse, write, frozenset({*exact, _NONE}))


#: Types whose values are texts, as the server writes them.
_TEXTS: Final = (
    *("text", "citext", "bit", "varbit", "macaddr", "macaddr8", "xml", "jsonpath", "pg_lsn", "tsvector", "tsquery"),
    *("point", "line", "lseg", "path", "polygon", "circle", "box"),
)
#: By the name of a type in the catalog: what makes the codec, of the name in SQL and the modifier.
_KNOWN: Final[dict[str, Callable[[str, int], Codec]]] = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), _plain_codec(int, _whole, int)),
    "float8": _plain_codec(float, _double, float),
    "float4": _plain_codec(float, _single, float),
    "numeric": _numeric,
    "bool": _plain_codec(_BOOLEANS.__getitem__, _boolean, bool),
    "bytea": _plain_codec(_bytes, _bytes, bytes),
    "uuid": _plain_codec(uuid.UUID, _uuid, uuid.UUID),
    "date": _plain_codec(datetime.date.fromisoformat, _date, datetime.date),
    "time": lambda name, modifier: _time_codec(name, modifier, zoned=False),
    "timetz": lambda name, modifier: _time_codec(name, modifier, zoned=True),
    "timestamp": lambda name, modifier: _moment_codec(name, modifier, zoned=False),
    "timestamptz": lambda name, modifier: _moment_codec(name, modifier, zoned=True),
    "interval": _interval_codec,
    **dict.fromkeys(("json", "jsonb"), _json_codec),
    "inet": _plain_codec(_address, _network(_address, "an address")),
    "cidr": _plain_codec(ipaddress.ip_network, _network(ipaddress.ip_network, "a network")),
    **dict.fromkeys(("varchar", "bpchar"), _limited),
    "name": _plain_codec(str, _text_writer(63, "bytes")),
    "char": _plain_codec(str, _text_writer(1, "bytes")),
    **dict.fromkeys(_TEXTS, _plain_codec(str, _text_writer(), str)),
}

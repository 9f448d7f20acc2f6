"""Checks that a single value is one of its declared type, for streams with types and for formats alike.

A value that has another kind, is out of range or would lose digits is refused: nothing is cut or rounded. Scalars of
NumPy count as the numbers that they are. Two values change, as in Flink: a float of a type of 32 bits is rounded to
them, and a timestamp with a zone becomes the same one in UTC.
"""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from penstock.common.time import Instant
from penstock.common.typeinfo import BasicType, BasicTypeInfo, LocalTimeTypeInfo, Types
from penstock.common.user_values import short_repr

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

    Check = Callable[[Any], Any]

#: The least and the greatest value of the types that have some.
RANGES: Final = {
    BasicType.BYTE: (-(1 << 7), (1 << 7) - 1),
    BasicType.SHORT: (-(1 << 15), (1 << 15) - 1),
    BasicType.INT: (-(1 << 31), (1 << 31) - 1),
    BasicType.LONG: (-(1 << 63), (1 << 63) - 1),
}

_SHOWN: Final = 80


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


def refuse(value: Any, reason: str) -> NoReturn:
    """Refuse a value.

    Args:
        value: The value.
        reason: What is wrong with it, which follows its repr.

    Raises:
        TypeMismatchError: Always.
    """
    raise TypeMismatchError(f"{shown(value)} {reason}")


def shown(value: Any) -> str:
    """Return a value as errors show it."""
    text = short_repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def reason_of(error: Exception) -> str:
    """Return what does not fit, with the field that it is in."""
    if not isinstance(error, TypeMismatchError):
        return str(error)
    path = error.path.removeprefix(".")
    return f"in its field {path}, {error.reason}" if path else error.reason


def whole(low: int | None, high: int | None) -> Check:
    """Return the check of integers.

    Args:
        low: The least one; None for integers of any size.
        high: The greatest one.

    Example:
        >>> whole(-128, 127)(5)
        5
    """

    def check(value: Any) -> int:
        number = value if value.__class__ is int else _integer(value)
        if low is not None and high is not None and not low <= number <= high:
            refuse(number, f"is not between {low} and {high}")
        return number

    return check


def double(value: Any) -> float:
    """Return a float; other numbers only where a float of 64 bits holds them exactly.

    Example:
        >>> double(3)
        3.0
    """
    if value.__class__ is float:
        return value
    given = unboxed(value)
    if isinstance(given, float):
        return float.__float__(given)
    if isinstance(given, bool) or not isinstance(given, (int, Decimal)):
        refuse(value, "is no number")
    try:
        number = float(given)
    except OverflowError:
        number = float("nan")
    except ValueError:
        refuse(value, "is a signaling NaN")
    if number != given:
        refuse(value, "has more digits than a float of 64 bits holds")
    return number


def single(value: Any) -> float:
    """Return a float rounded to 32 bits; other numbers only where these hold them exactly."""
    number = double(value)
    try:
        rounded = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        refuse(value, "is beyond the floats of 32 bits")
    if rounded != number and not isinstance(unboxed(value), float):
        refuse(value, "has more digits than a float of 32 bits holds")
    return rounded


def truth(value: Any) -> bool:
    """Return a truth value."""
    if value.__class__ is bool:
        return value
    given = unboxed(value)
    if not isinstance(given, bool):
        refuse(value, "is neither True nor False")
    return given


def text(value: Any) -> str:
    """Return a text."""
    if value.__class__ is str:
        return value
    if not isinstance(value, str):
        refuse(value, "is no str")
    return str.__str__(value)


def character(value: Any) -> str:
    """Return a text of one character."""
    found = text(value)
    if len(found) != 1:
        refuse(value, f"has {len(found)} characters in place of one")
    return found


def decimal(value: Any) -> Decimal:
    """Return a Decimal, also of an integer."""
    given = value if value.__class__ is Decimal else unboxed(value)
    if isinstance(given, int) and not isinstance(given, bool):
        return Decimal(given)
    if not isinstance(given, Decimal):
        refuse(value, "is no Decimal")
    if not given.is_finite():
        refuse(value, "is no finite number")
    return given


def date(value: Any) -> datetime.date:
    """Return a date, which has no time of day."""
    if value.__class__ is datetime.date:
        return value
    if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
        refuse(value, "is no date")
    return datetime.date(value.year, value.month, value.day)


def time(value: Any) -> datetime.time:
    """Return a time of day without a zone; it may have that of UTC."""
    if not isinstance(value, datetime.time):
        refuse(value, "is no time of day")
    if value.tzinfo is not None and value.utcoffset() != datetime.timedelta(0):
        refuse(value, "is a time of day in a zone other than UTC")
    return value if value.tzinfo is None else value.replace(tzinfo=None)


def local_timestamp(value: Any) -> datetime.datetime:
    """Return a datetime without a zone."""
    if value.__class__ is not datetime.datetime:
        if not isinstance(value, datetime.datetime) or value != value:  # noqa: PLR0124 - pandas' NaT
            refuse(value, "is no datetime")
        if getattr(value, "nanosecond", 0):
            refuse(value, "has nanoseconds")
    if value.tzinfo is not None:
        refuse(value, "has a zone, and a local time has none")
    return value if value.__class__ is datetime.datetime else datetime.datetime.combine(value.date(), value.time())


def timestamp(value: Any) -> datetime.datetime:
    """Return a datetime without a zone, in UTC if it has one."""
    zone = getattr(value, "tzinfo", None)
    if zone is None or not isinstance(value, datetime.datetime):
        return local_timestamp(value)
    try:
        utc = value.astimezone(datetime.UTC)
    except OverflowError:
        refuse(value, "has no year in UTC")
    return local_timestamp(utc.replace(tzinfo=None))


def instant(value: Any) -> Instant:
    """Return an Instant."""
    if not isinstance(value, Instant):
        refuse(value, "is no Instant")
    return value


def octets(value: Any) -> bytes:
    """Return bytes."""
    if value.__class__ is bytes:
        return value
    if not isinstance(value, (bytes, bytearray, memoryview)):
        refuse(value, "has no bytes")
    return bytes(cast("bytes", value))


def unboxed(value: Any) -> Any:
    """Return the number or truth value of a NumPy scalar; anything else unchanged."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return value.item() if kind in ("b", "i", "u", "f") and getattr(value, "ndim", None) == 0 else value


def _integer(value: Any) -> int:
    given = unboxed(value)
    if isinstance(given, bool) or not isinstance(given, int):
        refuse(value, "is no integer")
    return int.__int__(given)  # a class of its own may mean another number by its __int__


#: The checks of single values by their type.
CHECKS: Final[dict[TypeInformation, Check]] = {
    **{BasicTypeInfo(kind): whole(low, high) for kind, (low, high) in RANGES.items()},
    BasicTypeInfo(BasicType.BIG_INT): whole(None, None),
    BasicTypeInfo(BasicType.BIG_DEC): decimal,
    BasicTypeInfo(BasicType.DOUBLE): double,
    BasicTypeInfo(BasicType.FLOAT): single,
    BasicTypeInfo(BasicType.BOOLEAN): truth,
    BasicTypeInfo(BasicType.STRING): text,
    BasicTypeInfo(BasicType.CHAR): character,
    Types.INSTANT(): instant,
    Types.SQL_DATE(): date,
    Types.SQL_TIME(): time,
    Types.SQL_TIMESTAMP(): timestamp,
    LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE): date,
    LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME): time,
    LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME): local_timestamp,
    Types.PRIMITIVE_ARRAY(Types.BYTE()): octets,
}

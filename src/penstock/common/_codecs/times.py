"""Times of day and timestamps as text, in Flink's forms: RFC 3339 with Z, and SQL's."""

from __future__ import annotations

import datetime
import re
from typing import Final

from penstock.common.record_text import instant_text
from penstock.common.time import Instant

_ZONE: Final = r"(?P<zone>Z|[+-]\d\d:\d\d)?"
_CLOCK: Final = r"\d\d:\d\d(?::\d\d(?:\.(?P<fraction>\d{1,9}))?)?"
_DAY: Final = r"\d{4}-\d\d-\d\d"
_DATE: Final = re.compile(_DAY, re.ASCII)
_TIME: Final = re.compile(_CLOCK + _ZONE, re.ASCII)
_TIMESTAMP: Final = re.compile(f"{_DAY}[T ]{_CLOCK}{_ZONE}", re.ASCII)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def of_rfc_date(text: str) -> datetime.date:
    """Return a date.

    Raises:
        ValueError: It has another form, or is none.

    Example:
        >>> of_rfc_date("2026-01-02")
        datetime.date(2026, 1, 2)
    """
    _matched(_DATE, text)
    return datetime.date.fromisoformat(text)


def of_rfc_instant(text: str) -> Instant:
    """Return an instant, which may have nanoseconds.

    Raises:
        ValueError: It has another form, no zone, or a year that Python does not have.

    Example:
        >>> of_rfc_instant("1970-01-01T00:00:01.000000005Z")
        Instant<1, 5>
    """
    found = _matched(_TIMESTAMP, text)
    if found["zone"] is None:
        raise ValueError(f"{text!r} has no zone")
    fraction = found["fraction"] or "0"
    whole = datetime.datetime.fromisoformat(text.replace(f".{fraction}", ""))
    return Instant((whole - _EPOCH) // datetime.timedelta(seconds=1), int(fraction.ljust(9, "0")))


def to_rfc_instant(value: Instant) -> str:
    """Return an instant with Z behind it.

    Raises:
        OverflowError: It has a year that Python does not have.

    Example:
        >>> to_rfc_instant(Instant(1, 5))
        '1970-01-01T00:00:01.000000005Z'
    """
    return instant_text(value)


def of_rfc_time(text: str) -> datetime.time:
    """Return a time of day; a fraction and Z may follow the seconds.

    Raises:
        ValueError: It has another form, nanoseconds, or is none.

    Example:
        >>> of_rfc_time("12:30:05.25Z")
        datetime.time(12, 30, 5, 250000)
    """
    return time_of_day(datetime.time.fromisoformat(_in_microseconds(_TIME, text)))


def of_rfc_timestamp(text: str) -> datetime.datetime:
    """Return a timestamp in UTC, without a zone.

    Raises:
        ValueError: It has another form, nanoseconds, or is none.
        OverflowError: It has no year in UTC.

    Example:
        >>> of_rfc_timestamp("2026-01-02T03:04:05Z")
        datetime.datetime(2026, 1, 2, 3, 4, 5)
    """
    return in_utc(datetime.datetime.fromisoformat(_in_microseconds(_TIMESTAMP, text)))


def to_rfc_time(value: datetime.time) -> str:
    """Return a time of day with Z behind it.

    Example:
        >>> to_rfc_time(datetime.time(12, 30))
        '12:30:00Z'
    """
    return f"{without_zeros(time_of_day(value).isoformat())}Z"


def to_rfc_timestamp(value: datetime.datetime) -> str:
    """Return a timestamp, which is in UTC where it has no zone, with Z behind it.

    Example:
        >>> to_rfc_timestamp(datetime.datetime(2026, 1, 2, 3, 4, 5, 500000))
        '2026-01-02T03:04:05.5Z'
    """
    return f"{without_zeros(in_utc(value).isoformat())}Z"


def in_utc(value: datetime.datetime) -> datetime.datetime:
    """Return a timestamp in UTC, without a zone.

    Raises:
        OverflowError: It has no year there.
    """
    return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)


def time_of_day(value: datetime.time) -> datetime.time:
    """Return a time of day without its zone, which is UTC.

    Raises:
        ValueError: It is in another zone.
    """
    if value.tzinfo is not None and value.utcoffset() != datetime.timedelta(0):
        raise ValueError(f"{value} is a time of day in a zone other than UTC")
    return value.replace(tzinfo=None)


def without_zeros(text: str) -> str:
    """Return a time without the zeros at the end of its fraction of a second."""
    return text.rstrip("0") if "." in text else text


def _in_microseconds(form: re.Pattern[str], text: str) -> str:
    """Return a time of a form; Python would cut what is smaller than a microsecond."""
    fraction = _matched(form, text)["fraction"]
    if fraction is not None and fraction[6:].strip("0"):
        raise ValueError(f"{text!r} has nanoseconds, and Python has microseconds")
    return text


def _matched(form: re.Pattern[str], text: str) -> re.Match[str]:
    found = form.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r:.80} has not the form of RFC 3339")
    return found

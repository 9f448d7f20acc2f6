"""Times of day and timestamps as text, in Flink's forms: RFC 3339 with Z, and SQL's."""

from __future__ import annotations

import datetime


def of_rfc_time(text: str) -> datetime.time:
    """Return a time of day; a fraction and Z may follow the seconds.

    Example:
        >>> of_rfc_time("12:30:05.25Z")
        datetime.time(12, 30, 5, 250000)
    """
    return time_of_day(datetime.time.fromisoformat(text))


def of_rfc_timestamp(text: str) -> datetime.datetime:
    """Return a timestamp in UTC, without a zone.

    Example:
        >>> of_rfc_timestamp("2026-01-02T03:04:05Z")
        datetime.datetime(2026, 1, 2, 3, 4, 5)
    """
    return in_utc(datetime.datetime.fromisoformat(text))


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


def date_text(value: datetime.date) -> str:
    """Return a date; a timestamp has one."""
    return (value.date() if isinstance(value, datetime.datetime) else value).isoformat()


def time_of_day(value: datetime.time | datetime.datetime) -> datetime.time:
    """Return a time of day in UTC; a timestamp has one.

    Raises:
        ValueError: It is in another zone.
    """
    if isinstance(value, datetime.datetime):
        return in_utc(value).time()
    if value.tzinfo is not None and value.utcoffset() != datetime.timedelta(0):
        raise ValueError(f"{value} is a time of day in a zone other than UTC")
    return value.replace(tzinfo=None)


def without_zeros(text: str) -> str:
    """Return a time without the zeros at the end of its fraction of a second."""
    return text.rstrip("0") if "." in text else text

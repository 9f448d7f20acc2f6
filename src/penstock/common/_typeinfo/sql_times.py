"""The types of dates, times of day and timestamps."""

from __future__ import annotations

import datetime
from enum import Enum
from typing import Any

from penstock.common._typeinfo.base import ComparedTypeInformation, TypeInformation

# The parameters are called as in PyFlink: d and v, t, dt and ts.
# pyright: reportIncompatibleMethodOverride=false


class SqlTimeTypeInfo(TypeInformation):
    """Where the types of dates, times of day and timestamps are made."""

    @staticmethod
    def DATE() -> DateTypeInfo:
        """Return the type of ``datetime.date``."""
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:
        """Return the type of ``datetime.time``."""
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:
        """Return the type of ``datetime.datetime``."""
        return TimestampTypeInfo()


class DateTypeInfo(TypeInformation):
    """The type of ``datetime.date``; internally the days since the epoch."""

    EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()

    def need_conversion(self) -> bool:
        """Tell that dates have an internal form."""
        return True

    def to_internal_type(self, d: datetime.date | None) -> int | None:
        """Return the days since the epoch."""
        return None if d is None else d.toordinal() - self.EPOCH_ORDINAL

    def from_internal_type(self, v: int | None) -> datetime.date | None:
        """Return the date of some days since the epoch."""
        return None if v is None else datetime.date.fromordinal(v + self.EPOCH_ORDINAL)


class TimeTypeInfo(TypeInformation):
    """The type of ``datetime.time``; internally the microseconds since midnight."""

    def need_conversion(self) -> bool:
        """Tell that times have an internal form."""
        return True

    def to_internal_type(self, t: datetime.time | None) -> int | None:
        """Return the microseconds since midnight; a time with a zone counts from midnight UTC."""
        if t is None:
            return None
        since_midnight = datetime.timedelta(
            hours=t.hour, minutes=t.minute, seconds=t.second, microseconds=t.microsecond
        )
        return (since_midnight - (t.utcoffset() or datetime.timedelta())) // _MICROSECOND

    def from_internal_type(self, t: int | None) -> datetime.time | None:
        """Return the time of day some microseconds after midnight."""
        return None if t is None else (_EPOCH + t * _MICROSECOND).time()


class TimestampTypeInfo(TypeInformation):
    """The type of ``datetime.datetime``; internally the microseconds since the epoch.

    A timestamp without a zone is taken as it stands, so it comes back unchanged, in every zone and on both sides of a
    change of the clocks; one with a zone comes back without it, in UTC.
    """

    def need_conversion(self) -> bool:
        """Tell that timestamps have an internal form."""
        return True

    def to_internal_type(self, dt: datetime.datetime | None) -> int | None:
        """Return the microseconds since the epoch."""
        if dt is None:
            return None
        naive = dt if dt.tzinfo is None else dt.astimezone(datetime.UTC).replace(tzinfo=None)
        return (naive - _EPOCH) // _MICROSECOND

    def from_internal_type(self, ts: int | None) -> datetime.datetime | None:
        """Return the timestamp some microseconds after the epoch."""
        return None if ts is None else _EPOCH + ts * _MICROSECOND


_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without a zone are counted from an epoch without one
_MICROSECOND = datetime.timedelta(microseconds=1)


class LocalTimeTypeInfo(ComparedTypeInformation):
    """The type of a date, a time of day or both, as Java's ``java.time`` has them.

    Args:
        time_type: Which of the three.
    """

    class TimeType(Enum):
        """The kind of a value."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: TimeType) -> None:
        self._time_type = time_type

    @property
    def time_type(self) -> TimeType:
        """Which of the three it is."""
        return self._time_type

    def _parts(self) -> tuple[Any, ...]:
        return (self._time_type,)

    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo<{self._time_type.name}>"

"""Lengths of time and points in time, as values that need no JVM (``pyflink.common.time``).

``Duration`` is what new code uses, ``Time`` is what windows and state TTL take, ``Instant`` is the value of
``Types.INSTANT()``. All three are immutable and compare by value.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["Duration", "Instant", "Time"]

_NANOS_PER_MILLI = 1_000_000
_NANOS_PER_SECOND = 1_000_000_000
_UNITS = (
    ("d", 86_400 * _NANOS_PER_SECOND),
    ("h", 3_600 * _NANOS_PER_SECOND),
    ("min", 60 * _NANOS_PER_SECOND),
    ("s", _NANOS_PER_SECOND),
    ("ms", _NANOS_PER_MILLI),
    ("ns", 1),
)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time, exact to the nanosecond.

    Args:
        nanos: The length in nanoseconds; the ``of_`` methods take the other units.

    Source: java.time.Duration.

    Example:
        >>> Duration.of_seconds(20)
        Duration(20 s)
        >>> Duration.of_minutes(1) == Duration.of_seconds(60)
        True
    """

    nanos: int

    @staticmethod
    def of_days(days: int) -> Duration:
        """Make a duration of some days of 24 hours."""
        return Duration.of_hours(days * 24)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Make a duration of some hours."""
        return Duration.of_minutes(hours * 60)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Make a duration of some minutes."""
        return Duration.of_seconds(minutes * 60)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Make a duration of some seconds."""
        return Duration(seconds * _NANOS_PER_SECOND)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Make a duration of some milliseconds."""
        return Duration(millis * _NANOS_PER_MILLI)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Make a duration of some nanoseconds."""
        return Duration(nanos)

    def to_millis(self) -> int:
        """Return the whole milliseconds of this duration, rounded down."""
        return self.nanos // _NANOS_PER_MILLI

    def to_timedelta(self) -> timedelta:
        """Return this duration as a ``timedelta``, rounded down to the microsecond."""
        return timedelta(microseconds=self.nanos // 1000)

    def __str__(self) -> str:
        # The largest unit that divides the duration, as a person would write it; configuration can parse it.
        if self.nanos == 0:
            return "0 ms"
        label, size = next((label, size) for label, size in _UNITS if self.nanos % size == 0)
        return f"{self.nanos // size} {label}"

    def __repr__(self) -> str:
        return f"Duration({self})"


@dataclass(frozen=True, slots=True, repr=False)
class Instant:
    """A point on the time line, counted from the epoch (1970-01-01T00:00:00Z).

    Args:
        seconds: Whole seconds since the epoch, negative before it.
        nanos: The nanoseconds after that second, 0 to 999,999,999.

    Source: java.time.Instant.

    Example:
        >>> Instant.of_epoch_milli(-1)
        Instant<-1, 999000000>
        >>> Instant.of_epoch_milli(-1).to_epoch_milli()
        -1
    """

    seconds: int
    nanos: int

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Make the instant that many milliseconds after the epoch."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * _NANOS_PER_MILLI)

    def to_epoch_milli(self) -> int:
        """Return the whole milliseconds since the epoch, rounded down."""
        return self.seconds * 1000 + self.nanos // _NANOS_PER_MILLI

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


class Time:
    """The length of a window, of a session gap or of a state's life, in milliseconds.

    Args:
        milliseconds: The length in milliseconds.

    Source: ``pyflink.common.Time``.

    Example:
        >>> str(Time.seconds(3))
        '3000 ms'
    """

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    def to_milliseconds(self) -> int:
        """Return the length in milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Make a length of some milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Make a length of some seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Make a length of some minutes."""
        return Time.seconds(minutes * 60)

    @staticmethod
    def hours(hours: int) -> Time:
        """Make a length of some hours."""
        return Time.minutes(hours * 60)

    @staticmethod
    def days(days: int) -> Time:
        """Make a length of some days of 24 hours."""
        return Time.hours(days * 24)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and self._milliseconds == other._milliseconds

    def __hash__(self) -> int:
        return hash((Time, self._milliseconds))

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"

    def __repr__(self) -> str:
        return f"Time({self})"


def millis_of(name: str, time: object) -> int:
    """Return a length of time that a program has given as a `Duration`, in milliseconds.

    Args:
        name: The argument.
        time: The given value.

    Raises:
        TypeError: It is no `Duration`.
    """
    if isinstance(time, Duration):
        return time.to_millis()
    msg = f"{name} must be a Duration, such as Duration.of_seconds(10), not {time!r}."
    raise TypeError(msg)


def millis_of_time(name: str, time: object) -> int:
    """Return a length of time that a program has given as a `Time` or a `Duration`, in milliseconds.

    Args:
        name: The argument.
        time: The given value.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(time, Time):
        return time.to_milliseconds()
    if isinstance(time, Duration):
        return time.to_millis()
    msg = f"{name} must be a Time, such as Time.seconds(10), not {time!r}."
    raise TypeError(msg)

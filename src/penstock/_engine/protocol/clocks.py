"""The two clocks of a machine, and moments measured by both.

The time of day is what people read and what processes and runs share: a record, a file's name and a timer name it. It
may be set, so it says nothing about how long something took. The time that passes only grows, and only within one
process: intervals, timeouts, delays and ages are counted by it, and it never leaves the process.

Nothing else in the engine reads the time of day, except the modules that `tests/unit/test_clocks.py` lists.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn


def now_ms() -> int:
    """Return the time of day in milliseconds since the epoch; it may jump when the machine's clock is set."""
    return time.time_ns() // 1_000_000


def passed_ms() -> float:
    """Return milliseconds of a clock that never goes back; its start is arbitrary."""
    return time.monotonic() * 1000


def time_text(ms: int) -> str:
    """Return a time in epoch milliseconds for people, in their time zone.

    Example:
        >>> time_text(-1)
        '-'
    """
    return f"{datetime.fromtimestamp(ms / 1000, UTC).astimezone():%Y-%m-%d %H:%M:%S}" if ms > 0 else "-"


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment by both clocks; it is valid in its process only.

    Example:
        >>> begun, ended = Moment(now_ms=1_000, passed_ms=0), Moment(now_ms=400, passed_ms=50)
        >>> ended.since(begun)
        50
    """

    #: Milliseconds since the epoch, for display and storage.
    now_ms: int
    #: Milliseconds of the clock that never goes back, for durations.
    passed_ms: int

    @classmethod
    def now(cls) -> Moment:
        """Return this moment."""
        return cls(now_ms(), int(passed_ms()))

    def since(self, earlier: Moment) -> int:
        """Return the milliseconds from an earlier moment to this one, even if the machine's clock was set meanwhile."""
        return self.passed_ms - earlier.passed_ms

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: the clock of this process is meaningless in another one."""
        raise TypeError("A Moment means nothing in another process; send its now_ms.")

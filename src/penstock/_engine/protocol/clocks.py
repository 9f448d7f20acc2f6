"""The two clocks of a machine, and a moment by both.

The time of day is what people read and what processes and runs share: a record, a file's name and a timer name it. It
may be set, so it says nothing about how long something took. The time that passes only grows, and only within one
process: intervals, timeouts, delays and ages are counted by it, and it never leaves the process.

Nothing else in the engine reads the time of day, but for what `tests/unit/test_clocks.py` lists.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NoReturn


def now_ms() -> int:
    """Return the time of day in milliseconds since the epoch; it may jump when the machine's clock is set."""
    return time.time_ns() // 1_000_000


def passed_ms() -> float:
    """Return milliseconds that only ever grow, from any beginning."""
    return time.monotonic() * 1000


@dataclass(frozen=True, slots=True)
class Moment:
    """When something happened, by both clocks; it stays in its process.

    Example:
        >>> begun, ended = Moment(now_ms=1_000, passed_ms=0), Moment(now_ms=400, passed_ms=50)
        >>> ended.since(begun)
        50
    """

    #: Milliseconds since the epoch, for display and storage.
    now_ms: int
    #: Milliseconds that only ever grow, for all that has a length.
    passed_ms: int

    @classmethod
    def now(cls) -> Moment:
        """Return this moment."""
        return cls(now_ms(), int(passed_ms()))

    def since(self, earlier: Moment) -> int:
        """Return the milliseconds from an earlier moment to this one, whatever was done to the clock between them."""
        return self.passed_ms - earlier.passed_ms

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: the time that has passed here means nothing elsewhere."""
        raise TypeError("A Moment means nothing in another process; send its now_ms.")

"""When a task of a pipelined epoch sends what it has: the levels below run at the same time and wait for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Records leave a task at the latest after the first time, and after the second one where its reader has nothing more
#: for now, or the level above may have sent all that it has. Idle levels get a tick each so many seconds.
_FLUSH_S: Final = 0.01
_REST_S: Final = 0.002
_TICK_S: Final = 0.01
#: Where a task has many tasks above or below, ticks are rarer: each is a row, which takes some 30 us to read alone.
_TICK_S_A_SLOT: Final = 0.001


class Pace:
    """Tells when a time has passed since it last said so.

    Args:
        seconds: The time.
        clock: Returns monotonic seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock, self._since = seconds, clock, clock()

    def is_due(self) -> bool:
        """Tell whether the time has passed, and begin again if so."""
        now = self._clock()
        if now - self._since < self._seconds:
            return False
        self._since = now
        return True


class Flow:
    """When a task sends its records, sends a tick to the level below, and looks for due timers.

    Small blocks cost much, so a reader that has more to read fills them; others do not wait for more.

    Args:
        slots: The most tasks of a level.
        clock: Returns monotonic seconds.
    """

    def __init__(self, slots: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.timers, self.tick = Pace(_TICK_S, clock), Pace(max(_TICK_S, _TICK_S_A_SLOT * slots), clock)
        self._clock, self._flushed = clock, clock()

    def is_flush_due(self, *, rests: bool) -> bool:
        """Tell whether records have waited long enough for others, and begin again if so, be there records or not.

        Where only what was sent counted, a record left sooner, and more blocks took more time than that was.
        """
        now = self._clock()
        if now - self._flushed < (_REST_S if rests else _FLUSH_S):
            return False
        self._flushed = now
        return True

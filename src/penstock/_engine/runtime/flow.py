"""When a task of a pipelined epoch sends what it has: the levels below run at the same time and wait for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Records leave a task at the latest after this time, and idle levels get a tick each so many seconds.
_FLUSH_S: Final = 0.002
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

    Args:
        slots: The most tasks of a level.
    """

    def __init__(self, slots: int) -> None:
        self.flush, self.timers = Pace(_FLUSH_S), Pace(_TICK_S)
        self.tick = Pace(max(_TICK_S, _TICK_S_A_SLOT * slots))

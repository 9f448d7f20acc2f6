"""When a task of a pipelined epoch sends what it has: the levels below run at the same time and wait for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Records leave a task at the latest after this time, and idle levels get a tick each so many seconds.
_FLUSH_S: Final = 0.002
_TICK_S: Final = 0.01


class Flow:
    """Tells a task when to send its records, and when timers of an idle level may be due.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent_s = self._ticked_s = self._looked_s = clock()

    def is_due(self) -> bool:
        """Tell whether records have waited for long enough."""
        now_s = self._clock()
        if now_s - self._sent_s < _FLUSH_S:
            return False
        self._sent_s = now_s
        return True

    def ticks(self) -> bool:
        """Tell whether the level below is to get a tick."""
        if self._sent_s - self._ticked_s < _TICK_S:
            return False
        self._ticked_s = self._sent_s
        return True

    def looks(self) -> bool:
        """Tell whether it is time to look for due timers."""
        now_s = self._clock()
        if now_s - self._looked_s < _TICK_S:
            return False
        self._looked_s = now_s
        return True

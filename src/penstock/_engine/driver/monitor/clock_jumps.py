"""Logs changes of the driver's time of day while a job runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock._engine.protocol.clocks import Moment

_log = logging.getLogger("penstock")

#: The tolerated difference of the two clocks between two looks: a system corrects its clock by up to 1/2000.
_LEAST_MS: Final = 500
_SLEW: Final = 1 / 1000


class ClockJumpDetector:
    """Compares the time of day with the monotonic clock, from one turn of the loop to the next.

    Args:
        job_name: The job, for messages.
        now: The moment of the job's start.
    """

    def __init__(self, job_name: str, now: Moment) -> None:
        self._job_name = job_name
        self._last = now

    def look(self, now: Moment) -> None:
        """Log a jump since the last look, once and with its size."""
        passed_ms = now.since(self._last)
        jump_ms = now.now_ms - self._last.now_ms - passed_ms
        self._last = now
        if abs(jump_ms) <= max(_LEAST_MS, passed_ms * _SLEW):
            return
        if jump_ms < 0:
            text = (
                "The machine's clock was set back by %.1f s; job %r continues, and its processing-time timers wait "
                "for it"
            )
        else:
            text = (
                "The machine's clock went ahead by %.1f s, or it slept; job %r continues, and processing time with it"
            )
        _log.warning(text, abs(jump_ms) / 1000, self._job_name)

"""TimerService: the two clocks and their timers (``pyflink.datastream.timerservice``)."""

from __future__ import annotations

from penstock._api.timer_service import (
    TimerService,
)

__all__ = [
    "TimerService",
]

"""Checks the times of event-time timers: a record without a timestamp must not set a timer relative to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock._engine.protocol.rows import MIN_WATERMARK, NO_TIMESTAMP
from penstock._engine.protocol.times import checked_time
from penstock.common.user_values import short_repr
from penstock.errors import MissingTimestampError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Times before it, 146 million years ago, are those of missing timestamps, with something added to them.
EARLIEST: Final = MIN_WATERMARK // 2

_TIMER: Final = "The time of a timer"


class TimerTimes:
    """Checks the times that functions give to event-time timers.

    Args:
        operator: The name of the operator.
        current_record: Returns the current record, see `CurrentRecord`.
    """

    def __init__(self, operator: str, current_record: Callable[[], tuple[bool, Any]]) -> None:
        self._operator = operator
        self._current_record = current_record
        #: The timestamps of the current records; empty while timers fire.
        self.stamps: Sequence[int] = ()

    def checked(self, time: Any) -> int:
        """Return the time of a timer as a plain int.

        Raises:
            MissingTimestampError: It was made of a timestamp that the record does not have.
            TimestampError: It is no whole number, or has more than 64 bits.
        """
        whole = checked_timer(time)
        if whole < EARLIEST and NO_TIMESTAMP in self.stamps:
            _, record = self._current_record()
            raise MissingTimestampError(self._operator, short_repr(record))
        return whole


def checked_timer(time: Any) -> int:
    """Return the time of any timer as a plain int."""
    return checked_time(_TIMER, time)

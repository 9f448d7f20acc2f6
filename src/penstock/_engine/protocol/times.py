"""Times as in Flink, whole milliseconds of 64 bits; checks the times that user functions return."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock.common.user_values import short_repr
from penstock.errors import TimestampError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TIMES: Final = list[Annotated[int, msgspec.Meta(ge=MIN_WATERMARK, le=MAX_WATERMARK)]]


def checked_timestamps(timestamps: Sequence[Any], records: Iterable[Any]) -> list[int]:
    """Return the timestamps of records as plain ints; it runs for each batch, so it is fast.

    Args:
        timestamps: The values from user code.
        records: The records, for the message.

    Raises:
        TimestampError: A timestamp is no whole number, or has more than 64 bits.
    """
    try:
        return msgspec.convert(timestamps, _TIMES)  # all are plain ints, which is checked in C
    except msgspec.ValidationError:
        pairs = zip(records, timestamps, strict=False)
        return [checked_time(f"The timestamp of {short_repr(record)}", time) for record, time in pairs]


def checked_time(what: str, time: Any) -> int:
    """Return a watermark, or the time of a timer, as a plain int.

    Args:
        what: The meaning of the value, for the message.
        time: The value from user code.

    Raises:
        TimestampError: The value is no whole number, or has more than 64 bits.

    Example:
        >>> checked_time("A watermark", True)
        1
        >>> checked_time("A watermark", 1.5)
        Traceback (most recent call last):
            ...
        penstock.errors.TimestampError: A watermark is 1.5; it must be a whole number ...
    """
    try:
        whole = index(time)
    except TypeError:
        raise TimestampError(what, short_repr(time)) from None
    if not MIN_WATERMARK <= whole <= MAX_WATERMARK:
        raise TimestampError(what, short_repr(time))
    return whole

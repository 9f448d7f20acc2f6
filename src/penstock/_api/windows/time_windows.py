"""Tumbling and sliding windows in event time or processing time; all keys have the same windows."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from penstock._api.windows.window import NO_TIMESTAMP, TimeWindow, WindowAssigner
from penstock._shelf import show
from penstock.common.time import millis_of_time

if TYPE_CHECKING:
    from typing import Self

    from penstock.common.time import Time

__all__ = [
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
]

_NO_WINDOW: Final = (
    "A record without a timestamp has no event-time window. Give the stream timestamps before the window: "
    "assign_timestamps_and_watermarks(...) with a strategy that has a timestamp assigner."
)


class AlignedWindows(WindowAssigner[Any, TimeWindow]):
    """Windows of one size, of which one begins in each slide of time.

    Args:
        size_ms: The size of a window in milliseconds.
        slide_ms: The time between the starts of two windows, in milliseconds.
        offset_ms: Where one window starts, in milliseconds since the epoch.
    """

    def __init__(self, size_ms: int, slide_ms: int, offset_ms: int) -> None:
        self.size_ms = size_ms
        self.slide_ms = slide_ms
        self.offset_ms = offset_ms

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """Return the windows of a record, the newest one first.

        Raises:
            ValueError: The windows go by event time, and the record has no timestamp.
        """
        time = self._time(timestamp, context)
        last = TimeWindow.get_window_start_with_offset(time, self.offset_ms, self.slide_ms)
        starts = range(last, time - self.size_ms, -self.slide_ms)
        return [TimeWindow(start, start + self.size_ms) for start in starts]

    @abstractmethod
    def _time(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int:
        """Return the time that decides about the windows of a record."""


class _EventTimeWindows(AlignedWindows):
    def _time(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int:
        return checked_timestamp(timestamp)

    def is_event_time(self) -> bool:
        """Tell that the windows go by timestamps."""
        return True


class _ProcessingTimeWindows(AlignedWindows):
    def _time(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int:
        return context.get_current_processing_time()

    def is_event_time(self) -> bool:
        """Tell that the windows go by the clock."""
        return False


class _TumblingWindows(AlignedWindows):
    def __init__(self, size: int, offset: int) -> None:
        if abs(offset) >= size:
            msg = (
                f"Tumbling windows need a size above 0 and an offset smaller than it, but it is {offset} of {size} ms."
            )
            raise ValueError(msg)
        super().__init__(size, size, offset)

    @classmethod
    def of(cls, size: Time, offset: Time | None = None) -> Self:
        """Make windows.

        Args:
            size: The size of a window.
            offset: Where one window starts, counted from midnight of January 1st 1970 in UTC; there when left out.
                Days in another time zone need one: ``Time.hours(-8)`` for UTC+8.

        Raises:
            ValueError: The offset is not smaller than the size.
        """
        return cls(millis_of_time("size", size), _offset(offset))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size_ms}, {self.offset_ms})"


class _SlidingWindows(AlignedWindows):
    def __init__(self, size: int, slide: int, offset: int) -> None:
        if size <= 0 or abs(offset) >= slide:
            msg = (
                f"Sliding windows need a size above 0 and an offset smaller than their slide, but the size is {size}, "
                f"the slide {slide} and the offset {offset} ms."
            )
            raise ValueError(msg)
        super().__init__(size, slide, offset)

    @classmethod
    def of(cls, size: Time, slide: Time, offset: Time | None = None) -> Self:
        """Make windows.

        Args:
            size: The size of a window.
            slide: The time between the starts of two windows.
            offset: Where one window starts, counted from midnight of January 1st 1970 in UTC; there when left out.

        Raises:
            ValueError: The size is not positive, or the offset is not smaller than the slide.
        """
        return cls(millis_of_time("size", size), millis_of_time("slide", slide), _offset(offset))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size_ms}, {self.slide_ms}, {self.offset_ms})"


class TumblingEventTimeWindows(_TumblingWindows, _EventTimeWindows):
    """Windows of one size, side by side in event time.

    Args:
        size: The size of a window in milliseconds.
        offset: Where one window starts, in milliseconds since the epoch.

    Raises:
        ValueError: The offset is not smaller than the size.

    Source: org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows.

    Example:
        >>> from penstock.common.time import Time
        >>> TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))
        TumblingEventTimeWindows(86400000, -28800000)
    """


class TumblingProcessingTimeWindows(_TumblingWindows, _ProcessingTimeWindows):
    """Windows of one size, side by side, by the clock of the machine.

    Args:
        size: The size of a window in milliseconds.
        offset: Where one window starts, in milliseconds since the epoch.

    Raises:
        ValueError: The offset is not smaller than the size.

    Source: org.apache.flink.streaming.api.windowing.assigners.TumblingProcessingTimeWindows.

    Example:
        >>> from penstock.common.time import Time
        >>> TumblingProcessingTimeWindows.of(Time.minutes(1), Time.seconds(10))
        TumblingProcessingTimeWindows(60000, 10000)
    """


class SlidingEventTimeWindows(_SlidingWindows, _EventTimeWindows):
    """Windows of one size, of which one begins in each slide of event time; a record belongs to each that holds it.

    With a slide that is longer than the size there are gaps, whose records belong to no window.

    Args:
        size: The size of a window in milliseconds.
        slide: The time between the starts of two windows, in milliseconds.
        offset: Where one window starts, in milliseconds since the epoch.

    Raises:
        ValueError: The size is not positive, or the offset is not smaller than the slide.

    Source: org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows.

    Example:
        >>> from penstock.common.time import Time
        >>> windows = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5))
        >>> windows.assign_windows("a", 7_000, None)
        [TimeWindow(start=5000, end=15000), TimeWindow(start=0, end=10000)]
    """


class SlidingProcessingTimeWindows(_SlidingWindows, _ProcessingTimeWindows):
    """Windows of one size, of which one begins in each slide of time, by the clock of the machine.

    Args:
        size: The size of a window in milliseconds.
        slide: The time between the starts of two windows, in milliseconds.
        offset: Where one window starts, in milliseconds since the epoch.

    Raises:
        ValueError: The size is not positive, or the offset is not smaller than the slide.

    Source: org.apache.flink.streaming.api.windowing.assigners.SlidingProcessingTimeWindows.

    Example:
        >>> from penstock.common.time import Time
        >>> SlidingProcessingTimeWindows.of(Time.minutes(1), Time.seconds(10))
        SlidingProcessingTimeWindows(60000, 10000, 0)
    """


def checked_timestamp(timestamp: int) -> int:
    """Return the timestamp of a record.

    Raises:
        ValueError: The record has none.
    """
    if timestamp == NO_TIMESTAMP:
        raise ValueError(_NO_WINDOW)
    return timestamp


def _offset(offset: Time | None) -> int:
    return 0 if offset is None else millis_of_time("offset", offset)


show(
    "penstock.datastream.window",
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

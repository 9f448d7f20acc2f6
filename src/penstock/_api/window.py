"""Windows, and the assigners that assign records to them (``pyflink.datastream.window``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._api.triggers import EventTimeTrigger, ProcessingTimeTrigger
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.functions.basic import RuntimeContext
    from penstock._api.triggers import Trigger
    from penstock.common.time import Time

__all__ = [
    "CountWindow",
    "GlobalWindow",
    "MergingWindowAssigner",
    "TimeWindow",
    "TumblingEventTimeWindows",
    "Window",
    "WindowAssigner",
]

T = TypeVar("T")
W = TypeVar("W")
W2 = TypeVar("W2")

_NO_TIMESTAMP = -(1 << 63)
_MAX_TIMESTAMP = (1 << 63) - 1


class Window(ABC):
    """A finite part of a stream; windows are equal by value and can be keys.

    Source: org.apache.flink.streaming.api.windowing.windows.Window.
    """

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the largest timestamp that belongs to the window, in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True, order=True)
class TimeWindow(Window):
    """The records of a span of time; the start belongs to it, the end does not.

    Args:
        start: The first moment of the span, in milliseconds since the epoch.
        end: The first moment after it.

    Source: org.apache.flink.streaming.api.windowing.windows.TimeWindow.

    Example:
        >>> window = TimeWindow(0, 5000)
        >>> window.max_timestamp(), window.intersects(TimeWindow(5000, 10_000))
        (4999, True)
        >>> window.cover(TimeWindow(7000, 9000))
        TimeWindow(start=0, end=9000)
    """

    start: int
    end: int

    def max_timestamp(self) -> int:
        """Return the last millisecond of the span."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Tell whether two spans overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest span that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        """Find the spans that overlap or touch, and have them merged.

        Args:
            windows: The spans.
            callback: Told of those that are.
        """
        groups: list[tuple[TimeWindow, list[TimeWindow]]] = []
        for window in sorted(windows):
            if groups and groups[-1][0].intersects(window):
                whole, parts = groups[-1]
                groups[-1] = whole.cover(window), [*parts, window]
            else:
                groups.append((window, [window]))
        for whole, parts in groups:
            if len(parts) > 1:
                callback.merge(parts, whole)

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the window of a timestamp, for adjacent windows.

        Args:
            timestamp: In milliseconds since the epoch.
            offset: Where one window starts, in milliseconds since the epoch.
            window_size: In milliseconds.

        Example:
            >>> TimeWindow.get_window_start_with_offset(-1, 0, 5000)
            -5000
        """
        return timestamp - (timestamp - offset) % window_size


@dataclass(frozen=True, slots=True)
class CountWindow(Window):
    """A number of records.

    Args:
        id: Which one of its key it is.

    Source: ``pyflink.datastream.window.CountWindow``.
    """

    id: int

    def max_timestamp(self) -> int:
        """Return the end of time: no watermark ends it."""
        return _MAX_TIMESTAMP


class GlobalWindow(Window):
    """All records; there is one such window.

    Source: org.apache.flink.streaming.api.windowing.windows.GlobalWindow.
    """

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """Return the window."""
        return _GLOBAL_WINDOW

    def max_timestamp(self) -> int:
        """Return the end of time."""
        return _MAX_TIMESTAMP

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow"


_GLOBAL_WINDOW = GlobalWindow()


class WindowAssigner(ABC, Generic[T, W]):
    """Says which windows a record belongs to.

    Source: org.apache.flink.streaming.api.windowing.assigners.WindowAssigner.
    """

    class WindowAssignerContext(ABC):
        """The context of a window assigner."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time in milliseconds since the epoch."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Return where the assigner runs."""

    @abstractmethod
    def assign_windows(self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> list[W]:
        """Return the windows of a record.

        Args:
            element: The record.
            timestamp: Its timestamp in milliseconds since the epoch; -2**63 if it has none.
            context: Valid during this call only.
        """

    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """Return what fires the windows where the program does not say: their end, by the watermark or by the clock.

        Args:
            env: The environment of the job, where there is one.
        """
        return EventTimeTrigger() if self.is_event_time() else ProcessingTimeTrigger()

    @abstractmethod
    def is_event_time(self) -> bool:
        """Tell whether the windows go by timestamps and watermarks, or by the clock."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """Says which windows a record belongs to, and which windows of a key are to be one.

    Source: org.apache.flink.streaming.api.windowing.assigners.MergingWindowAssigner.

    Example:
        >>> class Sessions(MergingWindowAssigner):
        ...     def assign_windows(self, element, timestamp, context):
        ...         return [TimeWindow(timestamp, timestamp + 60_000)]
        ...
        ...     def merge_windows(self, windows, callback):
        ...         TimeWindow.merge_windows(windows, callback)
        ...
        ...     def is_event_time(self):
        ...         return True
        >>> Sessions().assign_windows("a", 7, None)
        [TimeWindow(start=7, end=60007)]
    """

    class MergeCallback(ABC, Generic[W2]):
        """Called with windows to merge."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Make windows one.

            Args:
                to_be_merged: The windows, two at least.
                merge_result: What they become.
            """

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Say which windows are to be one.

        Args:
            windows: Those of a key.
            callback: Told of those that are.
        """


class TumblingEventTimeWindows(WindowAssigner[Any, TimeWindow]):
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

    def __init__(self, size: int, offset: int) -> None:
        if abs(offset) >= size:
            msg = f"The offset of tumbling windows must be smaller than their size, but it is {offset} of {size} ms."
            raise ValueError(msg)
        self.size_ms = size
        self.offset_ms = offset

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> TumblingEventTimeWindows:
        """Make windows.

        Args:
            size: The size of a window.
            offset: Where one window starts, counted from midnight of January 1st 1970 in UTC; there when left out.
                Days in another time zone need one: ``Time.hours(-8)`` for UTC+8.

        Raises:
            ValueError: The offset is not smaller than the size.
        """
        return TumblingEventTimeWindows(size.to_milliseconds(), 0 if offset is None else offset.to_milliseconds())

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """Return the one window of a record.

        Raises:
            ValueError: The record has no timestamp.
        """
        if timestamp == _NO_TIMESTAMP:
            msg = (
                "A record without a timestamp has no event-time window. Give the stream timestamps before the window: "
                "assign_timestamps_and_watermarks(...) with a strategy that has a timestamp assigner."
            )
            raise ValueError(msg)
        start = TimeWindow.get_window_start_with_offset(timestamp, self.offset_ms, self.size_ms)
        return [TimeWindow(start, start + self.size_ms)]

    def is_event_time(self) -> bool:
        """Tell that the windows go by timestamps."""
        return True

    def __repr__(self) -> str:
        return f"TumblingEventTimeWindows({self.size_ms}, {self.offset_ms})"


show(
    "penstock.datastream.window",
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    TimeWindow,
    TumblingEventTimeWindows,
    Window,
    WindowAssigner,
)

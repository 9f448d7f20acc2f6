"""Windows, and what all window assigners have in common (``pyflink.datastream.window``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock._api.windows.triggers import EventTimeTrigger, ProcessingTimeTrigger
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock._api.runtime_context import RuntimeContext
    from penstock._api.windows.triggers import Trigger
    from penstock.common.serializer import TypeSerializer

__all__ = [
    "CountWindow",
    "GlobalWindow",
    "MergingWindowAssigner",
    "TimeWindow",
    "Window",
    "WindowAssigner",
]

T = TypeVar("T")
W = TypeVar("W")
W2 = TypeVar("W2")

#: The timestamp of a record that has none.
NO_TIMESTAMP: Final = -(1 << 63)
#: The last possible time.
MAX_TIMESTAMP: Final = (1 << 63) - 1


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
        """Find the spans that overlap or touch, and pass them to a callback.

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
        return MAX_TIMESTAMP


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
        return MAX_TIMESTAMP

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
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
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

    def get_window_serializer(self) -> TypeSerializer[W] | None:
        """Return the serializer of windows of a class of the program's own; the library's windows need none.

        Windows are told apart by their bytes: those of equal windows must be equal.
        """
        return None

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


show(
    "penstock.datastream.window",
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    TimeWindow,
    Window,
    WindowAssigner,
)

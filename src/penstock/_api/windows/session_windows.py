"""Session windows: they last as long as there are records, and merge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from operator import index
from typing import TYPE_CHECKING, Any

from penstock._api.windows.counting_triggers import check_positive
from penstock._api.windows.time_windows import checked_timestamp
from penstock._api.windows.window import MergingWindowAssigner, TimeWindow, WindowAssigner
from penstock._shelf import show
from penstock.common.time import millis_of_time
from penstock.common.user_values import short_repr
from penstock.errors import FunctionResultError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from penstock.common.time import Time

__all__ = [
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
]


class SessionWindowTimeGapExtractor(ABC):
    """Returns the gap of a session for each record.

    Source: org.apache.flink.streaming.api.windowing.assigners.SessionWindowTimeGapExtractor.
    """

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return how long the session lasts after a record, in milliseconds.

        Args:
            element: The record.
        """


class SessionWindows(MergingWindowAssigner[Any, TimeWindow]):
    """Windows that last as long as there are records."""

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """Return the session that a record makes by itself.

        Raises:
            ValueError: The windows go by event time and the record has no timestamp.
            FunctionResultError: The gap is no positive number.
        """
        time = checked_timestamp(timestamp) if self.is_event_time() else context.get_current_processing_time()
        return [TimeWindow(time, time + self.gap_of(element))]

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        """Merge sessions that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)

    @abstractmethod
    def gap_of(self, element: Any) -> int:
        """Return how long a session lasts after a record, in milliseconds."""


class FixedGap(SessionWindows):
    """Sessions of one gap."""

    def __init__(self, session_gap: int) -> None:
        check_positive(f"The gap of {type(self).__name__} in milliseconds", session_gap)
        self.gap_ms = session_gap

    @classmethod
    def with_gap(cls, size: Time) -> Self:
        """Make sessions of one gap.

        Args:
            size: The gap.

        Raises:
            ValueError: It is not positive.
        """
        return cls(millis_of_time("size", size))

    def gap_of(self, element: Any) -> int:
        return self.gap_ms

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.gap_ms})"


class _DynamicGap(SessionWindows):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        extractor: Any = session_window_time_gap_extractor
        if not callable(getattr(extractor, "extract", None)) or isinstance(extractor, type):
            msg = f"{type(self).__name__} takes a SessionWindowTimeGapExtractor, not {extractor!r}."
            raise TypeError(msg)
        self._extractor = session_window_time_gap_extractor

    @classmethod
    def with_dynamic_gap(cls, extractor: SessionWindowTimeGapExtractor) -> Self:
        """Make sessions whose gap depends on the record.

        Args:
            extractor: Returns the gap of a record.

        Raises:
            TypeError: It is no SessionWindowTimeGapExtractor.
        """
        return cls(extractor)

    def gap_of(self, element: Any) -> int:
        given: Any = self._extractor.extract(element)
        gap = given if type(given) is int else _whole(given)
        if gap is None or gap <= 0:
            call = f"extract() of {type(self._extractor).__qualname__}"
            wanted = "a positive whole number of milliseconds"
            raise FunctionResultError(call, "", short_repr(given), wanted)
        return gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._extractor!r})"


class EventTimeSessionWindows(FixedGap):
    """Sessions of one gap in event time: a window ends when no record came for that long.

    Args:
        session_gap: The gap in milliseconds.

    Raises:
        ValueError: It is not positive.

    Source: org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows.

    Example:
        >>> from penstock.common.time import Time
        >>> EventTimeSessionWindows.with_gap(Time.minutes(5)).assign_windows("a", 7, None)
        [TimeWindow(start=7, end=300007)]
    """

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Make sessions whose gap depends on the record.

        Args:
            extractor: Returns the gap of a record.

        Raises:
            TypeError: It is no SessionWindowTimeGapExtractor.
        """
        return DynamicEventTimeSessionWindows(extractor)

    def is_event_time(self) -> bool:
        """Tell that the windows go by timestamps."""
        return True


class ProcessingTimeSessionWindows(FixedGap):
    """Sessions of one gap by the clock of the machine: a window ends when no record came for that long.

    Args:
        session_gap: The gap in milliseconds.

    Raises:
        ValueError: It is not positive.

    Source: org.apache.flink.streaming.api.windowing.assigners.ProcessingTimeSessionWindows.

    Example:
        >>> from penstock.common.time import Time
        >>> ProcessingTimeSessionWindows.with_gap(Time.minutes(5))
        ProcessingTimeSessionWindows(300000)
    """

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Make sessions whose gap depends on the record.

        Args:
            extractor: Returns the gap of a record.

        Raises:
            TypeError: It is no SessionWindowTimeGapExtractor.
        """
        return DynamicProcessingTimeSessionWindows(extractor)

    def is_event_time(self) -> bool:
        """Tell that the windows go by the clock."""
        return False


class DynamicEventTimeSessionWindows(_DynamicGap):
    """Sessions in event time whose gap depends on the record.

    Args:
        session_window_time_gap_extractor: Returns the gap of a record; one that is not positive fails the job.

    Raises:
        TypeError: It is no SessionWindowTimeGapExtractor.

    Source: org.apache.flink.streaming.api.windowing.assigners.DynamicEventTimeSessionWindows.

    Example:
        >>> class OwnGap(SessionWindowTimeGapExtractor):
        ...     def extract(self, element):
        ...         return element[1]
        >>> EventTimeSessionWindows.with_dynamic_gap(OwnGap()).assign_windows(("a", 500), 7, None)
        [TimeWindow(start=7, end=507)]
    """

    def is_event_time(self) -> bool:
        """Tell that the windows go by timestamps."""
        return True


class DynamicProcessingTimeSessionWindows(_DynamicGap):
    """Sessions by the clock of the machine whose gap depends on the record.

    Args:
        session_window_time_gap_extractor: Returns the gap of a record; one that is not positive fails the job.

    Raises:
        TypeError: It is no SessionWindowTimeGapExtractor.

    Source: org.apache.flink.streaming.api.windowing.assigners.DynamicProcessingTimeSessionWindows.
    """

    def is_event_time(self) -> bool:
        """Tell that the windows go by the clock."""
        return False


def _whole(gap: Any) -> int | None:
    """Return a number as a plain int, None where it is no whole number."""
    try:
        return index(gap)
    except TypeError:
        return None


show(
    "penstock.datastream.window",
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)

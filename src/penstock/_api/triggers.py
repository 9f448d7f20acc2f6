"""Triggers, which decide when windows fire, and evictors, which remove records from a firing window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.state.descriptors import StateDescriptor
    from penstock._api.state.kinds import State
    from penstock._api.window import TimeWindow
    from penstock.metrics.metricbase import MetricGroup

__all__ = ["EventTimeTrigger", "Evictor", "ProcessingTimeTrigger", "TimestampedValue", "Trigger", "TriggerResult"]

T = TypeVar("T")
W = TypeVar("W")


class TriggerResult(Enum):
    """The decision of a trigger about a window.

    Source: org.apache.flink.streaming.api.windowing.triggers.TriggerResult.
    """

    CONTINUE = (False, False)
    """Do nothing."""
    FIRE_AND_PURGE = (True, True)
    """Emit the result, and drop the contents."""
    FIRE = (True, False)
    """Emit the result, and keep the contents."""
    PURGE = (False, True)
    """Its contents go."""

    def is_fire(self) -> bool:
        """Tell whether the result is emitted."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Tell whether the contents are dropped."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window of a key fires; one object serves all windows, so it keeps its data in state.

    Source: org.apache.flink.streaming.api.windowing.triggers.Trigger.

    Example:
        >>> class EachRecord(Trigger):
        ...     def on_element(self, element, timestamp, window, ctx):
        ...         return TriggerResult.FIRE
        ...
        ...     def on_processing_time(self, time, window, ctx):
        ...         return TriggerResult.CONTINUE
        ...
        ...     def on_event_time(self, time, window, ctx):
        ...         return TriggerResult.CONTINUE
        ...
        ...     def on_merge(self, window, ctx): ...
        ...
        ...     def clear(self, window, ctx): ...
        >>> EachRecord().can_merge()
        False
    """

    class TriggerContext(ABC):
        """The context of a trigger for one window of one key."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time in milliseconds since the epoch."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Return the metrics of the operator."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the watermark in milliseconds since the epoch; -2**63 before the first one."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Set a timer for the clock, in milliseconds since the epoch."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Set a timer for the watermark, in milliseconds since the epoch."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Delete a timer of the clock."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Delete a timer of the watermark."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
            """Return state of the trigger for this window of this key; release it in ``clear``."""

    class OnMergeContext(TriggerContext):
        """The context of a trigger after windows have merged."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the state of the old windows into the state of the merged window.

            Raises:
                UnsupportedOperationError: The kind of state cannot be merged, such as a value state.
            """

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide about a window after a record was added.

        Args:
            element: The record.
            timestamp: Its timestamp in milliseconds since the epoch; -2**63 if it has none.
            window: The window.
            ctx: Valid during this call only.
        """

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide about a window when the clock has reached the time of a timer.

        Args:
            time: The time that was asked for, in milliseconds since the epoch.
            window: The window.
            ctx: Valid during this call only.
        """

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide about a window when the watermark has reached the time of a timer.

        Args:
            time: The time that was asked for, in milliseconds since the epoch.
            window: The window.
            ctx: Valid during this call only.
        """

    def can_merge(self) -> bool:
        """Tell whether the trigger supports merging windows, which accept no others."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Handle a merge of windows.

        Args:
            window: The merged window.
            ctx: Valid during this call only.
        """

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Release the trigger's state of a window that has ended.

        Args:
            window: The window.
            ctx: Valid during this call only.
        """


class EventTimeTrigger(Trigger[Any, Any]):
    """Fires once the watermark passes the end of a window, and then with each late record.

    Source: org.apache.flink.streaming.api.windowing.triggers.EventTimeTrigger.
    """

    @staticmethod
    def create() -> EventTimeTrigger:
        """Return one."""
        return EventTimeTrigger()

    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        # A record that arrives after the watermark has passed the window's end fires the window at once.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger[Any, Any]):
    """Fires once the clock passes the end of a window.

    Source: org.apache.flink.streaming.api.windowing.triggers.ProcessingTimeTrigger.
    """

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Return one."""
        return ProcessingTimeTrigger()

    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


@dataclass(frozen=True, slots=True)
class TimestampedValue(Generic[T]):
    """A record of a window, and its timestamp.

    Attributes:
        value: The record.
        timestamp: In milliseconds since the epoch; -2**63 if it has none.

    Source: org.apache.flink.streaming.runtime.operators.windowing.TimestampedValue.
    """

    value: T
    timestamp: int


class Evictor(ABC, Generic[T, W]):
    """Removes records from a firing window, as in Flink's Java API; PyFlink has none.

    Windows with an evictor keep all of their records, also if these are reduced.

    Source: org.apache.flink.streaming.api.windowing.evictors.Evictor.

    Example:
        >>> class LastOnly(Evictor):
        ...     def evict_before(self, elements, size, window):
        ...         return list(elements)[-1:]
        >>> LastOnly().evict_before([TimestampedValue("a", 1), TimestampedValue("b", 2)], 2, None)
        [TimestampedValue(value='b', timestamp=2)]
    """

    def evict_before(
        self, elements: Iterable[TimestampedValue[T]], size: int, window: W
    ) -> Iterable[TimestampedValue[T]]:
        """Return the records that stay, before the window's function sees them.

        Args:
            elements: The records in the order of their arrival.
            size: How many they are.
            window: The window.
        """
        return elements

    def evict_after(
        self, elements: Iterable[TimestampedValue[T]], size: int, window: W
    ) -> Iterable[TimestampedValue[T]]:
        """Return the records that stay, after the window's function has seen them.

        Args:
            elements: The records in the order of their arrival.
            size: How many they are.
            window: The window.
        """
        return elements


show(
    "penstock.datastream.window",
    EventTimeTrigger,
    Evictor,
    ProcessingTimeTrigger,
    TimestampedValue,
    Trigger,
    TriggerResult,
)

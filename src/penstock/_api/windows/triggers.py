"""Triggers, which decide when windows fire (``pyflink.datastream.window``); more are in `counting_triggers`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._shelf import show

if TYPE_CHECKING:
    from penstock._api.state.descriptors import StateDescriptor
    from penstock._api.state.kinds import State
    from penstock._api.windows.window import TimeWindow
    from penstock.metrics.metricbase import MetricGroup

__all__ = ["EventTimeTrigger", "NeverTrigger", "ProcessingTimeTrigger", "PurgingTrigger", "Trigger", "TriggerResult"]

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
    """Drop the contents, and emit nothing."""

    def is_fire(self) -> bool:
        """Tell whether the result is emitted."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Tell whether the contents are dropped."""
        return self.value[1]


class CallContext(ABC):
    """What triggers and evictors may ask of the operator that calls them."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Return the processing time in milliseconds since the epoch."""

    @abstractmethod
    def get_metric_group(self) -> MetricGroup:
        """Return the metrics of the operator."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """Return the watermark in milliseconds since the epoch; -2**63 before the first one."""


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

    class TriggerContext(CallContext):
        """The context of a trigger for one window of one key."""

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


class NeverTrigger(Trigger[Any, Any]):
    """Never fires: the default of :class:`~penstock.datastream.window.GlobalWindows`.

    Source: org.apache.flink.streaming.api.windowing.assigners.GlobalWindows.NeverTrigger.
    """

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        pass

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        pass


class PurgingTrigger(Trigger[T, W]):
    """Drops the contents of a window each time another trigger fires it.

    Args:
        nested_trigger: The other trigger.

    Raises:
        TypeError: It is no Trigger.

    Source: org.apache.flink.streaming.api.windowing.triggers.PurgingTrigger.

    Example:
        >>> from penstock.datastream.window import CountTrigger
        >>> PurgingTrigger.of(CountTrigger.of(100)).can_merge()
        True
    """

    def __init__(self, nested_trigger: Trigger[T, W]) -> None:
        if not isinstance(nested_trigger, Trigger):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"PurgingTrigger takes a Trigger, not {nested_trigger!r}."
            raise TypeError(msg)
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[T, W]) -> PurgingTrigger[T, W]:
        """Return one around another trigger."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result is TriggerResult.FIRE else result


show(
    "penstock.datastream.window",
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)

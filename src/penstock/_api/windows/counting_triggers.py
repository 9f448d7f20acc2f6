"""Triggers that keep state: they fire with a number of records, or again and again while a window is open."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self, cast

from penstock._api.functions.basic import ReduceFunction
from penstock._api.state.kinds import ReducingStateDescriptor
from penstock._api.windows.triggers import Trigger, TriggerResult
from penstock._api.windows.window import MAX_TIMESTAMP
from penstock._shelf import show
from penstock.common.arguments import whole_number
from penstock.common.time import millis_of_time
from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from penstock._api.state.kinds import ReducingState
    from penstock._api.windows.window import TimeWindow
    from penstock.common.time import Time

__all__ = ["ContinuousEventTimeTrigger", "ContinuousProcessingTimeTrigger", "CountTrigger", "Min"]


class _Added(ReduceFunction[int]):
    """Returns the sum of two numbers."""

    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class Smaller(ReduceFunction[Any]):
    """Returns the smaller of two values.

    Source: ``pyflink.datastream.window.Min``.

    Example:
        >>> Smaller().reduce(3, 2)
        2
    """

    def reduce(self, value1: Any, value2: Any) -> Any:
        return min(value1, value2)


class CountTrigger(Trigger[Any, Any]):
    """Fires after every given number of records of a window.

    Args:
        window_size: The number of records.

    Raises:
        ValueError: It is not positive.

    Source: org.apache.flink.streaming.api.windowing.triggers.CountTrigger.
    """

    def __init__(self, window_size: int) -> None:
        check_positive("The number of records of a CountTrigger", window_size)
        self._window_size = window_size
        self._count = ReducingStateDescriptor("count", _Added(), Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Return one.

        Args:
            window_size: The number of records.
        """
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        count = cast("ReducingState[int]", ctx.get_partitioned_state(self._count))
        count.add(1)
        if (count.get() or 0) < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self._window_size})"


class _ContinuousTrigger(Trigger[Any, Any]):
    """Fires at each multiple of an interval; the state is the time of the next one."""

    def __init__(self, interval: int) -> None:
        check_positive(f"The interval of a {type(self).__name__} in milliseconds", interval)
        self.interval = interval
        self._next = ReducingStateDescriptor("fire-time", Smaller(), Types.LONG())

    @classmethod
    def of(cls, interval: Time) -> Self:
        """Return one.

        Args:
            interval: The interval.
        """
        return cls(millis_of_time("interval", interval))

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._next)
        time = self._state(ctx).get()
        if time is not None:
            self._register(time, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        state = self._state(ctx)
        time = state.get()
        if time is not None:
            self._delete(time, ctx)
            state.clear()

    def register_next_fire_timestamp(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Set the timer of the next result.

        Args:
            time: The last multiple of the interval, in milliseconds since the epoch.
            window: The window, with whose end the results end.
            ctx: The context.
            fire_timestamp_state: Keeps the time of the timer.
        """
        end = window.max_timestamp()
        following = end if self._is_last(end, ctx) else min(time + self.interval, end)
        fire_timestamp_state.add(following)
        self._register(following, ctx)

    def _state(self, ctx: Trigger.TriggerContext) -> ReducingState[int]:
        return cast("ReducingState[int]", ctx.get_partitioned_state(self._next))

    def _begin(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Set the first timer of a window."""
        state = self._state(ctx)
        if state.get() is None:
            self.register_next_fire_timestamp(time - time % self.interval, window, ctx, state)

    def _fires(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire if a timer is that of the next result."""
        state = self._state(ctx)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        self.register_next_fire_timestamp(time, window, ctx, state)
        return TriggerResult.FIRE

    def _is_last(self, end: int, ctx: Trigger.TriggerContext) -> bool:
        """Tell whether the end of the window is the only time left to fire."""
        return False

    @abstractmethod
    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Set a timer of the trigger's clock."""

    @abstractmethod
    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Delete a timer of the trigger's clock."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval})"


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires at each multiple of an interval that the watermark passes, and at the end of the window.

    Args:
        interval: The interval in milliseconds.

    Raises:
        ValueError: It is not positive.

    Source: org.apache.flink.streaming.api.windowing.triggers.ContinuousEventTimeTrigger.

    Example:
        >>> from penstock.common.time import Time
        >>> ContinuousEventTimeTrigger.of(Time.seconds(10))
        ContinuousEventTimeTrigger(10000)
    """

    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._begin(timestamp, window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else self._fires(time, window, ctx)

    def _is_last(self, end: int, ctx: Trigger.TriggerContext) -> bool:
        # The last watermark passes all times: a window without an end would fire at each of them.
        return end >= MAX_TIMESTAMP - 1 and ctx.get_current_watermark() >= MAX_TIMESTAMP

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires at each multiple of an interval that the clock passes.

    Args:
        interval: The interval in milliseconds.

    Raises:
        ValueError: It is not positive.

    Source: org.apache.flink.streaming.api.windowing.triggers.ContinuousProcessingTimeTrigger.

    Example:
        >>> from penstock.common.time import Time
        >>> ContinuousProcessingTimeTrigger.of(Time.seconds(10))
        ContinuousProcessingTimeTrigger(10000)
    """

    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._fires(time, window, ctx)

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)


def check_positive(what: str, number: int) -> None:
    """Raise ValueError unless a number is positive, TypeError if it is no whole number."""
    if whole_number(what, number) <= 0:
        msg = f"{what} must be positive, not {number}."
        raise ValueError(msg)


show(
    "penstock.datastream.window",
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    Smaller,
)

#: PyFlink's name; the engine has another class of that name.
Min = Smaller

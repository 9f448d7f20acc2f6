"""Windows without a span of time: of all records of a key, or of a number of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.state.kinds import ValueStateDescriptor
from penstock._api.windows.counting_triggers import CountTrigger, check_positive
from penstock._api.windows.triggers import NeverTrigger, PurgingTrigger, Trigger, TriggerResult
from penstock._api.windows.window import (
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    CountWindow,
    GlobalWindow,
    TimeWindow,
    WindowAssigner,
)
from penstock._shelf import show
from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from penstock._api.windows.window import Window

__all__ = [
    "CountSlidingWindowAssigner",
    "CountTumblingWindowAssigner",
    "EndOfStreamTrigger",
    "EndOfStreamWindows",
    "GlobalWindows",
]


class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """One window of all records of a key, which never fires without a trigger of the program.

    Source: org.apache.flink.streaming.api.windowing.assigners.GlobalWindows.

    Example:
        >>> GlobalWindows.create().assign_windows("a", 7, None)
        [GlobalWindow]
    """

    def __init__(self) -> None:
        self._trigger: Trigger[Any, GlobalWindow] = NeverTrigger()

    @staticmethod
    def create() -> GlobalWindows:
        """Return one whose window does not fire by itself."""
        return GlobalWindows()

    @staticmethod
    def create_with_end_of_stream_trigger() -> GlobalWindows:
        """Return one whose window fires at the end of the input; of Flink's Java API."""
        made = GlobalWindows()
        made._trigger = EndOfStreamTrigger()
        return made

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[GlobalWindow]:
        """Return the one window."""
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any) -> Trigger[Any, GlobalWindow]:
        """Return a trigger that never fires, or one for the end of the input."""
        return self._trigger

    def is_event_time(self) -> bool:
        """Tell that no record is late."""
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"


class EndOfStreamWindows(WindowAssigner[Any, TimeWindow]):
    """One window of all time, which fires at the end of the input; of Flink's Java API.

    Source: org.apache.flink.streaming.api.windowing.assigners.EndOfStreamWindows.

    Example:
        >>> EndOfStreamWindows.get()
        EndOfStreamWindows()
    """

    @staticmethod
    def get() -> EndOfStreamWindows:
        """Return one."""
        return EndOfStreamWindows()

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """Return the one window."""
        return [TimeWindow(NO_TIMESTAMP, MAX_TIMESTAMP)]

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        """Return a trigger for the end of the input."""
        return EndOfStreamTrigger()

    def is_event_time(self) -> bool:
        """Tell that the window ends with the watermark."""
        return True

    def __repr__(self) -> str:
        return "EndOfStreamWindows()"


class EndOfStreamTrigger(Trigger[Any, Any]):
    """Fires a window that lasts until the end of time, when the input ends.

    Source: org.apache.flink.streaming.api.windowing.assigners.GlobalWindows.EndOfStreamTrigger.
    """

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        pass

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class _CountWindows(WindowAssigner[Any, CountWindow]):
    """Windows by the number of a record among those of its key, which is state of the assigner."""

    def __init__(self, state: str, window_size: int) -> None:
        check_positive("The size of a window in records", window_size)
        self._window_size = window_size
        self._count = ValueStateDescriptor(state, Types.LONG())

    def _number(self, context: WindowAssigner.WindowAssignerContext) -> int:
        """Return the number of the current record."""
        state = context.get_runtime_context().get_state(self._count)
        number = state.value() or 0
        state.update(number + 1)
        return number

    def get_default_trigger(self, env: Any) -> Trigger[Any, CountWindow]:
        """Return a trigger that fires full windows and drops their contents: no record comes to them any more."""
        return PurgingTrigger(CountTrigger(self._window_size))

    def is_event_time(self) -> bool:
        """Tell that no record is late."""
        return False


class CountTumblingWindowAssigner(_CountWindows):
    """Adjacent windows of a number of records of a key; a window that is not full at the end of the input is dropped.

    Args:
        window_size: The number of records in a window.

    Raises:
        ValueError: It is not positive.

    Source: ``pyflink.datastream.window.CountTumblingWindowAssigner``.

    Example:
        >>> CountTumblingWindowAssigner.of(3)
        CountTumblingWindowAssigner(3)
    """

    def __init__(self, window_size: int) -> None:
        super().__init__("tumble-count-assigner", window_size)

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Return one.

        Args:
            window_size: The number of records in a window.
        """
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        """Return the window of a record."""
        return [CountWindow(self._number(context) // self._window_size)]

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(_CountWindows):
    """Windows of a number of records of a key, of which one begins after each slide of records.

    A window fires when it is full; a window that is not full at the end of the input is dropped.

    Args:
        window_size: The number of records in a window.
        window_slide: The number of records between the starts of two windows.

    Raises:
        ValueError: One of them is not positive.

    Source: ``pyflink.datastream.window.CountSlidingWindowAssigner``.

    Example:
        >>> CountSlidingWindowAssigner.of(3, 2)
        CountSlidingWindowAssigner(3, 2)
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        check_positive("The slide of windows in records", window_slide)
        super().__init__("slide-count-assigner", window_size)
        self._window_slide = window_slide

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Return one.

        Args:
            window_size: The number of records in a window.
            window_slide: The number of records between the starts of two windows.
        """
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        """Return the windows of a record, the newest one first."""
        number, slide = self._number(context), self._window_slide
        first = max(0, (number - self._window_size) // slide + 1)
        return [CountWindow(window) for window in range(number // slide, first - 1, -1)]

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"


show(
    "penstock.datastream.window",
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EndOfStreamTrigger,
    EndOfStreamWindows,
    GlobalWindows,
)

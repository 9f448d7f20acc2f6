"""Process functions, with timestamps, side outputs and, on keyed streams, state and timers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._api.functions.basic import Function
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.time_domain import TimeDomain
    from penstock._api.timer_service import TimerService

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class ProcessFunction(Function, Generic[IN, OUT]):
    """Processes the records of a stream, with a main output and side outputs.

    Returned or yielded values go to the main output, and pairs of an :class:`~penstock.datastream.OutputTag` and a
    value to that side output.

    Source: org.apache.flink.streaming.api.functions.ProcessFunction.

    Example:
        >>> class Stamp(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield ctx.timestamp(), value
    """

    class Context(ABC):
        """The context of the current record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks; timers need a keyed stream, and setting one here raises."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the record's timestamp in milliseconds since the epoch; -2**63 if it has none."""

    @abstractmethod
    def process_element(self, value: IN, ctx: ProcessFunction.Context) -> Iterable[OUT] | None:
        """Return or yield the results of a record; None means none.

        Args:
            value: The record.
            ctx: Valid during this call only.
        """


class KeyedProcessFunction(Function, Generic[KEY, IN, OUT]):
    """Processes the records of a keyed stream, with keyed state and timers.

    Source: org.apache.flink.streaming.api.functions.KeyedProcessFunction.

    Example:
        >>> from penstock.datastream.state import ValueStateDescriptor
        >>> class Count(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        ...
        ...     def process_element(self, value, ctx):
        ...         self.count.update((self.count.value() or 0) + 1)
        ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
        ...
        ...     def on_timer(self, timestamp, ctx):
        ...         yield ctx.get_current_key(), self.count.value()
    """

    class Context(ABC):
        """The context of the current record."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the record or timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks, and the timers of this key."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the timestamp of the record or timer in milliseconds since the epoch; -2**63 without one."""

    class OnTimerContext(Context):
        """The context of the current timer."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock of the timer."""

    @abstractmethod
    def process_element(self, value: IN, ctx: KeyedProcessFunction.Context) -> Iterable[OUT] | None:
        """Return or yield the results of a record; None means none.

        Args:
            value: The record.
            ctx: Valid during this call only.
        """

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[OUT] | None:
        """Return or yield the results of a timer; None means none.

        Timers of one clock fire in the order of their times. A timer that is set or deleted here counts at once.

        Args:
            timestamp: The time that the timer was set for, in milliseconds since the epoch.
            ctx: Valid during this call only.
        """


show("penstock.datastream.functions", KeyedProcessFunction, ProcessFunction)

"""Functions of a stream and a broadcast stream, whose records reach all subtasks and fill a map on each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._api.functions.basic import TwoInputFunction
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._api.state.descriptors import StateDescriptor
    from penstock._api.state.kinds import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState
    from penstock._api.time_domain import TimeDomain
    from penstock._api.timer_service import TimerService

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class BaseBroadcastProcessFunction(TwoInputFunction):
    """The base of both kinds of broadcast functions.

    Source: org.apache.flink.streaming.api.functions.co.BaseBroadcastProcessFunction.
    """

    class BaseContext(ABC):
        """The context of the current record."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the record's timestamp in milliseconds since the epoch; -2**63 if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark in milliseconds since the epoch; -2**63 before the first one."""

    class Context(BaseContext):
        """The context of a broadcast record, with writable broadcast state."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Return a broadcast map.

            Args:
                state_descriptor: A descriptor that was given to ``broadcast``.

            Raises:
                UnsupportedOperationError: The descriptor was not given to ``broadcast``.
            """

    class ReadOnlyContext(BaseContext):
        """The context of a record that is not broadcast, with read-only broadcast state."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
            """Return a broadcast map for reading; a change would exist on this subtask alone.

            Args:
                state_descriptor: A descriptor that was given to ``broadcast``.

            Raises:
                UnsupportedOperationError: The descriptor was not given to ``broadcast``.
            """


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Processes the records of a stream with the help of a map that broadcast records fill.

    Returned or yielded values go to the main output, and pairs of an :class:`~penstock.datastream.OutputTag` and a
    value to that side output. The order between records and broadcast records is not defined.

    Source: org.apache.flink.streaming.api.functions.co.BroadcastProcessFunction.

    Example:
        >>> from penstock.datastream.state import MapStateDescriptor
        >>> LIMITS = MapStateDescriptor("limits")
        >>> class BelowLimit(BroadcastProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         limit = ctx.get_broadcast_state(LIMITS).get("limit")
        ...         if limit is None or value < limit:
        ...             yield value
        ...
        ...     def process_broadcast_element(self, value, ctx):
        ...         ctx.get_broadcast_state(LIMITS).put("limit", value)
    """

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """The context of a broadcast record, with writable broadcast state."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """The context of a record that is not broadcast, with read-only broadcast state."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[OUT] | None:
        """Return or yield the results of a record; None means none.

        Args:
            value: The record.
            ctx: Valid during this call only.
        """

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastProcessFunction.Context) -> Iterable[OUT] | None:
        """Return or yield the results of a broadcast record; None means none.

        Every subtask gets every broadcast record and must handle it in the same way, whatever their order.

        Args:
            value: The broadcast record.
            ctx: Valid during this call only.
        """


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A broadcast function of a keyed stream, with keyed state and timers.

    Source: org.apache.flink.streaming.api.functions.co.KeyedBroadcastProcessFunction.

    Example:
        >>> from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
        >>> LIMITS = MapStateDescriptor("limits")
        >>> class OverLimit(KeyedBroadcastProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.total = runtime_context.get_state(ValueStateDescriptor("total"))
        ...
        ...     def process_element(self, value, ctx):
        ...         self.total.update((self.total.value() or 0) + value)
        ...         if self.total.value() > (ctx.get_broadcast_state(LIMITS).get("total") or 100):
        ...             yield ctx.get_current_key(), self.total.value()
        ...
        ...     def process_broadcast_element(self, value, ctx):
        ...         ctx.get_broadcast_state(LIMITS).put("total", value)
        ...         ctx.apply_to_keyed_state(ValueStateDescriptor("total"), lambda key, total: total.clear())
    """

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """The context of a broadcast record, without a current key."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], object]
        ) -> None:
            """Call a function for each key of this subtask that has a value in a keyed state; PyFlink has no such call.

            Args:
                state_descriptor: The keyed state.
                function: Takes a key and the state of that key, which it may change.
            """

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """The context of a record of the keyed stream."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks, and the timers of this key."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the record or timer."""

    class OnTimerContext(ReadOnlyContext, ABC):
        """The context of the current timer."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock of the timer."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[OUT] | None:
        """Return or yield the results of a record; None means none.

        Args:
            value: The record.
            ctx: Valid during this call only.
        """

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[OUT] | None:
        """Return or yield the results of a broadcast record; None means none.

        Every subtask gets every broadcast record and must handle it in the same way, whatever their order.

        Args:
            value: The broadcast record.
            ctx: Valid during this call only.
        """

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[OUT] | None:
        """Return or yield the results of a timer; None means none.

        Args:
            timestamp: The time that the timer was set for, in milliseconds since the epoch.
            ctx: Valid during this call only.
        """


show(
    "penstock.datastream.functions",
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)

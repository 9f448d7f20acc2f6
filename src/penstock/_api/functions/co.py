"""Functions of two connected streams: a method for the records of each, one life and, where keyed, one state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._api.functions.basic import TwoInputFunction
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.time_domain import TimeDomain
    from penstock._api.timer_service import TimerService

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class CoMapFunction(TwoInputFunction, Generic[IN1, IN2, OUT]):
    """At most one record out for each record of either stream; None is no record, as in PyFlink.

    Source: org.apache.flink.streaming.api.functions.co.CoMapFunction.

    Example:
        >>> class Either(CoMapFunction):
        ...     def map1(self, value):
        ...         return "number", value
        ...
        ...     def map2(self, value):
        ...         return "word", value.upper()
        >>> Either().map2("abc")
        ('word', 'ABC')
    """

    @abstractmethod
    def map1(self, value: IN1) -> OUT:
        """Return what becomes of a record of the first stream; None stands for nothing."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT:
        """Return what becomes of a record of the second stream; None stands for nothing."""


class CoFlatMapFunction(TwoInputFunction, Generic[IN1, IN2, OUT]):
    """Any number of records out for each record of either stream.

    Source: org.apache.flink.streaming.api.functions.co.CoFlatMapFunction.

    Example:
        >>> class Letters(CoFlatMapFunction):
        ...     def flat_map1(self, value):
        ...         yield from value
        ...
        ...     def flat_map2(self, value):
        ...         return None
        >>> list(Letters().flat_map1("abc"))
        ['a', 'b', 'c']
    """

    @abstractmethod
    def flat_map1(self, value: IN1) -> Iterable[OUT] | None:
        """Return, or yield, what becomes of a record of the first stream; None stands for nothing."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Iterable[OUT] | None:
        """Return, or yield, what becomes of a record of the second stream; None stands for nothing."""


class CoProcessFunction(TwoInputFunction, Generic[IN1, IN2, OUT]):
    """Any number of records out for each record of either stream, to the main output and to side outputs.

    What is returned or yielded goes to the main output; a pair of an :class:`~penstock.datastream.OutputTag` and a
    value goes to that side output. The watermark is the smaller one of the two streams.

    Source: org.apache.flink.streaming.api.functions.co.CoProcessFunction.

    Example:
        >>> class Stamp(CoProcessFunction):
        ...     def process_element1(self, value, ctx):
        ...         yield "first", ctx.timestamp(), value
        ...
        ...     def process_element2(self, value, ctx):
        ...         yield "second", ctx.timestamp(), value
    """

    class Context(ABC):
        """What a function can ask about the current record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks; timers need keyed streams, and setting one here raises."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the record's timestamp in milliseconds since the epoch; -2**63 when it has none."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: CoProcessFunction.Context) -> Iterable[OUT] | None:
        """Return, or yield, what becomes of a record of the first stream; None stands for nothing.

        Args:
            value: The record.
            ctx: Valid during this call only.
        """

    @abstractmethod
    def process_element2(self, value: IN2, ctx: CoProcessFunction.Context) -> Iterable[OUT] | None:
        """Return, or yield, what becomes of a record of the second stream; None stands for nothing.

        Args:
            value: The record.
            ctx: Valid during this call only.
        """


class KeyedCoProcessFunction(TwoInputFunction, Generic[KEY, IN1, IN2, OUT]):
    """A process function over the records of one key of two streams, which share the key's state and timers.

    Source: org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction.

    Example:
        >>> from penstock.datastream.state import ValueStateDescriptor
        >>> class NewestPrice(KeyedCoProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.price = runtime_context.get_state(ValueStateDescriptor("price"))
        ...
        ...     def process_element1(self, order, ctx):
        ...         yield order, self.price.value()
        ...
        ...     def process_element2(self, price, ctx):
        ...         self.price.update(price)
    """

    class Context(ABC):
        """What a function can ask about the current record."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the record or timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks, and where timers of this key are set and deleted."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the timestamp of the record or timer in milliseconds since the epoch; -2**63 without one."""

    class OnTimerContext(Context):
        """What a function can ask about the current timer."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return which of the two clocks the timer belongs to."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: KeyedCoProcessFunction.Context) -> Iterable[OUT] | None:
        """Return, or yield, what becomes of a record of the first stream; None stands for nothing.

        Args:
            value: The record.
            ctx: Valid during this call only.
        """

    @abstractmethod
    def process_element2(self, value: IN2, ctx: KeyedCoProcessFunction.Context) -> Iterable[OUT] | None:
        """Return, or yield, what becomes of a record of the second stream; None stands for nothing.

        Args:
            value: The record.
            ctx: Valid during this call only.
        """

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[OUT] | None:
        """Return, or yield, what comes of a timer; None stands for nothing.

        Args:
            timestamp: The time that the timer was set for, in milliseconds since the epoch.
            ctx: Valid during this call only.
        """


show("penstock.datastream.functions", CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction)

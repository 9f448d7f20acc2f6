"""Functions of two connected streams, with a method for each; on keyed streams both share the keyed state."""

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
    """Maps each record of two streams to at most one record; None means none, as in PyFlink.

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
        """Return the result of a record of the first stream; None means none."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT:
        """Return the result of a record of the second stream; None means none."""


class CoFlatMapFunction(TwoInputFunction, Generic[IN1, IN2, OUT]):
    """Maps each record of two streams to any number of records.

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
        """Return or yield the results of a record of the first stream; None means none."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Iterable[OUT] | None:
        """Return or yield the results of a record of the second stream; None means none."""


class CoProcessFunction(TwoInputFunction, Generic[IN1, IN2, OUT]):
    """Processes the records of two streams, with a main output and side outputs.

    Returned or yielded values go to the main output, and pairs of an :class:`~penstock.datastream.OutputTag` and a
    value to that side output. The watermark is the smaller one of the two streams.

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
        """The context of the current record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks; timers need keyed streams, and setting one here raises."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the record's timestamp in milliseconds since the epoch; -2**63 if it has none."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: CoProcessFunction.Context) -> Iterable[OUT] | None:
        """Return or yield the results of a record of the first stream; None means none.

        Args:
            value: The record.
            ctx: Valid during this call only.
        """

    @abstractmethod
    def process_element2(self, value: IN2, ctx: CoProcessFunction.Context) -> Iterable[OUT] | None:
        """Return or yield the results of a record of the second stream; None means none.

        Args:
            value: The record.
            ctx: Valid during this call only.
        """


class KeyedCoProcessFunction(TwoInputFunction, Generic[KEY, IN1, IN2, OUT]):
    """Processes the records of two keyed streams, which share the state and the timers of each key.

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
    def process_element1(self, value: IN1, ctx: KeyedCoProcessFunction.Context) -> Iterable[OUT] | None:
        """Return or yield the results of a record of the first stream; None means none.

        Args:
            value: The record.
            ctx: Valid during this call only.
        """

    @abstractmethod
    def process_element2(self, value: IN2, ctx: KeyedCoProcessFunction.Context) -> Iterable[OUT] | None:
        """Return or yield the results of a record of the second stream; None means none.

        Args:
            value: The record.
            ctx: Valid during this call only.
        """

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[OUT] | None:
        """Return or yield the results of a timer; None means none.

        Args:
            timestamp: The time that the timer was set for, in milliseconds since the epoch.
            ctx: Valid during this call only.
        """


show("penstock.datastream.functions", CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction)

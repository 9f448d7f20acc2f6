"""Interval joins: two keyed streams, the bounds of the interval, and the function for pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from penstock._api.functions.joins import ProcessJoinFunction
from penstock._api.output_tag import OutputTag
from penstock._builders.checks import check_function
from penstock._engine.operators.factories.keyed import IntervalJoinFactory
from penstock._shelf import show
from penstock.common.arguments import instance
from penstock.common.time import millis_of_time
from penstock.errors import KeyRequiredError, UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._builders.data_stream import DataStream
    from penstock._builders.keyed_stream import KeyedStream
    from penstock.common.time import Duration, Time
    from penstock.common.typeinfo import TypeInformation

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")


class IntervalJoin(Generic[IN1, IN2]):
    """Two keyed streams, made by :meth:`KeyedStream.interval_join`; :meth:`between` sets the interval.

    Raises:
        KeyRequiredError: The second stream has no key.

    Source: org.apache.flink.streaming.api.datastream.KeyedStream.IntervalJoin.
    """

    def __init__(self, stream1: KeyedStream[IN1, Any], stream2: KeyedStream[IN2, Any]) -> None:
        if stream2._key_selector is None:
            raise KeyRequiredError(
                "interval_join", stream2._origin_name(), "call key_by(...) on both streams before it"
            )
        self._streams = stream1, stream2

    def in_event_time(self) -> Self:
        """Join by the timestamps of the records, which is the default."""
        return self

    def in_processing_time(self) -> NoReturn:
        """Refuse, as Flink does.

        Raises:
            UnsupportedOperationError: Always.
        """
        operation = "interval_join().in_processing_time()"
        raise UnsupportedOperationError(operation, "interval joins go by the timestamps of the records")

    def between(self, lower_bound: Time | Duration, upper_bound: Time | Duration) -> IntervalJoined[IN1, IN2]:
        """Pair each record of the first stream with those of the second one that are in an interval around it.

        Args:
            lower_bound: The start of the interval, relative to the record's timestamp; it may be negative.
            upper_bound: The end of the interval, relative to the record's timestamp. Both bounds belong to the
                interval.

        Raises:
            TypeError: One of the bounds is neither a Time nor a Duration.
            ValueError: The lower bound is above the upper one.
        """
        lower_ms, upper_ms = millis_of_time("lower_bound", lower_bound), millis_of_time("upper_bound", upper_bound)
        return IntervalJoined(*self._streams, lower_ms, upper_ms)


class IntervalJoined(Generic[IN1, IN2]):
    """Two keyed streams and an interval, made by :meth:`IntervalJoin.between`; :meth:`process` joins them.

    Source: org.apache.flink.streaming.api.datastream.KeyedStream.IntervalJoined.

    Example:
        >>> from penstock.common.time import Time
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> from penstock.datastream.functions import ProcessJoinFunction
        >>> class Both(ProcessJoinFunction):
        ...     def process_element(self, left, right, ctx):
        ...         yield left, right
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> clicks, views = (env.from_collection([("a", 1)]).key_by(lambda pair: pair[0]) for _ in range(2))
        >>> clicks.interval_join(views).between(Time.seconds(-5), Time.seconds(0)).process(Both()).get_name()
        'Interval Join'
    """

    def __init__(
        self, stream1: KeyedStream[IN1, Any], stream2: KeyedStream[IN2, Any], lower_ms: int, upper_ms: int
    ) -> None:
        self._streams = stream1, stream2
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._is_lower_exclusive = self._is_upper_exclusive = False
        self._late: list[str | None] = [None, None]
        self._bounds()

    def lower_bound_exclusive(self) -> Self:
        """Exclude the lower bound from the interval.

        Raises:
            ValueError: Nothing is left of it.
        """
        self._is_lower_exclusive = True
        self._bounds()
        return self

    def upper_bound_exclusive(self) -> Self:
        """Exclude the upper bound from the interval.

        Raises:
            ValueError: Nothing is left of it.
        """
        self._is_upper_exclusive = True
        self._bounds()
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Send late records of the first stream to a side output in place of dropping them.

        Args:
            output_tag: The output; ``get_side_output`` of the resulting stream returns it.

        Raises:
            TypeError: The tag is no OutputTag.
        """
        return self._side_output(0, output_tag)

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Send late records of the second stream to a side output in place of dropping them.

        Args:
            output_tag: The output; ``get_side_output`` of the resulting stream returns it.

        Raises:
            TypeError: The tag is no OutputTag.
        """
        return self._side_output(1, output_tag)

    def process(
        self, process_join_function: ProcessJoinFunction[IN1, IN2, OUT], output_type: TypeInformation | None = None
    ) -> DataStream[OUT]:
        """Call a function for each pair; its results have the later timestamp of the two.

        Args:
            process_join_function: The function.
            output_type: The type of what goes to the main output; records are converted to it.

        Raises:
            TypeError: The function is no ProcessJoinFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("process_join_function", process_join_function, ProcessJoinFunction, or_callable=False)
        stream1, stream2 = self._streams
        lower_ms, upper_ms = self._bounds()
        factory = IntervalJoinFactory(
            process_join_function,
            stream1._key_selector,
            stream2._key_selector,
            lower_ms=lower_ms,
            upper_ms=upper_ms,
            late_tags=(self._late[0], self._late[1]),
        )
        return stream1._transform(factory, "Interval Join", output_type, second=stream2)

    def _bounds(self) -> tuple[int, int]:
        """Return the bounds, both included."""
        lower_ms = self._lower_ms + self._is_lower_exclusive
        upper_ms = self._upper_ms - self._is_upper_exclusive
        if lower_ms > upper_ms:
            marks = "(" if self._is_lower_exclusive else "[", ")" if self._is_upper_exclusive else "]"
            msg = f"The interval {marks[0]}{self._lower_ms} ms, {self._upper_ms} ms{marks[1]} of the join is empty."
            raise ValueError(msg)
        return lower_ms, upper_ms

    def _side_output(self, side: int, output_tag: OutputTag) -> Self:
        self._late[side] = instance("output_tag", output_tag, OutputTag).tag_id
        return self


show("penstock.datastream.data_stream", IntervalJoin, IntervalJoined)

"""Window joins and co-groups: the two streams become one stream of tagged records, which is windowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from penstock._api.functions.joins import CoGroupFunction, FlatJoinFunction, JoinFunction
from penstock._builders.checks import check_function
from penstock._builders.windows.joined_functions import KeyOfTagged, OfBoth, Tag, grouping, joining
from penstock._engine.operators.factories.functions import MapFactory
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._api.functions.basic import KeySelector
    from penstock._api.windows.evictors import Evictor
    from penstock._api.windows.triggers import Trigger
    from penstock._api.windows.window import WindowAssigner
    from penstock._builders.data_stream import DataStream
    from penstock._builders.windows.windowed import WindowedStream
    from penstock.common.typeinfo import TypeInformation

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
V = TypeVar("V", bound="WindowsOfBoth")


class WindowsOfBoth:
    """Windows over two streams; trigger and evictor get pairs of the stream's number (0 or 1) and a record."""

    #: Of the operator.
    _name: ClassVar = ""

    def __init__(self, windows: WindowedStream[Any, Any, Any]) -> None:
        self._windows = windows

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set the trigger, as :meth:`WindowedStream.trigger` does."""
        self._windows.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Set the evictor, as :meth:`WindowedStream.evictor` does."""
        self._windows.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Keep windows open for late records, as :meth:`WindowedStream.allowed_lateness` does.

        Args:
            time_ms: How long after a window's end, in milliseconds of the watermark.
        """
        self._windows.allowed_lateness(time_ms)
        return self

    def _apply(self, function: OfBoth, output_type: TypeInformation | None) -> DataStream[Any]:
        return self._windows.apply(function, output_type).name(self._name)


class JoinedWindows(WindowsOfBoth, Generic[IN1, IN2]):
    """The windows of a join.

    Source: org.apache.flink.streaming.api.datastream.JoinedStreams.WithWindow.
    """

    _name = "Window Join"

    def apply(
        self,
        function: JoinFunction[IN1, IN2, OUT] | FlatJoinFunction[IN1, IN2, OUT] | Callable[[IN1, IN2], OUT],
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Call a function for each pair of records with one key in one window.

        Args:
            function: The function; a callable makes one record of each pair, as a JoinFunction does.
            output_type: The type of the output.

        Raises:
            TypeError: The function is of another kind.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("function", function, JoinFunction, FlatJoinFunction)
        return self._apply(joining(function), output_type)


class CoGroupedWindows(WindowsOfBoth, Generic[IN1, IN2]):
    """The windows of a co-group.

    Source: org.apache.flink.streaming.api.datastream.CoGroupedStreams.WithWindow.
    """

    _name = "Co-Group"

    def apply(
        self, function: CoGroupFunction[IN1, IN2, OUT], output_type: TypeInformation | None = None
    ) -> DataStream[OUT]:
        """Call a function with all records of a key and window, in one list for each stream.

        Args:
            function: The function.
            output_type: The type of the output.

        Raises:
            TypeError: The function is no CoGroupFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("function", function, CoGroupFunction, or_callable=False)
        return self._apply(grouping(function), output_type)


class EqualTo(Generic[V]):
    """Two streams with their keys; :meth:`window` sets the windows."""

    def __init__(self, tagged: DataStream[Any], key_selector: KeyOfTagged, kind: type[V]) -> None:
        self._tagged = tagged
        self._key_selector = key_selector
        self._kind = kind

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> V:
        """Group the records of each key into windows.

        Args:
            window_assigner: Assigns windows to records; it gets pairs of the stream's number (0 or 1) and the record.

        Raises:
            TypeError: The assigner is no WindowAssigner.
        """
        return self._kind(self._tagged.key_by(self._key_selector).window(window_assigner))


class Where(Generic[IN1, IN2, V]):
    """Two streams with the key of the first; :meth:`equal_to` gives that of the second."""

    def __init__(self, stream1: DataStream[IN1], stream2: DataStream[IN2], key_selector: Any, kind: type[V]) -> None:
        self._streams = stream1, stream2
        self._key_selector = key_selector
        self._kind = kind

    def equal_to(
        self, key_selector: KeySelector[IN2, Any] | Callable[[IN2], Any] | str, key_type: TypeInformation | None = None
    ) -> EqualTo[V]:
        """Set the key of the second stream.

        Args:
            key_selector: As for :meth:`DataStream.key_by`.
            key_type: The type that the keys are converted to.
        """
        selector = self._streams[1].key_by(key_selector, key_type)._key_selector
        first, second = (_tagged(stream, side) for side, stream in enumerate(self._streams))
        return EqualTo(first.union(second), KeyOfTagged(self._key_selector, selector), self._kind)


class _TwoStreams(Generic[IN1, IN2, V]):
    """Two streams whose records are brought together by key and window."""

    #: The class of the windows.
    _kind: ClassVar[type[Any]]

    def __init__(self, stream1: DataStream[IN1], stream2: DataStream[IN2]) -> None:
        self._streams = stream1, stream2

    def where(
        self, key_selector: KeySelector[IN1, Any] | Callable[[IN1], Any] | str, key_type: TypeInformation | None = None
    ) -> Where[IN1, IN2, V]:
        """Say what the key of a record of the first stream is.

        Args:
            key_selector: As for :meth:`DataStream.key_by`.
            key_type: The type that the keys are converted to.
        """
        selector = self._streams[0].key_by(key_selector, key_type)._key_selector
        return Where(*self._streams, selector, self._kind)


class JoinedStreams(_TwoStreams[IN1, IN2, "JoinedWindows[IN1, IN2]"], Generic[IN1, IN2]):
    """Two streams to be joined by key and window; made by :meth:`DataStream.join`.

    Source: org.apache.flink.streaming.api.datastream.JoinedStreams.

    Example:
        >>> from penstock.common.time import Time
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> from penstock.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> orders, prices = env.from_collection([("a", 2)]), env.from_collection([("a", 0.5)])
        >>> by_name = orders.join(prices).where(lambda order: order[0]).equal_to(lambda price: price[0])
        >>> minutes = by_name.window(TumblingEventTimeWindows.of(Time.minutes(1)))
        >>> minutes.apply(lambda order, price: (order[0], order[1] * price[1])).get_name()
        'Window Join'
    """

    _kind: ClassVar[type[Any]] = JoinedWindows


class CoGroupedStreams(_TwoStreams[IN1, IN2, "CoGroupedWindows[IN1, IN2]"], Generic[IN1, IN2]):
    """Two streams to be co-grouped by key and window; made by :meth:`DataStream.co_group`.

    Source: org.apache.flink.streaming.api.datastream.CoGroupedStreams.

    Example:
        >>> from penstock.common.time import Time
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> from penstock.datastream.functions import CoGroupFunction
        >>> from penstock.datastream.window import TumblingEventTimeWindows
        >>> class Sizes(CoGroupFunction):
        ...     def co_group(self, first, second):
        ...         yield len(first), len(second)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> both = env.from_collection([1]).co_group(env.from_collection([-1])).where(abs).equal_to(abs)
        >>> both.window(TumblingEventTimeWindows.of(Time.minutes(1))).apply(Sizes()).get_name()
        'Co-Group'
    """

    _kind: ClassVar[type[Any]] = CoGroupedWindows


def _tagged(stream: DataStream[Any], side: int) -> DataStream[Any]:
    """Return the records of a stream, each with the number of its stream and without the stream's partitioning."""
    origin: DataStream[Any] = getattr(stream, "_origin", stream)
    return origin._transform(MapFactory(Tag(side)), "Tag", None)


show("penstock.datastream.data_stream", CoGroupedStreams, JoinedStreams)

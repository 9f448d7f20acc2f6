"""Connected streams: two streams of different kinds that one function reads, and broadcast streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._api.functions.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock._api.functions.co import CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from penstock._builders.checks import check_function
from penstock._builders.keyed_functions import KeyedCoFlatMap, KeyedCoMap, KeyedCoProcess
from penstock._engine.operators.factories.functions import (
    BroadcastProcessFactory,
    CoFlatMapFactory,
    CoMapFactory,
    CoProcessFactory,
)
from penstock._engine.operators.factories.keyed import KeyedBroadcastProcessFactory, KeyedCoProcessFactory
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._api.functions.basic import KeySelector
    from penstock._api.state.kinds import MapStateDescriptor
    from penstock._builders.data_stream import DataStream
    from penstock._engine.operators.operator_factory import OperatorFactory
    from penstock.common.typeinfo import TypeInformation

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")


class ConnectedStreams(Generic[IN1, IN2]):
    """Two streams whose records one function reads, and which keep their types; made by :meth:`DataStream.connect`.

    If both streams have keys, one subtask gets all records of a key, and the function may use keyed state and timers.

    Source: org.apache.flink.streaming.api.datastream.ConnectedStreams.

    Example:
        >>> from penstock.datastream import CoMapFunction, StreamExecutionEnvironment
        >>> class Either(CoMapFunction):
        ...     def map1(self, value):
        ...         return "number", value
        ...
        ...     def map2(self, value):
        ...         return "word", value
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers, words = env.from_collection([1, 2]), env.from_collection(["a", "b"])
        >>> numbers.connect(words).map(Either()).get_name()
        'Co-Map'
    """

    def __init__(self, stream1: DataStream[IN1], stream2: DataStream[IN2]) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: KeySelector[IN1, Any] | Callable[[IN1], Any],
        key_selector2: KeySelector[IN2, Any] | Callable[[IN2], Any],
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams[IN1, IN2]:
        """Key both streams, so that one subtask gets all records of a key.

        Args:
            key_selector1: Returns the key of a record of the first stream.
            key_selector2: Returns the key of a record of the second stream; equal keys meet.
            key_type: The type that the keys are converted to.

        Raises:
            TypeError: One of the selectors is neither a KeySelector nor a callable.
            UnpicklableFunctionError: One of the selectors captured something that cannot be pickled.
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction[IN1, IN2, OUT], output_type: TypeInformation | None = None) -> DataStream[OUT]:
        """Make at most one record out of each record of either stream; None gives none, as in PyFlink.

        Args:
            func: The function; its ``open`` may take keyed state when both streams have a key.
            output_type: The type of what it returns; records are converted to it.

        Raises:
            TypeError: The function is no CoMapFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, CoMapFunction, or_callable=False)
        if self._key_selectors() is not None:
            return self._keyed("Co-Map", KeyedCoMap(func), output_type)
        return self._transform(CoMapFactory(func), "Co-Map", output_type)

    def flat_map(
        self, func: CoFlatMapFunction[IN1, IN2, OUT], output_type: TypeInformation | None = None
    ) -> DataStream[OUT]:
        """Make any number of records out of each record of either stream.

        Args:
            func: The function; its ``open`` may take keyed state when both streams have a key.
            output_type: The type of the records that it makes; they are converted to it.

        Raises:
            TypeError: The function is no CoFlatMapFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, CoFlatMapFunction, or_callable=False)
        if self._key_selectors() is not None:
            return self._keyed("Co-Flat Map", KeyedCoFlatMap(func), output_type)
        return self._transform(CoFlatMapFactory(func), "Co-Flat Map", output_type)

    def process(
        self,
        func: CoProcessFunction[IN1, IN2, OUT] | KeyedCoProcessFunction[Any, IN1, IN2, OUT],
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Run a process function over both streams: timestamps, watermarks, side outputs and, with keys, timers.

        Args:
            func: The function; a KeyedCoProcessFunction needs a key on both streams.
            output_type: The type of what goes to the main output; records are converted to it.

        Raises:
            TypeError: The function is of neither kind, or needs keys that the streams do not have.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, CoProcessFunction, KeyedCoProcessFunction, or_callable=False)
        if self._key_selectors() is not None:
            keyed = KeyedCoProcess(func) if isinstance(func, CoProcessFunction) else func
            return self._keyed("Keyed Co-Process", keyed, output_type)
        if isinstance(func, KeyedCoProcessFunction):
            msg = f"{type(func).__name__} needs a key on both streams: call key_by(...) on the connected streams first."
            raise TypeError(msg)
        return self._transform(CoProcessFactory(func), "Co-Process", output_type)

    # ----------------------------------------------------------------------------------------------------- machinery

    def _key_selectors(self) -> tuple[object, object] | None:
        """Return the key selectors, None unless both streams have one."""
        selectors = self.stream1._key_selector, self.stream2._key_selector
        return None if None in selectors else selectors

    def _keyed(self, name: str, function: object, output_type: TypeInformation | None) -> DataStream[Any]:
        selectors = self._key_selectors()
        assert selectors is not None
        return self._transform(KeyedCoProcessFactory(function, *selectors), name, output_type)

    def _transform(self, factory: OperatorFactory, name: str, output_type: TypeInformation | None) -> DataStream[Any]:
        return self.stream1._transform(factory, name, output_type, second=self.stream2)


class BroadcastStream(Generic[IN1]):
    """A stream whose records go to every subtask, to fill broadcast maps there; made by :meth:`DataStream.broadcast`.

    Connect another stream with it: ``stream.connect(broadcast_stream)``.

    Source: org.apache.flink.streaming.api.datastream.BroadcastStream.
    """

    def __init__(
        self, input_stream: DataStream[IN1], broadcast_state_descriptors: Sequence[MapStateDescriptor]
    ) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors: list[MapStateDescriptor] = list(broadcast_state_descriptors)


class BroadcastConnectedStream(Generic[IN1, IN2]):
    """A stream, keyed or not, and a broadcast one, read by one function; made by :meth:`DataStream.connect`.

    Source: org.apache.flink.streaming.api.datastream.BroadcastConnectedStream.

    Example:
        >>> from penstock.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
        >>> from penstock.datastream.state import MapStateDescriptor
        >>> NAMES = MapStateDescriptor("names")
        >>> class Named(BroadcastProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield value, ctx.get_broadcast_state(NAMES).get(value)
        ...
        ...     def process_broadcast_element(self, value, ctx):
        ...         ctx.get_broadcast_state(NAMES).put(*value)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> names = env.from_collection([(1, "one"), (2, "two")]).broadcast(NAMES)
        >>> env.from_collection([1, 2]).connect(names).process(Named()).get_name()
        'Co-Process-Broadcast'
    """

    def __init__(
        self,
        non_broadcast_stream: DataStream[IN1],
        broadcast_stream: BroadcastStream[IN2],
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors: list[MapStateDescriptor] = list(broadcast_state_descriptors)

    def process(
        self,
        func: BroadcastProcessFunction[IN1, IN2, OUT] | KeyedBroadcastProcessFunction[Any, IN1, IN2, OUT],
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Run a function over both streams.

        Args:
            func: A KeyedBroadcastProcessFunction where the other stream has a key, else a BroadcastProcessFunction.
            output_type: The type of what goes to the main output; records are converted to it.

        Raises:
            TypeError: The function is of another kind.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        stream, second = self.non_broadcast_stream, self.broadcast_stream.input_stream
        descriptors = tuple(self.broadcast_state_descriptors)
        if stream._key_selector is None:
            check_function("func", func, BroadcastProcessFunction, or_callable=False)
            factory = BroadcastProcessFactory(func, descriptors)
            return stream._transform(factory, "Co-Process-Broadcast", output_type, second=second)
        check_function("func", func, KeyedBroadcastProcessFunction, or_callable=False)
        keyed = KeyedBroadcastProcessFactory(func, stream._key_selector, descriptors)
        return stream._transform(keyed, "Co-Process-Broadcast-Keyed", output_type, second=second)


show("penstock.datastream.data_stream", BroadcastConnectedStream, BroadcastStream, ConnectedStreams)

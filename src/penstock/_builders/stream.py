"""DataStream and KeyedStream, in one module because each makes the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, cast, overload

from penstock._api.functions.basic import FilterFunction, FlatMapFunction, KeySelector, MapFunction, ReduceFunction
from penstock._api.functions.process import KeyedProcessFunction, ProcessFunction
from penstock._api.output_tag import OutputTag
from penstock._builders.aggregations import Projection
from penstock._builders.batch_functions import BatchFunctions
from penstock._builders.caches import CachedStream
from penstock._builders.checks import check_function, check_type, check_watermark_strategy, checked_key_selector
from penstock._builders.connected import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from penstock._builders.declared_fields import projected_types
from penstock._builders.field_aggregations import FieldAggregations
from penstock._builders.interval_join import IntervalJoining
from penstock._builders.keyed_functions import KeyedFilter, KeyedFlatMap, KeyedMap
from penstock._builders.outputs import StreamOutputs
from penstock._builders.partitioning import StreamPartitioning
from penstock._builders.typed_functions import typed_key, typed_reduce
from penstock._builders.windows.windowing import AllWindowing, KeyedWindowing
from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.graph.pickling import dumps_members
from penstock._engine.graph.stream_graph import Partitioning, StreamEdge, StreamNode
from penstock._engine.operators.factories.functions import (
    FilterFactory,
    FlatMapFactory,
    MapFactory,
    ProcessFactory,
    WatermarksFactory,
)
from penstock._engine.operators.factories.keyed import KeyedProcessFactory, ReduceFactory
from penstock._shelf import show
from penstock.common.arguments import instance
from penstock.common.config_check import say_without_effect
from penstock.common.typeinfo import TypeInformation, Types
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._engine.operators.operator_factory import OperatorFactory
    from penstock.common.watermark_strategy import WatermarkStrategy

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")
K2 = TypeVar("K2")

_SETTINGS = {
    "name": "Set name",
    "get_name": "Get name",
    "uid": "Set uid",
    "set_parallelism": "Set parallelism",
    "set_max_parallelism": "Set max parallelism",
    "force_non_parallel": "Set force non-parallel",
    "set_buffer_timeout": "Set buffer timeout",
    "start_new_chain": "Start new chain",
    "disable_chaining": "Disable chaining",
    "slot_sharing_group": "Setting slot sharing group",
    "set_description": "Set description",
    "get_side_output": "Get side output",
    "cache": "Cache",
}


class DataStream(AllWindowing[T], BatchFunctions[T], StreamPartitioning[T], StreamOutputs[T]):
    """A stream of records, made by the environment or out of another stream.

    Every method that takes a function takes a Function object or a plain callable. The function is pickled at the call,
    so a variable that it captured may change afterwards without effect.

    Source: org.apache.flink.streaming.api.datastream.DataStream.

    Example:
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> words = env.from_collection(["to be", "or not"]).flat_map(str.split).name("words")
        >>> words.key_by(lambda word: word[0]).reduce(lambda a, b: a + b).get_name()
        'Reduce'
    """

    # --------------------------------------------------------------------------------------------- record by record

    def map(
        self, func: MapFunction[T, U] | Callable[[T], U], output_type: TypeInformation | None = None
    ) -> DataStream[U]:
        """Make one record out of each record.

        Args:
            func: The function.
            output_type: The type of what it returns; records are converted to it.

        Raises:
            TypeError: The function is neither a MapFunction nor a callable.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, MapFunction)
        return self._transform(MapFactory(func), "Map", output_type)

    def flat_map(
        self,
        func: FlatMapFunction[T, U] | Callable[[T], Iterable[U] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]:
        """Make any number of records out of each record.

        Args:
            func: The function; it returns an iterable, or None for no record.
            output_type: The type of the records that it makes; they are converted to it.

        Raises:
            TypeError: The function is neither a FlatMapFunction nor a callable.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, FlatMapFunction)
        return self._transform(FlatMapFactory(func), "FlatMap", output_type)

    def filter(self, func: FilterFunction[T] | Callable[[T], object]) -> DataStream[T]:
        """Keep the records for which a function is true.

        Args:
            func: The function.

        Raises:
            TypeError: The function is neither a FilterFunction nor a callable.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, FilterFunction)
        return self._transform(FilterFactory(func), "Filter", self._type_info, conform=False)

    def process(self, func: ProcessFunction[T, U], output_type: TypeInformation | None = None) -> DataStream[U]:
        """Run a process function over the records: timestamps, watermarks and side outputs.

        Args:
            func: The function; state and timers need ``key_by`` first.
            output_type: The type of what goes to the main output; records are converted to it.

        Raises:
            TypeError: The function is no ProcessFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, ProcessFunction, or_callable=False)
        return self._transform(ProcessFactory(func), "Process", output_type)

    def project(self, *field_indexes: int) -> DataStream[Any]:
        """Keep some fields of each tuple, in the given order.

        Raises:
            TypeError: The stream was not declared to hold tuples, or a field is no index.
            ValueError: There is no field.
            IndexError: The tuples have no such field.
        """
        output_type = Types.TUPLE(projected_types(self._type_info, field_indexes))
        return self._transform(MapFactory(Projection(field_indexes)), "Projection", output_type, conform=False)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream[T]:
        """Assign timestamps and watermarks, which replace existing ones.

        Args:
            watermark_strategy: Without a timestamp assigner, the records keep their timestamps. An alignment has no
                effect here: only sources can pause, so it belongs to ``from_source``.

        Raises:
            TypeError: The strategy is no WatermarkStrategy.
        """
        check_watermark_strategy(watermark_strategy)
        if watermark_strategy.alignment is not None:
            say_without_effect("An alignment in assign_timestamps_and_watermarks", "only sources can pause")
        factory, name = WatermarksFactory(watermark_strategy), "Timestamps/Watermarks"
        return self._transform(factory, name, self._type_info, conform=False, keep_size=True)

    # ------------------------------------------------------------------------------- several streams, several outputs

    def union(self, *streams: DataStream[T]) -> DataStream[T]:
        """Merge the records of several streams; a stream that is given twice is merged twice.

        Raises:
            TypeError: One of them is no stream.
            UnsupportedOperationError: One of them belongs to another environment.
        """
        for stream in streams:
            self._check_stream("union", stream)
        edges = self._edges + tuple(edge for stream in streams for edge in stream._edges)
        same = all(stream._type_info == self._type_info for stream in streams)
        return self._rewired(edges, self._type_info if same else Types.PICKLED_BYTE_ARRAY())

    @overload
    def connect(self, ds: DataStream[U]) -> ConnectedStreams[T, U]: ...

    @overload
    def connect(self, ds: BroadcastStream[U]) -> BroadcastConnectedStream[T, U]: ...

    def connect(
        self, ds: DataStream[U] | BroadcastStream[U]
    ) -> ConnectedStreams[T, U] | BroadcastConnectedStream[T, U]:
        """Connect this stream with another one, so that one function reads both and tells their records apart.

        Args:
            ds: The second stream; its records may be of another type, and they may be broadcast.

        Raises:
            TypeError: It is no stream.
            UnsupportedOperationError: It belongs to another environment.
        """
        if isinstance(ds, BroadcastStream):
            self._check_stream("connect", ds.input_stream)
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        self._check_stream("connect", ds)
        return ConnectedStreams(self, ds)

    def get_side_output(self, output_tag: OutputTag) -> DataStream[Any]:
        """Return a side output of the operator.

        Args:
            output_tag: Identifies the output by its id; its type, if it has one, is that of the records.

        Raises:
            TypeError: The tag is no OutputTag.
            UnsupportedOperationError: This stream is not the direct output of an operator.
        """
        instance("output_tag", output_tag, OutputTag)
        operator = self._operator_for("get_side_output")
        edge = self._pipeline.output(operator, output_tag.type_info, output_tag.tag_id)
        return self._rewired((edge,), output_tag.type_info)

    def cache(self) -> CachedDataStream[T]:
        """Keep the records of this stream for the program's later jobs, once a job in batch mode has computed them.

        The first job that uses the returned stream writes its records below the checkpoint directory, or else to a
        temporary one; later jobs read them, and run nothing that is before them. What is kept goes with the program,
        with ``invalidate()`` and with the environment's ``close()``. In streaming mode it keeps nothing.

        Raises:
            UnsupportedOperationError: The stream is neither that of an operator nor a side output.

        Example:
            >>> from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
            >>> env = StreamExecutionEnvironment.get_execution_environment()
            >>> _ = env.set_runtime_mode(RuntimeExecutionMode.BATCH)
            >>> squares = env.from_collection([1, 2, 3]).map(lambda number: number * number).cache()
            >>> type(squares).__name__
            'CachedDataStream'
        """
        if len(self._edges) != 1 or self._edges[0].partitioning is not None:
            self._operator_for("cache")
        (edge,) = self._edges
        node = self._pipeline.add_cache(edge)
        cached = CachedStream(node, self._declared_type())
        self._environment._caches.add(cached)
        return CachedDataStream(self, cached)

    # -------------------------------------------------------------------------------------------------- partitioning

    def key_by(
        self, key_selector: KeySelector[T, K] | Callable[[T], K] | str, key_type: TypeInformation | None = None
    ) -> KeyedStream[T, K]:
        """Partition the stream by key: one subtask gets all records of a key, and functions may use keyed state.

        Args:
            key_selector: Returns a record's key: None, numbers, str, bytes, dates and times, tuples, Rows, frozen
                dataclasses, enums and more; keys that are equal in Python are one key. A text is the name of a field of
                dicts and Rows; batches of columns are then partitioned by that column without conversion to rows (not
                in Flink).
            key_type: The type that the keys are converted to.

        Raises:
            TypeError: The selector is neither a KeySelector nor a callable.
            UnpicklableFunctionError: The selector captured something that cannot be pickled.
        """
        selector = typed_key(checked_key_selector("key_selector", key_selector), key_type)
        payload = dumps_members("KeyBy", {"key_selector": selector})
        edges = self._partitioned_edges(PartitionerKind.HASH, payload)
        return KeyedStream(self, edges, selector)

    # ----------------------------------------------------------------------------------------------------- machinery

    def _origin_name(self) -> str:
        return " and ".join(str(edge.source) for edge in self._edges)

    def _check_stream(self, method: str, stream: object) -> None:
        """Raise unless the value is a stream of this environment."""
        if not isinstance(stream, DataStream):
            msg = f"{method}() takes streams, not {stream!r}."
            raise TypeError(msg)
        if stream._environment is not self._environment:
            operation = f"{method}() with a stream of another environment"
            raise UnsupportedOperationError(operation, "make both streams from one StreamExecutionEnvironment")

    def _transform(
        self,
        factory: OperatorFactory,
        name: str,
        output_type: TypeInformation | None,
        *,
        second: DataStream[Any] | None = None,
        conform: bool = True,
        keep_size: bool = False,
    ) -> DataStream[Any]:
        """Add an operator that reads this stream, and perhaps a second one, and return its main output."""
        check_type("output_type", output_type)
        node = self._add(factory, name, second=second, keep_size=keep_size)
        return self._output_of(node, output_type, conform=conform)

    def _output_of(
        self, operator: StreamNode, output_type: TypeInformation | None, *, conform: bool = True
    ) -> DataStream[Any]:
        """Return the main output of an operator that reads this stream."""
        type_info = Types.PICKLED_BYTE_ARRAY() if output_type is None else output_type
        edge = self._pipeline.output(operator, type_info, conform=conform)
        return DataStream(self._environment, self._pipeline, (edge,), type_info, operator)

    def _rewired(self, edges: tuple[StreamEdge, ...], type_info: TypeInformation) -> DataStream[Any]:
        return DataStream(self._environment, self._pipeline, edges, type_info)

    def _partitioned(self, kind: PartitionerKind, payload: bytes = b"") -> DataStream[T]:
        return self._rewired(self._partitioned_edges(kind, payload), self._type_info)

    def _partitioned_edges(self, kind: PartitionerKind, payload: bytes = b"") -> tuple[StreamEdge, ...]:
        return tuple(replace(edge, partitioning=Partitioning(kind, payload)) for edge in self._edges)


class KeyedStream(
    IntervalJoining[T, K],
    FieldAggregations[T],
    KeyedWindowing[T, K],
    DataStream[T],
    Generic[T, K],
):
    """A stream that is partitioned by key, made by ``key_by``; functions may keep state for each key.

    Source: org.apache.flink.streaming.api.datastream.KeyedStream.

    Example:
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> keyed = env.from_collection([("a", 1), ("b", 2), ("a", 3)]).key_by(lambda pair: pair[0])
        >>> keyed.sum(1).get_name()
        'Sum'
    """

    def __init__(
        self, origin: DataStream[T], edges: tuple[StreamEdge, ...], key_selector: KeySelector[T, K] | Callable[[T], K]
    ) -> None:
        super().__init__(origin._environment, origin._pipeline, edges, origin._type_info)
        self._key_selector = key_selector
        self._origin = origin

    def key_by(
        self, key_selector: KeySelector[T, K2] | Callable[[T], K2] | str, key_type: TypeInformation | None = None
    ) -> KeyedStream[T, K2]:
        """Partition the stream by another key."""
        return self._origin.key_by(key_selector, key_type)

    # --------------------------------------------------------------------------------------------- record by record

    def map(
        self, func: MapFunction[T, U] | Callable[[T], U], output_type: TypeInformation | None = None
    ) -> DataStream[U]:
        """Make one record out of each record; the ``open`` of a MapFunction may take keyed state."""
        check_function("func", func, MapFunction)
        if isinstance(func, MapFunction):
            return self._keyed_process("Map", KeyedMap(cast("Any", func)), output_type)
        return super().map(func, output_type)

    def flat_map(
        self,
        func: FlatMapFunction[T, U] | Callable[[T], Iterable[U] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream[U]:
        """Make any number of records out of each one; the ``open`` of a FlatMapFunction may take keyed state."""
        check_function("func", func, FlatMapFunction)
        if isinstance(func, FlatMapFunction):
            return self._keyed_process("FlatMap", KeyedFlatMap(cast("Any", func)), output_type)
        return super().flat_map(func, output_type)

    def filter(self, func: FilterFunction[T] | Callable[[T], object]) -> DataStream[T]:
        """Keep the records for which a function is true; the ``open`` of a FilterFunction may take keyed state."""
        check_function("func", func, FilterFunction)
        if isinstance(func, FilterFunction):
            return self._keyed_process("Filter", KeyedFilter(cast("Any", func)), self._type_info, conform=False)
        return super().filter(func)

    def process(  # pyright: ignore[reportIncompatibleMethodOverride] - PyFlink's signature
        self, func: KeyedProcessFunction[K, T, U], output_type: TypeInformation | None = None
    ) -> DataStream[U]:
        """Run a process function over the records: state, timers and side outputs.

        Args:
            func: The function.
            output_type: The type of what goes to the main output; records are converted to it.

        Raises:
            TypeError: The function is no KeyedProcessFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, KeyedProcessFunction, or_callable=False)
        return self._keyed_process("KeyedProcess", func, output_type)

    def _keyed_process(
        self, name: str, func: object, output_type: TypeInformation | None, *, conform: bool = True
    ) -> DataStream[Any]:
        factory = KeyedProcessFactory(func, self._key_selector)
        return self._transform(factory, name, output_type, conform=conform)

    # --------------------------------------------------------------------------------------------------- aggregation

    def reduce(self, func: ReduceFunction[T] | Callable[[T, T], T]) -> DataStream[T]:
        """Reduce the records of each key; each record emits the current result.

        Args:
            func: Takes the result so far and the next record; the first record of a key is its first result.

        Raises:
            TypeError: The function is neither a ReduceFunction nor a callable.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, ReduceFunction)
        return self._reduce("Reduce", func)

    def _reduce(self, name: str, func: object) -> DataStream[T]:
        factory = ReduceFactory(typed_reduce(func, self._type_info), self._key_selector)
        return self._transform(factory, name, self._type_info, conform=False)

    # ------------------------------------------------------------------------------- what a keyed stream does not have

    def cache(self) -> Never:
        """Refuse, as in Flink.

        Raises:
            UnsupportedOperationError: Always.
        """
        self._operator_for("cache")
        raise AssertionError

    def broadcast(self, *args: object) -> Never:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Refuse, as all partitioning of a keyed stream.

        Raises:
            UnsupportedOperationError: Always.
        """
        del args
        self._partitioned(PartitionerKind.BROADCAST)

    def _partitioned(self, kind: PartitionerKind, payload: bytes = b"") -> Never:
        del kind, payload
        operation = "Partitioning a KeyedStream"
        raise UnsupportedOperationError(operation, "Cannot override partitioning for KeyedStream")

    def _operator_for(self, method: str) -> StreamNode:
        operation = f"{_SETTINGS[method]} for KeyedStream"
        raise UnsupportedOperationError(
            operation, "call it on the stream before key_by, or on the result of the next operation"
        )


class CachedDataStream(DataStream[T]):
    """A stream whose records are kept for later jobs, see :meth:`DataStream.cache`.

    Source: org.apache.flink.streaming.api.datastream.CachedDataStream, FLIP-205.

    Args:
        origin: The stream that is cached.
        cached: What is known of it.
    """

    def __init__(self, origin: DataStream[T], cached: CachedStream) -> None:
        super().__init__(origin._environment, origin._pipeline, (StreamEdge(cached.node),), origin._type_info)
        self._cached = cached

    def invalidate(self) -> None:
        """Delete what is kept; the next job that uses the stream computes it anew. A job that reads it now fails."""
        self._cached.invalidate()

    def cache(self) -> CachedDataStream[T]:
        """Return this stream, which is cached."""
        return self

    def _operator_for(self, method: str) -> StreamNode:
        operation = f"{_SETTINGS[method]} for CachedDataStream"
        raise UnsupportedOperationError(operation, "call it on the stream before cache()")


show("penstock.datastream.data_stream", CachedDataStream, DataStream, KeyedStream)

"""DataStream: a stream of records, and what a program can make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock._api.connectors.topology import CheckpointFunction
from penstock._api.functions.basic import FilterFunction, FlatMapFunction, KeySelector, MapFunction, Partitioner
from penstock._api.functions.process import ProcessFunction
from penstock._api.output_tag import OutputTag
from penstock._builders.aggregations import Projection
from penstock._builders.caches import CachedStream
from penstock._builders.checks import (
    check_broadcast_descriptors,
    check_format,
    check_function,
    check_type,
    check_watermark_strategy,
    checked_key_selector,
)
from penstock._builders.connected import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from penstock._builders.declared_fields import projected_types
from penstock._builders.outputs import StreamOutputs
from penstock._builders.partitions import SubtaskPartitions
from penstock._builders.typed_functions import typed_key
from penstock._builders.windows.joined import CoGroupedStreams, JoinedStreams
from penstock._builders.windows.windowed_all import AllWindowedStream
from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.graph.pickling import dumps_members
from penstock._engine.operators.columnar.record_columns import DeclaredColumns
from penstock._engine.operators.factories.functions import (
    FilterFactory,
    FlatMapFactory,
    MapBatchesFactory,
    MapFactory,
    ProcessFactory,
    WatermarksFactory,
)
from penstock._engine.operators.factories.sources_and_sinks import CheckpointProcessFactory
from penstock._shelf import show
from penstock.common._typeinfo.base import identity
from penstock.common.arguments import instance
from penstock.common.config_check import say_without_effect
from penstock.common.typeinfo import TypeInformation, Types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._api.state.kinds import MapStateDescriptor
    from penstock._api.windows.window import WindowAssigner
    from penstock._builders.cached_stream import CachedDataStream
    from penstock._builders.checks import BatchFormat
    from penstock._builders.environment import StreamExecutionEnvironment
    from penstock._builders.keyed_stream import KeyedStream
    from penstock._builders.partitions import PartitionWindowedStream
    from penstock._engine.graph.stream_graph import StreamEdge, StreamNode
    from penstock._engine.operators.operator_factory import OperatorFactory
    from penstock.common.watermark_strategy import WatermarkStrategy

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")
W = TypeVar("W")


class DataStream(StreamOutputs[T]):
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

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        edges: tuple[StreamEdge, ...],
        type_info: TypeInformation,
        operator: StreamNode | None = None,
    ) -> None:
        super().__init__(environment._execution, edges, type_info, operator)
        self._environment = environment

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that the stream belongs to."""
        return self._environment

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

    # ------------------------------------------------------------------------------ batches of columns and checkpoints

    def map_batches(
        self,
        func: MapFunction[Any, Any] | Callable[[Any], Any],
        output_type: TypeInformation | None = None,
        batch_format: BatchFormat = "arrow",
    ) -> DataStream[Any]:
        """Make columns out of batches of columns, without a Python object for each record; ours.

        The input may be columns, such as those of Parquet files, or records, which become columns by the declared type
        of their stream or by their values. A following function of records gets dicts, or records of the output type.
        If records have timestamps, a result row has the timestamp of the input row at the same position. Watermarks
        follow the results of their batch.

        Args:
            func: Takes a ``pyarrow.RecordBatch`` or a data frame, and returns a batch, a table or a data frame; several
                of them as a list or by ``yield``; or None for no rows. Use a MapFunction for a function with resources
                to open and close.
            output_type: The type of the rows; a row type has the names and types of the columns. A batch with other
                columns ends the job.
            batch_format: The form of the function's input: "arrow", "pandas" or "polars".

        Raises:
            TypeError: The function is neither a MapFunction nor a callable.
            ValueError: The format is unknown.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
            UnsupportedOperationError: The package of the format is not installed.

        Example:
            >>> import pyarrow.compute as pc
            >>> from penstock.datastream import StreamExecutionEnvironment
            >>> env = StreamExecutionEnvironment.get_execution_environment()
            >>> orders = env.from_collection([{"price": 2, "count": 3}])
            >>> orders.map_batches(lambda b: b.append_column("sum", pc.multiply(b["price"], b["count"]))).get_name()
            'MapBatches'
        """
        check_function("func", func, MapFunction, may_yield=True)
        check_type("output_type", output_type)
        check_format("map_batches", batch_format)
        factory = MapBatchesFactory(func, batch_format, self._declared_type(), output_type)
        declared = DeclaredColumns.of(output_type)
        conform = declared is None or not declared.are_complete
        return self._transform(factory, "MapBatches", output_type, conform=conform)

    def process_checkpoint(
        self, func: CheckpointFunction[T, U], output_type: TypeInformation | None = None
    ) -> DataStream[U]:
        """Call a function with all records that come to a subtask in a checkpoint, at the checkpoint's end; ours.

        The records of a checkpoint are kept in memory, so this is for few ones, such as a sink's committables.

        Args:
            func: The function.
            output_type: The type of what it returns; records are converted to it.

        Raises:
            TypeError: The function is no CheckpointFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        instance("func", func, CheckpointFunction)
        return self._transform(CheckpointProcessFactory(func), "Checkpoint", output_type)

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
        same = all(identity(stream._type_info) == identity(self._type_info) for stream in streams)
        return DataStream(self._environment, edges, self._type_info if same else Types.PICKLED_BYTE_ARRAY())

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
        return DataStream(self._environment, (edge,), output_tag.type_info)

    def cache(self) -> CachedDataStream[T]:
        """Keep the records of this stream for the program's later jobs, once a job in batch mode has computed them.

        The first job that uses the returned stream writes its records below the checkpoint directory, or else to a
        temporary one; later jobs read them, and run nothing that is before them. What is kept goes with the program,
        with ``invalidate()`` and with the environment's ``close()``. In streaming mode it keeps nothing.

        Raises:
            UnsupportedOperationError: The stream is neither that of an operator nor a side output.
        """
        if len(self._edges) != 1 or self._edges[0].partitioning is not None:
            self._operator_for("cache")
        (edge,) = self._edges
        node = self._pipeline.add_cache(edge)
        cached = CachedStream(node, self._declared_type())
        self._execution.caches.add(cached)
        from penstock._builders.cached_stream import CachedDataStream

        return CachedDataStream(self, cached)

    def window_all(self, window_assigner: WindowAssigner[Any, W]) -> AllWindowedStream[T, W]:
        """Group all records into windows, regardless of keys and in one subtask.

        Args:
            window_assigner: Says which windows a record belongs to.

        Raises:
            TypeError: The assigner is no WindowAssigner.
        """
        return AllWindowedStream(self, window_assigner)

    def join(self, other_stream: DataStream[U]) -> JoinedStreams[T, U]:
        """Join this stream with another one by key and window; not in PyFlink.

        Args:
            other_stream: The second stream.

        Raises:
            TypeError: It is no stream.
            UnsupportedOperationError: It belongs to another environment.
        """
        self._check_stream("join", other_stream)
        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream[U]) -> CoGroupedStreams[T, U]:
        """Co-group this stream with another one by key and window; not in PyFlink.

        Args:
            other_stream: The second stream.

        Raises:
            TypeError: It is no stream.
            UnsupportedOperationError: It belongs to another environment.
        """
        self._check_stream("co_group", other_stream)
        return CoGroupedStreams(self, other_stream)

    def full_window_partition(self) -> PartitionWindowedStream[T]:
        """Take all records of each subtask together, to the end of the input; in batch jobs only, FLIP-380.

        After ``rebalance()`` or another partitioning, these are the records that a subtask receives.
        """
        return SubtaskPartitions(self)

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
        from penstock._builders.keyed_stream import KeyedStream

        return KeyedStream(self, edges, selector)

    def shuffle(self) -> DataStream[T]:
        """Send each record to a subtask at random."""
        return self._partitioned(PartitionerKind.SHUFFLE)

    def rebalance(self) -> DataStream[T]:
        """Send the records to all subtasks round-robin."""
        return self._partitioned(PartitionerKind.REBALANCE)

    def rescale(self) -> DataStream[T]:
        """Send the records of each subtask round-robin to a subset of the downstream subtasks."""
        return self._partitioned(PartitionerKind.RESCALE)

    def forward(self) -> DataStream[T]:
        """Send the records of each subtask to the downstream subtask of the same index.

        The next operator must have the same parallelism, else the job is refused.
        """
        return self._partitioned(PartitionerKind.FORWARD)

    @overload
    def broadcast(self) -> DataStream[T]: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream[T]: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream[T] | BroadcastStream[T]:
        """Send each record to every subtask; with descriptors, the records fill broadcast maps.

        Args:
            broadcast_state_descriptor: A map that the records fill, in the function after ``connect``; none for a
                stream of records.
            *other_broadcast_state_descriptors: Further maps.

        Raises:
            TypeError: One of them is no MapStateDescriptor.
            UnsupportedOperationError: Two of them have one name.
        """
        stream = self._partitioned(PartitionerKind.BROADCAST)
        if broadcast_state_descriptor is None:
            return stream
        descriptors = (broadcast_state_descriptor, *other_broadcast_state_descriptors)
        check_broadcast_descriptors(descriptors)
        return BroadcastStream(stream, descriptors)

    def partition_custom(
        self,
        partitioner: Partitioner[K] | Callable[[K, int], int],
        key_selector: KeySelector[T, K] | Callable[[T], K],
    ) -> DataStream[T]:
        """Send each record to the subtask that a function chooses.

        Args:
            partitioner: Takes a record's key and the number of subtasks, and returns the subtask, counted from 0;
                anything else fails the job.
            key_selector: Returns a record's key.

        Raises:
            TypeError: One of the two is neither a function object of its kind nor a callable.
            UnpicklableFunctionError: One of the two captured something that cannot be pickled.
        """
        check_function("partitioner", partitioner, Partitioner)
        check_function("key_selector", key_selector, KeySelector)
        members = {"partitioner": partitioner, "key_selector": key_selector}
        return self._partitioned(PartitionerKind.CUSTOM, dumps_members("partition_custom", members))

    # ----------------------------------------------------------------------------------------------------- machinery

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
        return DataStream(self._environment, (edge,), type_info, operator)

    def _partitioned(self, kind: PartitionerKind, payload: bytes = b"") -> DataStream[T]:
        return DataStream(self._environment, self._partitioned_edges(kind, payload), self._type_info)


show("penstock.datastream.data_stream", DataStream)

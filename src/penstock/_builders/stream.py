"""DataStream: a stream of records and what can be done with it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

from penstock._api.connectors.sink import Sink
from penstock._api.functions.basic import FilterFunction, FlatMapFunction, KeySelector, MapFunction, Partitioner
from penstock._api.functions.process import ProcessFunction
from penstock._api.output_tag import OutputTag
from penstock._builders.aggregations import Projection
from penstock._builders.checks import check_broadcast_descriptors, check_function, check_watermark_strategy
from penstock._builders.held_functions import held_key
from penstock._builders.operator_settings import StreamSettings
from penstock._builders.results import CloseableIterator
from penstock._builders.sink import DataStreamSink
from penstock._engine.graph.job_graph import OperatorKind, PartitionerKind
from penstock._engine.graph.pickling import dumps_members
from penstock._engine.graph.stream_graph import Partitioning, StreamEdge, StreamNode
from penstock._shelf import show
from penstock.common.typeinfo import PickledBytesTypeInfo, TupleTypeInfo, TypeInformation, Types
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._api.state.descriptors import MapStateDescriptor
    from penstock._builders.connected import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
    from penstock._builders.environment import StreamExecutionEnvironment
    from penstock._builders.keyed import KeyedStream
    from penstock._builders.pipeline import Pipeline
    from penstock.common.execution_config import ExecutionConfig
    from penstock.common.watermark_strategy import WatermarkStrategy


class DataStream(StreamSettings):
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
        pipeline: Pipeline,
        edges: tuple[StreamEdge, ...],
        type_info: TypeInformation,
        operator: StreamNode | None = None,
    ) -> None:
        self._environment = environment
        self._pipeline = pipeline
        self._edges = edges
        self._type_info = type_info
        self._operator = operator

    # ------------------------------------------------------------------------------------------------------- getters

    def get_type(self) -> TypeInformation:
        """Return the type of the records; ``Types.PICKLED_BYTE_ARRAY()`` when none was declared."""
        return self._type_info

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """Return the settings of the environment's jobs."""
        return self._environment.get_config()

    # --------------------------------------------------------------------------------------------- record by record

    def map(self, func: MapFunction | Callable[[Any], Any], output_type: TypeInformation | None = None) -> DataStream:
        """Make one record out of each record.

        Args:
            func: The function.
            output_type: The type of what it returns; records are held to it.

        Raises:
            TypeError: The function is neither a MapFunction nor a callable.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, MapFunction)
        return self._transform(OperatorKind.MAP, "Map", {"function": func}, output_type)

    def flat_map(
        self,
        func: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Make any number of records out of each record.

        Args:
            func: The function; it returns an iterable, or None for no record.
            output_type: The type of the records that it makes; they are held to it.

        Raises:
            TypeError: The function is neither a FlatMapFunction nor a callable.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, FlatMapFunction)
        return self._transform(OperatorKind.FLAT_MAP, "FlatMap", {"function": func}, output_type)

    def filter(self, func: FilterFunction | Callable[[Any], bool]) -> DataStream:
        """Keep the records for which a function is true.

        Args:
            func: The function.

        Raises:
            TypeError: The function is neither a FilterFunction nor a callable.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, FilterFunction)
        return self._transform(OperatorKind.FILTER, "Filter", {"function": func}, self._type_info, conform=False)

    def process(self, func: ProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Run a process function over the records: timestamps, watermarks and side outputs.

        Args:
            func: The function; state and timers need ``key_by`` first.
            output_type: The type of what goes to the main output; records are held to it.

        Raises:
            TypeError: The function is no ProcessFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, ProcessFunction, or_callable=False)
        return self._transform(OperatorKind.PROCESS, "Process", {"function": func}, output_type)

    def project(self, *field_indexes: int) -> DataStream:
        """Keep some fields of each tuple, in the given order.

        Raises:
            TypeError: The stream was not declared to hold tuples.
            IndexError: The tuples have no such field.
        """
        if not isinstance(self._type_info, TupleTypeInfo):
            msg = f"Only a stream declared as tuples (output_type) can be projected; this one is {self._type_info!r}."
            raise TypeError(msg)
        types = self._type_info.get_field_types()
        output_type = Types.TUPLE([types[index] for index in field_indexes])
        members = {"function": Projection(field_indexes)}
        return self._transform(OperatorKind.MAP, "Projection", members, output_type, conform=False)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give the records timestamps and the stream watermarks, in place of those that it has.

        Args:
            watermark_strategy: Without a timestamp assigner, the records keep their timestamps.

        Raises:
            TypeError: The strategy is no WatermarkStrategy.
        """
        check_watermark_strategy(watermark_strategy)
        members = {"watermark_strategy": watermark_strategy}
        return self._transform(
            OperatorKind.WATERMARKS, "Timestamps/Watermarks", members, self._type_info, conform=False, keep_size=True
        )

    # ------------------------------------------------------------------------------- several streams, several outputs

    def union(self, *streams: DataStream) -> DataStream:
        """Put the records of several streams into one; a stream that is given twice comes twice.

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
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Feed this stream and another one to one function that tells their records apart.

        Args:
            ds: The second stream; its records may be of another type, and they may be broadcast.

        Raises:
            TypeError: It is no stream.
            UnsupportedOperationError: It belongs to another environment.
        """
        from penstock._builders.connected import (
            BroadcastConnectedStream,
            BroadcastStream,
            ConnectedStreams,
        )

        if isinstance(ds, BroadcastStream):
            self._check_stream("connect", ds.input_stream)
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        self._check_stream("connect", ds)
        return ConnectedStreams(self, ds)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Return what the operator emits to a side output.

        Args:
            output_tag: Finds the output by its id; the records are held to its type, if it has one.

        Raises:
            TypeError: The tag is no OutputTag.
            UnsupportedOperationError: This stream does not come right out of an operator.
        """
        if not isinstance(output_tag, OutputTag):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"output_tag must be an OutputTag, not {output_tag!r}."
            raise TypeError(msg)
        operator = self._operator_for("get_side_output")
        edge = self._pipeline.output(operator, output_tag.type_info, output_tag.tag_id)
        return self._rewired((edge,), output_tag.type_info)

    # -------------------------------------------------------------------------------------------------- partitioning

    def key_by(
        self, key_selector: KeySelector | Callable[[Any], Any], key_type: TypeInformation | None = None
    ) -> KeyedStream:
        """Bring the records of each key together; functions after it may keep state by key.

        Args:
            key_selector: Returns a record's key: None, numbers, str, bytes, dates and times, tuples, Rows, frozen
                dataclasses, enums and more; keys that are equal in Python are one key.
            key_type: The type that the keys are held to.

        Raises:
            TypeError: The selector is neither a KeySelector nor a callable.
            UnpicklableFunctionError: The selector captured something that cannot be pickled.
        """
        from penstock._builders.keyed import KeyedStream

        check_function("key_selector", key_selector, KeySelector)
        key_selector = held_key(key_selector, key_type)
        payload = dumps_members("KeyBy", {"key_selector": key_selector})
        edges = self._partitioned_edges(PartitionerKind.HASH, payload)
        return KeyedStream(self, edges, key_selector)

    def shuffle(self) -> DataStream:
        """Send each record to a subtask at random."""
        return self._partitioned(PartitionerKind.SHUFFLE)

    def rebalance(self) -> DataStream:
        """Send the records to all subtasks in turn."""
        return self._partitioned(PartitionerKind.REBALANCE)

    def rescale(self) -> DataStream:
        """Send the records of each subtask in turn to a few subtasks that are its own."""
        return self._partitioned(PartitionerKind.RESCALE)

    def forward(self) -> DataStream:
        """Send the records of each subtask to the one of the same index.

        The next operator must have the same parallelism, else the job is refused.
        """
        return self._partitioned(PartitionerKind.FORWARD)

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Send each record to every subtask, or fill maps with them that every subtask has.

        Args:
            broadcast_state_descriptor: A map that the records fill, in the function after ``connect``; none for a
                stream of records.
            *other_broadcast_state_descriptors: Further maps.

        Raises:
            TypeError: One of them is no MapStateDescriptor.
            UnsupportedOperationError: Two of them have one name.
        """
        from penstock._builders.connected import BroadcastStream

        stream = self._partitioned(PartitionerKind.BROADCAST)
        if broadcast_state_descriptor is None:
            return stream
        descriptors = (broadcast_state_descriptor, *other_broadcast_state_descriptors)
        check_broadcast_descriptors(descriptors)
        return BroadcastStream(stream, descriptors)

    def partition_custom(
        self,
        partitioner: Partitioner | Callable[[Any, int], int],
        key_selector: KeySelector | Callable[[Any], Any],
    ) -> DataStream:
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

    # --------------------------------------------------------------------------------------------------------- sinks

    def sink_to(self, sink: Sink[Any]) -> DataStreamSink:
        """Write the records to a sink.

        Raises:
            TypeError: The sink is no Sink.
            UnpicklableFunctionError: The sink holds something that cannot be pickled.
        """
        if not isinstance(sink, Sink):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"sink must be a Sink, not {sink!r}."
            raise TypeError(msg)
        members = {"sink": sink.for_type(self._declared_type())}
        return DataStreamSink(self._add(OperatorKind.SINK_WRITER, "Sink", members))

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Write a line for each record to the standard output of the program.

        Lines come once their checkpoint is complete. Restarts of the job neither repeat nor drop any, unless standard
        output itself fails: then the lines that were being written come again. A program that is killed may not have
        printed the lines of its last checkpoint; the one that goes on from there does not print them.

        Args:
            sink_identifier: Put before each line with ``> ``. At a parallelism above 1 the number of the subtask,
                counted from 1, is there too.
        """
        members = {"type_info": self._declared_type(), "as_text": True, "prefix": sink_identifier}
        return DataStreamSink(self._add(OperatorKind.COLLECT, "Print to Std. Out", members))

    def add_sink(self, sink_func: object) -> DataStreamSink:
        """Refuse: sink functions are Java objects.

        Raises:
            UnsupportedOperationError: Always.
        """
        operation = f"add_sink({sink_func!r})"
        raise UnsupportedOperationError(operation, "sink functions need the JVM; use sink_to(...) with a Sink")

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Run everything that the environment has so far, and bring the records of this stream back.

        Each record comes once, after the checkpoint that has it is complete, whatever restarts the job. Where the job
        cannot hand over a record, the iterator raises. What a program has got is gone when it is killed: the one that
        goes on from the checkpoint gets what comes after it. Use a sink for what has to outlive the program.

        Args:
            job_execution_name: The name of the job.
            limit: How many records to take at most; the job is cancelled when it has more.

        Returns:
            Without a limit, the records as they become final; close the iterator, or use ``with``. With a limit, a
            list.

        Raises:
            JobGraphError: The job cannot be run.
            JobExecutionError: The job failed, or what it collected cannot be read back; without a limit, the iterator
                raises it.
        """
        members = {"type_info": self._declared_type(), "as_text": False, "prefix": None}
        node = self._add(OperatorKind.COLLECT, "Collect", members, keep_size=True)
        records, client = self._environment._run_and_collect(node, job_execution_name)
        iterator = CloseableIterator(records, client)
        if limit is None:
            return iterator
        with iterator:
            return list(islice(iterator, limit))

    # ----------------------------------------------------------------------------------------------------- machinery

    def _check_stream(self, method: str, stream: object) -> None:
        """Raise for what is no stream of this environment."""
        if not isinstance(stream, DataStream):
            msg = f"{method}() takes streams, not {stream!r}."
            raise TypeError(msg)
        if stream._environment is not self._environment:
            operation = f"{method}() with a stream of another environment"
            raise UnsupportedOperationError(operation, "make both streams from one StreamExecutionEnvironment")

    def _operator_for(self, method: str) -> StreamNode:
        if self._operator is None:
            operation = f"{method}() on a stream that no operator made (after a union, a partitioning or a side output)"
            raise UnsupportedOperationError(operation, "call it on the stream that the operator returned")
        return self._operator

    def _declared_type(self) -> TypeInformation | None:
        return None if isinstance(self._type_info, PickledBytesTypeInfo) else self._type_info

    def _add(
        self, kind: OperatorKind, name: str, members: Mapping[str, object], *, keep_size: bool = False
    ) -> StreamNode:
        sized_like = self._edges[0].source if keep_size else None
        return self._pipeline.add_operator(kind, name, members, self._edges, sized_like=sized_like)

    def _transform(
        self,
        kind: OperatorKind,
        name: str,
        members: Mapping[str, object],
        output_type: TypeInformation | None,
        *,
        conform: bool = True,
        keep_size: bool = False,
    ) -> DataStream:
        """Add an operator that reads this stream and return its main output."""
        operator = self._add(kind, name, members, keep_size=keep_size)
        type_info = Types.PICKLED_BYTE_ARRAY() if output_type is None else output_type
        edge = self._pipeline.output(operator, type_info, conform=conform)
        return DataStream(self._environment, self._pipeline, (edge,), type_info, operator)

    def _rewired(self, edges: tuple[StreamEdge, ...], type_info: TypeInformation) -> DataStream:
        return DataStream(self._environment, self._pipeline, edges, type_info)

    def _partitioned(self, kind: PartitionerKind, payload: bytes = b"") -> DataStream:
        return self._rewired(self._partitioned_edges(kind, payload), self._type_info)

    def _partitioned_edges(self, kind: PartitionerKind, payload: bytes = b"") -> tuple[StreamEdge, ...]:
        return tuple(replace(edge, partitioning=Partitioning(kind, payload)) for edge in self._edges)


show("penstock.datastream.data_stream", DataStream)

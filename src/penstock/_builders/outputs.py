"""The base of all streams: their operator, and their outputs to sinks, print, collect and DataFrames."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, Never, TypeVar, cast, overload

from penstock._api.connectors.committer import HasCommittables
from penstock._api.connectors.sink import Sink
from penstock._api.connectors.topology import (
    SupportsPostCommitTopology,
    SupportsPreCommitTopology,
    SupportsPreprocessing,
)
from penstock._builders.dataframes import frame_of_stream
from penstock._builders.operator_settings import StreamSettings
from penstock._builders.results import CloseableIterator
from penstock._builders.sink import DataStreamSink
from penstock._engine.graph.stream_graph import NAMELESS_SINK, Partitioning
from penstock._engine.operators.factories.sources_and_sinks import (
    CollectFactory,
    CommittablesFactory,
    CommittedFactory,
    SinkWriterFactory,
)
from penstock.common.arguments import instance
from penstock.common.execution_config import ExecutionConfig
from penstock.common.typeinfo import PickledBytesTypeInfo
from penstock.errors import KeyRequiredError, UnsupportedOperationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock._builders.execution import Execution
    from penstock._engine.graph.job_graph import PartitionerKind
    from penstock._engine.graph.stream_graph import StreamEdge, StreamNode
    from penstock._engine.operators.operator_factory import OperatorFactory
    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")

#: The methods that only keyed streams have.
OF_KEYED_STREAMS: Final = frozenset(
    {"aggregate_batches", "window", "count_window", "interval_join", "reduce", "sum", "min", "max", "min_by", "max_by"}
)


def checked_stream(stream: object, who: str) -> StreamOutputs[Any]:
    """Return what a sink's topology has returned.

    Raises:
        TypeError: It is no stream.
    """
    if not isinstance(stream, StreamOutputs):
        msg = f"A DataStream has to come from {who}, not {stream!r}."
        raise TypeError(msg)
    return cast("StreamOutputs[Any]", stream)


class StreamOutputs(StreamSettings, Generic[T]):
    """The common base of streams: their settings and outputs."""

    def __init__(
        self,
        execution: Execution,
        edges: tuple[StreamEdge, ...],
        type_info: TypeInformation,
        operator: StreamNode | None = None,
    ) -> None:
        self._execution = execution
        self._pipeline = execution.pipeline
        self._edges = edges
        self._type_info = type_info
        self._operator = operator
        #: Gives the key of a record; None in a stream without keys.
        self._key_selector: object = None

    # ------------------------------------------------------------------------------------------------------- getters

    def get_type(self) -> TypeInformation:
        """Return the type of the records; ``Types.PICKLED_BYTE_ARRAY()`` when none was declared."""
        return self._type_info

    def get_execution_config(self) -> ExecutionConfig:
        """Return the settings of the environment's jobs."""
        return ExecutionConfig(self._execution.configuration)

    # --------------------------------------------------------------------------------------------------------- sinks

    def sink_to(self, sink: Sink[T]) -> DataStreamSink:
        """Write the records to a sink.

        Raises:
            TypeError: The sink is no Sink, or one of its topologies returns no stream.
            UnpicklableFunctionError: The sink holds something that cannot be pickled.
        """
        instance("sink", sink, Sink, "Sink.from_function() makes one of a function")
        before, stream = self._pipeline.last_id(), self
        transformer = sink.get_transformer() if isinstance(sink, SupportsPreprocessing) else None
        if transformer is not None:
            stream = checked_stream(transformer.apply(self), "a sink's transformer")
        writer = stream._end_in(sink.for_type(stream._declared_type()))
        self._pipeline.belong_to(writer, before)
        return DataStreamSink(writer)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Write a line for each record to the standard output of the program.

        The lines of an epoch are printed once its checkpoint has completed. Restarts of the job neither repeat nor drop
        lines, unless standard output itself fails: then the lines that were being written are written again. A killed
        program may not have printed the lines of its last checkpoint; a program that continues from it does not print
        them.

        Args:
            sink_identifier: The prefix of each line, followed by ``>`` and a space. At a parallelism above 1 it has the
                number of the subtask, from 1.
        """
        factory = CollectFactory(self._declared_type(), as_text=True, prefix=sink_identifier)
        return DataStreamSink(self._add(factory, "Print to Std. Out"))

    def add_sink(self, sink_func: object) -> DataStreamSink:
        """Refuse: sink functions are Java objects.

        Raises:
            UnsupportedOperationError: Always.
        """
        operation = f"add_sink({sink_func!r})"
        raise UnsupportedOperationError(operation, "sink functions need the JVM; use sink_to(...) with a Sink")

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T] | list[T]:
        """Execute the job, and return the records of this stream.

        Each record is returned once, after its checkpoint has completed, also if the job restarts. If the job cannot
        deliver a record, the iterator raises. A killed program loses the records that it got: a program that continues
        from the checkpoint gets later records only. Use a sink for records that must outlive the program.

        Args:
            job_execution_name: The name of the job.
            limit: The maximum number of records; a job with more is cancelled.

        Returns:
            Without a limit, the records as they become final; close the iterator, or use ``with``. With a limit, a
            list.

        Raises:
            ValueError: The limit is no number of records.
            JobGraphError: The job cannot be run.
            JobExecutionError: The job failed, or what it collected cannot be read back; without a limit, the iterator
                raises it.
        """
        if limit is not None and (not isinstance(limit, int) or limit < 0):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"limit must be a number of records, 0 or more, not {limit!r}."
            raise ValueError(msg)
        node = self._add(CollectFactory(self._declared_type(), as_text=False), "Collect", keep_size=True)
        records, client = self._execution.run_and_collect(node, job_execution_name)
        iterator: CloseableIterator[Any] = CloseableIterator(records, client)
        if limit is None:
            return iterator
        with iterator:
            return list(islice(iterator, limit))

    def to_dataframe(self, job_execution_name: str | None = None) -> DataFrame:
        """Run what this stream needs, and return its records as a Spark DataFrame; ours.

        The tasks write Parquet files below the checkpoint directory, or else to a temporary one, which Spark reads;
        records never pass through the program. The files go with the program. Other sinks of the environment are not
        run by this call: they wait for ``execute()``, which runs what is before them again.

        Declared rows have their columns, with the declared types; tuples have ``f0``, ``f1`` and so on, and other
        values are the column ``f0``. Without a declared type the records say which columns there are, each with a type
        that holds all values; a column of nothing but None is text.

        Args:
            job_execution_name: The name of the job.

        Raises:
            UnsupportedOperationError: A source of the stream is unbounded, or Spark has no such columns.
            BatchColumnsError: A column has values of several types.
            JobExecutionError: The job failed.
            JobStoppedError: The job was stopped before it had read all of its input.
        """
        run = partial(self._execution.run_alone, job_name=job_execution_name)
        configuration = self._execution.configuration
        return frame_of_stream(self._pipeline, self._edges, self._declared_type(), configuration, run)

    # ----------------------------------------------------------------------------------------------------- machinery

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            """Raise KeyRequiredError for a method of keyed streams."""
            if name not in OF_KEYED_STREAMS:
                super().__getattribute__(name)  # raises again, with the explanation of absent names
            hint = "call key_by(...) before it"
            if "window" in name:
                hint += ", or window_all(...) in its place"
            raise KeyRequiredError(name, self._origin_name(), hint)

    def _origin_name(self) -> str:
        """Return the name of the operator that the stream comes from."""
        return " and ".join(str(edge.source) for edge in self._edges)

    def _check_stream(self, method: str, stream: object) -> None:
        """Raise unless the value is a stream of this environment."""
        if not isinstance(stream, StreamOutputs):
            msg = f"{method}() takes streams, not {stream!r}."
            raise TypeError(msg)
        if cast("StreamOutputs[Any]", stream)._execution is not self._execution:
            operation = f"{method}() with a stream of another environment"
            raise UnsupportedOperationError(operation, "make both streams from one StreamExecutionEnvironment")

    @abstractmethod
    def _output_of(
        self, operator: StreamNode, output_type: TypeInformation | None, *, conform: bool = True
    ) -> StreamOutputs[Any]:
        """Return the main output of an operator that reads this stream."""

    def _partitioned_edges(self, kind: PartitionerKind, payload: bytes = b"") -> tuple[StreamEdge, ...]:
        return tuple(replace(edge, partitioning=Partitioning(kind, payload)) for edge in self._edges)

    def _operator_for(self, method: str) -> StreamNode:
        if self._operator is None:
            operation = f"{method}() on a stream that no operator made (after a union, a partitioning or a side output)"
            raise UnsupportedOperationError(operation, "call it on the stream that the operator returned")
        return self._operator

    def _declared_type(self) -> TypeInformation | None:
        return None if isinstance(self._type_info, PickledBytesTypeInfo) else self._type_info

    def _end_in(self, sink: Sink[Any]) -> StreamNode:
        """Add a sink with its pre-commit and post-commit topologies, and return its writer."""
        for kind, has_it in (
            ("pre-commit", isinstance(sink, SupportsPreCommitTopology)),
            ("post-commit", isinstance(sink, SupportsPostCommitTopology)),
        ):
            if has_it and not isinstance(sink, HasCommittables):
                operation = f"a {kind} topology of {type(sink).__name__}"
                raise UnsupportedOperationError(operation, "it has no committer; implement SupportsCommitter as well")
        if isinstance(sink, SupportsPreCommitTopology):
            writer = self._add(SinkWriterFactory(sink, emits_committables=True), NAMELESS_SINK)
            committables = self._output_of(writer, None)
            end = checked_stream(sink.add_pre_commit_topology(committables), "add_pre_commit_topology()")
            end._add(CommittablesFactory(cast("HasCommittables[Any]", sink)), "Committables")
        else:
            writer = self._add(SinkWriterFactory(sink), NAMELESS_SINK)
        if isinstance(sink, SupportsPostCommitTopology):
            committed = self._pipeline.add_committed(
                "Committed", CommittedFactory(cast("HasCommittables[Any]", sink)), writer
            )
            sink.add_post_commit_topology(self._output_of(committed, None))
        return writer

    def _add(
        self,
        factory: OperatorFactory,
        name: str,
        *,
        second: StreamOutputs[Any] | None = None,
        keep_size: bool = False,
    ) -> StreamNode:
        """Add an operator that reads this stream, and perhaps a second one as its other input."""
        sized_like = self._edges[0].source if keep_size else None
        others = () if second is None else tuple(replace(edge, input_index=1) for edge in second._edges)
        return self._pipeline.add_operator(factory, name, self._edges + others, sized_like=sized_like)

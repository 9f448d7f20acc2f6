"""StreamExecutionEnvironment: where a program begins and ends (``pyflink.datastream.stream_execution_environment``)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from penstock._api.connectors.source import Boundedness, Source
from penstock._builders.caches import Caches
from penstock._builders.checks import check_type, check_watermark_strategy
from penstock._builders.data_stream import DataStream
from penstock._builders.dataframes import frame_source
from penstock._builders.dependencies import Dependencies
from penstock._builders.environment_settings import EnvironmentSettings
from penstock._builders.execution import DEFAULT_JOB_NAME, Execution
from penstock._builders.pipeline import Pipeline
from penstock._builders.program import watch_program
from penstock._connectors.collection import CollectionSource
from penstock._connectors.files.file_source import FileSource
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.graph.explain import explain, plan_json
from penstock._engine.graph.pickling import dumps_value, script_directory
from penstock._engine.graph.picture import picture
from penstock._engine.graph.uids import assign_uids
from penstock._engine.operators.factories.sources_and_sinks import SourceFactory
from penstock._formats.file_format import StreamFormat
from penstock._formats.input_format import InputFormat
from penstock._shelf import show
from penstock.common._typeinfo.base import identity
from penstock.common.arguments import instance
from penstock.common.config_loading import effective_configuration
from penstock.common.configuration import Configuration
from penstock.common.conversion import conversion
from penstock.common.job_listener import configured_listeners, tell
from penstock.common.notebook import message
from penstock.common.redaction import shown_name
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.errors import JobGraphError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Never

    from pyspark.sql import DataFrame

    from penstock._engine.graph.stream_graph import StreamGraph
    from penstock.common.job_client import JobClient
    from penstock.common.job_execution_result import JobExecutionResult
    from penstock.common.job_listener import JobListener
    from penstock.common.types import Row

__all__ = ["StreamExecutionEnvironment"]

T = TypeVar("T")


class StreamExecutionEnvironment(EnvironmentSettings, Dependencies):
    """Makes streams from sources, and runs the built graph as a job.

    Source: org.apache.flink.streaming.api.environment.StreamExecutionEnvironment.

    Args:
        configuration: The settings of the environment's jobs; ``get_execution_environment`` loads them.

    Example:
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        >>> _ = env.from_collection([1, 2, 3]).map(lambda number: number + 1).print("plus one")
        >>> print(env.explain())
        Job 'Flink Streaming Job': 2 vertices, 1 edge
        ...
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self._pipeline = Pipeline()
        self._caches = Caches()
        self._job_listeners: list[JobListener] = configured_listeners(configuration)
        self._execution = Execution(self._configuration, self._pipeline, self._caches, self._job_listeners)
        watch_program()

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Make an environment.

        The program's own settings override environment variables, which override ``config.yaml``, which overrides the
        defaults; see :mod:`penstock.common.config_loading`.

        Args:
            configuration: The program's own settings.

        Raises:
            ConfigurationError: A key has a value that it cannot have; the error says where it was set.
            ConfigurationFileError: There is a ``config.yaml`` that cannot be read.
        """
        program = Configuration() if configuration is None else configuration
        return StreamExecutionEnvironment(effective_configuration(program, script_directory(), os.environ))

    def configure(self, configuration: Configuration) -> None:
        """Take over all keys of a configuration; keys that Penstock does not know are kept.

        Raises:
            ConfigurationError: A key has a value that it cannot have.
        """
        more = effective_configuration(configuration, None, {})
        self._job_listeners += configured_listeners(more)
        self._configuration.add_all(more)

    # ------------------------------------------------------------------------------------------------------- sources

    def from_collection(self, collection: Iterable[T], type_info: TypeInformation | None = None) -> DataStream[T]:
        """Make a bounded stream of the records of a collection, with one subtask.

        Args:
            collection: The records; they are part of the job, so there should be few.
            type_info: The type of the records, to which they are converted now.

        Raises:
            TypeError: It is no collection.
            DeclaredTypeError: A record does not fit the type.
            UnpicklableFunctionError: A record cannot be pickled.
        """
        try:
            rest = iter(collection)
        except TypeError:
            msg = f"collection must be a list of records or another iterable, not {collection!r}."
            raise TypeError(msg) from None
        records = list(rest)
        check_type("type_info", type_info)
        held = conversion(type_info, "The collection of from_collection()")
        if held is not None:
            records = held.block(records)
        source = CollectionSource(dumps_value("The collection of from_collection()", records))
        stream = self._source(source, WatermarkStrategy.no_watermarks(), "Collection", type_info, conform=False)
        return stream.force_non_parallel()

    def from_source(
        self,
        source: Source[T, Any, Any],
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream[T]:
        """Make a stream of the records of a source.

        Args:
            source: Where the records come from.
            watermark_strategy: Assigns timestamps to records, and watermarks to the stream.
            source_name: The name of the operator.
            type_info: The type that the records are converted to; the source's own type when left out.

        Raises:
            TypeError: The source is no Source, or the strategy no WatermarkStrategy.
            UnpicklableFunctionError: The source or the strategy holds something that cannot be pickled.
        """
        ways = "from_collection() reads a list, and a FunctionSource what a function yields"
        instance("source", source, Source, ways)
        check_watermark_strategy(watermark_strategy)
        holds = source.holds_produced_type
        produced = source.get_produced_type() if holds or type_info is None else None
        is_theirs = type_info is None or (produced is not None and identity(type_info) == identity(produced))
        type_info = produced if type_info is None else type_info
        return self._source(source, watermark_strategy, source_name, type_info, conform=not (holds and is_theirs))

    def from_dataframe(self, df: DataFrame) -> DataStream[Row]:
        """Make a bounded stream of the rows of a Spark DataFrame; ours.

        When the job starts, Spark's tasks write the rows as Parquet files below the checkpoint directory, or else to a
        temporary one, and the source reads these, in batches of columns; no row passes through the program. A job that
        continues from a checkpoint reads the same files. They go when the job has ended and cannot continue.

        The rows are declared by the schema of the DataFrame. Moments (Spark's TimestampType), structs, maps and lists
        are columns without a declared type.

        Args:
            df: The DataFrame, of any session of this process.

        Raises:
            TypeError: It is no DataFrame of Spark.
            UnsupportedOperationError: It is of Spark Connect or a streaming one, or Arrow has no such columns.
        """
        return self.from_source(frame_source(df), WatermarkStrategy.no_watermarks(), "DataFrame")

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream[str]:
        """Make a bounded stream of the lines of text files, without line ends.

        Args:
            file_path: A file, a folder or a glob, local or in an object store.
            charset_name: The charset of the files.

        Raises:
            LookupError: There is no such charset.
            PathError: The path or URL is invalid.
        """
        lines = StreamFormat.text_line_format(charset_name)
        source = FileSource.for_record_stream_format(lines, file_path).process_static_file_set().build()
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Text file", Types.STRING())

    def add_source(
        self, source_func: object, source_name: str = "Custom Source", type_info: TypeInformation | None = None
    ) -> Never:
        """Refuse: source functions are Java objects.

        Raises:
            UnsupportedOperationError: Always.
        """
        del source_func, type_info
        _needs_jvm(f"add_source(..., {source_name!r})", "use from_source(...) with a Source")

    def create_input(self, input_format: object, type_info: TypeInformation | None = None) -> DataStream[Any]:
        """Make a bounded stream of the files of an input format, which is an AvroInputFormat.

        Args:
            input_format: The files and their format.
            type_info: The type that the records are converted to; the format's own type when left out.

        Raises:
            UnsupportedOperationError: It is another input format, which would be a Java object.
        """
        if not isinstance(input_format, InputFormat):
            _needs_jvm("create_input(...)", "use from_source(...) with a Source")
        source = FileSource.for_bulk_file_format(input_format.file_format, input_format.path).build()
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Input format", type_info)

    # ----------------------------------------------------------------------------------------------------- execution

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the operators since the last execution as a job, and wait for its end.

        Args:
            job_name: The name of the job; ``pipeline.name``, else ``"Flink Streaming Job"`` when left out.

        Raises:
            EmptyJobError: There is nothing to run.
            JobGraphError: The job cannot be run; the error says what to change.
            JobExecutionError: The job failed; ``__cause__`` is the exception of the user's function, if one raised.
            JobCancelledError: The job was cancelled.
        """
        client = self.execute_async(job_name)
        try:
            result = client.get_job_execution_result().result()
        except Exception as error:
            failure = error  # Python forgets the other name at the end of this block
            tell(self._job_listeners, lambda listener: listener.on_job_executed(None, failure))
            raise
        tell(self._job_listeners, lambda listener: listener.on_job_executed(result, None))
        return result

    def execute_async(self, job_name: str | None = DEFAULT_JOB_NAME) -> JobClient:
        """Run the operators since the last execution as a job, and return at once.

        Args:
            job_name: The name of the job.

        Raises:
            EmptyJobError: There is nothing to run.
            JobGraphError: The job cannot be run; the error says what to change.
        """
        return self._execution.submit(job_name)

    def register_job_listener(self, job_listener: JobListener) -> None:
        """Notify a listener of this environment's jobs from now on; as in Flink's Java API."""
        self._job_listeners.append(job_listener)

    def clear_job_listeners(self) -> None:
        """Remove all registered listeners."""
        self._job_listeners.clear()

    def explain(self) -> str:
        """Return the plan of the next execution as readable text: levels, vertices, operators, edges, uids.

        Ours; ``get_execution_plan`` has Flink's form.

        Raises:
            JobGraphError: It cannot be run.
        """
        return explain(build_job_graph(self._stream_graph(None)))

    def get_execution_plan(self) -> str:
        """Return the plan of the next execution as JSON in the form of Flink's plans.

        Raises:
            JobGraphError: It cannot be run.
        """
        graph = self._stream_graph(None)
        uids = assign_uids(graph)
        descriptions = {uids[node.id]: node.description for node in graph.nodes if node.description is not None}
        return plan_json(build_job_graph(graph), descriptions)

    def _repr_html_(self) -> str:
        """Return what the next execution will run as a picture, for notebooks."""
        try:
            return picture(build_job_graph(self._stream_graph(None)))
        except JobGraphError as error:
            return message(error)

    def close(self) -> None:
        """Forget the operators that were not executed, and delete what is kept of cached streams."""
        self._pipeline.clear()
        self._caches.invalidate()

    # ----------------------------------------------------------------------------------------------------- machinery

    def _stream_graph(self, job_name: str | None) -> StreamGraph:
        return self._execution.stream_graph(job_name)

    def _source(
        self,
        source: Source[Any, Any, Any],
        watermark_strategy: WatermarkStrategy,
        name: str,
        type_info: TypeInformation | None,
        *,
        conform: bool,
    ) -> DataStream[Any]:
        check_type("type_info", type_info)
        bounded = source.get_boundedness() is Boundedness.BOUNDED
        factory = SourceFactory(source, watermark_strategy)
        node = self._pipeline.add_source(shown_name(f"Source: {name}"), factory, bounded=bounded)
        type_info = Types.PICKLED_BYTE_ARRAY() if type_info is None else type_info
        edge = self._pipeline.output(node, type_info, conform=conform)
        return DataStream(self, (edge,), type_info, node)


def _needs_jvm(operation: str, way_out: str) -> Never:
    raise UnsupportedOperationError(operation, f"it needs the JVM; {way_out}")


show("penstock.datastream.stream_execution_environment", StreamExecutionEnvironment)

"""KeyedStream: a stream that is partitioned by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, cast, overload

from penstock._api.functions.basic import FilterFunction, FlatMapFunction, KeySelector, MapFunction, ReduceFunction
from penstock._api.functions.process import KeyedProcessFunction
from penstock._api.windows.unaligned_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from penstock._builders.aggregations import Max, MaxBy, Min, MinBy, Sum
from penstock._builders.checks import check_function
from penstock._builders.column_aggregation import column_totals
from penstock._builders.data_stream import DataStream
from penstock._builders.declared_fields import check_field
from penstock._builders.interval_join import IntervalJoin
from penstock._builders.keyed_functions import KeyedFilter, KeyedFlatMap, KeyedMap, WithKey
from penstock._builders.operator_settings import CALLS
from penstock._builders.partitions import KeyPartitions
from penstock._builders.typed_functions import typed_reduce
from penstock._builders.windows.windowed import WindowedStream
from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.operators.factories.functions import MapFactory
from penstock._engine.operators.factories.keyed import KeyedProcessFactory, ReduceFactory
from penstock._shelf import show
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock._api.windows.window import CountWindow, WindowAssigner
    from penstock._builders.partitions import PartitionWindowedStream
    from penstock._builders.results import CloseableIterator
    from penstock._engine.graph.stream_graph import StreamEdge, StreamNode
    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")
K2 = TypeVar("K2")
W = TypeVar("W")


class KeyedStream(DataStream[T], Generic[T, K]):
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
        super().__init__(origin._environment, edges, origin._type_info)
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

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """Add up a field of the records of each key; the other fields stay those of the key's first record.

        Args:
            position_to_sum: The field's index, or its name in a Row. For records that are plain numbers, 0.
        """
        return self._aggregate("Sum", Sum, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """Find the smallest value of a field for each key; the other fields stay those of the key's first record.

        NaN counts as greater than all other values, in whatever order the records come.

        Args:
            position_to_min: The field's index, or its name in a Row. For records without fields, 0.
        """
        return self._aggregate("Min", Min, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """Find the greatest value of a field for each key; the other fields stay those of the key's first record.

        NaN counts as greater than all other values, in whatever order the records come.

        Args:
            position_to_max: The field's index, or its name in a Row. For records without fields, 0.
        """
        return self._aggregate("Max", Max, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T]:
        """Find the record with the smallest value of a field for each key; of equal ones the first.

        NaN counts as greater than all other values, in whatever order the records come.

        Args:
            position_to_min_by: The field's index, or its name in a Row. For records without fields, 0.
        """
        return self._aggregate("MinBy", MinBy, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T]:
        """Find the record with the greatest value of a field for each key; of equal ones the first.

        NaN counts as greater than all other values, in whatever order the records come.

        Args:
            position_to_max_by: The field's index, or its name in a Row. For records without fields, 0.
        """
        return self._aggregate("MaxBy", MaxBy, position_to_max_by)

    def _aggregate(
        self, name: str, function: Callable[[int | str], ReduceFunction[Any]], position: int | str
    ) -> DataStream[T]:
        check_field(name, position, self._declared_type())
        return self._reduce(name, function(position))

    def aggregate_batches(self, aggregates: Mapping[str, str | Sequence[str]]) -> DataStream[Any]:
        """Aggregate columns by key, without a Python object for each record; ours.

        In streaming mode, the end of each epoch emits the current totals of all keys that the epoch has changed; in
        batch mode each key has one result. Senders aggregate records before the shuffle as well. Nulls are ignored, as
        in SQL. A result has the key's column and one column for each aggregate, such as ``price_sum``; its timestamp is
        that of the key's newest record in the epoch.

        Args:
            aggregates: By column: "sum", "min", "max", "count" or "mean", or a list of them.

        Raises:
            ValueError: There is no such aggregate, or none at all, or a result is named as the key is.
            UnsupportedOperationError: The stream is not keyed by the name of a column, or a column is missing from its
                declared type or has an unsupported type.

        Example:
            >>> from penstock.datastream import StreamExecutionEnvironment
            >>> env = StreamExecutionEnvironment.get_execution_environment()
            >>> orders = env.from_collection([{"item": "tea", "price": 2}, {"item": "tea", "price": 3}])
            >>> orders.key_by("item").aggregate_batches({"price": ["sum", "max"]}).get_name()
            'Aggregate'
        """
        node, output_type = column_totals(
            self._pipeline, self._edges, self._key_selector, aggregates, self._declared_type()
        )
        return self._output_of(node, output_type, conform=False)

    # ---------------------------------------------------------------------------------------------------------- windows

    def window(self, window_assigner: WindowAssigner[Any, W]) -> WindowedStream[T, K, W]:
        """Group the records of each key into windows.

        Args:
            window_assigner: Says which windows a record belongs to.

        Raises:
            TypeError: The assigner is no WindowAssigner.
        """
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T, K, CountWindow]:
        """Group the records of each key into windows of a number of records; a window fires when it is full.

        Args:
            size: The number of records in a window.
            slide: The number of records between the starts of two windows; 0 for windows side by side.

        Raises:
            ValueError: The size is not positive, or the slide is negative.
        """
        assigner = CountSlidingWindowAssigner(size, slide) if slide else CountTumblingWindowAssigner(size)
        return self.window(assigner)

    def full_window_partition(self) -> PartitionWindowedStream[T]:
        """Take all records of each key together, to the end of the input; in batch jobs only, FLIP-380."""
        return KeyPartitions(self)

    def interval_join(self, other_stream: KeyedStream[U, K]) -> IntervalJoin[T, U]:
        """Join this stream with another one by key and by bounds on the difference of timestamps; not in PyFlink.

        Args:
            other_stream: The second stream, which must have a key as well; records with equal keys are joined.

        Raises:
            TypeError: It is no stream.
            KeyRequiredError: It has no key.
            UnsupportedOperationError: It belongs to another environment.
        """
        self._check_stream("interval_join", other_stream)
        return IntervalJoin(self, other_stream)

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[Any]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Any]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Any]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[Any] | list[Any]:
        """Execute the job, and return each record with its key, as PyFlink does: ``Row(f0=key, f1=record)``.

        The stream before ``key_by`` gives the records alone, and so do sinks and ``print``.

        Args:
            job_execution_name: The name of the job.
            limit: The maximum number of records.
        """
        factory = MapFactory(WithKey(self._key_selector))
        pairs = self._origin._transform(factory, "With key", None, keep_size=True)
        return pairs.execute_and_collect(job_execution_name, cast("int", limit))

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
        operation = f"{CALLS[method]} for KeyedStream"
        raise UnsupportedOperationError(
            operation, "call it on the stream before key_by, or on the result of the next operation"
        )


show("penstock.datastream.data_stream", KeyedStream)

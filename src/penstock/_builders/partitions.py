"""PartitionWindowedStream: all records of each partition, to which a function is applied in a batch job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from penstock._api.functions.basic import AggregateFunction, KeySelector, ReduceFunction
from penstock._api.functions.field_key import FieldKey
from penstock._api.functions.partitions import MapPartitionFunction
from penstock._api.windows.unaligned_windows import GlobalWindows
from penstock._builders.checks import check_format, check_function
from penstock._builders.declared_fields import check_sort_field
from penstock._builders.typed_functions import typed_reduce
from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.graph.stream_graph import Partitioning
from penstock._engine.operators.columnar.record_columns import DeclaredColumns
from penstock._engine.operators.factories.partitions import (
    AggregatePartitionFactory,
    MapPartitionBatchesFactory,
    MapPartitionFactory,
    ReducePartitionFactory,
    SortPartitionBatchesFactory,
    SortPartitionFactory,
)
from penstock._shelf import show
from penstock.common.order import Order
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock._builders.checks import BatchFormat
    from penstock._builders.data_stream import DataStream
    from penstock._builders.keyed_stream import KeyedStream
    from penstock._engine.operators.operator_factory import OperatorFactory
    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")
ACC = TypeVar("ACC")

#: The type of an operator's output, and whether its records are converted to it.
_Output: TypeAlias = "tuple[TypeInformation | None, bool]"

_Factory: TypeAlias = "MapPartitionFactory | MapPartitionBatchesFactory | SortPartitionFactory"


class PartitionWindowedStream(ABC, Generic[T]):
    """The records of a stream in partitions, made by ``full_window_partition()``; in batch jobs only.

    A partition is all records of a subtask or, on a keyed stream, all records of a key. Each operator has the
    parallelism of the operator before it: a subtask reads the records of the subtask with its number. Not in PyFlink.

    Source: org.apache.flink.streaming.api.datastream.PartitionWindowedStream, FLIP-380.

    Example:
        >>> from penstock.common import Order
        >>> from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> _ = env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        >>> numbers = env.from_collection([3, 1, 2]).full_window_partition()
        >>> numbers.sort_partition(lambda number: number, Order.DESCENDING).get_name()
        'SortPartition'
        >>> numbers.map_partition(lambda values: [sum(values)]).get_name()
        'MapPartition'
    """

    def __init__(self, stream: DataStream[T]) -> None:
        self._stream = stream

    def map_partition(
        self,
        func: MapPartitionFunction[T, R] | Callable[[Iterator[T]], Iterable[R] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Make any number of records out of each partition.

        The function starts at the first record, and each record is fetched when it asks for it. So neither the
        partition nor the results are ever in memory whole. An empty subtask calls it once, with no records. Results
        have no timestamps.

        Args:
            func: Takes an iterator over the records, and returns an iterable of results, yields them, or returns None.
            output_type: The type of the results; they are converted to it.

        Raises:
            TypeError: The function is neither a MapPartitionFunction nor a callable.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """
        check_function("func", func, MapPartitionFunction)
        return self._transform(MapPartitionFactory(func), "MapPartition", (output_type, True))

    def map_partition_batches(
        self,
        func: MapPartitionFunction[Any, Any] | Callable[[Iterator[Any]], Any],
        output_type: TypeInformation | None = None,
        batch_format: BatchFormat = "arrow",
    ) -> DataStream[Any]:
        """Make columns out of the columns of each partition, without a Python object for each record; ours.

        Args:
            func: Takes an iterator over batches, and returns or yields batches, tables or data frames.
            output_type: As for ``map_batches``.
            batch_format: As for ``map_batches``: "arrow", "pandas" or "polars".

        Raises:
            TypeError: The function is neither a MapPartitionFunction nor a callable.
            ValueError: The format is unknown.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
            UnsupportedOperationError: The package of the format is not installed.
        """
        check_function("func", func, MapPartitionFunction)
        check_format("map_partition_batches", batch_format)
        declared = DeclaredColumns.of(output_type)
        conform = declared is None or not declared.are_complete
        factory = MapPartitionBatchesFactory(func, batch_format, self._stream._declared_type(), output_type)
        return self._transform(factory, "MapPartitionBatches", (output_type, conform))

    def sort_partition(
        self, field: int | str | KeySelector[T, Any] | Callable[[T], Any], order: Order, nulls_first: bool = False
    ) -> DataStream[T]:
        """Sort the records of each partition; equal ones keep their order.

        ``execution.sort-partition.memory``, on keyed streams ``execution.sort-keyed-partition.memory``, limits the
        memory; the rest is written to the local disk. Timestamps stay with their records.

        Args:
            field: The position of a field, counted from 0, in tuples, lists and Rows; the name of a field of Rows and
                dicts, or of an attribute, where fN is position N of records without names; or a key selector, whose
                tuples sort by several fields.
            order: The direction.
            nulls_first: Whether None and then NaN come before all other values; else they come behind them, NaN first.
                This does not depend on the direction. Ours.

        Raises:
            TypeError: The field or the order is none.
            ValueError: The position is negative.
            UnsupportedOperationError: The declared type of the records does not have the field.
            UnpicklableFunctionError: The key selector captured something that cannot be pickled.
        """
        if not isinstance(field, (int, str)):
            check_function("field", field, KeySelector)
        elif isinstance(field, bool):
            msg = f"field must be a position, a name or a key selector, not {field!r}."
            raise TypeError(msg)
        else:
            check_sort_field("sort_partition", field, self._stream._declared_type())
        factory = SortPartitionFactory(field, checked_order(order), nulls_first)
        return self._transform(factory, "SortPartition", (self._stream._type_info, False))

    def sort_partition_batches(
        self,
        columns: str | Sequence[str | tuple[str, Order]],
        order: Order = Order.ASCENDING,
        nulls_first: bool = False,
    ) -> DataStream[T]:
        """Sort the columns of each partition by some of them, without a Python object for each record; ours.

        Memory, equal rows, nulls and NaN are as for ``sort_partition``. The keyed form needs a key that is a column:
        ``key_by("name")``.

        Args:
            columns: The names of columns; the first one counts most. A pair of a name and an Order sets the direction
                of that column.
            order: The direction of the others.
            nulls_first: Whether null and then NaN come before all other values.

        Raises:
            TypeError: A column or an order is none.
            ValueError: There is no column.
            UnsupportedOperationError: The stream is keyed by a function.
        """
        wanted = [columns] if isinstance(columns, str) else columns
        by = [(one, order) if isinstance(one, str) else one for one in wanted]
        if not by:
            msg = "sort_partition_batches needs a column to sort by."
            raise ValueError(msg)
        for name, direction in by:
            checked_order(direction)
            if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                msg = f"The name of a column is a text, not {name!r}."
                raise TypeError(msg)
        keys, stream = self._columns_of_keys(), self._stream
        factory = SortPartitionBatchesFactory([*keys, *by], nulls_first, stream._declared_type(), bool(keys))
        return self._add(factory, "SortPartitionBatches", (stream._type_info, False))

    @abstractmethod
    def aggregate(
        self, aggregate_function: AggregateFunction[T, ACC, R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Aggregate the records of each partition into one result, which is emitted at its end.

        Of the function, ``create_accumulator``, ``add`` and ``get_result`` are called; on keyed streams ``merge`` as
        well, if it says ``combinable``. An empty subtask emits the result of an empty accumulator.

        Args:
            aggregate_function: The function.
            output_type: The type of the results.

        Raises:
            TypeError: The function is no AggregateFunction.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """

    @abstractmethod
    def reduce(self, reduce_function: ReduceFunction[T] | Callable[[T, T], T]) -> DataStream[T]:
        """Reduce the records of each partition, in the order of their arrival, into one record.

        A single record is the result itself; an empty subtask emits nothing.

        Args:
            reduce_function: Takes the result so far and the next record.

        Raises:
            TypeError: The function is neither a ReduceFunction nor a callable.
            UnpicklableFunctionError: The function captured something that cannot be pickled.
        """

    def _transform(self, factory: _Factory, name: str, output: _Output) -> DataStream[Any]:
        """Add an operator of partitions, and return its output."""
        return self._add(factory, name, output)

    def _columns_of_keys(self) -> list[tuple[str, Order]]:
        """Return the key columns, by which is sorted before all others; none for partitions of subtasks."""
        return []

    def _add(self, factory: OperatorFactory, name: str, output: _Output) -> DataStream[Any]:
        stream, forward = self._stream, Partitioning(PartitionerKind.FORWARD)
        edges = tuple(
            replace(edge, partitioning=forward) if edge.partitioning is None else edge for edge in stream._edges
        )
        sender = edges[0].source
        node = stream._pipeline.add_operator(factory, name, edges, sized_like=sender, full_window=True)
        type_info, conform = output
        return stream._output_of(node, type_info, conform=conform)


class SubtaskPartitions(PartitionWindowedStream[T]):
    """Partitions that are all records of a subtask."""

    def aggregate(
        self, aggregate_function: AggregateFunction[T, ACC, R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        check_function("aggregate_function", aggregate_function, AggregateFunction, or_callable=False)
        return self._add(AggregatePartitionFactory(aggregate_function), "PartitionAggregate", (output_type, True))

    def reduce(self, reduce_function: ReduceFunction[T] | Callable[[T, T], T]) -> DataStream[T]:
        check_function("reduce_function", reduce_function, ReduceFunction)
        type_info = self._stream._type_info
        factory = ReducePartitionFactory(typed_reduce(reduce_function, type_info))
        return self._add(factory, "PartitionReduce", (type_info, False))


class KeyPartitions(PartitionWindowedStream[T], Generic[T, K]):
    """Partitions that are all records of a key."""

    def __init__(self, stream: KeyedStream[T, K]) -> None:
        super().__init__(stream)
        self._keyed = stream

    def aggregate(
        self, aggregate_function: AggregateFunction[T, ACC, R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        windows = self._keyed.window(GlobalWindows.create_with_end_of_stream_trigger())
        return self._named(windows.aggregate(aggregate_function, output_type=output_type), "PartitionAggregate")

    def reduce(self, reduce_function: ReduceFunction[T] | Callable[[T, T], T]) -> DataStream[T]:
        check_function("reduce_function", reduce_function, ReduceFunction)
        return self._named(self._keyed._reduce("PartitionReduce", reduce_function), "PartitionReduce")

    def _named(self, stream: DataStream[Any], name: str) -> DataStream[Any]:
        """Rename an operator of batch mode, which has one result for each key, as one of partitions."""
        node = stream._operator_for("name")
        node.name, node.full_window, node.sized_like = name, True, self._stream._edges[0].source
        return stream

    def _transform(self, factory: _Factory, name: str, output: _Output) -> DataStream[Any]:
        return self._add(factory.of_keys(self._keyed._key_selector), name, output)

    def _columns_of_keys(self) -> list[tuple[str, Order]]:
        selector = self._keyed._key_selector
        if not isinstance(selector, FieldKey):
            way_out = 'columns are sorted by a column as key; name it: key_by("column").full_window_partition()'
            raise UnsupportedOperationError("sort_partition_batches() of a stream keyed by a function", way_out)
        return [(selector.field, Order.ASCENDING)]


def checked_order(order: object) -> Order:
    """Return an order.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(order, Order):
        msg = f"order must be Order.ASCENDING or Order.DESCENDING, not {order!r}."
        raise TypeError(msg)
    return order


show("penstock.datastream.data_stream", PartitionWindowedStream)

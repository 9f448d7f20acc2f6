"""Aggregations of a keyed stream: of one field of its records, and of columns."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from penstock._api.functions.field_key import FieldKey
from penstock._builders.aggregations import Max, MaxBy, Min, MinBy, Sum
from penstock._builders.column_aggregation import aggregated_type, column_aggregates
from penstock._builders.declared_fields import check_field
from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.graph.pickling import dumps_members
from penstock._engine.graph.stream_graph import Partitioning
from penstock._engine.operators.columnar.column_aggregates import KEY
from penstock._engine.operators.factories.partitions import ColumnPartialsFactory, ColumnTotalsFactory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._api.functions.basic import ReduceFunction
    from penstock._builders.stream import DataStream, KeyedStream

T = TypeVar("T")


class FieldAggregations(Generic[T]):
    """Rolling aggregations of one field of a keyed stream (sums, minima and maxima), and aggregates of columns."""

    @abstractmethod
    def _reduce(self, name: str, func: object) -> DataStream[T]:
        """Fold the records of each key with a function."""

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
        check_field(name, position, cast("DataStream[T]", self)._declared_type())
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
        keyed = cast("KeyedStream[T, Any]", self)
        wanted = column_aggregates(keyed._key_selector, aggregates)
        partials = ColumnPartialsFactory(wanted, keyed._declared_type())
        by_key = Partitioning(PartitionerKind.HASH, dumps_members("KeyBy", {"key_selector": FieldKey(KEY)}))
        attached = keyed._pipeline.attached
        edges = tuple(
            replace(attached(partials, "partial results", edge), partitioning=by_key) for edge in keyed._edges
        )
        node = keyed._pipeline.add_operator(ColumnTotalsFactory(wanted, keyed._declared_type()), "Aggregate", edges)
        return keyed._output_of(node, aggregated_type(keyed._declared_type(), wanted), conform=False)

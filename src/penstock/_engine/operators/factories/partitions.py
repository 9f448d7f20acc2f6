"""Factories of operators of whole partitions (FLIP-380), and of columns that are aggregated by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock._engine.operators.columnar.column_totals import ColumnPartialsOperator, ColumnTotalsOperator
from penstock._engine.operators.factories.functions import FunctionFactory, MapBatchesFactory
from penstock._engine.operators.operator_factory import OperatorFactory
from penstock._engine.operators.partitions.column_sort import SortBatchesOperator
from penstock._engine.operators.partitions.partitions import (
    AggregatePartitionOperator,
    BatchesOfKeysOperator,
    MapPartitionBatchesOperator,
    MapPartitionOperator,
    PartitionsOfKeysOperator,
    ReducePartitionOperator,
)
from penstock._engine.operators.partitions.sort_partition import KeyedSortPartitionOperator, SortPartitionOperator

if TYPE_CHECKING:
    from penstock._engine.operators.base import Operator
    from penstock._engine.operators.columnar.column_aggregates import ColumnAggregates
    from penstock.common.order import Order
    from penstock.common.typeinfo import TypeInformation


class MapPartitionFactory(FunctionFactory):
    kind = "map_partition"
    takes_partitions: ClassVar[bool] = True
    reads_its_input: ClassVar[bool] = True

    def create(self) -> Operator:
        return MapPartitionOperator(self.function)

    def of_keys(self, key_selector: Any) -> KeyedMapPartitionFactory:
        """Return the factory that does the same for the partition of each key."""
        return KeyedMapPartitionFactory(**self.members(), key_selector=key_selector)


class MapPartitionBatchesFactory(MapBatchesFactory):
    kind = "map_partition_batches"
    takes_partitions: ClassVar[bool] = True
    reads_its_input: ClassVar[bool] = True

    def create(self) -> Operator:
        return MapPartitionBatchesOperator(self.function, self.batch_format, self.input_type, self.output_type)

    def of_keys(self, key_selector: Any) -> KeyedMapPartitionBatchesFactory:
        """Return the factory that does the same for the partition of each key."""
        return KeyedMapPartitionBatchesFactory(**self.members(), key_selector=key_selector)


@dataclass(frozen=True, eq=False)
class SortPartitionFactory(OperatorFactory):
    kind = "sort_partition"
    takes_partitions: ClassVar[bool] = True
    #: A position, the name of a field, or a key selector.
    field: Any
    order: Order
    nulls_first: bool

    def create(self) -> Operator:
        return SortPartitionOperator(self.field, self.order, nulls_first=self.nulls_first)

    def of_keys(self, key_selector: Any) -> KeyedSortPartitionFactory:
        """Return the factory that does the same for the partition of each key."""
        return KeyedSortPartitionFactory(**self.members(), key_selector=key_selector)


@dataclass(frozen=True, eq=False)
class SortPartitionBatchesFactory(OperatorFactory):
    kind = "sort_partition_batches"
    takes_partitions: ClassVar[bool] = True
    columns: list[tuple[str, Order]]
    nulls_first: bool
    input_type: TypeInformation | None
    #: Whether the first column is the key.
    by_key: bool

    def create(self) -> Operator:
        return SortBatchesOperator(**self.members())


class AggregatePartitionFactory(FunctionFactory):
    kind = "aggregate_partition"
    takes_partitions: ClassVar[bool] = True

    def create(self) -> Operator:
        return AggregatePartitionOperator(self.function)


class ReducePartitionFactory(FunctionFactory):
    kind = "reduce_partition"
    takes_partitions: ClassVar[bool] = True

    def create(self) -> Operator:
        return ReducePartitionOperator(self.function)


# ------------------------------------------------------------------------------------------------- partitions of keys


@dataclass(frozen=True, eq=False)
class KeyedMapPartitionFactory(FunctionFactory):
    kind = "keyed_map_partition"
    has_key: ClassVar[bool] = True
    key_selector: Any

    def create(self) -> Operator:
        return PartitionsOfKeysOperator(self.function, self.key_selector)


@dataclass(frozen=True, eq=False)
class KeyedMapPartitionBatchesFactory(MapBatchesFactory):
    kind = "keyed_map_partition_batches"
    has_key: ClassVar[bool] = True
    key_selector: Any

    def create(self) -> Operator:
        return BatchesOfKeysOperator(**self.members())


@dataclass(frozen=True, eq=False)
class KeyedSortPartitionFactory(OperatorFactory):
    kind = "keyed_sort_partition"
    has_key: ClassVar[bool] = True
    field: Any
    order: Order
    nulls_first: bool
    key_selector: Any

    def create(self) -> Operator:
        return KeyedSortPartitionOperator(**self.members())


# ----------------------------------------------------------------------------------------------- aggregates of columns


@dataclass(frozen=True, eq=False)
class ColumnPartialsFactory(OperatorFactory):
    """Aggregates columns before the shuffle to `ColumnTotalsFactory`."""

    kind = "column_partials"
    aggregates: ColumnAggregates
    input_type: TypeInformation | None

    def create(self) -> Operator:
        return ColumnPartialsOperator(self.aggregates, self.input_type)


class ColumnTotalsFactory(ColumnPartialsFactory):
    """Makes totals of partial results."""

    kind = "column_totals"
    always_keeps_state: ClassVar[bool] = True

    def create(self) -> Operator:
        return ColumnTotalsOperator(self.aggregates, self.input_type)

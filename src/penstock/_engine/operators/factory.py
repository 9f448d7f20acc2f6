"""Creates operators from the nodes of the job graph."""

from __future__ import annotations

import pickle
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.operators.async_functions.async_wait import AsyncWaitOperator
from penstock._engine.operators.columnar.column_totals import ColumnPartialsOperator, ColumnTotalsOperator
from penstock._engine.operators.columnar.column_windows import column_window_operator
from penstock._engine.operators.columnar.map_batches import MapBatchesOperator
from penstock._engine.operators.functions.broadcast import (
    BROADCAST_INPUT,
    BroadcastProcessOperator,
    KeyedBroadcastProcessOperator,
)
from penstock._engine.operators.functions.co_process import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    KeyedCoProcessOperator,
)
from penstock._engine.operators.functions.combine import CombineOperator
from penstock._engine.operators.functions.process import KeyedProcessOperator, ProcessOperator
from penstock._engine.operators.functions.reduce import ReduceOperator
from penstock._engine.operators.functions.stateless import CastOperator, FilterOperator, FlatMapOperator, MapOperator
from penstock._engine.operators.joins.interval_join import IntervalJoinOperator
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
from penstock._engine.operators.sinks.checkpoint_process import CheckpointProcessOperator
from penstock._engine.operators.sinks.committed import CommittedOperator
from penstock._engine.operators.sinks.sink import (
    CollectOperator,
    CommittablesOperator,
    SinkWriterOperator,
    cache_operator,
)
from penstock._engine.operators.sorting.sorted_input import SortedInputOperator, SortedReduceOperator
from penstock._engine.operators.sources.batch_sources import BatchSourceOperator, batch_timestamps
from penstock._engine.operators.sources.source import SourceOperator
from penstock._engine.operators.sources.watermarks import TimestampsAndWatermarksOperator
from penstock._engine.operators.windows.partials import CombineWindowOperator, window_of_partials
from penstock._engine.operators.windows.window_choice import window_operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.operators.base import Operator
    from penstock._engine.operators.keyed import KeyedOperator


def _sorted(make: Callable[..., KeyedOperator], broadcast_input: int | None = None) -> Callable[..., Operator]:
    """Return the constructor of a keyed operator in batch mode."""

    def create(**members: Any) -> Operator:
        return SortedInputOperator(make(**members), broadcast_input)

    return create


def _sorted_reduce(**members: Any) -> Operator:
    return SortedReduceOperator(ReduceOperator(**members))


def _sorted_reduce_of_pairs(function: Any, key_selector: Any) -> Operator:
    del key_selector  # the combining operator has selected the keys
    return SortedReduceOperator(ReduceOperator(function, itemgetter(0)), takes_pairs=True)


#: Constructors by kind (the text of `graph.job_graph.OperatorKind`); they take the members of the node's payload.
_OPERATORS: Final[dict[str, Callable[..., Operator]]] = {
    "source": SourceOperator,
    "map": MapOperator,
    "flat_map": FlatMapOperator,
    "filter": FilterOperator,
    "map_batches": MapBatchesOperator,
    "process": ProcessOperator,
    "watermarks": TimestampsAndWatermarksOperator,
    "keyed_process": KeyedProcessOperator,
    "co_map": CoMapOperator,
    "co_flat_map": CoFlatMapOperator,
    "co_process": CoProcessOperator,
    "keyed_co_process": KeyedCoProcessOperator,
    "interval_join": IntervalJoinOperator,
    "broadcast_process": BroadcastProcessOperator,
    "keyed_broadcast_process": KeyedBroadcastProcessOperator,
    "reduce": ReduceOperator,
    "window": window_operator,
    "async_wait": AsyncWaitOperator,
    "column_partials": ColumnPartialsOperator,
    "column_totals": ColumnTotalsOperator,
    "column_window": column_window_operator,
    "conform": CastOperator,
    "sink_writer": SinkWriterOperator,
    "checkpoint_process": CheckpointProcessOperator,
    "committables": CommittablesOperator,
    "committed": CommittedOperator,
    "cache": cache_operator,
    "collect": CollectOperator,
}

#: The constructors of batch jobs.
_BATCH_OPERATORS: Final[dict[str, Callable[..., Operator]]] = {
    **_OPERATORS,
    "source": BatchSourceOperator,
    "watermarks": batch_timestamps,
    "map_partition": MapPartitionOperator,
    "map_partition_batches": MapPartitionBatchesOperator,
    "sort_partition": SortPartitionOperator,
    "sort_partition_batches": SortBatchesOperator,
    "aggregate_partition": AggregatePartitionOperator,
    "reduce_partition": ReducePartitionOperator,
    "keyed_map_partition": PartitionsOfKeysOperator,
    "keyed_map_partition_batches": BatchesOfKeysOperator,
    "keyed_sort_partition": KeyedSortPartitionOperator,
    "keyed_process": _sorted(KeyedProcessOperator),
    "keyed_co_process": _sorted(KeyedCoProcessOperator),
    "interval_join": _sorted(IntervalJoinOperator),
    "keyed_broadcast_process": _sorted(KeyedBroadcastProcessOperator, BROADCAST_INPUT),
    "window": _sorted(window_operator),
    "reduce": _sorted_reduce,
    "combine": CombineOperator,
    "reduce_combined": _sorted_reduce_of_pairs,
    "combine_window": CombineWindowOperator,
    "window_combined": _sorted(window_of_partials),
}


def create_operator(kind: str, payload: bytes, *, batch: bool = False) -> Operator:
    """Return the operator of a node.

    Args:
        kind: The node's kind.
        payload: The pickled members that the kind names; made by this job's own program.
        batch: Whether the job is a batch job.
    """
    members: dict[str, Any] = pickle.loads(payload)
    return (_BATCH_OPERATORS if batch else _OPERATORS)[kind](**members)

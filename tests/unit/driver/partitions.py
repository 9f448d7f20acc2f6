"""What tests of full window partitions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common import Order, WatermarkStrategy
from penstock.datastream.functions import (
    AggregateFunction,
    MapPartitionFunction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.datastream import DataStream

UNSTAMPED = WatermarkStrategy.no_watermarks()
ASCENDING, DESCENDING = Order.ASCENDING, Order.DESCENDING
SMALL = {"execution.sort-partition.memory": "4 kb", "execution.sort-keyed-partition.memory": "4 kb"}


class Reads(MapPartitionFunction[Any, Any]):
    """Emits its subtask and all records that it reads."""

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.calls = 0

    def map_partition(self, values: Iterator[Any]) -> Iterable[Any]:
        self.calls += 1
        assert self.calls == 1
        yield self.subtask, list(values)


def collected(stream: DataStream[Any]) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


def partitions(stream: DataStream[Any]) -> list[list[Any]]:
    """Return the partitions of a stream, by subtask."""
    found = dict(collected(stream.full_window_partition().map_partition(Reads())))
    return [found[subtask] for subtask in range(len(found))]


class Mean(AggregateFunction[Any, Any, Any]):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise AssertionError

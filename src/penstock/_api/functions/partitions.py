"""The function of whole partitions."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock._api.functions.basic import Function
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class MapPartitionFunction(Function, Generic[IN, OUT]):
    """Makes any number of records out of all records of a partition, which it reads one after the other.

    A partition is all records of a subtask or, on a keyed stream, all records of a key. PyFlink has no such function.

    Source: org.apache.flink.api.common.functions.MapPartitionFunction, FLIP-380.

    Example:
        >>> class Count(MapPartitionFunction):
        ...     def map_partition(self, values):
        ...         yield sum(1 for _ in values)
        >>> list(Count().map_partition(iter("abc")))
        [3]
    """

    @abstractmethod
    def map_partition(self, values: Iterator[IN]) -> Iterable[OUT] | None:
        """Return or yield the results of a partition; None for none.

        It runs once for each partition, while the partition is being read: the next record is fetched when it is asked
        for. What it leaves unread is read and dropped.

        Args:
            values: The records, each of them once. For ``map_partition_batches`` they are batches of columns.
        """


show("penstock.datastream.functions", MapPartitionFunction)

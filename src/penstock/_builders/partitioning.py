"""The ways in which a stream spreads its records over the subtasks of the next operator, without keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, cast, overload

from penstock._api.functions.basic import KeySelector, Partitioner
from penstock._builders.checks import check_broadcast_descriptors, check_function
from penstock._builders.connected import BroadcastStream
from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.graph.pickling import dumps_members

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._api.state.kinds import MapStateDescriptor
    from penstock._builders.stream import DataStream

T = TypeVar("T")
K = TypeVar("K")


class StreamPartitioning(Generic[T]):
    """Spreads records over subtasks."""

    def shuffle(self) -> DataStream[T]:
        """Send each record to a subtask at random."""
        return self._as_stream()._partitioned(PartitionerKind.SHUFFLE)

    def rebalance(self) -> DataStream[T]:
        """Send the records to all subtasks round-robin."""
        return self._as_stream()._partitioned(PartitionerKind.REBALANCE)

    def rescale(self) -> DataStream[T]:
        """Send the records of each subtask round-robin to a subset of the downstream subtasks."""
        return self._as_stream()._partitioned(PartitionerKind.RESCALE)

    def forward(self) -> DataStream[T]:
        """Send the records of each subtask to the downstream subtask of the same index.

        The next operator must have the same parallelism, else the job is refused.
        """
        return self._as_stream()._partitioned(PartitionerKind.FORWARD)

    @overload
    def broadcast(self) -> DataStream[T]: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream[T]: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream[T] | BroadcastStream[T]:
        """Send each record to every subtask; with descriptors, the records fill broadcast maps.

        Args:
            broadcast_state_descriptor: A map that the records fill, in the function after ``connect``; none for a
                stream of records.
            *other_broadcast_state_descriptors: Further maps.

        Raises:
            TypeError: One of them is no MapStateDescriptor.
            UnsupportedOperationError: Two of them have one name.
        """
        stream = self._as_stream()._partitioned(PartitionerKind.BROADCAST)
        if broadcast_state_descriptor is None:
            return stream
        descriptors = (broadcast_state_descriptor, *other_broadcast_state_descriptors)
        check_broadcast_descriptors(descriptors)
        return BroadcastStream(stream, descriptors)

    def partition_custom(
        self,
        partitioner: Partitioner[K] | Callable[[K, int], int],
        key_selector: KeySelector[T, K] | Callable[[T], K],
    ) -> DataStream[T]:
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
        return self._as_stream()._partitioned(PartitionerKind.CUSTOM, dumps_members("partition_custom", members))

    def _as_stream(self) -> DataStream[T]:
        return cast("DataStream[T]", self)

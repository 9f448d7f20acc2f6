"""How the records of one subtask spread over the receivers of an edge: one router for each partitioner."""

from __future__ import annotations

import pickle
import random
import reprlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.graph.job_graph import JobEdge, PartitionerKind
from penstock._engine.operators.batch import Batch
from penstock._engine.protocol.key_groups import key_group, key_groups, subtask_of_key_group
from penstock._engine.protocol.keys import equal_as_encoded, normal_key
from penstock.common.copies import any_may_change, own
from penstock.errors import PartitionError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Keys whose receiver is remembered.
_ROUTES: Final = 1 << 16


class OutputBuffer:
    """What waits to be sent to one receiver."""

    __slots__ = ("records", "timestamps", "watermarks")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.timestamps: list[int] | None = None
        self.watermarks: list[tuple[int, int]] = []

    def add(self, records: list[Any], timestamps: list[int] | None) -> None:
        """Take records with their timestamps; the outlet holds either all of them stamped, or none."""
        self.records.extend(records)
        if timestamps is not None:
            assert self.timestamps is not None
            self.timestamps.extend(timestamps)

    def add_watermark(self, watermark: int) -> None:
        """Put a watermark after the records so far; each one is sent, because timers see at which one they fire."""
        self.watermarks.append((len(self.records), watermark))

    def take(self) -> Batch:
        """Return what waits, and be empty."""
        batch = Batch(self.records, self.timestamps if self.records else None, self.watermarks)
        self.records, self.timestamps, self.watermarks = [], None, []
        return batch


class Router(ABC):
    """Puts runs of records into the outlets of an edge.

    Args:
        outlets: One for each receiver.
        functions: What it calls of the user's; opened before the first record.
    """

    def __init__(self, outlets: list[OutputBuffer], functions: tuple[Any, ...] = ()) -> None:
        self.outlets = outlets
        self.functions = functions

    @abstractmethod
    def route(self, records: list[Any], timestamps: list[int] | None) -> None:
        """Put each record into the outlet of its receiver; outlets are ready for stamped or unstamped records."""


class SingleRouter(Router):
    """All records to one receiver."""

    def route(self, records: list[Any], timestamps: list[int] | None) -> None:
        self.outlets[0].add(records, timestamps)


class BroadcastRouter(Router):
    """Each record to every receiver."""

    def route(self, records: list[Any], timestamps: list[int] | None) -> None:
        for outlet in self.outlets:
            outlet.add(records, timestamps)


class RoundRobinRouter(Router):
    """One record after the other to the next receiver."""

    def __init__(self, outlets: list[OutputBuffer], start: int) -> None:
        super().__init__(outlets)
        self._next = start % len(outlets)

    def route(self, records: list[Any], timestamps: list[int] | None) -> None:
        count = len(self.outlets)
        for step in range(min(count, len(records))):
            outlet = self.outlets[(self._next + step) % count]
            outlet.add(records[step::count], None if timestamps is None else timestamps[step::count])
        self._next = (self._next + len(records)) % count


class TargetRouter(Router):
    """Each record to the receiver that a function names for a whole run."""

    def __init__(
        self, outlets: list[OutputBuffer], targets: Callable[[list[Any]], list[int]], functions: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(outlets, functions)
        self._targets = targets

    def route(self, records: list[Any], timestamps: list[int] | None) -> None:
        targets = self._targets(records)
        put = [outlet.records.append for outlet in self.outlets]
        for record, target in zip(records, targets, strict=True):
            put[target](record)
        if timestamps is not None:
            stamp = [outlet.timestamps.append for outlet in self.outlets if outlet.timestamps is not None]
            for timestamp, target in zip(timestamps, targets, strict=True):
                stamp[target](timestamp)


class KeyRoutes(dict[Any, int]):
    """key -> receiver, filled on demand, for keys of which the equal ones have one encoding.

    That is known of Python's own plain types and of flat tuples of them. Of all others the encoding alone decides: a
    class of the user's may have an `__eq__` of its own, and its objects may change.

    A stream with more keys than it remembers has all of them computed: by then a look into so large a dict costs as
    much, and it would take up a worker's memory.
    """

    def __init__(self, parallelism: int, max_parallelism: int) -> None:
        super().__init__()
        self._max_parallelism = max_parallelism
        #: By key group.
        self._receivers = [
            subtask_of_key_group(group, parallelism, max_parallelism) for group in range(max_parallelism)
        ]
        self._overflowed = False

    def __missing__(self, key: Any) -> int:
        receiver = self._receivers[key_group(normal_key(key), self._max_parallelism)]
        if len(self) < _ROUTES:
            self[key] = receiver
        else:
            self._overflowed = True
        return receiver

    def of(self, records: list[Any], select: Callable[[Any], Any]) -> list[int]:
        """Return the receivers of records.

        Args:
            records: The records.
            select: Returns the key of one; where keys may be changed, it may return one object for all of them.

        Raises:
            KeyEncodingError: A key has no encoding.
        """
        keys = [select(record) for record in records]
        if not equal_as_encoded(keys):
            return self._compute([own(select(record)) for record in records] if any_may_change(keys) else keys)
        if self._overflowed:
            self.clear()
            return self._compute(keys)
        return list(map(self.__getitem__, keys))

    def _compute(self, keys: list[Any]) -> list[int]:
        receivers = self._receivers
        return [receivers[group] for group in key_groups(keys, self._max_parallelism)]


def make_router(
    edge: JobEdge, outlets: list[OutputBuffer], sender: int, parallelism: int, max_parallelism: int
) -> Router:
    """Return the router of one sender.

    Args:
        edge: The edge.
        outlets: One for each receiver that the sender reaches.
        sender: The sending subtask.
        parallelism: Of the receiving vertex.
        max_parallelism: Of the receiving vertex.
    """
    members: dict[str, Any] = pickle.loads(edge.payload) if edge.payload else {}
    functions = tuple(members.values())
    match edge.partitioner:
        case PartitionerKind.HASH:
            select = getattr(members["key_selector"], "get_key", members["key_selector"])
            routes = KeyRoutes(parallelism, max_parallelism)
            return TargetRouter(outlets, lambda records: routes.of(records, select), functions)
        case PartitionerKind.CUSTOM:
            targets = _custom(members["partitioner"], members["key_selector"], parallelism)
            return TargetRouter(outlets, targets, functions)
        case PartitionerKind.SHUFFLE:
            return TargetRouter(outlets, lambda records: random.choices(range(parallelism), k=len(records)))  # noqa: S311
        case PartitionerKind.BROADCAST:
            return BroadcastRouter(outlets)
        case _ if len(outlets) == 1:
            return SingleRouter(outlets)
        case _:
            return RoundRobinRouter(outlets, sender)


def _custom(partitioner: Any, key_selector: Any, parallelism: int) -> Callable[[list[Any]], list[int]]:
    partition: Callable[[Any, int], object] = getattr(partitioner, "partition", partitioner)
    select = getattr(key_selector, "get_key", key_selector)

    receivers: dict[object, int] = {receiver: receiver for receiver in range(parallelism)}

    def target(record: Any) -> int:
        chosen = partition(select(record), parallelism)
        try:
            return receivers[chosen]
        except (KeyError, TypeError):
            raise PartitionError(reprlib.repr(chosen), parallelism) from None

    return lambda records: [target(record) for record in records]

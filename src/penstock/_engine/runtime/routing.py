"""Distributes the records of one subtask to the receivers of an edge, with one router for each partitioner."""

from __future__ import annotations

import pickle
import random
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, cast

from penstock._engine.graph.job_graph import JobEdge, PartitionerKind
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columns import ColumnBatch, joined
from penstock._engine.operators.current_record import CurrentRecord
from penstock._engine.operators.keyed import refuse_unstable_key
from penstock._engine.protocol.keys import encode_key, equal_as_encoded
from penstock._engine.runtime.column_routing import KeyColumn, by_receiver, in_turn
from penstock._engine.runtime.key_routes import KeyRoutes
from penstock.common.user_values import short_repr
from penstock.errors import KeyEncodingError, PartitionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.operators.batch import Batch, Shape


class OutputBuffer:
    """The buffered records and watermarks for one receiver: rows, or columns of one form."""

    __slots__ = ("columns", "count", "records", "shape", "timestamps", "watermarks")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.timestamps: list[int] | None = None
        self.watermarks: list[tuple[int, int]] = []
        self.shape: Shape | None = None
        #: Parts of a batch of columns, and the number of their records.
        self.columns: list[ColumnBatch] = []
        self.count = 0

    def __len__(self) -> int:
        return len(self.records) + self.count

    def expect(self, shape: Shape | None) -> None:
        """Prepare for records of a shape."""
        if self.shape != shape:
            self.shape = None if self.records else shape

    def add(self, records: list[Any], timestamps: list[int] | None) -> None:
        """Add records with their timestamps; in one buffer either all records have timestamps, or none."""
        self.records.extend(records)
        if timestamps is not None:
            assert self.timestamps is not None
            self.timestamps.extend(timestamps)

    def add_columns(self, batch: ColumnBatch) -> None:
        """Add a batch of the same form as the earlier ones; its watermarks are added separately."""
        self.columns.append(batch)
        self.count += len(batch)

    def add_watermark(self, watermark: int) -> None:
        """Put a watermark after the records so far; none are merged, because timers see the one that fires them."""
        self.watermarks.append((len(self.records) + self.count, watermark))

    def take(self) -> Batch:
        """Return the buffered records, and clear the buffer."""
        if self.columns:
            batch: Batch = joined(self.columns, self.watermarks)
            self.columns, self.count = [], 0
        else:
            batch = RowBatch(self.records, self.timestamps if self.records else None, self.watermarks, self.shape)
        self.records, self.timestamps, self.watermarks = [], None, []
        return batch


class Router(CurrentRecord, ABC):
    """Puts runs of records into the output buffers of an edge.

    Args:
        outlets: One output buffer for each receiver.
        functions: The user functions that it calls; they are opened before the first record.
    """

    def __init__(self, outlets: list[OutputBuffer], functions: tuple[Any, ...] = ()) -> None:
        super().__init__()
        self.outlets = outlets
        self.functions = functions

    def check(self, record: Any, operator: str) -> None:
        """Check the function that chooses receivers with one record.

        Args:
            record: The record.
            operator: The name of the receiving operator.
        """

    @property
    def chooser(self) -> str:
        """What chooses the receivers, for messages: a function of the program; "" if none does."""
        return ""

    @abstractmethod
    def route(self, records: list[Any], timestamps: list[int] | None) -> None:
        """Put each record into the outlet of its receiver; outlets were prepared with or without timestamps."""


class ColumnRouter(Router):
    """A router that distributes batches of columns, too."""

    def takes(self, batch: ColumnBatch) -> bool:
        """Return whether it can route a batch of columns; otherwise the batch is routed as rows."""
        return True

    @abstractmethod
    def route_columns(self, batch: ColumnBatch) -> None:
        """Put the records of a batch that `takes` accepted into the outlets of their receivers; it is not empty."""


class SingleRouter(ColumnRouter):
    """Sends all records to one receiver."""

    def route(self, records: list[Any], timestamps: list[int] | None) -> None:
        self.outlets[0].add(records, timestamps)

    def route_columns(self, batch: ColumnBatch) -> None:
        self.outlets[0].add_columns(batch)


class BroadcastRouter(ColumnRouter):
    """Sends each record to every receiver."""

    def route(self, records: list[Any], timestamps: list[int] | None) -> None:
        for outlet in self.outlets:
            outlet.add(records, timestamps)

    def route_columns(self, batch: ColumnBatch) -> None:
        for outlet in self.outlets:
            outlet.add_columns(batch)


class RoundRobinRouter(ColumnRouter):
    """Sends each record to the next receiver in turn."""

    def __init__(self, outlets: list[OutputBuffer], start: int) -> None:
        super().__init__(outlets)
        self._next = start % len(outlets)

    def route(self, records: list[Any], timestamps: list[int] | None) -> None:
        count = len(self.outlets)
        for step in range(min(count, len(records))):
            outlet = self.outlets[(self._next + step) % count]
            outlet.add(records[step::count], None if timestamps is None else timestamps[step::count])
        self._next = (self._next + len(records)) % count

    def route_columns(self, batch: ColumnBatch) -> None:
        count = len(self.outlets)
        for receiver, part in by_receiver(batch, in_turn(self._next, count, len(batch))):
            self.outlets[receiver].add_columns(part)
        self._next = (self._next + len(batch)) % count


class TargetRouter(Router):
    """Sends each record to a receiver of its own."""

    @abstractmethod
    def targets(self, records: list[Any]) -> list[int]:
        """Return the receivers of a run of records."""

    def route(self, records: list[Any], timestamps: list[int] | None) -> None:
        targets = self.targets(records)
        put = [outlet.records.append for outlet in self.outlets]
        if timestamps is None:
            for record, target in zip(records, targets, strict=True):
                put[target](record)
            return
        stamp = [outlet.timestamps.append for outlet in self.outlets if outlet.timestamps is not None]
        for record, timestamp, target in zip(records, timestamps, targets, strict=True):
            put[target](record)
            stamp[target](timestamp)


class RandomRouter(TargetRouter, ColumnRouter):
    """Sends each record to a random receiver."""

    def targets(self, records: list[Any]) -> list[int]:
        return self._draw(len(records))

    def _draw(self, count: int) -> list[int]:
        return random.choices(range(len(self.outlets)), k=count)  # noqa: S311 - no secret

    def route_columns(self, batch: ColumnBatch) -> None:
        import numpy as np

        for receiver, part in by_receiver(batch, np.array(self._draw(len(batch)))):
            self.outlets[receiver].add_columns(part)


class CustomRouter(TargetRouter):
    """Sends each record to the receiver that the program's partitioner names."""

    def __init__(self, outlets: list[OutputBuffer], partitioner: Any, key_selector: Any, parallelism: int) -> None:
        super().__init__(outlets, (partitioner, key_selector))
        self._partition: Callable[[Any, int], object] = getattr(partitioner, "partition", partitioner)
        self._select = getattr(key_selector, "get_key", key_selector)
        self._receivers: dict[object, int] = {receiver: receiver for receiver in range(parallelism)}

    @property
    def chooser(self) -> str:
        return f"{_described('partitioner', self._partition)} or {_described('key function', self._select)}"

    def targets(self, records: list[Any]) -> list[int]:
        return [self._target(record) for record in self.iterate(records)]

    def _target(self, record: Any) -> int:
        chosen = self._partition(self._select(record), len(self._receivers))
        try:
            return self._receivers[chosen]
        except (KeyError, TypeError):
            raise PartitionError(short_repr(chosen), len(self._receivers)) from None


class HashRouter(TargetRouter):
    """Sends each record to the receiver of its key."""

    def __init__(
        self,
        outlets: list[OutputBuffer],
        routes: KeyRoutes,
        select: Callable[[Any], Any],
        functions: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(outlets, functions)
        self._routes = routes
        self._select = select

    @property
    def chooser(self) -> str:
        return _described("key function", self._select)

    def check(self, record: Any, operator: str) -> None:
        next(self.iterate([record]))
        refuse_unstable_key(self._select, record, operator)

    def targets(self, records: list[Any]) -> list[int]:
        try:
            return self._routes.of(records, self._select, self.iterate)
        except KeyEncodingError:
            for record in self.iterate(records):  # the error comes again, at its record
                encode_key(self._select(record))
            raise

    def route(self, records: list[Any], timestamps: list[int] | None) -> None:
        taken = self._route_alike(records, timestamps)
        if taken < len(records):
            super().route(records[taken:], None if timestamps is None else timestamps[taken:])

    def _route_alike(self, records: list[Any], timestamps: list[int] | None) -> int:
        """Route records while their keys are of one type, such as str or int; return the number of routed records.

        It is one loop, because lists between its steps took a third longer.
        """
        select, routes = self._select, self._routes
        cursor: Any = self.iterate(records)
        first = select(records[0])
        kind = cast("type[Any]", type(first))
        if kind is tuple or routes.overflowed or not equal_as_encoded([first]):
            return 0
        known, learn, put = routes.known, routes.learn, [outlet.records.append for outlet in self.outlets]
        if timestamps is None:
            for record in cursor:
                key = select(record)
                if type(key) is not kind:
                    return len(records) - cursor.__length_hint__() - 1
                try:
                    put[known[key]](record)
                except KeyError:
                    put[learn(key)](record)
            return len(records)
        stamp = [outlet.timestamps.append for outlet in self.outlets if outlet.timestamps is not None]
        for timestamp, record in zip(timestamps, cursor, strict=True):
            key = select(record)
            if type(key) is not kind:
                return len(records) - cursor.__length_hint__() - 1
            try:
                receiver = known[key]
            except KeyError:
                receiver = learn(key)
            put[receiver](record)
            stamp[receiver](timestamp)
        return len(records)


class FieldRouter(HashRouter, ColumnRouter):
    """Sends each record to the receiver of its key, which is a field and thus a column."""

    def __init__(
        self,
        outlets: list[OutputBuffer],
        routes: KeyRoutes,
        select: Callable[[Any], Any],
        functions: tuple[Any, ...],
        column: KeyColumn,
    ) -> None:
        super().__init__(outlets, routes, select, functions)
        self._column = column

    @property
    def chooser(self) -> str:
        return f"key field {self._column.name!r}"

    def takes(self, batch: ColumnBatch) -> bool:
        return self._column.is_in(batch)

    def route_columns(self, batch: ColumnBatch) -> None:
        for receiver, part in by_receiver(batch, self._column.receivers(batch, self._routes)):
            self.outlets[receiver].add_columns(part)


def _described(kind: str, function: object) -> str:
    """Return a function of the program by its name and line; one of ours, which calls that, only by its kind."""
    from penstock._engine.graph.pickling import describe  # only where something failed

    is_ours = str(getattr(function, "__module__", "")).startswith("penstock.")
    return kind if is_ours else f"{kind} {describe(function)}"


def make_router(
    edge: JobEdge, outlets: list[OutputBuffer], sender: int, parallelism: int, max_parallelism: int
) -> Router:
    """Return the router of one sender.

    Args:
        edge: The edge.
        outlets: One output buffer for each receiver that the sender reaches.
        sender: The sending subtask.
        parallelism: The parallelism of the receiving vertex.
        max_parallelism: The maximum parallelism of the receiving vertex.
    """
    members: dict[str, Any] = pickle.loads(edge.payload) if edge.payload else {}
    functions = tuple(members.values())
    match edge.partitioner:
        case PartitionerKind.HASH:
            selector = members["key_selector"]
            select, column = getattr(selector, "get_key", selector), KeyColumn.of(selector)
            routes = KeyRoutes(parallelism, max_parallelism)
            among = outlets, routes, select, functions
            return HashRouter(*among) if column is None else FieldRouter(*among, column)
        case PartitionerKind.CUSTOM:
            return CustomRouter(outlets, members["partitioner"], members["key_selector"], parallelism)
        case PartitionerKind.SHUFFLE:
            return RandomRouter(outlets)
        case PartitionerKind.BROADCAST:
            return BroadcastRouter(outlets)
        case _ if len(outlets) == 1:
            return SingleRouter(outlets)
        case _:
            return RoundRobinRouter(outlets, sender)

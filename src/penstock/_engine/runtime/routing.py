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
from penstock._engine.operators.key_selection import KeySelection
from penstock._engine.protocol.keys import encode_key, equal_as_encoded
from penstock._engine.runtime.column_routing import KeyColumn, by_receiver
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

    def add(self, batch: Batch) -> None:
        """Add a batch of the same form as the earlier ones; its watermarks are added separately."""
        if isinstance(batch, ColumnBatch):
            self.columns.append(batch)
            self.count += len(batch)
            return
        rows = batch.rows()
        self.records.extend(rows.records)
        if rows.timestamps is not None:
            assert self.timestamps is not None
            self.timestamps.extend(rows.timestamps)

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

    #: Whether it can route columns; `takes` decides for each batch.
    takes_columns = False

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

    def takes(self, batch: ColumnBatch) -> bool:
        """Return whether it can route a batch of columns; otherwise the batch is routed as rows."""
        return self.takes_columns

    @abstractmethod
    def route(self, batch: Batch) -> None:
        """Put each record of a batch into the outlet of its receiver; outlets are prepared for its form.

        Args:
            batch: Rows, or columns that `takes` accepted; it is not empty, and its watermarks are added separately.
        """


class SingleRouter(Router):
    """Sends all records to one receiver."""

    takes_columns = True

    def route(self, batch: Batch) -> None:
        self.outlets[0].add(batch)


class BroadcastRouter(Router):
    """Sends each record to every receiver."""

    takes_columns = True

    def route(self, batch: Batch) -> None:
        for outlet in self.outlets:
            outlet.add(batch)


class RoundRobinRouter(Router):
    """Sends each record to the next receiver in turn."""

    takes_columns = True

    def __init__(self, outlets: list[OutputBuffer], start: int) -> None:
        super().__init__(outlets)
        self._next = start % len(outlets)

    def route(self, batch: Batch) -> None:
        count = len(self.outlets)
        for step in range(min(count, len(batch))):
            self.outlets[(self._next + step) % count].add(batch.every(step, count))
        self._next = (self._next + len(batch)) % count


class TargetRouter(Router):
    """Sends each record to a receiver of its own."""

    @abstractmethod
    def targets(self, batch: Any) -> Any:
        """Return the receivers of the records of a batch, a list; of columns an array of NumPy's."""

    def route(self, batch: Batch) -> None:
        targets = self.targets(batch)
        if isinstance(batch, ColumnBatch):
            for receiver, part in by_receiver(batch, targets):
                self.outlets[receiver].add(part)
            return
        rows = batch.rows()
        records, timestamps = rows.records, rows.timestamps
        put = [outlet.records.append for outlet in self.outlets]
        if timestamps is None:
            for record, target in zip(records, targets, strict=True):
                put[target](record)
            return
        stamp = [outlet.timestamps.append for outlet in self.outlets if outlet.timestamps is not None]
        for record, timestamp, target in zip(records, timestamps, targets, strict=True):
            put[target](record)
            stamp[target](timestamp)


class RandomRouter(TargetRouter):
    """Sends each record to a random receiver."""

    takes_columns = True

    def targets(self, batch: Batch) -> list[int]:
        return random.choices(range(len(self.outlets)), k=len(batch))  # noqa: S311 - no secret


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

    def targets(self, batch: RowBatch) -> list[int]:
        return [self._target(record) for record in self.iterate(batch.records)]

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
        selection: KeySelection,
        functions: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(outlets, functions)
        self._routes = routes
        self._selection = selection

    @property
    def chooser(self) -> str:
        return _described("key function", self._selection.select)

    def check(self, record: Any, operator: str) -> None:
        next(self.iterate([record]))
        self._selection.refuse_unstable(record, operator)

    def targets(self, batch: Any) -> Any:
        try:
            return self._routes.of(batch.records, self._selection, self.iterate)
        except KeyEncodingError:
            for record in self.iterate(batch.records):  # the error comes again, at its record
                encode_key(self._selection.one(record))
            raise

    def route(self, batch: Batch) -> None:
        taken = 0 if isinstance(batch, ColumnBatch) else self._route_alike(batch.rows())
        if taken < len(batch):
            super().route(batch.run(taken, len(batch)) if taken else batch)

    def _route_alike(self, batch: RowBatch) -> int:
        """Route records while their keys are known and of one type, such as str or int; return how many there were.

        It is one loop, because lists between its steps took a third longer.
        """
        records, timestamps = batch.records, batch.timestamps
        select, routes = self._selection.select, self._routes
        cursor: Any = self.iterate(records)
        first = select(records[0])
        kind = cast("type[Any]", type(first))
        if kind is tuple or routes.overflowed or not equal_as_encoded([first]):
            return 0
        known, put = routes.known, [outlet.records.append for outlet in self.outlets]
        if timestamps is None:
            for record in cursor:
                key = select(record)
                if type(key) is not kind:
                    break
                try:
                    put[known[key]](record)
                except KeyError:
                    break
            else:
                return len(records)
        else:
            stamp = [outlet.timestamps.append for outlet in self.outlets if outlet.timestamps is not None]
            for timestamp, record in zip(timestamps, cursor, strict=True):
                key = select(record)
                if type(key) is not kind:
                    break
                try:
                    receiver = known[key]
                except KeyError:
                    break
                put[receiver](record)
                stamp[receiver](timestamp)
            else:
                return len(records)
        return len(records) - cursor.__length_hint__() - 1


class FieldRouter(HashRouter):
    """Sends each record to the receiver of its key, which is a field and thus a column."""

    takes_columns = True

    def __init__(
        self,
        outlets: list[OutputBuffer],
        routes: KeyRoutes,
        selection: KeySelection,
        functions: tuple[Any, ...],
        column: KeyColumn,
    ) -> None:
        super().__init__(outlets, routes, selection, functions)
        self._column = column

    @property
    def chooser(self) -> str:
        return f"key field {self._column.name!r}"

    def takes(self, batch: ColumnBatch) -> bool:
        return self._column.is_in(batch)

    def targets(self, batch: Any) -> Any:
        is_columns = isinstance(batch, ColumnBatch)
        return self._column.receivers(batch, self._routes) if is_columns else super().targets(batch)


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
            column = KeyColumn.of(selector)
            among = outlets, KeyRoutes(parallelism, max_parallelism), KeySelection(selector), functions
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

"""Aggregates of columns by key: a sender's operator makes partial results, a receiver's keeps the totals of each key.

Both give their results at the end of an epoch, and hold watermarks back until then, so that no result is late.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.operators.base import NOTHING
from penstock._engine.operators.batch import watermark_only
from penstock._engine.operators.columnar.column_aggregates import STAMP
from penstock._engine.operators.columnar.columnar_operator import ColumnarOperator
from penstock._engine.operators.columnar.record_columns import DeclaredColumns
from penstock._engine.operators.columnar.waiting_columns import WaitingColumns
from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.keyed import KeyedOperator
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock._engine.state.table import ABSENT, MISSING
from penstock.common.columns import RecordLayout, int64_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.operators.batch import Batch
    from penstock._engine.operators.columnar.column_aggregates import ColumnAggregates
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.table import Pane
    from penstock.common.typeinfo import TypeInformation

#: The rows of partial results that are held before they are combined, and those that are too many after it.
_MOST_HELD: Final = 1 << 17
_MOST_KEYS: Final = 1 << 16
_RESULTS_AT_ONCE: Final = 1 << 14


class _WaitingPartials:
    """Tables of partial results that wait to be sent or folded."""

    def __init__(self, aggregates: ColumnAggregates) -> None:
        self._aggregates = aggregates
        self._tables: list[Any] = []
        self._count = 0
        self._watermark: int | None = None

    def note(self, batch: Batch) -> None:
        """Hold the last watermark of a batch back."""
        if batch.watermarks:
            self._watermark = batch.watermarks[-1][1]

    def watermark(self) -> Iterable[Output]:
        """Return what was held back."""
        mark, self._watermark = self._watermark, None
        return NOTHING if mark is None else ((None, watermark_only(mark)),)

    def add(self, table: Any) -> Iterator[Any]:
        """Add a table; yield what there is no more room for."""
        if self._tables and self._tables[0].schema != table.schema:
            yield from self.take()
        self._tables.append(table)
        self._count += table.num_rows
        if self._count >= _MOST_HELD:
            self._tables = [self._aggregates.combined(self._tables)]
            self._count = self._tables[0].num_rows
            if self._count >= _MOST_KEYS:
                yield from self.take()

    def take(self) -> Iterator[Any]:
        """Yield all that is held, one row for each key."""
        tables, self._tables, self._count = self._tables, [], 0
        if tables:
            yield self._aggregates.combined(tables) if len(tables) > 1 else tables[0]


class ColumnPartialsOperator(ColumnarOperator):
    """Aggregates the records of a subtask before they are sent to the subtasks of their keys.

    Args:
        aggregates: The aggregates.
        input_type: The declared type of the records, None without one.
    """

    def __init__(self, aggregates: ColumnAggregates, input_type: TypeInformation | None) -> None:
        super().__init__()
        self._aggregates = aggregates
        self.given = DeclaredColumns.of(input_type)
        self._new, self._held = WaitingColumns(), _WaitingPartials(aggregates)

    def begin_epoch(self, epoch: EpochContext) -> None:
        self._new, self._held = WaitingColumns(), _WaitingPartials(self._aggregates)

    def process_columns(self, batch: ColumnBatch, input_index: int) -> Iterable[Output]:
        if len(batch):
            yield from self._aggregated(self._new.add(self._aggregates.columns_of(batch.columns, batch.timestamps)))
        self._held.note(batch)

    def _aggregated(self, tables: Iterable[Any]) -> Iterator[Output]:
        for table in tables:
            yield from map(_as_output, self._held.add(self._aggregates.partials(table)))

    def prepare_snapshot(self) -> Iterable[Output]:
        yield from self._aggregated(self._new.take())
        yield from map(_as_output, self._held.take())
        yield from self._held.watermark()

    def finish(self) -> Iterable[Output]:
        return self.prepare_snapshot()


def _as_output(table: Any) -> Output:
    """Return a table of partial results as a batch."""
    stamps: Any = None
    if STAMP in table.schema.names:
        stamps, table = table.column(STAMP).combine_chunks(), table.drop_columns([STAMP])
    return None, ColumnBatch(_one_batch(table), timestamps=stamps)


def _one_batch(table: Any) -> Any:
    return table.combine_chunks().to_batches()[0]


class ColumnTotalsOperator(ColumnarOperator, KeyedOperator):
    """Keeps the aggregates of each key, and emits those that an epoch has changed, at its end.

    Args:
        aggregates: The aggregates.
        input_type: The declared type of the records, None without one: results of Rows are Rows, others dicts.
    """

    def __init__(self, aggregates: ColumnAggregates, input_type: TypeInformation | None) -> None:
        super().__init__(itemgetter(0))
        self._aggregates = aggregates
        declared = DeclaredColumns.of(input_type)
        self._layout = RecordLayout.DICTS if declared is None else declared.layout
        self._held = _WaitingPartials(aggregates)
        self._pane: Pane
        #: The keys that the epoch has changed, with the greatest timestamp of their records.
        self._changed: dict[NormalKey, tuple[Any, int]] = {}
        self._schema: Any = None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._pane = self.store.table("column-totals", kind="column-totals").pane()

    def begin_epoch(self, epoch: EpochContext) -> None:
        super().begin_epoch(epoch)
        self._held, self._changed = _WaitingPartials(self._aggregates), {}

    def process_columns(self, batch: ColumnBatch, input_index: int) -> Iterable[Output]:
        if len(batch):
            table: Any = _table_of(batch)
            for full in self._held.add(table):
                self._fold(full)
        self._held.note(batch)
        return NOTHING

    def _fold(self, table: Any) -> None:
        """Fold partial results into the state."""
        self._schema = table.schema
        rows = self._aggregates.rows(table)
        keys, normals = self.keys_of(rows)
        stamps = table.column(STAMP).to_pylist() if STAMP in table.schema.names else [NO_TIMESTAMP] * len(rows)
        hot, merge, changed = self._pane.hot, self._aggregates.merge, self._changed
        for key, normal, row, stamp in zip(keys, normals, rows, stamps, strict=True):
            held = self._value(normal)
            hot[normal] = row[1:] if held is ABSENT else merge(held, row[1:])
            before = changed.get(normal)
            changed[normal] = (key, stamp) if before is None else (before[0], max(stamp, before[1]))
        self._pane.dirty.update(normals)

    def _value(self, normal: NormalKey) -> Any:
        value = self._pane.hot.get(normal, MISSING)
        return self._pane.load(normal) if value is MISSING else value

    def prepare_snapshot(self) -> Iterable[Output]:
        for table in self._held.take():
            self._fold(table)
        changed = list(self._changed.items())
        for start in range(0, len(changed), _RESULTS_AT_ONCE):
            yield from self._results(changed[start : start + _RESULTS_AT_ONCE])
        self._changed = {}
        yield from self._held.watermark()

    def finish(self) -> Iterable[Output]:
        yield from self.prepare_snapshot()
        yield from super().finish()

    def _results(self, changed: list[tuple[NormalKey, tuple[Any, int]]]) -> Iterator[Output]:
        results = [self._aggregates.get_result(self._value(normal)) for normal, _ in changed]
        keys, columns = [key for _, (key, _) in changed], list(zip(*results, strict=True))
        stamps = [stamp for _, (_, stamp) in changed]
        is_stamped = any(stamp != NO_TIMESTAMP for stamp in stamps)
        for start, stop, batch in self._aggregates.results(keys, columns, self._schema, {}):
            yield None, ColumnBatch(batch, self._layout, int64_column(stamps[start:stop]) if is_stamped else None)


def _table_of(batch: ColumnBatch) -> Any:
    """Return a batch of partial results as a table."""
    import pyarrow as pa

    table: Any = cast("Any", pa.Table).from_batches([batch.columns])
    return table if batch.timestamps is None else table.append_column(STAMP, batch.timestamps)

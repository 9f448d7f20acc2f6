"""Tumbling and sliding event-time windows of columns: their records are rows of partial results, by key and slice.

The windows are those of records (`aligned_windows`), with the same state, the same firing and the same rule for late
records. A batch adds one row for each of its keys and slices to them. So within the allowed lateness a window
fires once for a batch and key, not once for each late record.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columnar.column_aggregates import GROUP, STAMP
from penstock._engine.operators.columnar.columnar_operator import ColumnarOperator
from penstock._engine.operators.columnar.waiting_columns import WaitingColumns
from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.windows.aligned_windows import AlignedWindowOperator
from penstock._engine.operators.windows.window_function import WindowResults
from penstock._engine.operators.windows.window_strategy import AggregatePanes
from penstock._engine.protocol.rows import MAX_WATERMARK, NO_TIMESTAMP
from penstock._engine.state.table import ABSENT, MISSING
from penstock.common.columns import RecordLayout, int64_column, int64_column_of, record_maker
from penstock.errors import MissingTimestampError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._api.windows.window import Window
    from penstock._engine.operators.base import EpochContext, Output
    from penstock._engine.operators.columnar.column_aggregates import ColumnAggregates
    from penstock._engine.operators.columnar.record_columns import DeclaredColumns
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.operators.windows.pane_contents import AlignedContents
    from penstock._engine.operators.windows.window_function import Entry
    from penstock._engine.operators.windows.window_strategy import PaneStrategy
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.table import Pane

#: Times within which NumPy's numbers of 64 bits do not overflow when slices are computed.
_PLAIN_TIMES: Final = range(-(2**61), 2**61)
#: More slices than this among records are sorted, fewer are counted.
_MOST_SLICES_COUNTED: Final = 1 << 12
#: The columns of a result beside its key and its aggregates.
WINDOW_COLUMNS: Final = ("window_start", "window_end")


class ColumnResults(WindowResults):
    """The results of a fired pane: of each key a tuple of the key, the window's start and end, and the aggregates.

    Args:
        strategy: Has the aggregates.
    """

    def __init__(self, strategy: PaneStrategy) -> None:
        super().__init__(strategy)
        self._aggregates: ColumnAggregates = strategy.function
        self._window: Any = None

    def begin(self, window: Window, watermark: int) -> None:
        self._window = window

    def emit(self, entries: Iterable[Entry], out: SideOutputs, timestamp: int) -> None:
        start, end, result = self._window.start, self._window.end, self._aggregates.get_result
        records = [(key, start, end, *result(value)) for _, key, value in entries]
        out.main.records.extend(records)
        out.main.timestamps.extend([timestamp] * len(records))


class ColumnPanes(AggregatePanes):
    """Partial results of each key."""

    kind = "window-columns"

    def add_all(self, pane: Pane, keys: list[NormalKey], records: Iterator[Any]) -> None:
        hot, load, merge = pane.hot, pane.load, self.function.merge
        for key, row in zip(keys, records, strict=False):
            held = hot.get(key, MISSING)
            if held is MISSING:
                held = load(key)
            hot[key] = row[1:] if held is ABSENT else merge(held, row[1:])
        pane.dirty.update(keys)


class ColumnWindowOperator(ColumnarOperator, AlignedWindowOperator):
    """Aligned windows of columns.

    A record waits as columns if the watermark has reached none of its windows: until it is about to reach the first of
    them, the epoch ends, or many records wait. Nothing depends on it before that.

    Args:
        contents: The contents of the windows, partial results of `ColumnAggregates`.
        declared: The declared columns of the input; None without any.
        late_tag: The id of the side output for late records; None drops them.
    """

    def __init__(self, contents: AlignedContents, declared: DeclaredColumns | None, *, late_tag: str | None) -> None:
        super().__init__(itemgetter(0), contents, late_tag=late_tag, results=ColumnResults(contents.strategy))
        self.windows = contents.windows
        self.aggregates: ColumnAggregates = contents.strategy.function
        self.given = declared
        self._layout = RecordLayout.DICTS if declared is None else declared.layout
        #: That of the last partial results.
        self._schema: Any = None

    def begin_epoch(self, epoch: EpochContext) -> None:
        super().begin_epoch(epoch)
        self._new = WaitingColumns()
        #: The watermark that reaches the first window of a record that waits.
        self._due = MAX_WATERMARK

    def process_columns(self, batch: ColumnBatch, input_index: int) -> Iterator[Output]:
        return self._as_columns(self.walk(batch))

    def _as_columns(self, outputs: Iterable[Output]) -> Iterator[Output]:
        """Yield outputs with the results of windows as columns; as rows while no record has told the types."""
        for tag, batch in outputs:
            if tag is not None or not len(batch):
                yield tag, batch
                continue
            rows = batch.rows()
            if self._schema is None:
                make = record_maker([self.aggregates.key, *WINDOW_COLUMNS, *self.aggregates.names], self._layout)
                yield tag, RowBatch(list(map(make, rows.records)), rows.timestamps, rows.watermarks)
                continue
            keys, starts, ends, *results = zip(*rows.records, strict=True)
            at: dict[str, Any] = dict(zip(WINDOW_COLUMNS, map(int64_column, (starts, ends)), strict=True))
            for start, stop, columns in self.aggregates.results(list(keys), results, self._schema, at):
                marks = rows.watermarks_in(start, stop)
                yield tag, ColumnBatch(columns, self._layout, int64_column(rows.stamps(start, stop)), marks)

    def prepare_snapshot(self) -> Iterable[Output]:
        out = self.new_outputs()
        self._add_waiting(out)
        return (*super().prepare_snapshot(), *self._as_columns(out.outputs()))

    def finish(self) -> Iterable[Output]:
        return (*self.prepare_snapshot(), *super().finish())

    def advance(self, watermark: int, out: SideOutputs) -> Iterable[Output]:
        if watermark >= self._due:
            self._add_waiting(out)
        return super().advance(watermark, out)

    def take(self, batch: ColumnBatch, out: SideOutputs) -> None:
        """Let records wait, or add them at once if the watermark has reached one of their windows."""
        import pyarrow.compute as pc

        functions: Any = pc
        extremes: Any = None if batch.timestamps is None else functions.min_max(batch.timestamps).as_py()
        if extremes is None or extremes["min"] == NO_TIMESTAMP:
            raise MissingTimestampError(self.context.operator_name, "of a batch of columns")
        oldest, newest = extremes["min"], extremes["max"]
        reached = self._first_end(self.firing.watermark + 1) - self.windows.slide_ms
        if newest < reached or self._first_end(newest) - 1 > MAX_WATERMARK or self.contents.has_gaps:
            self._add_at_once(batch, out)
            return
        if oldest < reached:
            is_late = functions.less(batch.timestamps, reached)
            self._add_at_once(batch.take(functions.indices_nonzero(is_late)), out)
            batch = batch.take(functions.indices_nonzero(functions.invert(is_late)))
        self._due = min(self._due, self._first_end(max(oldest, reached)) - 1)
        for table in self._new.add(self.aggregates.columns_of(batch.columns, batch.timestamps)):
            self._add_table(table, out)

    def _first_end(self, stamp: int) -> int:
        """Return the first end of a window after a timestamp."""
        size, slide, offset = self.windows.size_ms, self.windows.slide_ms, self.windows.offset_ms
        return stamp + 1 + (offset + size - stamp - 1) % slide

    def _add_waiting(self, out: SideOutputs) -> None:
        self._due = MAX_WATERMARK
        for table in self._new.take():
            self._add_table(table, out)

    def _add_table(self, table: Any, out: SideOutputs) -> None:
        """Add records that are not late, a table of `ColumnAggregates.columns_of`."""
        self._add_groups(table.drop_columns([STAMP]), *self._units_of(table.column(STAMP)), out)

    def _add_at_once(self, batch: ColumnBatch, out: SideOutputs) -> None:
        """Add the records of a batch, among which there may be late ones."""
        import pyarrow.compute as pc

        functions: Any = pc
        groups, units = self._units_of(batch.timestamps)
        closed = [group for group, unit in enumerate(units) if not self.contents.takes(unit)]
        if closed:
            is_late = functions.is_in(groups, value_set=int64_column(closed))
            self.side_output_closed(batch.take(functions.indices_nonzero(is_late)), out)
            kept = functions.indices_nonzero(functions.invert(is_late))
            batch, groups = batch.take(kept), groups.take(kept)
            if not len(batch):
                return
        self._add_groups(self.aggregates.columns_of(batch.columns), groups, units, out)

    def _add_groups(self, table: Any, groups: Any, units: list[Any], out: SideOutputs) -> None:
        if len(units) > 1:
            table = self.aggregates.partials(table.append_column(GROUP, groups)).sort_by(GROUP)
            units = [units[group] for group in table.column(GROUP).to_pylist()]
        else:
            table = self.aggregates.partials(table)
            units = units * table.num_rows
        self._schema = table.schema
        self.add_to(units, set(units), self.aggregates.rows(table), out)

    def _units_of(self, timestamps: Any) -> tuple[Any, list[Any]]:
        """Return a column with the number of each record's unit, and the units."""
        groups, firsts = self._slices_of(timestamps)
        return groups, [self.contents.units_of([stamp], stamp)[0] for stamp in firsts]

    def _slices_of(self, timestamps: Any) -> tuple[Any, list[int]]:
        """Return a column with the number of each record's slice, and a time in each slice, in order of time."""
        import numpy as np

        size, slide, offset = self.windows.size_ms, self.windows.slide_ms, self.windows.offset_ms
        cut = size % slide
        stamps = timestamps.to_numpy()
        oldest, newest = int(stamps.min()), int(stamps.max())
        if oldest not in _PLAIN_TIMES or newest not in _PLAIN_TIMES:
            stamps = stamps.astype(object)
        numbers = (stamps - offset) // slide
        if cut:
            numbers = numbers * 2 + (stamps - offset - numbers * slide >= cut)
        first = int(numbers.min())
        count = int(numbers.max()) - first + 1
        if count > _MOST_SLICES_COUNTED:
            _, at, numbers = np.unique(numbers, return_index=True, return_inverse=True)
            return int64_column_of(numbers), [int(stamp) for stamp in stamps[at]]
        if cut:
            starts = [offset + number // 2 * slide + number % 2 * cut for number in range(first, first + count)]
        else:
            starts = [offset + number * slide for number in range(first, first + count)]
        starts[0] = oldest  # the slice may begin before the first possible time
        return int64_column_of(numbers - first), starts

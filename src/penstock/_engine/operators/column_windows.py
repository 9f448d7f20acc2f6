"""Tumbling and sliding event-time windows of columns: their records are rows of partial results, by key and slice.

The windows are those of records (`window`, `sliding_windows`), with the same state, the same firing and the same rule
for late records. A batch adds one row for each of its keys and slices to them. So within the allowed lateness a window
fires once for a batch and key, not once for each late record.
"""

from __future__ import annotations

from abc import abstractmethod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from penstock._api.windows.time_windows import AlignedWindows, TumblingEventTimeWindows
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.record_columns import DeclaredColumns, with_columns
from penstock._engine.operators.side_outputs import SideOutputs
from penstock._engine.operators.windows.sliding_windows import SlidingWindowOperator
from penstock._engine.operators.windows.window import WindowOperator
from penstock._engine.operators.windows.window_function import WindowResults
from penstock._engine.operators.windows.window_strategy import AggregatePanes
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock.common.columns import RecordLayout, int64_column, record_maker
from penstock.errors import MissingTimestampError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.windows.window import Window
    from penstock._engine.operators.base import Output
    from penstock._engine.operators.column_aggregates import ColumnAggregates
    from penstock._engine.operators.columns import ColumnBatch
    from penstock._engine.operators.windows.window_function import Entry
    from penstock.common.typeinfo import TypeInformation

#: Times within which NumPy's numbers of 64 bits do not overflow when slices are computed.
_PLAIN_TIMES: Final = range(-(2**61), 2**61)
#: The columns of a result beside its key and its aggregates.
WINDOW_COLUMNS: Final = ("window_start", "window_end")


class ColumnResults(WindowResults):
    """The results of a fired pane: of each key a record of the key, the window's start and end, and the aggregates.

    Args:
        aggregates: The aggregates.
        layout: Whether a record is a dict or a Row.
    """

    def __init__(self, aggregates: ColumnAggregates, layout: RecordLayout) -> None:
        super().__init__(aggregates, aggregated=True)
        self._aggregates = aggregates
        self._make = record_maker([aggregates.key, *WINDOW_COLUMNS, *aggregates.names], layout)
        self._window: Any = None

    def begin(self, window: Window, watermark: int) -> None:
        self._window = window

    def emit(self, entries: Iterable[Entry], out: SideOutputs, timestamp: int) -> None:
        at, make, result = (self._window.start, self._window.end), self._make, self._aggregates.get_result
        records = [make((key, *at, *result(value))) for _, key, value in entries]
        out.main.records.extend(records)
        out.main.timestamps.extend([timestamp] * len(records))


class ColumnPanes(AggregatePanes):
    """Partial results of each key."""

    kind = "window-columns"


class _ColumnWindows(WindowOperator):
    """What both kinds of windows do with columns."""

    takes_columns = True
    aggregates: ColumnAggregates
    given: DeclaredColumns | None

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        if not batch.records:
            return super().process(batch, input_index)
        return self.process_columns(with_columns(batch, self.given), input_index)

    def process_columns(self, batch: ColumnBatch, input_index: int) -> Iterable[Output]:
        out = SideOutputs(with_timestamps=True, object_reuse=self.object_reuse)
        for start, stop, watermark in batch.segments():
            if start < stop:
                self._add_columns(batch.slice(start, stop), out)
            if watermark is not None:
                self._advance(watermark, out)
                out.watermark(watermark)
        return out.outputs()

    def _add_columns(self, batch: ColumnBatch, out: SideOutputs) -> None:
        """Add the records of a batch without regard to its watermarks."""
        import pyarrow.compute as pc

        functions: Any = pc
        if batch.timestamps is None or functions.min(batch.timestamps).as_py() == NO_TIMESTAMP:
            raise MissingTimestampError(self.context.operator_name, "of a batch of columns")
        groups, firsts = self._slices_of(batch.timestamps)
        closed = [group for group, stamp in enumerate(firsts) if self._takes_none(stamp)]
        if closed:
            is_late = functions.is_in(groups, value_set=int64_column(closed))
            self._set_columns_aside(batch, is_late, out)
            kept = functions.indices_nonzero(functions.invert(is_late))
            batch, groups = batch.take(kept), groups.take(kept)
            if not len(batch):
                return
        table: Any = self.aggregates.partials(batch.columns, None, groups).sort_by("group")
        of_rows: list[int] = table.column("group").to_pylist()
        stamps = [firsts[group] for group in of_rows]
        self._add(RowBatch(self.aggregates.rows(table), stamps), 0, len(stamps), out)

    def _slices_of(self, timestamps: Any) -> tuple[Any, list[int]]:
        """Return a column with the number of each record's slice, and a timestamp in each slice, in order of time."""
        import numpy as np

        assigner = self.assigner
        slide, offset = assigner.slide_ms, assigner.offset_ms
        cut = assigner.size_ms % slide
        stamps = timestamps.to_numpy()
        if int(stamps.min()) not in _PLAIN_TIMES or int(stamps.max()) not in _PLAIN_TIMES:
            stamps = stamps.astype(object)
        since, number = (stamps - offset) % slide, (stamps - offset) // slide
        pieces = number * 2 + (since >= cut)
        _, first, numbers = np.unique(pieces, return_index=True, return_inverse=True)
        return int64_column_of(numbers), [int(stamp) for stamp in stamps[first]]

    @abstractmethod
    def _takes_none(self, stamp: int) -> bool:
        """Return whether the windows of a slice take no more records, or it has none."""

    def _set_columns_aside(self, batch: ColumnBatch, is_late: Any, out: SideOutputs) -> None:
        """Drop late records, or emit them to the side output."""
        import pyarrow.compute as pc

        functions: Any = pc
        late = batch.take(functions.indices_nonzero(self._counts_as_late(is_late, batch)))
        if not len(late):
            return
        if self.late_tag is None:
            first = late.slice(0, 1).rows()
            self._late.drop(len(late), first.records[0], first.stamps()[0], self.watermark)
            return
        side, rows = out.side(self.late_tag), late.rows()
        side.records.extend(rows.records)
        side.timestamps.extend(rows.stamps())

    def _counts_as_late(self, is_late: Any, batch: ColumnBatch) -> Any:
        del batch
        return is_late


def int64_column_of(numbers: Any) -> Any:
    """Return an array of NumPy's as a column."""
    import pyarrow as pa

    column: Any = pa.array(numbers.reshape(-1), pa.int64())
    return column


class TumblingColumnWindowOperator(_ColumnWindows):
    """Tumbling windows of columns."""

    def _takes_none(self, stamp: int) -> bool:
        size, offset = self.assigner.size_ms, self.assigner.offset_ms
        return self._is_over(stamp - (stamp - offset) % size + size)


class SlidingColumnWindowOperator(_ColumnWindows, SlidingWindowOperator):
    """Sliding windows of columns."""

    def _takes_none(self, stamp: int) -> bool:
        return not self._takers(self.slices.of(stamp))

    def _counts_as_late(self, is_late: Any, batch: ColumnBatch) -> Any:
        """Leave out records in gaps between windows that are not late by their own timestamps, as for records."""
        import pyarrow as pa

        stamps = batch.timestamps.to_pylist() if self.assigner.slide_ms > self.assigner.size_ms else ()
        kept = [self.slices.windows_of(self.slices.of(at)) or at + self.lateness_ms <= self.watermark for at in stamps]
        if not kept:
            return is_late
        import pyarrow.compute as pc

        return pc.and_(is_late, pa.array(list(map(bool, kept))))


def column_window_operator(
    assigner: AlignedWindows,
    *,
    aggregates: ColumnAggregates,
    input_type: TypeInformation | None,
    allowed_lateness_ms: int,
    late_tag: str | None,
) -> WindowOperator:
    """Return the window operator for a node's payload."""
    declared = DeclaredColumns.of(input_type)
    layout = RecordLayout.DICTS if declared is None else declared.layout
    is_tumbling = isinstance(assigner, TumblingEventTimeWindows)
    operator = (TumblingColumnWindowOperator if is_tumbling else SlidingColumnWindowOperator)(
        itemgetter(0),
        assigner,
        allowed_lateness_ms=allowed_lateness_ms,
        late_tag=late_tag,
        strategy=ColumnPanes(aggregates),
        results=ColumnResults(aggregates, layout),
    )
    operator.aggregates, operator.given = aggregates, declared
    return operator

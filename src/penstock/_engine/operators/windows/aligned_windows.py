"""Tumbling and sliding event-time windows that fire at their end: all keys of a window at the same watermark.

Made of two parts: where the contents lie (`pane_contents`, `slice_contents`), and when windows fire
(`watermark_firing`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock._api.windows.window import TimeWindow
from penstock._engine.operators.base import NOTHING
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.windows.pane_contents import Rows
from penstock._engine.operators.windows.windowed import WindowedOperator
from penstock._engine.protocol.rows import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.operators.batch import Batch
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.operators.windows.pane_contents import AlignedContents
    from penstock._engine.operators.windows.slices import Span
    from penstock._engine.operators.windows.window_function import Entry, WindowResults
    from penstock._engine.protocol.control import OperatorAck


class AlignedWindowOperator(WindowedOperator):
    """Adds records to the contents of their windows, and fires windows when the watermark passes their end.

    Args:
        key_selector: The key selector of the stream.
        contents: The contents of the windows.
        late_tag: The id of the side output for late records; None drops them.
        results: Emits the results of a fired window, see `window_function`.
    """

    def __init__(
        self, key_selector: Any, contents: AlignedContents, *, late_tag: str | None, results: WindowResults
    ) -> None:
        super().__init__(key_selector, contents.strategy.function, results, late_tag)
        self.contents = contents
        self.firing = contents.firing

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.contents.open(self.store, context, self.iterate)
        self.firing.open(self.store)

    def begin_epoch(self, epoch: EpochContext) -> None:
        super().begin_epoch(epoch)
        self.firing.watermark = epoch.watermark
        self.firing.begin(self.contents.begin(epoch))

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        self.contents.snapshot()
        return super().snapshot(epoch, finished=finished)

    def add(self, records: list[Any], stamps: list[int], out: SideOutputs) -> None:
        oldest, contents = min(stamps), self.contents
        if oldest == NO_TIMESTAMP:
            raise self.missing_timestamp(records, stamps)
        units = contents.units_of(stamps, oldest)
        distinct = set(units)
        closed = {unit for unit in distinct if not contents.takes(unit)}
        if closed:
            late = [place for place, unit in enumerate(units) if unit in closed]
            self.side_output_closed(RowBatch(records, stamps).take(late), out)
            kept = [place for place, unit in enumerate(units) if unit not in closed]
            if not kept:
                return
            records, units = [records[place] for place in kept], [units[place] for place in kept]
            distinct -= closed
        self.add_to(units, distinct, records, out)

    def add_to(self, units: list[Any], distinct: set[Any], records: list[Any], out: SideOutputs) -> None:
        """Add records, each to a unit that takes it."""
        keys, normals = self.keys_of(records)
        self.contents.add(Rows(records, normals, keys, units, distinct), partial(self._fire_key, out))

    def side_output_closed(self, late: Batch, out: SideOutputs) -> None:
        """Drop the records of units that take none, or emit them to the side output."""
        if self.contents.has_gaps:
            late = late.take([place for place, stamp in enumerate(late.stamps()) if self.contents.is_late(stamp)])
        self.side_output_late(late, self.firing.watermark, out)

    def advance(self, watermark: int, out: SideOutputs) -> Iterable[Output]:
        firing, contents, results = self.firing, self.contents, self.results
        firing.watermark = watermark
        self.iterate([])
        for window in firing.due():
            results.begin(TimeWindow(*window), watermark)
            results.emit(firing.unfired(window, contents.entries(window)), out, window[1] - 1)
        for window in firing.over():
            if results.clears:
                results.begin(TimeWindow(*window), watermark)
                results.clear(contents.entries(window))
            contents.clear(window)
        contents.advance(watermark)
        return NOTHING

    def _fire_key(self, out: SideOutputs, window: Span, entry: Entry) -> None:
        """Fire one key of a window after the watermark, for a record within the allowed lateness."""
        self.results.begin(TimeWindow(*window), self.firing.watermark)
        self.firing.note_fired(window, entry[0])
        self.results.emit([entry], out, window[1] - 1)

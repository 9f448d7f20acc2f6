"""Tumbling event-time windows: one pane of keyed state per window, fired whole when the watermark passes its end.

A pane needs no timers, because all keys of a window fire at the same watermark. For windows that stay open for late
records the fired keys are stored (in Flink, their timers are deleted): watermarks begin anew at another parallelism and
pass the window's end again. A key that gets a record before that fires again, as in Flink.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from penstock._api.windows.window import TimeWindow
from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.side_outputs import SideOutputs
from penstock._engine.operators.windows.fired_windows import (
    CONTENTS,
    FIRED,
    has_fired,
    note_fired,
    note_new_record,
)
from penstock._engine.operators.windows.late_records import LateRecords
from penstock._engine.operators.windows.windowed import WindowedOperator
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from penstock.common.copies import copy_if_mutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._api.windows.time_windows import AlignedWindows
    from penstock._engine.operators.base import EpochContext, OperatorContext, Output
    from penstock._engine.operators.batch import RowBatch
    from penstock._engine.operators.windows.window_function import Entry, WindowResults
    from penstock._engine.operators.windows.window_strategy import PaneStrategy
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.table import Pane, Table


class WindowOperator(WindowedOperator):
    """Adds records to the panes of their windows, and fires panes when the watermark passes their end.

    Args:
        key_selector: The key selector of the stream.
        assigner: Assigns the window of a record.
        allowed_lateness_ms: How long after its end a window still takes records, firing again with each.
        late_tag: The id of the side output for late records; None drops them.
        strategy: The contents of a pane per key, see `window_strategy`.
        results: Emits the results of a fired pane, see `window_function`.
    """

    parts_tagged = True

    def __init__(
        self,
        key_selector: Any,
        assigner: AlignedWindows,
        *,
        allowed_lateness_ms: int,
        late_tag: str | None,
        strategy: PaneStrategy,
        results: WindowResults,
    ) -> None:
        super().__init__(key_selector, results)
        self.assigner = assigner
        self.lateness_ms = allowed_lateness_ms
        self.late_tag = late_tag
        self.strategy = strategy
        self.watermark = MIN_WATERMARK
        self.table: Table
        #: The fired keys of windows that stay open for late records, by window.
        self.fired: Table
        #: The ends of windows that the watermark has not reached, and of those that still accept late records.
        self.open_windows: list[tuple[int, int]] = []
        self.fired_windows: list[tuple[int, int]] = []

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.table = self.store.table(CONTENTS, kind=self.kind, keep_keys=True)
        self.fired = self.store.table(FIRED, kind=FIRED)
        self._late = LateRecords(context)

    @property
    def kind(self) -> str:
        """The kind of the contents in checkpoints."""
        return self.strategy.kind

    def begin_epoch(self, epoch: EpochContext) -> None:
        super().begin_epoch(epoch)
        self.watermark = epoch.watermark
        windows = {(end, start) for table in (self.table, self.fired) for start, end in table.namespaces()}
        self.open_windows = sorted(window for window in windows if window[0] - 1 > self.watermark)
        self.fired_windows = sorted(window for window in windows if window[0] - 1 <= self.watermark)

    def open_functions(self, epoch: EpochContext) -> None:
        self.open_function(self.strategy.function, EngineRuntimeContext(self.context), epoch)
        super().open_functions(epoch)

    def process(self, batch: RowBatch, input_index: int) -> Iterable[Output]:
        out = SideOutputs(with_timestamps=True, object_reuse=self.object_reuse)
        for start, stop, watermark in batch.segments():
            if start < stop:
                self._add(batch, start, stop, out)
            if watermark is not None:
                self._advance(watermark, out)
                out.watermark(watermark)
        return out.outputs()

    # ------------------------------------------------------------------------------------------------- into the panes

    def _add(self, batch: RowBatch, start: int, stop: int, out: SideOutputs) -> None:
        records, stamps = batch.records[start:stop], batch.stamps(start, stop)
        starts = self._starts(records, stamps)
        size, distinct = self.assigner.size_ms, set(starts)
        closed = {first for first in distinct if self._is_over(first + size)}
        if closed:
            self._set_aside(records, stamps, starts, closed, out)
            kept = [place for place, first in enumerate(starts) if first not in closed]
            records, starts = [records[place] for place in kept], [starts[place] for place in kept]
            distinct -= closed
        keys, normals = self.keys_of(records)
        panes = {first: self._pane(first) for first in distinct}
        passed = {first for first in distinct if first + size - 1 <= self.watermark}
        if self.fired.panes:
            self._let_fire_again(distinct - passed, starts, normals)
        cursor = self.iterate(records)
        if passed:
            for first, normal, key in zip(starts, normals, keys, strict=True):
                panes[first].remember(normal, key)  # not all at once: firing makes room, and only dirty rows stay
                self.strategy.add_all(panes[first], [normal], cursor)
                if first in passed:
                    self._emit_key(panes[first], normal, out)
            return
        if normals is not keys:
            for first, normal, key in zip(starts, normals, keys, strict=True):
                panes[first].remember(normal, key)
        if len(panes) == 1:
            self.strategy.add_all(next(iter(panes.values())), normals, cursor)
        else:
            self.strategy.add_each([panes[first] for first in starts], normals, cursor)

    def _starts(self, records: list[Any], stamps: list[int]) -> list[int]:
        """Return the start of each record's window; usually all have the same, which the extremes show."""
        size, offset = self.assigner.size_ms, self.assigner.offset_ms
        oldest, newest = min(stamps), max(stamps)
        if oldest == NO_TIMESTAMP:
            raise self.missing_timestamp(records, stamps)
        first = oldest - (oldest - offset) % size
        if newest < first + size:
            return [first] * len(stamps)
        return [stamp - (stamp - offset) % size for stamp in stamps]

    def _is_over(self, end: int) -> bool:
        """Return whether a window accepts no more records; a window that ends after the last watermark never fires."""
        return end - 1 > MAX_WATERMARK or clears_at(end, self.lateness_ms) <= self.watermark

    def _set_aside(
        self, records: list[Any], stamps: list[int], starts: list[int], closed: set[int], out: SideOutputs
    ) -> None:
        """Drop late records, or emit them to the side output."""
        gone = [place for place, first in enumerate(starts) if first in closed]
        if self.late_tag is None:
            self._late.drop(len(gone), records[gone[0]], stamps[gone[0]], self.watermark)
            return
        late = out.side(self.late_tag)
        late.records.extend(records[place] for place in gone)
        late.timestamps.extend(stamps[place] for place in gone)

    def _namespace(self, first: int) -> tuple[int, int]:
        """Return the namespace of a window's state; its start is not before the first possible time."""
        return max(first, MIN_WATERMARK), first + self.assigner.size_ms

    def _pane(self, first: int) -> Pane:
        """Return the pane of a window, noting a new one."""
        start, end = namespace = self._namespace(first)
        pane = self.table.pane(namespace)
        if not pane.hot and not pane.stored:
            window = (end, start)
            waiting = self.open_windows if end - 1 > self.watermark else self.fired_windows
            if window not in waiting:
                heappush(waiting, window)
        return pane

    def _let_fire_again(self, ahead: set[int], starts: list[int], normals: list[NormalKey]) -> None:
        """Let keys with new records fire again in windows that the watermark has not reached."""
        panes = self.fired.panes
        marked = {first: pane for first in ahead if (pane := panes.get(self._namespace(first))) is not None}
        for first, normal in zip(starts, normals, strict=True) if marked else ():
            if first in marked:
                note_new_record(marked[first], normal)

    # --------------------------------------------------------------------------------------------------------- firing

    def _advance(self, watermark: int, out: SideOutputs) -> None:
        """Fire and clear the windows that are due by a watermark, in time order."""
        self.watermark = watermark
        self.iterate([])
        while self.open_windows and self.open_windows[0][0] - 1 <= watermark:
            end, first = heappop(self.open_windows)
            window = TimeWindow(first, end)
            self.results.begin(window, watermark)
            self._emit(window, self._to_fire(window), out)
            heappush(self.fired_windows, (end, first))
        while self.fired_windows and clears_at(self.fired_windows[0][0], self.lateness_ms) <= watermark:
            end, first = heappop(self.fired_windows)
            self._clear(TimeWindow(first, end))

    def _emit(self, window: TimeWindow, entries: Iterable[Entry], out: SideOutputs) -> None:
        self.results.emit(entries, out, window.max_timestamp())

    def _emit_key(self, pane: Pane, normal: NormalKey, out: SideOutputs) -> None:
        """Fire one key of a window after the watermark, for a record within the allowed lateness."""
        window = TimeWindow(*pane.namespace)
        self.results.begin(window, self.watermark)
        entry = normal, pane.key_of(normal), self._given_out(pane.hot[normal])
        note_fired(self.fired.pane(pane.namespace), normal)
        self._emit(window, [entry], out)

    def _to_fire(self, window: TimeWindow) -> Iterator[Entry]:
        """Iterate over the entries of a window that have not fired, and note them as fired if the window stays."""
        namespace = (window.start, window.end)
        stays = clears_at(window.end, self.lateness_ms) > self.watermark
        fired = self.fired.pane(namespace)
        some_have_fired = bool(fired.hot or fired.stored)
        for normal, key, value in self._contents(namespace):
            if some_have_fired and has_fired(fired, normal):
                continue
            if stays:
                note_fired(fired, normal)
            yield normal, key, self._given_out(value)

    def _contents(self, namespace: tuple[int, int]) -> Iterator[Entry]:
        """Iterate over the contents of a window."""
        return self.table.pane(namespace).entries()

    def _given_out(self, value: Any) -> Any:
        """Return a pane's value for a result: a copy as long as late records may still change the pane."""
        return copy_if_mutable(value) if self.lateness_ms else value

    def _clear(self, window: TimeWindow) -> None:
        namespace = (window.start, window.end)
        if self.results.clears:
            self.results.begin(window, self.watermark)
            self.results.clear(self._contents(namespace))
        self.table.drop(namespace)
        self.fired.drop(namespace)


def clears_at(end: int, lateness_ms: int) -> int:
    """Return the watermark at which a window's state is cleared: its end and the allowed lateness."""
    return min(end - 1 + lateness_ms, MAX_WATERMARK)

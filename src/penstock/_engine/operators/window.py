"""Tumbling event-time windows: one pane of keyed state per window, fired whole when the watermark passes its end.

A window's timer is implied by its pane: all keys of a window fire at one watermark, so no timer per key is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any

from penstock._engine.operators.base import EpochContext, OperatorContext, Output
from penstock._engine.operators.batch import Batch, BatchBuilder
from penstock._engine.operators.keyed import KeyedOperator, normal_keys
from penstock._engine.operators.window_function import WindowResults, window_results
from penstock._engine.operators.window_strategy import PaneStrategy
from penstock._engine.protocol.keys import NormalKey
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock._engine.state.table import ABSENT, Pane, Table
from penstock.common.typeinfo import TypeInformation
from penstock.datastream.window import TimeWindow, TumblingEventTimeWindows


class WindowOperator(KeyedOperator):
    """Records into panes, panes into results.

    Args:
        key_selector: Of the keyed stream.
        assigner: Which window a record belongs to.
        allowed_lateness_ms: How long after its end a window still takes records, firing again with each.
        late_tag: Id of the side output for records that come later still; None drops them.
        strategy: What a pane holds per key, see `window_strategy`.
        results: What a fired pane gives, see `window_function`.
    """

    def __init__(
        self,
        key_selector: Any,
        assigner: TumblingEventTimeWindows,
        allowed_lateness_ms: int,
        late_tag: str | None,
        strategy: PaneStrategy,
        results: WindowResults,
    ) -> None:
        super().__init__(key_selector)
        self.assigner = assigner
        self.lateness_ms = allowed_lateness_ms
        self.late_tag = late_tag
        self.strategy = strategy
        self.results = results
        self.watermark = MIN_WATERMARK
        self.table: Table
        #: Ends of windows that have yet to fire, and of those that have fired but still take late records.
        self.open_windows: list[tuple[int, int]] = []
        self.fired_windows: list[tuple[int, int]] = []
        self._late = 0

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.table = self.store.table("window-contents", kind=self.strategy.kind, keep_keys=True)
        self.strategy.open(context)
        self._late_counter = context.metrics.counter("numLateRecordsDropped")
        self._results_opened = False

    def begin_epoch(self, epoch: EpochContext) -> None:
        super().begin_epoch(epoch)
        if not self._results_opened:
            self.results.open(self.context, self.store)
            self._results_opened = True
        if not epoch.current:
            self.watermark = MIN_WATERMARK if epoch.restore.state is None else int(epoch.restore.state)
        windows = [(end, start) for start, end in self.table.namespaces()]
        self.open_windows = sorted(window for window in windows if window[0] - 1 > self.watermark)
        self.fired_windows = sorted(window for window in windows if window[0] - 1 <= self.watermark)

    def process(self, batch: Batch, input_index: int) -> Iterable[Output]:
        out, late = BatchBuilder(), BatchBuilder()
        for start, stop, watermark in batch.segments():
            if start < stop:
                self._add(batch, start, stop, out, late)
            if watermark is not None:
                self._advance(watermark, out)
                out.add_watermark(watermark)
        if late.records and self.late_tag is not None:
            yield self.late_tag, late.build()
        yield None, out.build()

    # ------------------------------------------------------------------------------------------------- into the panes

    def _add(self, batch: Batch, start: int, stop: int, out: BatchBuilder, late: BatchBuilder) -> None:
        records = batch.records[start:stop]
        if batch.timestamps is None:
            self.assigner.assign_windows(records[0], MIN_WATERMARK, None)  # pyright: ignore[reportArgumentType] - raises
            return
        stamps = batch.timestamps[start:stop]
        size, offset = self.assigner.size_ms, self.assigner.offset_ms
        starts = [stamp - (stamp - offset) % size for stamp in stamps]
        distinct = set(starts)
        closed = {first for first in distinct if first + size - 1 + self.lateness_ms <= self.watermark}
        if closed:
            self._set_aside(records, stamps, starts, closed, late)
            kept = [place for place, first in enumerate(starts) if first not in closed]
            records, stamps, starts = ([column[place] for place in kept] for column in (records, stamps, starts))
            distinct -= closed
        keys = self.keys_of(records)
        normals = normal_keys(keys)
        panes = {first: self._pane(first) for first in distinct}
        cursor = self.iterate(records)
        if len(panes) == 1:
            self.strategy.add_all(next(iter(panes.values())), normals, cursor)
        else:
            self.strategy.add_each([panes[first] for first in starts], normals, cursor)
        if normals is not keys:
            for first, normal, key in zip(starts, normals, keys, strict=True):
                panes[first].remember(normal, key)
        fired = {first for first in distinct if first + size - 1 <= self.watermark}
        for first, normal in zip(starts, normals, strict=True) if fired else ():
            if first in fired:
                self._emit_key(panes[first], normal, out)

    def _set_aside(
        self, records: list[Any], stamps: list[int], starts: list[int], closed: set[int], late: BatchBuilder
    ) -> None:
        """Take out the records whose window is gone."""
        for record, stamp, first in zip(records, stamps, starts, strict=True):
            if first in closed:
                late.records.append(record)
                late.timestamps.append(stamp)
        if self.late_tag is None:
            self._late_counter.inc(len(late.records))

    def _pane(self, first: int) -> Pane:
        """Return the pane of a window, noting a new one."""
        end = first + self.assigner.size_ms
        pane = self.table.pane((first, end))
        if not pane.hot and not pane.stored:
            window = (end, first)
            waiting = self.open_windows if end - 1 > self.watermark else self.fired_windows
            if window not in waiting:
                heappush(waiting, window)
        return pane

    # --------------------------------------------------------------------------------------------------------- firing

    def _advance(self, watermark: int, out: BatchBuilder) -> None:
        """Fire and clear what is due by a watermark, in time order."""
        self.watermark = watermark
        while self.open_windows and self.open_windows[0][0] - 1 <= watermark:
            end, first = heappop(self.open_windows)
            window = TimeWindow(first, end)
            self.results.begin(window, watermark)
            self._emit(window, self.table.pane((first, end)), out)
            heappush(self.fired_windows, (end, first))
        while self.fired_windows and _clears_at(self.fired_windows[0][0], self.lateness_ms) <= watermark:
            end, first = heappop(self.fired_windows)
            self._clear(TimeWindow(first, end))

    def _emit(self, window: TimeWindow, pane: Pane, out: BatchBuilder) -> None:
        before = len(out.records)
        out.records.extend(self.results.of_pane(self._entries(pane)))
        out.timestamps.extend([window.max_timestamp()] * (len(out.records) - before))

    def _emit_key(self, pane: Pane, normal: NormalKey, out: BatchBuilder) -> None:
        """Fire one key of a window that has fired before, for a record that came late but not too late."""
        first, end = pane.namespace
        self.results.begin(TimeWindow(first, end), self.watermark)
        before = len(out.records)
        out.records.extend(self.results.of_pane([(pane.key_of(normal), pane.hot[normal])]))
        out.timestamps.extend([end - 1] * (len(out.records) - before))

    def _entries(self, pane: Pane) -> Iterator[tuple[Any, Any]]:
        for normal, value in list(pane.items()):
            if value is not ABSENT:
                yield pane.key_of(normal), value

    def _clear(self, window: TimeWindow) -> None:
        namespace = (window.start, window.end)
        if self.results.clears:
            self.results.begin(window, self.watermark)
            self.results.clear([key for key, _ in self._entries(self.table.pane(namespace))])
        self.table.drop(namespace)

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> Any:
        ack = super().snapshot(epoch, finished=finished)
        return type(ack)(keyed_state=ack.keyed_state, state=str(self.watermark).encode())

    def close(self) -> None:
        self.strategy.close()
        if self._results_opened:
            self.results.close()
        super().close()


def _clears_at(end: int, lateness_ms: int) -> int:
    """Return the watermark at which a window is over for good."""
    return min(end - 1 + lateness_ms, MAX_WATERMARK)


def window_operator(
    key_selector: Any,
    assigner: TumblingEventTimeWindows,
    allowed_lateness_ms: int,
    late_tag: str | None,
    strategy: str,
    function: Any,
    window_function: Any,
    accumulator_type: TypeInformation | None = None,
) -> WindowOperator:
    """Return the operator for a node's payload."""
    del accumulator_type  # accumulators are pickled as they are
    panes = PaneStrategy.named(strategy, function)
    results = window_results(strategy, function, window_function)
    return WindowOperator(key_selector, assigner, allowed_lateness_ms, late_tag, panes, results)

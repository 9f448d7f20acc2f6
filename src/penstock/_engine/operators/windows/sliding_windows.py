"""Sliding event-time windows: each record is kept once, in a slice, and a window joins its slices when it fires.

The result is that of a function that gets the records one by one, as in Flink, for each function that may join results
of neighbours. This holds where records of a key come in the order of their slices. Where a record comes after one of a
later slice, the windows that hold both stand alone from then on: each has contents of its own for that key, to which
each further record is added. All windows stand alone where the results of a function cannot be joined.

Like tumbling windows (`window`) these need no timers, because all keys of a window fire at the same watermark.
"""

from __future__ import annotations

from heapq import heappush
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock._api.windows.window import TimeWindow
from penstock._engine.operators.windows.fired_windows import note_fired, note_new_record
from penstock._engine.operators.windows.slices import Slices, Span
from penstock._engine.operators.windows.window import WindowOperator, clears_at
from penstock._engine.operators.windows.window_progress import WindowProgress
from penstock._engine.operators.windows.windowed import WindowedOperator
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock._engine.state.rows import SLICED
from penstock._engine.state.table import ABSENT, MISSING
from penstock.common.copies import any_may_change, copy_all_if_mutable, copy_if_mutable
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock._engine.operators.base import EpochContext, OperatorContext
    from penstock._engine.operators.batch import RowBatch
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock._engine.operators.windows.window_function import Entry
    from penstock._engine.protocol.control import OperatorAck
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.table import Pane, Table

#: The table of windows that stand alone, with a pane for each window.
UNSLICED: Final = "window-alone"


class Rows(NamedTuple):
    """Some records, with the normal key, the key and the slice of each."""

    records: list[Any]
    normals: list[NormalKey]
    keys: list[Any]
    pieces: list[Span]
    #: Whether a record could be changed in place.
    may_change: bool


class SlidingWindowOperator(WindowOperator):
    """Adds records to their slices, and fires windows when the watermark passes their end."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.slices = Slices(self.assigner)
        self.alone: Table = self.store.table(UNSLICED, kind=self.strategy.kind, keep_keys=True)
        self.progress = WindowProgress(self.store, context)
        self._joins = self.strategy.joins
        #: The slices that have contents, and the windows that wait for their end or for late records.
        self._live: set[Span] = set()
        self._waiting: set[Span] = set()
        #: The windows of slices that take records, up to the next watermark.
        self._open: dict[Span, list[Span]] = {}

    @property
    def kind(self) -> str:
        return SLICED + self.strategy.kind

    def begin_epoch(self, epoch: EpochContext) -> None:
        WindowedOperator.begin_epoch(self, epoch)
        self.watermark = epoch.watermark
        self._open = {}
        if not epoch.current:
            self.progress.begin(self.watermark)
        self._live = {(start, end) for start, end in self.table.namespaces()}
        self._check_slices()
        windows = {(start, end) for table in (self.alone, self.fired) for start, end in table.namespaces()}
        for piece in self._live:
            windows.update(self._takers(piece))
        self._waiting = windows
        ends = sorted((end, start) for start, end in windows)
        self.open_windows = [window for window in ends if window[0] - 1 > self.watermark]
        self.fired_windows = [window for window in ends if window[0] - 1 <= self.watermark]

    def _check_slices(self) -> None:
        """Raise unless the slices in state are those of these windows."""
        foreign = sorted(piece for piece in self._live if self.slices.of(piece[0]) != piece)
        if foreign:
            start, end = foreign[0]
            reason = (
                f"the state has a slice from {start} to {end}, which these windows do not have; give the operator "
                "another uid, so that it starts without state, or the size, slide and offset of before"
            )
            raise UnsupportedOperationError(f"{self.assigner!r} on the state of other sliding windows", reason)

    def snapshot(self, epoch: EpochContext, *, finished: bool) -> OperatorAck:
        if self._live:
            self.progress.note(self.watermark)
        return super().snapshot(epoch, finished=finished)

    # ------------------------------------------------------------------------------------------------ into the slices

    def _add(self, batch: RowBatch, start: int, stop: int, out: SideOutputs) -> None:
        records, stamps = batch.records[start:stop], batch.stamps(start, stop)
        pieces = self._pieces(records, stamps)
        distinct = set(pieces)
        closed = {piece for piece in distinct if not self._takers(piece)}
        if closed:
            self._set_apart(records, stamps, pieces, closed, out)
            kept = [place for place, piece in enumerate(pieces) if piece not in closed]
            records, pieces = [records[place] for place in kept], [pieces[place] for place in kept]
            distinct -= closed
            if not records:
                return
        keys, normals = self.keys_of(records)
        takers = sorted({window for piece in distinct for window in self._takers(piece)})
        if self.progress.ahead or any(map(self._has_fired, takers)):
            cursor = self.iterate(records)
            for piece, normal, key, record in zip(pieces, normals, keys, cursor, strict=True):
                self._add_one(piece, normal, key, record, out)
            return
        rows = Rows(records, normals, keys, pieces, any_may_change(records))
        if self._joins:
            self._add_joining(rows, takers)
        else:
            for window in takers:
                self._add_alone(window, range(len(records)), rows)

    def _pieces(self, records: list[Any], stamps: list[int]) -> list[Span]:
        """Return the slice of each record; usually all have the same, which the extremes show."""
        of = self.slices.of
        oldest = min(stamps)
        if oldest == NO_TIMESTAMP:
            raise self.missing_timestamp(records, stamps)
        first = of(oldest)
        if max(stamps) < first[1]:
            return [first] * len(stamps)
        return list(map(of, stamps))

    def _takers(self, piece: Span) -> list[Span]:
        """Return the windows of a slice that take records."""
        found = self._open.get(piece)
        if found is None:
            windows = self.slices.windows_of(piece)
            found = self._open[piece] = [window for window in windows if not self._is_over(window[1])]
        return found

    def _set_apart(
        self, records: list[Any], stamps: list[int], pieces: list[Span], closed: set[Span], out: SideOutputs
    ) -> None:
        """Drop late records, or emit them to the side output; in a gap between windows a record's timestamp decides."""
        gaps = {piece for piece in closed if not self.slices.windows_of(piece)}
        late = [
            place
            for place, piece in enumerate(pieces)
            if piece in closed and (piece not in gaps or stamps[place] + self.lateness_ms <= self.watermark)
        ]
        if late:
            chosen = [records[place] for place in late], [stamps[place] for place in late]
            self._set_aside(*chosen, [0] * len(late), {0}, out)

    def _has_fired(self, window: Span) -> bool:
        """Return whether a record may fire a window again, or let a key fire again."""
        return window[1] - 1 <= self.watermark or _has_rows(self.fired.panes.get(window))

    def _add_joining(self, rows: Rows, takers: list[Span]) -> None:
        """Add records to their slices, and to those of their windows that stand alone."""
        records, normals, keys, pieces, _ = rows
        late, known = self._out_of_order(normals, pieces), self._live.union(pieces)
        late_keys = {normal: key for normal, key in zip(normals, keys, strict=True) if normal in late} if late else {}
        all_late = late.issuperset(normals)
        for window in takers:
            inside = [piece for piece in known if window[0] <= piece[0] and piece[1] <= window[1]] if late else ()
            alone = late_keys if len(inside) > 1 else {}
            pane: Pane | None = self.alone.panes.get(window)
            for normal, key in alone.items():
                if _row(pane, normal) is ABSENT:
                    pane = self._stand_alone(window, normal, key)
            if alone and all_late:
                self._add_alone(window, range(len(normals)), rows)
            elif alone or _has_rows(pane):
                chosen = [n for n, key in enumerate(normals) if key in alone or _row(pane, key) is not ABSENT]
                self._add_alone(window, chosen, rows)
        panes = {piece: self._slice(piece) for piece in set(pieces)}
        each = [panes[piece] for piece in pieces]
        if normals is not keys:
            for pane, normal, key in zip(each, normals, keys, strict=True):
                pane.remember(normal, key)
        self.strategy.add_each(each, normals, self.iterate(records))

    def _out_of_order(self, normals: list[NormalKey], pieces: list[Span]) -> set[NormalKey]:
        """Return the keys with a record that arrives after a record of a later slice."""
        earliest = min(pieces)
        later = sorted((piece for piece in self._live if piece > earliest), reverse=True)
        if not later and (pieces[0] is pieces[-1] or all(one <= other for one, other in pairwise(pieces))):
            return set()
        panes = [(piece, self.table.panes.get(piece)) for piece in later]
        newest: dict[NormalKey, Span] = {}
        late: set[NormalKey] = set()
        for normal, piece in zip(normals, pieces, strict=True):
            before = newest.get(normal)
            if before is None:
                held = (other for other, pane in panes if other > piece and _row(pane, normal) is not ABSENT)
                before = next(held, piece)
            if before > piece:
                late.add(normal)
                newest[normal] = before
            else:
                newest[normal] = piece
        return late

    def _add_alone(self, window: Span, places: Sequence[int], rows: Rows) -> None:
        """Add the records that belong to a window to its own contents."""
        records, normals, keys, pieces, _ = rows
        distinct = set(pieces)
        takes = {piece for piece in distinct if window in self._takers(piece)}
        if len(takes) < len(distinct):
            places = [place for place in places if pieces[place] in takes]
        if not places:
            return
        pane = self._window_alone(window)
        if normals is not keys:
            for place in places:
                pane.remember(normals[place], keys[place])
        mine = records if len(places) == len(records) else [records[place] for place in places]
        # A function may change the record that it adds, which the next window gets, too.
        mine = copy_all_if_mutable(mine) if rows.may_change else mine
        chosen = normals if len(places) == len(records) else [normals[place] for place in places]
        self.strategy.add_all(pane, chosen, self.iterate(mine))

    def _add_one(self, piece: Span, normal: NormalKey, key: Any, record: Any, out: SideOutputs) -> None:
        """Add a single record, in its place among the earlier ones."""
        windows = self._takers(piece)
        later = [other for other in self._live if other > piece] if self._joins else []
        for window in windows:
            if self._stands_alone(window, normal, key, later):
                pane = self._window_alone(window)
                pane.remember(normal, key)
                self.strategy.add_all(pane, [normal], iter((copy_if_mutable(record),)))
        if self._joins:
            pane = self._slice(piece)
            pane.remember(normal, key)
            self.strategy.add_all(pane, [normal], iter((record,)))
        for window in windows:
            if window[1] - 1 <= self.watermark:
                self._fire_again(window, normal, key, out)
            elif (fired := self.fired.panes.get(window)) is not None:
                note_new_record(fired, normal)

    def _stands_alone(self, window: Span, normal: NormalKey, key: Any, later: list[Span]) -> bool:
        """Return whether a window has contents of its own for a key, making them if it needs them."""
        if not self._joins or _row(self.alone.panes.get(window), normal) is not ABSENT:
            return True
        if self.progress.ahead and clears_at(window[1], self.lateness_ms) <= self.progress.of(normal):
            return True  # the window was cleared with the contents of its slices
        panes = self.table.panes
        inside = (piece for piece in later if piece[1] <= window[1])
        if all(_row(panes.get(piece), normal) is ABSENT for piece in inside):
            return False
        self._stand_alone(window, normal, key)
        return True

    def _stand_alone(self, window: Span, normal: NormalKey, key: Any) -> Pane:
        """Give a window contents of its own for a key, if its slices hold any."""
        pane, joined = self._window_alone(window), self._joined(window, normal)
        if joined is not ABSENT:
            pane.hot[normal] = joined
            pane.dirty.add(normal)
            pane.remember(normal, key)
        return pane

    def _joined(self, window: Span, normal: NormalKey) -> Any:
        """Return the joined contents of a window's slices for a key, or ABSENT."""
        panes = self.table.panes
        found = [_row(panes.get(piece), normal) for piece in self.slices.within(window)]
        parts = [part for part in found if part is not ABSENT]
        return self.strategy.joined(parts) if parts else ABSENT

    def _slice(self, piece: Span) -> Pane:
        """Return the pane of a slice."""
        if piece not in self._live:
            self._live.add(piece)
            self._wait_for(self._takers(piece))
        return self.table.pane(piece)

    def _window_alone(self, window: Span) -> Pane:
        """Return the pane of a window that stands alone."""
        self._wait_for([window])
        return self.alone.pane(window)

    def _wait_for(self, windows: list[Span]) -> None:
        for window in windows:
            if window not in self._waiting:
                self._waiting.add(window)
                start, end = window
                heappush(self.open_windows if end - 1 > self.watermark else self.fired_windows, (end, start))

    # --------------------------------------------------------------------------------------------------------- firing

    def _advance(self, watermark: int, out: SideOutputs) -> None:
        self._open = {}
        super()._advance(watermark, out)
        self.progress.advance(watermark)

    def _fire_again(self, window: Span, normal: NormalKey, key: Any, out: SideOutputs) -> None:
        """Fire one key of a window after the watermark, for a record within the allowed lateness."""
        value = _row(self.alone.panes.get(window), normal)
        value = self._joined(window, normal) if value is ABSENT else copy_if_mutable(value)
        note_fired(self.fired.pane(window), normal)
        at = TimeWindow(*window)
        self.results.begin(at, self.watermark)
        self._emit(at, [(normal, key, value)], out)

    def _contents(self, namespace: tuple[int, int]) -> Iterator[Entry]:
        alone = set[Any]()
        if (pane := self.alone.panes.get(namespace)) is not None:
            for entry in pane.entries():
                alone.add(entry[0])
                yield entry
        cleared = clears_at(namespace[1], self.lateness_ms)
        found: dict[NormalKey, tuple[Any, list[Any]]] = {}
        for piece in self.slices.within(namespace) if self._joins else ():
            pane = self.table.panes.get(piece)
            for normal, key, value in () if pane is None else pane.entries():
                if normal in found:
                    found[normal][1].append(value)
                elif normal not in alone and not (self.progress.ahead and cleared <= self.progress.of(normal)):
                    found[normal] = key, [value]
        joined = self.strategy.joined
        for normal, (key, parts) in found.items():
            yield normal, key, joined(parts)

    def _clear(self, window: TimeWindow) -> None:
        namespace = window.start, window.end
        if self.results.clears:
            self.results.begin(window, self.watermark)
            self.results.clear(self._contents(namespace))
        self._waiting.discard(namespace)
        self.alone.drop(namespace)
        self.fired.drop(namespace)
        for piece in self.slices.within(namespace):
            if piece in self._live and self.slices.windows_of(piece)[-1] == namespace:
                self._live.discard(piece)
                self.table.drop(piece)


def _has_rows(pane: Pane | None) -> bool:
    return pane is not None and bool(pane.hot or pane.stored)


def _row(pane: Pane | None, normal: NormalKey) -> Any:
    """Return the contents of a key in a pane, or ABSENT."""
    if pane is None:
        return ABSENT
    value = pane.hot.get(normal, MISSING)
    return pane.load(normal) if value is MISSING else value

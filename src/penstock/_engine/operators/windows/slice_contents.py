"""Where sliding windows have their contents: each record once, in a slice; a window joins its slices when it fires.

The result is that of a function that gets the records one by one, as in Flink, for each function that may join results
of neighbours. This holds where records of a key come in the order of their slices. Where a record comes after one of a
later slice, the windows that hold both stand alone from then on: each has contents of its own for that key, to which
each further record is added. All windows stand alone where the results of a function cannot be joined.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.operators.windows.pane_contents import AlignedContents
from penstock._engine.operators.windows.slices import Slices, Span
from penstock._engine.operators.windows.watermark_firing import has_rows
from penstock._engine.operators.windows.window_progress import WindowProgress
from penstock._engine.state.rows import SLICED
from penstock._engine.state.table import ABSENT, MISSING
from penstock.common.copies import any_may_change, copy_all_if_mutable, copy_if_mutable
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock._api.windows.time_windows import AlignedWindows
    from penstock._engine.operators.base import EpochContext, OperatorContext
    from penstock._engine.operators.windows.pane_contents import Fire, Iterate, Rows
    from penstock._engine.operators.windows.watermark_firing import WatermarkFiring
    from penstock._engine.operators.windows.window_function import Entry
    from penstock._engine.operators.windows.window_strategy import PaneStrategy
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.keyed_state import KeyedState
    from penstock._engine.state.table import Pane, Table

#: The table of windows that stand alone, with a pane for each window.
UNSLICED: Final = "window-alone"


class SliceContents(AlignedContents):
    """The contents of windows that overlap, or have gaps between them; the unit is a slice."""

    def __init__(self, windows: AlignedWindows, strategy: PaneStrategy, firing: WatermarkFiring) -> None:
        super().__init__(windows, strategy, firing)
        self.slices = Slices(windows)
        self.has_gaps = windows.slide_ms > windows.size_ms
        self._joins = strategy.joins
        #: The slices that have contents.
        self._live: set[Span] = set()
        #: The windows of slices that take records, up to the next watermark.
        self._open: dict[Span, list[Span]] = {}
        self.alone: Table
        self.progress: WindowProgress

    @property
    def kind(self) -> str:
        return SLICED + self.strategy.kind

    def open(self, store: KeyedState, context: OperatorContext, iterate: Iterate) -> None:
        super().open(store, context, iterate)
        self.alone = store.table(UNSLICED, kind=self.strategy.kind, keep_keys=True)
        self.progress = WindowProgress(store, context)

    def begin(self, epoch: EpochContext) -> Iterable[Span]:
        self._open = {}
        if not epoch.current:
            self.progress.begin(epoch.watermark)
        self._live = {(start, end) for start, end in self.table.namespaces()}
        self._check_slices()
        windows = {(start, end) for start, end in self.alone.namespaces()}
        return windows.union(*map(self._takers, self._live))

    def _check_slices(self) -> None:
        """Raise unless the slices in state are those of these windows."""
        foreign = sorted(piece for piece in self._live if self.slices.of(piece[0]) != piece)
        if foreign:
            start, end = foreign[0]
            reason = (
                f"the state has a slice from {start} to {end}, which these windows do not have; give the operator "
                "another uid, so that it starts without state, or the size, slide and offset of before"
            )
            raise UnsupportedOperationError(f"{self.windows!r} on the state of other sliding windows", reason)

    def snapshot(self) -> None:
        if self._live:
            self.progress.note(self.firing.watermark)

    # ------------------------------------------------------------------------------------------------ into the slices

    def units_of(self, stamps: list[int], oldest: int) -> list[Any]:
        of = self.slices.of
        first = of(oldest)
        if max(stamps) < first[1]:
            return [first] * len(stamps)
        return list(map(of, stamps))

    def takes(self, unit: Any) -> bool:
        return bool(self._takers(unit))

    def is_late(self, stamp: int) -> bool:
        is_in_a_window = bool(self.slices.windows_of(self.slices.of(stamp)))
        return is_in_a_window or stamp + self.firing.lateness_ms <= self.firing.watermark

    def add(self, rows: Rows, fire: Fire) -> None:
        takers = sorted({window for piece in rows.distinct for window in self._takers(piece)})
        if self.progress.ahead or any(map(self._has_fired, takers)):
            cursor = self.iterate(rows.records)
            for piece, normal, key, record in zip(rows.units, rows.normals, rows.keys, cursor, strict=True):
                self._add_one(piece, normal, key, record, fire)
        elif self._joins:
            self._add_joining(rows, takers)
        else:
            may_change = any_may_change(rows.records)
            for window in takers:
                self._add_alone(window, range(len(rows.records)), rows, may_change=may_change)

    def _takers(self, piece: Span) -> list[Span]:
        """Return the windows of a slice that take records."""
        found = self._open.get(piece)
        if found is None:
            windows = self.slices.windows_of(piece)
            found = self._open[piece] = [window for window in windows if not self.firing.is_over(window[1])]
        return found

    def _has_fired(self, window: Span) -> bool:
        """Return whether a record may fire a window again, or let a key fire again."""
        return self.firing.has_passed(window[1]) or self.firing.some_have_fired(window)

    def _add_joining(self, rows: Rows, takers: list[Span]) -> None:
        """Add records to their slices, and to those of their windows that stand alone."""
        records, normals, keys, pieces, distinct = rows
        late, known = self._out_of_order(normals, pieces, min(distinct)), self._live.union(distinct)
        late_keys = {normal: key for normal, key in zip(normals, keys, strict=True) if normal in late} if late else {}
        all_late, may_change = late.issuperset(normals), any_may_change(records)
        for window in takers:
            inside = [piece for piece in known if window[0] <= piece[0] and piece[1] <= window[1]] if late else ()
            alone = late_keys if len(inside) > 1 else {}
            pane: Pane | None = self.alone.panes.get(window)
            for normal, key in alone.items():
                if _row(pane, normal) is ABSENT:
                    pane = self._stand_alone(window, normal, key)
            if alone and all_late:
                self._add_alone(window, range(len(normals)), rows, may_change=may_change)
            elif alone or has_rows(pane):
                chosen = [n for n, key in enumerate(normals) if key in alone or _row(pane, key) is not ABSENT]
                self._add_alone(window, chosen, rows, may_change=may_change)
        panes = {piece: self._slice(piece) for piece in distinct}
        each = [panes[piece] for piece in pieces]
        if normals is not keys:
            for pane, normal, key in zip(each, normals, keys, strict=True):
                pane.remember(normal, key)
        self.strategy.add_each(each, normals, self.iterate(records))

    def _out_of_order(self, normals: list[NormalKey], pieces: list[Span], earliest: Span) -> set[NormalKey]:
        """Return the keys with a record that arrives after a record of a later slice."""
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

    def _add_alone(self, window: Span, places: Sequence[int], rows: Rows, *, may_change: bool) -> None:
        """Add the records that belong to a window to its own contents."""
        records, normals, keys, pieces, distinct = rows
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
        mine = copy_all_if_mutable(mine) if may_change else mine
        chosen = normals if len(places) == len(records) else [normals[place] for place in places]
        self.strategy.add_all(pane, chosen, self.iterate(mine))

    def _add_one(self, piece: Span, normal: NormalKey, key: Any, record: Any, fire: Fire) -> None:
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
            if self.firing.has_passed(window[1]):
                fire(window, (normal, key, self._contents_of(window, normal)))
            else:
                self.firing.note_new_record(window, normal)

    def _stands_alone(self, window: Span, normal: NormalKey, key: Any, later: list[Span]) -> bool:
        """Return whether a window has contents of its own for a key, making them if it needs them."""
        if not self._joins or _row(self.alone.panes.get(window), normal) is not ABSENT:
            return True
        if self.progress.ahead and self.firing.clears_at(window[1]) <= self.progress.of(normal):
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
            for window in self._takers(piece):
                self.firing.wait_for(window)
        return self.table.pane(piece)

    def _window_alone(self, window: Span) -> Pane:
        """Return the pane of a window that stands alone."""
        self.firing.wait_for(window)
        return self.alone.pane(window)

    # --------------------------------------------------------------------------------------------------------- firing

    def advance(self, watermark: int) -> None:
        self._open = {}
        self.progress.advance(watermark)

    def _contents_of(self, window: Span, normal: NormalKey) -> Any:
        """Return the contents of a window for a key; a value of its own."""
        value = _row(self.alone.panes.get(window), normal)
        return self._joined(window, normal) if value is ABSENT else copy_if_mutable(value)

    def entries(self, window: Span) -> Iterator[Entry]:
        alone = set[Any]()
        if (pane := self.alone.panes.get(window)) is not None:
            for entry in pane.entries():
                alone.add(entry[0])
                yield entry
        cleared = self.firing.clears_at(window[1])
        found: dict[NormalKey, tuple[Any, list[Any]]] = {}
        for piece in self.slices.within(window) if self._joins else ():
            pane = self.table.panes.get(piece)
            for normal, key, value in () if pane is None else pane.entries():
                if normal in found:
                    found[normal][1].append(value)
                elif normal not in alone and not (self.progress.ahead and cleared <= self.progress.of(normal)):
                    found[normal] = key, [value]
        joined = self.strategy.joined
        for normal, (key, parts) in found.items():
            yield normal, key, joined(parts)

    def clear(self, window: Span) -> None:
        self.alone.drop(window)
        for piece in self.slices.within(window):
            if piece in self._live and self.slices.windows_of(piece)[-1] == window:
                self._live.discard(piece)
                self.table.drop(piece)


def _row(pane: Pane | None, normal: NormalKey) -> Any:
    """Return the contents of a key in a pane, or ABSENT."""
    if pane is None:
        return ABSENT
    value = pane.hot.get(normal, MISSING)
    return pane.load(normal) if value is MISSING else value

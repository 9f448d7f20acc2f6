"""When aligned windows fire: all keys of a window at once, when the watermark passes its end, without timers.

For windows that stay open for late records the fired keys are stored (in Flink, their timers are deleted): watermarks
start fresh at another parallelism and pass the window's end again. A key that gets a record before that fires again, as
in Flink.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock._engine.state.table import ABSENT, MISSING
from penstock.common.copies import copy_if_mutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.operators.windows.slices import Span
    from penstock._engine.operators.windows.window_function import Entry
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.keyed_state import KeyedState
    from penstock._engine.state.table import Pane, Table

#: The table of the keys that have fired, with a pane for each window.
FIRED: Final = "window-fired"


class WatermarkFiring:
    """The windows that wait for the watermark, and those that it has passed and that still take late records.

    Args:
        lateness_ms: How long after its end a window still takes records, firing again with each.
    """

    def __init__(self, lateness_ms: int) -> None:
        self.lateness_ms = lateness_ms
        self.watermark = MIN_WATERMARK
        self.fired: Table
        self._known: set[Span] = set()
        #: By end and start.
        self._waiting: list[Span] = []
        self._passed: list[Span] = []

    def open(self, store: KeyedState) -> None:
        """Take the operator's store."""
        self.fired = store.table(FIRED, kind=FIRED)

    def begin(self, windows: Iterable[Span]) -> None:
        """Begin an epoch.

        Args:
            windows: Those that have contents.
        """
        self._known = {(start, end) for start, end in self.fired.namespaces()}.union(windows)
        ends = sorted((end, start) for start, end in self._known)
        self._waiting = [window for window in ends if not self.has_passed(window[0])]
        self._passed = [window for window in ends if self.has_passed(window[0])]

    def has_passed(self, end: int) -> bool:
        """Return whether the watermark has passed the end of a window."""
        return end - 1 <= self.watermark

    def clears_at(self, end: int) -> int:
        """Return the watermark at which a window's state is cleared: its end and the allowed lateness."""
        return min(end - 1 + self.lateness_ms, MAX_WATERMARK)

    def is_over(self, end: int) -> bool:
        """Return whether a window accepts no more records; a window that ends after the last watermark never fires."""
        return end - 1 > MAX_WATERMARK or self.clears_at(end) <= self.watermark

    def wait_for(self, window: Span) -> None:
        """Note that a window has contents."""
        if window not in self._known:
            self._known.add(window)
            start, end = window
            heappush(self._passed if self.has_passed(end) else self._waiting, (end, start))

    def due(self) -> Iterator[Span]:
        """Iterate over the windows whose end the watermark has passed since they were asked for, in time order."""
        while self._waiting and self.has_passed(self._waiting[0][0]):
            end, start = heappop(self._waiting)
            yield (start, end)
            heappush(self._passed, (end, start))

    def over(self) -> Iterator[Span]:
        """Iterate over the windows that accept no more records, in time order, and forget each after its turn."""
        while self._passed and self.clears_at(self._passed[0][0]) <= self.watermark:
            end, start = heappop(self._passed)
            yield (start, end)
            self.fired.drop((start, end))
            self._known.discard((start, end))

    def unfired(self, window: Span, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Iterate over the entries of a window that have not fired, and note them as fired if the window stays."""
        stays = self.clears_at(window[1]) > self.watermark
        fired = self.fired.pane(window)
        some_have_fired = has_rows(fired)
        for normal, key, value in entries:
            if some_have_fired and _has_fired(fired, normal):
                continue
            if stays:
                _note_fired(fired, normal)
            yield normal, key, self.given_out(value)

    def given_out(self, value: Any) -> Any:
        """Return contents for a result: a copy as long as late records may still change them."""
        return copy_if_mutable(value) if self.lateness_ms else value

    def note_fired(self, window: Span, normal: NormalKey) -> None:
        """Note that a key of a window has fired."""
        _note_fired(self.fired.pane(window), normal)

    def note_new_record(self, window: Span, normal: NormalKey) -> None:
        """Note that a key of a window fires when the watermark passes, even if it has fired before."""
        fired = self.fired.panes.get(window)
        if fired is not None and _has_fired(fired, normal):
            fired.hot[normal] = ABSENT
            fired.dirty.add(normal)

    def some_have_fired(self, window: Span) -> bool:
        """Return whether keys of a window have fired."""
        return has_rows(self.fired.panes.get(window))


def has_rows(pane: Pane | None) -> bool:
    """Return whether a pane has, or had in this epoch, any rows."""
    return pane is not None and bool(pane.hot or pane.stored)


def _has_fired(fired: Pane, normal: NormalKey) -> bool:
    value = fired.hot.get(normal, MISSING)
    return (fired.load(normal) if value is MISSING else value) is not ABSENT


def _note_fired(fired: Pane, normal: NormalKey) -> None:
    if not _has_fired(fired, normal):
        fired.hot[normal] = True
        fired.dirty.add(normal)

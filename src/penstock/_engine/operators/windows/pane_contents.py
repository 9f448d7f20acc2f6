"""Where aligned windows have their contents: a pane for each window, which is dropped as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from penstock._engine.operators.windows.window_strategy import CONTENTS
from penstock._engine.protocol.rows import MIN_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._api.windows.time_windows import AlignedWindows
    from penstock._engine.operators.base import EpochContext, OperatorContext
    from penstock._engine.operators.windows.slices import Span
    from penstock._engine.operators.windows.watermark_firing import WatermarkFiring
    from penstock._engine.operators.windows.window_function import Entry
    from penstock._engine.operators.windows.window_strategy import PaneStrategy
    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.keyed_state import KeyedState
    from penstock._engine.state.table import Pane, Table

    #: Returns an iterator over records, see `CurrentRecord`.
    Iterate: TypeAlias = Callable[[list[Any]], Iterator[Any]]
    #: Fires one key of a window.
    Fire: TypeAlias = Callable[[Span, Entry], None]


class Rows(NamedTuple):
    """Some records, with the normal key, the key and the unit of each, and the units that there are."""

    records: list[Any]
    normals: list[NormalKey]
    keys: list[Any]
    units: list[Any]
    distinct: set[Any]


class AlignedContents(ABC):
    """The contents of aligned windows, by units of time: a unit is a window or a part of one, and has a pane.

    Args:
        windows: The windows.
        strategy: The contents of a pane per key, see `window_strategy`.
        firing: The windows that take records.
    """

    #: Whether there is time without windows: a record of that time is late by its own timestamp, as in Flink.
    has_gaps = False

    def __init__(self, windows: AlignedWindows, strategy: PaneStrategy, firing: WatermarkFiring) -> None:
        self.windows = windows
        self.strategy = strategy
        self.firing = firing
        self.table: Table
        self.iterate: Iterate

    @property
    def kind(self) -> str:
        """The kind of the contents in checkpoints."""
        return self.strategy.kind

    def open(self, store: KeyedState, context: OperatorContext, iterate: Iterate) -> None:
        """Take what the operator has."""
        self.iterate = iterate
        self.table = store.table(CONTENTS, kind=self.kind, keep_keys=True)

    @abstractmethod
    def begin(self, epoch: EpochContext) -> Iterable[Span]:
        """Begin an epoch; return the windows that have contents."""

    def snapshot(self) -> None:  # noqa: B027 - panes say all by themselves
        """Write what a checkpoint needs beside the contents."""

    @abstractmethod
    def units_of(self, stamps: list[int], oldest: int) -> list[Any]:
        """Return the unit of each record; usually all have the same, which the extremes show.

        Args:
            stamps: Their timestamps.
            oldest: The smallest one.
        """

    @abstractmethod
    def takes(self, unit: Any) -> bool:
        """Return whether a window of a unit takes records."""

    def is_late(self, stamp: int) -> bool:
        """Return whether a record of a unit that takes none is late; asked where there are gaps."""
        return True

    @abstractmethod
    def add(self, rows: Rows, fire: Fire) -> None:
        """Add records to units that take them; late ones fire their windows again."""

    @abstractmethod
    def entries(self, window: Span) -> Iterator[Entry]:
        """Iterate over the contents of a window."""

    @abstractmethod
    def clear(self, window: Span) -> None:
        """Drop the contents of a window."""

    def advance(self, watermark: int) -> None:  # noqa: B027 - panes have no use for it
        """Note a watermark, whose windows have fired."""


class PaneContents(AlignedContents):
    """The contents of windows side by side; the unit is the start of a window."""

    def begin(self, epoch: EpochContext) -> Iterable[Span]:
        return ((start, end) for start, end in self.table.namespaces())

    def units_of(self, stamps: list[int], oldest: int) -> list[Any]:
        size, offset = self.windows.size_ms, self.windows.offset_ms
        first = oldest - (oldest - offset) % size
        if max(stamps) < first + size:
            return [first] * len(stamps)
        return [stamp - (stamp - offset) % size for stamp in stamps]

    def takes(self, unit: Any) -> bool:
        return not self.firing.is_over(unit + self.windows.size_ms)

    def add(self, rows: Rows, fire: Fire) -> None:
        records, normals, keys, starts, distinct = rows
        size, firing = self.windows.size_ms, self.firing
        panes = {first: self._pane(first) for first in distinct}
        passed = {first for first in distinct if firing.has_passed(first + size)}
        if firing.fired.panes:
            self._let_fire_again(distinct - passed, starts, normals)
        cursor = self.iterate(records)
        if passed:
            for first, normal, key in zip(starts, normals, keys, strict=True):
                pane = panes[first]
                pane.remember(normal, key)  # not all at once: firing makes room, and only dirty rows stay
                self.strategy.add_all(pane, [normal], cursor)
                if first in passed:
                    fire(self._window(first), (normal, pane.key_of(normal), firing.given_out(pane.hot[normal])))
            return
        if normals is not keys:
            for first, normal, key in zip(starts, normals, keys, strict=True):
                panes[first].remember(normal, key)
        if len(panes) == 1:
            self.strategy.add_all(next(iter(panes.values())), normals, cursor)
        else:
            self.strategy.add_each([panes[first] for first in starts], normals, cursor)

    def entries(self, window: Span) -> Iterator[Entry]:
        return self.table.pane(window).entries()

    def clear(self, window: Span) -> None:
        self.table.drop(window)

    def _window(self, first: int) -> Span:
        """Return a window; its start is not before the first possible time."""
        return max(first, MIN_WATERMARK), first + self.windows.size_ms

    def _pane(self, first: int) -> Pane:
        """Return the pane of a window, noting a new one."""
        window = self._window(first)
        self.firing.wait_for(window)
        return self.table.pane(window)

    def _let_fire_again(self, ahead: set[int], starts: list[int], normals: list[NormalKey]) -> None:
        """Let keys with new records fire again in windows that the watermark has not reached."""
        marked = {first: window for first in ahead if (window := self._window(first)) in self.firing.fired.panes}
        for first, normal in zip(starts, normals, strict=True) if marked else ():
            if first in marked:
                self.firing.note_new_record(marked[first], normal)

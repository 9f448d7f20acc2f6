"""The memory of a subtask's keyed state, by estimates: what rows and timers take of it, and which of them leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.state.rows import TIMERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock._engine.state.files.chunk_columns import Chunk
    from penstock._engine.state.table import Pane, Table
    from penstock._engine.state.timers import Timers

#: The additional memory of a row whose address is more than a key: the address, and its place in an index.
COMPOSITE_BYTES: Final = 250
#: The memory that a stamp takes.
_STAMP_BYTES: Final = 120
#: The memory that a timer takes, and what a change of it takes until it is stored.
TIMER_BYTES: Final = 300
_TIMER_CHANGE_BYTES: Final = 120
#: The part of the memory that the earliest timers of a domain keep where memory is full, and their least number.
_TIMERS_PART: Final = 4
_FEWEST_TIMERS: Final = 8
#: After so many keys that come from no batch, the memory that is left is measured.
_TURNS: Final = 1 << 10
#: Changes that take no more than this stay in memory, however little there is.
_FEWEST_CHANGED_BYTES: Final = 1 << 12


class MemoryBudget:
    """What is left of the memory of a subtask's state.

    Args:
        tables: The tables in memory.
        domains: The timers in memory.
        limit_bytes: The memory that they may take.
    """

    def __init__(self, tables: Mapping[str, Table], domains: Mapping[str, Timers], limit_bytes: int) -> None:
        self._tables = tables
        self._domains = domains
        self.limit_bytes = limit_bytes
        #: Bytes that may be read from the backend until memory counts as full.
        self.left = 0
        #: Keys that may come from no batch until `left` is measured again.
        self.turns = _TURNS
        #: The memory of what was read from files since all changes were last stored.
        self.read_bytes = 0
        #: The bytes of the running epoch's changes when `left` was last measured.
        self._counted = 0
        #: The memory of an entry, learned from files.
        self._entry_bytes = 200

    @property
    def half(self) -> int:
        """The memory that changes may take before they leave it."""
        return max(self.limit_bytes // 2, _FEWEST_CHANGED_BYTES)

    @property
    def most_timers(self) -> int:
        """How many timers of a domain stay in memory where it is full."""
        return max(_FEWEST_TIMERS, self.limit_bytes // _TIMERS_PART // TIMER_BYTES)

    # ------------------------------------------------------------------------------------------------------- estimates

    def learn_entry_size(self, raw_size: int, entries: int) -> None:
        """Take the size of entries from those of a file."""
        if entries:
            self._entry_bytes = entry_bytes(raw_size // entries)

    def count_read(self, chunk: Chunk) -> None:
        """Count what a chunk of a file has brought into memory."""
        if chunk.kind == TIMERS:
            row_bytes = TIMER_BYTES
        else:
            row_bytes = self._row_bytes(has_stamps=chunk.stamps is not None, is_composite=chunk.is_composite)
        self.read_bytes += len(chunk.keys) * row_bytes

    def pending_bytes(self) -> int:
        """Return the memory of committed changes that are not stored yet."""
        pending = sum(self._bytes_of(pane, len(pane.pending)) for pane in self._panes())
        changes = sum(len(timers.pending) for timers in self._domains.values())
        return pending + changes * (TIMER_BYTES + _TIMER_CHANGE_BYTES)

    def _change_bytes(self) -> int:
        """Return the memory of the running epoch's changes."""
        changed = sum(self._bytes_of(pane, len(pane.dirty)) for pane in self._panes() if pane.dirty)
        timers = sum(len(timers.journal) for timers in self._domains.values())
        return changed + timers * (TIMER_BYTES + _TIMER_CHANGE_BYTES)

    def _bytes_of(self, pane: Pane, rows: int) -> int:
        """Return the memory that a number of rows of a pane takes."""
        cleared = 0 if pane.subs is None else len(pane.subs.cleared)
        row_bytes = self._row_bytes(has_stamps=bool(pane.stamps), is_composite=pane.is_composite)
        return (rows + cleared) * row_bytes

    def _row_bytes(self, *, has_stamps: bool, is_composite: bool) -> int:
        return self._entry_bytes + has_stamps * _STAMP_BYTES + is_composite * COMPOSITE_BYTES

    def _timer_bytes(self) -> int:
        """Return the memory of the timers, and of their changes."""
        held = changed = 0
        for timers in self._domains.values():
            held += timers.held
            changed += len(timers.pending) + len(timers.journal)
        return held * TIMER_BYTES + changed * _TIMER_CHANGE_BYTES

    # -------------------------------------------------------------------------------------------------------- eviction

    def free(self) -> bool:
        """Evict rows where memory is full; return True, without that, where the running epoch's changes must leave."""
        self.turns = _TURNS
        changed = self._change_bytes()
        if changed > self.half:
            return True
        if self.left <= changed - self._counted:
            self.evict()
        return False

    def measure(self) -> None:
        """Measure what is left; evict rows where memory is full."""
        held = sum(self._bytes_of(pane, len(pane.hot)) for pane in self._panes())
        self._counted = self._change_bytes()
        self.left = self.limit_bytes - held - self._timer_bytes()
        if self.left <= 0:
            self.evict()

    def evict(self) -> None:
        """Evict the rows and timers that are also stored, but for the earliest timers."""
        # All clean entries are evicted: the use of single entries is not tracked.
        kept = sum(self._bytes_of(pane, evict_clean(pane)) for pane in self._panes())
        for timers in self._domains.values():
            timers.trim()
        kept += self._timer_bytes()
        self._counted = self._change_bytes()
        # Some memory is left even where dirty entries fill memory, or each load would evict again.
        self.left = max(self.limit_bytes - kept, self.limit_bytes // 8)

    def _panes(self) -> Iterator[Pane]:
        for table in self._tables.values():
            yield from table.panes.values()


def evict_clean(pane: Pane) -> int:
    """Evict the rows of a pane that are neither dirty nor pending; return how many stay."""
    if pane.stored and pane.hot:
        pane.keep([*pane.pending, *pane.dirty])
        pane.whole = False
    return len(pane.hot)


def entry_bytes(pickle_bytes: int) -> int:
    """Estimate the memory of an entry: twice the size of its pickle, and its places in a dict and in sets."""
    return 110 + 2 * pickle_bytes

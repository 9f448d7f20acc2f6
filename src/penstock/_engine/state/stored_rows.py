"""Rows and timers that memory does not have, read from the pairs of bytes of a backend.

Panes and timers have it as their base. What it reads of single rows goes into memory, and counts there. No read
transaction stays open while the user's function runs, but for the one of single rows, which is renewed.
"""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.state.files.chunks import check_key_groups
from penstock._engine.state.local.entries import (
    GROUP,
    PANE_ID,
    RowReader,
    address_of,
    locate,
    locate_owner,
    owner_bytes,
    owner_of,
    stamp_of,
    value_of,
)
from penstock._engine.state.local.timer_rows import (
    original_in,
    place_before,
    timer_name,
    timers_behind,
    timers_by_group,
)
from penstock._engine.state.memory_budget import COMPOSITE_BYTES, TIMER_BYTES, entry_bytes, evict_clean
from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from penstock._engine.state.backend import Backend
    from penstock._engine.state.local.readings import Reading
    from penstock._engine.state.memory_budget import MemoryBudget
    from penstock._engine.state.rows import Address, Composite, Owner, Row
    from penstock._engine.state.table import Pane
    from penstock._engine.state.timers import StoredTimer, Timers

#: Reads after which a read transaction is renewed.
_READS: Final = 1 << 12
#: Rows of a key that are read at once.
_SCAN: Final = 1 << 10


class StoredRows:
    """Reads stored rows and timers of the panes and domains of one subtask.

    Each method raises a StaleAttemptError where another process has moved the backend beyond the subtask's epoch.

    Args:
        backend: Where the rows are stored.
        budget: The memory into which they are read.
    """

    def __init__(self, backend: Backend, budget: MemoryBudget) -> None:
        self._backend = backend
        self._budget = budget
        self._max_parallelism = backend.max_parallelism
        self._reader: Reading | None = None
        self._reads = 0

    # ------------------------------------------------------------------------------------------------------------ rows

    def fetch(self, pane: Pane, address: Address) -> Any:
        """Read a row into memory, even when memory is full; return its value, or ABSENT."""
        budget, subs = self._budget, pane.subs
        if subs is not None:
            if budget.left <= 0:  # rows with sub-keys are dirty once written: clean rows may go
                evict_clean(pane)
                budget.measure()
            if subs.hides(address):
                return ABSENT
        key, is_wide = locate(pane.stored, address, self._max_parallelism)
        raw = self._reading().get(key)
        if raw is None:
            value, original, stamp, size = ABSENT, None, None, 0
        else:
            value, original, stamp = value_of(raw, is_wide=is_wide)
            size = len(raw)
        if subs is None and original is None and stamp is None and type(address) is not tuple:
            pane.hot[address] = value  # as `put` does, without the call: this is the path of most reads
            budget.left -= entry_bytes(size)
            return value
        budget.left -= entry_bytes(size) + (COMPOSITE_BYTES if type(address) is tuple else 0)
        pane.put(address, value, original, stamp)
        return value

    def scan(self, pane: Pane, known: Container[Address]) -> Iterator[Row]:
        """Iterate the stored rows of a pane, except for known addresses, without noting them in the pane."""
        for _, row in self.scan_groups(pane, known):
            yield row

    def scan_groups(self, pane: Pane, known: Container[Address]) -> Iterator[tuple[int, Row]]:
        """Iterate (key group, row) of a pane's stored rows by ascending key group, except for known addresses."""
        hides = None if pane.subs is None or not pane.subs.cleared else pane.subs.hides
        prefix, reader = PANE_ID.pack(pane.stored), RowReader()
        with closing(self._backend.read()) as reading:
            for key, raw in reading.pairs(prefix):
                row = reader.row(key[6:], raw, known)
                if row is not None and (hides is None or not hides(row[0])):
                    yield GROUP.unpack_from(key, 4)[0], row

    def scan_under(self, pane: Pane, owner: Owner, known: Container[Address]) -> Iterator[Row]:
        """Iterate a pane's stored rows of one key and namespace, in parts, except for known addresses."""
        prefix = start = locate_owner(pane.stored, owner, self._max_parallelism)
        reader = RowReader()
        while start is not None:
            # Rows after those of the key are not read: most keys have few rows.
            found = list(islice(self._reading().pairs(prefix, start), _SCAN))
            start = found[-1][0] + b"\0" if len(found) == _SCAN else None
            for key, raw in found:
                row = reader.row(key[6:], raw, known)
                if row is not None:
                    yield row

    def owners(self, pane: Pane) -> Iterator[Owner]:
        """Iterate the keys and namespaces that have stored rows in a pane, one by one."""
        prefix = start = PANE_ID.pack(pane.stored)
        while True:
            key, raw = next(self._reading().pairs(prefix, start), (b"", b""))
            if not key:
                return
            yield owner_of(key[6:], raw)
            start = _behind(key[: 6 + owner_bytes(key[6:])])

    def stored_over(
        self, pane: Pane, start: bytes, most: int, over: Callable[[int | None], bool]
    ) -> tuple[list[Address], int, bytes | None]:
        """Look at some stored rows of a pane: see `Base`."""
        prefix, count = PANE_ID.pack(pane.stored), 0
        found: list[Address] = []
        for key, raw in self._reading().pairs(prefix, prefix + start):
            if count == most:
                return found, count, key[len(prefix) :]
            count += 1
            if over(stamp_of(raw)):
                found.append(address_of(key[6:], raw))
        return found, count, None

    def check(self, pane: Pane) -> None:
        """Make sure that the running epoch wrote only this subtask's keys to a pane.

        Raises:
            InternalError: A key belongs to another subtask.
        """
        check_key_groups(pane.table.name, pane.dirty, self._backend.key_groups, self._max_parallelism)

    # ---------------------------------------------------------------------------------------------------------- timers

    def stored_timer(self, timers: Timers, row: Composite) -> Any:
        """Return (key, None) of a stored timer where the user's key is kept, else None; MISSING without a timer."""
        if not timers.stored:
            return MISSING
        self._budget.left -= TIMER_BYTES
        raw = self._reading().get(timer_name(timers.stored, row, self._max_parallelism))
        return MISSING if raw is None else original_in(raw)

    def timers_behind(self, timers: Timers, place: bytes) -> Iterator[StoredTimer]:
        """Iterate the stored timers behind a place in the order of time; those of one time in a fixed order."""
        if timers.stored:
            with closing(self._backend.read()) as reading:
                yield from timers_behind(reading, timers.stored, place)

    def timers_by_group(self, timers: Timers) -> Iterator[tuple[int, Row]]:
        """Iterate (key group, row) of the stored timers that are not in memory, by ascending key group."""
        if not timers.stored or timers.are_in_memory:
            return
        with closing(self._backend.read()) as reading:
            for group, row, original in timers_by_group(reading, timers.stored):
                if not timers.hides(row):
                    yield group, (row, None, original, None)

    def timer_place(self, timestamp: int) -> bytes:
        """Return the place before the stored timers of a time."""
        return place_before(timestamp)

    # --------------------------------------------------------------------------------------------------------- reading

    def _reading(self) -> Reading:
        """Return the reading of single rows."""
        self._reads += 1
        if self._reader is None or self._reads > _READS:
            self.release()
            self._reader = self._backend.read()
        return self._reader

    def release(self) -> None:
        """End the reading of single rows, so that old pages can be used again."""
        self._reads = 0
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _behind(prefix: bytes) -> bytes:
    """Return the smallest key that is greater than all keys with a prefix."""
    last = len(prefix.rstrip(b"\xff")) - 1
    return prefix[:last] + bytes((prefix[last] + 1,))

"""Timers of one domain: unique per key, namespace and time, fired in time order.

A timer is a row without a value whose sub-key is its time. Deltas are written from the journal of set and deleted
timers.

Where memory is full, only the head stays: the earliest timers, and those that are not stored yet. Below `_until` memory
has all timers. Later ones are looked up when they are set or deleted, and come into memory in the order of time.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from penstock._engine.protocol.key_values import gives_back
from penstock._engine.state.table import MISSING
from penstock._engine.state.timer_buckets import TimerBuckets, entry_of, split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Composite, Namespace
    from penstock._engine.state.timer_buckets import Entry

#: A timer that fires: time, normal key, namespace and key.
DueTimer: TypeAlias = "tuple[int, NormalKey, Namespace, Any]"
#: A stored timer: its place in the order of time, its row, and (key, None) where the user's key is kept.
StoredTimer: TypeAlias = "tuple[bytes, Composite, Any]"

#: The place before all stored timers.
FIRST_PLACE: Final = b""
#: The value of `_until` where memory has all timers: later than every time.
_ALWAYS: Final = 1 << 63
#: How many stored timers are read at once at most.
_AHEAD: Final = 1 << 14


class StoredTimers(Protocol):
    """The timers of a committed version."""

    def stored_timer(self, timers: Timers, row: Composite) -> Any:
        """Return (key, None) of a stored timer where the user's key is kept, else None; MISSING without a timer."""
        ...

    def timers_behind(self, timers: Timers, place: bytes) -> Iterator[StoredTimer]:
        """Iterate the stored timers behind a place in the order of time; those of one time in a fixed order."""
        ...

    def timer_place(self, timestamp: int) -> bytes:
        """Return the place before the stored timers of a time."""
        ...


class Timers:
    """The pending timers of one domain.

    Args:
        name: The domain.
        base: The committed version; None where there is none.
        most: How many timers stay in memory where it is full.
    """

    __slots__ = (
        "_base",
        "_fresh",
        "_most",
        "_place",
        "_until",
        "held",
        "in_memory",
        "journal",
        "name",
        "pending",
        "stored",
    )

    def __init__(self, name: str, base: StoredTimers | None = None, most: int = _AHEAD) -> None:
        self.name = name
        self._base = base
        self._most = most
        #: Changed by this class alone.
        self.in_memory = TimerBuckets()
        #: All timers before this time are in memory; of this time, those that are stored up to `_place`.
        self._until = _ALWAYS
        self._place = FIRST_PLACE
        #: While `pop_left` runs, the timers set meanwhile.
        self._fresh: set[Composite] | None = None
        #: How many timers were in memory when the running epoch began, and how many have been read since.
        self.held = 0
        #: The pane's id in the committed version; 0 without stored timers.
        self.stored = 0
        #: Row -> set (True) or deleted (False) in the running epoch; changes that cancel out are not in it.
        self.journal: dict[Composite, bool] = {}
        #: The same for committed epochs that are newer than the local version.
        self.pending: dict[Composite, bool] = {}

    # --------------------------------------------------------------------------------------------- setting and deleting

    def register(self, timestamp: int, normal: NormalKey, namespace: Namespace = (), original: Any = MISSING) -> bool:
        """Set a timer, and return whether it was not set before; setting it again has no effect.

        Args:
            timestamp: The time at which it fires, in milliseconds.
            normal: The normal key.
            namespace: The window, or () outside windows.
            original: The user's key, returned when the timer fires; only kept where the normal key is bytes, or does
                not give it back.
        """
        row = normal, namespace, timestamp
        if timestamp >= self._until:
            self._look_up(row)
        entry: Entry = (normal, namespace) if namespace else normal
        is_kept = type(normal) is bytes or not (original is normal or original is MISSING or gives_back(original))
        if not self.in_memory.insert(timestamp, entry, original if is_kept else MISSING):
            return False
        # A change and its opposite cancel out: a timer set and fired within one epoch leaves no trace.
        if self.journal.pop(row, True):
            self.journal[row] = True
        if self._fresh is not None:
            self._fresh.add(row)
        return True

    def put_off(self, timestamp: int, normal: NormalKey, namespace: Namespace, original: Any) -> bool:
        """Set a timer in place of one that has fired too early, as `register` does; it fires while `pop_left` runs."""
        is_new = self.register(timestamp, normal, namespace, original)
        if self._fresh is not None:
            self._fresh.discard((normal, namespace, timestamp))
        return is_new

    def delete(self, timestamp: int, normal: NormalKey, namespace: Namespace = ()) -> None:
        """Delete a timer; deleting a missing one has no effect."""
        row = normal, namespace, timestamp
        if timestamp >= self._until:
            self._look_up(row)
        is_gone = self.in_memory.remove(timestamp, (normal, namespace) if namespace else normal)
        if is_gone and not self.journal.pop(row, False):
            self.journal[row] = False

    # ---------------------------------------------------------------------------------------------------------- firing

    def next(self) -> int | None:
        """Return the earliest time of all timers; None without timers."""
        while True:
            earliest = self.in_memory.earliest()
            if earliest is not None and earliest <= self._until:
                return earliest
            if self._until == _ALWAYS:
                return None
            self.read_on()

    def pop_due(self, limit: int) -> Iterator[DueTimer]:
        """Remove and yield the timers up to and including `limit` in time order, as (time, normal key, namespace, key).

        Timers that are set or deleted between two steps count: a timer set at or below `limit` fires in its turn, a
        deleted one does not. Timers of one time fire in the order of registration; where they were stored, in a fixed
        order.
        """
        while (timestamp := self.next()) is not None and timestamp <= limit:
            yield from self._pop_at(timestamp)

    def pop_left(self) -> Iterator[DueTimer]:
        """Remove and yield all timers in time order at the end of input, without timers that are set meanwhile."""
        fresh = self._fresh = set()
        try:
            for due in self.pop_due(_ALWAYS):
                timestamp, normal, namespace, _ = due
                if (normal, namespace, timestamp) not in fresh:
                    yield due
        finally:
            self._fresh = None

    def _pop_at(self, timestamp: int) -> Iterator[DueTimer]:
        journal, times, remove = self.journal, self.in_memory.times, self.in_memory.remove
        for entry, original in list(self.in_memory.at(timestamp)):
            # The callback may have set earlier timers.
            while times and times[0] < timestamp and (earlier := self.next()) is not None and earlier < timestamp:
                yield from self._pop_at(earlier)
            if remove(timestamp, entry):
                normal, namespace = entry if type(entry) is tuple else (cast("NormalKey", entry), ())
                row = normal, namespace, timestamp
                if not journal.pop(row, False):
                    journal[row] = False
                yield timestamp, normal, namespace, normal if original is MISSING else original

    # ------------------------------------------------------------------------------------------------------- all timers

    def __len__(self) -> int:
        return sum(1 for _ in self.rows())

    def rows(self) -> Iterator[tuple[tuple[NormalKey, Namespace, int], Any]]:
        """Iterate all timers as (row, key) in no particular order; the key is MISSING where none is kept."""
        yield from self.in_memory.rows()
        for row, kept in self._stored_rows(FIRST_PLACE) if self._until < _ALWAYS else ():
            yield cast("tuple[NormalKey, Namespace, int]", row), MISSING if kept is None else kept[0]

    @property
    def are_in_memory(self) -> bool:
        """Whether memory has all timers."""
        return self._until == _ALWAYS

    def hides(self, row: Composite) -> bool:
        """Return whether a timer is in memory or deleted, so that the stored row of it does not count."""
        return self.in_memory.has(row) or self._is_unsaved(row)

    # ---------------------------------------------------------------------------------------------------- for the store

    def apply(self, row: Composite, original: Any, *, is_set: bool) -> None:
        """Apply a change from a file, without an entry in the journal.

        Args:
            row: The timer.
            original: (key, None) where the user's key is kept with the timer, else None.
            is_set: False for a deleted timer.
        """
        if is_set:
            self._read(row, original)
        else:
            self.held -= self.in_memory.remove(cast("int", row[2]), entry_of(row))
        self.pending[row] = is_set

    def end_epoch(self) -> None:
        """Count the changes of the running epoch as committed."""
        self.held += 2 * sum(self.journal.values()) - len(self.journal)
        self.pending.update(self.journal)
        self.journal.clear()

    def has_moved(self) -> None:
        """Count committed changes as stored: the local version has moved."""
        self.pending.clear()

    def forget(self) -> None:
        """Drop all timers and the journal; stored timers are not touched."""
        self.in_memory.clear()
        self.journal.clear()
        self.pending.clear()
        self.held = self.stored = 0
        self._until, self._place = _ALWAYS, FIRST_PLACE

    def begin_at_stored(self) -> None:
        """Read the first stored timers, where memory has none."""
        self._until = -_ALWAYS
        self.read_on()

    def read_on(self) -> None:
        """Read the next stored timers into memory."""
        assert self._base is not None
        most = min(_AHEAD, max(1, self._most // 2))
        found = list(islice(self._base.timers_behind(self, self._place), most))
        for _, row, original in found:
            if not self._is_unsaved(row):
                self._read(row, original)
        if len(found) < most:
            self._until, self._place = _ALWAYS, FIRST_PLACE
        else:
            self._place, row, _ = found[-1]
            self._until = cast("int", row[2])

    def trim(self) -> None:
        """Leave only the head in memory, with the timers that are not stored yet."""
        if self._base is None or self.held - len(self.pending) <= self._most:
            return
        counts, left, until = self.in_memory.counts(), self._most // 2, self._until
        for time, count in counts:
            left -= count
            if left < 0 and time < until:
                self._until, self._place = time, self._base.timer_place(time)
                break
            if time >= until:
                break
        for time, _ in counts:
            # What is in memory of the time up to which was read stays: reading goes on behind it.
            if time > self._until or (time == self._until and time < until):
                for entry, _ in list(self.in_memory.at(time)):
                    if not self._is_unsaved((*split(entry), time)):
                        self.held -= self.in_memory.remove(time, entry)
        self.in_memory.tidy()

    # ---------------------------------------------------------------------------------------------------------- helpers

    def _look_up(self, row: Composite) -> None:
        """Read a timer into memory, if it is stored and not there."""
        if self._base is not None and not self.hides(row):
            original = self._base.stored_timer(self, row)
            if original is not MISSING:
                self._read(row, original)

    def _read(self, row: Composite, original: Any) -> None:
        kept = MISSING if original is None else original[0]
        self.held += self.in_memory.insert(cast("int", row[2]), entry_of(row), kept)

    def _stored_rows(self, place: bytes) -> Iterator[tuple[Composite, Any]]:
        """Iterate the stored timers behind a place that are not in memory and not deleted."""
        if self._base is not None:
            for _, row, original in self._base.timers_behind(self, place):
                if not self.hides(row):
                    yield row, original

    def _is_unsaved(self, row: Composite) -> bool:
        """Return whether a timer was set or deleted since the committed version."""
        return row in self.journal or row in self.pending

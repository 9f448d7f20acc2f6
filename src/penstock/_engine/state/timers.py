"""Timers of one domain: unique per key, namespace and time, fired in time order.

A timer is a row without a value whose sub-key is its time. All timers are in memory: a bucket per timestamp and a heap
of timestamps. Deltas are written from the journal of set and deleted timers.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from penstock._engine.state.table import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Composite, Namespace

#: An entry of a bucket: the key alone when the namespace is ().
Entry: TypeAlias = "NormalKey | tuple[NormalKey, Namespace]"
#: A timer that fires: time, normal key, namespace and key.
DueTimer: TypeAlias = "tuple[int, NormalKey, Namespace, Any]"


class Timers:
    """The pending timers of one domain."""

    __slots__ = ("_buckets", "_times", "journal", "name", "pending")

    def __init__(self, name: str) -> None:
        self.name = name
        # A bucket maps entries to original keys, in the order of registration. A time with one timer, the usual case,
        # has the entry itself in place of a bucket: a third of the memory.
        self._buckets: dict[int, Entry | dict[Entry, Any]] = {}
        # May contain times whose bucket was removed.
        self._times: list[int] = []
        #: Row -> set (True) or deleted (False) in the running epoch; changes that cancel out are not in it.
        self.journal: dict[Composite, bool] = {}
        #: The same for committed epochs that are newer than the local version.
        self.pending: dict[Composite, bool] = {}

    def register(self, timestamp: int, normal: NormalKey, namespace: Namespace = (), original: Any = MISSING) -> bool:
        """Set a timer, and return whether it was not set before; setting it again has no effect.

        Args:
            timestamp: The time at which it fires, in milliseconds.
            normal: The normal key.
            namespace: The window, or () outside windows.
            original: The user's key, returned when the timer fires; only kept where the normal key is bytes.
        """
        entry: Entry = (normal, namespace) if namespace else normal
        if not self.insert(timestamp, entry, original if type(normal) is bytes else MISSING):
            return False
        self._log((normal, namespace, timestamp), is_set=True)
        return True

    def delete(self, timestamp: int, normal: NormalKey, namespace: Namespace = ()) -> None:
        """Delete a timer; deleting a missing one has no effect."""
        entry: Entry = (normal, namespace) if namespace else normal
        if self.remove(timestamp, entry):
            self._log((normal, namespace, timestamp), is_set=False)

    def next(self) -> int | None:
        """Return the earliest time of all timers; None without timers."""
        times, buckets = self._times, self._buckets
        while times and times[0] not in buckets:
            heappop(times)
        return times[0] if times else None

    def pop_due(self, limit: int) -> Iterator[DueTimer]:
        """Remove and yield the timers up to and including `limit` in time order, as (time, normal key, namespace, key).

        Timers that are set or deleted between two steps count: a timer set at or below `limit` fires in its turn, a
        deleted one does not. Timers of one time fire in the order of registration; after a restore, in a fixed order.
        """
        while (timestamp := self.next()) is not None and timestamp <= limit:
            yield from self._pop_at(timestamp)

    def pop_left(self) -> Iterator[DueTimer]:
        """Remove and yield all timers in time order at the end of input, without timers that are set meanwhile."""
        left = {address for address, _ in self.rows()}
        for due in self.pop_due(max((timestamp for _, _, timestamp in left), default=0)):
            timestamp, normal, namespace, _ = due
            if (normal, namespace, timestamp) in left:
                yield due

    def _pop_at(self, timestamp: int) -> Iterator[DueTimer]:
        for entry, original in list(self.at(timestamp)):
            # The callback may have set earlier timers.
            while (earlier := self.next()) is not None and earlier < timestamp:
                yield from self._pop_at(earlier)
            if self.remove(timestamp, entry):
                normal, namespace = split(entry)
                self._log((normal, namespace, timestamp), is_set=False)
                yield timestamp, normal, namespace, normal if original is MISSING else original

    def __len__(self) -> int:
        return sum(len(bucket) if type(bucket) is dict else 1 for bucket in self._buckets.values())

    def rows(self) -> Iterator[tuple[tuple[NormalKey, Namespace, int], Any]]:
        """Iterate all timers as (row, key) in no particular order; the key is MISSING where none is kept."""
        for timestamp in self._buckets:
            for entry, original in self.at(timestamp):
                yield (*split(entry), timestamp), original

    def original(self, row: Composite) -> Any:
        """Return (key, None) where the user's key is kept with a timer, else None: the form that rows have."""
        normal, namespace, timestamp = row
        bucket = self._buckets[cast("int", timestamp)]
        kept = bucket[(normal, namespace) if namespace else normal] if type(bucket) is dict else MISSING
        return None if kept is MISSING else (kept, None)

    def apply(self, row: Composite, original: Any, *, is_set: bool) -> None:
        """Apply a change from a file, without an entry in the journal.

        Args:
            row: The timer.
            original: The value that `original` returned.
            is_set: False for a deleted timer.
        """
        normal, namespace, timestamp = row
        entry: Entry = (normal, namespace) if namespace else normal
        if is_set:
            self.insert(cast("int", timestamp), entry, MISSING if original is None else original[0])
        else:
            self.remove(cast("int", timestamp), entry)
        self.pending[row] = is_set

    def insert(self, timestamp: int, entry: Entry, original: Any) -> bool:
        """Set a timer without an entry in the journal; return False when it was already set."""
        bucket = self._buckets.get(timestamp)
        if bucket is None:
            heappush(self._times, timestamp)
            self._buckets[timestamp] = entry if original is MISSING else {entry: original}
        elif type(bucket) is dict:
            if entry in bucket:
                return False
            bucket[entry] = original
        elif bucket == entry:
            return False
        else:
            self._buckets[timestamp] = {cast("Entry", bucket): MISSING, entry: original}
        return True

    def remove(self, timestamp: int, entry: Entry) -> bool:
        """Delete a timer without an entry in the journal; return False when there was none."""
        bucket = self._buckets.get(timestamp)
        if type(bucket) is dict:
            if bucket.pop(entry, self) is self:
                return False
            if bucket:
                return True
        elif bucket is None or bucket != entry:
            return False
        del self._buckets[timestamp]
        if len(self._times) > 2 * len(self._buckets) + 1_000:  # most of the times have no timers any more
            self._times[:] = self._buckets
            heapify(self._times)
        return True

    def forget(self) -> None:
        """Drop all timers and the journal."""
        self._buckets.clear()
        self._times.clear()
        self.journal.clear()
        self.pending.clear()

    def at(self, timestamp: int) -> Iterator[tuple[Entry, Any]]:
        """Iterate the timers of one time as (entry, original), in the order of registration."""
        bucket = self._buckets.get(timestamp)
        if bucket is None:
            return
        if type(bucket) is dict:
            yield from bucket.items()
        else:
            yield cast("Entry", bucket), MISSING

    def _log(self, row: Composite, *, is_set: bool) -> None:
        # A change and its opposite cancel out: a timer set and fired within one epoch leaves no trace.
        if self.journal.pop(row, is_set) is is_set:
            self.journal[row] = is_set


def split(entry: Entry) -> tuple[NormalKey, Namespace]:
    """Return the normal key and the namespace of an entry."""
    return entry if type(entry) is tuple else (cast("NormalKey", entry), ())

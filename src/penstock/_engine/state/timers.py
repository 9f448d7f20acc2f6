"""Timers of one domain: unique per key, namespace and time, fired in time order.

A timer is a row without a value, whose sub-key is its time. All of them are in memory: a bucket per timestamp and a
heap of timestamps. The journal of what was set and deleted is what deltas are made of.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from penstock._engine.state.table import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.protocol.keys import NormalKey
    from penstock._engine.state.rows import Composite, Namespace

#: What a bucket holds: the key alone when the namespace is ().
Entry: TypeAlias = "NormalKey | tuple[NormalKey, Namespace]"
#: A timer that is to fire: time, normal key, namespace and key.
DueTimer: TypeAlias = "tuple[int, NormalKey, Namespace, Any]"


class Timers:
    """The pending timers of one domain."""

    __slots__ = ("_buckets", "_times", "journal", "name", "pending")

    def __init__(self, name: str) -> None:
        self.name = name
        # A bucket maps entries to original keys, in the order of registration. Most often there is one timer at a
        # time, and then the entry itself stands for the bucket: a third of the memory.
        self._buckets: dict[int, Entry | dict[Entry, Any]] = {}
        # May name times that have no bucket any more.
        self._times: list[int] = []
        #: Row -> set (True) or deleted (False), in the running epoch; what cancels out is not in it.
        self.journal: dict[Composite, bool] = {}
        #: The same for committed epochs that are newer than the version on disk.
        self.pending: dict[Composite, bool] = {}

    def register(self, timestamp: int, normal: NormalKey, namespace: Namespace = (), original: Any = MISSING) -> None:
        """Set a timer; nothing happens when there is the same one.

        Args:
            timestamp: When it is due, in milliseconds.
            normal: The normal key.
            namespace: The window, where there is one.
            original: The key itself, given back when the timer fires; only kept where the normal key is bytes.
        """
        entry: Entry = (normal, namespace) if namespace else normal
        if self.insert(timestamp, entry, original if type(normal) is bytes else MISSING):
            self._log((normal, namespace, timestamp), is_set=True)

    def delete(self, timestamp: int, normal: NormalKey, namespace: Namespace = ()) -> None:
        """Take a timer back; nothing happens when there is none."""
        entry: Entry = (normal, namespace) if namespace else normal
        if self.remove(timestamp, entry):
            self._log((normal, namespace, timestamp), is_set=False)

    def next(self) -> int | None:
        """Return the earliest time that a timer is set for."""
        times, buckets = self._times, self._buckets
        while times and times[0] not in buckets:
            heappop(times)
        return times[0] if times else None

    def pop_due(self, limit: int) -> Iterator[DueTimer]:
        """Take the timers up to and including `limit` in time order, as (time, normal key, namespace, key).

        Timers set or deleted between two steps count: one set at or below `limit` comes in its turn, a deleted one not
        at all. At one time the order is that of registration; after a restore, some fixed order.
        """
        while (timestamp := self.next()) is not None and timestamp <= limit:
            yield from self._pop_at(timestamp)

    def pop_left(self) -> Iterator[DueTimer]:
        """Take all timers in time order, for a last time: those that are set meanwhile are not among them."""
        left = {address for address, _ in self.rows()}
        for due in self.pop_due(max((timestamp for _, _, timestamp in left), default=0)):
            timestamp, normal, namespace, _ = due
            if (normal, namespace, timestamp) in left:
                yield due

    def _pop_at(self, timestamp: int) -> Iterator[DueTimer]:
        for entry, original in list(self.at(timestamp)):
            # The callback may have set earlier ones.
            while (earlier := self.next()) is not None and earlier < timestamp:
                yield from self._pop_at(earlier)
            if self.remove(timestamp, entry):
                normal, namespace = split(entry)
                self._log((normal, namespace, timestamp), is_set=False)
                yield timestamp, normal, namespace, normal if original is MISSING else original

    def __len__(self) -> int:
        return sum(len(bucket) if type(bucket) is dict else 1 for bucket in self._buckets.values())

    def rows(self) -> Iterator[tuple[tuple[NormalKey, Namespace, int], Any]]:
        """Iterate all timers as (row, key), MISSING where no key is kept, in no order of time."""
        for timestamp in self._buckets:
            for entry, original in self.at(timestamp):
                yield (*split(entry), timestamp), original

    def original(self, row: Composite) -> Any:
        """Return what is kept beside a timer: the key with no sub-key, None where none is kept."""
        normal, namespace, timestamp = row
        bucket = self._buckets[cast("int", timestamp)]
        kept = bucket[(normal, namespace) if namespace else normal] if type(bucket) is dict else MISSING
        return None if kept is MISSING else (kept, None)

    def apply(self, row: Composite, original: Any, *, is_set: bool) -> None:
        """Do what a file says, without a trace in the journal.

        Args:
            row: The timer.
            original: What `original` returned.
            is_set: False for one that is taken back.
        """
        normal, namespace, timestamp = row
        entry: Entry = (normal, namespace) if namespace else normal
        if is_set:
            self.insert(cast("int", timestamp), entry, MISSING if original is None else original[0])
        else:
            self.remove(cast("int", timestamp), entry)
        self.pending[row] = is_set

    def insert(self, timestamp: int, entry: Entry, original: Any) -> bool:
        """Set a timer without a trace in the journal; False when it was there."""
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
        """Take a timer back without a trace in the journal; False when there was none."""
        bucket = self._buckets.get(timestamp)
        if type(bucket) is dict:
            if bucket.pop(entry, self) is self:
                return False
            if bucket:
                return True
        elif bucket is None or bucket != entry:
            return False
        del self._buckets[timestamp]
        if len(self._times) > 2 * len(self._buckets) + 1_000:  # mostly times without timers
            self._times[:] = self._buckets
            heapify(self._times)
        return True

    def forget(self) -> None:
        """Drop all timers and what is known of their changes."""
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

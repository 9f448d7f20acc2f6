"""Timers in memory: a bucket for each time, and a heap of the times.

A bucket maps entries to original keys, in the order of registration. A time with one timer, the usual case, has the
entry itself in place of a bucket: a third of the memory.
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


class TimerBuckets:
    """The timers of one domain that are in memory."""

    __slots__ = ("_buckets", "times")

    def __init__(self) -> None:
        self._buckets: dict[int, Entry | dict[Entry, Any]] = {}
        #: A heap. It may contain times that have no timers any more.
        self.times: list[int] = []

    def insert(self, timestamp: int, entry: Entry, original: Any) -> bool:
        """Add a timer; return False when it was there."""
        bucket = self._buckets.get(timestamp)
        if bucket is None:
            heappush(self.times, timestamp)
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
        """Remove a timer; return False when it was not there."""
        bucket = self._buckets.get(timestamp)
        if type(bucket) is dict:
            if bucket.pop(entry, self) is self:
                return False
            if bucket:
                return True
        elif bucket is None or bucket != entry:
            return False
        del self._buckets[timestamp]
        if len(self.times) > 2 * len(self._buckets) + 1_000:  # most of the times have no timers any more
            self.tidy()
        return True

    def tidy(self) -> None:
        """Take the times that have no timers out of the heap."""
        self.times[:] = self._buckets
        heapify(self.times)

    def earliest(self) -> int | None:
        """Return the earliest time; None without timers."""
        times, buckets = self.times, self._buckets
        while times and times[0] not in buckets:
            heappop(times)
        return times[0] if times else None

    def counts(self) -> list[tuple[int, int]]:
        """Return the times with how many timers each has, earliest first."""
        buckets = self._buckets
        return [(time, len(bucket) if type(bucket := buckets[time]) is dict else 1) for time in sorted(buckets)]

    def at(self, timestamp: int) -> Iterator[tuple[Entry, Any]]:
        """Iterate the timers of one time as (entry, original), in the order of registration."""
        bucket = self._buckets.get(timestamp)
        if bucket is None:
            return
        if type(bucket) is dict:
            yield from bucket.items()
        else:
            yield cast("Entry", bucket), MISSING

    def rows(self) -> Iterator[tuple[tuple[NormalKey, Namespace, int], Any]]:
        """Iterate all timers as (row, key); the key is MISSING where none is kept."""
        for timestamp in self._buckets:
            for entry, original in self.at(timestamp):
                yield (*split(entry), timestamp), original

    def has(self, row: Composite) -> bool:
        """Return whether a timer is there."""
        entry = entry_of(row)
        bucket = self._buckets.get(cast("int", row[2]))
        return entry in bucket if type(bucket) is dict else bucket is not None and bucket == entry

    def original(self, row: Composite) -> Any:
        """Return (key, None) where the user's key is kept with a timer, else None: as rows have it."""
        bucket = self._buckets[cast("int", row[2])]
        kept = bucket[entry_of(row)] if type(bucket) is dict else MISSING
        return None if kept is MISSING else (kept, None)

    def clear(self) -> None:
        """Remove all timers."""
        self._buckets.clear()
        self.times.clear()


def entry_of(row: Composite) -> Entry:
    """Return the entry of a bucket for a row."""
    normal, namespace, _ = row
    return (normal, namespace) if namespace else normal


def split(entry: Entry) -> tuple[NormalKey, Namespace]:
    """Return the normal key and the namespace of an entry."""
    return entry if type(entry) is tuple else (cast("NormalKey", entry), ())

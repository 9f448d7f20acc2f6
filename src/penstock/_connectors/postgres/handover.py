"""The hand-over from the first look at tables to the stream of their changes, without a gap and without a double.

Each segment of a table was read in a snapshot of the server, which tells for each transaction whether the rows show it.
A change that the rows show is left out of the stream. That is exact where positions in the log are not: a transaction's
commit is in the log before it is visible. Positions say only when it is over: what a segment shows was committed before
the end of the log as it was after the segment was read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock._connectors.postgres.client import run
from penstock._connectors.postgres.pgoutput import Relation, RowChange, Truncate, Unchanged
from penstock.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import psycopg

    from penstock._connectors.postgres.pgoutput import Values
    from penstock._connectors.postgres.ranges import KeyRange, KeyText
    from penstock._connectors.postgres.tables import Key


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Which transactions some rows show.

    Example:
        >>> shown = Snapshot.parse("10:20:11,15")
        >>> [shown.shows(xid) for xid in (9, 11, 12, 20)]
        [True, False, True, False]
    """

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """Read what ``pg_current_snapshot`` returns."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in running.split(",") if xid))

    def whole(self, xid: int) -> int:
        """Return the whole number of a transaction near this snapshot, of which the lower 32 bits are known."""
        whole = (self.xmax & ~0xFFFFFFFF) | xid
        if whole > self.xmax + 0x80000000:
            return whole - 0x100000000
        return whole + 0x100000000 if whole < self.xmax - 0x80000000 else whole

    def shows(self, xid: int) -> bool:
        """Tell whether a committed transaction is shown, by the lower 32 bits of its number."""
        whole = self.whole(xid)
        return whole < self.xmin or (whole < self.xmax and whole not in self.running)


@dataclass(frozen=True, slots=True)
class ChangeSegment:
    """A part of a table that was read at once.

    Attributes:
        keys: Its keys.
        snapshot: What its rows show, as the server writes it.
        lsn: The end of the log after it was read.
    """

    keys: KeyRange
    snapshot: str
    lsn: int


@dataclass(frozen=True, slots=True)
class _Parted:
    """A table's segments in the order of their keys."""

    key: Key
    segments: tuple[ChangeSegment, ...]
    shown: tuple[Snapshot, ...]
    xmin: int = field(init=False)
    xmax: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "xmin", min(one.xmin for one in self.shown))
        object.__setattr__(self, "xmax", max(one.xmax for one in self.shown))

    def is_shown(self, xid: int) -> bool | None:
        """Tell whether all segments show a transaction; None where that differs."""
        whole = self.shown[0].whole(xid)
        return True if whole < self.xmin else False if whole >= self.xmax else None


class Handover:
    """Leaves out what the segments show.

    Args:
        segments: By the number of a table: the segments, in the order of their keys.
        keys: By the number of a table: its key.
    """

    def __init__(self, segments: Mapping[int, Sequence[ChangeSegment]], keys: Mapping[int, Key]) -> None:
        self._tables = {
            oid: _Parted(keys[oid], tuple(parts), tuple(Snapshot.parse(part.snapshot) for part in parts))
            for oid, parts in segments.items()
            if parts
        }
        self._until = max((part.lsn for parts in segments.values() for part in parts), default=0)

    def is_over(self, commit_lsn: int) -> bool:
        """Tell whether no segment shows a transaction that was committed there, or later."""
        return commit_lsn >= self._until

    def filtered(
        self, connection: psycopg.Connection[tuple[Any, ...]], changes: Sequence[tuple[int, RowChange | Truncate]]
    ) -> list[list[RowChange | Truncate]]:
        """Return for each change what is left of it: itself, nothing, or one half of an update of a key.

        Args:
            connection: A connection: only the server knows the order of keys.
            changes: Changes, each with the number of its transaction.

        Raises:
            TableError: A table was emptied while it was read.
        """
        asked: dict[int, list[KeyText]] = {}
        for xid, change in changes:
            table = self._tables.get(change.relation.oid) if isinstance(change, RowChange) else None
            if table is not None and table.is_shown(xid) is None:
                assert isinstance(change, RowChange)
                asked.setdefault(change.relation.oid, []).extend(_keys_of(change, table.key))
        places = {oid: iter(self._places(connection, self._tables[oid], keys)) for oid, keys in asked.items()}
        return [self._left(xid, change, places) for xid, change in changes]

    def _left(
        self, xid: int, change: RowChange | Truncate, places: Mapping[int, Iterator[int]]
    ) -> list[RowChange | Truncate]:
        if isinstance(change, Truncate):
            kept = tuple(relation for relation in change.relations if not self._shows_truncate(relation, xid))
            return [Truncate(kept)] if kept else []
        table = self._tables.get(change.relation.oid)
        is_shown = False if table is None else table.is_shown(xid)
        if table is None or is_shown is not None:
            return [] if is_shown else [change]
        shown: list[bool] = [
            table.shown[next(places[change.relation.oid])].shows(xid) for _ in _keys_of(change, table.key)
        ]
        if len(shown) == 1 or shown[0] == shown[1]:
            return [] if shown[0] else [change]
        # The key has moved from one segment to another, and only one of them shows it.
        gone, come = replace(change, op="delete", new=None), replace(change, op="insert", old=None, old_is_key=False)
        return [come] if shown[0] else [gone]

    def _shows_truncate(self, relation: Relation, xid: int) -> bool:
        table = self._tables.get(relation.oid)
        if table is None:
            return False
        shown = {snapshot.shows(xid) for snapshot in table.shown}
        if len(shown) > 1:
            reason = "it was emptied by TRUNCATE while the first look at it was under way"
            raise TableError(str(relation), reason, "Drop the slot, and start the job without a checkpoint")
        return shown.pop()

    def _places(
        self, connection: psycopg.Connection[tuple[Any, ...]], table: _Parted, keys: Sequence[KeyText]
    ) -> list[int]:
        """Return for each key the number of its segment."""
        ends = [segment.keys.end for segment in table.segments if segment.keys.end is not None]
        parts = [part for part in (keys, ends) if part]
        arrays = [list(column) for part in parts for column in zip(*part, strict=True)]
        places, place = [0] * len(keys), 0
        for is_bound, number in run(connection, table.key.sorting_sql(len(keys), len(ends)), arrays).fetchall():
            if is_bound:
                place += 1
            else:
                places[number - 1] = place
        return places


def _keys_of(change: RowChange, key: Key) -> list[KeyText]:
    """Return the keys of the rows that a change is about: two if it has changed the key."""
    old = None if change.old is None else _key_in(change.relation, change.old, None, key)
    new = None if change.new is None else _key_in(change.relation, change.new, change.old, key)
    return [one for one in (old, new if new != old else None) if one is not None]


def _key_in(relation: Relation, values: Values, before: Values | None, key: Key) -> KeyText:
    texts: list[str] = []
    for name in key.names:
        place = relation.columns.index(name)
        value = values[place]
        if value is Unchanged.TOAST and before is not None:
            value = before[place]
        if not isinstance(value, bytes):
            reason = f"the server sent a change without the key column {name}"
            raise TableError(str(relation), reason, "Leave key and REPLICA IDENTITY as they are while the job runs")
        texts.append(value.decode())
    return tuple(texts)

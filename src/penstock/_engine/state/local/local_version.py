"""The committed version of keyed state in an LMDB environment: its layout, and how it moves forward.

    meta      "version"   the position of the contents, see `VersionMeta`
              pane id     one `PaneMeta` per pane
    entries   pane id, key group, address   a row, see `entries`; a timer, see `timer_rows`

A pane is one range of keys, which is counted, iterated and dropped as a whole. A version only moves forward along its
lineage, and the write transaction that moves it checks its position: the first process moves it, the others find it
moved.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from penstock._engine.protocol.decoders import msgpack_decoder
from penstock._engine.protocol.keys import encode_normal
from penstock._engine.state.local.entries import (
    GROUP,
    PANE_ID,
    RowReader,
    address_of,
    changes,
    locate,
    locate_owner,
    owner_bytes,
    owner_of,
    stamp_of,
    value_of,
)
from penstock._engine.state.local.moves import DeletedRange, PaneMeta, Part, Progress, VersionMeta, parts_of_rows
from penstock._engine.state.local.readings import LayeredReading, pairs_under
from penstock._engine.state.local.timer_rows import original_in, timer_name, timer_row, timers_behind, timers_by_group
from penstock._engine.state.rows import TIMERS, Namespace, key_at
from penstock._engine.state.table import ABSENT, MISSING, Pane

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Iterator

    import lmdb

    from penstock._engine.state.local.environment import LmdbEnvironment
    from penstock._engine.state.local.epoch_layer import EpochLayer, PaneName
    from penstock._engine.state.local.lineage import Position
    from penstock._engine.state.local.readings import Reading
    from penstock._engine.state.rows import Address, Composite, Owner, Row
    from penstock._engine.state.timers import StoredTimer, Timers

LAYOUT: Final = 1
_VERSION_KEY: Final = b"version"
#: The position of a version that holds no state yet.
NOWHERE: Final = (-1, -1)
#: Number of passed positions that a version remembers: a task that needs one of them is outdated.
_HISTORY: Final = 64

#: A version with more pages than this takes at most so many changes in a transaction, and fewer with less memory.
_MANY_PAGES: Final = 1 << 15
_MOST_CHANGES: Final = 1 << 15
_FEWEST_CHANGES: Final = 1 << 10
_PAGE_BYTES: Final = 1 << 12
#: Reads after which a read transaction is renewed.
_READS: Final = 1 << 12
#: Rows of a key that are read at once: between two reads no transaction stays open while the user's function runs.
_SCAN: Final = 1 << 10


class VersionMovedError(Exception):
    """The version is at a position that the caller does not expect.

    Args:
        position: Its position.
    """

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self.position = position


class LocalVersion:
    """One committed version of a subtask's keyed state.

    Args:
        environment: The open environment.
        key_groups: The key groups of the subtask.
        max_parallelism: The number of all key groups.
    """

    def __init__(self, environment: LmdbEnvironment, key_groups: range, max_parallelism: int) -> None:
        self._environment = environment
        self._max_parallelism = max_parallelism
        self._reader: Reading | None = None
        self._reads = 0
        #: Changes above the version that only the caller has.
        self.above: EpochLayer | None = None
        #: Positions that the caller's memory has passed: the version may move to any of them while it is in use.
        self.passed: list[Position] = []
        self._key_groups = (key_groups.start, key_groups.stop - 1)
        with environment.read() as transaction:
            self._read_directory(transaction)

    @property
    def position(self) -> Position:
        """The position when it was last read; `NOWHERE` while a restore fills the version."""
        return self.meta.position

    def is_lost(self) -> bool:
        """Return whether another process began to move the version and did not come to the end."""
        with self._environment.read() as transaction:
            return _position_in(transaction, self._environment) == NOWHERE != self.position

    def _read_directory(self, transaction: lmdb.Transaction) -> None:
        self.meta = VersionMeta(LAYOUT, self._key_groups, self._max_parallelism, NOWHERE, [], 1)
        self.panes: dict[tuple[str, Namespace, bool], PaneMeta] = {}
        for key, value in transaction.cursor(self._environment.meta):
            if key == _VERSION_KEY:
                self.meta = msgpack_decoder(VersionMeta).decode(value)
            else:
                record = msgpack_decoder(PaneMeta).decode(value)
                self.panes[record.name, record.namespace, record.is_timers] = record

    # ---------------------------------------------------------------------------------------------------- reading

    def get(self, pane_id: int, address: Address) -> tuple[Any, Any, int | None, int]:
        """Return (value, original key, stamp, size of the pickle) of a row; the value is ABSENT where there is no row.

        Raises:
            VersionMovedError: The version moved to where the caller is not.
        """
        key, is_wide = locate(pane_id, address, self._max_parallelism)
        raw: bytes | None = self._reading().get(key)  # pyright: ignore[reportAssignmentType] - no buffers were asked for
        if raw is None:
            return ABSENT, None, None, 0
        return (*value_of(raw, is_wide=is_wide), len(raw))

    def scan(self, pane_id: int, known: Container[Address]) -> Iterator[tuple[int, Row]]:
        """Iterate (key group, row) of a pane by ascending key group, except for known addresses."""
        prefix, reader = PANE_ID.pack(pane_id), RowReader()
        with self.reading() as transaction:
            for key, raw in pairs_under(transaction, prefix):
                row = reader.row(key[6:], raw, known)
                if row is not None:
                    yield GROUP.unpack_from(key, 4)[0], row

    def scan_under(self, pane_id: int, owner: Owner, known: Container[Address]) -> Iterator[Row]:
        """Iterate a pane's rows of one key and namespace without known addresses; no transaction stays open.

        Raises:
            VersionMovedError: The version moved to where the caller is not.
        """
        prefix = start = locate_owner(pane_id, owner, self._max_parallelism)
        reader = RowReader()
        while start is not None:
            # Rows after those of the key are not read: most keys have few rows.
            found = list(islice(pairs_under(self._reading(), prefix, start), _SCAN))
            start = found[-1][0] + b"\0" if len(found) == _SCAN else None
            for key, raw in found:
                row = reader.row(key[6:], raw, known)
                if row is not None:
                    yield row

    def owners(self, pane_id: int) -> Iterator[Owner]:
        """Iterate the keys and namespaces that have rows in a pane; no transaction stays open.

        Raises:
            VersionMovedError: The version moved to where the caller is not.
        """
        prefix = start = PANE_ID.pack(pane_id)
        while True:
            key, raw = next(pairs_under(self._reading(), prefix, start), (b"", b""))
            if not key:
                return
            yield owner_of(key[6:], raw)
            start = _behind(key[: 6 + owner_bytes(key[6:])])

    def timer(self, pane_id: int, row: Composite) -> Any:
        """Return (key, None) of a timer where the user's key is kept, else None; MISSING without a timer.

        Raises:
            VersionMovedError: The version moved to where the caller is not.
        """
        raw = cast("bytes | None", self._reading().get(timer_name(pane_id, row, self._max_parallelism)))
        return MISSING if raw is None else original_in(raw)

    def timers_behind(self, pane_id: int, place: bytes) -> Iterator[StoredTimer]:
        """Iterate the timers of a pane behind a place, in the order of time.

        Raises:
            VersionMovedError: The version moved to where the caller is not.
        """
        with self.reading() as transaction:
            yield from timers_behind(transaction, pane_id, place)

    def timers_by_group(self, pane_id: int) -> Iterator[tuple[int, Composite, Any]]:
        """Iterate the timers of a pane by ascending key group, as (key group, row, original).

        Raises:
            VersionMovedError: The version moved to where the caller is not.
        """
        with self.reading() as transaction:
            yield from timers_by_group(transaction, pane_id)

    def stored_over(
        self, pane_id: int, start: bytes, most: int, over: Callable[[int | None], bool]
    ) -> tuple[list[Address], int, bytes | None]:
        """Look at some rows of a pane: see `CommittedVersion`.

        Raises:
            VersionMovedError: The version moved to where the caller is not.
        """
        prefix, count = PANE_ID.pack(pane_id), 0
        found: list[Address] = []
        for key, raw in pairs_under(self._reading(), prefix, prefix + start):
            if count == most:
                return found, count, key[len(prefix) :]
            count += 1
            if over(stamp_of(raw)):
                found.append(address_of(key[6:], raw))
        return found, count, None

    def _reading(self) -> Reading:
        self._reads += 1
        if self._reader is None or self._reads > _READS:
            self.release()
            self._reader = self._begin()
        return self._reader

    def _begin(self, *, is_checked: bool = True) -> Reading:
        below = self._environment.read()
        if is_checked:
            self._check(below)
        return below if self.above is None else LayeredReading(self.above.read(), below)

    @contextmanager
    def reading(self, *, is_checked: bool = True) -> Generator[Reading]:
        """Read apart from other readers.

        Args:
            is_checked: Make sure that the version has not moved.

        Raises:
            VersionMovedError: The version moved to where the caller is not.
        """
        reading = self._begin(is_checked=is_checked)
        try:
            yield reading
        finally:
            reading.abort()

    def _check(self, transaction: lmdb.Transaction) -> None:
        """Make sure that a transaction does not read state that is newer than the caller's memory."""
        position = _position_in(transaction, self._environment)
        # A version without a position is only known to the store that fills it.
        if position not in self.passed and (position, self.position) != (NOWHERE, NOWHERE):
            raise VersionMovedError(position)

    def release(self) -> None:
        """End the read transaction, so that old pages can be used again."""
        self._reads = 0
        if self._reader is not None:
            self._reader.abort()
            self._reader = None

    # ---------------------------------------------------------------------------------------------------- writing

    def move(
        self, passed: list[Position], panes: list[Pane], timers: list[Timers], run_id: str, memory_bytes: int
    ) -> None:
        """Write all pending changes, those of the layer above first, and move to the last position passed.

        Nothing is written when another process already moved the version there. Where it moved the version part of the
        way, the changes include some that are already written: writing them again changes nothing.

        LMDB keeps each page that a transaction changes in memory. So many changes, and those of a large version, are
        written in several transactions, and until the last one the version has no position: a process that ends
        meanwhile leaves a version that is not used again.

        Args:
            passed: The positions from the version's to the caller's; empty to leave the version without a position.
            panes: All panes in memory.
            timers: All timers in memory.
            run_id: The run that moves the version.
            memory_bytes: The memory of the state; a quarter of it may be changed pages.

        Raises:
            VersionMovedError: The version is at a position that the caller did not pass.
        """
        self.release()
        self.passed = passed
        is_written = False
        while not is_written:
            with self._environment.read() as transaction:
                self._check(transaction)
                self._read_directory(transaction)
                size = transaction.stat(self._environment.entries)
            if passed and self.position == passed[-1]:
                return
            most = self._most_changes(int(size["leaf_pages"]) * int(size["psize"]), memory_bytes)
            is_written = self._write(self._parts(panes, timers), most, run_id)

    def _most_changes(self, version_bytes: int, memory_bytes: int) -> int:
        """Return how many changes a transaction may take: each may change another page."""
        if self.above is None and version_bytes <= min(_MANY_PAGES * _PAGE_BYTES, memory_bytes // 4):
            return sys.maxsize
        return min(_MOST_CHANGES, max(_FEWEST_CHANGES, memory_bytes // 4 // _PAGE_BYTES))

    def _write(self, parts: Iterator[Part], most: int, run_id: str) -> bool:
        """Write parts in transactions of so many changes; return False where another process moved the version."""
        ahead: list[Part] = []
        is_last = False
        while not is_last:
            room = most - sum(map(len, ahead))
            while room > 0 and (part := next(parts, None)) is not None:
                ahead.append(part)
                room -= len(part)
            progress = self._environment.write(partial(self._write_some, ahead, most, run_id, no_more=room > 0))
            if progress is None:
                return False
            for part, more in zip(ahead, progress.more_entries, strict=False):
                part.record.entries += more
            del ahead[: progress.finished]
            self.meta = progress.meta
            is_last = room > 0 and not ahead
        self._forget_empty()
        return True

    def _write_some(
        self, ahead: list[Part], most: int, run_id: str, transaction: lmdb.Transaction, *, no_more: bool
    ) -> Progress | None:
        """Write parts until there are enough changes; return None where another process moved the version.

        What is in memory stays as it is: the transaction may be repeated.
        """
        if _position_in(transaction, self._environment) != self.position:
            return None
        finished = written = 0
        more_entries: list[int] = []
        counted: dict[int, PaneMeta] = {}
        before = int(transaction.stat(self._environment.entries)["entries"])
        for part in ahead:
            if written >= most:
                break
            count, is_finished = part.write(transaction, most - written)
            after = int(transaction.stat(self._environment.entries)["entries"])
            record = counted.get(part.record.pane_id, part.record)
            counted[record.pane_id] = msgspec.structs.replace(record, entries=record.entries + after - before)
            more_entries.append(after - before)
            before, written, finished = after, written + count, finished + is_finished
        for record in counted.values():
            key = PANE_ID.pack(record.pane_id)
            if record.entries:
                transaction.put(key, msgspec.msgpack.encode(record), db=self._environment.meta)
            else:
                transaction.delete(key, db=self._environment.meta)
        meta = self._meta_after(run_id, is_last=no_more and finished == len(ahead))
        transaction.put(_VERSION_KEY, msgspec.msgpack.encode(meta), db=self._environment.meta)
        return Progress(finished, more_entries, meta)

    def _meta_after(self, run_id: str, *, is_last: bool) -> VersionMeta:
        """Return the metadata after a transaction of a move."""
        passed, meta = self.passed, self.meta
        history = [*meta.history, *(position for position in passed if position not in meta.history)][-_HISTORY:]
        position = passed[-1] if passed and is_last else NOWHERE
        return msgspec.structs.replace(meta, position=position, run_id=run_id, history=history)

    def _forget_empty(self) -> None:
        self.panes = {name: record for name, record in self.panes.items() if record.entries}

    def _lives_otherwise(self, pane: Pane) -> bool:
        """Return whether the time to live of a stored pane has begun or ended since the pane was written."""
        record = self.panes.get((pane.table.name, pane.namespace, False))
        return record is not None and record.since != pane.table.life.since

    def _parts(self, panes: list[Pane], timers: list[Timers]) -> Iterator[Part]:
        """Iterate what has to be written."""
        if self.above is not None:
            dropped = {(pane.table.name, pane.namespace, False) for pane in panes if pane.masked}
            yield from self._parts_above(self.above, dropped)
        for pane in panes:
            cleared = pane.subs is not None and pane.subs.cleared
            if pane.masked or pane.pending or cleared or self._lives_otherwise(pane):
                yield from self._parts_of(pane)
        for domain in timers:
            if domain.pending:
                record = self._record(domain.name, (), is_timers=True)
                yield from parts_of_rows(record, iter(sorted(self._timer_changes(record, domain))))

    def _parts_above(self, above: EpochLayer, dropped: set[PaneName]) -> Iterator[Part]:
        """Iterate what the layer has, but for panes that were dropped since."""
        for name, held in above.panes.items():
            if name not in dropped:
                record = self._record(name[0], name[1], is_timers=held.is_timers)
                record.kind, record.keep_keys = held.kind, held.keep_keys
                record.since = held.since
                yield from parts_of_rows(record, above.pairs(held, record.pane_id))

    def _parts_of(self, pane: Pane) -> Iterator[Part]:
        table = pane.table
        record = self._record(table.name, pane.namespace, is_timers=False)
        record.kind, record.keep_keys = table.kind, table.keep_keys
        record.since = table.life.since
        if pane.masked and record.entries:
            yield DeletedRange(record, PANE_ID.pack(record.pane_id))
        for owner in pane.subs.cleared if pane.subs is not None else ():
            yield DeletedRange(record, locate_owner(record.pane_id, owner, self._max_parallelism))
        # Almost the order of the stored keys: neighbours share pages. Sorting the stored keys takes four times as long.
        pending = _sorted(pane.pending)
        if not record.entries and self.above is None:  # nothing is stored that could be deleted
            pending = [address for address in pending if pane.hot[address] is not ABSENT]
        yield from parts_of_rows(record, changes(record.pane_id, pane, pending, self._max_parallelism))

    def _timer_changes(self, record: PaneMeta, domain: Timers) -> Iterator[tuple[bytes, bytes | None]]:
        for row, is_set in domain.pending.items():
            original = domain.original(row) if is_set else None
            key, raw = timer_row(record.pane_id, row, original, self._max_parallelism)
            yield key, raw if is_set else None

    def _record(self, name: str, namespace: Namespace, *, is_timers: bool) -> PaneMeta:
        record = self.panes.get((name, namespace, is_timers))
        if record is None:
            kind = TIMERS if is_timers else ""
            record = PaneMeta(self.meta.next_pane, name, namespace, kind, False, 0)
            self.meta.next_pane += 1
            self.panes[name, namespace, is_timers] = record
        return record


def _position_in(transaction: lmdb.Transaction, environment: LmdbEnvironment) -> Position:
    raw = transaction.get(_VERSION_KEY, db=environment.meta)
    return NOWHERE if raw is None else msgpack_decoder(VersionMeta).decode(raw).position


def _behind(prefix: bytes) -> bytes:
    """Return the smallest key that is greater than all keys with a prefix."""
    last = len(prefix.rstrip(b"\xff")) - 1
    return prefix[:last] + bytes((prefix[last] + 1,))


def _sorted(addresses: set[Address]) -> list[Address]:
    try:
        return sorted(addresses)  # pyright: ignore[reportArgumentType] - most often they are of one type
    except TypeError:
        return sorted(addresses, key=lambda address: encode_normal(key_at(address)))

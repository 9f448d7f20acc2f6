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
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from penstock._engine.protocol.decoders import msgpack_decoder
from penstock._engine.protocol.keys import encode_normal
from penstock._engine.state.local.entries import PANE_ID, changes, locate_owner
from penstock._engine.state.local.moves import DeletedRange, PaneMeta, Part, Progress, VersionMeta, parts_of_rows
from penstock._engine.state.local.readings import PlainReading
from penstock._engine.state.local.timer_rows import timer_row
from penstock._engine.state.rows import TIMERS, Namespace, key_at
from penstock._engine.state.table import ABSENT, Pane

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import lmdb

    from penstock._engine.state.local.environment import LmdbEnvironment
    from penstock._engine.state.local.lineage import Position
    from penstock._engine.state.local.moves import PaneName
    from penstock._engine.state.local.overlay import Overlay
    from penstock._engine.state.local.readings import Reading
    from penstock._engine.state.rows import Address
    from penstock._engine.state.timers import Timers

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

    def read(self, passed: Collection[Position] | None) -> Reading:
        """Begin to read.

        Args:
            passed: The positions at which the version may be: no read may find state that is newer than the memory
                of the caller. None for any.

        Raises:
            VersionMovedError: The version is elsewhere.
        """
        transaction = self._environment.read()
        if passed is not None:
            self._check(transaction, passed)
        return PlainReading(transaction)

    def _check(self, transaction: lmdb.Transaction, passed: Collection[Position]) -> None:
        position = _position_in(transaction, self._environment)
        # A version without a position is only known to the store that fills it.
        if position not in passed and (position, self.position) != (NOWHERE, NOWHERE):
            raise VersionMovedError(position)

    # ---------------------------------------------------------------------------------------------------- writing

    def move(
        self,
        passed: Sequence[Position],
        panes: Sequence[Pane],
        timers: Sequence[Timers],
        overlay: Overlay | None,
        *,
        run_id: str,
        memory_bytes: int,
    ) -> None:
        """Write all pending changes, those of an overlay first, and move to the last position passed.

        Nothing is written when another process already moved the version there. Where it moved the version part of the
        way, the changes include some that are already written: writing them again changes nothing.

        LMDB keeps each page that a transaction changes in memory. So many changes, and those of a large version, are
        written in several transactions, and until the last one the version has no position: a process that ends
        meanwhile leaves a version that is not used again.

        Args:
            passed: The positions from the version's to the caller's; empty to leave the version without a position.
            panes: All panes in memory.
            timers: All timers in memory.
            overlay: Changes that have left memory.
            run_id: The run that moves the version.
            memory_bytes: The memory of the state; a quarter of it may be changed pages.

        Raises:
            VersionMovedError: The version is at a position that the caller did not pass.
        """
        is_written = False
        while not is_written:
            with self._environment.read() as transaction:
                self._check(transaction, passed)
                self._read_directory(transaction)
                size = transaction.stat(self._environment.entries)
            if passed and self.position == passed[-1]:
                return
            version_bytes = int(size["leaf_pages"]) * int(size["psize"])
            most = _most_changes(version_bytes, memory_bytes, is_spilled=overlay is not None)
            is_written = self._write(self._parts(panes, timers, overlay), passed, most, run_id)

    def _write(self, parts: Iterator[Part], passed: Sequence[Position], most: int, run_id: str) -> bool:
        """Write parts in transactions of so many changes; return False where another process moved the version."""
        ahead: list[Part] = []
        is_last = False
        while not is_last:
            left = most - sum(map(len, ahead))
            while left > 0 and (part := next(parts, None)) is not None:
                ahead.append(part)
                left -= len(part)
            meta = self._meta_after(passed, run_id)
            progress = self._environment.write(partial(self._write_some, ahead, most, meta, no_more=left > 0))
            if progress is None:
                return False
            for part, more in zip(ahead, progress.more_entries, strict=False):
                part.record.entries += more
            del ahead[: progress.finished]
            self.meta = progress.meta
            is_last = left > 0 and not ahead
        self._forget_empty()
        return True

    def _write_some(
        self, ahead: list[Part], most: int, meta: VersionMeta, transaction: lmdb.Transaction, *, no_more: bool
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
        if not no_more or finished < len(ahead):
            meta = msgspec.structs.replace(meta, position=NOWHERE)
        transaction.put(_VERSION_KEY, msgspec.msgpack.encode(meta), db=self._environment.meta)
        return Progress(finished, more_entries, meta)

    def _meta_after(self, passed: Sequence[Position], run_id: str) -> VersionMeta:
        """Return the metadata after the last transaction of a move."""
        meta = self.meta
        history = [*meta.history, *(position for position in passed if position not in meta.history)][-_HISTORY:]
        position = passed[-1] if passed else NOWHERE
        return msgspec.structs.replace(meta, position=position, run_id=run_id, history=history)

    def _forget_empty(self) -> None:
        self.panes = {name: record for name, record in self.panes.items() if record.entries}

    def _lives_otherwise(self, pane: Pane) -> bool:
        """Return whether the time to live of a stored pane has begun or ended since the pane was written."""
        record = self.panes.get((pane.table.name, pane.namespace, False))
        return record is not None and record.since != pane.table.life.since

    def _parts(self, panes: Sequence[Pane], timers: Sequence[Timers], overlay: Overlay | None) -> Iterator[Part]:
        """Iterate what has to be written."""
        if overlay is not None:
            dropped = {(pane.table.name, pane.namespace, False) for pane in panes if pane.masked}
            yield from self._parts_above(overlay, dropped)
        for pane in panes:
            cleared = pane.subs is not None and pane.subs.cleared
            if pane.masked or pane.pending or cleared or self._lives_otherwise(pane):
                yield from self._parts_of(pane, may_be_above=overlay is not None)
        for domain in timers:
            if domain.pending:
                record = self._record(domain.name, (), is_timers=True)
                yield from parts_of_rows(record, iter(sorted(self._timer_changes(record, domain))))

    def _parts_above(self, overlay: Overlay, dropped: set[PaneName]) -> Iterator[Part]:
        """Iterate what the overlay has, but for panes that were dropped since."""
        for name, held in overlay.panes.items():
            if name not in dropped:
                record = self._record(name[0], name[1], is_timers=held.is_timers)
                record.kind, record.keep_keys = held.kind, held.keep_keys
                record.since = held.since
                yield from parts_of_rows(record, overlay.pairs(held, record.pane_id))

    def _parts_of(self, pane: Pane, *, may_be_above: bool) -> Iterator[Part]:
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
        if not record.entries and not may_be_above:  # nothing is stored that could be deleted
            pending = [address for address in pending if pane.hot[address] is not ABSENT]
        yield from parts_of_rows(record, changes(record.pane_id, pane, pending, self._max_parallelism))

    def _timer_changes(self, record: PaneMeta, domain: Timers) -> Iterator[tuple[bytes, bytes | None]]:
        for row, is_set in domain.pending.items():
            original = domain.in_memory.original(row) if is_set else None
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


def _most_changes(version_bytes: int, memory_bytes: int, *, is_spilled: bool) -> int:
    """Return how many changes a transaction may take: each may change another page."""
    if not is_spilled and version_bytes <= min(_MANY_PAGES * _PAGE_BYTES, memory_bytes // 4):
        return sys.maxsize
    return min(_MOST_CHANGES, max(_FEWEST_CHANGES, memory_bytes // 4 // _PAGE_BYTES))


def _position_in(transaction: lmdb.Transaction, environment: LmdbEnvironment) -> Position:
    raw = transaction.get(_VERSION_KEY, db=environment.meta)
    return NOWHERE if raw is None else msgpack_decoder(VersionMeta).decode(raw).position


def _sorted(addresses: set[Address]) -> list[Address]:
    try:
        return sorted(addresses)  # pyright: ignore[reportArgumentType] - most often they are of one type
    except TypeError:
        return sorted(addresses, key=lambda address: encode_normal(key_at(address)))

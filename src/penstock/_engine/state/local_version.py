"""The committed version of keyed state in an LMDB environment: its layout, and how it moves forward.

    meta      "version"   the position of the contents, see `VersionMeta`
              pane id     one `PaneMeta` per pane
    entries   pane id, key group, address   a row, see `entries`; a timer, see `timer_rows`

A pane is one range of keys, which is counted, iterated and dropped as a whole. A version only moves forward along its
lineage, and the write transaction that moves it checks its position: the first process moves it, the others find it
moved.
"""

from __future__ import annotations

import shutil
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

import lmdb
import msgspec

from penstock._engine.protocol.decoders import msgpack_decoder
from penstock._engine.protocol.keys import encode_normal
from penstock._engine.state.entries import (
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
from penstock._engine.state.environment import LmdbEnvironment, not_usable, open_environment
from penstock._engine.state.rows import TIMERS, Namespace, key_at
from penstock._engine.state.table import ABSENT, MISSING, Pane
from penstock._engine.state.timer_rows import original_in, timer_name, timer_row, timers_behind, timers_by_group

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from pathlib import Path

    from penstock._engine.state.lineage import Position
    from penstock._engine.state.rows import Address, Composite, Owner, Row
    from penstock._engine.state.timers import StoredTimer, Timers

_LAYOUT: Final = 4
_VERSION_KEY: Final = b"version"
#: The position of a version that holds no state yet.
NOWHERE: Final = (-1, -1)
#: Number of passed positions that a version remembers: a task that needs one of them is outdated.
_HISTORY: Final = 64

#: Entries written in one call: bounds the memory of the call.
_BATCH: Final = 1 << 15
#: Reads after which a read transaction is renewed.
_READS: Final = 1 << 12
#: Rows of a key that are read at once: between two reads no transaction stays open while the user's function runs.
_SCAN: Final = 1 << 10


class VersionMeta(msgspec.Struct):
    """The metadata of a version."""

    layout: int
    key_groups: tuple[int, int]
    max_parallelism: int
    #: `NOWHERE` while a restore fills the version: no other process can use it.
    position: tuple[int, int]
    #: Positions that the version has passed, oldest first.
    history: list[tuple[int, int]]
    next_pane: int
    #: The run that moved the version last.
    run_id: str = ""


class PaneMeta(msgspec.Struct, array_like=True):
    """The metadata of one pane, or of the timers of one domain."""

    pane_id: int
    name: str
    namespace: tuple[int, ...]
    kind: str
    keep_keys: bool
    old_keys: bool
    entries: int
    #: The time from which the rows of the table expire, see `time_to_live`.
    since: int | None = None

    @property
    def is_timers(self) -> bool:
        return self.kind == TIMERS


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
        self._reader: lmdb.Transaction | None = None
        self._reads = 0
        #: Positions that the caller's memory has passed: the version may move to any of them while it is in use.
        self.passed: list[Position] = []
        self._key_groups = (key_groups.start, key_groups.stop - 1)
        with environment.read() as transaction:
            self._read_directory(transaction)

    @property
    def position(self) -> Position:
        """The position when it was last read; `NOWHERE` while a restore fills the version."""
        return self.meta.position

    def _read_directory(self, transaction: lmdb.Transaction) -> None:
        self.meta = VersionMeta(_LAYOUT, self._key_groups, self._max_parallelism, NOWHERE, [], 1)
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
        with self._environment.read() as transaction:
            self._check(transaction)
            for key, raw in _from(transaction, prefix):
                if not key.startswith(prefix):
                    break
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
            under = takewhile(lambda pair: pair[0].startswith(prefix), _from(self._reading(), start))
            found = list(islice(under, _SCAN))
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
            key, raw = next(_from(self._reading(), start), (b"", b""))
            if not key.startswith(prefix):
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
        with self._environment.read() as transaction:
            self._check(transaction)
            yield from timers_behind(transaction, pane_id, place)

    def timers_by_group(self, pane_id: int) -> Iterator[tuple[int, Composite, Any]]:
        """Iterate the timers of a pane by ascending key group, as (key group, row, original).

        Raises:
            VersionMovedError: The version moved to where the caller is not.
        """
        with self._environment.read() as transaction:
            self._check(transaction)
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
        for key, raw in _from(self._reading(), prefix + start):
            if not key.startswith(prefix):
                break
            if count == most:
                return found, count, key[len(prefix) :]
            count += 1
            if over(stamp_of(raw)):
                found.append(address_of(key[6:], raw))
        return found, count, None

    def _reading(self) -> lmdb.Transaction:
        self._reads += 1
        if self._reader is None or self._reads > _READS:
            self.release()
            self._reader = self._environment.read()
            self._check(self._reader)
        return self._reader

    def _check(self, transaction: lmdb.Transaction) -> None:
        """Make sure that a transaction does not read state that is newer than the caller's memory."""
        raw = transaction.get(_VERSION_KEY, db=self._environment.meta)
        position = NOWHERE if raw is None else msgpack_decoder(VersionMeta).decode(raw).position
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

    def move(self, passed: list[Position], panes: list[Pane], timers: list[Timers], run_id: str) -> None:
        """Write all pending changes and move to the last position passed, in one transaction.

        Nothing is written when another process already moved the version there. Where it moved the version part of the
        way, the changes include some that are already written: writing them again changes nothing.

        Args:
            passed: The positions from the version's to the caller's; empty to leave the version without a position.
            panes: All panes in memory.
            timers: All timers in memory.
            run_id: The run that moves the version.

        Raises:
            VersionMovedError: The version is at a position that the caller did not pass.
        """
        self.release()
        self.passed = passed
        self._environment.write(lambda transaction: self._move(transaction, panes, timers, run_id))

    def _move(self, transaction: lmdb.Transaction, panes: list[Pane], timers: list[Timers], run_id: str) -> None:
        passed = self.passed
        self._check(transaction)
        self._read_directory(transaction)
        if passed and self.position == passed[-1]:
            return
        for pane in panes:
            cleared = pane.subs is not None and pane.subs.cleared
            if pane.masked or pane.pending or cleared or self._lives_otherwise(pane):
                self._write_pane(transaction, pane)
        for domain in timers:
            if domain.pending:
                self._write_timers(transaction, domain)
        meta = self.meta
        meta.position, meta.run_id = passed[-1] if passed else NOWHERE, run_id
        meta.history = [*meta.history, *(position for position in passed if position not in meta.history)][-_HISTORY:]
        transaction.put(_VERSION_KEY, msgspec.msgpack.encode(meta), db=self._environment.meta)

    def _lives_otherwise(self, pane: Pane) -> bool:
        """Return whether the time to live of a stored pane has begun or ended since the pane was written."""
        record = self.panes.get((pane.table.name, pane.namespace, False))
        return record is not None and record.since != pane.table.life.since

    def _write_pane(self, transaction: lmdb.Transaction, pane: Pane) -> None:
        table = pane.table
        record = self._record(table.name, pane.namespace, is_timers=False)
        record.kind, record.keep_keys, record.old_keys = table.kind, table.keep_keys, table.old_keys
        record.since = table.life.since
        if pane.masked:
            self._delete_all(transaction, record)
        for owner in pane.subs.cleared if pane.subs is not None else ():
            record.entries -= _delete_from(transaction, locate_owner(record.pane_id, owner, self._max_parallelism))
        # Almost the order of the stored keys: neighbours share pages. Sorting the stored keys takes four times as long.
        pending = _sorted(pane.pending)
        self._write_entries(transaction, record, changes(record.pane_id, pane, pending, self._max_parallelism))

    def _write_timers(self, transaction: lmdb.Transaction, domain: Timers) -> None:
        record = self._record(domain.name, (), is_timers=True)

        def change(item: tuple[Composite, bool]) -> tuple[bytes, bytes | None]:
            row, is_set = item
            original = domain.original(row) if is_set else None
            key, raw = timer_row(record.pane_id, row, original, self._max_parallelism)
            return key, raw if is_set else None

        self._write_entries(transaction, record, iter(sorted(map(change, domain.pending.items()))))

    def _write_entries(
        self, transaction: lmdb.Transaction, record: PaneMeta, changes: Iterator[tuple[bytes, bytes | None]]
    ) -> None:
        entries = self._environment.entries
        before = int(transaction.stat(entries)["entries"])
        while batch := list(islice(changes, _BATCH)):
            for key, raw in batch:
                if raw is None:
                    transaction.delete(key)
            transaction.cursor().putmulti([(key, raw) for key, raw in batch if raw is not None])
        record.entries += int(transaction.stat(entries)["entries"]) - before
        key = PANE_ID.pack(record.pane_id)
        if record.entries:
            transaction.put(key, msgspec.msgpack.encode(record), db=self._environment.meta)
        else:
            transaction.delete(key, db=self._environment.meta)
            del self.panes[record.name, record.namespace, record.is_timers]

    def _record(self, name: str, namespace: Namespace, *, is_timers: bool) -> PaneMeta:
        record = self.panes.get((name, namespace, is_timers))
        if record is None:
            kind = TIMERS if is_timers else ""
            record = PaneMeta(self.meta.next_pane, name, namespace, kind, False, False, 0)
            self.meta.next_pane += 1
            self.panes[name, namespace, is_timers] = record
        return record

    @staticmethod
    def _delete_all(transaction: lmdb.Transaction, record: PaneMeta) -> None:
        if record.entries:
            _delete_from(transaction, PANE_ID.pack(record.pane_id))
        record.entries = 0


def _from(transaction: lmdb.Transaction, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Iterate the stored pairs from a key on."""
    cursor = transaction.cursor()
    return cast("Iterator[tuple[bytes, bytes]]", iter(cursor) if cursor.set_range(start) else iter(()))


def _behind(prefix: bytes) -> bytes:
    """Return the smallest key that is greater than all keys with a prefix."""
    last = len(prefix.rstrip(b"\xff")) - 1
    return prefix[:last] + bytes((prefix[last] + 1,))


def _delete_from(transaction: lmdb.Transaction, prefix: bytes) -> int:
    """Delete all rows whose keys begin with a prefix, and return their number."""
    cursor, count = transaction.cursor(), 0
    if cursor.set_range(prefix):
        while cast("bytes", cursor.key()).startswith(prefix) and cursor.delete():
            count += 1
    return count


def find_versions(directory: Path, key_groups: range, max_parallelism: int) -> list[LocalVersion]:
    """Return the versions in a subtask's directory that hold a committed state of these key groups."""
    versions: list[LocalVersion] = []
    for path in directory.glob("version-*"):
        try:
            version = LocalVersion(open_environment(path), key_groups, max_parallelism)
        except (lmdb.Error, OSError, msgspec.MsgspecError):
            continue  # damaged, or being removed: the checkpoint has the whole state
        meta = version.meta
        own = (_LAYOUT, (key_groups.start, key_groups.stop - 1), max_parallelism)
        if meta.position != NOWHERE and (meta.layout, meta.key_groups, meta.max_parallelism) == own:
            versions.append(version)
    return versions


def new_version(directory: Path, key_groups: range, max_parallelism: int) -> LocalVersion:
    """Create an empty version, and remove old versions except the last used.

    A process that still uses a removed version continues in the unlinked files.

    Raises:
        LocalStateError: The disk refuses the write.
    """
    old = sorted(directory.glob("version-*"), key=_last_use)
    for path in old[:-1]:
        shutil.rmtree(path, ignore_errors=True)
    path = directory / f"version-{uuid4().hex[:16]}"
    try:
        path.mkdir(mode=0o700)
        environment = open_environment(path)
    except (lmdb.Error, OSError) as error:
        raise not_usable(directory, error) from error
    return LocalVersion(environment, key_groups, max_parallelism)


def _last_use(path: Path) -> float:
    try:
        return (path / "data.mdb").stat().st_mtime
    except OSError:
        return 0.0


def _sorted(addresses: set[Address]) -> list[Address]:
    try:
        return sorted(addresses)  # pyright: ignore[reportArgumentType] - most often they are of one type
    except TypeError:
        return sorted(addresses, key=lambda address: encode_normal(key_at(address)))

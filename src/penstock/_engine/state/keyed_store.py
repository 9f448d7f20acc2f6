"""Keyed state over a committed version of it in a local LMDB environment.

Only `catch_up` writes to the local version, and only what is committed: an epoch that never happens leaves nothing to
undo, a process that is killed has broken nothing. The same subtask's next epoch may run in another process of the host;
a store that was left behind takes the deltas that it missed. Two processes may have one version open: the write
transaction checks which of them is behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.state.environment import private_directory
from penstock._engine.state.local_version import NOWHERE, LocalVersion, VersionMovedError, find_versions, new_version
from penstock._engine.state.memory_store import MemoryStore, entry_bytes
from penstock._engine.state.table import ABSENT, Pane
from penstock._engine.state.trust import ALL_CLASSES
from penstock.errors import StaleAttemptError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from pathlib import Path

    from penstock._engine.protocol.state_handle import StateHandle
    from penstock._engine.state.chunk_columns import Chunk
    from penstock._engine.state.lineage import LineageStep, Position
    from penstock._engine.state.rows import Address, Composite, Owner, Row
    from penstock._engine.state.trust import AllowedClasses

#: Deltas that may wait in memory for the local version: a store that starts from there has to load them all.
_MAX_PENDING_DELTAS: Final = 8
#: What a row with a sub-key takes in memory beside what any row takes: its address, and its place in an index.
_COMPOSITE_BYTES: Final = 250
#: What a stamp takes.
_STAMP_BYTES: Final = 120


class KeyedStore(MemoryStore):
    """Keyed state over a local directory.

    Args:
        directory: The subtask's own directory on a local disk; made when missing.
        key_groups: The key groups of this subtask.
        max_parallelism: The number of all key groups.
        read: Reads the file of a handle.
        memory_bytes: What entries may take in memory, by estimate: beyond it those that the local version has are let
            go, between batches. Changes of the running epoch stay in memory whatever they take, and what a batch reads
            until it is done: some thousand records with the states of their keys.
        operator_uid: The operator, for errors.
        subtask_index: The subtask, for errors.
        run_id: The start of the job that this is. A later one may go back to an older checkpoint, or begin anew.
        classes: What the values in files may be of.

    Raises:
        LocalStateError: The directory is not this user's own, or not on a local disk.
    """

    def __init__(
        self,
        directory: Path,
        key_groups: range,
        max_parallelism: int,
        read: Callable[[StateHandle], bytes],
        memory_bytes: int,
        *,
        operator_uid: str = "",
        subtask_index: int = 0,
        run_id: str = "",
        classes: AllowedClasses = ALL_CLASSES,
    ) -> None:
        super().__init__(key_groups, max_parallelism, read, classes)
        self._directory = private_directory(directory)
        self._memory_bytes = memory_bytes
        self._owner = operator_uid, subtask_index
        self._run_id = run_id
        self._local: LocalVersion | None = None
        #: Positions from the version below to the one in memory: the version may move among them.
        self._passed: list[Position] = []
        #: Bytes that may be loaded from the local version until memory counts as full.
        self._room = 0
        #: Entries taken from files since the local version last moved.
        self._absorbed = 0

    # ---------------------------------------------------------------------------------------------- the epoch's start

    def _start_over(self, way: list[LineageStep], places: dict[Position, int]) -> int:
        super()._start_over(way, places)
        self._local, self._passed = None, []
        best = -1
        for version in self._versions():
            place = places.get(version.position, -1)
            if place > best:
                best, self._local = place, version
            elif place < 0 and version.meta.run_id == self._run_id and way[-1].position in version.meta.history:
                raise self._stale(version.position, way[-1].position)
        if self._local is not None:
            self._arrived_at(way[best].position)
            self._attach(self._local)
            try:
                self._load_timers(self._local)
            except VersionMovedError:  # by another process, since its position was read
                return self._start_over(way, places)
        return best

    def _settle_name(self, name: Position) -> None:
        # The name that the local version gets is the one that lineages will have.
        self._passed.remove(name)
        self._passed.append(name)
        super()._settle_name(name)

    def _take(self, step: LineageStep, places: dict[Position, int]) -> None:
        super()._take(step, places)
        if self._pending_bytes() > self._memory_bytes // 2 and not self._is_overtaken(step, places):
            try:
                self._move_local()
            except StaleAttemptError:
                if not self._is_overtaken(step, places):
                    raise

    def _is_overtaken(self, step: LineageStep, places: dict[Position, int]) -> bool:
        """Return whether another process moved the local version to where this store only arrives later."""
        return any(places.get(version.position, -1) > places[step.position] for version in self._versions())

    def _absorb(self, chunk: Chunk) -> None:
        super()._absorb(chunk)
        self._absorbed += len(chunk.keys)
        if not self._passed and self._absorbed * self._entry_bytes > self._memory_bytes // 2:
            self._move_local()  # a snapshot that is larger than memory goes through it in parts

    def _arrived_at(self, position: Position) -> None:
        super()._arrived_at(position)
        self._passed.append(position)
        if self._local is not None:
            self._local.release()

    def _caught_up(self, places: dict[Position, int]) -> None:
        if (
            len(self._passed) > _MAX_PENDING_DELTAS + 1
            or self._pending_bytes() > self._memory_bytes // 2
            # A chain was cut: only this store can still use its local version, until it moves.
            or (self._local is not None and self._local.position not in places)
        ):
            self._move_local()
        self._measure_room()

    # ------------------------------------------------------------------------------------------------ the local version

    def _move_local(self) -> None:
        """Write what is pending to the local version; the pending entries are then free to leave memory."""
        local = self._local = self._furthest()
        try:
            local.move(self._passed, list(self._panes()), list(self._timers.values()), self._run_id)
        except VersionMovedError as moved:
            raise self._stale(moved.position) from moved
        del self._passed[:-1]
        self._absorbed = 0
        for timers in self._timers.values():
            timers.pending.clear()
        for pane in self._panes():
            pane.has_moved()
        self._attach(local)
        self._measure_room()

    def _furthest(self) -> LocalVersion:
        """Return the version to move: the furthest of those that stand where this store has passed, or a new one."""
        if self._passed:
            places = {position: place for place, position in enumerate(self._passed)}
            usable = [version for version in self._versions() if version.position in places]
            if usable:
                return max(usable, key=lambda version: places[version.position])
        # Made again where it was cleaned away under a live job.
        return self._local or new_version(private_directory(self._directory), self._key_groups, self._max_parallelism)

    def _versions(self) -> list[LocalVersion]:
        return find_versions(self._directory, self._key_groups, self._max_parallelism)

    def _attach(self, local: LocalVersion) -> None:
        """Make the panes look at a version."""
        local.passed = self._passed
        for pane in self._panes():
            pane.stored = 0
        for record in local.panes.values():
            if not record.is_timers:
                table = self.table(record.name, kind=record.kind, keep_keys=record.keep_keys)
                table.old_keys = table.old_keys or record.old_keys
                table.life.since = record.since
                table.pane(record.namespace).stored = record.pane_id
        for table in self._tables.values():
            for pane in table.panes.values():
                if not pane.stored and ABSENT in pane.hot.values():  # then nothing has to be known as absent
                    pane.keep([address for address, value in pane.hot.items() if value is not ABSENT])
            table.prune()

    def _load_timers(self, local: LocalVersion) -> None:
        for record in local.panes.values():
            if record.is_timers:
                timers = self.timers(record.name)
                for _, (address, _, original, _) in local.scan(record.pane_id, ()):
                    timers.apply(cast("Composite", address), original, is_set=True)
                timers.pending.clear()

    def fetch(self, pane: Pane, address: Address) -> Any:
        """Read a row from the local version into memory, also when that is full: see `make_room`."""
        subs = pane.subs
        if subs is not None:
            if self._room <= 0:  # such rows are marked as they are written, so clean ones may go within a batch
                _evict_clean(pane)
                self._measure_room()
            if subs.hides(address):
                return ABSENT
        try:
            value, original, stamp, size = cast("LocalVersion", self._local).get(pane.stored, address)
        except VersionMovedError as moved:
            raise self._stale(moved.position) from moved
        self._room -= entry_bytes(size) + (_COMPOSITE_BYTES if subs is not None else 0)
        if value is ABSENT:
            original = stamp = None
        pane.put(address, value, original, stamp)
        return value

    def scan_groups(self, pane: Pane, known: Container[Address]) -> Iterator[tuple[int, Row]]:
        """Iterate a pane's rows in the local version whose addresses are not known, by ascending key group."""
        hides = None if pane.subs is None or not pane.subs.cleared else pane.subs.hides
        try:
            for group, row in cast("LocalVersion", self._local).scan(pane.stored, known):
                if hides is None or not hides(row[0]):
                    yield group, row
        except VersionMovedError as moved:
            raise self._stale(moved.position) from moved

    def scan_under(self, pane: Pane, owner: Owner, known: Container[Address]) -> Iterator[Row]:
        """Iterate a pane's rows of one key and namespace in the local version, bit by bit."""
        try:
            yield from cast("LocalVersion", self._local).scan_under(pane.stored, owner, known)
        except VersionMovedError as moved:
            raise self._stale(moved.position) from moved

    def owners(self, pane: Pane) -> Iterator[Owner]:
        """Iterate the keys and namespaces that have rows of a pane in the local version, bit by bit."""
        try:
            yield from cast("LocalVersion", self._local).owners(pane.stored)
        except VersionMovedError as moved:
            raise self._stale(moved.position) from moved

    # ------------------------------------------------------------------------------------------------------- memory

    def remove_expired(self, *, whole: bool = False) -> None:
        """Remove of what has expired, and let go of the read transaction: the epoch ends."""
        super().remove_expired(whole=whole)
        self.release()

    def stored_over(
        self, pane: Pane, start: bytes, most: int, over: Callable[[int | None], bool]
    ) -> tuple[list[Address], int, bytes | None]:
        """Look at some rows of a pane in the local version: see `CommittedVersion`."""
        try:
            return cast("LocalVersion", self._local).stored_over(pane.stored, start, most, over)
        except VersionMovedError as moved:
            raise self._stale(moved.position) from moved

    def release(self) -> None:
        """Let go of the read transaction; a good thing between blocks of a long epoch."""
        if self._local is not None:
            self._local.release()

    def _pending_bytes(self) -> int:
        pending = sum(self._bytes_of(pane, len(pane.pending)) for pane in self._panes())
        return pending + self._entry_bytes * sum(len(timers.pending) for timers in self._timers.values())

    def _bytes_of(self, pane: Pane, rows: int) -> int:
        """Estimate what so many rows of a pane take in memory."""
        row_bytes = self._entry_bytes + (_STAMP_BYTES if pane.stamps else 0)
        if pane.subs is None:
            return rows * row_bytes
        return (rows + len(pane.subs.cleared)) * (row_bytes + _COMPOSITE_BYTES)

    def make_room(self) -> None:
        """Let all entries go that the local version has too, when memory is full."""
        if self._room <= 0:
            self._evict()

    def _measure_room(self) -> None:
        self._room = self._memory_bytes - sum(self._bytes_of(pane, len(pane.hot)) for pane in self._panes())
        self.make_room()

    def _evict(self) -> None:
        # All clean entries go: no books are kept on single ones.
        kept = sum(self._bytes_of(pane, _evict_clean(pane)) for pane in self._panes())
        # Where dirty entries fill memory there is still some room, or each load would end up here.
        self._room = max(self._memory_bytes - kept, self._memory_bytes // 8)

    def _stale(self, found: Position, wanted: Position | None = None) -> StaleAttemptError:
        uid, subtask_index = self._owner
        checkpoint_id = (wanted or self._passed[-1])[0]
        where = "no checkpoint (it was removed)" if found == NOWHERE else f"checkpoint {found[0]}, attempt {found[1]:x}"
        return StaleAttemptError(uid, subtask_index, checkpoint_id, where)


def _evict_clean(pane: Pane) -> int:
    """Remove what is neither dirty nor pending from a pane's memory; return how much stays."""
    if pane.stored and pane.hot:
        pane.keep([*pane.pending, *pane.dirty])
    return len(pane.hot)

"""Keyed state in memory over its committed version in a local LMDB environment.

Only `catch_up` writes to the local version, and only committed state: a failed epoch leaves nothing to undo, and a
killed process has broken nothing. Where the changes of the running epoch fill the memory, they leave it for a layer of
this store above the local version (`epoch_layer`), and their part of the delta is written. The subtask's next epoch may
run in another process of the host; a store that missed epochs applies their deltas. Two processes may have one version
open: the write transaction checks which of them lags.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.state.files.trust import ALL_CLASSES
from penstock._engine.state.local.epoch_layer import EpochLayer
from penstock._engine.state.local.local_version import NOWHERE, LocalVersion, VersionMovedError
from penstock._engine.state.local.timer_rows import place_before
from penstock._engine.state.local.versions import find_versions, new_version
from penstock._engine.state.memory_store import MemoryStore, entry_bytes
from penstock._engine.state.rows import TIMERS
from penstock._engine.state.table import ABSENT, MISSING, Pane
from penstock._engine.state.timers import Timers
from penstock._engine.storage.local_state import private_directory
from penstock.errors import StaleAttemptError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Iterator
    from pathlib import Path

    from penstock._engine.protocol.state_handle import Lineage, StateHandle
    from penstock._engine.state.files.chunk_columns import Chunk
    from penstock._engine.state.files.trust import AllowedClasses
    from penstock._engine.state.local.lineage import LineageStep, Position
    from penstock._engine.state.rows import Address, Composite, Owner, Row
    from penstock._engine.state.timers import StoredTimer

#: Deltas that may wait in memory for the local version: a store that starts from that version has to load them all.
_MAX_PENDING_DELTAS: Final = 8
#: The additional memory of a row whose address is more than a key: the address, and its place in an index.
_COMPOSITE_BYTES: Final = 250
#: The memory that a stamp takes.
_STAMP_BYTES: Final = 120
#: The memory that a timer takes, and what a change of it takes until it is stored.
_TIMER_BYTES: Final = 300
_TIMER_CHANGE_BYTES: Final = 120
#: The part of the memory that the earliest timers of a domain keep where memory is full, and their least number.
_TIMERS_PART: Final = 4
_FEWEST_TIMERS: Final = 8
#: After so many keys that come from no batch, room is measured.
_TURNS: Final = 1 << 10
#: Changes that take no more than this stay in memory, however little there is.
_FEWEST_CHANGED_BYTES: Final = 1 << 12


class KeyedStore(MemoryStore):
    """Keyed state over a local directory.

    Args:
        directory: The subtask's own directory on a local disk; created when missing.
        key_groups: The key groups of this subtask.
        max_parallelism: The number of all key groups.
        read: Reads the file of a handle.
        memory_bytes: The estimated memory that entries and timers may take. Above it, entries that the local version
            has are evicted between batches, and timers but for the earliest. Where the changes of the running epoch
            take more than half of it, they are written to the disk. What a batch reads and changes stays in memory
            until the batch ends: the states of some thousand keys.
        operator_uid: The operator, for errors.
        subtask_index: The subtask, for errors.
        run_id: The run of the job. A later run may go back to an older checkpoint, or begin without state.
        classes: The classes that values in files may have.

    Raises:
        LocalStateError: The directory does not belong to this user alone, or is not on a local disk.
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
        #: Positions from the local version to the state in memory: the version may move to any of them.
        self._passed: list[Position] = []
        #: Bytes that may be loaded from the local version until memory counts as full.
        self._room = 0
        #: The bytes of the running epoch's changes when the room was last measured.
        self._counted = 0
        #: Keys that may come from no batch until the room is measured again.
        self._turns = _TURNS
        #: Changes that are neither in memory nor in the local version.
        self._layer: EpochLayer | None = None
        #: The estimated memory of what was read from files since the local version last moved.
        self._absorbed = 0

    # ---------------------------------------------------------------------------------------------- the epoch's start

    def catch_up(self, lineage: Lineage) -> None:
        if self._local is not None and self._local.is_lost():
            self._names = []  # what memory lacks is not there any more
        super().catch_up(lineage)

    def _start_over(self, way: list[LineageStep], places: dict[Position, int]) -> int:
        super()._start_over(way, places)
        self._drop_layer()
        self._local, self._passed = None, []
        best = -1
        for version in self._versions():
            place = places.get(version.position, -1)
            if place > best:
                best, self._local = place, version
            elif place < 0 and version.meta.run_id == self._run_id and way[-1].position in version.meta.history:
                raise self._stale(version.position, way[-1].position)
        if self._local is not None:
            self._set_position(way[best].position)
            self._attach(self._local)
            for pane in self._panes():
                pane.whole = not pane.stored
            try:
                for timers in self._timers.values():
                    if timers.stored:
                        timers.begin_at_stored()
            except StaleAttemptError:  # another process moved it since its position was read
                return self._start_over(way, places)
        return best

    def _set_version(self, name: Position) -> None:
        # The local version gets the name that lineages will have.
        self._passed.remove(name)
        self._passed.append(name)
        super()._set_version(name)

    def _take(self, step: LineageStep, places: dict[Position, int]) -> None:
        super()._take(step, places)
        if self._pending_bytes() > self._memory_bytes // 2 and not self._is_overtaken(step, places):
            try:
                self._move_local()
            except StaleAttemptError:
                if not self._is_overtaken(step, places):
                    raise

    def _is_overtaken(self, step: LineageStep, places: dict[Position, int]) -> bool:
        """Return whether another process moved the local version beyond this step."""
        return any(places.get(version.position, -1) > places[step.position] for version in self._versions())

    def _apply_delta(self, chunk: Chunk) -> None:
        super()._apply_delta(chunk)
        if chunk.kind == TIMERS:
            row_bytes = _TIMER_BYTES
        else:
            row_bytes = self._row_bytes(has_stamps=chunk.stamps is not None, is_composite=chunk.is_composite)
        self._absorbed += len(chunk.keys) * row_bytes
        if not self._passed and self._absorbed > self._memory_bytes // 4:
            self._move_local()  # a snapshot that is larger than memory is written in parts
        elif self._absorbed > max(self._memory_bytes // 2, _FEWEST_CHANGED_BYTES):
            self._unload()  # the local version stays where it is: part of a step leads to no position

    def _set_position(self, position: Position) -> None:
        super()._set_position(position)
        self._passed.append(position)
        if self._local is not None:
            self._local.release()

    def _caught_up(self, places: dict[Position, int]) -> None:
        if (
            self._layer is not None
            or len(self._passed) > _MAX_PENDING_DELTAS + 1
            or self._pending_bytes() > self._memory_bytes // 2
            # The lineage was compacted: only this store can still use its local version, until the version moves.
            or (self._local is not None and self._local.position not in places)
        ):
            self._move_local()
        self._measure_room()

    # ------------------------------------------------------------------------------------------------ the local version

    def _move_local(self) -> None:
        """Write pending entries to the local version; they may be evicted afterwards."""
        local = self._local = self._furthest()
        local.above = self._layer
        panes, timers = list(self._panes()), list(self._timers.values())
        try:
            local.move(self._passed, panes, timers, self._run_id, self._memory_bytes)
        except VersionMovedError as moved:
            raise self._stale(moved.position) from moved
        del self._passed[:-1]
        self._drop_layer()
        self._note_stored()
        self._attach(local)
        self._measure_room()

    def _note_stored(self) -> None:
        """Count committed changes as stored, where they may be evicted."""
        self._absorbed = 0
        for timers in self._timers.values():
            timers.has_moved()
        for pane in self._panes():
            pane.has_moved()

    def _furthest(self) -> LocalVersion:
        """Return the version to move: the furthest one at a position that this store has passed, or a new one."""
        if self._passed:
            places = {position: place for place, position in enumerate(self._passed)}
            usable = [version for version in self._versions() if version.position in places]
            if usable:
                return max(usable, key=lambda version: places[version.position])
        # The directory is created again where it was deleted under a live job.
        return self._local or new_version(private_directory(self._directory), self._key_groups, self._max_parallelism)

    def _unload(self) -> None:
        """Write all changes that the local version lacks to the layer above it, and evict them."""
        if self._local is None:
            self._local = self._furthest()
            self._local.passed = self._passed
        if self._layer is None:
            self._layer = self._local.above = EpochLayer(self._directory, self._max_parallelism)
        local, layer = self._local, self._layer
        # While files are read, another process may have moved the version to where they lead. What this store deletes
        # too much then is set again by what it reads next.
        reading = partial(local.reading, is_checked=self._running)
        local.release()
        with self._moved():
            for pane in self._panes():
                if pane.masked or pane.pending or pane.dirty or (pane.subs is not None and pane.subs.cleared):
                    layer.take_pane(pane, local.panes, reading)
                    pane.end_epoch()
        for timers in self._timers.values():
            if timers.pending or timers.journal:
                layer.take_timers(timers, local.panes)
                timers.end_epoch()
        self._note_stored()
        local.release()
        self._evict()

    def _drop_layer(self) -> None:
        if self._layer is not None:
            self._layer.close()
        self._layer = None
        if self._local is not None:
            self._local.release()
            self._local.above = None

    def _versions(self) -> list[LocalVersion]:
        return find_versions(self._directory, self._key_groups, self._max_parallelism)

    def _attach(self, local: LocalVersion) -> None:
        """Attach the panes to a version."""
        local.passed = self._passed
        for pane in self._panes():
            pane.stored = 0
        for timers in self._timers.values():
            timers.stored = 0
        for record in local.panes.values():
            if record.is_timers:
                self.timers(record.name).stored = record.pane_id
            else:
                table = self.table(record.name, kind=record.kind, keep_keys=record.keep_keys)
                if not table.life.was_read:  # else the files that are being read say more
                    table.life.read(record.since, self._range())
                is_new = record.namespace not in table.panes
                pane = table.pane(record.namespace)
                pane.stored, pane.whole = record.pane_id, pane.whole and not is_new
        for table in self._tables.values():
            for pane in table.panes.values():
                if not pane.stored and ABSENT in pane.hot.values():  # then nothing is stored that ABSENT would hide
                    pane.keep([address for address, value in pane.hot.items() if value is not ABSENT])
            table.prune()

    def fetch(self, pane: Pane, address: Address) -> Any:
        """Read a row from the local version into memory, even when memory is full: see `make_room`."""
        subs = pane.subs
        if subs is not None:
            if self._room <= 0:  # rows with sub-keys are dirty once written: clean rows may go
                _evict_clean(pane)
                self._measure_room()
            if subs.hides(address):
                return ABSENT
        local = self._local
        assert local is not None
        try:
            value, original, stamp, size = local.get(pane.stored, address)
        except VersionMovedError as moved:
            raise self._stale(moved.position) from moved
        if subs is None and original is None and stamp is None and type(address) is not tuple:
            pane.hot[address] = value  # as `put` does, without the call: this is the path of most reads
            self._room -= entry_bytes(size)
            return value
        self._room -= entry_bytes(size) + (_COMPOSITE_BYTES if type(address) is tuple else 0)
        pane.put(address, value, original, stamp)
        return value

    def scan_groups(self, pane: Pane, known: Container[Address]) -> Iterator[tuple[int, Row]]:
        """Iterate a pane's rows in the local version by ascending key group, except for known addresses."""
        hides = None if pane.subs is None or not pane.subs.cleared else pane.subs.hides
        with self._moved():
            for group, row in cast("LocalVersion", self._local).scan(pane.stored, known):
                if hides is None or not hides(row[0]):
                    yield group, row

    def scan_under(self, pane: Pane, owner: Owner, known: Container[Address]) -> Iterator[Row]:
        """Iterate a pane's rows of one key and namespace in the local version, in parts."""
        with self._moved():
            yield from cast("LocalVersion", self._local).scan_under(pane.stored, owner, known)

    def owners(self, pane: Pane) -> Iterator[Owner]:
        """Iterate the keys and namespaces that have rows of a pane in the local version, in parts."""
        with self._moved():
            yield from cast("LocalVersion", self._local).owners(pane.stored)

    # ------------------------------------------------------------------------------------------------------- timers

    def _new_timers(self, name: str) -> Timers:
        return Timers(name, self, max(_FEWEST_TIMERS, self._memory_bytes // _TIMERS_PART // _TIMER_BYTES))

    def stored_timer(self, timers: Timers, row: Composite) -> Any:
        """Return (key, None) of a timer in the local version, see `StoredTimers`."""
        if self._local is None or not timers.stored:
            return MISSING
        self._room -= _TIMER_BYTES
        with self._moved():
            return self._local.timer(timers.stored, row)

    def timers_behind(self, timers: Timers, place: bytes) -> Iterator[StoredTimer]:
        """Iterate the timers behind a place in the local version, in the order of time."""
        if self._local is not None and timers.stored:
            with self._moved():
                yield from self._local.timers_behind(timers.stored, place)

    def timers_by_group(self, timers: Timers) -> Iterator[tuple[int, Row]]:
        """Iterate (key group, row) of the timers in the local version that are not in memory."""
        if self._local is None or not timers.stored or timers.are_in_memory:
            return
        with self._moved():
            for group, row, original in self._local.timers_by_group(timers.stored):
                if not timers.hides(row):
                    yield group, (row, None, original, None)

    def timer_place(self, timestamp: int) -> bytes:
        """Return the place before the stored timers of a time."""
        return place_before(timestamp)

    @contextmanager
    def _moved(self) -> Generator[None]:
        """Raise the error for a local version that another process has moved on."""
        try:
            yield
        except VersionMovedError as moved:
            raise self._stale(moved.position) from moved

    # ------------------------------------------------------------------------------------------------------- memory

    def remove_expired(self, *, whole: bool = False) -> None:
        """Remove a share of the expired rows, and end the read transaction: the epoch ends."""
        super().remove_expired(whole=whole)
        self.release()

    def stored_over(
        self, pane: Pane, start: bytes, most: int, over: Callable[[int | None], bool]
    ) -> tuple[list[Address], int, bytes | None]:
        """Look at some rows of a pane in the local version: see `CommittedVersion`."""
        with self._moved():
            return cast("LocalVersion", self._local).stored_over(pane.stored, start, most, over)

    def release(self) -> None:
        """End the read transaction, so that old pages can be used again."""
        if self._local is not None:
            self._local.release()

    def _pending_bytes(self) -> int:
        pending = sum(self._bytes_of(pane, len(pane.pending)) for pane in self._panes())
        changes = sum(len(timers.pending) for timers in self._timers.values())
        return pending + changes * (_TIMER_BYTES + _TIMER_CHANGE_BYTES)

    def _bytes_of(self, pane: Pane, rows: int) -> int:
        """Estimate the memory that a number of rows of a pane takes."""
        cleared = 0 if pane.subs is None else len(pane.subs.cleared)
        row_bytes = self._row_bytes(has_stamps=bool(pane.stamps), is_composite=pane.is_composite)
        return (rows + cleared) * row_bytes

    def _row_bytes(self, *, has_stamps: bool, is_composite: bool) -> int:
        """Estimate the memory that a row takes."""
        return self._entry_bytes + has_stamps * _STAMP_BYTES + is_composite * _COMPOSITE_BYTES

    def make_room(self) -> None:
        """Where memory is full, evict the entries that the disk has, and write the running epoch's changes to it."""
        self._turns = _TURNS
        changed = self._change_bytes()
        if changed > max(self._memory_bytes // 2, _FEWEST_CHANGED_BYTES):
            self._write_changes()
            self._unload()
        elif self._room <= changed - self._counted:
            self._evict()

    def make_some_room(self) -> None:
        self._turns -= 1
        if self._turns <= 0 or self._room <= 0:
            self.make_room()

    def _change_bytes(self) -> int:
        """Estimate the memory of the running epoch's changes."""
        changed = sum(self._bytes_of(pane, len(pane.dirty)) for pane in self._panes() if pane.dirty)
        timers = sum(len(timers.journal) for timers in self._timers.values())
        return changed + timers * (_TIMER_BYTES + _TIMER_CHANGE_BYTES)

    def _measure_room(self) -> None:
        held = sum(self._bytes_of(pane, len(pane.hot)) for pane in self._panes())
        self._counted = self._change_bytes()
        self._room = self._memory_bytes - held - self._timer_bytes()
        if self._room <= 0:
            self._evict()

    def _evict(self) -> None:
        # All clean entries are evicted: the use of single entries is not tracked.
        kept = sum(self._bytes_of(pane, _evict_clean(pane)) for pane in self._panes())
        for timers in self._timers.values():
            timers.trim()
        kept += self._timer_bytes()
        self._counted = self._change_bytes()
        # Some room is left even where dirty entries fill memory, or each load would evict again.
        self._room = max(self._memory_bytes - kept, self._memory_bytes // 8)

    def _timer_bytes(self) -> int:
        """Estimate the memory of the timers, and of their changes."""
        held = changed = 0
        for timers in self._timers.values():
            held += timers.held
            changed += len(timers.pending) + len(timers.journal)
        return held * _TIMER_BYTES + changed * _TIMER_CHANGE_BYTES

    def _stale(self, found: Position, wanted: Position | None = None) -> StaleAttemptError:
        uid, subtask_index = self._owner
        checkpoint_id = (wanted or self._passed[-1])[0]
        where = "no checkpoint (it was removed)" if found == NOWHERE else f"checkpoint {found[0]}, attempt {found[1]:x}"
        return StaleAttemptError(uid, subtask_index, checkpoint_id, where)


def _evict_clean(pane: Pane) -> int:
    """Evict the rows of a pane that are neither dirty nor pending; return how many stay."""
    if pane.stored and pane.hot:
        pane.keep([*pane.pending, *pane.dirty])
        pane.whole = False
    return len(pane.hot)

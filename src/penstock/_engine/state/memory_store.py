"""The keyed state of one operator subtask in memory: it writes deltas and snapshots, and is restored from them.

The class is complete by itself, and the test harness uses it. `KeyedStore` adds a local database below it.

Each epoch runs `catch_up`, lets operators work on tables and timers, and ends with `delta` or `snapshot`. Where an
epoch ended without one of these, memory holds changes that were never committed: the next `catch_up` drops them.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from zlib import crc32

from penstock._engine.protocol.key_groups import key_group
from penstock._engine.protocol.signing import file_digest
from penstock._engine.protocol.state_handle import StateHandle
from penstock._engine.state.files.chunk_columns import Chunk, ChunkOperation
from penstock._engine.state.files.chunks import Chunker, check_key_groups
from penstock._engine.state.files.integrity import check_intact
from penstock._engine.state.files.state_file import StateFileWriter, read_index, read_state_file
from penstock._engine.state.files.trust import ALL_CLASSES
from penstock._engine.state.key_rows import clear_key
from penstock._engine.state.local.lineage import LineageStep, Position, steps
from penstock._engine.state.rows import TIMERS, key_at
from penstock._engine.state.sweep import Sweep
from penstock._engine.state.table import ABSENT, Pane, Table
from penstock._engine.state.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from penstock._engine.protocol.state_handle import Lineage
    from penstock._engine.state.files.state_file import ChunkInfo
    from penstock._engine.state.files.trust import AllowedClasses
    from penstock._engine.state.rows import Address, Composite, Owner, Row

#: A snapshot begins another file when one has as many bytes.
SNAPSHOT_FILE_BYTES: Final = 32 << 20


class MemoryStore:
    """Keyed state that is kept in memory and in checkpoints only.

    Args:
        key_groups: The key groups of this subtask.
        max_parallelism: The number of all key groups.
        read: Reads the file of a handle.
        classes: The classes that values in files may have.
    """

    def __init__(
        self,
        key_groups: range,
        max_parallelism: int,
        read: Callable[[StateHandle], bytes],
        classes: AllowedClasses = ALL_CLASSES,
    ) -> None:
        self._classes = classes
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        self._read = read
        self._tables: dict[str, Table] = {}
        self._timers: dict[str, Timers] = {}
        #: The sweeps by table, for tables whose rows expire.
        self._sweeps: dict[str, Sweep] = {}
        #: Positions of the state in memory; two when a snapshot named it again, none when the state is unusable.
        self._names: list[Position] = []
        #: True from `catch_up` to `delta` or `snapshot`.
        self._running = False
        #: The file of the running epoch's changes, which has those that have left memory.
        self._changes = StateFileWriter()
        #: The estimated memory of an entry, learned from files.
        self._entry_bytes = 200

    # ------------------------------------------------------------------------------------------------ for operators

    def table(self, name: str, *, kind: str = "", keep_keys: bool = False) -> Table:
        """Return a table, a new one when there is none of that name.

        Args:
            name: The state's name.
            kind: The kind ("value", "list", "map" …), which is stored in checkpoints and compared; "" to leave it open.
            keep_keys: Store the user's key with the value where the normal key is bytes (`Pane.remember`).

        Raises:
            StateDescriptorError: The table was written or declared as another kind.
        """
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = Table(name, self)
        table.declare(kind, keep_keys=keep_keys)
        return table

    def timers(self, name: str) -> Timers:
        """Return the timers of one domain."""
        timers = self._timers.get(name)
        if timers is None:
            timers = self._timers[name] = self._new_timers(name)
        return timers

    def _new_timers(self, name: str) -> Timers:
        return Timers(name)

    def make_room(self) -> None:
        """Evict entries where memory is full; entries that were read or written leave memory at no other time.

        The runtime calls it before each batch. Where one call handles more than a batch (timers that fire, the keys of
        a window or of a state), the operator calls it in between, while it holds no pane except in an iteration of
        `Pane.entries`.
        """

    def make_some_room(self) -> None:
        """Evict entries where memory is full, as `make_room`; runs for each key that comes from no batch.

        Such a key comes from a timer, a window, or an iteration over a state.
        """

    def clear(self) -> None:
        """Drop the state and the timers of all keys; in a batch job only one key has any."""
        for table in self._tables.values():
            table.forget()
            table.life.settle()
        for timers in self._timers.values():
            timers.forget()

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables, including restored ones that no function has used yet."""
        return tuple(self._tables.values())

    @property
    def timer_domains(self) -> tuple[Timers, ...]:
        """The timers of all domains."""
        return tuple(self._timers.values())

    # ---------------------------------------------------------------------------------------------- the epoch's start

    def catch_up(self, lineage: Lineage) -> None:
        """Bring memory to the end of a lineage; runs first in each epoch, also when an epoch is retried.

        Args:
            lineage: The snapshot and the accepted deltas that the epoch builds on.

        Raises:
            CorruptCheckpointError: A file is damaged or missing.
            StaleAttemptError: The local version is newer than this lineage: a newer attempt is running.
        """
        way = steps(lineage, self._key_groups)
        places = {step.position: place for place, step in enumerate(way)}
        here = max((places[name] for name in self._names if name in places), default=-1)
        if self._running or here < 0:
            here = self._start_over(way, places)
        else:
            self._set_version(way[here].position)
        self._running = False
        for step in way[here + 1 :]:
            self._take(step, places)
        self._caught_up(places)
        for table in self._tables.values():
            table.life.settle()
        self._changes = StateFileWriter()
        self._running = True

    def _start_over(self, way: list[LineageStep], places: dict[Position, int]) -> int:
        """Empty the memory; return the index of the step whose state it then holds, -1 for none."""
        self._sweeps.clear()
        for table in self._tables.values():
            table.forget()
        for timers in self._timers.values():
            timers.forget()
        self._names = []
        return -1

    def _set_version(self, name: Position) -> None:
        """Note which of the positions of the state in memory the checkpoint uses."""
        self._names = [name]

    def _take(self, step: LineageStep, places: dict[Position, int]) -> None:
        """Apply one step's files; `places` has the index of each position on the lineage."""
        for handle in step.handles:
            for chunk in self._chunks_of(handle):
                self._apply_delta(chunk)
        self._set_position(step.position)

    def _set_position(self, position: Position) -> None:
        self._names = [position]

    def _caught_up(self, places: dict[Position, int]) -> None:
        """Finish before the epoch runs: a hook for the store with a local version."""

    def _chunks_of(self, handle: StateHandle) -> Iterator[Chunk]:
        data = self._read(handle)
        path = handle.path or f"The inline state of checkpoint {handle.checkpoint_id}"
        check_intact(data, handle, path)
        self._learn_entry_size(2 * handle.size, handle.entries)  # a file is compressed to about half
        first, last = handle.key_groups
        wanted = range(max(first, self._key_groups.start), min(last + 1, self._key_groups.stop))
        return read_state_file(data, path, wanted, self._max_parallelism, self._classes)

    def _apply_delta(self, chunk: Chunk) -> None:
        if chunk.kind == TIMERS:
            self._absorb_timers(chunk)
            return
        table = self.table(chunk.name, kind=chunk.kind, keep_keys=chunk.keep_keys)
        first, last = chunk.key_groups
        own_first, own_last = self._range()
        table.life.read(chunk.since, (max(first, own_first), min(last, own_last)))
        pane = table.pane(chunk.namespace)
        if chunk.op is ChunkOperation.DROP:
            self._absorb_drop(pane, chunk.key_groups)
        elif chunk.op is ChunkOperation.CLEAR:
            for normal, namespace, _ in cast("list[Composite]", chunk.addresses()):
                clear_key(pane, (normal, namespace), unsaved=False)
        else:
            _absorb_rows(pane, chunk)

    def _absorb_drop(self, pane: Pane, key_groups: tuple[int, int]) -> None:
        if key_groups == self._range():
            pane.drop()
            pane.drop_unsaved = False
            return
        # Another subtask dropped its part, before a rescale.
        first, last = key_groups
        for address in [address for address, _ in pane.items()]:
            if first <= key_group(key_at(address), self._max_parallelism) <= last:
                pane.put(address, ABSENT)
                pane.pending.add(address)

    def _absorb_timers(self, chunk: Chunk) -> None:
        timers = self.timers(chunk.name)
        is_set = chunk.op is ChunkOperation.PUT
        originals: Iterable[Any] = chunk.originals or [None] * len(chunk.keys)
        for row, original in zip(cast("list[Composite]", chunk.addresses()), originals, strict=True):
            timers.apply(row, original, is_set=is_set)

    # ------------------------------------------------------------------------------------------------ the epoch's end

    def delta(self, checkpoint_id: int, token: int) -> bytes | None:
        """Return the running epoch's changes as a state file; None when there are none.

        This ends the epoch. The changes then count as committed; the next `catch_up` finds out whether they are.

        Args:
            checkpoint_id: The checkpoint that the epoch makes.
            token: The attempt.

        Raises:
            UnpicklableStateError: A value cannot be pickled; the epoch cannot end.
        """
        self.remove_expired()
        self._write_changes()
        writer = self._changes
        self._end_epoch()
        if not writer.has_chunks:
            return None
        self._set_position((checkpoint_id, token))
        self._learn_entry_size(writer.raw_size, writer.entries)
        return writer.finish()

    def _write_changes(self) -> None:
        """Add what changed to the file of the running epoch; the changes in memory are left as they are."""
        chunker = Chunker(self._key_groups, self._max_parallelism, self._changes)
        for table in self._tables.values():
            if table.life.since_is_unsaved:
                self._changes.add(chunker.life_changes(table))
                table.life.since_is_unsaved = False
        for pane in self._panes():
            for chunk in chunker.pane_changes(pane):
                self._changes.add(chunk)
        for timers in self._timers.values():
            for chunk in chunker.timer_changes(timers):
                self._changes.add(chunk)

    def snapshot(self, checkpoint_id: int, token: int) -> Iterator[bytes]:
        """Iterate the files that have the whole state together, including the running epoch's changes.

        None is much larger than `SNAPSHOT_FILE_BYTES`, so that neither their writer nor a reader holds the whole state,
        and a subtask of a rescaled job reads what it needs. Rows are in the order of their key groups.

        Called in place of `delta`, it ends the epoch with its last file. Called after `delta`, it writes the same
        state again, and `catch_up` accepts both positions.

        Args:
            checkpoint_id: The checkpoint that the epoch makes.
            token: The attempt.

        Raises:
            UnpicklableStateError: A value cannot be pickled; the epoch cannot end.
        """
        self.remove_expired(whole=True)
        writer = StateFileWriter()
        chunker = Chunker(self._key_groups, self._max_parallelism, writer)
        panes = (chunker.pane_entries(pane, self.scan_groups) for pane in self._panes())
        timers = (chunker.timer_entries(domain, self.timers_by_group) for domain in self._timers.values())
        for chunk in chain.from_iterable(chain(panes, timers)):
            if writer.size >= SNAPSHOT_FILE_BYTES:
                yield writer.finish()
            writer.add(chunk)
        names = [] if self._has_changes() else self._names
        self._end_epoch()
        self._set_position((checkpoint_id, token))
        self._names = [*names, *self._names]
        self._learn_entry_size(writer.raw_size, writer.entries)
        yield writer.finish()

    def describe(
        self, data: bytes, kind: Literal["delta", "snapshot"], checkpoint_id: int, token: int, path: str | None
    ) -> StateHandle:
        """Return the handle of a file that `delta` or `snapshot` made.

        Args:
            data: The whole file.
            kind: The method that made the file.
            checkpoint_id: The checkpoint given to it.
            token: The attempt given to it.
            path: Where the file lies, relative to the checkpoint storage; None to keep it in the handle.
        """
        index = read_index(data, path or "inline state")
        return StateHandle(
            checkpoint_id=checkpoint_id,
            token=token,
            kind=kind,
            path=path,
            inline=data if path is None else None,
            size=len(data),
            entries=sum(info.entries for info in index),
            checksum=crc32(data),
            key_groups=self._range(),
            digest=None if path is None else file_digest(data),
            groups_within=_groups_within(index),
        )

    def _has_changes(self) -> bool:
        if self._running and self._changes.has_chunks:
            return True
        if any(table.life.since_is_unsaved for table in self._tables.values()):
            return True
        return any(map(Pane.has_changes, self._panes())) or any(timers.journal for timers in self._timers.values())

    def remove_expired(self, *, whole: bool = False) -> None:
        """Remove expired rows that no function reads; runs at the end of each epoch.

        Args:
            whole: Look at all rows, before a snapshot.
        """
        for table in self._tables.values() if self._running else ():
            if table.life.time_to_live is not None:
                if table.name not in self._sweeps:
                    self._sweeps[table.name] = Sweep(table, self)
                self._sweeps[table.name].go_on(whole=whole)

    def _end_epoch(self) -> None:
        for table in self._tables.values():
            for pane in table.panes.values():
                pane.end_epoch()
            table.life.since_is_unsaved = False
            table.prune()
        for timers in self._timers.values():
            timers.end_epoch()
        self._changes = StateFileWriter()
        self._running = False

    def _learn_entry_size(self, raw_size: int, entries: int) -> None:
        if entries:
            self._entry_bytes = entry_bytes(raw_size // entries)

    # --------------------------------------------------------------------------------------------- for tables and panes

    def check(self, pane: Pane) -> None:
        """Make sure that the running epoch wrote only this subtask's keys to a pane.

        Raises:
            InternalError: A key belongs to another subtask.
        """
        check_key_groups(pane.table.name, pane.dirty, self._key_groups, self._max_parallelism)

    def fetch(self, pane: Pane, address: Address) -> Any:
        """Return the value of a row that is not in `hot`; ABSENT here, as nothing is stored below memory."""
        return ABSENT

    def scan(self, pane: Pane, known: Container[Address]) -> Iterator[Row]:
        """Iterate the stored rows of a pane, except for known addresses."""
        for _, row in self.scan_groups(pane, known):
            yield row

    def scan_groups(self, pane: Pane, known: Container[Address]) -> Iterator[tuple[int, Row]]:
        """Iterate (key group, row) of the stored rows by ascending key group, except for known addresses."""
        return iter(())

    def scan_under(self, pane: Pane, owner: Owner, known: Container[Address]) -> Iterator[Row]:
        """Iterate the stored rows of one key and namespace, except for known addresses."""
        return iter(())

    def stored_over(
        self, pane: Pane, start: bytes, most: int, over: Callable[[int | None], bool]
    ) -> tuple[list[Address], int, bytes | None]:
        """Look at some stored rows of a pane: see `CommittedVersion`."""
        return [], 0, None

    def timers_by_group(self, timers: Timers) -> Iterator[tuple[int, Row]]:
        """Iterate (key group, row) of the stored timers that are not in memory, by ascending key group."""
        return iter(())

    def owners(self, pane: Pane) -> Iterator[Owner]:
        """Iterate the keys and namespaces that have stored rows in a pane."""
        return iter(())

    def _panes(self) -> Iterator[Pane]:
        for table in self._tables.values():
            yield from table.panes.values()

    def _range(self) -> tuple[int, int]:
        return self._key_groups.start, self._key_groups.stop - 1


def _groups_within(index: list[ChunkInfo]) -> tuple[int, int] | None:
    """Return the first and last key group of which a file has something, None for an empty file."""
    if not index:
        return None
    return min(info.key_groups[0] for info in index), max(info.key_groups[1] for info in index)


def _absorb_rows(pane: Pane, chunk: Chunk) -> None:
    """Put the rows of a chunk into memory, or delete them."""
    addresses = chunk.addresses()
    pane.pending.update(addresses)
    if chunk.values is None:
        pane.hot.update(dict.fromkeys(addresses, ABSENT))
    else:
        pane.hot.update(zip(addresses, chunk.values, strict=True))
    if chunk.subs is not None or pane.subs is not None:
        subs = pane.sub_rows()
        for address in cast("list[Composite]", addresses):
            subs.note(address)
    _absorb_column(pane.originals, addresses, chunk.originals)
    _absorb_column(pane.stamps, addresses, chunk.stamps)


def _absorb_column(kept: dict[Address, Any], addresses: list[Address], column: list[Any] | None) -> None:
    if column is not None:
        kept.update(pair for pair in zip(addresses, column, strict=True) if pair[1] is not None)


def entry_bytes(pickle_bytes: int) -> int:
    """Estimate the memory of an entry: twice the size of its pickle, and its places in a dict and in sets."""
    return 110 + 2 * pickle_bytes

"""The keyed state of one operator subtask: tables and timers in memory over a backend, and how checkpoints have them.

Each epoch runs `catch_up`, lets operators work on tables and timers, and ends with `delta` or `snapshot`. Where an
epoch ended without one of these, memory holds changes that were never committed: the next `catch_up` drops them. Only
`catch_up` lets the backend store changes, and only committed ones. Where the changes of the running epoch fill the
memory, they are spilled, and their part of the delta is written.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, Literal
from zlib import crc32

from penstock._engine.protocol.signing import file_digest
from penstock._engine.protocol.state_handle import StateHandle
from penstock._engine.state.files.chunks import Chunker
from penstock._engine.state.files.integrity import check_intact
from penstock._engine.state.files.state_file import StateFileWriter, read_index, read_state_file
from penstock._engine.state.files.trust import ALL_CLASSES
from penstock._engine.state.hot_tables import HotTables
from penstock._engine.state.local.lineage import steps
from penstock._engine.state.sweep import Sweep
from penstock.errors import StaleAttemptError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from penstock._engine.protocol.state_handle import Lineage
    from penstock._engine.state.backend import Backend
    from penstock._engine.state.files.chunk_columns import Chunk
    from penstock._engine.state.files.state_file import ChunkInfo
    from penstock._engine.state.files.trust import AllowedClasses
    from penstock._engine.state.local.lineage import LineageStep, Position
    from penstock._engine.state.table import Table
    from penstock._engine.state.timers import Timers

#: A snapshot begins another file when one has as many bytes.
SNAPSHOT_FILE_BYTES: Final = 32 << 20


class KeyedState:
    """The keyed state of a subtask.

    Args:
        backend: Has the rows and timers that memory does not have.
        read: Reads the file of a handle.
        classes: The classes that values in files may have.
    """

    def __init__(
        self, backend: Backend, read: Callable[[StateHandle], bytes], classes: AllowedClasses = ALL_CLASSES
    ) -> None:
        self._backend = backend
        self._read = read
        self._classes = classes
        self._key_groups = backend.key_groups
        self._max_parallelism = backend.max_parallelism
        self._hot = HotTables(backend)
        self._budget = self._hot.budget
        #: The sweeps by table, for tables whose rows expire.
        self._sweeps: dict[str, Sweep] = {}
        #: Positions of the state in memory; two when a snapshot named it again, none when the state is unusable.
        self._names: list[Position] = []
        #: True from `catch_up` to `delta` or `snapshot`.
        self._running = False
        #: The file of the running epoch's changes, which has those that have left memory.
        self._changes = StateFileWriter()

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
        return self._hot.table(name, kind, keep_keys=keep_keys)

    def timers(self, name: str) -> Timers:
        """Return the timers of one domain."""
        return self._hot.timers(name)

    def free_memory(self) -> None:
        """Where memory is full, evict entries that are stored, or spill the running epoch's changes.

        Entries that were read or written leave memory at no other time. The runtime calls it before each batch. Where
        one call handles more than a batch (timers that fire, the keys of a window or of a state), the operator calls it
        in between, while it holds no pane except in an iteration of `Pane.entries`.
        """
        if self._budget.free():
            self._write_changes()
            self._spill()

    def free_memory_if_full(self) -> None:
        """Call `free_memory` where it is time to; runs for each key that comes from no batch.

        Such a key comes from a timer, a window, or an iteration over a state.
        """
        budget = self._budget
        budget.turns -= 1
        if budget.turns <= 0 or budget.left <= 0:
            self.free_memory()

    def clear(self) -> None:
        """Drop the state and the timers of all keys; in a batch job only one key has any."""
        self._hot.forget()
        for table in self.tables:
            table.life.apply_declaration()

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables, including restored ones that no function has used yet."""
        return tuple(self._hot.tables.values())

    @property
    def timer_domains(self) -> tuple[Timers, ...]:
        """The timers of all domains."""
        return tuple(self._hot.domains.values())

    # ---------------------------------------------------------------------------------------------- the epoch's start

    def catch_up(self, lineage: Lineage) -> None:
        """Bring memory to the end of a lineage; runs first in each epoch, also when an epoch is retried.

        Args:
            lineage: The snapshot and the accepted deltas that the epoch builds on.

        Raises:
            CorruptCheckpointError: A file is damaged or missing.
            StaleAttemptError: What is stored is newer than this lineage: a newer attempt is running.
        """
        way = steps(lineage, self._key_groups)
        places = {step.position: place for place, step in enumerate(way)}
        here = max((places[name] for name in self._names if name in places), default=-1)
        if self._running or here < 0 or not self._backend.is_usable():
            here = self._start_over(way, places)
        else:
            self._set_position(way[here].position)
        self._running = False
        for place in range(here + 1, len(way)):
            self._take(way[place], [step.position for step in way[place + 1 :]])
        if self._backend.is_behind(places) or self._budget.pending_bytes() > self._budget.limit_bytes // 2:
            self._move()
        self._budget.measure()
        for table in self.tables:
            table.life.apply_declaration()
        self._changes = StateFileWriter()
        self._running = True

    def _start_over(self, way: list[LineageStep], places: dict[Position, int]) -> int:
        """Return to what is stored; return the index of the step whose state that is, -1 for none."""
        self._sweeps.clear()
        self._hot.forget()
        self._hot.base.release()
        self._names = []
        here = self._backend.start(way, places)
        if here >= 0:
            self._set_position(way[here].position)
            self._hot.attach(self._backend.panes)
            try:
                self._hot.begin_at_stored()
            except StaleAttemptError:  # another process moved it since its position was read
                return self._start_over(way, places)
        return here

    def _take(self, step: LineageStep, later: Collection[Position]) -> None:
        """Apply one step's files; `later` has the positions of the following steps."""
        for handle in step.handles:
            for chunk in self._chunks_of(handle):
                self._apply(chunk)
        self._set_position(step.position)
        if self._budget.pending_bytes() > self._budget.limit_bytes // 2:
            self._move(later)

    def _chunks_of(self, handle: StateHandle) -> Iterator[Chunk]:
        data = self._read(handle)
        path = handle.path or f"The inline state of checkpoint {handle.checkpoint_id}"
        check_intact(data, handle, path)
        self._budget.learn_entry_size(2 * handle.size, handle.entries)  # a file is compressed to about half
        first, last = handle.key_groups
        wanted = range(max(first, self._key_groups.start), min(last + 1, self._key_groups.stop))
        return read_state_file(data, path, wanted, self._max_parallelism, self._classes)

    def _apply(self, chunk: Chunk) -> None:
        budget = self._budget
        self._hot.apply(chunk)
        if not self._names and budget.read_bytes > budget.limit_bytes // 4:
            self._move()  # a snapshot that is larger than memory is stored in parts
        elif budget.read_bytes > budget.half:
            self._spill()  # the backend stays where it is: part of a step leads to no position

    def _set_position(self, position: Position) -> None:
        self._names = [position]
        self._backend.reach(position)
        self._hot.base.release()

    # ---------------------------------------------------------------------------------------------------- the backend

    def _move(self, later: Collection[Position] = ()) -> None:
        """Store what is committed; it may be evicted afterwards.

        Args:
            later: Positions beyond this one. Where another process has stored one of them, nothing has to be stored.
        """
        self._hot.base.release()
        if self._backend.store(list(self._hot.panes()), self.timer_domains, later):
            self._hot.has_moved()
            self._hot.attach(self._backend.panes)
            self._budget.measure()

    def _spill(self) -> None:
        """Put all changes that are not stored aside, and evict them."""
        self._hot.base.release()
        self._backend.spill(list(self._hot.panes()), self.timer_domains)
        self._hot.end_epoch()
        self._hot.has_moved()
        self._budget.evict()

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
        self._budget.learn_entry_size(writer.raw_size, writer.entries)
        return writer.finish()

    def _write_changes(self) -> None:
        """Add what changed to the file of the running epoch; the changes in memory are left as they are."""
        chunker = Chunker(self._key_groups, self._max_parallelism, self._changes)
        for table in self.tables:
            if table.life.since_is_unsaved:
                self._changes.add(chunker.life_changes(table))
                table.life.since_is_unsaved = False
        for pane in self._hot.panes():
            for chunk in chunker.pane_changes(pane):
                self._changes.add(chunk)
        for timers in self.timer_domains:
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
        base = self._hot.base
        panes = (chunker.pane_entries(pane, base.scan_groups) for pane in self._hot.panes())
        timers = (chunker.timer_entries(domain, base.timers_by_group) for domain in self.timer_domains)
        for chunk in chain.from_iterable(chain(panes, timers)):
            if writer.size >= SNAPSHOT_FILE_BYTES:
                yield writer.finish()
            writer.add(chunk)
        names = [] if self._has_changes() else self._names
        self._end_epoch()
        self._set_position((checkpoint_id, token))
        self._names = [*names, *self._names]
        self._budget.learn_entry_size(writer.raw_size, writer.entries)
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
            key_groups=(self._key_groups.start, self._key_groups.stop - 1),
            digest=None if path is None else file_digest(data),
            groups_within=_groups_within(index),
        )

    def remove_expired(self, *, whole: bool = False) -> None:
        """Remove expired rows that no function reads; runs at the end of each epoch.

        Args:
            whole: Look at all rows, before a snapshot.
        """
        for table in self.tables if self._running else ():
            if table.life.time_to_live is not None:
                if table.name not in self._sweeps:
                    self._sweeps[table.name] = Sweep(table, self._hot.base)
                self._sweeps[table.name].go_on(whole=whole)
        self.release()

    def release(self) -> None:
        """End the reading of what is stored, so that its old pages can be used again."""
        self._hot.base.release()

    def _has_changes(self) -> bool:
        return (self._running and self._changes.has_chunks) or self._hot.has_changes()

    def _end_epoch(self) -> None:
        self._hot.end_epoch()
        for table in self.tables:
            table.life.since_is_unsaved = False
            table.prune()
        self._changes = StateFileWriter()
        self._running = False


def _groups_within(index: list[ChunkInfo]) -> tuple[int, int] | None:
    """Return the first and last key group of which a file has something, None for an empty file."""
    if not index:
        return None
    return min(info.key_groups[0] for info in index), max(info.key_groups[1] for info in index)

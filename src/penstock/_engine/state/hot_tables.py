"""The tables and timers of one subtask in memory: the dicts that operators use, over what is stored below them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock._engine.protocol.key_groups import key_group
from penstock._engine.state.files.chunk_columns import Chunk, ChunkOperation
from penstock._engine.state.key_rows import clear_key
from penstock._engine.state.memory_budget import MemoryBudget
from penstock._engine.state.rows import TIMERS, key_at
from penstock._engine.state.stored_rows import StoredRows
from penstock._engine.state.table import ABSENT, Pane, Table
from penstock._engine.state.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock._engine.state.backend import Backend
    from penstock._engine.state.local.moves import PaneMeta, PaneName
    from penstock._engine.state.rows import Address, Composite


class HotTables:
    """Tables and timers by name.

    Args:
        backend: Has the rows and timers that memory does not have.
    """

    def __init__(self, backend: Backend) -> None:
        self.tables: dict[str, Table] = {}
        self.domains: dict[str, Timers] = {}
        self.budget = MemoryBudget(self.tables, self.domains, backend.memory_bytes)
        self.base = StoredRows(backend, self.budget)
        self._max_parallelism = backend.max_parallelism
        self._range = (backend.key_groups.start, backend.key_groups.stop - 1)

    def table(self, name: str, kind: str = "", *, keep_keys: bool = False) -> Table:
        """Return a table, a new one when there is none of that name; see `KeyedState.table`."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = Table(name, self.base)
        table.declare(kind, keep_keys=keep_keys)
        return table

    def timers(self, name: str) -> Timers:
        """Return the timers of one domain."""
        timers = self.domains.get(name)
        if timers is None:
            timers = self.domains[name] = Timers(name, self.base, self.budget.most_timers)
        return timers

    def panes(self) -> Iterator[Pane]:
        """Iterate the panes of all tables."""
        for table in self.tables.values():
            yield from table.panes.values()

    def forget(self) -> None:
        """Empty the memory; stored state is not touched."""
        for table in self.tables.values():
            table.forget()
        for timers in self.domains.values():
            timers.forget()

    def has_changes(self) -> bool:
        """Return whether the running epoch has changed anything that is in memory."""
        if any(table.life.since_is_unsaved for table in self.tables.values()):
            return True
        return any(map(Pane.has_changes, self.panes())) or any(timers.journal for timers in self.domains.values())

    def end_epoch(self) -> None:
        """Count the changes of the running epoch as committed."""
        for pane in self.panes():
            pane.end_epoch()
        for timers in self.domains.values():
            timers.end_epoch()

    # ------------------------------------------------------------------------------------------------ what files change

    def apply(self, chunk: Chunk) -> None:
        """Apply a part of a delta or a snapshot; it then counts as committed, and as not stored."""
        self.budget.count_read(chunk)
        if chunk.kind == TIMERS:
            self._apply_timers(chunk)
            return
        table = self.table(chunk.name, chunk.kind, keep_keys=chunk.keep_keys)
        first, last = chunk.key_groups
        own_first, own_last = self._range
        table.life.read(chunk.since, (max(first, own_first), min(last, own_last)))
        pane = table.pane(chunk.namespace)
        if chunk.op is ChunkOperation.DROP:
            self._drop(pane, chunk.key_groups)
        elif chunk.op is ChunkOperation.CLEAR:
            for normal, namespace, _ in cast("list[Composite]", chunk.addresses()):
                clear_key(pane, (normal, namespace), unsaved=False)
        else:
            _put_rows(pane, chunk)

    def _drop(self, pane: Pane, key_groups: tuple[int, int]) -> None:
        if key_groups == self._range:
            pane.drop()
            pane.drop_unsaved = False
            return
        # Another subtask dropped its part, before a rescale.
        first, last = key_groups
        for address in [address for address, _ in pane.items()]:
            if first <= key_group(key_at(address), self._max_parallelism) <= last:
                pane.put(address, ABSENT)
                pane.pending.add(address)

    def _apply_timers(self, chunk: Chunk) -> None:
        timers = self.timers(chunk.name)
        is_set = chunk.op is ChunkOperation.PUT
        originals: Iterable[Any] = chunk.originals or [None] * len(chunk.keys)
        for row, original in zip(cast("list[Composite]", chunk.addresses()), originals, strict=True):
            timers.apply(row, original, is_set=is_set)

    # -------------------------------------------------------------------------------------------------- what is stored

    def has_moved(self) -> None:
        """Count committed changes as stored, where they may be evicted."""
        self.budget.read_bytes = 0
        for timers in self.domains.values():
            timers.has_moved()
        for pane in self.panes():
            pane.has_moved()

    def attach(self, stored: Mapping[PaneName, PaneMeta]) -> None:
        """Tell panes and timers what is stored of them.

        Args:
            stored: All that is stored.
        """
        for pane in self.panes():
            pane.stored = 0
        for timers in self.domains.values():
            timers.stored = 0
        for record in stored.values():
            if record.is_timers:
                self.timers(record.name).stored = record.pane_id
            else:
                table = self.table(record.name, record.kind, keep_keys=record.keep_keys)
                if not table.life.was_read:  # else the files that are being read say more
                    table.life.read(record.since, self._range)
                is_new = record.namespace not in table.panes
                pane = table.pane(record.namespace)
                pane.stored, pane.whole = record.pane_id, pane.whole and not is_new
        for table in self.tables.values():
            for pane in table.panes.values():
                if not pane.stored and ABSENT in pane.hot.values():  # then nothing is stored that ABSENT would hide
                    pane.keep([address for address, value in pane.hot.items() if value is not ABSENT])
            table.prune()

    def begin_at_stored(self) -> None:
        """Begin with what is stored, where memory has nothing.

        Raises:
            StaleAttemptError: Another process has moved the backend beyond this subtask's epoch.
        """
        for pane in self.panes():
            pane.whole = not pane.stored
        for timers in self.domains.values():
            if timers.stored:
                timers.begin_at_stored()


def _put_rows(pane: Pane, chunk: Chunk) -> None:
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
    _put_column(pane.originals, addresses, chunk.originals)
    _put_column(pane.stamps, addresses, chunk.stamps)


def _put_column(kept: dict[Address, Any], addresses: list[Address], column: list[Any] | None) -> None:
    if column is not None:
        kept.update(pair for pair in zip(addresses, column, strict=True) if pair[1] is not None)

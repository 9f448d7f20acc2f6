"""The layer above a local version: changes that are not part of it and have left memory.

The changes of the running epoch are not committed, so the local version must not have them. Where they fill the memory,
they go into a separate LMDB environment, and so do the changes of files that are read at a restore. Reading looks
there first (`readings`). The layer belongs to one store: when the local version moves, it takes the layer in; where the
epoch is void, the layer is deleted.

Rows stand there as in a local version. A pane that the local version has keeps its id; another pane has an id that no
local version gives out, because a second process may move the version meanwhile and give out ids.
"""

from __future__ import annotations

import shutil
import weakref
from itertools import islice
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import lmdb

from penstock._engine.state.local.entries import PANE_ID, changes, locate_owner
from penstock._engine.state.local.environment import is_in_use, not_usable, open_environment
from penstock._engine.state.local.moves import PaneMeta
from penstock._engine.state.local.readings import GONE, pairs_under
from penstock._engine.state.local.timer_rows import timer_row
from penstock._engine.state.rows import TIMERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from penstock._engine.state.local.readings import Reading
    from penstock._engine.state.rows import Namespace
    from penstock._engine.state.table import Pane
    from penstock._engine.state.timers import Timers

    #: The name of a pane: its table or domain, its namespace, and whether it holds timers.
    PaneName = tuple[str, Namespace, bool]

#: The first id of a pane that the local version does not have.
_FIRST_ID: Final = 1 << 31
#: Pairs that are written in one transaction: LMDB keeps the pages that it changes in memory.
_BATCH: Final = 1 << 12
#: A sparse file: a map that is large from the start never has to grow while it is read.
_MAP_BYTES: Final = 1 << 36


class EpochLayer:
    """Changes of one store above its local version.

    Args:
        directory: The subtask's own directory.
        max_parallelism: The number of all key groups.

    Raises:
        LocalStateError: The disk refuses the write.
    """

    def __init__(self, directory: Path, max_parallelism: int) -> None:
        for left in directory.glob("epoch-*"):  # of processes that were killed
            # Another attempt at the subtask may just have made one, and not opened it yet.
            if (left / "lock.mdb").exists() and not is_in_use(left):
                shutil.rmtree(left, ignore_errors=True)
        path = directory / f"epoch-{uuid4().hex[:16]}"
        try:
            path.mkdir(mode=0o700)
            self._environment = open_environment(path, _MAP_BYTES)
        except (lmdb.Error, OSError) as error:
            raise not_usable(directory, error) from error
        self._max_parallelism = max_parallelism
        self.panes: dict[PaneName, PaneMeta] = {}
        self.close: Callable[[], object] = weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)

    def read(self) -> lmdb.Transaction:
        """Begin a read transaction."""
        return self._environment.read()

    # ---------------------------------------------------------------------------------------------------- writing

    def take_pane(
        self, pane: Pane, stored: Mapping[PaneName, PaneMeta], reading: Callable[[], AbstractContextManager[Reading]]
    ) -> None:
        """Write what has changed in a pane since the local version; the pane then reads it from here.

        Args:
            pane: The pane.
            stored: The panes of the local version.
            reading: Begins to read this layer above the local version.
        """
        table = pane.table
        record = self._record((table.name, pane.namespace, False), stored)
        record.kind, record.keep_keys = table.kind, table.keep_keys
        record.since = table.life.since
        if pane.masked:
            self._delete(PANE_ID.pack(record.pane_id), reading)
        for owner in pane.subs.cleared if pane.subs is not None else ():
            self._delete(locate_owner(record.pane_id, owner, self._max_parallelism), reading)
        rows = list(pane.pending | pane.dirty)
        self._write(changes(record.pane_id, pane, rows, self._max_parallelism))
        pane.stored = record.pane_id

    def take_timers(self, timers: Timers, stored: Mapping[PaneName, PaneMeta]) -> None:
        """Write which timers of a domain were set and deleted since the local version."""
        record = self._record((timers.name, (), True), stored)
        self._write(
            (name, raw if is_set else None)
            for row, is_set in (timers.pending | timers.journal).items()
            for original in (timers.original(row) if is_set else None,)
            for name, raw in (timer_row(record.pane_id, row, original, self._max_parallelism),)
        )
        timers.stored = record.pane_id

    def _record(self, name: PaneName, stored: Mapping[PaneName, PaneMeta]) -> PaneMeta:
        record = self.panes.get(name)
        if record is None:
            kind, below = TIMERS if name[2] else "", stored.get(name)
            pane_id = _FIRST_ID + len(self.panes) if below is None else below.pane_id
            record = self.panes[name] = PaneMeta(pane_id, name[0], name[1], kind, False, 0)
        return record

    def _delete(self, prefix: bytes, reading: Callable[[], AbstractContextManager[Reading]]) -> None:
        """Delete all pairs with a prefix, here and below."""
        start: bytes | None = prefix
        while start is not None:
            with reading() as one:
                some = [key for key, _ in islice(pairs_under(one, prefix, start), _BATCH)]
            self._write((key, None) for key in some)
            start = some[-1] + b"\0" if len(some) == _BATCH else None

    def _write(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> None:
        rest = iter(pairs)
        while some := [(key, GONE if raw is None else raw) for key, raw in islice(rest, _BATCH)]:
            some.sort()
            self._environment.write(lambda transaction, some=some: transaction.cursor().putmulti(some))

    # ---------------------------------------------------------------------------------------------------- moving

    def pairs(self, record: PaneMeta, pane_id: int) -> Iterator[tuple[bytes, bytes | None]]:
        """Iterate the changes of a pane as (stored key, value) under another id of it; None deletes."""
        old, new = PANE_ID.pack(record.pane_id), PANE_ID.pack(pane_id)
        with self.read() as transaction:
            for key, raw in pairs_under(transaction, old):
                yield new + key[4:], None if raw == GONE else raw

"""The overlay of a local version: changes that are not part of it and have left memory.

The changes of the running epoch are not committed, so the local version must not have them. Where they fill the memory,
they go into a separate LMDB environment, and so do the changes of files that are read at a restore. The overlay is
read as the version is, and its own pairs count first (`readings`). It belongs to one subtask of one process: when the
version moves, it takes the overlay in; where the epoch is void, the overlay is deleted.

Rows stand there as in a local version. A pane that the local version has keeps its id; another pane has an id that no
local version gives out, because a second process may move the version meanwhile and give out ids.
"""

from __future__ import annotations

import shutil
import weakref
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import lmdb

from penstock._engine.state.local.entries import PANE_ID, changes, locate_owner
from penstock._engine.state.local.environment import is_in_use, not_usable, open_environment
from penstock._engine.state.local.moves import PaneMeta
from penstock._engine.state.local.readings import GONE, LayeredReading, PlainReading
from penstock._engine.state.local.timer_rows import timer_row
from penstock._engine.state.rows import TIMERS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

    from penstock._engine.state.local.lineage import Position
    from penstock._engine.state.local.moves import PaneName
    from penstock._engine.state.local.readings import Layer, Reading
    from penstock._engine.state.table import Pane
    from penstock._engine.state.timers import Timers

#: The first id of a pane that the local version does not have.
_FIRST_ID: Final = 1 << 31
#: Pairs that are written in one transaction: LMDB keeps the pages that it changes in memory.
_BATCH: Final = 1 << 12
#: A sparse file: a map that is large from the start never has to grow while it is read.
_MAP_BYTES: Final = 1 << 36


class Overlay:
    """Changes of one subtask above its local version.

    Args:
        directory: The subtask's own directory.
        below: The version.
        max_parallelism: The number of all key groups.

    Raises:
        LocalStateError: The disk refuses the write.
    """

    def __init__(self, directory: Path, below: Layer, max_parallelism: int) -> None:
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
        self._below = below
        self._max_parallelism = max_parallelism
        self.panes: dict[PaneName, PaneMeta] = {}
        self.close: Callable[[], object] = weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)

    def read(self, passed: Collection[Position] | None) -> Reading:
        """Begin to read the overlay above the version: see `Layer`."""
        return LayeredReading(PlainReading(self._environment.read()), self._below.read(passed))

    # ---------------------------------------------------------------------------------------------------- writing

    def take(self, panes: Iterable[Pane], timers: Iterable[Timers]) -> None:
        """Write all that memory has changed since the version; panes and timers then read it from here.

        Args:
            panes: All panes in memory.
            timers: All timers in memory.
        """
        for pane in panes:
            if pane.masked or pane.pending or pane.dirty or (pane.subs is not None and pane.subs.cleared):
                self._take_pane(pane)
        for domain in timers:
            if domain.pending or domain.journal:
                self._take_timers(domain)

    def _take_pane(self, pane: Pane) -> None:
        table = pane.table
        record = self._record((table.name, pane.namespace, False))
        record.kind, record.keep_keys = table.kind, table.keep_keys
        record.since = table.life.since
        if pane.masked:
            self._delete(PANE_ID.pack(record.pane_id))
        for owner in pane.subs.cleared if pane.subs is not None else ():
            self._delete(locate_owner(record.pane_id, owner, self._max_parallelism))
        rows = list(pane.pending | pane.dirty)
        self._write(changes(record.pane_id, pane, rows, self._max_parallelism))
        pane.stored = record.pane_id

    def _take_timers(self, timers: Timers) -> None:
        record = self._record((timers.name, (), True))
        self._write(
            (name, raw if is_set else None)
            for row, is_set in (timers.pending | timers.journal).items()
            for original in (timers.in_memory.original(row) if is_set else None,)
            for name, raw in (timer_row(record.pane_id, row, original, self._max_parallelism),)
        )
        timers.stored = record.pane_id

    def _record(self, name: PaneName) -> PaneMeta:
        record = self.panes.get(name)
        if record is None:
            kind, below = TIMERS if name[2] else "", self._below.panes.get(name)
            pane_id = _FIRST_ID + len(self.panes) if below is None else below.pane_id
            record = self.panes[name] = PaneMeta(pane_id, name[0], name[1], kind, False, 0)
        return record

    def _delete(self, prefix: bytes) -> None:
        """Delete all pairs with a prefix, here and below, wherever the version is.

        Another process may have moved it. Then an epoch that runs here is outdated, and nothing of it will count; while
        files are read, the version may be where they lead, and what is deleted too much is set again by those that
        follow.
        """
        start: bytes | None = prefix
        while start is not None:
            with closing(self.read(None)) as reading:
                some = [key for key, _ in islice(reading.pairs(prefix, start), _BATCH)]
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
        with closing(PlainReading(self._environment.read())) as reading:
            for key, raw in reading.pairs(old):
                yield new + key[4:], None if raw == GONE else raw

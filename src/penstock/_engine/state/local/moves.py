"""What is written when a local version moves: its parts, and the metadata beside them.

A move is cut into parts, because one transaction may not write all: LMDB keeps each page that a transaction changes in
memory until it ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import msgspec

from penstock._engine.state.rows import TIMERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lmdb

    from penstock._engine.state.rows import Namespace

    #: The name of a pane: its table or domain, its namespace, and whether it holds timers.
    PaneName: TypeAlias = tuple[str, Namespace, bool]

#: Rows written in one call: bounds the memory of the call.
_BATCH: Final = 1 << 12


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
    entries: int
    #: The time from which the rows of the table expire, see `time_to_live`.
    since: int | None = None

    @property
    def is_timers(self) -> bool:
        return self.kind == TIMERS


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of a pane that are put, or deleted where there is no value."""

    record: PaneMeta
    rows: list[tuple[bytes, bytes | None]]

    def __len__(self) -> int:
        return len(self.rows)

    def write(self, transaction: lmdb.Transaction, most: int) -> tuple[int, bool]:
        """Write them all; return how many they are, and that all are written."""
        for key, raw in self.rows:
            if raw is None:
                transaction.delete(key)
        transaction.cursor().putmulti([(key, raw) for key, raw in self.rows if raw is not None])
        return len(self.rows), True


@dataclass(frozen=True, slots=True)
class DeletedRange:
    """The stored rows of a pane, or of one key of it, which are deleted."""

    record: PaneMeta
    prefix: bytes

    def __len__(self) -> int:
        return 1  # how many there are is found when they are deleted

    def write(self, transaction: lmdb.Transaction, most: int) -> tuple[int, bool]:
        """Delete some of them; return how many, and whether none is left."""
        cursor, count = transaction.cursor(), 0
        if cursor.set_range(self.prefix):
            while count < most and cast("bytes", cursor.key()).startswith(self.prefix) and cursor.delete():
                count += 1
        return count, count < most


Part: TypeAlias = ChangedRows | DeletedRange


@dataclass(frozen=True, slots=True)
class Progress:
    """What one transaction of a move has written."""

    #: How many parts are written to their end.
    finished: int
    #: By how many the stored entries grew with each part, also with one that is not finished.
    more_entries: list[int]
    meta: VersionMeta


def parts_of_rows(record: PaneMeta, changes: Iterator[tuple[bytes, bytes | None]]) -> Iterator[Part]:
    """Iterate changes in parts; where there is none, one part is empty and writes the record of the pane."""
    yield ChangedRows(record, list(islice(changes, _BATCH)))
    while rows := list(islice(changes, _BATCH)):
        yield ChangedRows(record, rows)

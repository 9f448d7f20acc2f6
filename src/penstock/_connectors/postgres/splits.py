"""The splits, events and checkpoints of a change stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock._api.connectors.split import SourceEvent, SourceSplit

if TYPE_CHECKING:
    import psycopg

    from penstock._connectors.postgres.client import Address
    from penstock._connectors.postgres.handover import ChangeSegment
    from penstock._connectors.postgres.marks import TableMark
    from penstock._connectors.postgres.ranges import KeyRange, KeyText

STREAM: Final = "changes"


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """What a change stream reads."""

    address: Address
    tables: tuple[str, ...]
    slot: str
    publication: str
    split_rows: int
    fetched_changes: int
    #: Whether the rows are read before the changes.
    reads_tables: bool = True
    bounded: bool = False
    text_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeSplit(SourceSplit):
    """A range of a table's key in the first look, from the position on.

    Attributes:
        table: The table, ``schema.name``.
        keys: The keys that are not read yet.
        mark: The table as it was at the beginning.
        segments: The parts that were read.
        done: Whether all was read; the enumerator may not know it yet.
    """

    number: int
    table: str
    keys: KeyRange
    mark: TableMark
    started_ms: int
    segments: tuple[ChangeSegment, ...] = ()
    done: bool = False

    def split_id(self) -> str:
        """Return its table and number."""
        return f"{self.table}-{self.number}"


@dataclass(frozen=True, slots=True)
class StreamSplit(SourceSplit):
    """The stream of changes, from the position on.

    Attributes:
        lsn: All transactions whose commit is before it in the log were read.
        transaction_lsn: The commit of a transaction that was read in part; 0 without one.
        skip: The number of its changes that were read.
        segments: By table: what the first look has read, until the stream is past it.
        marks: The tables as they were at the beginning, by number.
        until_lsn: The end of a bounded stream.
        checkpoint_id: The checkpoint of this position; 0 of the first.
    """

    lsn: int
    transaction_lsn: int = 0
    skip: int = 0
    segments: dict[str, tuple[ChangeSegment, ...]] = field(default_factory=dict["str", "tuple[ChangeSegment, ...]"])
    marks: dict[int, TableMark] = field(default_factory=dict["int", "TableMark"])
    until_lsn: int | None = None
    checkpoint_id: int = 0

    def split_id(self) -> str:
        """Return the name of the only such split."""
        return STREAM


AnySplit: TypeAlias = RangeSplit | StreamSplit
AnyConnection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


@dataclass(frozen=True, slots=True)
class RangeDone(SourceEvent):
    """A reader has read a range."""

    split: RangeSplit


@dataclass(frozen=True, slots=True)
class RangeKnown(SourceEvent):
    """The enumerator knows that a range was read."""

    split_id: str


@dataclass(frozen=True, slots=True)
class ChangesState:
    """The state of the enumerator.

    Attributes:
        slot_lsn: Where the slot began; None before it is made.
        started_ms: When the first look began.
        waiting: Splits that no reader has.
        tables: The tables that are not cut yet; the first of them from ``end`` on.
        found: The number of ranges so far.
        open: The ids of ranges that are not read.
        segments: By table: what was read.
        streaming: Whether the stream of changes has begun.
        marks: The tables as they were when the slot was made, by number.
    """

    slot_lsn: int | None = None
    started_ms: int = 0
    waiting: tuple[AnySplit, ...] = ()
    tables: tuple[str, ...] = ()
    end: KeyText | None = None
    found: int = 0
    open: frozenset[str] = frozenset()
    segments: dict[str, tuple[ChangeSegment, ...]] = field(default_factory=dict["str", "tuple[ChangeSegment, ...]"])
    streaming: bool = False
    marks: dict[int, TableMark] = field(default_factory=dict["int", "TableMark"])

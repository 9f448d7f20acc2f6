"""The bounded source: a table in ranges of its key, which readers share, as of one moment."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

import psycopg

from penstock._api.connectors.enumerator_base import SplitQueueEnumerator
from penstock._api.connectors.reader import InputStatus
from penstock._api.connectors.reader_base.sequential import SequentialSourceReader, SplitCursor
from penstock._api.connectors.source import Boundedness, Source
from penstock._api.connectors.split import SourceSplit
from penstock._connectors.postgres.builders import RangesBuilder, at_least_one
from penstock._connectors.postgres.client import Address, Session, SharedSession, one, run
from penstock._connectors.postgres.marks import TableMark
from penstock._connectors.postgres.ranges import KeyRange, KeyText, Page, TableReader, records_of
from penstock._connectors.postgres.tables import begin_reading, find_table
from penstock._connectors.postgres.types import codecs_of
from penstock._shelf import show
from penstock.common.arguments import texts

if TYPE_CHECKING:
    from penstock._api.connectors.reader import SourceOutput, SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock._connectors.postgres.tables import SourceTable

_LOG = logging.getLogger(__name__)
_BLOCK: Final = 2048
_FETCHED_ROWS: Final = 8_192
#: Ranges that are found in one step; the first readers begin after it.
_RANGES_IN_A_STEP: Final = 16
_ALIVE_PERIOD_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What a source reads."""

    address: Address
    table: str
    columns: tuple[str, ...] = ()
    key_columns: tuple[str, ...] = ()
    split_rows: int = 50_000
    fetched_rows: int = _FETCHED_ROWS
    text_columns: tuple[str, ...] = ()

    def reader(
        self, connection: psycopg.Connection[tuple[Any, ...]], table: SourceTable, mark: TableMark | None = None
    ) -> tuple[TableReader, TableMark]:
        """Return what reads the table, and its mark.

        Args:
            connection: A connection.
            table: The table.
            mark: Its mark when the source began to read it; its columns are read unless some were named.

        Raises:
            TableError: It has changed since.
        """
        key = table.key(self.key_columns)
        mark = mark or TableMark.of(table, key)
        names = self.columns or tuple(name for _, name, _ in mark.columns)
        mark.check(table, key, names)
        columns = [table.column(name) for name in names]
        codecs = codecs_of(connection, str(table), columns, self.text_columns)
        return TableReader(table, key, names, codecs), mark


@dataclass(frozen=True, slots=True)
class TableSplit(SourceSplit):
    """A range of keys, from the position on."""

    number: int
    keys: KeyRange
    #: The exported snapshot in which it is read.
    snapshot: str
    #: The table as it was when the source began.
    mark: TableMark

    def split_id(self) -> str:
        """Return its number."""
        return str(self.number)


@dataclass(frozen=True, slots=True)
class TableScan:
    """The state of the enumerator: ranges that wait, and how far the table is cut."""

    waiting: tuple[TableSplit, ...] = ()
    found: int = 0
    end: KeyText | None = None
    complete: bool = False
    mark: TableMark | None = None


class _Cutter:
    """Holds the snapshot, and cuts the table in it; used by one thread at a time, and closed by another."""

    def __init__(self, options: TableOptions) -> None:
        self._options = options
        self._session = SharedSession(options.address, f"Finding the ranges of {options.table}")
        self._snapshot = ""
        self._reader: TableReader

    def cut(self, scan: TableScan) -> TableScan:
        """Return the state with the next ranges, all of them waiting."""
        with self._session.alone():
            if self._session.ended:
                return scan
            mark = scan.mark if self._snapshot and scan.mark else self._begin(scan.mark)
            found: list[TableSplit] = []
            end, complete = scan.end, False
            while not complete and len(found) < _RANGES_IN_A_STEP:
                start = end
                end = self._reader.find_bound(self._session.connection, start, self._options.split_rows)
                complete = end is None
                found.append(TableSplit(scan.found + len(found), KeyRange(start, end), self._snapshot, mark))
            return TableScan(tuple(found), scan.found + len(found), end, complete, mark)

    def _begin(self, mark: TableMark | None) -> TableMark:
        connection = self._session.connection
        table = begin_reading(connection, self._options.table)
        self._reader, mark = self._options.reader(connection, table, mark)
        (self._snapshot,) = one(connection, "SELECT pg_export_snapshot()")
        return mark

    def check(self) -> None:
        """Check that the snapshot is still held."""
        with self._session.alone():
            if self._snapshot and not self._session.ended:
                one(self._session.connection, "SELECT 1")

    def close(self) -> None:
        """Let go of the snapshot."""
        self._session.end()


class TableEnumerator(SplitQueueEnumerator[TableSplit, TableScan]):
    """Cuts the table beside the job, and holds the snapshot in which readers read it.

    A restarted job has another snapshot. Ranges that readers hold from before name the one that is gone.
    """

    def __init__(self, context: SplitEnumeratorContext[TableSplit], options: TableOptions, scan: TableScan) -> None:
        super().__init__(context, scan.waiting, complete=scan.complete)
        self._scan = scan
        self._cutter = _Cutter(options)

    def start(self) -> None:
        """Begin to cut the table; the snapshot is looked at from time to time."""
        if not self._scan.complete:
            self._context.call_async(self._cut, self._take)
        self._context.call_async(
            self._cutter.check, self._checked, initial_delay_ms=_ALIVE_PERIOD_MS, period_ms=_ALIVE_PERIOD_MS
        )

    def _cut(self) -> TableScan:
        return self._cutter.cut(self._scan)

    def _take(self, scan: TableScan | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        assert scan is not None
        self._scan, self._complete = replace(scan, waiting=()), scan.complete
        self.add_splits(scan.waiting)
        if not scan.complete:
            self._context.call_async(self._cut, self._take)

    def _checked(self, _: None, error: Exception | None) -> None:
        if error is not None:  # the readers would go on at different moments
            raise error

    def snapshot_state(self, checkpoint_id: int) -> TableScan:
        """Return the ranges that wait, and where the rest of the table begins."""
        del checkpoint_id
        return replace(self._scan, waiting=tuple(self.waiting_splits))

    def close(self) -> None:
        """Let go of the snapshot."""
        self._cutter.close()


class TableSourceReader(SequentialSourceReader[dict[str, Any], TableSplit]):
    """Reads ranges, each page by a query in the snapshot."""

    emits_new_records = True

    def __init__(self, context: SourceReaderContext, options: TableOptions) -> None:
        super().__init__(context)
        self._options = options
        self._session = Session(options.address, f"Reading {options.table}")
        #: The snapshot of the open transaction; None without one.
        self._snapshot: str | None = None
        self._reader: TableReader
        self._lost = context.metric_group.counter("snapshotsLost")

    def open_split(self, split: TableSplit) -> SplitCursor[dict[str, Any], TableSplit]:
        """Open a range at its position."""
        return _TableCursor(self, split)

    def read(self, split: TableSplit) -> Page:
        """Return the next page of a range."""
        with self._session.naming():
            if self._snapshot != split.snapshot:
                self._begin(split.snapshot, split.mark)
            return self._reader.read(self._session.connection, split.keys, self._options.fetched_rows)

    @property
    def page_rows(self) -> int:
        """The most rows of a page; one with fewer is the last of its range."""
        return self._options.fetched_rows

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self._reader.columns

    def _begin(self, snapshot: str, mark: TableMark) -> None:
        if self._snapshot is not None:
            run(self._session.connection, "ROLLBACK")
        self._snapshot = None
        connection = self._session.connection
        run(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'".encode())
            table = find_table(connection, self._options.table)
        except (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject):
            # The driver that exported it has ended since: this job continues another run.
            run(connection, "ROLLBACK")
            table = begin_reading(connection, self._options.table)
            self._lost.inc()
            _LOG.warning(
                "The snapshot in which %s was read ended with the run that this job continues; the rest of its ranges "
                "are read as they are now.",
                self._options.table,
            )
        self._reader, _ = self._options.reader(connection, table, mark)
        self._snapshot = snapshot

    def close(self) -> None:
        """Close the connection."""
        super().close()
        self._session.close()


class _TableCursor(SplitCursor[dict[str, Any], TableSplit]):
    def __init__(self, reader: TableSourceReader, split: TableSplit) -> None:
        self._reader, self._split = reader, split
        self._page: Page = Page([], [])
        self._position = 0
        self._is_last = False

    def poll_next(self, output: SourceOutput[dict[str, Any]]) -> InputStatus:
        if self._position == len(self._page.rows):
            if self._is_last:
                return InputStatus.END_OF_INPUT
            self._page, self._position = self._reader.read(self._split), 0
            self._is_last = len(self._page.rows) < self._reader.page_rows
        end = min(self._position + min(_BLOCK, output.wanted), len(self._page.rows))
        if end > self._position:
            output.collect_all(records_of(self._reader.columns, self._page.rows[self._position : end]))
            self._position = end
            self._split = replace(self._split, keys=replace(self._split.keys, start=self._page.keys[end - 1]))
        done = self._is_last and end == len(self._page.rows)
        return InputStatus.END_OF_INPUT if done else InputStatus.MORE_AVAILABLE

    def snapshot(self) -> TableSplit:
        return self._split


class PostgresSource(Source[dict[str, Any], TableSplit, TableScan]):
    """Reads a table of a PostgreSQL database, each row as a dict, and then ends.

    The table is cut into ranges of its key, which the subtasks share. All of them read in one snapshot, so that the
    rows are those of one moment; the driver holds it in a separate transaction. A job that restarts from a checkpoint
    continues in a new snapshot: each key is still read at most once.

    Source: the JDBC and CDC connectors of Flink; there is none in PyFlink.

    Example:
        >>> source = (
        ...     PostgresSource.builder()
        ...     .set_url("postgresql://reader@db.example/shop")
        ...     .set_table("sales.orders")
        ...     .build()
        ... )
        >>> source
        PostgresSource(sales.orders of postgresql://db.example/shop)
    """

    def __init__(self, options: TableOptions) -> None:
        self._options = options

    @staticmethod
    def builder() -> PostgresSourceBuilder:
        """Begin a source."""
        return PostgresSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(self, enum_context: SplitEnumeratorContext[TableSplit]) -> TableEnumerator:
        """Make the enumerator, which cuts the table."""
        return TableEnumerator(enum_context, self._options, TableScan())

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[TableSplit], checkpoint: TableScan
    ) -> TableEnumerator:
        """Make an enumerator that cuts the rest of the table."""
        return TableEnumerator(enum_context, self._options, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> TableSourceReader:
        """Make a reader of ranges."""
        return TableSourceReader(reader_context, self._options)

    def __repr__(self) -> str:
        return f"PostgresSource({self._options.table} of {self._options.address})"


class PostgresSourceBuilder(RangesBuilder):
    """Builds a :class:`PostgresSource`."""

    def __init__(self) -> None:
        super().__init__(split_rows=50_000)
        self._table = ""
        self._columns: tuple[str, ...] = ()
        self._key_columns: tuple[str, ...] = ()
        self._fetch_size = _FETCHED_ROWS

    def set_table(self, table: str) -> Self:
        """Set the table, as in SQL: ``orders``, ``sales.orders`` or ``sales."Orders"``."""
        self._table = table
        return self

    def set_columns(self, *columns: str) -> Self:
        """Set the columns to read; all of them by default.

        Raises:
            TypeError: One is no text.
        """
        self._columns = texts("columns", columns)
        return self

    def set_key_columns(self, *columns: str) -> Self:
        """Set the columns of a unique index, none of them nullable, by which the table is cut.

        By default that is the primary key, which may have several columns of any types that can be ordered.

        Raises:
            TypeError: One is no text.
        """
        self._key_columns = texts("columns", columns)
        return self

    def set_fetch_size(self, rows: int) -> Self:
        """Set the number of rows that one query fetches; 8,192 by default.

        Raises:
            ConfigurationError: It is less than 1.
        """
        self._fetch_size = at_least_one("PostgresSourceBuilder.set_fetch_size", rows)
        return self

    def build(self) -> PostgresSource:
        """Make the source.

        Raises:
            ConfigurationError: The table was not set.
        """
        table = self._needed(self._table, "set_table")
        chosen = table, self._columns, self._key_columns, self._split_size, self._fetch_size, self._text_columns
        return PostgresSource(TableOptions(self._built_address(), *chosen))


show("penstock.datastream.connectors.postgres", PostgresSource, PostgresSourceBuilder)

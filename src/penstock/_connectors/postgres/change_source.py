"""The change stream as a source: its reader and its builder."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from penstock._api.connectors.reader import InputStatus, SourceReader
from penstock._api.connectors.source import Boundedness, Source
from penstock._connectors.postgres.builders import RangesBuilder, at_least_one
from penstock._connectors.postgres.change_stream import ChangeStream
from penstock._connectors.postgres.changes import PostgresChange
from penstock._connectors.postgres.client import Session, one
from penstock._connectors.postgres.handover import ChangeSegment
from penstock._connectors.postgres.ranges import KeyRange, TableReader
from penstock._connectors.postgres.slot import ANEW, check_name, drop_slot
from penstock._connectors.postgres.splits import (
    STREAM,
    AnyConnection,
    AnySplit,
    ChangeOptions,
    ChangesState,
    RangeDone,
    RangeKnown,
    RangeSplit,
)
from penstock._connectors.postgres.tables import one_moment
from penstock._connectors.postgres.types import codecs_of
from penstock._connectors.postgres.watching import named_table
from penstock._shelf import show
from penstock.common.arguments import texts
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock._api.connectors.reader import ReaderOutput, SourceReaderContext
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock._api.connectors.split import SourceEvent
    from penstock._connectors.postgres.change_enumerator import ChangeEnumerator

_BLOCK: Final = 2048
_FETCHED_CHANGES: Final = 20_000


@dataclass(slots=True)
class _OpenPage:
    """Rows of a range that were read at once; those before ``next`` are emitted."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    keys: list[tuple[str, ...]]
    #: The keys that the rows stand for, up to the end of the range where no row follows.
    segment: ChangeSegment
    is_last: bool
    next: int = 0


class ChangeReader(SourceReader[PostgresChange, AnySplit]):
    """Reads ranges of tables, and then the changes, if it is the reader that has them.

    Args:
        context: The reader's context.
        options: What is read.
    """

    emits_new_records = True

    def __init__(self, context: SourceReaderContext, options: ChangeOptions) -> None:
        self._context, self._options = context, options
        self._session = Session(options.address, f"Reading {', '.join(options.tables)}")
        self._ranges: deque[RangeSplit] = deque()
        self._done: dict[str, RangeSplit] = {}
        self._page: _OpenPage | None = None
        self._stream: ChangeStream | None = None
        self._finished = 0
        self._requested = self._no_more_splits = False

    def add_splits(self, splits: list[AnySplit]) -> None:
        """Take splits; a range that was read before is told of again, until the enumerator knows it."""
        self._requested = False
        for split in splits:
            if not isinstance(split, RangeSplit):
                self._stream = ChangeStream(self._options, split)
            elif split.done:
                self._report_done(split)
            else:
                self._ranges.append(split)

    def _report_done(self, split: RangeSplit) -> None:
        self._done[split.split_id()] = split
        self._context.send_source_event_to_coordinator(RangeDone(split))

    def handle_source_events(self, source_event: SourceEvent) -> None:
        """Forget a range that the enumerator knows."""
        if isinstance(source_event, RangeKnown):
            self._done.pop(source_event.split_id, None)

    def notify_no_more_splits(self) -> None:
        """End after the current splits."""
        self._no_more_splits = True

    def poll_next(self, output: ReaderOutput[PostgresChange]) -> InputStatus:
        """Emit rows of a range, or changes."""
        if self._ranges:
            self._poll_range(output)
            return InputStatus.MORE_AVAILABLE
        if self._stream is not None:
            return self._poll_stream(self._stream, output)
        if self._no_more_splits and not self._done:
            return InputStatus.END_OF_INPUT
        self._request_splits()
        return InputStatus.NOTHING_AVAILABLE

    def _poll_stream(self, stream: ChangeStream, output: ReaderOutput[PostgresChange]) -> InputStatus:
        found = stream.poll(output.create_output_for_split(STREAM))
        if stream.ended:
            output.release_output_for_split(STREAM)
            stream.close()
            self._stream = None
            return InputStatus.MORE_AVAILABLE
        return InputStatus.MORE_AVAILABLE if found else InputStatus.NOTHING_AVAILABLE

    def _poll_range(self, output: ReaderOutput[PostgresChange]) -> None:
        split = self._ranges[0]
        page = self._page = self._page or self._session.repeat(lambda connection: self._read(connection, split))
        end = min(page.next + min(_BLOCK, output.wanted), len(page.rows))
        rows = page.rows[page.next : end]
        columns, table, lsn, now = page.columns, split.table, page.segment.lsn, split.started_ms
        records = [
            PostgresChange("read", table, None, dict(zip(columns, row, strict=True)), lsn=lsn, timestamp_ms=now)
            for row in rows
        ]
        split_output = output.create_output_for_split(split.split_id())
        if records:
            split_output.collect_all(records, [now] * len(records))
        page.next = end
        if end < len(page.rows):
            return
        self._page = None
        keys = page.segment.keys
        # Behind the last row of a full range there is nothing more, and no segment.
        segments = split.segments if keys.start == keys.end and keys.end else (*split.segments, page.segment)
        read = replace(split, keys=replace(split.keys, start=keys.end), segments=segments)
        if not page.is_last:
            self._ranges[0] = read
            return
        self._ranges.popleft()
        self._finished += 1
        output.release_output_for_split(split.split_id())
        self._report_done(replace(read, done=True))

    def _read(self, connection: AnyConnection, split: RangeSplit) -> _OpenPage:
        """Read the rest of a range, or as much of it as one page has."""
        name = named_table(connection, self._options.tables, split.mark).sql.replace("%%", "%")
        with one_moment(connection, name) as table:
            split.mark.check(table, table.key(), way_out=ANEW)
            columns = [column for column in table.columns if not column.generated]
            codecs = codecs_of(connection, str(table), columns, self._options.text_columns)
            reader = TableReader(table, table.key(), [column.name for column in columns], codecs)
            (snapshot,) = one(connection, "SELECT pg_current_snapshot()::text")
            page = reader.read(connection, split.keys, self._options.split_rows)
            (lsn,) = one(connection, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
        is_last = len(page.rows) < self._options.split_rows
        end = split.keys.end if is_last else page.keys[-1]
        segment = ChangeSegment(KeyRange(split.keys.start, end), snapshot, lsn)
        return _OpenPage(reader.columns, page.rows, page.keys, segment, is_last)

    def is_available(self, timeout_ms: int = 0) -> bool:
        """Wait for changes; new splits arrive only with the next epoch."""
        if self._ranges:
            return True
        return self._stream is not None and self._stream.is_available(timeout_ms)

    def snapshot_state(self, checkpoint_id: int) -> list[AnySplit]:
        """Return the splits at their positions; request ranges for the next epoch."""
        self._request_splits()
        ranges = list(self._ranges)
        if self._page is not None and self._page.next:
            page, split = self._page, ranges[0]
            key = page.keys[page.next - 1]
            segment = replace(page.segment, keys=KeyRange(page.segment.keys.start, key))
            ranges[0] = replace(split, keys=replace(split.keys, start=key), segments=(*split.segments, segment))
        stream = [] if self._stream is None else [self._stream.snapshot(checkpoint_id)]
        return [*ranges, *self._done.values(), *stream]

    def _request_splits(self) -> None:
        missing = max(1, 2 * self._finished) - len(self._ranges)
        self._finished = 0
        if missing > 0 and not (self._requested or self._no_more_splits or self._stream is not None):
            self._requested = True
            for _ in range(missing):
                self._context.send_split_request()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Advance the slot."""
        if self._stream is not None:
            self._stream.checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        """Close all connections."""
        self._session.close()
        if self._stream is not None:
            self._stream.close()


class PostgresChangeSource(Source[PostgresChange, AnySplit, ChangesState]):
    """Reads tables of a PostgreSQL database, and then all changes of them, each once, as a :class:`PostgresChange`.

    At the first start it makes a replication slot and a publication, unless they are there. The rows are read by ranges
    of the key in all subtasks; then one subtask follows the changes in the order of their commits. A change is either
    shown by the rows, or follows them, and never both. The slot is advanced when a checkpoint is durable, so that the
    server keeps what a restart needs. It keeps it as long as the job is down, and the slot is there: see
    :meth:`drop_slot`.

    Source: the PostgreSQL connector of Flink CDC; PyFlink has none.

    Example:
        >>> source = (
        ...     PostgresChangeSource.builder()
        ...     .set_url("postgresql://replicator@db.example/shop")
        ...     .set_tables("sales.orders")
        ...     .set_slot_name("orders_job")
        ...     .build()
        ... )
        >>> source
        PostgresChangeSource(sales.orders of postgresql://db.example/shop by slot orders_job)
    """

    def __init__(self, options: ChangeOptions) -> None:
        self._options = options

    @staticmethod
    def builder() -> PostgresChangeSourceBuilder:
        """Begin a source."""
        return PostgresChangeSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return CONTINUOUS_UNBOUNDED, or BOUNDED if the builder was told so."""
        return Boundedness.BOUNDED if self._options.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, enum_context: SplitEnumeratorContext[AnySplit]) -> ChangeEnumerator:
        """Make the enumerator, which makes the slot."""
        return self.restore_enumerator(enum_context, ChangesState())

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[AnySplit], checkpoint: ChangesState
    ) -> ChangeEnumerator:
        """Make an enumerator that continues."""
        from penstock._connectors.postgres.change_enumerator import ChangeEnumerator

        return ChangeEnumerator(enum_context, self._options, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> ChangeReader:
        """Make a reader."""
        return ChangeReader(reader_context, self._options)

    def drop_slot(self) -> None:
        """Drop the replication slot and the publication, so that the server keeps no log for this job any more.

        Call it when the job shall never continue from its checkpoints and savepoints.

        Raises:
            DatabaseError: The server refuses it, for example while the job runs.
        """
        session = Session(self._options.address, f"Dropping slot {self._options.slot}")
        try:
            session.repeat(lambda connection: drop_slot(connection, self._options.slot, self._options.publication))
        finally:
            session.close()

    def __repr__(self) -> str:
        tables = ", ".join(self._options.tables)
        return f"PostgresChangeSource({tables} of {self._options.address} by slot {self._options.slot})"


class PostgresChangeSourceBuilder(RangesBuilder):
    """Builds a :class:`PostgresChangeSource`."""

    def __init__(self) -> None:
        super().__init__(split_rows=8_192)
        self._tables: tuple[str, ...] = ()
        self._slot = self._publication = ""
        self._fetch_size = _FETCHED_CHANGES
        self._snapshot, self._bounded = True, False

    def set_tables(self, *tables: str) -> Self:
        """Set the tables, as in SQL, each with a primary key.

        Raises:
            TypeError: One is no text.
        """
        self._tables = texts("tables", tables)
        return self

    def set_slot_name(self, slot_name: str) -> Self:
        """Set the name of the replication slot, which no other job uses.

        Raises:
            ConfigurationError: It is no name of a slot.
        """
        self._slot = check_name("PostgresChangeSourceBuilder.set_slot_name", slot_name)
        return self

    def set_publication_name(self, publication_name: str) -> Self:
        """Set the name of the publication; by default that of the slot.

        Raises:
            ConfigurationError: It is no name of a publication.
        """
        self._publication = check_name("PostgresChangeSourceBuilder.set_publication_name", publication_name)
        return self

    def set_snapshot(self, snapshot: bool) -> Self:
        """Set whether the rows are read before their changes; without it the stream begins with the slot."""
        self._snapshot = snapshot
        return self

    def set_bounded(self) -> Self:
        """End the source at the changes that were committed when the rows had been read."""
        self._bounded = True
        return self

    def set_fetch_size(self, changes: int) -> Self:
        """Set the number of changes after which a look at the slot ends; 20,000 by default.

        Raises:
            ConfigurationError: It is less than 1.
        """
        self._fetch_size = at_least_one("PostgresChangeSourceBuilder.set_fetch_size", changes)
        return self

    def build(self) -> PostgresChangeSource:
        """Make the source.

        Raises:
            ConfigurationError: No table or slot was set.
        """
        slot = self._needed(self._slot, "set_slot_name")
        if not self._tables:
            raise ConfigurationError(f"{type(self).__name__}.set_tables", "", "it must be called before build()")
        publication = self._publication or slot
        options = ChangeOptions(
            self._built_address(), self._tables, slot, publication, self._split_size, self._fetch_size
        )
        return PostgresChangeSource(
            replace(options, reads_tables=self._snapshot, bounded=self._bounded, text_columns=self._text_columns)
        )


show("penstock.datastream.connectors.postgres", PostgresChangeSource, PostgresChangeSourceBuilder)

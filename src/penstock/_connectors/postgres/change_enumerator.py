"""The enumerator of a change stream: it makes the slot, cuts the tables, and lets one reader follow the changes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock._api.connectors.enumerator_base import SplitQueueEnumerator
from penstock._connectors.postgres.client import SharedSession, one
from penstock._connectors.postgres.ranges import KeyRange, TableReader
from penstock._connectors.postgres.slot import check_identity, check_position, make_slot, slot_status
from penstock._connectors.postgres.splits import (
    AnyConnection,
    AnySplit,
    ChangeOptions,
    ChangesState,
    RangeDone,
    RangeKnown,
    RangeSplit,
    StreamSplit,
)
from penstock._connectors.postgres.tables import find_table
from penstock._connectors.postgres.watching import check_columns, marks_of, named_table
from penstock.errors import InternalError

if TYPE_CHECKING:
    from penstock._api.connectors.source import SplitEnumeratorContext
    from penstock._api.connectors.split import SourceEvent
    from penstock._connectors.postgres.handover import ChangeSegment
    from penstock._connectors.postgres.slot import SlotStatus

_RANGES_IN_A_STEP: Final = 32
_LOOK_PERIOD_MS: Final = 10_000
_PAUSE_S: Final = 0.05
#: Pages of the log begin with a header of one of these sizes; the end of the log may be given as behind it.
_PAGE_BYTES, _HEADERS = 8192, (24, 40)


class _Driver:
    """What the enumerator asks of the server, on other threads, one after the other."""

    def __init__(self, options: ChangeOptions) -> None:
        self._options = options
        self._session = SharedSession(options.address, f"Preparing the changes of {', '.join(options.tables)}")

    def prepare(self, state: ChangesState) -> ChangesState:
        """Make slot and publication, and wait until all transactions before the slot's beginning are visible."""
        with self._session.alone():
            connection, options = self._session.connection, self._options
            tables = [find_table(connection, name) for name in options.tables]
            for table in tables:
                check_identity(table, table.key().names)
            check_columns(connection, options, tables)
            make_slot(connection, options.slot, options.publication, tables)
            marks = marks_of(connection, options, tables)
            status = self._status(connection)
            (last,) = one(connection, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
            oldest = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
            while one(connection, oldest)[0] < last and not self._session.ended:
                time.sleep(_PAUSE_S)
            (now_ms,) = one(connection, "SELECT (extract(epoch FROM now()) * 1000)::bigint")
            names = tuple(str(table) for table in tables) if options.reads_tables else ()
            return replace(state, slot_lsn=status.confirmed_lsn, started_ms=now_ms, tables=names, marks=marks)

    def _status(self, connection: AnyConnection) -> SlotStatus:
        status = slot_status(connection, self._options.slot)
        if status is None:
            raise InternalError(f"The slot {self._options.slot} was made and is gone.")
        return status

    def cut(self, state: ChangesState) -> ChangesState:
        """Return the state with the next ranges as those that wait."""
        with self._session.alone():
            connection, name, end = self._session.connection, state.tables[0], state.end
            mark = next(one for one in state.marks.values() if one.name == name)
            table = named_table(connection, self._options.tables, mark)
            reader = TableReader(table, table.key(), (), ())
            found: list[RangeSplit] = []
            complete = False
            while not complete and len(found) < _RANGES_IN_A_STEP:
                start, end = end, reader.find_bound(connection, end, self._options.split_rows)
                complete = end is None
                keys = KeyRange(start, end)
                found.append(RangeSplit(state.found + len(found), name, keys, mark, state.started_ms))
            return replace(
                state,
                waiting=tuple(found),
                tables=state.tables[1:] if complete else state.tables,
                end=end,
                found=state.found + len(found),
            )

    def look(self, slot_lsn: int | None) -> int:
        """Return the bytes of the log that the server keeps for the slot, which must still be there."""
        with self._session.alone():
            if self._session.ended or slot_lsn is None:
                return 0
            # The reader compares its position with the slot's; here it is enough that the slot exists.
            slot = self._options.slot
            return self._session.repeat(lambda connection: check_position(connection, slot, 1 << 62)).retained_bytes

    def close(self) -> None:
        """Close the connection."""
        self._session.end()


class ChangeEnumerator(SplitQueueEnumerator[AnySplit, ChangesState]):
    """Has the tables read by ranges, and then the changes by one reader."""

    def __init__(self, context: SplitEnumeratorContext[AnySplit], options: ChangeOptions, state: ChangesState) -> None:
        super().__init__(context, state.waiting, complete=state.streaming)
        self._state, self._options = replace(state, waiting=()), options
        self._driver = _Driver(options)
        self._retained = 0
        context.metric_group.gauge("retainedWalBytes", lambda: self._retained)

    def start(self) -> None:
        """Make the slot at the first start; later look whether it is there."""
        self._context.set_is_processing_backlog(not self._state.streaming)
        if self._state.slot_lsn is None:
            self._context.call_async(lambda: self._driver.prepare(self._state), self._go_on)
        else:
            self._context.call_async(self._look, self._looked)
            self._continue()
        self._context.call_async(self._look, self._looked, initial_delay_ms=_LOOK_PERIOD_MS, period_ms=_LOOK_PERIOD_MS)

    def _look(self) -> int:
        return self._driver.look(self._state.slot_lsn)

    def _looked(self, retained: int | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        self._retained = retained or 0

    def _go_on(self, state: ChangesState | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        assert state is not None
        # Readers may have told of ranges meanwhile.
        ids = {split.split_id() for split in state.waiting}
        self._state = replace(state, waiting=(), open=self._state.open | ids, segments=self._state.segments)
        self.add_splits(state.waiting)
        self._continue()

    def _continue(self) -> None:
        """Cut the next ranges, or begin the stream once all are read."""
        state = self._state
        if state.tables:
            self._context.call_async(lambda: self._driver.cut(self._state), self._go_on)
        elif not state.open and not state.streaming and state.slot_lsn is not None:
            self._state = replace(state, streaming=True, segments={})
            self._context.set_is_processing_backlog(False)
            until = None
            if self._options.bounded:
                read = [segment.lsn for segments in state.segments.values() for segment in segments]
                until = _before_header(max([state.slot_lsn, *read]))
            segments = {name: _in_order(parts) for name, parts in state.segments.items()}
            self._complete = True
            self.add_splits([StreamSplit(state.slot_lsn, segments=segments, marks=state.marks, until_lsn=until)])
            self._end_if_done()

    def handle_source_event(self, subtask_id: int, source_event: SourceEvent) -> None:
        """Note a range that was read, and tell the reader that it is noted."""
        assert isinstance(source_event, RangeDone)
        split = source_event.split
        if split.split_id() in self._state.open:
            segments = {**self._state.segments}
            segments[split.table] = (*segments.get(split.table, ()), *split.segments)
            self._state = replace(self._state, open=self._state.open - {split.split_id()}, segments=segments)
        self._context.send_event_to_source_reader(subtask_id, RangeKnown(split.split_id()))
        if not self._state.tables:
            self._continue()

    def snapshot_state(self, checkpoint_id: int) -> ChangesState:
        """Return the state."""
        del checkpoint_id
        return replace(self._state, waiting=tuple(self.waiting_splits))

    def close(self) -> None:
        """Close the connection; slot and publication stay, for the job may continue."""
        self._driver.close()


def _in_order(segments: tuple[ChangeSegment, ...]) -> tuple[ChangeSegment, ...]:
    """Return a table's segments in the order of their keys: each begins where another ends."""
    by_start = {segment.keys.start: segment for segment in segments}
    ordered: list[ChangeSegment] = []
    start = None
    while len(ordered) < len(segments):
        segment = by_start[start]
        ordered.append(segment)
        start = segment.keys.end
    return tuple(ordered)


def _before_header(lsn: int) -> int:
    """Return the end of the page before, for a position at which its page has nothing but its header."""
    inside = lsn % _PAGE_BYTES
    return lsn - inside if inside in _HEADERS else lsn

"""Follows the changes in a slot: it looks at them in bounded steps, and advances the slot behind checkpoints."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import Format

from penstock._connectors.postgres.changes import PostgresChange
from penstock._connectors.postgres.client import Session, run
from penstock._connectors.postgres.handover import Handover
from penstock._connectors.postgres.pgoutput import (
    Begin,
    CommitMessage,
    Decoder,
    Relation,
    RowChange,
    Truncate,
    Unchanged,
)
from penstock._connectors.postgres.ranges import unreadable
from penstock._connectors.postgres.slot import advance, check_position, end_of_log, lsn_text
from penstock._connectors.postgres.types import ColumnType, codecs_of
from penstock._connectors.postgres.watching import TableWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from penstock._api.connectors.reader import SourceOutput
    from penstock._connectors.postgres.pgoutput import Values
    from penstock._connectors.postgres.splits import ChangeOptions, StreamSplit
    from penstock._connectors.postgres.values import Codec
    from penstock.errors import RecordValueError

_FETCHED: Final = 2_000
_LEAST_PAUSE_S: Final = 0.1
#: Looking again costs the server the log since the slot's position: so much of the time is spent on it at most.
_SHARE: Final = 4
_CURSOR: Final = "penstock_changes"


@dataclass(frozen=True, slots=True)
class _Position:
    """See StreamSplit."""

    lsn: int
    transaction_lsn: int = 0
    skip: int = 0


class ChangeStream:
    """The reader's end of a slot.

    Args:
        options: What is read.
        split: Where the stream continues.
    """

    def __init__(self, options: ChangeOptions, split: StreamSplit) -> None:
        self._options, self._split = options, split
        self._session = Session(options.address, f"Reading changes of {', '.join(options.tables)}")
        self._keeper = Session(options.address, f"Advancing slot {options.slot}")
        self._position: _Position = _Position(split.lsn, split.transaction_lsn, split.skip)
        self._after_block: _Position = self._position
        self._records: list[PostgresChange] = []
        #: The position after each of the records.
        self._positions: list[_Position] = []
        self._next = 0
        self._handover: Handover | None = None
        self._maker: RecordMaker
        self._watch = TableWatch(options, split.marks)
        self._decoder = Decoder()
        self._begin: Begin | None = None
        self._count = 0
        self._looked_up = False
        #: While a cursor is open: the end of the log that it shows, the rows that it may have, and has had.
        self._shown_lsn: int | None = None
        self._most = self._rows = 0
        self._step = options.fetched_changes
        self._not_before = 0.0
        #: Since when another process has been in the slot.
        self._busy_since: float | None = None
        self._snapshots: dict[int, int] = {split.checkpoint_id: split.lsn}
        self._advanced = 0

    @property
    def ended(self) -> bool:
        """Whether a bounded stream is at its end."""
        until = self._split.until_lsn
        return until is not None and self._position.lsn >= until and self._next == len(self._records)

    def poll(self, output: SourceOutput[PostgresChange]) -> bool:
        """Emit the next changes; False if there are none now."""
        if self._next == len(self._records) and not self._fetch():
            return False
        end = min(self._next + output.wanted, len(self._records))
        if end > self._next:
            records = self._records[self._next : end]
            output.collect_all(records, [record.timestamp_ms for record in records])
            self._position = self._positions[end - 1]
            self._next = end
        if end == len(self._records):
            self._position = self._after_block
        return True

    def is_available(self, timeout_ms: int) -> bool:
        """Wait until the log of the server has grown, and it is time to look."""
        if self._next < len(self._records) or self._shown_lsn is not None:
            return True
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            pause = self._not_before - time.monotonic()
            if pause <= 0:
                if self._session.repeat(self._end_of_log) > self._position.lsn:
                    return True
                pause = _LEAST_PAUSE_S
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))

    # ------------------------------------------------------------------------------------------------------- steps

    def _fetch(self) -> bool:
        """Fetch the next block of messages, of the open cursor or of a new one; False if there are none now."""
        with self._session.naming():
            if self._shown_lsn is None and not self._look():
                return False
            try:
                with self._session.connection.cursor(binary=True) as cursor:
                    rows = cursor.execute(f"FETCH FORWARD {_FETCHED} FROM {_CURSOR}".encode()).fetchall()
            except psycopg.errors.ObjectInUse as error:  # by an earlier attempt that is about to end
                self._wait_for_slot(error)
                return False
            self._busy_since = None
            if not self._rows:  # it is looked at now: what was forgotten before is not in the slot any more
                check_position(self._session.connection, self._options.slot, self._after_block.lsn)
            self._rows += len(rows)
            self._take([row[0] for row in rows])
            if len(rows) < _FETCHED:
                self._close_cursor()
        return True

    def _look(self) -> bool:
        """Open a cursor on what is in the slot; False if there is nothing new, or it is too early."""
        if time.monotonic() < self._not_before:
            return False
        end = self._session.repeat(self._end_of_log)  # between two looks the server may have been restarted
        connection = self._session.connection
        if not self._looked_up:
            check_position(connection, self._options.slot, self._position.lsn)
        if self._watch.look(connection):
            self._look_up(connection)
        if self._split.until_lsn is not None:
            end = min(end, self._split.until_lsn)
        if end <= self._position.lsn and not self._position.transaction_lsn:
            return False
        began = time.monotonic()
        run(connection, "BEGIN")
        publication = self._options.publication.replace('"', '""').replace("'", "''")
        statement = (
            f"DECLARE {_CURSOR} NO SCROLL CURSOR FOR SELECT data FROM pg_logical_slot_peek_binary_changes("
            f"'{self._options.slot}', '{lsn_text(end)}', {self._step}, 'proto_version', '1', "
            f"'publication_names', '\"{publication}\"')"
        )
        connection.execute(statement.encode())
        self._shown_lsn, self._most, self._rows = end, self._step, 0
        self._decoder, self._begin = Decoder(), None
        self._not_before = began
        return True

    def _end_of_log(self, connection: psycopg.Connection[Any]) -> int:
        return end_of_log(connection, self._options.slot, self._position.lsn)

    def _wait_for_slot(self, error: psycopg.Error) -> None:
        now = time.monotonic()
        self._busy_since = self._busy_since or now
        if now - self._busy_since > self._options.address.patience_ms / 1000:
            raise error
        run(self._session.connection, "ROLLBACK")
        self._shown_lsn, self._not_before = None, now + _LEAST_PAUSE_S

    def _look_up(self, connection: psycopg.Connection[Any]) -> None:
        """Learn the tables as they are now."""
        tables = self._watch.tables
        keys = {oid: table.key() for oid, table in tables.items()}
        names = {oid: str(table) for oid, table in tables.items()}
        if not self._looked_up and self._split.segments:
            marks = self._watch.marks
            self._handover = Handover({oid: self._split.segments.get(marks[oid].name, ()) for oid in names}, keys)
        elif self._looked_up:  # a table that is renamed keeps its name until the job starts again
            names = {oid: self._maker.names.get(oid, name) for oid, name in names.items()}
        key_names = {oid: key.names for oid, key in keys.items()}
        self._maker = RecordMaker(connection, names, key_names, self._options.text_columns)
        self._looked_up = True

    def _close_cursor(self) -> None:
        run(self._session.connection, "ROLLBACK")
        shown, self._shown_lsn = self._shown_lsn, None
        assert shown is not None
        if self._rows < self._most:  # it has shown all up to there
            self._after_block = _Position(max(shown, self._after_block.lsn))
            self._not_before = time.monotonic() + max(_LEAST_PAUSE_S, _SHARE * (time.monotonic() - self._not_before))
        else:
            self._step *= 2  # what was read is shown again until the slot is advanced
        if not self._records:
            self._position = self._after_block

    def _take(self, messages: Sequence[bytes]) -> None:
        """Turn messages into the next block of records."""
        changes: list[tuple[int, RowChange | Truncate]] = []
        marks: list[tuple[_Position, Begin]] = []
        position = self._after_block
        for data in messages:
            message = self._decoder.decode(data)
            if isinstance(message, Begin):
                self._begin, self._count = message, 0
            elif isinstance(message, CommitMessage):
                if message.commit_lsn >= position.lsn:
                    position = _Position(message.end_lsn)
            elif message is not None:
                begin = self._begin
                assert begin is not None
                self._count += 1
                partly = position.skip if begin.commit_lsn == position.transaction_lsn else 0
                if begin.commit_lsn >= position.lsn and self._count > partly:
                    position = _Position(position.lsn, begin.commit_lsn, self._count)
                    wanted = self._maker.wanted(message)
                    if wanted is not None:
                        changes.append((begin.xid, wanted))
                        marks.append((position, begin))
        self._make_records(changes, marks)
        self._after_block, self._next = position, 0
        if not self._records:
            self._position = position

    def _make_records(
        self, changes: Sequence[tuple[int, RowChange | Truncate]], marks: Sequence[tuple[_Position, Begin]]
    ) -> None:
        self._records, self._positions = [], []
        left = [[change] for _, change in changes]
        if self._handover is not None and changes:
            if self._handover.is_over(marks[0][1].commit_lsn):
                self._handover = None
                self._split = replace(self._split, segments={})
            else:
                left = self._handover.filtered(self._session.connection, changes)
        for (position, begin), parts in zip(marks, left, strict=True):
            for part in parts:
                records = self._maker.records(part, begin)
                self._records += records
                self._positions += [position] * len(records)

    # --------------------------------------------------------------------------------------------------- checkpoints

    def snapshot(self, checkpoint_id: int) -> StreamSplit:
        """Return the split at the position after the last emitted record."""
        at = self._position
        self._snapshots[checkpoint_id] = at.lsn
        return replace(
            self._split,
            marks=self._watch.marks,
            lsn=at.lsn,
            transaction_lsn=at.transaction_lsn,
            skip=at.skip,
            checkpoint_id=checkpoint_id,
        )

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """Advance the slot to the position of a durable checkpoint."""
        known = [one for one in self._snapshots if one <= checkpoint_id]
        if not known:
            return
        lsn = self._snapshots[max(known)]
        for one in known:
            if one != max(known):
                del self._snapshots[one]
        if lsn <= self._advanced or not self._looked_up:
            return
        with self._keeper.naming(), contextlib.suppress(psycopg.errors.ObjectInUse):  # the next checkpoint does it
            advance(self._keeper.connection, self._options.slot, lsn)
            self._advanced, self._step = lsn, self._options.fetched_changes

    def close(self) -> None:
        """Close the connections."""
        self._session.close()
        self._keeper.close()


class RecordMaker:
    """Makes records of changes, with values as psycopg reads them from a table.

    Args:
        connection: A connection.
        names: By the number of a table: its name. The publication may have others as well.
        keys: By the number of a table: the columns of its key.
        text_columns: The columns whose values are texts.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        names: Mapping[int, str],
        keys: Mapping[int, Sequence[str]],
        text_columns: Collection[str] = (),
    ) -> None:
        self._connection, self._keys, self._text_columns = connection, keys, text_columns
        self.names = names
        self._transformer = Transformer(connection)
        self._loaders: dict[Relation, list[Callable[[bytes], Any]]] = {}

    def wanted(self, change: RowChange | Truncate) -> RowChange | Truncate | None:
        """Return what a change says of the tables; None for nothing."""
        if isinstance(change, RowChange):
            return change if change.relation.oid in self.names else None
        kept = tuple(relation for relation in change.relations if relation.oid in self.names)
        return Truncate(kept) if kept else None

    def records(self, change: RowChange | Truncate, begin: Begin) -> list[PostgresChange]:
        """Return the records of a change."""
        place: dict[str, Any] = {"lsn": begin.commit_lsn, "timestamp_ms": begin.timestamp_ms}
        if isinstance(change, Truncate):
            return [PostgresChange("truncate", self.names[relation.oid], **place) for relation in change.relations]
        relation, old, new = change.relation, change.old, change.new
        before = after = None
        unchanged: list[str] = []
        if old is not None:
            before = self._fields(relation, old, only_key=change.old_is_key)
        if new is not None:
            if Unchanged.TOAST in new:
                new = _known(relation, new, old, only_key=change.old_is_key)
                unchanged = [
                    name for name, value in zip(relation.columns, new, strict=True) if value is Unchanged.TOAST
                ]
            after = self._fields(relation, new)
        changed = change.op == "update" and old is not None and new is not None and self._moves(relation, old, new)
        return [PostgresChange(change.op, self.names[relation.oid], before, after, tuple(unchanged), changed, **place)]

    def _moves(self, relation: Relation, old: Values, new: Values) -> bool:
        """Tell whether an update has changed the key."""
        places = [relation.columns.index(name) for name in self._keys[relation.oid]]
        return any(new[place] is not Unchanged.TOAST and old[place] != new[place] for place in places)

    def _fields(self, relation: Relation, values: Values, *, only_key: bool = False) -> dict[str, Any]:
        loaders = self._loaders.get(relation) or self._learn(relation)
        fields: dict[str, Any] = {}
        for place, (value, is_key) in enumerate(zip(values, relation.is_key, strict=True)):
            if isinstance(value, Unchanged) or (only_key and not is_key):
                continue
            try:
                fields[relation.columns[place]] = None if value is None else loaders[place](value)
            except (ValueError, psycopg.DataError) as error:
                raise self._unreadable(relation, place, values, error) from error
        return fields

    def _unreadable(self, relation: Relation, place: int, values: Values, error: Exception) -> RecordValueError:
        texts = [value.decode() if isinstance(value, bytes) else None for value in values]
        record = f"{dict(zip(relation.columns, texts, strict=True))!r:.200} of {relation}"
        codec = self._codecs(relation)[place]
        return unreadable(relation.columns[place], record, codec, texts[place] or "", error)

    def _codecs(self, relation: Relation) -> list[Codec]:
        columns = [ColumnType(name, "", oid) for name, oid in zip(relation.columns, relation.types, strict=True)]
        return codecs_of(self._connection, str(relation), columns, self._text_columns)

    def _learn(self, relation: Relation) -> list[Callable[[bytes], Any]]:
        loaders = [self._loader(codec) for codec in self._codecs(relation)]
        self._loaders[relation] = loaders
        return loaders

    def _loader(self, codec: Codec) -> Callable[[bytes], Any]:
        """Return what reads a value as it is read from a table."""
        if codec.is_native:
            return self._transformer.get_loader(codec.oid, Format.TEXT).load
        parse = codec.parse
        return lambda data: parse(bytes(data).decode())


def _known(relation: Relation, new: Values, old: Values | None, *, only_key: bool) -> Values:
    """Return a new row with those of its long values that the old row, or the old key, has."""
    if old is None:
        return new
    return [
        before if value is Unchanged.TOAST and (is_key or not only_key) else value
        for value, before, is_key in zip(new, old, relation.is_key, strict=True)
    ]

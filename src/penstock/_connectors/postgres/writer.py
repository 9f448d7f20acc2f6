"""The writers: one stages rows for the committer, the other writes them at once."""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

import psycopg

from penstock._api.connectors.sink import CommittingSinkWriter, SinkWriter
from penstock._connectors.postgres.client import Session, one, run
from penstock._connectors.postgres.staging import Maker, SinkOptions, StagedTable, Target, staged_name
from penstock.errors import RecordValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._api.connectors.sink import SinkWriterContext, WriterInitContext
    from penstock._connectors.postgres.client import Address
    from penstock._connectors.postgres.rows import RowMaker

_BUFFERED_ROWS: Final = 5_000
_DIRECT: Final = "penstock_direct"


class StagedTableWriter(CommittingSinkWriter[Any, StagedTable]):
    """Copies the rows of an epoch into a staged table, in one transaction.

    Args:
        context: The writer's context.
        options: What the sink writes.
    """

    def __init__(self, context: WriterInitContext, options: SinkOptions) -> None:
        self._context, self._options = context, options
        self._session = Session(options.address, f"Staging rows for {options.table}")
        self._target: Target | None = None
        self._maker: RowMaker
        self._copy: psycopg.Copy | None = None
        self._copying = contextlib.ExitStack()
        self._staged: StagedTable | None = None
        self._name = ""
        self._rows = 0
        self._began_s = 0.0

    def write(self, element: Any, context: SinkWriterContext) -> None:
        """Stage one record."""
        del context
        self.write_all([element])

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        """Stage a block of records.

        Raises:
            DatabaseError: The server refuses it, or the connection is lost; nothing of the epoch counts then.
        """
        del timestamps
        with self._session.naming():
            copy = self._copy or self._begin()
            assert self._target is not None
            rows = staged_rows(self._maker, self._target, elements, self._rows)
            copy_rows(copy, rows, self._options.table)
        self._rows += len(rows)

    def _begin(self) -> psycopg.Copy:
        connection = self._session.connection
        if self._target is None:
            self._target = Target(connection, self._options)
            self._maker = self._target.row_maker
        context = self._context
        self._name, self._rows = staged_name(context), 0
        run(connection, "BEGIN")
        (self._began_s,) = one(connection, "SELECT extract(epoch FROM now())::float8")
        maker = Maker(context.job_id, context.run_id, context.operator_uid, context.checkpoint_id)
        self._target.stage(connection, self._name, maker)
        statement = self._target.copy_sql(self._name).encode()
        self._copy = self._copying.enter_context(connection.cursor().copy(statement))
        return self._copy

    def flush(self, end_of_input: bool) -> None:
        """End the transaction: what is staged is durable then.

        Raises:
            DatabaseError: The server refuses the rows, or the connection is lost.
        """
        del end_of_input
        copy, self._copy = self._copy, None
        if copy is None:
            return
        assert self._target is not None
        with self._session.naming():
            self._copying.close()
            run(self._session.connection, "COMMIT")
        self._staged = StagedTable(self._target.schema, self._name, self._rows, self._began_s)

    def prepare_commit(self) -> list[StagedTable]:
        """Return the staged table of the epoch, if it has any rows."""
        staged, self._staged = self._staged, None
        return [] if staged is None else [staged]

    def close(self) -> None:
        """Close the connection; the server undoes what was not flushed."""
        self._copy = None
        self._session.close()
        with contextlib.suppress(psycopg.Error):
            self._copying.close()


class BufferedWriter(SinkWriter[Any]):
    """Writes blocks of rows, each at once and at least once: a block is repeated after a lost connection.

    Args:
        address: The database.
        what: What it does, for errors.
        most_rows: The size of a block; a checkpoint ends one as well.
        interval_s: The age of its oldest row that ends a block; 0 for none.
    """

    def __init__(self, address: Address, what: str, most_rows: int = _BUFFERED_ROWS, interval_s: float = 0) -> None:
        self._session = Session(address, what)
        self._most_rows, self._interval_s = most_rows, interval_s
        self._records: list[Any] = []
        self._oldest_s = 0.0

    @abstractmethod
    def send(self, connection: psycopg.Connection[tuple[Any, ...]], records: list[Any]) -> None:
        """Write records in one transaction; may be called again with the same ones."""

    def write(self, element: Any, context: SinkWriterContext) -> None:
        """Take one record."""
        del context
        self.write_all([element])

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        """Take a block of records."""
        del timestamps
        if not self._records:
            self._oldest_s = time.monotonic()
        self._records += elements
        while len(self._records) >= self._most_rows:
            self._send(self._most_rows)
        if self._interval_s and self._records and time.monotonic() - self._oldest_s >= self._interval_s:
            self._send(len(self._records))

    def _send(self, count: int) -> None:
        records = self._records[:count]
        self._session.repeat(lambda connection: self.send(connection, records))
        del self._records[:count]

    def flush(self, end_of_input: bool) -> None:
        """Write all that was taken.

        Raises:
            DatabaseError: The server refuses it, or does not answer.
        """
        del end_of_input
        if self._records:
            self._send(len(self._records))

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


class DirectWriter(BufferedWriter):
    """Writes rows into the table at once.

    Args:
        options: What the sink writes.
    """

    def __init__(self, options: SinkOptions) -> None:
        super().__init__(options.address, f"Writing {options.table}")
        self._options = options
        self._target: Target | None = None

    def send(self, connection: psycopg.Connection[tuple[Any, ...]], records: list[Any]) -> None:
        """Write records in one transaction."""
        target = self._target or Target(connection, self._options)
        self._target = target
        rows = staged_rows(target.row_maker, target, records, 0)
        with connection.transaction():
            target.stage_for_now(connection, _DIRECT)
            with connection.cursor().copy(target.copy_now_sql(_DIRECT).encode()) as copy:
                copy_rows(copy, rows, self._options.table)
            target.publish(connection, _DIRECT)


def staged_rows(maker: RowMaker, target: Target, records: Sequence[Any], first: int) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a staged table for some records."""
    if not target.key:
        return maker.rows(records)
    return [(*row, number, kind) for number, (kind, row) in enumerate(maker.changes(records), first)]


def copy_rows(copy: psycopg.Copy, rows: Sequence[tuple[Any, ...]], table: str) -> None:
    """Copy rows.

    Raises:
        RecordValueError: A value has no form in the database.
    """
    write_row = copy.write_row
    row: tuple[Any, ...] = ()
    try:
        for row in rows:
            write_row(row)
    except (psycopg.ProgrammingError, psycopg.DataError) as error:
        if error.sqlstate is not None:  # the server's
            raise
        way_out = "Map it to a value of a type that psycopg writes"
        raise RecordValueError("*", f"{row!r:.200}", table, str(error).removesuffix("."), way_out) from error

"""The writers: one stages rows for the committer, the other writes them at once."""

from __future__ import annotations

import contextlib
import re
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

import psycopg

from penstock._api.connectors.sink import CommittingSinkWriter, SinkWriter
from penstock._connectors.postgres.client import Session, one, quoted, run
from penstock._connectors.postgres.publishing import insert_rows, own_fields
from penstock._connectors.postgres.rows import unwritable
from penstock._connectors.postgres.staging import NOT_NULL, Maker, SinkOptions, StagedTable, Target, staged_name
from penstock._connectors.postgres.tables import locked_table
from penstock.errors import RecordValueError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from penstock._api.connectors.sink import SinkWriterContext, WriterInitContext
    from penstock._connectors.postgres.client import Address
    from penstock._connectors.postgres.rows import RowMaker

_BUFFERED_ROWS: Final = 5_000
_DIRECT: Final = "penstock_direct"
#: Where the server says which value it refuses, and the tables that it names.
_PLACE: Final = re.compile(r"COPY .*?, column (.+?)(?:: (.*))?$", re.MULTILINE)
_STAGED_NAME: Final = re.compile(r'"?(?:penstock_staged_[0-9a-f]+|penstock_direct)"?')


class StagedTableWriter(CommittingSinkWriter[Any, StagedTable]):
    """Copies the rows of an epoch into a staged table, in one transaction.

    Args:
        context: The writer's context.
        options: What the sink writes.
    """

    def __init__(self, context: WriterInitContext, options: SinkOptions) -> None:
        self._context, self._options = context, options
        self._session = Session(options.address, f"Staging rows for {options.table}")
        self._target: Target
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
            RecordValueError: A value does not fit its column, or the table refuses it.
            DatabaseError: The connection is lost; nothing of the epoch counts then.
        """
        del timestamps
        with self._refused():
            copy = self._copy or self._begin()
            rows = staged_rows(self._maker, self._target, elements, self._rows)
            copy_rows(copy, rows, self._target)
        self._rows += len(rows)

    @contextlib.contextmanager
    def _refused(self) -> Generator[None]:
        with self._session.naming():
            try:
                yield
            except (psycopg.DataError, psycopg.IntegrityError) as error:
                raise refused_row(error, self._target) from error

    def _begin(self) -> psycopg.Copy:
        """Begin the rows of an epoch: the table may have changed since the last one."""
        connection, context = self._session.connection, self._context
        self._name, self._rows = staged_name(context), 0
        run(connection, "BEGIN")
        self._target = Target(connection, self._options, locked_table(connection, self._options.table, "ACCESS SHARE"))
        self._maker = self._target.row_maker
        (self._began_s,) = one(connection, "SELECT extract(epoch FROM now())::float8")
        maker = Maker(context.job_id, context.run_id, context.operator_uid, context.checkpoint_id)
        self._target.stage(connection, self._name, maker)
        statement = self._target.copy_sql(self._name).encode()
        self._copy = self._copying.enter_context(connection.cursor().copy(statement))
        return self._copy

    def flush(self, end_of_input: bool) -> None:
        """End the transaction: what is staged is durable then.

        Raises:
            RecordValueError: The table refuses a row.
            DatabaseError: The connection is lost.
        """
        del end_of_input
        copy, self._copy = self._copy, None
        if copy is None:
            return
        with self._refused():
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

    def send(self, connection: psycopg.Connection[tuple[Any, ...]], records: list[Any]) -> None:
        """Write records in one transaction."""
        with connection.transaction():
            table = locked_table(connection, self._options.table, "ROW EXCLUSIVE")
            target = Target(connection, self._options, table)
            rows = staged_rows(target.row_maker, target, records, 0)
            target.stage_for_now(connection, _DIRECT)
            try:
                with connection.cursor().copy(target.copy_now_sql(_DIRECT).encode()) as copy:
                    copy_rows(copy, rows, target)
            except (psycopg.DataError, psycopg.IntegrityError) as error:
                raise refused_row(error, target) from error
            fields = own_fields(target.columns)
            key = [one for name in target.key for one in fields if one.staged == name]
            insert_rows(connection, table, quoted(_DIRECT), fields, key)


def staged_rows(maker: RowMaker, target: Target, records: Sequence[Any], first: int) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a staged table for some records."""
    if not target.key:
        return maker.rows(records)
    return [(*row, number, kind) for number, (kind, row) in enumerate(maker.changes(records), first)]


def copy_rows(copy: psycopg.Copy, rows: Sequence[tuple[Any, ...]], target: Target) -> None:
    """Copy rows.

    Raises:
        RecordValueError: A value has no form in the database.
    """
    write_row = copy.write_row
    row: tuple[Any, ...] = ()
    try:
        for row in rows:
            write_row(row)
    except (psycopg.ProgrammingError, psycopg.DataError, ValueError, OverflowError) as error:
        if isinstance(error, psycopg.Error) and error.sqlstate is not None:  # the server's
            raise
        raise unwritable(target.names, row, str(target.table), error) from error


def refused_row(error: psycopg.Error, target: Target) -> RecordValueError:
    """Return the error for a row that a staged table refuses, as the table would."""
    said, found = error.diag, _PLACE.search(error.diag.context or "")
    needed = (said.constraint_name or "").partition(NOT_NULL)
    name = said.column_name or (needed[0] if needed[1] else found[1] if found else "*")
    column = next((one.type for one in target.columns if one.name == name), str(target.table))
    record = (found[2] if found else None) or "with the values below"
    told = (
        "it must have a value"
        if needed[1]
        else "; ".join(text.removesuffix(".") for text in (said.message_primary, said.message_detail) if text)
    )
    reason = _STAGED_NAME.sub(str(target.table), told or str(error))
    return RecordValueError(name, f"{record:.200}", column, reason, "Map such records to ones that the table takes")

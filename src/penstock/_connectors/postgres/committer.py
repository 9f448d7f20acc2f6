"""Publishes staged tables: one transaction for each checkpoint, which notes them in the table of commits."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import psycopg

from penstock._api.connectors.committer import Committer
from penstock._connectors.postgres.client import Session, may_be_repeated, one, quoted, run
from penstock._connectors.postgres.publishing import Publisher, staged_records
from penstock._connectors.postgres.staging import COMMITS, SinkOptions, StagedTable, Target, staged_tables
from penstock._connectors.postgres.tables import locked_table
from penstock.errors import DatabaseConnectionError, DatabaseError, LostCommittableError, TableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from penstock._api.connectors.committer import CommitRequest, CommitterInitContext

_LOG = logging.getLogger(__name__)
#: How long it is known that a staged table was published.
_KEPT_DAYS: Final = 90
_DAY_S: Final = 24 * 3600
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS {} (
  staged text PRIMARY KEY, job_id text NOT NULL, operator_uid text NOT NULL, checkpoint_id bigint NOT NULL,
  rows bigint NOT NULL, committed_at timestamptz NOT NULL DEFAULT now())"""
_NOTE: Final = """
INSERT INTO {} (staged, job_id, operator_uid, checkpoint_id, rows) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (staged) DO NOTHING RETURNING true"""


class PostgresCommitter(Committer[StagedTable]):
    """Publishes the staged tables of one sink; it may be interrupted and repeated at any point.

    The note of a commit is the first statement of its transaction: of two drivers that publish the same table the
    second waits for the first, and then finds its note.

    Args:
        options: What the sink writes.
        context: The committer's context.
    """

    def __init__(self, options: SinkOptions, context: CommitterInitContext) -> None:
        self._session = Session(options.address, f"Publishing rows of {options.table}")
        self._options = options
        self._job_id, self._uid = context.job_id, context.operator_uid
        self._runs = frozenset((*context.earlier_runs, context.run_id))
        self._committed: int | None = None
        self._rows = context.metric_group.counter("rowsCommitted")
        self._schema = self._session.repeat(self._prepare)
        self._commits = quoted(self._schema, COMMITS)

    def _prepare(self, connection: psycopg.Connection[tuple[Any, ...]]) -> str:
        """Look at the table, so that a job that cannot write it does not begin, and make the table of commits."""
        target = Target(connection, self._options)
        commits = quoted(target.schema, COMMITS)
        (found,) = one(connection, "SELECT to_regclass(%s) IS NOT NULL", (commits.replace("%%", "%"),))
        if not found:
            try:
                run(connection, _TABLE.format(commits))
            except psycopg.errors.UniqueViolation:  # another job makes it at the same time
                run(connection, _TABLE.format(commits))
        return target.schema

    def commit(self, requests: Collection[CommitRequest[StagedTable]]) -> None:
        """Publish the staged tables of a checkpoint, all of them or none.

        One that the table refuses, or has no place for any more, is told as failed with its error.

        Raises:
            LostCommittableError: A staged table is gone, and no commit of it is noted.
            DatabaseError: The server does not answer.
        """
        if not requests:
            return

        failing: list[CommitRequest[StagedTable]] = []

        def publish(connection: psycopg.Connection[tuple[Any, ...]]) -> list[CommitRequest[StagedTable]]:
            done: list[CommitRequest[StagedTable]] = []
            with connection.transaction():
                publisher: Publisher | None = None
                for request in requests:
                    failing[:] = [request]
                    if not self._is_due(connection, request):
                        done.append(request)
                        continue
                    publisher = publisher or self._publisher(connection)
                    self._publish(connection, publisher, request)
                failing.clear()
            return done

        # After a lost connection nobody knows whether the transaction counts: its notes say so to the next one.
        try:
            done = self._session.repeat(publish)
        except (TableError, DatabaseError) as error:
            if not failing or isinstance(error, DatabaseConnectionError):
                raise
            failing[0].signal_failed_with_unknown_reason(error)
            return
        for request in done:
            request.signal_already_committed()
        first, self._committed = self._committed is None, max(request.checkpoint_id for request in requests)
        self._rows.inc(sum(request.get_committable().rows for request in requests))
        if first:
            self._sweep()

    def describe(self, committable: StagedTable) -> str:
        """Return how many rows are staged, and where."""
        return f"{committable.rows} rows in the table {committable}"

    def read_records(self, committable: StagedTable) -> Iterator[Any] | None:
        """Return the staged rows as dicts, and those that say what to delete as Rows; None if they are gone.

        Raises:
            DatabaseError: The server does not answer.
        """
        with self._session.naming():
            name = quoted(committable.schema, committable.name).replace("%%", "%")
            (is_there,) = one(self._session.connection, "SELECT to_regclass(%s) IS NOT NULL", (name,))
            return staged_records(self._session.connection, name, self._options.text_columns) if is_there else None

    def _publisher(self, connection: psycopg.Connection[tuple[Any, ...]]) -> Publisher:
        """Look at the table as it is now, in each transaction: it may have changed since the last one."""
        return Publisher(connection, locked_table(connection, self._options.table, "ROW EXCLUSIVE"))

    def _is_due(self, connection: psycopg.Connection[tuple[Any, ...]], request: CommitRequest[StagedTable]) -> bool:
        """Note the commit of a staged table; False if that was done before."""
        table = request.get_committable()
        note = (table.name, self._job_id, self._uid, request.checkpoint_id, table.rows)
        if run(connection, _NOTE.format(self._commits), note).fetchone() is None:
            return False
        look = "SELECT to_regclass(%s) IS NOT NULL, extract(epoch FROM now())::float8"
        staged = quoted(table.schema, table.name)
        is_there, now_s = one(connection, look, (staged.replace("%%", "%"),))
        if is_there:
            return True
        if request.may_be_committed and table.staged_s < now_s - _KEPT_DAYS * _DAY_S:
            _LOG.warning("%s was staged so long ago that its commit is no longer noted; it counts as done.", table)
            return False
        reason = f"the table {table.schema}.{table.name} in which its rows were staged is gone"
        raise LostCommittableError(f"What checkpoint {request.checkpoint_id} has for {self._options.table}", reason)

    def _publish(
        self,
        connection: psycopg.Connection[tuple[Any, ...]],
        publisher: Publisher,
        request: CommitRequest[StagedTable],
    ) -> None:
        """Publish one staged table.

        Raises:
            TableError: The table has changed so that the rows have no place in it.
            DatabaseError: The table refuses a row.
        """
        table = request.get_committable()
        try:
            publisher.publish(table.schema, table.name, request.checkpoint_id)
        except psycopg.Error as error:
            if may_be_repeated(error):
                raise
            what = f"Publishing the {table.rows} rows of checkpoint {request.checkpoint_id} from {table} into"
            raise self._options.address.error(f"{what} {self._options.table}", error) from error
        run(connection, f"DROP TABLE {quoted(table.schema, table.name)}")

    def _sweep(self) -> None:
        """Drop staged tables of attempts that never counted, and notes that are out of date."""
        try:
            self._session.repeat(self._drop)
        except DatabaseError:
            _LOG.warning("Staged tables of failed attempts stay in %s", self._schema, exc_info=True)

    def _drop(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        assert self._committed is not None
        for name, maker in staged_tables(connection, self._schema):
            mine = maker.job_id == self._job_id and maker.operator_uid == self._uid and maker.run_id in self._runs
            if mine and maker.checkpoint_id <= self._committed:
                run(connection, f"DROP TABLE IF EXISTS {quoted(self._schema, name)}")
        old = f"DELETE FROM {self._commits} WHERE committed_at < now() - make_interval(days => %s)"
        run(connection, old, (_KEPT_DAYS + 1,))

    def close(self) -> None:
        """Drop what failed attempts have staged since the start, and close the connection."""
        if self._committed is not None:
            self._sweep()
            self._committed = None
        self._session.close()

"""Staged rows: a table for each attempt at an epoch, and the statements that publish it.

A staged table says in its comment which sink of which job made it, and for which checkpoint. Publishing it, dropping
it, and noting in the table of commits that this was done are one transaction.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock._connectors.postgres.client import listed, quoted, run
from penstock._connectors.postgres.rows import RowMaker
from penstock._connectors.postgres.tables import find_table
from penstock.errors import TableError

if TYPE_CHECKING:
    import psycopg

    from penstock._api.connectors.sink import WriterInitContext
    from penstock._connectors.postgres.client import Address
    from penstock._connectors.postgres.tables import Column, SourceTable

PREFIX: Final = "penstock_staged_"
COMMITS: Final = "penstock_commits"
SEQUENCE, KIND = "penstock_seq", "penstock_kind"
_STAGED: Final = """
SELECT c.relname, obj_description(c.oid, 'pg_class') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND starts_with(c.relname, %s) AND c.relkind = 'r'"""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a sink writes.

    Attributes:
        address: The database.
        table: The table, as in SQL.
        columns: The columns that are written; empty for all that the server does not compute.
        key_columns: The columns of the key by which a row replaces another; empty for a sink that only inserts.
        staging_schema: Where staged tables and the table of commits are; empty for the table's own.
    """

    address: Address
    table: str
    columns: tuple[str, ...] = ()
    key_columns: tuple[str, ...] = ()
    staging_schema: str = ""


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A committable: a staged table.

    Attributes:
        name: Its name, which no other has.
        rows: The number of its rows.
        staged_s: The time when it was made, in seconds since the epoch by the server's clock.
    """

    schema: str
    name: str
    rows: int
    staged_s: float


@dataclass(frozen=True, slots=True)
class Maker:
    """Who made a staged table, and for which checkpoint."""

    job_id: str
    run_id: str
    operator_uid: str
    checkpoint_id: int


class Target:
    """A table that is written, and the statements for it.

    Args:
        connection: A connection.
        options: What the sink writes.

    Raises:
        TableError: The table is not there, or lacks a column or the key.
    """

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], options: SinkOptions) -> None:
        self.table: SourceTable = find_table(connection, options.table)
        self.schema = options.staging_schema or self.table.schema
        self.key = options.key_columns
        names = options.columns or tuple(column.name for column in self.table.columns if not column.is_given)
        self.columns: tuple[Column, ...] = tuple(self.table.column(name) for name in names)
        self.names = names
        if self.key:
            self.table.key(self.key)
            missing = [name for name in self.key if name not in names]
            if missing:
                raise TableError(str(self.table), f"the key column {missing[0]} is not written", "Write it as well")

    @property
    def row_maker(self) -> RowMaker:
        """What makes rows of records."""
        return RowMaker(self.columns, inserts_only=not self.key)

    @property
    def staged_names(self) -> tuple[str, ...]:
        """The columns of a staged table."""
        return (*self.names, SEQUENCE, KIND) if self.key else self.names

    def stage(self, connection: psycopg.Connection[tuple[Any, ...]], name: str, maker: Maker) -> None:
        """Make a staged table."""
        staged = quoted(self.schema, name)
        run(connection, f"CREATE TABLE {staged} WITH (autovacuum_enabled = off) AS {self._columns_sql} WITH NO DATA")
        note = {"job": maker.job_id, "run": maker.run_id, "sink": maker.operator_uid, "checkpoint": maker.checkpoint_id}
        literal = json.dumps(note).replace("'", "''").replace("%", "%%")
        run(connection, f"COMMENT ON TABLE {staged} IS '{literal}'")

    def copy_sql(self, name: str) -> str:
        """Return the statement that copies rows into a staged table, made in the same transaction."""
        return f"COPY {quoted(self.schema, name)} ({listed(self.staged_names)}) FROM STDIN (FREEZE)".replace("%%", "%")

    def stage_for_now(self, connection: psycopg.Connection[tuple[Any, ...]], name: str) -> None:
        """Make a staged table that ends with the transaction."""
        run(connection, f"CREATE TEMPORARY TABLE {quoted(name)} ON COMMIT DROP AS {self._columns_sql} WITH NO DATA")

    def copy_now_sql(self, name: str) -> str:
        """Return the statement that copies rows into such a table."""
        return f"COPY {quoted(name)} ({listed(self.staged_names)}) FROM STDIN".replace("%%", "%")

    @property
    def _columns_sql(self) -> str:
        more = f", 0::bigint AS {SEQUENCE}, ''::text AS {KIND}" if self.key else ""
        # The server reads the zone of a text for a column with one alone; the session's zone is UTC, there and back.
        names = (
            f"{quoted(one.name)}::timestamptz AS {quoted(one.name)}" if one.is_without_zone else quoted(one.name)
            for one in self.columns
        )
        return f"SELECT {', '.join(names)}{more} FROM {self.table.sql}"

    def publish(self, connection: psycopg.Connection[tuple[Any, ...]], staged: str) -> None:
        """Bring the rows of a staged table, by its name in SQL, into the table."""
        names, into = listed(self.names), self.table.sql
        given = "OVERRIDING SYSTEM VALUE " if any(column.always_identity for column in self.columns) else ""
        if not self.key:
            run(connection, f"INSERT INTO {into} ({names}) {given}SELECT {names} FROM {staged}")
            return
        key = listed(self.key)
        last = f"SELECT DISTINCT ON ({key}) * FROM {staged} ORDER BY {key}, {SEQUENCE} DESC"
        same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in self.key)
        run(connection, f"DELETE FROM {into} AS t USING ({last}) AS s WHERE s.{KIND} = 'd' AND {same}")
        # The server does not let go of an identity that it has given.
        rest = [one.name for one in self.columns if one.name not in self.key and not one.always_identity]
        updates = ", ".join(f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in rest)
        conflict = f"DO UPDATE SET {updates}" if rest else "DO NOTHING"
        rows = f"SELECT {names} FROM ({last}) AS s WHERE {KIND} = 'u'"
        run(connection, f"INSERT INTO {into} ({names}) {given}{rows} ON CONFLICT ({key}) {conflict}")


def staged_name(context: WriterInitContext) -> str:
    """Return the name of a staged table, which differs for each attempt at an epoch of any job."""
    parts = (context.job_id, context.run_id, context.operator_uid, str(context.checkpoint_id))
    text = "\0".join((*parts, str(context.subtask_id), context.attempt_token))
    return PREFIX + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def staged_tables(connection: psycopg.Connection[tuple[Any, ...]], schema: str) -> list[tuple[str, Maker]]:
    """Return the staged tables of a schema whose makers are known."""
    found: list[tuple[str, Maker]] = []
    for name, comment in run(connection, _STAGED, (schema, PREFIX)).fetchall():
        try:
            note = json.loads(comment)
            maker = Maker(note["job"], note["run"], note["sink"], note["checkpoint"])
        except (TypeError, ValueError, KeyError):  # no comment, or not ours
            continue
        found.append((name, maker))
    return found

"""Staged rows: a table for each attempt at an epoch.

A staged table says in its comment which sink of which job made it, for which checkpoint, and for which columns of which
table. It has that table's types and its rules for single rows, so that what these refuse is refused before the
checkpoint. Publishing it, dropping it, and noting in the table of commits that this was done are one transaction.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock._connectors.postgres.client import listed, quoted, run
from penstock._connectors.postgres.rows import DELETE, RowMaker
from penstock._connectors.postgres.tables import find_table
from penstock._connectors.postgres.types import codecs_of
from penstock.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg

    from penstock._api.connectors.sink import WriterInitContext
    from penstock._connectors.postgres.client import Address
    from penstock._connectors.postgres.tables import Column, SourceTable

PREFIX: Final = "penstock_staged_"
COMMITS: Final = "penstock_commits"
#: How the rules for single columns of rows with a key are named.
NOT_NULL: Final = " is not null"
SEQUENCE, KIND = "penstock_seq", "penstock_kind"
#: The rules for single rows, but those that are not enforced, which servers before 18 do not have.
_CHECKS: Final = """
SELECT conname, pg_get_expr(conbin, conrelid), conkey::int[] FROM pg_constraint c
WHERE conrelid = %s AND contype = 'c' AND coalesce((to_jsonb(c) ->> 'conenforced')::bool, true) ORDER BY conname"""
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
        text_columns: The columns whose values are the texts that the server reads.
    """

    address: Address
    table: str
    columns: tuple[str, ...] = ()
    key_columns: tuple[str, ...] = ()
    staging_schema: str = ""
    text_columns: tuple[str, ...] = ()


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

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Maker:
    """Who made a staged table, and for which checkpoint."""

    job_id: str
    run_id: str
    operator_uid: str
    checkpoint_id: int

    def note(self, key: Sequence[str], numbers: Mapping[str, int], table: int) -> str:
        """Return the comment of a staged table, for a literal in SQL.

        Args:
            key: The columns of the key.
            numbers: The numbers of the columns in the table for which the rows are.
            table: The number of that table.
        """
        who = {"job": self.job_id, "run": self.run_id, "sink": self.operator_uid, "checkpoint": self.checkpoint_id}
        note = json.dumps({**who, "table": table, "columns": numbers, "key": list(key)})
        return note.replace("'", "''").replace("%", "%%")


class Target:
    """A table as it is now, and how its rows are staged.

    Args:
        connection: A connection.
        options: What the sink writes.
        table: The table, if the caller has looked already.

    Raises:
        TableError: The table is not there, lacks a column or the key, or needs a column that is not written.
    """

    def __init__(
        self,
        connection: psycopg.Connection[tuple[Any, ...]],
        options: SinkOptions,
        table: SourceTable | None = None,
    ) -> None:
        self.table: SourceTable = table or find_table(connection, options.table)
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
        lacking = [one.name for one in self.table.columns if one.is_needed and one.name not in names]
        if lacking:
            reason = f"its column {lacking[0]} must have a value, has no default, and is not written"
            raise TableError(str(self.table), reason, "Write it as well (set_columns), or give it a default")
        self._codecs = codecs_of(connection, str(self.table), self.columns, options.text_columns)

    @property
    def row_maker(self) -> RowMaker:
        """What makes rows of records."""
        return RowMaker(self.names, self._codecs, inserts_only=not self.key)

    @property
    def staged_names(self) -> tuple[str, ...]:
        """The columns of a staged table."""
        return (*self.names, SEQUENCE, KIND) if self.key else self.names

    def stage(self, connection: psycopg.Connection[tuple[Any, ...]], name: str, maker: Maker) -> None:
        """Make a staged table, which refuses what the table would refuse of a single row."""
        staged = quoted(self.schema, name)
        run(connection, f"CREATE TABLE {staged} WITH (autovacuum_enabled = off) AS {self._columns_sql} WITH NO DATA")
        self._restrict(connection, staged)
        literal = maker.note(self.key, {column.name: column.number for column in self.columns}, self.table.oid)
        run(connection, f"COMMENT ON TABLE {staged} IS '{literal}'")

    def copy_sql(self, name: str) -> str:
        """Return the statement that copies rows into a staged table, made in the same transaction."""
        return f"COPY {quoted(self.schema, name)} ({listed(self.staged_names)}) FROM STDIN (FREEZE)".replace("%%", "%")

    def stage_for_now(self, connection: psycopg.Connection[tuple[Any, ...]], name: str) -> None:
        """Make a staged table that ends with the transaction."""
        run(connection, f"CREATE TEMPORARY TABLE {quoted(name)} ON COMMIT DROP AS {self._columns_sql} WITH NO DATA")
        self._restrict(connection, quoted(name))

    def copy_now_sql(self, name: str) -> str:
        """Return the statement that copies rows into such a table."""
        return f"COPY {quoted(name)} ({listed(self.staged_names)}) FROM STDIN".replace("%%", "%")

    @property
    def _columns_sql(self) -> str:
        more = f", 0::bigint AS {SEQUENCE}, ''::text AS {KIND}" if self.key else ""
        return f"SELECT {listed(self.names)}{more} FROM {self.table.sql}"

    def _restrict(self, connection: psycopg.Connection[tuple[Any, ...]], staged: str) -> None:
        """Give a staged table the rules for single rows; a row that says what to delete has the key alone."""
        changes: list[str] = []
        free = f"{KIND} = '{DELETE}' OR " if self.key else ""
        for column in self.columns:
            name = quoted(column.name)
            if column.not_null and (not self.key or column.name in self.key):
                changes.append(f"ALTER {name} SET NOT NULL")
            elif column.not_null:
                changes.append(
                    f"ADD CONSTRAINT {quoted(f'{column.name:.40} is not null')} CHECK ({free}{name} IS NOT NULL)"
                )
        written = {column.number for column in self.columns}
        for name, expression, numbers in run(connection, _CHECKS, (self.table.oid,)).fetchall():
            if written.issuperset(numbers or ()):
                rule = expression.replace("%", "%%")
                changes.append(f"ADD CONSTRAINT {quoted(name)} CHECK ({free}({rule}))")
        if changes:
            run(connection, f"ALTER TABLE {staged} {', '.join(changes)}")


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

"""Brings staged rows into their table as it is when they are committed, which is not always as it was when they came.

Columns are found by their numbers: a renamed one is the same one. What cannot go on as it was meant is an error that
names the change, before anything is done; the staged rows stay.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg

from penstock._connectors.postgres.client import listed, one, quoted, run
from penstock._connectors.postgres.ranges import text_of
from penstock._connectors.postgres.rows import DELETE, UPSERT
from penstock._connectors.postgres.staging import KIND, SEQUENCE
from penstock._connectors.postgres.tables import find_table
from penstock._connectors.postgres.types import codecs_of
from penstock.common.types import Row, RowKind
from penstock.errors import TableError

_LOG = logging.getLogger(__name__)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from penstock._connectors.postgres.tables import Column, SourceTable

_NOTE: Final = "SELECT obj_description(%s::oid, 'pg_class')"
_MAY_LEAVE_OUT: Final = """
SELECT c.relhasrules OR EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)
FROM pg_class c WHERE c.oid = %s"""
_UNDO: Final = "Undo the change until the job has committed the checkpoint"


@dataclass(frozen=True, slots=True)
class _StagedColumn:
    """A staged column, and the column of the table for which it is."""

    staged: str
    column: Column
    #: The value in SQL, of the column's type.
    value: str


class Publisher:
    """Publishes staged tables into a table, which a lock keeps as it is.

    Args:
        connection: The connection, in the transaction of the commit.
        table: The table.
    """

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], table: SourceTable) -> None:
        self._connection, self._table = connection, table

    def publish(self, schema: str, name: str, checkpoint_id: int) -> None:
        """Bring the rows of a staged table into the table.

        Raises:
            TableError: The table is another one since, or has changed so that the rows have no place in it.
        """
        there = find_table(self._connection, quoted(schema, name).replace("%%", "%"))
        (comment,) = run(self._connection, _NOTE, (there.oid,)).fetchone() or ("{}",)
        note: dict[str, Any] = json.loads(comment)
        since = f"since its rows of checkpoint {checkpoint_id} were staged"
        if note["table"] != self._table.oid:
            reason = f"it is not the one that it was {since}: it was dropped and made anew, or another has its name"
            way_out = (
                f"Give the former table its name until the job has committed the checkpoint; the rows are in {there}"
            )
            raise TableError(str(self._table), reason, way_out)
        fields = [
            self._field(there, column, note["columns"][column.name], since)
            for column in there.columns
            if column.name in note["columns"]
        ]
        key = [one for name in note["key"] for one in fields if one.staged == name]
        insert_rows(self._connection, self._table, there.sql, fields, key)

    def _field(self, there: SourceTable, staged: Column, number: int, since: str) -> _StagedColumn:
        """Return where the values of a staged column go.

        Raises:
            TableError: There is no such column any more, or it cannot hold them.
        """
        columns = self._table.columns
        column = next((one for one in columns if one.number == number), None)
        column = column or next((one for one in columns if one.name == staged.name), None)
        if column is None:
            reason = f"its column {staged.name!r} was dropped {since}"
            way_out = f"Add a column of that name and of type {staged.type}; the rows are in {there}"
            raise TableError(str(self._table), reason, way_out)
        if column.generated:
            reason = f"its column {column.name!r} is computed by the server {since}"
            raise TableError(str(self._table), reason, _UNDO)
        if column.type == staged.type:
            return _StagedColumn(staged.name, column, quoted(staged.name))
        value, new, old = quoted(staged.name), *(one.type.replace("%", "%%") for one in (column, staged))
        look = f"SELECT 1 FROM {there.sql} WHERE {value}::{new}::{old}::text IS DISTINCT FROM {value}::text LIMIT 1"
        try:
            is_other = run(self._connection, look).fetchone() is not None
        except (psycopg.DataError, psycopg.ProgrammingError, psycopg.IntegrityError):
            is_other = True
        if is_other:
            reason = f"its column {column.name!r} is of type {column.type}, and was of type {staged.type} {since}"
            raise TableError(str(self._table), f"{reason}: it does not hold all values of them", _UNDO)
        return _StagedColumn(staged.name, column, f"{value}::{new}")


def own_fields(columns: Sequence[Column]) -> list[_StagedColumn]:
    """Return the fields of a staged table that was made of these columns in the same transaction."""
    return [_StagedColumn(column.name, column, quoted(column.name)) for column in columns]


def insert_rows(
    connection: psycopg.Connection[tuple[Any, ...]],
    table: SourceTable,
    staged: str,
    fields: Sequence[_StagedColumn],
    key: Sequence[_StagedColumn],
) -> None:
    """Bring staged rows into a table; a warning tells of rows that a rule or a trigger of it leaves out.

    Args:
        connection: A connection.
        table: The table.
        staged: The staged table in SQL.
        fields: Its columns.
        key: Those of the key; none if rows are only inserted.

    Raises:
        TableError: The key is none any more.
    """
    names, values, into = listed([one.column.name for one in fields]), ", ".join(one.value for one in fields), table.sql
    given = "OVERRIDING SYSTEM VALUE " if any(one.column.always_identity for one in fields) else ""
    if not key:
        done = run(connection, f"INSERT INTO {into} ({names}) {given}SELECT {values} FROM {staged}")
        _tell_left_out(connection, table, done.rowcount, staged)
        return
    target_key = [one.column.name for one in key]
    table.key(target_key)
    staged_key = listed([one.staged for one in key])
    last = f"SELECT DISTINCT ON ({staged_key}) * FROM {staged} ORDER BY {staged_key}, {SEQUENCE} DESC"
    parts = ", ".join(f"{one.value} AS {quoted(f'k{place}')}" for place, one in enumerate(key))
    same = " AND ".join(f"t.{quoted(name)} = s.{quoted(f'k{place}')}" for place, name in enumerate(target_key))
    gone = f"SELECT {parts} FROM ({last}) AS l WHERE {KIND} = '{DELETE}'"
    run(connection, f"DELETE FROM {into} AS t USING ({gone}) AS s WHERE {same}")
    # The server does not let go of an identity that it has given.
    rest = [one.column.name for one in fields if one not in key and not one.column.always_identity]
    updates = ", ".join(f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in rest)
    conflict = f"DO UPDATE SET {updates}" if rest else "DO NOTHING"
    rows = f"SELECT {values} FROM ({last}) AS s WHERE {KIND} = '{UPSERT}'"
    insert = f"INSERT INTO {into} ({names}) {given}{rows} ON CONFLICT ({listed(target_key)}) {conflict}"
    done = run(connection, insert)
    if rest:
        _tell_left_out(connection, table, done.rowcount, f"({rows}) AS given")


def _tell_left_out(connection: psycopg.Connection[tuple[Any, ...]], table: SourceTable, taken: int, given: str) -> None:
    """Warn if a table has taken fewer rows than it was given: what its rules and triggers do is its owner's will."""
    (may_leave_out,) = one(connection, _MAY_LEAVE_OUT, (table.oid,))
    if not may_leave_out:
        return
    (count,) = one(connection, f"SELECT count(*) FROM {given}")
    if taken < count:
        told = "%s took %d of %d rows: a rule or a trigger puts the others elsewhere, or nowhere"
        _LOG.warning(told, table, taken, count)


def staged_records(
    connection: psycopg.Connection[tuple[Any, ...]], name: str, text_columns: Collection[str]
) -> Iterator[Any]:
    """Yield the rows of a staged table as records, those that say what to delete as Rows of that kind.

    Args:
        connection: A connection.
        name: The staged table, as in SQL.
        text_columns: The columns whose values are texts.
    """
    there = find_table(connection, name)
    columns = [column for column in there.columns if column.name not in {SEQUENCE, KIND}]
    codecs = codecs_of(connection, str(there), columns, text_columns)
    has_kind = len(columns) < len(there.columns)
    order, kind = (f" ORDER BY {SEQUENCE}", KIND) if has_kind else ("", f"'{UPSERT}'")
    texts = ", ".join(text_of(quoted(column.name)) for column in columns)
    with connection.transaction(), connection.cursor("penstock_records") as cursor:
        cursor.execute(f"SELECT {kind}, {texts} FROM {there.sql}{order}".replace("%%", "%").encode())
        for done, *values in cursor:
            record = {
                column.name: None if text is None else codec.parse(text)
                for column, codec, text in zip(columns, codecs, values, strict=True)
            }
            if done != DELETE:
                yield record
                continue
            row = Row(**record)
            row.set_row_kind(RowKind.DELETE)
            yield row

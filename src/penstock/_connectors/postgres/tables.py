"""What a table is: its columns, and the key by which it is cut into ranges."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock._connectors.postgres.client import one, quoted, run
from penstock._connectors.postgres.types import ColumnType
from penstock.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    import psycopg

_TABLE: Final = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relreplident::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)"""
_COLUMNS: Final = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.atttypid, a.atttypmod, a.attnum,
  a.attnotnull OR (t.typtype = 'd' AND t.typnotnull), a.attgenerated <> '', a.attidentity = 'a',
  a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL,
  CASE WHEN a.attcollation NOT IN (0, t.typcollation) THEN
    (SELECT quote_ident(n.nspname) || '.' || quote_ident(o.collname) FROM pg_collation o
     JOIN pg_namespace n ON n.oid = o.collnamespace WHERE o.oid = a.attcollation) END
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
#: The unique indexes whose order is that of their columns' values.
_INDEXES: Final = """
SELECT i.indisprimary, i.indisreplident, array(
  SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY AS k(number, place)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number WHERE place <= i.indnkeyatts ORDER BY place)
FROM pg_index i WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL ORDER BY i.indisprimary DESC, i.indexrelid"""


@dataclass(frozen=True, slots=True)
class Column(ColumnType):
    """A column: its name and its type as SQL has it."""

    #: Its number in the table, which stays when it is renamed, and is never given again.
    number: int = 0
    not_null: bool = False
    generated: bool = False
    #: Whether the server alone gives its values, unless a statement says that it overrides them.
    always_identity: bool = False
    has_default: bool = False
    #: Of text: the collation in SQL, where it is not that of the type.
    collation: str | None = None

    @property
    def is_needed(self) -> bool:
        """Whether a new row must give it a value."""
        return self.not_null and not self.has_default

    @property
    def is_given(self) -> bool:
        """Whether the server gives its values: a sink writes it only where the program names it."""
        return self.generated or self.always_identity


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """The columns of a unique index."""

    columns: tuple[str, ...]
    is_primary: bool
    is_replica_identity: bool


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the database."""

    oid: int
    schema: str
    name: str
    kind: str
    replica_identity: str
    columns: tuple[Column, ...]
    indexes: tuple[UniqueIndex, ...]

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        """Its name in SQL."""
        return quoted(self.schema, self.name)

    @property
    def lock_sql(self) -> str:
        """Its name for LOCK TABLE: with its partitions, and without tables that inherit from it."""
        return f"ONLY {self.sql}" if self.kind == "r" else self.sql

    @property
    def rows_sql(self) -> str:
        """Its rows in SQL, named ``r``, without those of tables that inherit from it, which have separate keys."""
        return f"ONLY {self.sql} AS r" if self.kind == "r" else f"{self.sql} AS r"

    def column(self, name: str) -> Column:
        """Return a column.

        Raises:
            TableError: There is none of that name.
        """
        found = next((column for column in self.columns if column.name == name), None)
        if found is None:
            known = ", ".join(column.name for column in self.columns)
            raise TableError(str(self), f"it has no column {name!r}", f"Its columns are {known}")
        return found

    def key(self, names: Sequence[str] = ()) -> Key:
        """Return the primary key, or the key of some columns.

        Raises:
            TableError: There is no such key, or rows may have none.
        """
        if not names:
            primary = next((index for index in self.indexes if index.is_primary), None)
            if primary is None:
                way_out = "Add one, or name the columns of a unique index without nulls (set_key_columns)"
                raise TableError(str(self), "it has no primary key by which its rows could be found again", way_out)
            names = primary.columns
        columns = tuple(self.column(name) for name in names)
        if not any(set(index.columns) == set(names) for index in self.indexes):
            reason = f"no unique index has exactly the columns {', '.join(names)}"
            raise TableError(str(self), reason, "Create one, or name the columns of another")
        nullable = [column.name for column in columns if not column.not_null]
        if nullable:
            reason = f"rows may have no {' or '.join(nullable)}, and would be in no range of that key"
            raise TableError(str(self), reason, "Declare the columns NOT NULL, or name other ones")
        return Key(columns)


@dataclass(frozen=True, slots=True)
class Key:
    """The columns that identify a row, in the order by which rows are sorted.

    Values of a key are texts, as the server writes them: it reads each as the value that it was, whatever its type.
    """

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def sql(self) -> str:
        """The key of a row ``r`` in SQL, as one value that can be compared."""
        return f"({self.order_sql})"

    @property
    def texts_sql(self) -> str:
        """Its values as texts, for SELECT."""
        return ", ".join(f"{quoted('r', name)}::text" for name in self.names)

    @property
    def order_sql(self) -> str:
        """Its columns, for ORDER BY."""
        return ", ".join(quoted("r", name) for name in self.names)

    @property
    def value_sql(self) -> str:
        """A value of it, with a parameter for each column."""
        return f"({', '.join(f'%s::{_escaped(column.type)}' for column in self.columns)})"

    def sorting_sql(self, keys: int, bounds: int) -> str:
        """Return a query that sorts keys and bounds of ranges: for each whether it is a bound, and its number.

        A bound comes after keys that equal it. The query has for each column a parameter with the values of the keys,
        and then for each column one with those of the bounds.
        """
        columns = ", ".join(f"c{place}" for place in range(len(self.columns)))
        arrays = ", ".join(f"%s::text[]::{_escaped(column.type)}[]" for column in self.columns)
        order = ", ".join(
            f"c{place}" + (f" COLLATE {_escaped(column.collation)}" if column.collation else "")
            for place, column in enumerate(self.columns)
        )
        parts = [
            f"SELECT {kind}, number, {columns} FROM unnest({arrays}) WITH ORDINALITY AS x({columns}, number)"
            for kind, count in (("false AS bound", keys), ("true", bounds))
            if count
        ]
        rows = f"({' UNION ALL '.join(parts)}) AS y(bound, number, {columns})"
        return f"SELECT bound, number FROM {rows} ORDER BY {order}, bound"


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def find_table(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> SourceTable:
    """Return a table.

    Args:
        connection: A connection.
        name: Its name as in SQL: ``orders``, ``sales.orders`` or ``sales."Orders"``.

    Raises:
        TableError: There is none of that name, or it is something else, such as a view.
    """
    row = run(connection, _TABLE, (name,)).fetchone()
    if row is None:
        database, user = one(connection, "SELECT current_database(), current_user")
        reason = f"database {database!r} has none of that name that user {user!r} can see"
        raise TableError(name, reason, "Name it as in SQL: schema.table, with capitals in double quotes")
    oid, schema, table, kind, replica_identity = row
    if kind not in {"r", "p"}:
        reason = "it is no table, but a view or something else that stores no rows"
        raise TableError(name, reason, "Name the table that has the rows")
    columns = tuple(Column(*column) for column in run(connection, _COLUMNS, (oid,)).fetchall())
    indexes = tuple(
        UniqueIndex(tuple(names), primary, identity) for primary, identity, names in run(connection, _INDEXES, (oid,))
    )
    return SourceTable(oid, schema, table, kind, replica_identity, columns, indexes)


def locked_table(connection: psycopg.Connection[tuple[Any, ...]], name: str, mode: str) -> SourceTable:
    """Return a table, whose columns stay as they are until the transaction of the caller ends.

    Args:
        connection: A connection with a transaction.
        name: As of ``find_table``.
        mode: The lock's mode, such as ``ACCESS SHARE``.

    Raises:
        TableError: As of ``find_table``.
    """
    while True:
        table = find_table(connection, name)
        run(connection, f"LOCK TABLE {table.lock_sql} IN {mode} MODE")
        again = find_table(connection, name)
        if again.oid == table.oid:
            return again


@contextlib.contextmanager
def one_moment(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> Generator[SourceTable]:
    """Have a transaction that sees one moment of a table; raises as ``find_table`` does."""
    table = begin_reading(connection, name)
    try:
        yield table
    finally:
        if not connection.closed:
            run(connection, "ROLLBACK")


def begin_reading(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> SourceTable:
    """Begin a transaction that sees one moment of a table, and return the table; raises as ``find_table`` does.

    The lock comes before the moment: to a moment before a change that rewrites the table it looks empty.
    """
    while True:
        table = find_table(connection, name)
        run(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        run(connection, f"LOCK TABLE {table.lock_sql} IN ACCESS SHARE MODE")
        again = find_table(connection, name)
        if again.oid == table.oid:
            return again
        run(connection, "ROLLBACK")

"""What a table is: its columns, and the key by which it is cut into ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock._connectors.postgres.client import one, quoted, run
from penstock.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

_TABLE: Final = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relreplident::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)"""
_COLUMNS: Final = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated <> '', a.attidentity = 'a',
  format_type(CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END, NULL) IN ('json', 'jsonb'),
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
class Column:
    """A column: its name and its type as SQL has it."""

    name: str
    type: str
    not_null: bool = False
    generated: bool = False
    #: Whether the server alone gives its values, unless a statement says that it overrides them.
    always_identity: bool = False
    is_json: bool = False
    #: Of text: the collation in SQL, where it is not that of the type.
    collation: str | None = None

    @property
    def is_without_zone(self) -> bool:
        """Whether it has moments without a time zone."""
        return self.type.startswith("timestamp") and self.type.endswith(" without time zone")

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


def named_table(connection: psycopg.Connection[tuple[Any, ...]], names: Sequence[str], wanted: str) -> SourceTable:
    """Return that of some tables whose full name is known.

    Raises:
        TableError: It is not among them, or one of them is not there.
    """
    found = next((table for table in (find_table(connection, name) for name in names) if str(table) == wanted), None)
    if found is None:
        way_out = "Name it in set_tables, or start the job without a checkpoint and with a new slot"
        raise TableError(wanted, "the checkpoint has rows of it to read, and the source does not name it", way_out)
    return found


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

"""How a table is known again: what a source has begun to read must be what it goes on with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock._connectors.postgres.client import one, run
from penstock.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import psycopg

    from penstock._connectors.postgres.tables import Key, SourceTable

_SINCE_SCHEMAS: Final = 150_000
#: The rows of the catalog by which tables are published: an altered one is another version, or another row.
_PUBLISHED: Final = """
SELECT c.oid::bigint, concat_ws(' ', p.oid, p.xmin, {}
  (SELECT string_agg(r.oid || ':' || r.xmin, ',' ORDER BY r.oid) FROM pg_publication_rel r
   WHERE r.prpubid = p.oid AND r.prrelid = c.oid))
FROM pg_class c LEFT JOIN pg_publication p ON p.pubname = %s WHERE c.oid = ANY(%s)"""
_SCHEMAS: Final = """
  (SELECT n.oid FROM pg_publication_namespace n WHERE n.pnpubid = p.oid AND n.pnnspid = c.relnamespace),"""
#: All that says what tables are, in one text.
_STATE: Final = """
SELECT (SELECT array_agg(to_regclass(name)::oid) FROM unnest(%s::text[]) AS name)::text || coalesce((
  SELECT string_agg(concat_ws(' ', c.oid, c.relnamespace, c.relname, c.relkind, c.relreplident, c.relpersistence,
    (SELECT string_agg(concat_ws(' ', i.xmin, i.indexrelid), ',' ORDER BY i.indexrelid) FROM pg_index i
     WHERE i.indrelid = c.oid),
    (SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid), ',' ORDER BY a.attnum) FROM pg_attribute a
     WHERE a.attrelid = c.oid AND a.attnum > 0)), ';' ORDER BY c.oid)
  FROM pg_class c WHERE c.oid = ANY(%s)), '')"""
_ANEW: Final = "Undo the change, or start the job without a checkpoint"


@dataclass(frozen=True, slots=True)
class TableMark:
    """What a table was when a source began to read it.

    Attributes:
        oid: Its number, which it has as long as it is there.
        name: Its name, ``schema.name``.
        key: The columns of its key, and their types.
        columns: The columns, each with number, name and type.
        published: By which rows of the catalog it is published; empty where it is not followed.
    """

    oid: int
    name: str
    key: tuple[tuple[str, str], ...]
    columns: tuple[tuple[int, str, str], ...] = ()
    published: str = ""

    @classmethod
    def of(cls, table: SourceTable, key: Key, published: str = "") -> TableMark:
        """Return the mark of a table."""
        columns = tuple((column.number, column.name, column.type) for column in table.columns)
        return cls(table.oid, str(table), _typed(key), columns, published)

    def check(self, table: SourceTable, key: Key, names: Collection[str] = (), way_out: str = _ANEW) -> None:
        """Check that a table is the same as it was.

        Args:
            table: The table.
            key: Its key.
            names: The columns that must be as they were.
            way_out: What the error advises.

        Raises:
            TableError: It is another one, or these columns or its key have changed.
        """
        if table.oid != self.oid:
            reason = "it is not the one that was read before: it was dropped and made anew, or another has its name"
            raise TableError(str(table), reason, way_out)
        now = {column.number: column for column in table.columns}
        for number, name, kind in self.columns:
            column = now.get(number)
            if name not in names:
                continue
            if column is None or column.name != name:
                change = "dropped" if column is None else f"renamed to {column.name!r}"
                raise TableError(str(table), f"its column {name!r} was {change} since it was read before", way_out)
            if column.type != kind:
                reason = f"its column {name!r} was of type {kind} when it was read before, and is of {column.type}"
                raise TableError(str(table), reason, way_out)
        if _typed(key) != self.key:
            reason = f"its key was {_described(self.key)} when it was read before, and is {_described(_typed(key))}"
            raise TableError(str(table), reason, way_out)


def _typed(key: Key) -> tuple[tuple[str, str], ...]:
    return tuple((column.name, column.type) for column in key.columns)


def _described(key: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in key)


def published_by(
    connection: psycopg.Connection[tuple[Any, ...]], publication: str, oids: Sequence[int]
) -> dict[int, str]:
    """Return for tables by which rows of the catalog a publication has them."""
    schemas = _SCHEMAS if connection.info.server_version >= _SINCE_SCHEMAS else ""
    return dict(run(connection, _PUBLISHED.format(schemas), (publication, list(oids))).fetchall())


def state_text(
    connection: psycopg.Connection[tuple[Any, ...]], names: Sequence[str], publication: str, oids: Sequence[int]
) -> str:
    """Return a text that is another one as soon as one of some tables, a name or the publication is changed."""
    (tables,) = one(connection, _STATE, (list(names), list(oids)))
    return f"{tables} {sorted(published_by(connection, publication, oids).items())}"

"""Looks whether the tables of a change stream are those that it began with, and are still published.

The server sends what was published when it was changed. A table that was made anew, or that the publication left out
for a while, has changes that no look at the slot shows: so each look is preceded by one at the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._connectors.postgres.client import one
from penstock._connectors.postgres.marks import TableMark, published_by, state_text
from penstock._connectors.postgres.slot import ANEW, check_identity, check_publication
from penstock._connectors.postgres.tables import find_table
from penstock._connectors.postgres.types import codecs_of
from penstock.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._connectors.postgres.splits import AnyConnection, ChangeOptions
    from penstock._connectors.postgres.tables import SourceTable


def check_columns(connection: AnyConnection, options: ChangeOptions, tables: Sequence[SourceTable]) -> None:
    """Check that the values of all columns can be read.

    Raises:
        TableError: One is of a type that has no counterpart.
    """
    for table in tables:
        columns = [column for column in table.columns if not column.generated]
        codecs_of(connection, str(table), columns, options.text_columns)


def marks_of(connection: AnyConnection, options: ChangeOptions, tables: Sequence[SourceTable]) -> dict[int, TableMark]:
    """Return the marks of tables that are followed from now on."""
    published = published_by(connection, options.publication, [table.oid for table in tables])
    return {table.oid: TableMark.of(table, table.key(), published.get(table.oid, "")) for table in tables}


def named_table(connection: AnyConnection, names: Sequence[str], mark: TableMark) -> SourceTable:
    """Return that of some tables that was read before.

    Raises:
        TableError: It is not among them, or one of them is not there, or was made anew.
    """
    tables = [find_table(connection, name) for name in names]
    found = next((table for table in tables if table.oid == mark.oid or str(table) == mark.name), None)
    if found is None:
        way_out = "Name it in set_tables, or start the job without a checkpoint and with a new slot"
        raise TableError(mark.name, "the checkpoint has rows of it to read, and the source does not name it", way_out)
    mark.check(found, found.key(), way_out=ANEW)
    return found


class TableWatch:
    """The tables of a stream, looked at again as long as it is read.

    Args:
        options: What is read.
        marks: The tables as they were at the beginning.
    """

    def __init__(self, options: ChangeOptions, marks: Mapping[int, TableMark]) -> None:
        self._options = options
        self.marks: dict[int, TableMark] = dict(marks)
        #: By its name in the program: the number of each table; empty before the first look.
        self._oids: dict[str, int] = {}
        self.tables: dict[int, SourceTable] = {}
        self._seen = ""

    def look(self, connection: AnyConnection) -> bool:
        """Look at the tables; tell whether something about them is new.

        Raises:
            TableError: One is not the one that it was, or its key or what is published of it was changed.
            ReplicationSlotError: The publication is gone.
        """
        names, publication = self._options.tables, self._options.publication
        if state_text(connection, names, publication, list(self._oids.values())) == self._seen:
            return False
        is_first = not self._oids
        oids = {name: self._find(connection, name).oid for name in names}
        seen = state_text(
            connection, names, publication, list(oids.values())
        )  # what changes now is seen by the next look
        tables = [self._find(connection, name) for name in names]
        self._check(connection, tables, is_first=is_first)
        self._oids, self._seen = oids, seen
        self.tables = {table.oid: table for table in tables}
        return True

    def _find(self, connection: AnyConnection, name: str) -> SourceTable:
        """Return a table by its name, or by its number if it was renamed since the first look."""
        oid = self._oids.get(name)
        query = "SELECT to_regclass(%s) IS NULL, (SELECT oid::regclass::text FROM pg_class WHERE oid = %s)"
        is_gone, its_name = one(connection, query, (name, oid))
        if is_gone and oid is not None and its_name is None:
            raise TableError(name, "it was dropped while its changes were followed", f"Drop the slot. {ANEW}")
        return find_table(connection, its_name if is_gone and its_name else name)

    def _check(self, connection: AnyConnection, tables: Sequence[SourceTable], *, is_first: bool) -> None:
        oids = {table.oid for table in tables}
        lost = {mark.name for oid, mark in self.marks.items() if oid not in oids}
        for table in tables:
            key, mark = table.key(), self.marks.get(table.oid)
            if mark is not None:
                mark.check(table, key, way_out=f"Drop the slot. {ANEW}")
            elif str(table) in lost or not is_first:
                reason = "it is not the one that was followed: that was dropped and made anew, or another has its name"
                raise TableError(str(table), reason, f"Drop the slot. {ANEW}")
            check_identity(table, key.names)
        check_columns(connection, self._options, tables)
        check_publication(connection, self._options.slot, self._options.publication, tables)
        self.marks |= marks_of(connection, self._options, [table for table in tables if table.oid not in self.marks])
        published = published_by(connection, self._options.publication, list(oids))
        changed = next((table for table in tables if self.marks[table.oid].published != published[table.oid]), None)
        if changed is not None:
            reason = (
                f"what the publication {self._options.publication} has of it was changed, and changes may be missing"
            )
            raise TableError(str(changed), reason, f"Drop the slot. {ANEW}")

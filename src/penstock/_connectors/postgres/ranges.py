"""Cuts a table into ranges of its key, and reads pages of a range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock._connectors.postgres.client import listed, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from penstock._connectors.postgres.tables import Key, SourceTable

#: The values of a key, as texts.
KeyText: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys behind ``start`` up to ``end``, which is included; None is no bound."""

    start: KeyText | None = None
    end: KeyText | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows in the order of their keys, and the key of each."""

    rows: list[tuple[Any, ...]]
    keys: list[KeyText]


class TableReader:
    """Reads one table by ranges of its key.

    Args:
        table: The table.
        key: Its key.
        columns: The columns to read.
    """

    def __init__(self, table: SourceTable, key: Key, columns: Sequence[str]) -> None:
        self.columns: tuple[str, ...] = tuple(columns)
        self._key = key
        self._keys_query = f"SELECT {key.texts_sql} FROM {table.rows_sql}"
        self._rows_query = f"SELECT {listed(columns)}, {key.texts_sql} FROM {table.rows_sql}"

    def find_bound(
        self, connection: psycopg.Connection[tuple[Any, ...]], start: KeyText | None, rows: int
    ) -> KeyText | None:
        """Return the key of the last row of a range of some rows behind a key; None if the table ends before."""
        where, parameters = self._where(KeyRange(start))
        query = f"{self._keys_query}{where} ORDER BY {self._key.order_sql} OFFSET {rows - 1} LIMIT 1"
        return run(connection, query, parameters).fetchone()

    def read(self, connection: psycopg.Connection[tuple[Any, ...]], keys: KeyRange, most: int) -> Page:
        """Return the first rows of a range, at most some."""
        where, parameters = self._where(keys)
        query = f"{self._rows_query}{where} ORDER BY {self._key.order_sql} LIMIT {most}"
        found = run(connection, query, parameters).fetchall()
        width = len(self.columns)
        return Page([row[:width] for row in found], [row[width:] for row in found])

    def _where(self, keys: KeyRange) -> tuple[str, tuple[str, ...]]:
        bounds = [(sign, bound) for sign, bound in ((">", keys.start), ("<=", keys.end)) if bound is not None]
        conditions = [f"{self._key.sql} {sign} {self._key.value_sql}" for sign, _ in bounds]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return where, tuple(text for _, bound in bounds for text in bound)


def records_of(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return rows as dicts."""
    return [dict(zip(columns, row, strict=True)) for row in rows]

"""Cuts a table into ranges of its key, and reads pages of a range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg

from penstock._connectors.postgres.client import quoted, run
from penstock.errors import RecordValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._connectors.postgres.tables import Key, SourceTable
    from penstock._connectors.postgres.values import Codec

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
        codecs: What reads their values.
    """

    def __init__(self, table: SourceTable, key: Key, columns: Sequence[str], codecs: Sequence[Codec]) -> None:
        self.columns: tuple[str, ...] = tuple(columns)
        self._name, self._key, self._codecs = str(table), key, tuple(codecs)
        self._parsed = tuple(place for place, codec in enumerate(codecs) if not codec.is_native)
        self._keys_query = f"SELECT {key.texts_sql} FROM {table.rows_sql}"
        names = [quoted("r", name) for name in columns]
        chosen = [name if codec.is_native else text_of(name) for name, codec in zip(names, codecs, strict=True)]
        self._rows_query = f"SELECT {', '.join([*chosen, key.texts_sql])} FROM {table.rows_sql}"
        self._texts_query = f"SELECT {', '.join(map(text_of, names))} FROM {table.rows_sql}"

    def find_bound(
        self, connection: psycopg.Connection[tuple[Any, ...]], start: KeyText | None, rows: int
    ) -> KeyText | None:
        """Return the key of the last row of a range of some rows behind a key; None if the table ends before."""
        where, parameters = self._where(KeyRange(start))
        query = f"{self._keys_query}{where} ORDER BY {self._key.order_sql} OFFSET {rows - 1} LIMIT 1"
        return run(connection, query, parameters).fetchone()

    def read(self, connection: psycopg.Connection[tuple[Any, ...]], keys: KeyRange, most: int) -> Page:
        """Return the first rows of a range, at most some.

        Raises:
            RecordValueError: A value has no counterpart in Python.
        """
        where, parameters = self._where(keys)
        rest = f"{where} ORDER BY {self._key.order_sql} LIMIT {most}"
        width = len(self.columns)
        try:
            found = run(connection, self._rows_query + rest, parameters).fetchall()
            rows = self._values([row[:width] for row in found])
        except (ValueError, psycopg.DataError) as error:
            if isinstance(error, psycopg.Error) and error.sqlstate is not None:  # the server's
                raise
            raise self._unfit(run(connection, self._texts_query + rest, parameters).fetchall(), error) from error
        return Page(rows, [row[width:] for row in found])

    def _values(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        if not self._parsed or not rows:
            return rows
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        for place in self._parsed:
            parse = self._codecs[place].parse
            columns[place] = [None if text is None else parse(text) for text in columns[place]]
        return list(zip(*columns, strict=True))

    def _unfit(self, rows: list[tuple[Any, ...]], error: Exception) -> Exception:
        """Return the error for the first value of some rows, as texts, that cannot be read."""
        for row in rows:
            for name, codec, text in zip(self.columns, self._codecs, row, strict=True):
                try:
                    if text is not None:
                        codec.parse(text)
                except ValueError as reason:
                    record = f"{dict(zip(self.columns, row, strict=True))!r:.200} of {self._name}"
                    return unreadable(name, record, codec, str(text), reason)
        return error

    def _where(self, keys: KeyRange) -> tuple[str, tuple[str, ...]]:
        bounds = [(sign, bound) for sign, bound in ((">", keys.start), ("<=", keys.end)) if bound is not None]
        conditions = [f"{self._key.sql} {sign} {self._key.value_sql}" for sign, _ in bounds]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return where, tuple(text for _, bound in bounds for text in bound)


def text_of(name: str) -> str:
    """Return what the server writes for a column, in SQL; a cast to text is another one of some types."""
    return f"CASE WHEN num_nulls({name}) = 0 THEN concat({name}) END"


def unreadable(name: str, record: str, codec: Codec, text: str, reason: Exception) -> RecordValueError:
    """Return the error for a value that has no counterpart in Python."""
    why = f"the value {text!r:.100} has none in Python ({str(reason).removesuffix('.')})"
    way_out = f"Have the column as text (set_text_columns({name!r})), or leave it out"
    return RecordValueError(name, record, codec.name, why, way_out)


def records_of(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return rows as dicts."""
    return [dict(zip(columns, row, strict=True)) for row in rows]

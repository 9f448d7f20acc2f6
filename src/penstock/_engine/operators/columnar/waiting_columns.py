"""Columns of records that wait until they are enough to be aggregated at once.

Arrow makes what groups a table anew for each: 16,384 records at a time take four times as long as half a million.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What is held at most, in records and in bytes.
_MOST_RECORDS: Final = 1 << 19
_MOST_BYTES: Final = 1 << 24


class WaitingColumns:
    """Tables of one schema that wait."""

    def __init__(self) -> None:
        self._tables: list[Any] = []
        self._count = self._bytes = 0

    def __len__(self) -> int:
        return self._count

    def add(self, table: Any) -> Iterator[Any]:
        """Add a table; yield what there is no more room for, joined."""
        if self._tables and self._tables[0].schema != table.schema:
            yield from self.take()
        self._tables.append(table)
        self._count += table.num_rows
        self._bytes += table.nbytes
        if self._count >= _MOST_RECORDS or self._bytes >= _MOST_BYTES:
            yield from self.take()

    def take(self) -> Iterator[Any]:
        """Yield all that is held, joined, unless there is nothing."""
        import pyarrow as pa

        tables, self._tables, self._count, self._bytes = self._tables, [], 0, 0
        if tables:
            yield cast("Any", pa).concat_tables(tables)

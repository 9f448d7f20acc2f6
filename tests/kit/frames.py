"""Sources of DataFrames without Spark: tables in the place of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock._builders.dataframes import FrameSource
from penstock._engine.caches.frames import parquet_bytes
from penstock._formats.frame_types import declared_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._engine.storage.run_files import RunFiles


class Tables:
    """Writes tables as Spark writes a DataFrame.

    Args:
        partitions: The rows of each file.
    """

    def __init__(self, partitions: Sequence[list[dict[str, Any]]]) -> None:
        self.partitions = partitions
        #: How often it was written.
        self.count = 0

    def __call__(self, files: RunFiles) -> TablesWriting:
        return TablesWriting(self, files)


class TablesWriting:
    """One writing of tables."""

    def __init__(self, tables: Tables, files: RunFiles) -> None:
        self._tables, self._files = tables, files

    def run(self) -> list[str]:
        tables, files = self._tables, self._files
        tables.count += 1
        storage, names = files.open(), list[str]()
        for number, rows in enumerate(tables.partitions):
            names.append(f"{files.prefix}-{tables.count}-{number}.parquet")
            storage.put(names[-1], parquet_bytes(pa.Table.from_pylist(rows)))
        return [storage.full_path(name) for name in names]

    def cancel(self) -> None:
        """Do nothing: it is written at once."""


def frame_of(partitions: Sequence[list[dict[str, Any]]], tables: Tables | None = None) -> FrameSource:
    """Return the source of a DataFrame with some partitions."""
    schema = pa.Table.from_pylist([row for rows in partitions for row in rows]).schema
    return FrameSource(declared_rows(schema), tables or Tables(partitions))

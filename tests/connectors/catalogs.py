"""A catalog of Iceberg tables in a folder: SQLite, and files beside it."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.concurrent import ExecutorFactory

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

NAME = "shop.items"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def start_threads() -> None:
    """Start the threads of pyiceberg, which it keeps, before a test looks at what it leaves."""
    executor: Any = ExecutorFactory.get_or_create()
    together = Barrier(executor._max_workers + 1, timeout=60)
    for _ in range(executor._max_workers):
        executor.submit(together.wait)
    together.wait()


def options(folder: Path) -> dict[str, str]:
    """Return the options of a folder's catalog."""
    folder.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/tables"}


@contextmanager
def catalog_of(folder: Path) -> Generator[Any]:
    """Open a folder's catalog, with its namespace."""
    catalog = load_catalog("penstock", **options(folder))
    catalog.create_namespace_if_not_exists("shop")
    try:
        yield catalog
    finally:
        catalog.close()


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the table, in order; none without one."""
    with catalog_of(folder) as catalog:
        if not catalog.table_exists(NAME):
            return []
        rows: list[dict[str, Any]] = catalog.load_table(NAME).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: row["id"])


def rows(*numbers: int, **columns: list[Any]) -> pa.Table:
    """Return rows of ids with names, and other columns."""
    return pa.table({"id": pa.array(numbers, pa.int64()), "name": [f"n{one}" for one in numbers], **columns})

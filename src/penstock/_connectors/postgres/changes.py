"""The record of a change stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock._shelf import show


@dataclass(frozen=True, slots=True)
class PostgresChange:
    """A row that the first look at a table found, or a change of a table.

    Attributes:
        op: ``read`` of the first look; ``insert``, ``update``, ``delete``, or ``truncate`` of the whole table.
        table: The table, ``schema.name``.
        before: The row before an update or delete. It has the columns of the key alone, and is None for an update that
            leaves the key as it is, unless the table has ``REPLICA IDENTITY FULL``.
        after: The row after it; None for ``delete`` and ``truncate``.
        unchanged: Columns that ``after`` lacks: long values that the update left as they were, and the server does not
            send. With ``REPLICA IDENTITY FULL`` there are none.
        key_changed: Whether an update has changed the key.
        lsn: The place in the server's log: of the commit, or, of ``read``, a place after all that it shows.
        timestamp_ms: The time of the commit in milliseconds since the epoch, by the server's clock; of ``read``, the
            time at which the first look at the tables began.

    Example:
        >>> PostgresChange("insert", "public.orders", after={"id": 7}).after["id"]
        7
    """

    op: str
    table: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    unchanged: tuple[str, ...] = ()
    key_changed: bool = False
    lsn: int = 0
    timestamp_ms: int = 0


show("penstock.datastream.connectors.postgres", PostgresChange)

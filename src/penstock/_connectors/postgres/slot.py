"""The replication slot and the publication of a change stream.

A slot keeps the log of the server from a position on, until it is advanced. Positions are numbers of bytes of the log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg

from penstock._connectors.postgres.client import one, quoted, run
from penstock.errors import ConfigurationError, ReplicationSlotError, TableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._connectors.postgres.tables import SourceTable

_PAGE_BYTES: Final = 8192
_NAME: Final = re.compile(r"[a-z0-9_]{1,63}")
_SLOT: Final = """
SELECT plugin::text, database::text, wal_status, (confirmed_flush_lsn - '0/0')::bigint,
  (pg_current_wal_lsn() - restart_lsn)::bigint FROM pg_replication_slots WHERE slot_name = %s"""
_PUBLISHED: Final = """
SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot
FROM pg_publication WHERE pubname = %s"""
_ENTRIES: Final = "SELECT to_jsonb(p) FROM pg_publication_tables p WHERE pubname = %s"
ANEW: Final = "Start the job without a checkpoint and with a new slot: it looks at the tables again"


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """What the server says of a slot."""

    #: Changes before it were given up by a job whose checkpoint has them.
    confirmed_lsn: int
    #: The bytes of the log that the server keeps for it.
    retained_bytes: int


def check_name(setter: str, name: str) -> str:
    """Return the name of a slot.

    Raises:
        ConfigurationError: It is none.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(setter, name, "it is at most 63 small letters, digits and underscores")
    return name


def lsn_text(lsn: int) -> str:
    """Return a position as the server writes it.

    Example:
        >>> lsn_text(0x16B3748)
        '0/16B3748'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def flushed_lsn(connection: psycopg.Connection[tuple[Any, ...]]) -> int:
    """Return the end of the log that is durable."""
    return one(connection, "SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint")[0]


def end_of_log(connection: psycopg.Connection[tuple[Any, ...]], slot: str, lsn: int) -> int:
    """Return the end of the log that is durable, on the server of which the log was read up to a position.

    Raises:
        ReplicationSlotError: The log ends before it. As it grows it would come past the position, and what it has up to
            there would be taken for read.
    """
    end = flushed_lsn(connection)
    if end + _PAGE_BYTES < lsn:  # the end of a page may be told as the beginning of the next one
        reason = (
            f"the server's log ends at {lsn_text(end)}, and was read up to {lsn_text(lsn)}: it is another server, or "
            "was restored from an older copy, or is a standby that was promoted without the end of the log"
        )
        raise ReplicationSlotError(slot, reason, f"Drop the slot. {ANEW}")
    return end


def slot_status(connection: psycopg.Connection[tuple[Any, ...]], slot: str) -> SlotStatus | None:
    """Return the status of a slot; None if there is none of that name.

    Raises:
        ReplicationSlotError: It is another kind of slot, or the server has given it up.
    """
    row = run(connection, _SLOT, (slot,)).fetchone()
    if row is None:
        return None
    plugin, database, status, confirmed, retained = row
    (own,) = one(connection, "SELECT current_database()")
    if plugin != "pgoutput" or database != own:
        reason = f"it is of database {database} and plugin {plugin}, not of {own} and pgoutput"
        raise ReplicationSlotError(slot, reason, "Choose another name (set_slot_name)")
    if status == "lost" or confirmed is None:
        reason = "the server has removed log that it needs, by max_slot_wal_keep_size or after a standby's promotion"
        raise ReplicationSlotError(slot, reason, f"Drop it. {ANEW}")
    return SlotStatus(confirmed, retained or 0)


def check_position(connection: psycopg.Connection[tuple[Any, ...]], slot: str, lsn: int) -> SlotStatus:
    """Return the status of a slot that has all changes from a position on.

    Raises:
        ReplicationSlotError: It is gone, or was advanced beyond that.
    """
    status = slot_status(connection, slot)
    if status is None:
        raise ReplicationSlotError(slot, "it is gone: somebody dropped it, or the server is another one", ANEW)
    if status.confirmed_lsn > lsn:
        reason = (
            f"it was advanced to {lsn_text(status.confirmed_lsn)}, and the checkpoint continues at {lsn_text(lsn)}: a "
            "later checkpoint was durable, another job has used the slot, or it was made anew"
        )
        raise ReplicationSlotError(slot, reason, f"Start from the newest checkpoint or savepoint. Or: {ANEW}")
    return status


def advance(connection: psycopg.Connection[tuple[Any, ...]], slot: str, lsn: int) -> None:
    """Let the server forget the changes before a position."""
    advancing = (
        "SELECT pg_replication_slot_advance(slot_name, %s::pg_lsn) FROM pg_replication_slots "
        "WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_lsn"
    )
    run(connection, advancing, (lsn_text(lsn), slot, lsn_text(lsn)))


def check_identity(table: SourceTable, key: Sequence[str]) -> None:
    """Check that the server sends the key of a changed row; without one the writers of the table would fail.

    Raises:
        TableError: It does not.
    """
    primary = next((index.columns for index in table.indexes if index.is_primary), ())
    chosen = next((index.columns for index in table.indexes if index.is_replica_identity), ())
    sent = {"d": primary, "i": chosen, "n": ()}.get(table.replica_identity, tuple(key))
    if set(sent) != set(key):
        reason = f"for changed rows the server sends {', '.join(sent) or 'nothing'}, and the key is {', '.join(key)}"
        way_out = f"ALTER TABLE {table} REPLICA IDENTITY FULL, or USING INDEX with the index of the key"
        raise TableError(str(table), reason, way_out)


def make_slot(
    connection: psycopg.Connection[tuple[Any, ...]], slot: str, publication: str, tables: Sequence[SourceTable]
) -> None:
    """Make what is missing of publication and slot; waits for transactions that have changed something by then.

    Raises:
        TableError: The publication lacks a table, or some kind of change.
        ReplicationSlotError: The slot is older than the publication, which it must not be.
    """
    row = run(connection, _PUBLISHED, (publication,)).fetchone()
    is_there = slot_status(connection, slot) is not None
    if row is None and is_there:
        reason = f"it is older than the publication {publication}, which is gone"
        raise ReplicationSlotError(slot, reason, f"Drop it. {ANEW}")
    if row is None:
        names = ", ".join(table.sql for table in tables)
        options = "WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)"
        run(connection, f"CREATE PUBLICATION {quoted(publication)} FOR TABLE {names} {options}")
    else:
        _check_published(connection, publication, tables, row)
    if not is_there:
        try:
            run(connection, "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            reason = " ".join(str(error).split())
            raise ReplicationSlotError(slot, reason, "Set wal_level = logical and restart the server") from error


def check_publication(
    connection: psycopg.Connection[tuple[Any, ...]], slot: str, publication: str, tables: Sequence[SourceTable]
) -> None:
    """Check that the publication still has the tables of a job that continues.

    Raises:
        TableError: The publication lacks a table, or some kind of change.
        ReplicationSlotError: It is gone.
    """
    row = run(connection, _PUBLISHED, (publication,)).fetchone()
    if row is None:
        raise ReplicationSlotError(slot, f"its publication {publication} is gone", f"Drop the slot. {ANEW}")
    _check_published(connection, publication, tables, row)


def _check_published(
    connection: psycopg.Connection[tuple[Any, ...]],
    publication: str,
    tables: Sequence[SourceTable],
    row: tuple[Any, ...],
) -> None:
    all_kinds, via_root = row
    published = {
        (entry["schemaname"], entry["tablename"]): entry for (entry,) in run(connection, _ENTRIES, (publication,))
    }
    for table in tables:
        if not all_kinds or (table.kind == "p" and not via_root):
            way_out = f"ALTER PUBLICATION {publication} SET (publish = 'insert, update, delete, truncate')"
            if table.kind == "p":
                way_out = f"{way_out}, and publish_via_partition_root = true"
            raise TableError(str(table), f"the publication {publication} leaves changes of it out", way_out)
        entry = published.get((table.schema, table.name))
        if entry is None:
            way_out = f"ALTER PUBLICATION {publication} ADD TABLE {table}, and start with a new slot"
            raise TableError(str(table), f"the publication {publication} does not have it", way_out)
        # Servers before 15 publish whole tables alone.
        sent = entry.get("attnames") or [column.name for column in table.columns]
        if entry.get("rowfilter") or not {column.name for column in table.columns if not column.generated} <= {*sent}:
            way_out = f"ALTER PUBLICATION {publication} without a list of columns and without WHERE for it"
            raise TableError(str(table), f"the publication {publication} has only a part of it", way_out)


def drop_slot(connection: psycopg.Connection[tuple[Any, ...]], slot: str, publication: str) -> None:
    """Drop the slot and the publication, as far as they are there."""
    run(
        connection,
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
        (slot,),
    )
    run(connection, f"DROP PUBLICATION IF EXISTS {quoted(publication)}")

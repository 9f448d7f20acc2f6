"""Errors of databases that sources read and sinks write."""

from __future__ import annotations

from penstock._errors.root import declared
from penstock._errors.run import JobRunError


@declared
class DatabaseError(JobRunError):
    """A database does not answer, or refuses a statement."""

    database: str  #: the database, without secrets
    what: str  #: what was to be done, such as ``Reading public.orders``
    reason: str  #: what the database said, a clause without a full stop

    def __str__(self) -> str:
        return f"{self.what} in {self.database} failed: {self.reason}."


class DatabaseConnectionError(DatabaseError):
    """A database cannot be reached, or a connection to it was lost; a restart may help."""


@declared
class TableError(JobRunError):
    """A table cannot be read or written as the program asks; a restart does not help."""

    table: str  #: the table
    reason: str  #: what is wrong with it, a clause without a full stop
    way_out: str  #: what to do about it, a clause without a full stop

    def __str__(self) -> str:
        return f"The table {self.table} cannot be used: {self.reason}. {self.way_out}."


@declared
class ReplicationSlotError(JobRunError):
    """A replication slot does not have the changes that a source would read next; a restart does not help."""

    slot: str  #: the slot
    reason: str  #: what is wrong with it, a clause without a full stop
    way_out: str  #: what to do about it, a clause without a full stop

    def __str__(self) -> str:
        return f"The changes in replication slot {self.slot} cannot be read: {self.reason}. {self.way_out}."

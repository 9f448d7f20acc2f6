"""The sink and its builder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from penstock._api.connectors.sink import DeliveryGuarantee, Sink, SupportsCommitter
from penstock._connectors.postgres.builders import PostgresBuilder
from penstock._connectors.postgres.staging import SinkOptions, StagedTable
from penstock._shelf import show
from penstock.common.arguments import instance, texts

if TYPE_CHECKING:
    from penstock._api.connectors.committer import CommitterInitContext
    from penstock._api.connectors.sink import WriterInitContext
    from penstock._connectors.postgres.committer import PostgresCommitter
    from penstock._connectors.postgres.writer import DirectWriter, StagedTableWriter


class PostgresSink(Sink[Any], SupportsCommitter[StagedTable]):
    """Writes each record exactly once into a table of a PostgreSQL database.

    Writers copy their rows into staged tables. Once the checkpoint is durable, one transaction brings the rows of all
    of them into the table, and notes that in a table of commits. Records are dicts, Rows, or tuples in the order of the
    columns.

    Source: the JDBC connector of Flink, whose names are in :mod:`penstock.datastream.connectors.jdbc`.

    Example:
        >>> sink = (
        ...     PostgresSink.builder()
        ...     .set_url("postgresql://writer@db.example/shop")
        ...     .set_table("totals")
        ...     .set_key_columns("day")
        ...     .build()
        ... )
        >>> sink
        PostgresSink(totals of postgresql://db.example/shop)
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    @staticmethod
    def builder() -> PostgresSinkBuilder:
        """Begin a sink."""
        return PostgresSinkBuilder()

    def create_writer(self, context: WriterInitContext) -> StagedTableWriter:
        """Make a writer, which stages rows."""
        from penstock._connectors.postgres.writer import StagedTableWriter

        return StagedTableWriter(context, self._options)

    def create_committer(self, context: CommitterInitContext) -> PostgresCommitter:
        """Make the committer, which publishes staged rows.

        Raises:
            TableError: The table is not there, or lacks a column or the key.
        """
        from penstock._connectors.postgres.committer import PostgresCommitter

        return PostgresCommitter(self._options, context)

    def __repr__(self) -> str:
        return f"PostgresSink({self._options.table} of {self._options.address})"


class DirectPostgresSink(Sink[Any]):
    """Writes each record at least once: in blocks, each at once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def create_writer(self, context: WriterInitContext) -> DirectWriter:
        """Make a writer."""
        from penstock._connectors.postgres.writer import DirectWriter

        del context
        return DirectWriter(self._options)

    def __repr__(self) -> str:
        return f"PostgresSink({self._options.table} of {self._options.address}, at least once)"


class PostgresSinkBuilder(PostgresBuilder):
    """Builds a :class:`PostgresSink`."""

    def __init__(self) -> None:
        super().__init__()
        self._table = self._staging_schema = ""
        self._columns: tuple[str, ...] = ()
        self._key_columns: tuple[str, ...] = ()
        self._guarantee = DeliveryGuarantee.EXACTLY_ONCE

    def set_table(self, table: str) -> Self:
        """Set the table, as in SQL: ``totals``, ``sales.totals`` or ``sales."Totals"``."""
        self._table = table
        return self

    def set_columns(self, *columns: str) -> Self:
        """Set the columns to write, and their order in tuples; by default all that the server does not compute.

        Raises:
            TypeError: One is no text.
        """
        self._columns = texts("columns", columns)
        return self

    def set_key_columns(self, *columns: str) -> Self:
        """Let a record replace the row with the same key; the columns need a unique index.

        A Row of kind DELETE deletes that row, one of kind UPDATE_BEFORE is left out. A :class:`PostgresChange` does
        what it says. In one checkpoint the last record of a key counts: let one subtask have all of a key, by
        ``key_by``.

        Raises:
            TypeError: One is no text.
        """
        self._key_columns = texts("columns", columns)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Set how often a record is written: EXACTLY_ONCE, the default, or at least once and without waiting.

        Raises:
            TypeError: It is no DeliveryGuarantee.
        """
        self._guarantee = instance("delivery_guarantee", delivery_guarantee, DeliveryGuarantee)
        return self

    def set_staging_schema(self, schema: str) -> Self:
        """Set the schema for staged tables and the table of commits, where the user may create tables.

        By default that is the schema of the table.
        """
        self._staging_schema = schema
        return self

    def build(self) -> PostgresSink | DirectPostgresSink:
        """Make the sink.

        Raises:
            ConfigurationError: The table was not set.
        """
        table = self._needed(self._table, "set_table")
        options = SinkOptions(
            *(self._built_address(), table, self._columns, self._key_columns, self._staging_schema, self._text_columns)
        )
        once = self._guarantee is DeliveryGuarantee.EXACTLY_ONCE
        return PostgresSink(options) if once else DirectPostgresSink(options)


show("penstock.datastream.connectors.postgres", PostgresSink, PostgresSinkBuilder)

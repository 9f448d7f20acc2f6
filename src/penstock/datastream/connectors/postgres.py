"""Tables of PostgreSQL databases as sources and sinks, and their changes as a source; needs ``penstock[postgres]``."""

from __future__ import annotations

from penstock._connectors.postgres.change_source import PostgresChangeSource, PostgresChangeSourceBuilder
from penstock._connectors.postgres.changes import PostgresChange
from penstock._connectors.postgres.json_values import Json
from penstock._connectors.postgres.sink import PostgresSink, PostgresSinkBuilder
from penstock._connectors.postgres.source import PostgresSource, PostgresSourceBuilder

__all__ = [
    "Json",
    "PostgresChange",
    "PostgresChangeSource",
    "PostgresChangeSourceBuilder",
    "PostgresSink",
    "PostgresSinkBuilder",
    "PostgresSource",
    "PostgresSourceBuilder",
]

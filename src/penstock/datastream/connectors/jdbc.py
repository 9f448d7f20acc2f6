"""PyFlink's names of the JDBC connector, for PostgreSQL (``pyflink.datastream.connectors.jdbc``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._connectors.postgres.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]

explain(__name__)

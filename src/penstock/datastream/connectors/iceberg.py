"""Iceberg tables as sources and sinks; needs ``penstock[iceberg]``. PyFlink has no such module."""

from __future__ import annotations

from penstock._absent import explain
from penstock._connectors.lake.iceberg_sink import IcebergSink
from penstock._connectors.lake.iceberg_source import IcebergSource

__all__ = ["IcebergSink", "IcebergSource"]

explain(__name__)

"""Delta tables as sources and sinks; needs ``penstock[delta]``. PyFlink has no such module."""

from __future__ import annotations

from penstock._absent import explain
from penstock._connectors.lake.delta_sink import DeltaSink
from penstock._connectors.lake.delta_source import DeltaSource

__all__ = ["DeltaSink", "DeltaSource"]

explain(__name__)

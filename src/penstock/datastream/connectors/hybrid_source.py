"""Sources that follow each other (``pyflink.datastream.connectors.hybrid_source``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._connectors.hybrid.messages import SourceSwitchContext
from penstock._connectors.hybrid.source import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceSwitchContext"]

explain(__name__)

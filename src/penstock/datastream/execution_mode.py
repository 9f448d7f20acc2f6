"""RuntimeExecutionMode: whether a job runs as a stream or as a batch (``pyflink.datastream.execution_mode``)."""

from __future__ import annotations

from penstock._api.execution_mode import (
    RuntimeExecutionMode,
)

__all__ = [
    "RuntimeExecutionMode",
]

"""RuntimeExecutionMode: whether a job runs as a stream or as a batch (``pyflink.datastream.execution_mode``)."""

from __future__ import annotations

from enum import Enum

from penstock._shelf import show

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """Whether a job runs as a stream or as a batch.

    Source: org.apache.flink.api.common.RuntimeExecutionMode.
    """

    STREAMING = 0
    """Results follow each record; checkpoints are taken while the job runs."""
    BATCH = 1
    """Results come at the end; all sources must be bounded."""
    AUTOMATIC = 2
    """BATCH when all sources are bounded, else STREAMING."""


show("penstock.datastream.execution_mode", RuntimeExecutionMode)

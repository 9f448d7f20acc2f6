"""CheckpointingMode: the guarantee of state after a failure (``pyflink.datastream.checkpointing_mode``)."""

from __future__ import annotations

from enum import Enum

from penstock._shelf import show

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """How often a record may count in state after a failure; every checkpoint here is exactly once.

    Source: org.apache.flink.core.execution.CheckpointingMode.
    """

    EXACTLY_ONCE = 0
    """Once."""
    AT_LEAST_ONCE = 1
    """Once or more; accepted, and gives exactly once."""


show("penstock.datastream.checkpointing_mode", CheckpointingMode)

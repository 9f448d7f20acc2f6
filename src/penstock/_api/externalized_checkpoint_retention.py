"""ExternalizedCheckpointRetention: which checkpoints stay after a job's end (PyFlink's module of that name)."""

from __future__ import annotations

from enum import Enum

from penstock._shelf import show

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """Which checkpoints stay after a job's end.

    Source: org.apache.flink.configuration.ExternalizedCheckpointRetention.
    """

    DELETE_ON_CANCELLATION = 0
    """Kept when the job fails, deleted when it is cancelled."""
    RETAIN_ON_CANCELLATION = 1
    """Kept when the job fails or is cancelled."""
    NO_EXTERNALIZED_CHECKPOINTS = 2
    """Never kept."""


show("penstock.datastream.externalized_checkpoint_retention", ExternalizedCheckpointRetention)

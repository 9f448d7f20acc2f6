"""CheckpointingMode: what a failure may do to state (``pyflink.datastream.checkpointing_mode``)."""

from __future__ import annotations

from penstock._api.checkpointing_mode import (
    CheckpointingMode,
)

__all__ = [
    "CheckpointingMode",
]

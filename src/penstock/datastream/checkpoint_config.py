"""CheckpointConfig: the settings of checkpoints under names (``pyflink.datastream.checkpoint_config``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._api.checkpoint_config import (
    CheckpointConfig,
)

__all__ = [
    "CheckpointConfig",
]

explain(__name__)

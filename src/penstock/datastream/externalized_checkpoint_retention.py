"""ExternalizedCheckpointRetention: which ends of a job keep its checkpoints (PyFlink's module of that name)."""

from __future__ import annotations

from penstock._api.externalized_checkpoint_retention import (
    ExternalizedCheckpointRetention,
)

__all__ = [
    "ExternalizedCheckpointRetention",
]

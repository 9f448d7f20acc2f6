"""Where checkpoints are kept (``pyflink.datastream.checkpoint_storage``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._api.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)

__all__ = ["CheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"]

explain(__name__)

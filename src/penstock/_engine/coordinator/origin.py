"""The checkpoint that a job starts from: whose it is from then on, and which of its files the job needs as its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from penstock._engine.coordinator.snapshots import map_handles
from penstock._engine.protocol.metadata import JobSnapshot, RecordKind
from penstock._engine.protocol.paths import shared_directory

if TYPE_CHECKING:
    from penstock._engine.coordinator.retention import Retention
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.coordinator.start import Restored
    from penstock._engine.protocol.state_handle import StateHandle


@dataclass(frozen=True, slots=True)
class Origin:
    """What a job begins with."""

    snapshot: JobSnapshot
    #: Files to be copied first, from and to.
    copies: tuple[tuple[str, str], ...]


def take_up(restored: Restored, settings: JobSettings, job_id: str, retention: Retention) -> Origin:
    """Return the state of a checkpoint with files of this job, and count the checkpoint among those that it keeps.

    Args:
        restored: The checkpoint.
        settings: Say whether the job owns it.
        job_id: This job.
        retention: Of this job.
    """
    record = restored.record
    below = "://" not in restored.path and not PurePath(restored.path).is_absolute()
    inside = below and record.kind is not RecordKind.SAVEPOINT
    if inside and record.job_id == job_id:
        if settings.latest or settings.claim:
            retention.keep(record)
        else:
            retention.pin(record.checkpoint_id, restored.fitted.snapshot)
    snapshot, copies = own_files(restored.fitted.snapshot, job_id, inside=inside)
    return Origin(snapshot, copies)


def own_files(snapshot: JobSnapshot, job_id: str, *, inside: bool) -> tuple[JobSnapshot, tuple[tuple[str, str], ...]]:
    """Give files of another job or directory names below this job's directory.

    Args:
        snapshot: The state, which names the files.
        job_id: This job.
        inside: Whether the checkpoint is in this job's checkpoint directory; else all its files are elsewhere.

    Returns:
        The state with the new names, and the (old, new) paths.
    """
    copies: dict[str, str] = {}

    def change(handle: StateHandle) -> StateHandle:
        if handle.path is None or (inside and handle.path.startswith(f"{job_id}/")):
            return handle
        copies[handle.path] = f"{shared_directory(job_id)}/{handle.path.rpartition('/')[2]}"
        return replace(handle, path=copies[handle.path])

    return map_handles(snapshot, change), tuple(copies.items())

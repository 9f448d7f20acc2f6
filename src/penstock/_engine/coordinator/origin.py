"""The checkpoint that a job starts from: whose it is from then on, and which of its files the job needs as its own."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from penstock._engine.coordinator.snapshots import map_handles
from penstock._engine.protocol.metadata import JobSnapshot, RecordKind
from penstock._engine.protocol.paths import shared_directory, shared_path

if TYPE_CHECKING:
    from penstock._engine.coordinator.chain import Chain
    from penstock._engine.coordinator.retention import Retention
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.coordinator.start import Restored
    from penstock._engine.protocol.metadata import OperatorRecord
    from penstock._engine.protocol.state_handle import StateHandle


@dataclass(frozen=True, slots=True)
class Origin:
    """What a job begins with."""

    snapshot: JobSnapshot
    #: Files to be copied first, from and to.
    copies: tuple[tuple[str, str], ...]
    #: The first checkpoint is to name none of the files that are there: subtasks write all of their state anew.
    write_all: bool = False


def take_up(restored: Restored, settings: JobSettings, chain: Chain, retention: Retention) -> Origin:
    """Return the state of a checkpoint with files of this job, and count the checkpoint among those that it keeps.

    What this job does not own is left alone, and later checkpoints need nothing of it. One from elsewhere is copied. Of
    one of its own the files are read where they are, until the first checkpoint has all of the state anew.

    Args:
        restored: The checkpoint.
        settings: Say whether the job owns it.
        chain: Of this job.
        retention: Of this job.
    """
    record, snapshot, job_id = restored.record, restored.fitted.snapshot, chain.job_id
    below = "://" not in restored.path and not PurePath(restored.path).is_absolute()
    inside = below and record.kind is not RecordKind.SAVEPOINT
    if not inside or record.job_id != job_id:
        snapshot, copies = own_files(snapshot, job_id, inside=inside)
        if settings.claim and not settings.latest:
            retention.claim(restored.path, snapshot)
        return Origin(snapshot, copies)
    if settings.claim or settings.latest:
        retention.keep(record)
        return Origin(*own_files(snapshot, job_id, inside=True))
    retention.pin(record.checkpoint_id, snapshot)
    snapshot, copies = own_files(snapshot, job_id, inside=True)
    snapshot, more = _copies_of_what_nobody_writes(snapshot, job_id, chain.next_id)
    return Origin(snapshot, (*copies, *more), write_all=True)


def _copies_of_what_nobody_writes(
    snapshot: JobSnapshot, job_id: str, next_id: int
) -> tuple[JobSnapshot, tuple[tuple[str, str], ...]]:
    """Give the files of finished subtasks, which run in no epoch, new names."""
    copies: dict[str, str] = {}

    def change(handle: StateHandle) -> StateHandle:
        if handle.path is None:
            return handle
        token = int(hashlib.sha256(f"{next_id} {handle.path}".encode()).hexdigest()[:16], 16)
        copies[handle.path] = shared_path(job_id, "kept", 0, handle.checkpoint_id, token, suffix=".operator")
        return replace(handle, path=copies[handle.path])

    def finished(operator: OperatorRecord) -> OperatorRecord:
        parts = (
            replace(part, operator_state=tuple(map(change, part.operator_state))) if part.finished else part
            for part in operator.subtasks
        )
        return replace(operator, subtasks=tuple(parts))

    operators = {uid: finished(operator) for uid, operator in snapshot.operators.items()}
    return replace(snapshot, operators=operators), tuple(copies.items())


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

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
    from penstock._engine.coordinator.restore import Restored
    from penstock._engine.coordinator.retention import Retention
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.metadata import OperatorRecord, Record
    from penstock._engine.protocol.state_handle import StateHandle


@dataclass(frozen=True, slots=True)
class Origin:
    """What a job begins with."""

    snapshot: JobSnapshot
    #: Files to be copied first, from and to.
    copies: tuple[tuple[str, str], ...]
    #: The first checkpoint is to name none of the files that are there: subtasks write all of their state anew.
    write_all: bool = False


def possessions(
    newest: Record | None, restored: Restored | None, settings: JobSettings, job_id: str
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return what a job has claimed from elsewhere, and which checkpoints of its own chain it does not own.

    Both are in all records of the chain, because a job that goes on with `latest` is told nothing else of its starts.

    Args:
        newest: The newest record of the chain.
        restored: What the job starts from.
        settings: Say whether the job owns that.
        job_id: The job.
    """
    claimed, spared = (newest.claimed, newest.spared) if newest else ((), ())
    if restored is None or settings.latest:
        return claimed, spared
    if _is_own(restored, job_id):
        others = tuple(number for number in spared if number != restored.record.checkpoint_id)
        return claimed, others if settings.claim else (*others, restored.record.checkpoint_id)
    rest = tuple(path for path in claimed if path != restored.path)
    return (*rest, restored.path) if settings.claim else rest, spared


def take_up(restored: Restored, chain: Chain, retention: Retention) -> Origin:
    """Return the state of a checkpoint with files of this job, and have kept what it needs until there are others.

    What this job does not own is left alone, and later checkpoints need nothing of it. One from elsewhere is copied. Of
    one of its own the files are read where they are, until the first checkpoint has all of the state anew.

    Args:
        restored: The checkpoint.
        chain: Of this job; says whether it owns the checkpoint.
        retention: Of this job.
    """
    record, job_id = restored.record, chain.job_id
    snapshot, copies = own_files(restored.fitted.snapshot, job_id, inside=_is_inside(restored))
    if _is_own(restored, job_id) and record.checkpoint_id not in chain.spared:
        retention.keep(record)
        return Origin(snapshot, copies)
    write_all = _is_own(restored, job_id)
    if write_all:
        snapshot, more = _copies_of_what_nobody_writes(snapshot, job_id, chain.next_id)
        copies = (*copies, *more)
    retention.keep_origin(snapshot)
    return Origin(snapshot, copies, write_all)


def _is_inside(restored: Restored) -> bool:
    """Tell whether it is a checkpoint below the job's checkpoint directory."""
    is_below = "://" not in restored.path and not PurePath(restored.path).is_absolute()
    return is_below and restored.record.kind is not RecordKind.SAVEPOINT


def _is_own(restored: Restored, job_id: str) -> bool:
    return _is_inside(restored) and restored.record.job_id == job_id


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

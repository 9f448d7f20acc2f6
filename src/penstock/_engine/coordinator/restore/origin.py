"""Decides who owns the checkpoint that a job starts from, and which of its files the job copies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.snapshots import map_handles
from penstock._engine.protocol.metadata import ChainEntryKind, JobSnapshot
from penstock._engine.protocol.paths import copy_path

if TYPE_CHECKING:
    from penstock._engine.coordinator.checkpoints.chain import ChainWriter, CheckpointRetention
    from penstock._engine.coordinator.restore.state_assignment import RestoredCheckpoint
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.metadata import ChainEntry, OperatorMetadata
    from penstock._engine.protocol.state_handle import StateHandle


#: The number of runs in a chain entry; files of older runs are deleted already, or left to `penstock clean`.
_MOST_RUNS: Final = 16


@dataclass(frozen=True, slots=True)
class InitialState:
    """The state that a job begins with."""

    snapshot: JobSnapshot
    #: The files to copy first: pairs of path and new path.
    copies: tuple[tuple[str, str], ...]
    #: Whether subtasks write all of their state anew, so that the first checkpoint names none of these files.
    write_all: bool = False


@dataclass(frozen=True, slots=True)
class Ownership:
    """The checkpoints that a job owns; all entries of its chain repeat it, for later starts with `latest`."""

    claimed: tuple[str, ...]
    begins: int
    runs: tuple[str, ...]


def ownership(
    newest: ChainEntry | None,
    restored: RestoredCheckpoint | None,
    settings: JobSettings,
    chain_id: int,
    run_id: str,
    *,
    continues: bool = False,
) -> Ownership:
    """Return the ownership of a job that starts now.

    With `latest` the job continues earlier runs and owns what they owned. Any other start owns the checkpoint that it
    claims and its later ones: checkpoints of an earlier run with the same id are the user's.

    Args:
        newest: The newest entry of the chain.
        restored: What the job starts from.
        settings: Hold the claim mode.
        chain_id: The id of the takeover.
        run_id: The run that takes the job over.
        continues: Whether it continues earlier runs without `latest`: a batch job with recovery.
    """
    if (settings.latest or continues) and newest is not None:
        return Ownership(newest.claimed, newest.begins, (*newest.runs, run_id)[-_MOST_RUNS:])
    claimed = (restored.path,) if restored is not None and settings.claim and not settings.latest else ()
    return Ownership(claimed, chain_id, (run_id,))


def adopt_checkpoint(restored: RestoredCheckpoint, chain: ChainWriter, retention: CheckpointRetention) -> InitialState:
    """Return the state of a checkpoint as this job's own, and retain the files that it needs.

    A checkpoint that this job does not own is not changed, and later checkpoints do not need its files. Files of a
    checkpoint from elsewhere are copied. Files of a checkpoint in this job's directory are read in place, until the
    first checkpoint has all of the state anew.

    Args:
        restored: The checkpoint.
        chain: The job's chain, which says whether it owns the checkpoint.
        retention: The job's retention.
    """
    entry, job_id = restored.entry, chain.job_id
    snapshot, copies = own_files(restored.assignment.snapshot, job_id, chain.next_id, inside=_is_inside(restored))
    is_own = _is_own(restored, job_id)
    if is_own and entry.checkpoint_id >= chain.begins:
        retention.keep(entry)
        return InitialState(snapshot, copies)
    write_all = is_own and restored.path not in chain.claimed
    if write_all:
        snapshot, more = _copies_of_finished_state(snapshot, job_id, chain.next_id)
        copies = (*copies, *more)
    retention.keep_origin(snapshot)
    return InitialState(snapshot, copies, write_all)


def _is_inside(restored: RestoredCheckpoint) -> bool:
    """Tell whether it is a checkpoint below the job's checkpoint directory."""
    is_below = "://" not in restored.path and not PurePath(restored.path).is_absolute()
    return is_below and restored.entry.kind is not ChainEntryKind.SAVEPOINT


def _is_own(restored: RestoredCheckpoint, job_id: str) -> bool:
    return _is_inside(restored) and restored.entry.job_id == job_id


def _copies_of_finished_state(
    snapshot: JobSnapshot, job_id: str, next_id: int
) -> tuple[JobSnapshot, tuple[tuple[str, str], ...]]:
    """Give new names to the files of finished subtasks, which never write their state anew."""
    copies: dict[str, str] = {}

    def change(handle: StateHandle) -> StateHandle:
        if handle.path is None:
            return handle
        copies[handle.path] = copy_path(job_id, handle.path, next_id)
        return replace(handle, path=copies[handle.path])

    def finished(operator: OperatorMetadata) -> OperatorMetadata:
        parts = (
            replace(part, operator_state=tuple(map(change, part.operator_state))) if part.finished else part
            for part in operator.subtasks
        )
        return replace(operator, subtasks=tuple(parts))

    operators = {uid: finished(operator) for uid, operator in snapshot.operators.items()}
    return replace(snapshot, operators=operators), tuple(copies.items())


def own_files(
    snapshot: JobSnapshot, job_id: str, next_id: int, *, inside: bool
) -> tuple[JobSnapshot, tuple[tuple[str, str], ...]]:
    """Rename the files of another job's or directory's checkpoint to files of this job, which it deletes as its others.

    Args:
        snapshot: The state, which names the files.
        job_id: This job.
        next_id: The id of its next checkpoint.
        inside: Whether the checkpoint is in this job's checkpoint directory; else all its files are copied.

    Returns:
        The state with the new names, and the (old, new) paths.
    """
    copies: dict[str, str] = {}

    def change(handle: StateHandle) -> StateHandle:
        if handle.path is None or (inside and handle.path.startswith(f"{job_id}/")):
            return handle
        copies[handle.path] = copy_path(job_id, handle.path, next_id)
        return replace(handle, path=copies[handle.path])

    return map_handles(snapshot, change), tuple(copies.items())

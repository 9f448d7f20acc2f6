"""Reads the entries of checkpoints, and says of a damaged file which checkpoint can be restored in place of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.driver.failures import exception_of
from penstock._engine.protocol.metadata import ChainEntryKind, decode_chain_entry
from penstock._engine.protocol.paths import METADATA, checkpoint_ids, checkpoint_path
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.protocol.control import TaskFailure
    from penstock._engine.protocol.metadata import ChainEntry
    from penstock._engine.storage.checkpoint_storage import CheckpointStorage


def read(storage: CheckpointStorage, checkpoint: str) -> ChainEntry | None:
    """Read the entry of a checkpoint; None when there is none.

    Raises:
        CorruptCheckpointError: It is damaged.
    """
    path = f"{checkpoint}/{METADATA}"
    data = storage.find(path)
    return None if data is None else decode_chain_entry(data, storage.full_path(path))


def readable(storage: CheckpointStorage, checkpoint: str) -> ChainEntry | None:
    """Read the entry of a checkpoint; None when there is none, or a damaged one."""
    try:
        return read(storage, checkpoint)
    except CorruptCheckpointError:
        return None


def metadata_damage(error: CorruptCheckpointError, storage: CheckpointStorage, checkpoint: str) -> Exception:
    """Return what to say of a checkpoint whose metadata is damaged."""
    chain = _chain(storage, checkpoint.rpartition("/")[0])
    return _offer(error.path, error.reason, storage, chain[: chain.index(checkpoint)] if checkpoint in chain else [])


def state_damage(failures: Iterable[TaskFailure], storage: CheckpointStorage, job_id: str) -> Exception | None:
    """Return what to say of a damaged state file that a task found; None when it is not for that that they failed.

    Args:
        failures: Of an epoch.
        storage: The checkpoint directory.
        job_id: The job.
    """
    errors = (exception_of(failure) for failure in failures)
    error = next((error for error in errors if isinstance(error, CorruptCheckpointError)), None)
    if error is None:
        return None
    path = error.path.removeprefix(storage.full_path("").rstrip("/") + "/")
    return _offer(storage.full_path(path), error.reason, storage, _chain(storage, job_id), path)


def _chain(storage: CheckpointStorage, job: str) -> list[str]:
    return [checkpoint_path(job, number) for number in checkpoint_ids(storage.names(job))]


def _offer(
    path: str, reason: str, storage: CheckpointStorage, chain: list[str], state_file: str | None = None
) -> CorruptCheckpointError:
    """Name the newest checkpoint of a chain that can be read and does not need a certain file, if there is one."""
    for checkpoint in reversed(chain):
        entry = readable(storage, checkpoint)
        if entry is None or entry.kind is not ChainEntryKind.CHECKPOINT or entry.snapshot is None:
            continue
        if state_file not in state_files(entry.snapshot):
            return CorruptCheckpointError(path, f"{reason}; the one before it is {storage.full_path(checkpoint)}")
    return CorruptCheckpointError(path, reason)

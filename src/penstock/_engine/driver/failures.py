"""Makes the error that the program gets from the failure of a task or of the driver.

Of a damaged file the error says which checkpoint can be restored in place of its own.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, cast

from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.protocol.control import TaskFailure
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.paths import METADATA, checkpoint_ids, checkpoint_path
from penstock._engine.storage.entries import find_entry
from penstock.errors import (
    CorruptCheckpointError,
    DriverCodeError,
    FailureLocation,
    FencedError,
    JobExecutionError,
    JobGraphError,
    RestoreError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.protocol.metadata import ChainEntry
    from penstock._engine.storage.checkpoint_storage import CheckpointStorage


def driver_code_error(where: str, cause: Exception) -> DriverCodeError:
    """Wrap an exception out of user code on the driver."""
    error = DriverCodeError(where, _one_line(cause))
    error.__cause__ = cause
    return error


def job_error(cause: TaskFailure | Exception, job_id: str, job_name: str) -> Exception:
    """Return the error that ends a job in the program.

    Errors about the job's start or its owner are shown as they are; all others become a JobExecutionError.
    """
    if isinstance(cause, TaskFailure):
        return _from_task(cause, job_id, job_name)
    if isinstance(cause, (FencedError, RestoreError, JobGraphError, JobExecutionError)):
        return cause
    if isinstance(cause, DriverCodeError):
        error = JobExecutionError(job_id, job_name, str(cause))
        error.__cause__ = cause.__cause__
        return error
    error = JobExecutionError(job_id, job_name, _one_line(cause))
    error.__cause__ = cause
    return error


def _from_task(failure: TaskFailure, job_id: str, job_name: str) -> JobExecutionError:
    place = FailureLocation(
        failure.operator,
        failure.uid,
        failure.subtask,
        failure.location or None,
        failure.record,
        failure.traceback or None,
    )
    error = JobExecutionError(job_id, job_name, failure.error, place)
    error.__cause__ = exception_of(failure)
    return error


def exception_of(failure: TaskFailure) -> BaseException | None:
    """Return what a task raised; None when this process cannot make it again."""
    if failure.exception is None:
        return None
    try:
        value = cast("object", pickle.loads(failure.exception))
    except Exception:  # noqa: BLE001 - unpickling runs code of the user's class, which may raise anything
        return None
    return value if isinstance(value, BaseException) else None


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def read(storage: CheckpointStorage, checkpoint: str) -> ChainEntry | None:
    """Read the record of a checkpoint; None when there is none.

    Raises:
        CorruptCheckpointError: It is damaged.
    """
    path = f"{checkpoint}/{METADATA}"
    return find_entry(storage, path)


def readable(storage: CheckpointStorage, checkpoint: str) -> ChainEntry | None:
    """Read the record of a checkpoint; None when there is none, or a damaged one."""
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
        record = readable(storage, checkpoint)
        if record is None or record.kind is not ChainEntryKind.CHECKPOINT or record.snapshot is None:
            continue
        if state_file not in state_files(record.snapshot):
            return CorruptCheckpointError(path, f"{reason}; the one before it is {storage.full_path(checkpoint)}")
    return CorruptCheckpointError(path, reason)

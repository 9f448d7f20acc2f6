"""Makes the error that the program gets from the failure of a task or of the driver.

The error about a damaged file names an older checkpoint that can be restored instead.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, cast

from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.protocol.control import TaskFailure
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.paths import checkpoint_ids, checkpoint_path
from penstock._engine.savepoints.chains import readable_entry
from penstock.common.user_values import error_line, safely
from penstock.errors import (
    CorruptCheckpointError,
    DriverCodeError,
    FailureLocation,
    FencedError,
    JobExecutionError,
    JobGraphError,
    LostResultError,
    RestoreError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.storage.checkpoint_storage import FileStorage


def driver_code_error(where: str, cause: BaseException) -> DriverCodeError:
    """Wrap an exception of user code that runs on the driver."""
    error = DriverCodeError(where, error_line(cause))
    error.__cause__ = cause
    return error


def job_error(cause: TaskFailure | BaseException, job_id: str, job_name: str) -> Exception:
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
    error = JobExecutionError(job_id, job_name, error_line(cause))
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
        failure.chooser or None,
    )
    error = JobExecutionError(job_id, job_name, failure.error, place)
    error.__cause__ = exception_of(failure)
    return error


def exception_of(failure: TaskFailure) -> BaseException | None:
    """Return the exception of a task; None if this process cannot unpickle it."""
    if failure.exception is None:
        return None
    data = failure.exception
    value = safely(lambda: cast("object", pickle.loads(data)), lambda _: None)  # runs code of the user's class
    return value if isinstance(value, BaseException) else None


def metadata_damage(error: CorruptCheckpointError, storage: FileStorage, checkpoint: str) -> Exception:
    """Return the error about a checkpoint with damaged metadata."""
    chain = _chain(storage, checkpoint.rpartition("/")[0])
    return _offer(error.path, error.reason, storage, chain[: chain.index(checkpoint)] if checkpoint in chain else [])


def state_damage(failures: Iterable[TaskFailure], storage: FileStorage, job_id: str) -> Exception | None:
    """Return the error about a damaged state file that a task has found; None if the tasks failed for other reasons.

    Args:
        failures: The failures of an epoch.
        storage: The checkpoint directory.
        job_id: The job.
    """
    errors = (exception_of(failure) for failure in failures)
    error = next((error for error in errors if isinstance(error, CorruptCheckpointError)), None)
    if error is None:
        return None
    path = error.path.removeprefix(storage.full_path("").rstrip("/") + "/")
    return _offer(storage.full_path(path), error.reason, storage, _chain(storage, job_id), path)


def lost_results(failures: Iterable[TaskFailure]) -> dict[tuple[int, int], LostResultError]:
    """Return the results that tasks have found missing or damaged, by vertex and subtask."""
    errors = map(exception_of, failures)
    return {(error.vertex, error.subtask): error for error in errors if isinstance(error, LostResultError)}


def _chain(storage: FileStorage, job: str) -> list[str]:
    return [checkpoint_path(job, number) for number in checkpoint_ids(storage.names(job))]


def _offer(
    path: str, reason: str, storage: FileStorage, chain: list[str], state_file: str | None = None
) -> CorruptCheckpointError:
    """Return the error; it names the newest readable checkpoint of a chain that does not need the damaged file."""
    for checkpoint in reversed(chain):
        entry = readable_entry(storage, checkpoint)
        if entry is None or entry.kind is not ChainEntryKind.CHECKPOINT or entry.snapshot is None:
            continue
        if state_file not in state_files(entry.snapshot):
            return CorruptCheckpointError(path, f"{reason}; the one before it is {storage.full_path(checkpoint)}")
    return CorruptCheckpointError(path, reason)

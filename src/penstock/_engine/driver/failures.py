"""Makes the error that the program gets from the failure of a task or of the driver."""

from __future__ import annotations

import pickle
from typing import cast

from penstock._engine.protocol.control import TaskFailure
from penstock.errors import (
    DriverCodeError,
    FailureLocation,
    FencedError,
    JobExecutionError,
    JobGraphError,
    RestoreError,
)


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

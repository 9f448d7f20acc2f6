"""The failures of a job, each with the user's exception, operator and line first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from penstock._engine.rest.routing import QueryParameter, Route

if TYPE_CHECKING:
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.gateway.progress import JobFailure
    from penstock._engine.rest.routing import HandlerRequest

_MOST: Final = 20


class FailureFacts(msgspec.Struct):
    """Penstock's own members of a failure."""

    #: The checkpoint that its epoch was to make, and how often the job had been restarted before.
    checkpoint_id: int
    job_attempt: int
    #: Whether the restart strategy was asked; an epoch that Spark lost is just run again.
    counted: bool
    reason: str
    #: Where a user's function raised: its operator, "file:line" and the current record.
    operator: str | None = None
    operator_uid: str | None = None
    subtask: int | None = None
    location: str | None = None
    record: str | None = None


class ExceptionInfo(msgspec.Struct, rename="camel"):
    """One failure."""

    exception_name: str
    stacktrace: str
    timestamp: int
    failure_labels: dict[str, str]
    task_name: str | None
    endpoint: str | None
    task_manager_id: str | None
    concurrent_exceptions: list[str]
    penstock: FailureFacts


class JobExceptionHistory(msgspec.Struct):
    """The failures, newest first."""

    entries: list[ExceptionInfo]
    #: Whether there are more than these.
    truncated: bool


class JobExceptionsInfo(msgspec.Struct, rename="camel"):
    """The failures of a job."""

    exception_history: JobExceptionHistory


def exceptions(request: HandlerRequest) -> JobExceptionsInfo:
    """The failures of a job, newest first, including failures after which the job continued."""
    return job_exceptions(request.job, int(request.query("maxExceptions") or _MOST))


def job_exceptions(job: JobView, most: int = _MOST) -> JobExceptionsInfo:
    """Return the last failures of a job."""
    newest = [_entry(job, failure) for failure in reversed(job.failures)]
    return JobExceptionsInfo(JobExceptionHistory(newest[:most], len(newest) > most or job.failures_dropped > 0))


def _entry(job: JobView, failure: JobFailure) -> ExceptionInfo:
    place = failure.place
    lines = [failure.reason]
    if place is not None:
        lines.append(str(place))
        if place.traceback:
            lines += ["", place.traceback.rstrip("\n")]
    return ExceptionInfo(
        exception_name=failure.reason.partition(":")[0].strip(),
        stacktrace="\n".join(lines),
        timestamp=failure.time.now_ms,
        failure_labels={},
        task_name=_task_name(job, failure),
        endpoint=None,
        task_manager_id=None,
        concurrent_exceptions=[],
        penstock=FailureFacts(
            checkpoint_id=failure.checkpoint_id,
            job_attempt=failure.job_attempt,
            counted=failure.counted,
            reason=failure.reason,
            operator=place and place.operator_name,
            operator_uid=place and place.operator_uid,
            subtask=place and place.subtask_index,
            location=place and place.location,
            record=place and place.record,
        ),
    )


def _task_name(job: JobView, failure: JobFailure) -> str | None:
    """Return the subtask as Flink names it; None where no operator is to blame."""
    vertex = None if failure.place is None else job.plan.vertex_of(failure.place.operator_uid)
    if vertex is None or failure.place is None:
        return None
    subtask = failure.place.subtask_index + 1
    return f"{vertex.name} ({subtask}/{vertex.parallelism}) - execution #{failure.job_attempt}"


ROUTES = (
    Route(
        "GET",
        "/jobs/{jobid}/exceptions",
        exceptions,
        JobExceptionsInfo,
        query=(
            QueryParameter("maxExceptions", "how many at most; 20 when left out", number=True),
            QueryParameter("failureLabelFilter", "taken and ignored: failures have no labels"),
        ),
        errors={404: "There is no such job."},
    ),
)

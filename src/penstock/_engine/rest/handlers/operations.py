"""Asynchronous operations: savepoints, stops, checkpoints, disposals. A POST begins one, a GET returns its status."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from penstock._engine.protocol.control import StopMode
from penstock._engine.rest.access import Role
from penstock._engine.rest.context import OperationKind
from penstock._engine.rest.handlers.cluster import EmptyResponseBody
from penstock._engine.rest.handlers.jobs import QueueStatus
from penstock._engine.rest.http_error import HttpError
from penstock._engine.rest.paths import as_uri
from penstock._engine.rest.routing import QueryParameter, Route
from penstock._engine.rest.throwable import FailureCause, failure_cause
from penstock.errors import SavepointError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.gateway.job_control import JobControl
    from penstock._engine.rest.routing import HandlerRequest


#: 32 hexadecimal digits; a client that gives a trigger id can repeat its request.
TriggerId: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


class SavepointTriggerRequestBody(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """The options of a savepoint."""

    target_directory: str | None = None
    cancel_job: bool | None = False
    #: Both formats are the one that Penstock has.
    format_type: Literal["CANONICAL", "NATIVE"] | None = msgspec.field(name="formatType", default="CANONICAL")
    trigger_id: TriggerId | None = msgspec.field(name="triggerId", default=None)


class StopWithSavepointRequestBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The options of a stop with a savepoint."""

    target_directory: str | None = None
    drain: bool | None = False
    format_type: Literal["CANONICAL", "NATIVE"] | None = "CANONICAL"
    trigger_id: TriggerId | None = None


class CheckpointTriggerRequestBody(msgspec.Struct, rename="camel"):
    """The options of a checkpoint."""

    #: Accepted and ignored: every checkpoint is incremental.
    checkpoint_type: Literal["CONFIGURED", "FULL", "INCREMENTAL"] | None = "CONFIGURED"
    trigger_id: TriggerId | None = None


class SavepointDisposalRequestBody(msgspec.Struct, rename="kebab"):
    """Which savepoint is to be deleted."""

    savepoint_path: str | None = None


class TriggerResponse(msgspec.Struct, rename="kebab"):
    """The id with which a client asks for the status of the operation."""

    request_id: str


class SavepointResult(msgspec.Struct, rename="kebab"):
    """Where the savepoint is, or why there is none."""

    location: str | msgspec.UnsetType = msgspec.UNSET
    failure_cause: FailureCause | msgspec.UnsetType = msgspec.UNSET


class CheckpointResult(msgspec.Struct):
    """The checkpoint's id, or why there is none."""

    checkpoint_id: int | msgspec.UnsetType = msgspec.field(name="checkpointId", default=msgspec.UNSET)
    failure_cause: FailureCause | msgspec.UnsetType = msgspec.field(name="failure-cause", default=msgspec.UNSET)


class SavepointDisposalResult(msgspec.Struct, rename="kebab"):
    """Nothing, or why the savepoint is not deleted."""

    failure_cause: FailureCause | msgspec.UnsetType = msgspec.UNSET


class SavepointOperation(msgspec.Struct):
    """The status of a savepoint or a stop."""

    status: QueueStatus
    operation: SavepointResult | None


class CheckpointOperation(msgspec.Struct):
    """The status of a checkpoint."""

    status: QueueStatus
    operation: CheckpointResult | None


class SavepointDisposalOperation(msgspec.Struct):
    """The status of a disposal."""

    status: QueueStatus
    operation: SavepointDisposalResult | None


_RUNNING, _DONE = QueueStatus("IN_PROGRESS"), QueueStatus("COMPLETED")


def savepoint(request: HandlerRequest) -> TriggerResponse:
    """Make a savepoint of a job that continues, or is cancelled then."""
    body: SavepointTriggerRequestBody = request.body
    directory = body.target_directory

    def begin(control: JobControl, root: str | None) -> Future[str]:
        if body.cancel_job:
            return control.cancel_with_savepoint(directory, no_links_below=root)
        return control.savepoint(directory, StopMode.NO, no_links_below=root)

    return _savepoint(request, body.trigger_id, directory, "target-directory", begin)


def stop(request: HandlerRequest) -> TriggerResponse:
    """Stop a job with a savepoint; it is asked for below `savepoints`."""
    body: StopWithSavepointRequestBody = request.body
    how = StopMode.DRAIN if body.drain else StopMode.SUSPEND
    directory = body.target_directory

    def begin(control: JobControl, root: str | None) -> Future[str]:
        return control.savepoint(directory, how, no_links_below=root)

    return _savepoint(request, body.trigger_id, directory, "targetDirectory", begin)


def _savepoint(
    request: HandlerRequest,
    trigger_id: str | None,
    directory: str | None,
    member: str,
    begin: Callable[[JobControl, str | None], Future[str]],
) -> TriggerResponse:
    job_id = request.id("jobid")
    control = request.context.jobs.find(job_id)
    root: str | None = None
    if directory:
        default = None if control is None else control.savepoint_directory
        root = request.context.directories.root_of(directory, default)
    if control is not None and not directory and control.savepoint_directory is None:
        reason = "Config key [execution.checkpointing.savepoint-dir] is not set."
        raise HttpError(400, f"{reason} Property [{member}] must be provided.")
    of_job = lambda: _of_job(control, job_id, lambda found: begin(found, root))  # noqa: E731
    return _trigger(request, OperationKind.SAVEPOINT, job_id, trigger_id, of_job)


def checkpoint(request: HandlerRequest) -> TriggerResponse:
    """Make a checkpoint now."""
    body: CheckpointTriggerRequestBody = request.body
    job_id = request.id("jobid")
    control = request.context.jobs.find(job_id)
    begin = lambda: _of_job(control, job_id, lambda found: found.trigger_checkpoint())  # noqa: E731
    return _trigger(request, OperationKind.CHECKPOINT, job_id, body.trigger_id, begin)


def dispose(request: HandlerRequest) -> TriggerResponse:
    """Delete a savepoint."""
    body: SavepointDisposalRequestBody = request.body
    path = body.savepoint_path
    if not path:
        raise HttpError(400, "Field savepoint-path must not be omitted or be null.")
    return _trigger(request, OperationKind.DISPOSAL, "", None, lambda: request.context.dispose(path))


def delete_data_set(request: HandlerRequest) -> TriggerResponse:
    """Delete a cached result of a batch job; there are none, so this always succeeds."""
    assert request.id("datasetid")
    gone: Future[None] = Future()
    gone.set_result(None)
    operations = request.context.operations
    trigger_id = operations.trigger(OperationKind.DATA_SET, "", None, lambda: gone)
    operations.leave(OperationKind.DATA_SET, "", trigger_id)  # the process need not wait for a client to read it
    return TriggerResponse(trigger_id)


def data_set_state(request: HandlerRequest) -> SavepointDisposalOperation:
    """The status of the deletion of a cached result."""
    _state(request, OperationKind.DATA_SET)
    return SavepointDisposalOperation(_DONE, SavepointDisposalResult())


def _trigger(
    request: HandlerRequest, kind: OperationKind, job_id: str, trigger_id: str | None, begin: Callable[[], Future[Any]]
) -> TriggerResponse:
    lease = request.query(_LEASE.name)
    lease_ms = None if lease is None else int(lease)
    return TriggerResponse(request.context.operations.trigger(kind, job_id, trigger_id, begin, lease_ms))


def _of_job(control: JobControl | None, job_id: str, begin: Callable[[JobControl], Future[Any]]) -> Future[Any]:
    """Begin an operation of a job; as in Flink, a failure to begin is shown in its status."""
    refused: Future[Any] = Future()
    if control is None:
        refused.set_exception(SavepointError(f"of job {job_id}", f"Could not find Flink job ({job_id})"))
    elif control.view.is_over:
        reason = f"Job {job_id} is not running: {control.view.status.name}"
        refused.set_exception(SavepointError(f"of job {job_id}", reason))
    else:
        return begin(control)
    return refused


def savepoint_state(request: HandlerRequest) -> SavepointOperation:
    """The status of a savepoint or a stop."""
    done, result, cause = _state(request, OperationKind.SAVEPOINT)
    if not done:
        return SavepointOperation(_RUNNING, None)
    return SavepointOperation(_DONE, SavepointResult(failure_cause=cause) if cause else SavepointResult(as_uri(result)))


def checkpoint_state(request: HandlerRequest) -> CheckpointOperation:
    """The status of a checkpoint."""
    done, result, cause = _state(request, OperationKind.CHECKPOINT)
    if not done:
        return CheckpointOperation(_RUNNING, None)
    return CheckpointOperation(_DONE, CheckpointResult(failure_cause=cause) if cause else CheckpointResult(result))


def leave_savepoint(request: HandlerRequest) -> EmptyResponseBody:
    """Wait no more for a savepoint, or a stop, which continues: the process need not stay until its outcome is read."""
    return _leave(request, OperationKind.SAVEPOINT)


def leave_checkpoint(request: HandlerRequest) -> EmptyResponseBody:
    """Wait no more for a checkpoint, which continues: the process need not stay until its outcome is read."""
    return _leave(request, OperationKind.CHECKPOINT)


def disposal_state(request: HandlerRequest) -> SavepointDisposalOperation:
    """The status of a disposal."""
    done, _, cause = _state(request, OperationKind.DISPOSAL)
    if not done:
        return SavepointDisposalOperation(_RUNNING, None)
    return SavepointDisposalOperation(_DONE, SavepointDisposalResult(cause) if cause else SavepointDisposalResult())


def _state(request: HandlerRequest, kind: OperationKind) -> tuple[bool, Any, FailureCause | None]:
    job_id = "" if kind in {OperationKind.DISPOSAL, OperationKind.DATA_SET} else request.id("jobid")
    trigger_id = request.id("triggerid")
    outcome = request.context.operations.outcome(kind, job_id, trigger_id)
    if outcome is None:
        raise _unknown(kind, job_id, trigger_id)
    if outcome.error is None:
        return outcome.done, outcome.result, None
    name, text = type(outcome.error).__name__, str(outcome.error)
    return True, None, failure_cause(f"{type(outcome.error).__module__}.{name}", text, f"{name}: {text}")


def _leave(request: HandlerRequest, kind: OperationKind) -> EmptyResponseBody:
    job_id, trigger_id = request.id("jobid"), request.id("triggerid")
    if not request.context.operations.leave(kind, job_id, trigger_id):
        raise _unknown(kind, job_id, trigger_id)
    return EmptyResponseBody()


def _unknown(kind: OperationKind, job_id: str, trigger_id: str) -> HttpError:
    where = f" for job {job_id}" if job_id else ""
    return HttpError(404, f"There is no {kind.value} operation with triggerId={trigger_id}{where}.")


_LEASE = QueryParameter(
    "lease",
    "milliseconds within which this client asks again how it stands; else the process of the job does not stay for it",
    number=True,
)
#: Reading an outcome needs the role of operators, because the process stays until it was read.
_READS_OUTCOMES = Role.OPERATOR
_TOO_MANY = {429: "Too many operations are under way."}
_NO_DIRECTORY = {
    400: "The body cannot be, or no directory is named and none is configured.",
    403: "The token is not enough for it, or the directory is not open to clients.",
    **_TOO_MANY,
}
_NO_OPERATION = {404: "There is no such operation, or its outcome is too old."}

ROUTES = (
    Route(
        "POST",
        "/jobs/{jobid}/savepoints",
        savepoint,
        TriggerResponse,
        202,
        query=(_LEASE,),
        body=SavepointTriggerRequestBody,
        errors=_NO_DIRECTORY,
    ),
    Route(
        *("GET", "/jobs/{jobid}/savepoints/{triggerid}", savepoint_state, SavepointOperation),
        role=_READS_OUTCOMES,
        errors=_NO_OPERATION,
    ),
    Route("DELETE", "/jobs/{jobid}/savepoints/{triggerid}", leave_savepoint, EmptyResponseBody, errors=_NO_OPERATION),
    Route(
        "POST",
        "/jobs/{jobid}/stop",
        stop,
        TriggerResponse,
        202,
        query=(_LEASE,),
        body=StopWithSavepointRequestBody,
        errors=_NO_DIRECTORY,
    ),
    Route(
        "POST",
        "/jobs/{jobid}/checkpoints",
        checkpoint,
        TriggerResponse,
        202,
        query=(_LEASE,),
        body=CheckpointTriggerRequestBody,
        errors=_TOO_MANY,
    ),
    Route(
        *("GET", "/jobs/{jobid}/checkpoints/{triggerid}", checkpoint_state, CheckpointOperation),
        role=_READS_OUTCOMES,
        errors=_NO_OPERATION,
    ),
    Route("DELETE", "/jobs/{jobid}/checkpoints/{triggerid}", leave_checkpoint, EmptyResponseBody, errors=_NO_OPERATION),
    Route(
        "POST",
        "/savepoint-disposal",
        dispose,
        TriggerResponse,
        200,
        query=(_LEASE,),
        body=SavepointDisposalRequestBody,
        errors=_TOO_MANY,
    ),
    Route(
        *("GET", "/savepoint-disposal/{triggerid}", disposal_state, SavepointDisposalOperation),
        role=_READS_OUTCOMES,
        errors=_NO_OPERATION,
    ),
    Route("DELETE", "/datasets/{datasetid}", delete_data_set, TriggerResponse, 202, errors=_TOO_MANY),
    Route(
        *("GET", "/datasets/delete/{triggerid}", data_set_state, SavepointDisposalOperation),
        role=_READS_OUTCOMES,
        errors=_NO_OPERATION,
    ),
)

"""What takes a while: savepoints, stops, checkpoints, disposals. A POST begins one, a GET asks how it stands."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from penstock._engine.protocol.control import Stop
from penstock._engine.rest.handlers.cluster import Empty
from penstock._engine.rest.handlers.jobs import QueueStatus
from penstock._engine.rest.operations import OperationKind
from penstock._engine.rest.paths import as_uri
from penstock._engine.rest.refusal import Refusal
from penstock._engine.rest.routing import Query, Route
from penstock._engine.rest.throwable import FailureCause, failure_cause
from penstock.errors import SavepointError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.gateway.job_control import JobControl
    from penstock._engine.rest.routing import Call


#: 32 hexadecimal digits; a client that gives one can repeat its request.
TriggerId: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


class SavepointBody(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """What a savepoint is to be."""

    target_directory: str | None = None
    cancel_job: bool | None = False
    #: Both formats are the one that Penstock has.
    format_type: Literal["CANONICAL", "NATIVE"] | None = msgspec.field(name="formatType", default="CANONICAL")
    trigger_id: TriggerId | None = msgspec.field(name="triggerId", default=None)


class StopBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """How a job is to stop."""

    target_directory: str | None = None
    drain: bool | None = False
    format_type: Literal["CANONICAL", "NATIVE"] | None = "CANONICAL"
    trigger_id: TriggerId | None = None


class CheckpointBody(msgspec.Struct, rename="camel"):
    """What a checkpoint is to be."""

    #: Taken and ignored: a checkpoint holds what has changed.
    checkpoint_type: Literal["CONFIGURED", "FULL", "INCREMENTAL"] | None = "CONFIGURED"
    trigger_id: TriggerId | None = None


class DisposalBody(msgspec.Struct, rename="kebab"):
    """Which savepoint is to be deleted."""

    savepoint_path: str | None = None


class Triggered(msgspec.Struct, rename="kebab"):
    """The id to ask with how the operation stands."""

    request_id: str


class SavepointResult(msgspec.Struct, rename="kebab"):
    """Where the savepoint is, or why there is none."""

    location: str | msgspec.UnsetType = msgspec.UNSET
    failure_cause: FailureCause | msgspec.UnsetType = msgspec.UNSET


class CheckpointResult(msgspec.Struct):
    """The checkpoint's id, or why there is none."""

    checkpoint_id: int | msgspec.UnsetType = msgspec.field(name="checkpointId", default=msgspec.UNSET)
    failure_cause: FailureCause | msgspec.UnsetType = msgspec.field(name="failure-cause", default=msgspec.UNSET)


class DisposalResult(msgspec.Struct, rename="kebab"):
    """Nothing, or why the savepoint is not deleted."""

    failure_cause: FailureCause | msgspec.UnsetType = msgspec.UNSET


class SavepointState(msgspec.Struct):
    """How a savepoint, or a stop, stands."""

    status: QueueStatus
    operation: SavepointResult | None


class CheckpointState(msgspec.Struct):
    """How a checkpoint stands."""

    status: QueueStatus
    operation: CheckpointResult | None


class DisposalState(msgspec.Struct):
    """How a disposal stands."""

    status: QueueStatus
    operation: DisposalResult | None


_RUNNING, _DONE = QueueStatus("IN_PROGRESS"), QueueStatus("COMPLETED")


def savepoint(call: Call) -> Triggered:
    """Make a savepoint of a job that goes on, or is cancelled then."""
    body: SavepointBody = call.body
    directory = body.target_directory

    def begin(control: JobControl) -> Future[str]:
        return control.cancel_with_savepoint(directory) if body.cancel_job else control.savepoint(directory, Stop.NO)

    return _savepoint(call, body.trigger_id, directory, "target-directory", begin)


def stop(call: Call) -> Triggered:
    """Stop a job with a savepoint; it is asked for below `savepoints`."""
    body: StopBody = call.body
    how = Stop.DRAIN if body.drain else Stop.SUSPEND
    directory = body.target_directory
    return _savepoint(
        call, body.trigger_id, directory, "targetDirectory", lambda control: control.savepoint(directory, how)
    )


def _savepoint(
    call: Call, trigger_id: str | None, directory: str | None, member: str, begin: Callable[[JobControl], Future[str]]
) -> Triggered:
    job_id = call.id("jobid")
    control = call.site.jobs.find(job_id)
    if control is not None and not directory and control.savepoint_directory is None:
        reason = "Config key [execution.checkpointing.savepoint-dir] is not set."
        raise Refusal(400, f"{reason} Property [{member}] must be provided.")
    return _trigger(call, OperationKind.SAVEPOINT, job_id, trigger_id, lambda: _of_job(control, job_id, begin))


def checkpoint(call: Call) -> Triggered:
    """Make a checkpoint now."""
    body: CheckpointBody = call.body
    job_id = call.id("jobid")
    control = call.site.jobs.find(job_id)
    begin = lambda: _of_job(control, job_id, lambda found: found.trigger_checkpoint())  # noqa: E731
    return _trigger(call, OperationKind.CHECKPOINT, job_id, body.trigger_id, begin)


def dispose(call: Call) -> Triggered:
    """Delete a savepoint."""
    body: DisposalBody = call.body
    path = body.savepoint_path
    if not path:
        raise Refusal(400, "Field savepoint-path must not be omitted or be null.")
    return _trigger(call, OperationKind.DISPOSAL, "", None, lambda: call.site.dispose(path))


def _trigger(
    call: Call, kind: OperationKind, job_id: str, trigger_id: str | None, begin: Callable[[], Future[Any]]
) -> Triggered:
    lease = call.query(_LEASE.name)
    lease_ms = None if lease is None else int(lease)
    return Triggered(call.site.operations.trigger(kind, job_id, trigger_id, begin, lease_ms))


def _of_job(control: JobControl | None, job_id: str, begin: Callable[[JobControl], Future[Any]]) -> Future[Any]:
    """Begin something; what cannot be is answered as Flink does, by whoever asks how it stands."""
    refused: Future[Any] = Future()
    if control is None:
        refused.set_exception(SavepointError(f"of job {job_id}", f"Could not find Flink job ({job_id})"))
    elif control.view.is_over:
        reason = f"Job {job_id} is not running: {control.view.status.name}"
        refused.set_exception(SavepointError(f"of job {job_id}", reason))
    else:
        return begin(control)
    return refused


def savepoint_state(call: Call) -> SavepointState:
    """How a savepoint, or a stop, stands."""
    done, result, cause = _state(call, OperationKind.SAVEPOINT)
    if not done:
        return SavepointState(_RUNNING, None)
    return SavepointState(_DONE, SavepointResult(failure_cause=cause) if cause else SavepointResult(as_uri(result)))


def checkpoint_state(call: Call) -> CheckpointState:
    """How a checkpoint stands."""
    done, result, cause = _state(call, OperationKind.CHECKPOINT)
    if not done:
        return CheckpointState(_RUNNING, None)
    return CheckpointState(_DONE, CheckpointResult(failure_cause=cause) if cause else CheckpointResult(result))


def leave_savepoint(call: Call) -> Empty:
    """Wait no more for a savepoint, or a stop, which goes on: the process need not stay until its outcome is read."""
    return _leave(call, OperationKind.SAVEPOINT)


def leave_checkpoint(call: Call) -> Empty:
    """Wait no more for a checkpoint, which goes on: the process need not stay until its outcome is read."""
    return _leave(call, OperationKind.CHECKPOINT)


def disposal_state(call: Call) -> DisposalState:
    """How a disposal stands."""
    done, _, cause = _state(call, OperationKind.DISPOSAL)
    if not done:
        return DisposalState(_RUNNING, None)
    return DisposalState(_DONE, DisposalResult(cause) if cause else DisposalResult())


def _state(call: Call, kind: OperationKind) -> tuple[bool, Any, FailureCause | None]:
    job_id = "" if kind is OperationKind.DISPOSAL else call.id("jobid")
    trigger_id = call.id("triggerid")
    outcome = call.site.operations.outcome(kind, job_id, trigger_id)
    if outcome is None:
        raise _unknown(kind, job_id, trigger_id)
    if outcome.error is None:
        return outcome.done, outcome.result, None
    name, text = type(outcome.error).__name__, str(outcome.error)
    return True, None, failure_cause(f"{type(outcome.error).__module__}.{name}", text, f"{name}: {text}")


def _leave(call: Call, kind: OperationKind) -> Empty:
    job_id, trigger_id = call.id("jobid"), call.id("triggerid")
    if not call.site.operations.leave(kind, job_id, trigger_id):
        raise _unknown(kind, job_id, trigger_id)
    return Empty()


def _unknown(kind: OperationKind, job_id: str, trigger_id: str) -> Refusal:
    where = f" for job {job_id}" if job_id else ""
    return Refusal(404, f"There is no {kind.value} operation with triggerId={trigger_id}{where}.")


_LEASE = Query(
    "lease",
    "milliseconds within which this client asks again how it stands; else the process of the job does not stay for it",
    number=True,
)
_TOO_MANY = {429: "Too many operations are under way."}
_NO_DIRECTORY = {400: "The body cannot be, or no directory is named and none is configured.", **_TOO_MANY}
_NO_OPERATION = {404: "There is no such operation, or its outcome is too old."}

ROUTES = (
    Route(
        "POST",
        "/jobs/{jobid}/savepoints",
        savepoint,
        Triggered,
        202,
        query=(_LEASE,),
        body=SavepointBody,
        refusals=_NO_DIRECTORY,
    ),
    Route("GET", "/jobs/{jobid}/savepoints/{triggerid}", savepoint_state, SavepointState, refusals=_NO_OPERATION),
    Route("DELETE", "/jobs/{jobid}/savepoints/{triggerid}", leave_savepoint, Empty, refusals=_NO_OPERATION),
    Route("POST", "/jobs/{jobid}/stop", stop, Triggered, 202, query=(_LEASE,), body=StopBody, refusals=_NO_DIRECTORY),
    Route(
        "POST",
        "/jobs/{jobid}/checkpoints",
        checkpoint,
        Triggered,
        202,
        query=(_LEASE,),
        body=CheckpointBody,
        refusals=_TOO_MANY,
    ),
    Route("GET", "/jobs/{jobid}/checkpoints/{triggerid}", checkpoint_state, CheckpointState, refusals=_NO_OPERATION),
    Route("DELETE", "/jobs/{jobid}/checkpoints/{triggerid}", leave_checkpoint, Empty, refusals=_NO_OPERATION),
    Route(
        "POST", "/savepoint-disposal", dispose, Triggered, 200, query=(_LEASE,), body=DisposalBody, refusals=_TOO_MANY
    ),
    Route("GET", "/savepoint-disposal/{triggerid}", disposal_state, DisposalState, refusals=_NO_OPERATION),
)

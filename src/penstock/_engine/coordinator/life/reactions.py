"""The life of a job as a table: which phase and event lead to which function, and these functions.

They put the parts of a job together: each part says what follows from an event, and knows no part but those that it is
given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import alarms
from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.chain import CheckpointRetention
from penstock._engine.coordinator.life.start_reactions import START, react
from penstock._engine.coordinator.life.termination import ENDS
from penstock._engine.coordinator.phases import RUNNING, STOPPING, Phase, StartPhase
from penstock._engine.coordinator.reactions import CALL_ANSWERS, ENTRY_ANSWERS, LIVE, TAKEN_OVER, Rule
from penstock._engine.coordinator.restore.commit_decisions import published
from penstock._engine.coordinator.restore.origin import adopt_checkpoint
from penstock._engine.coordinator.scheduler import StopStep
from penstock._engine.protocol.metadata import ChainEntryKind, handles_of
from penstock.common.job_status import JobStatus
from penstock.errors import FencedError, InternalError

if TYPE_CHECKING:
    from penstock._engine.coordinator.commits.commits import CommitScheduler, OutputDelivery
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.life.requests import PendingRequests, SavepointCopies
    from penstock._engine.coordinator.life.start import JobStart
    from penstock._engine.coordinator.life.stop import StopWithSavepoint
    from penstock._engine.coordinator.life.termination import ExecutionFailureHandler, JobTermination
    from penstock._engine.coordinator.scheduler import CheckpointCoordinator, CoordinatorContext, Scheduler
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.metadata import ChainEntry


@dataclass(frozen=True, slots=True)
class JobParts:
    """The parts of a job's coordinator."""

    settings: JobSettings
    context: CoordinatorContext
    start: JobStart
    state: JobState
    requests: PendingRequests
    savepoints: SavepointCopies
    stop: StopWithSavepoint
    commits: CommitScheduler
    output: OutputDelivery
    termination: JobTermination
    life: ExecutionFailureHandler
    scheduler: Scheduler[CheckpointCoordinator]
    #: Why requests for checkpoints and savepoints are refused, as a text behind the job's id; "" if they are accepted.
    refusal: str

    @property
    def refuses(self) -> str:
        """Why requests for checkpoints and savepoints are refused; "" if they are accepted."""
        return f"job {self.start.job_id} {self.refusal}" if self.refusal else ""


#: Said of a job that has ended before this start.
_DONE: Final = "Job {!r} has {} already; there is nothing to run"
_STOPPED: Final = "Job {!r} was {} in an earlier process of this program, and is not started again"


# ------------------------------------------------------------------------------------------------------------ the start


def start_answered(job: JobParts, event: ev.Event) -> None:
    """Continue with the start."""
    job.context.emit(*react(job.start, event, job.context.now.now_ms))
    if job.start.phase is StartPhase.DONE:
        _taken_over(job)


def _taken_over(job: JobParts) -> None:
    context, start = job.context, job.start
    ended = start.already_ended
    if ended is not None:
        is_done = ended.kind in {ChainEntryKind.FINISHED, ChainEntryKind.DRAINED}
        text = (_DONE if is_done else _STOPPED).format(ended.job_name, ended.kind.value)
        context.emit(do.LogMessage(text, unexpected=True, shown=True))
        job.termination.end(ENDS[ended.kind], checkpoint=ended.keeps_checkpoints)
        return
    assert start.chain is not None
    retained, claimed = job.settings.retention.retained, start.chain.claimed
    job.state.chain, job.state.retention = start.chain, CheckpointRetention(retained, context.now.passed_ms, claimed)
    context.go(Phase.CREATED)
    context.emit(*start.remarks)
    if not _restore(job):
        job.scheduler.recover()


def _restore(job: JobParts) -> bool:
    """Take up the checkpoint that the job starts from, if there is one; tell whether files of it are copied first."""
    restored = job.start.restored
    if restored is None:
        return False
    job.context.emit(do.AdoptGraph(restored.assignment.graph))
    job.stop.checkpoint = restored.entry if restored.stopping else None
    origin = adopt_checkpoint(restored, job.state.chain, job.state.retention)
    job.state.restore(origin.snapshot, write_all=origin.write_all)
    job.state.ledger.publish(published(job.settings.commit_decisions))
    if origin.copies:
        named = handles_of(restored.assignment.snapshot)
        sizes = {handle.path: handle.size for handle in named if handle.path is not None}
        job.context.call(do.CopyState(restored.path, origin.copies, sizes))
    return bool(origin.copies)


def state_copied(job: JobParts, _: ev.StateCopied) -> None:
    """Run the job: its state files are its own now."""
    job.scheduler.recover()


# ------------------------------------------------------------------------------------------- what runs, and its answers


def call_failed(job: JobParts, event: ev.InstructionFailed | ev.MergeFailed) -> None:
    """Fail the job because of an instruction that failed."""
    job.life.fail(event.failure if isinstance(event, ev.MergeFailed) else event.error)


def call_abandoned(job: JobParts, event: ev.Event) -> None:
    """Note the answer to a call of a job that is being torn down."""
    del job, event  # the teardown continues after each event


def driver_failed(job: JobParts, event: ev.DriverFailed | ev.JobEventsFenced) -> None:
    """Fail the job because of an error on the driver, or because it is another driver's."""
    job.life.fail(event.error)


def restart_due(job: JobParts, _: alarms.RestartDue) -> None:
    """Continue from the last completed checkpoint, unless the job was cancelled meanwhile."""
    if job.context.phase is Phase.BACKING_OFF:
        job.scheduler.recover()


def committed(job: JobParts, event: ev.Committed) -> None:
    """Continue after a commit that is done, or put off; the next chain entry has what was given up."""
    context, state = job.context, job.state
    started = job.commits.on_committed(event, context.phase, context.now.passed_ms)
    if event.given_up:
        progress = state.lost(event.given_up)
        context.emit(do.PublishGivenUp(state.ledger.given_up, progress))
    context.emit(*started)
    job.scheduler.commits_moved()


def commit_failed(job: JobParts, event: ev.CommitFailed) -> None:
    """Fail the job because of a commit."""
    job.commits.on_failed(event.uid, job.context.phase)
    job.life.fail(event.error)


def commit_retry_due(job: JobParts, event: alarms.CommitRetryDue) -> None:
    """Try a postponed commit again."""
    job.context.emit(*job.commits.retry(event.uid, job.context.phase, job.context.now.passed_ms))


def commits_look_due(job: JobParts, _: alarms.CommitsLookDue) -> None:
    """Say which committers have been running for long."""
    job.context.emit(*job.commits.look(job.context.now.passed_ms))


def outputs_delivered(job: JobParts, _: ev.OutputsDelivered) -> None:
    """Let go of output that the program has."""
    job.context.emit(*job.state.chain.deletion(job.output.done(job.state.retention)))


# -------------------------------------------------------------------------------------------------- what is asked of it


def cancel_requested(job: JobParts, _: ev.CancelRequested) -> None:
    """Cancel the job."""
    job.life.cancel()


def checkpoint_requested(job: JobParts, event: ev.CheckpointRequested) -> None:
    """Accept or refuse a request for a checkpoint."""
    context = job.context
    context.emit(*job.requests.request_checkpoint(event.id, context.phase, context.status, job.refuses))
    job.scheduler.hurry(at_once=True)


def savepoint_requested(job: JobParts, event: ev.SavepointRequested) -> None:
    """Accept or refuse a request for a savepoint or a stop."""
    context = job.context
    context.emit(*job.requests.request_savepoint(event.request, context.phase, context.status, job.refuses))
    if job.requests.waiting:
        job.scheduler.hurry(at_once=True)


def savepoint_answered(job: JobParts, event: ev.SavepointWritten | ev.SavepointFailed) -> None:
    """Continue after a savepoint was written or has failed."""
    match job.stop.on_answer(event):
        case StopStep.NONE:
            error = event.error if isinstance(event, ev.SavepointFailed) else None
            job.context.emit(*job.savepoints.copied(event.path, error))
        case StopStep.UNDONE:
            job.life.restart()
        case step:
            job.scheduler.on_stop(step)


def savepoint_retry_due(job: JobParts, event: alarms.SavepointRetryDue) -> None:
    """Name the savepoint of a stop again."""
    job.stop.save_again(event.path)


def stop_timed_out(job: JobParts, event: alarms.StopTimedOut) -> None:
    """Give up a stop that takes too long; a running epoch first says what it waits for."""
    if not job.requests.stop_timed_out(event.request_id):
        return
    if job.context.phase is Phase.EPOCH:
        job.context.emit(do.ObserveEpoch())
    elif job.stop.give_up_late(()):
        job.life.cancel()


# ------------------------------------------------------------------------------------------------------- chain entries


def entry_answered(job: JobParts, event: ev.ChainEntryStored | ev.ChainEntryTaken | ev.ChainEntryUncertain) -> None:
    """Continue after a chain entry was put: of a checkpoint, of a stop that was given up, or of the job's end."""
    chain = job.state.chain
    entry = chain.entry
    if entry is None:
        raise InternalError(f"A job in phase {job.context.phase.name} has put no chain entry.")
    match event:
        case ev.ChainEntryUncertain(error):
            _entry_uncertain(job, error)
        case ev.ChainEntryTaken(existing) if not entry.same_write(existing):
            chain.entry = None
            _other_entry(job, existing)
        case _:
            chain.entry = None
            chain.stored(entry)
            _entry_stored(job, entry)


def _entry_stored(job: JobParts, entry: ChainEntry) -> None:
    match entry.kind:
        case ChainEntryKind.CHECKPOINT:
            job.scheduler.entry_stored(entry)
        case ChainEntryKind.TAKEOVER:
            job.stop.resumed()
            if not job.context.is_stopping:
                job.life.restart()
        case _:
            job.termination.closed()


def _entry_uncertain(job: JobParts, error: Exception) -> None:
    again = job.state.chain.put_again()
    if again is not None:
        job.context.emit(again)
        return
    job.scheduler.entry_lost()
    if job.context.phase is Phase.CLOSING:
        text = "The end of the job could not be recorded; a start with 'latest' would resume it"
        job.context.emit(do.LogMessage(text, error))
        job.termination.closed(is_stored=False)
    elif not job.context.is_stopping:
        job.life.fail(error)


def _other_entry(job: JobParts, existing: ChainEntry) -> None:
    """React to another chain entry under the id of ours."""
    context, chain = job.context, job.state.chain
    run_id = chain.identity.run_id
    if existing.run_id != run_id:
        context.emit(do.CloseEnumerators())
        job.scheduler.reset()
        error = FencedError(chain.job_id, existing.checkpoint_id, run_id, existing.run_id)
        job.termination.end(JobStatus.SUSPENDED, error)
        return
    # An earlier write of this driver with an unknown outcome was stored: its entry is the checkpoint.
    chain.stored(existing)
    job.scheduler.entry_found(existing)
    if context.phase is Phase.CLOSING:
        job.termination.put_entry()
    elif not context.is_stopping:
        job.life.restart()


def entry_retry_due(job: JobParts, _: alarms.EntryRetryDue) -> None:
    """Put a chain entry without a known outcome again."""
    entry = job.state.chain.entry
    assert entry is not None
    job.context.emit(do.PutChainEntry(entry))


#: The life of a job.
LIFE: Final = (
    Rule(
        start_answered,
        tuple(dict.fromkeys(event for rule in START for event in rule.events)),
        frozenset({Phase.STARTING}),
    ),
    Rule(state_copied, (ev.StateCopied,), frozenset({Phase.CREATED})),
    Rule(call_failed, (ev.InstructionFailed, ev.MergeFailed), RUNNING | {Phase.CREATED}),
    Rule(call_abandoned, CALL_ANSWERS, STOPPING),
    Rule(entry_answered, ENTRY_ANSWERS, STOPPING | {Phase.RECORDING, Phase.RESUMING, Phase.CLOSING}),
    Rule(entry_retry_due, (alarms.EntryRetryDue,), TAKEN_OVER),
    Rule(driver_failed, (ev.DriverFailed,), LIVE),
    Rule(restart_due, (alarms.RestartDue,), TAKEN_OVER),
    Rule(cancel_requested, (ev.CancelRequested,), LIVE),
    Rule(checkpoint_requested, (ev.CheckpointRequested,), LIVE),
    Rule(savepoint_requested, (ev.SavepointRequested,), LIVE),
    Rule(savepoint_answered, (ev.SavepointWritten, ev.SavepointFailed), TAKEN_OVER),
    Rule(savepoint_retry_due, (alarms.SavepointRetryDue,), TAKEN_OVER),
    Rule(stop_timed_out, (alarms.StopTimedOut,), TAKEN_OVER),
    Rule(outputs_delivered, (ev.OutputsDelivered,), TAKEN_OVER),
    Rule(committed, (ev.Committed,), TAKEN_OVER),
    Rule(commit_failed, (ev.CommitFailed,), TAKEN_OVER),
    Rule(commit_retry_due, (alarms.CommitRetryDue,), TAKEN_OVER),
    Rule(commits_look_due, (alarms.CommitsLookDue,), TAKEN_OVER),
)

"""Ends a job, or restarts it: after a failure or a cancel it first tears down what runs.

A teardown waits for all answers that are due, so none of them can arrive late. The end of a job is its terminal chain
entry, the deletions after it, and the answers to open requests.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.alarms import RestartDue
from penstock._engine.coordinator.life.restarts import restart_strategy
from penstock._engine.coordinator.phases import RUNNING, STOPPING, Phase
from penstock._engine.coordinator.scheduler import JobLife, text_of
from penstock._engine.protocol.control import TaskFailure
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.non_recoverable import is_non_recoverable
from penstock.common.job_status import JobStatus
from penstock.errors import FencedError

if TYPE_CHECKING:
    from penstock._engine.coordinator.commits.commits import CommitScheduler
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.life.requests import PendingRequests
    from penstock._engine.coordinator.life.start import JobStart
    from penstock._engine.coordinator.life.stop import StopWithSavepoint
    from penstock._engine.coordinator.scheduler import Cause, CheckpointCoordinator, CoordinatorContext, Scheduler
    from penstock._engine.coordinator.settings import RestartStrategySettings, RetentionSettings


#: How a job has ended, by its last chain entry.
ENDS: Final = {
    ChainEntryKind.FINISHED: JobStatus.FINISHED,
    ChainEntryKind.DRAINED: JobStatus.FINISHED,
    ChainEntryKind.SUSPENDED: JobStatus.FINISHED,
    ChainEntryKind.CANCELED: JobStatus.CANCELED,
    ChainEntryKind.FAILED: JobStatus.FAILED,
}


class JobTermination:
    """Ends one job.

    Args:
        context: The coordinator's context.
        start: The start of the job, which holds its chain.
        requests: The open requests, which are answered.
        state: Holds accumulators and losses.
        retention: Says which kinds of end keep checkpoints.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        start: JobStart,
        *,
        requests: PendingRequests,
        retention: RetentionSettings,
        state: JobState,
    ) -> None:
        self._context = context
        self._start = start
        self._requests = requests
        self._retention = retention
        self._state = state
        self._kind = ChainEntryKind.FINISHED
        self._error: Cause | None = None
        self._savepoint: str | None = None
        #: Whether the job has ended, and nothing is left from which it could continue.
        self.is_over = False
        #: Whether the end of the job is on its chain, so that another start of a batch job starts fresh.
        self.is_recorded = False
        #: Whether the job has ended, and has read all of its input in this run: one that was stopped has FINISHED, too.
        self.is_complete = False

    def close(self, kind: ChainEntryKind, error: Cause | None = None, savepoint: str | None = None) -> None:
        """Begin the end of the job.

        Args:
            kind: How the job ends.
            error: Why it failed.
            savepoint: The savepoint that it has stopped into.
        """
        self._kind, self._error, self._savepoint = kind, error, savepoint
        self._context.emit(do.CloseEnumerators())
        self._context.go(Phase.CLOSING)
        self.put_entry()

    def put_entry(self) -> None:
        """Put the terminal entry with the next id of the chain."""
        reason, savepoint = text_of(self._error or ""), self._savepoint
        if savepoint is None and self._requests.stop is not None:  # the request will be refused
            self._state.chain.resumes = True
        entry = self._state.chain.make(
            self._kind,
            self._context.now.now_ms,
            reason=reason,
            savepoint=savepoint,
            keeps_checkpoints=self._keeps_checkpoints,
            commits=self._state.commits,
        )
        if self._kind in {ChainEntryKind.FINISHED, ChainEntryKind.DRAINED}:
            # A later start must not depend on its checkpoints, which may be deleted.
            entry = replace(entry, accumulators=self._state.snapshot.all_accumulators)
        self._context.emit(self._state.chain.put(entry))

    def closed(self, *, is_stored: bool = True) -> None:
        """Continue after the terminal entry: delete checkpoints that are not retained.

        Args:
            is_stored: Whether the entry is stored; else another driver may have taken the job over and need the files.
        """
        is_finished = self._kind in {ChainEntryKind.FINISHED, ChainEntryKind.DRAINED}
        is_given_up = self._kind is not ChainEntryKind.SUSPENDED and not self._keeps_checkpoints
        self.is_recorded = is_stored
        self.is_over = is_stored and (is_finished or is_given_up)
        self.is_complete = is_stored and self._kind is ChainEntryKind.FINISHED
        if is_stored and not self._keeps_checkpoints:
            chain, retention = self._state.chain, self._state.retention
            self._context.emit(*chain.deletion(retention.drop_all()), chain.sweep(retention, at_end=True))
        if self._savepoint is not None:
            self._context.emit(*self._requests.stopped())
        self.end(ENDS[self._kind], self._error, checkpoint=self._keeps_checkpoints or not is_stored)

    @property
    def _keeps_checkpoints(self) -> bool:
        on_end = {
            ChainEntryKind.FINISHED: self._retention.on_finish,
            ChainEntryKind.CANCELED: self._retention.on_cancel,
            ChainEntryKind.FAILED: self._retention.on_failure,
        }
        return on_end.get(self._kind, False)

    def end(self, status: JobStatus, error: Cause | None = None, *, checkpoint: bool = True) -> None:
        """End the driver of the job, which is not always the end of the job itself.

        Args:
            status: The last status that it shows.
            error: The error for the program.
            checkpoint: Whether a checkpoint to continue from exists.
        """
        if isinstance(error, FencedError):
            self._context.emit(*self._requests.leave_stop())
        self._context.emit(*self._requests.give_up(f"the job is {status.name}"))
        self._context.go(Phase.ENDED)
        self._context.show(status)
        record = self._start.already_ended or self._start.chain
        parent = record.parent if record else None
        self._context.emit(do.EndDriver(status, error, parent.path if parent and checkpoint else None))


class ExecutionFailureHandler(JobLife):
    """Tears down what runs of one job, then restarts or ends the job.

    Args:
        context: The coordinator's context.
        state: The job's state.
        settings: Hold the restart strategy.
        run_id: The run, which seeds the jitter of restart delays.
        commits: The commits.
        stop: The stop of the job.
        ending: Ends the job if it does not restart.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        state: JobState,
        settings: RestartStrategySettings,
        run_id: str,
        *,
        commits: CommitScheduler,
        stop: StopWithSavepoint,
        ending: JobTermination,
    ) -> None:
        self._context = context
        self._state = state
        self._commits = commits
        self._stop = stop
        self._termination = ending
        self._restarts = restart_strategy(settings)
        self._random = Random(run_id)  # noqa: S311 - jitter of a delay
        #: The delay of the restart in milliseconds.
        self._backoff_ms = 0
        #: The savepoint of a job that was cancelled with one.
        self._stopped_into: str | None = None

    def drive(self, scheduler: Scheduler[CheckpointCoordinator]) -> None:
        """Take the scheduler, once: each of the two calls the other."""
        self._scheduler = scheduler

    def fail(self, cause: Cause) -> None:
        """Tear the job down because of an error; the restart strategy decides whether it restarts."""
        match self._context.phase:
            case Phase.STARTING:
                is_fenced = isinstance(cause, FencedError)
                self._termination.end(JobStatus.SUSPENDED if is_fenced else JobStatus.FAILED, cause)
            case Phase.CREATED:
                self._context.error = cause
                self._context.go(Phase.FAILING)
            case _ if self._context.phase in RUNNING:
                self._break_off(cause)
            case _:
                self._context.emit(do.LogMessage("Another error while the job was ending", cause))
        self.check()

    def _break_off(self, cause: Cause) -> None:
        self._context.error = cause
        self._context.report_failure(cause, self._state.chain.next_id, counted=True)
        self._state.retention.leftovers_possible(self._context.now.passed_ms)
        delay_ms = self._restarts.on_failure(self._context.now.passed_ms, self._random.random())
        self._stop.give_up(text_of(cause))
        self._scheduler.interrupt()
        if _is_non_recoverable(cause):
            self._context.go(Phase.FAILING)
            return
        if delay_ms is None:
            self._context.emit(do.LogMessage(f"No more restarts (restart strategy: {self._restarts.description})"))
            self._context.go(Phase.FAILING)
            return
        self._backoff_ms = delay_ms
        self._context.emit(do.LogMessage(f"The job failed and restarts in {delay_ms} ms", cause))
        self._context.go(Phase.TEARDOWN)

    def restart(self) -> None:
        """Restart from the last completed checkpoint at once, without a failure."""
        self._backoff_ms = 0
        self._scheduler.interrupt()
        self._context.go(Phase.TEARDOWN)
        self.check()

    def cancel(self) -> None:
        """Tear the job down because it was cancelled."""
        match self._context.phase:
            case Phase.STARTING:
                self._termination.end(JobStatus.CANCELED)
            case Phase.CANCELLING | Phase.CLOSING:
                pass
            case _:
                self._stop.give_up("the job was cancelled")
                if self._context.phase not in STOPPING:
                    self._scheduler.interrupt()
                self._context.go(Phase.CANCELLING)
                self._context.emit(*self._commits.start(self._context.phase, self._context.now.passed_ms))
                self.check()

    def terminate(self) -> None:
        """End the job: everything is committed and delivered, and checkpoint listeners are notified."""
        stop = self._stop
        if stop.checkpoint is None:
            self._termination.close(ChainEntryKind.FINISHED)
        elif stop.checkpoint.cancels:
            self._stopped_into = stop.path
            self._context.go(Phase.CANCELLING)
            self.check()
        else:
            drained = self._state.snapshot.finished
            kind = ChainEntryKind.DRAINED if drained else ChainEntryKind.SUSPENDED
            self._termination.close(kind, savepoint=stop.path)

    def check(self) -> None:
        """Continue the teardown once no answer is due any more."""
        if self._context.phase not in STOPPING or self._is_awaiting:
            return
        match self._context.phase:
            case Phase.TEARDOWN:
                self._restart()
            case Phase.FAILING:
                self._termination.close(ChainEntryKind.FAILED, self._context.error)
            case _:
                self._termination.close(ChainEntryKind.CANCELED, savepoint=self._stopped_into)

    @property
    def _is_awaiting(self) -> bool:
        state = self._state
        return self._context.awaiting or state.chain.entry is not None or state.ledger.running

    def _restart(self) -> None:
        self._context.emit(do.CloseEnumerators())
        self._context.go(Phase.BACKING_OFF)
        if self._context.error is not None:  # else it restarts without a failure
            self._state.progress = replace(self._state.progress, restarts=self._state.progress.restarts + 1)
        self._context.error = None
        self._scheduler.reset()
        self._context.job_attempt += 1
        self._state.ledger.retry_all()
        self._context.emit(do.SetAlarm(self._backoff_ms, RestartDue()))


def _is_non_recoverable(cause: Cause) -> bool:
    """Tell whether the same error would follow a restart."""
    return cause.non_recoverable if isinstance(cause, TaskFailure) else is_non_recoverable(cause)

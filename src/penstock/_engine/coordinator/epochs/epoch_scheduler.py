"""Runs a job epoch after epoch, from a start or restart to the next.

Recover → open → settle → run → accept, a checkpoint (`checkpoint_coordinator`), and settle again. Each epoch notifies
checkpoint listeners of the checkpoint before it; for the last checkpoint a Spark job of its own does so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.alarms import EpochLookDue
from penstock._engine.coordinator.checkpoints.snapshots import room
from penstock._engine.coordinator.epochs.checkpoint_coordinator import CheckpointCoordinator
from penstock._engine.coordinator.phases import Phase
from penstock._engine.coordinator.scheduler import Scheduler, StopStep
from penstock._engine.protocol.control import StopMode
from penstock.errors import CheckpointExpiredError, InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
    from penstock._engine.coordinator.commits.commits import CommitScheduler, OutputDelivery
    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.events import EpochObserved
    from penstock._engine.coordinator.instructions import Instruction
    from penstock._engine.coordinator.life.requests import PendingRequests, SavepointCopies
    from penstock._engine.coordinator.life.stop import StopWithSavepoint
    from penstock._engine.coordinator.scheduler import JobLife
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.control import EdgeStatus, SubtaskDispatch
    from penstock._engine.protocol.metadata import ChainEntry


#: The number of looks at an epoch within the timeout.
_LOOKS: Final = 5


class EpochMonitor:
    """Polls the progress of the running epoch, which expires when no task has ended for as long as the timeout.

    Source: Flink's ``CheckpointFailureManager`` for tolerable failures. Unlike Flink's, the timeout counts time without
        progress: an expired epoch reads its input again, which must not happen to a slow but healthy one.

    Args:
        settings: Hold the timeout, and how many epochs in a row may expire.
    """

    def __init__(self, settings: JobSettings) -> None:
        self._timeout_ms = settings.timeout_ms
        self._tolerable = settings.tolerable_failures
        #: Why the running epoch was given up; None if it was not.
        self.expired: CheckpointExpiredError | None = None
        self._in_a_row = 0
        self._tasks_done = 0
        self._progress_ms = 0
        self._alarm_is_set = False

    @property
    def is_tolerable(self) -> bool:
        """Whether the job continues although its last epochs expired."""
        return self._in_a_row <= self._tolerable

    def begin(self, passed_ms: int) -> list[Instruction]:
        """Start watching a new epoch, which begins at this monotonic time."""
        self.expired = None
        self._tasks_done, self._progress_ms = 0, passed_ms
        return [] if self._alarm_is_set else self._set_alarm()  # one for all: most epochs are over before it rings

    def succeeded(self) -> None:
        """Note an accepted epoch."""
        self._in_a_row = 0

    def observed(self, event: EpochObserved, checkpoint_id: int, passed_ms: int) -> bool:
        """Note how far the epoch of a checkpoint has come; tell whether it has expired now."""
        if self.expired is not None:
            return False
        if event.tasks_done != self._tasks_done:
            self._tasks_done, self._progress_ms = event.tasks_done, passed_ms
        elif passed_ms - self._progress_ms >= self._timeout_ms:
            self._in_a_row += 1
            self.expired = CheckpointExpiredError(checkpoint_id, self._timeout_ms, event.running)
        return self.expired is not None

    def look(self, *, is_running: bool) -> list[Instruction]:
        """Ask for the progress of an epoch if one is running; without one, the next epoch sets the alarm again."""
        self._alarm_is_set = False
        return [do.ObserveEpoch(), *self._set_alarm()] if is_running else []

    def _set_alarm(self) -> list[Instruction]:
        self._alarm_is_set = True
        return [do.SetAlarm(max(1, self._timeout_ms // _LOOKS), EpochLookDue())]


class EpochScheduler(Scheduler):
    """Runs the epochs of one job.

    Args:
        context: The coordinator's context.
        state: The job's state.
        life: The life of the job.
        requests: The requests for checkpoints, savepoints and a stop.
        savepoints: The savepoints that are copies of checkpoints.
        stop: The stop of the job.
        commits: The commits.
        output: Delivers printed and collected records to the program.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        state: JobState,
        life: JobLife,
        *,
        requests: PendingRequests,
        savepoints: SavepointCopies,
        stop: StopWithSavepoint,
        commits: CommitScheduler,
        output: OutputDelivery,
    ) -> None:
        super().__init__(context, state, life, commits, output)
        self._requests = requests
        self._savepoints = savepoints
        self._stop = stop
        self._checkpoints = CheckpointCoordinator(
            context, state, requests=requests, savepoints=savepoints, stop=stop, commits=commits, output=output
        )
        self._watch = EpochMonitor(state.settings)
        self._rotation = 0
        #: Whether the job stops with the running epoch.
        self._stops = StopMode.NO

    @property
    def has_pending_checkpoint(self) -> bool:
        """Whether an epoch is between its end and its commit point."""
        return self._checkpoints.pending is not None

    def reset(self) -> None:
        """Forget the running epoch."""
        self._checkpoints.reset()
        self._attempt = 1

    # --------------------------------------------------------------------------------------------------- the beginning

    def recover(self) -> None:
        """Continue from the last completed checkpoint: first its output and commits, then its sources."""
        self._context.go(Phase.RECOVERING)
        self._state.reset()
        self._redo()
        if self._stop.checkpoint is not None:
            self._stop.save()
            return
        self._stop.undo_drain()
        if not self._state.ledger:
            self._open()

    # -------------------------------------------------------------------------------------------------- between epochs

    def enumerators_called(self, event: ev.EnumeratorsCalled) -> None:
        """Continue once the enumerators have started or were notified."""
        self._state.pace(backlog=event.backlog)
        self.assigned(event.assigned)
        match self._context.phase:
            case Phase.OPENING:
                self._settle(0)
            case Phase.NOTIFYING_SOURCES:
                self._next()
            case _:
                self._finish()

    def _next(self) -> None:
        """Begin the next epoch, now or when there is work, or find that the job has finished."""
        if self._state.snapshot.finished:
            self._finish()
            return
        pause_ms = self._state.pause_ms(self._context.now)
        hurries = self._requests.waiting and not (self._requests.only_drains and self._state.awaits_commits)
        self._run_after(0 if hurries else pause_ms)

    # -------------------------------------------------------------------------------------------------------- an epoch

    def _run(self) -> None:
        if self._context.phase is Phase.RELEASING:
            self._release()
            return
        self._context.go(Phase.EPOCH)
        request = self._requests.stop
        self._stops = request.stop if request else StopMode.NO
        for_savepoint = self._requests.begun()
        dispatches = self._state.dispatches(
            self._context.chain.completed, self._context.now.passed_ms, for_savepoint=for_savepoint
        )
        self._context.emit(self._begun(dispatches, self._state.inputs(), self._stops))

    def _begun(
        self, dispatches: Mapping[Subtask, SubtaskDispatch], inputs: Mapping[int, EdgeStatus], stop: StopMode
    ) -> do.RunEpoch:
        context = self._context
        context.epoch_running = True
        self._rotation += 1
        context.emit(*self._watch.begin(context.now.passed_ms))
        attempt, rotation = self._attempt, self._rotation
        return do.RunEpoch(
            *(context.chain.next_id, attempt, context.job_attempt, rotation, stop, dispatches, inputs),
            inline_bytes=room(self._state.snapshot),
        )

    def observed(self, event: ev.EpochObserved) -> None:
        """Cancel the running epoch if it has expired; its end decides what follows. A stop may wait for it too long."""
        context = self._context
        is_running = context.phase in {Phase.EPOCH, Phase.RELEASING}
        if is_running and self._watch.observed(event, context.chain.next_id, context.now.passed_ms):
            self._state.expired()
            context.emit(do.CancelEpoch())
        if self._stop.give_up_late(event.running):
            self._life.cancel()

    def look_due(self, _: EpochLookDue) -> None:
        """Ask for the progress of the running epoch."""
        self._context.emit(*self._watch.look(is_running=self._context.epoch_running))

    def epoch_ended(self, event: ev.EpochEnded) -> None:
        """Handle the end of an epoch: it is accepted, runs again, or fails the job."""
        self._context.epoch_running = False
        outcome, checkpoint_id = event.outcome, self._context.chain.next_id
        if outcome.failures:
            self._life.fail(outcome.failures[0])
        elif self._context.phase is Phase.RELEASING:
            self._life.terminate()
        elif reason := self._state.void_reason(checkpoint_id, outcome.acks):
            self._run_again(self._name, InternalError(f"{self._name} does not count: {reason}."))
        else:
            self._attempt = 1
            self._watch.succeeded()
            self._checkpoints.begin(event, self._stops)

    def epoch_lost(self, event: ev.EpochLost) -> None:
        """Run a lost epoch again, unless too many in a row have expired."""
        self._context.epoch_running = False
        expired = self._watch.expired
        if expired is None or self._watch.is_tolerable:
            self._run_again(self._name, expired or event.error)
        else:
            self._life.fail(expired)

    @property
    def _name(self) -> str:
        return f"Epoch {self._context.chain.next_id}"

    # -------------------------------------------------------------------------------------------------- its checkpoint

    def accumulators_merged(self, event: ev.AccumulatorsMerged) -> None:
        """Continue with the merged accumulators."""
        self._checkpoints.merged(event)

    def enumerators_snapshotted(self, event: ev.EnumeratorsSnapshotted) -> None:
        """Continue with the enumerators' snapshots."""
        self.assigned(event.assigned)
        self._checkpoints.snapshotted(event)

    def state_stored(self, _: ev.StateStored) -> None:
        """Continue once all state of the epoch is stored in files or prepared for the metadata."""
        self._checkpoints.stored()

    def entry_stored(self, entry: ChainEntry) -> None:
        """Continue after the commit point of an epoch."""
        self._checkpoints.completed(entry)
        if self._context.is_stopping:
            return
        if self._stop.checkpoint is not None:
            self._stop.save()
        else:
            self._settle(entry.checkpoint_id)

    def entry_lost(self) -> None:
        """Abandon the epoch, whose chain entry may or may not be stored."""
        self._checkpoints.lost()
        self._attempt = 1

    def entry_found(self, entry: ChainEntry) -> None:
        """Complete the abandoned checkpoint if this entry, which was found on the chain, is its own."""
        self._checkpoints.found(entry)
        self._attempt = 1

    def commits_moved(self) -> None:
        """Continue with what waited for a commit, such as the next chain entry."""
        self._copy_savepoints()
        match self._context.phase:
            case Phase.WAITING_FOR_COMMITS:
                self._checkpoints.put_entry()
            case Phase.PAUSED if self._state.is_fed:
                self.trigger_now()
            case _:
                super().commits_moved()

    # --------------------------------------------------------------------------------------------------------- the end

    def on_stop(self, step: StopStep) -> None:
        """Complete the checkpoint that the job stops with; in the end notify the enumerators that run."""
        if step is StopStep.EXPORTED:
            self._checkpoints.put_entry()
        elif step is StopStep.GIVEN_UP:
            self._checkpoints.go_on()
        elif self._state.has_advanced:
            self._context.go(Phase.NOTIFYING)
            self._context.call(do.CallEnumerators(self._context.chain.completed, {}))
        else:
            self._finish()

    def _finish(self) -> None:
        self._context.go(Phase.FINISHING)
        if self._stop.checkpoint is None:
            self._requests.finish()
            self._copy_savepoints()

    def _copy_savepoints(self) -> None:
        context = self._context
        context.emit(*self._savepoints.copy(context.chain, context.retention, context.now.now_ms))

    def check_finished(self) -> None:
        """End the job if it is about to, once everything is committed and delivered."""
        if self._context.phase is not Phase.FINISHING:
            return
        if not (self._state.ledger or self._savepoints.copying or self._output.is_due):
            self._release()

    def _release(self) -> None:
        """Notify the checkpoint listeners of the last checkpoint; the same Spark job closes all functions."""
        notifications = self._state.notifications(self._context.chain.completed, going_on=False)
        if notifications:
            self._context.go(Phase.RELEASING)
            self._context.emit(do.NotifyListeners(self._begun(notifications, {}, StopMode.NO)))
        else:
            self._life.terminate()

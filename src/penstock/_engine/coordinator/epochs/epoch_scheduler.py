"""Epoch after epoch: how a stream makes progress between two breaks.

recover → open → settle → run → accept, a checkpoint (`checkpoint_coordinator`), and settle again. What became of a
checkpoint is told with the next epoch; after the last one follows an epoch that does nothing else, where functions
listen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.epochs.checkpoint_coordinator import CheckpointCoordinator
from penstock._engine.coordinator.epochs.epoch_monitor import EpochMonitor
from penstock._engine.coordinator.phases import RUNNING, Phase
from penstock._engine.coordinator.scheduler import Scheduler
from penstock._engine.protocol.control import StopMode
from penstock.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.commits.commits import CommitScheduler
    from penstock._engine.coordinator.commits.output_delivery import OutputDelivery
    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.acceptance import Subtask
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.life.requests import PendingRequests
    from penstock._engine.coordinator.life.savepoint_copies import SavepointCopies
    from penstock._engine.coordinator.life.stop import StopWithSavepoint
    from penstock._engine.coordinator.scheduler import JobLife
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.control import SubtaskDispatch
    from penstock._engine.protocol.metadata import ChainEntry

#: An epoch that is void or lost is run again at once, this often in a row; then it counts as a failure of the job.
MAX_EPOCH_ATTEMPTS: Final = 10


class EpochScheduler(Scheduler):
    """Runs the epochs of one job.

    Args:
        context: The coordinator's context.
        state: What epochs work on.
        settings: Say when an epoch expires.
        life: The life of the job.
        requests: Say whether the job stops, and who waits for a checkpoint.
        savepoints: Copies of checkpoints.
        stop: The stop of the job.
        commits: The commits.
        output: What the program has not got yet.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        state: JobState,
        settings: JobSettings,
        life: JobLife,
        *,
        requests: PendingRequests,
        savepoints: SavepointCopies,
        stop: StopWithSavepoint,
        commits: CommitScheduler,
        output: OutputDelivery,
    ) -> None:
        self._context = context
        self._state = state
        self._life = life
        self._requests = requests
        self._savepoints = savepoints
        self._stop = stop
        self._commits = commits
        self._output = output
        self._checkpoints = CheckpointCoordinator(
            context, state, requests=requests, savepoints=savepoints, stop=stop, commits=commits, output=output
        )
        self._watch = EpochMonitor(context, settings, self._expire)
        self._attempt = 1
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

    def interrupt(self) -> None:
        """Cancel the running epoch; a checkpoint whose entry is being written may still complete."""
        if self._context.epoch_running:
            self._context.emit(do.CancelEpoch())
        if self._context.entry is None:
            self.reset()

    # --------------------------------------------------------------------------------------------------- the beginning

    def recover(self) -> None:
        """Take up the last completed checkpoint: first its output and commits, then its sources."""
        self._context.go(Phase.RECOVERING)
        self._state.reset()
        self._output.again()
        self._commits.start()
        if self._stop.checkpoint is not None:
            self._stop.save()
        elif not self._state.ledger:
            self._open()

    def _open(self) -> None:
        self._context.go(Phase.OPENING)
        openings = {uid: source.opening for uid, source in self._state.sources.items()}
        self._context.call(
            do.StartEnumerators({uid: opening for uid, opening in openings.items() if opening is not None})
        )

    # -------------------------------------------------------------------------------------------------- between epochs

    def assigned(self, assigned: ev.Assigned) -> None:
        """Note what enumerators assigned; this ends a pause."""
        if self._context.phase not in RUNNING:
            return
        for uid, by_subtask in assigned.items():
            self._state.sources[uid].assigned(by_subtask)
        if self._context.phase is Phase.PAUSED and assigned:
            self._run()

    def splits_assigned(self, event: ev.SplitsAssigned) -> None:
        """Take what an enumerator assigned of its own accord."""
        self.assigned(event.assigned)

    def _settle(self, completed: int) -> None:
        """Notify the enumerators of a completed checkpoint, 0 for none, and deliver what their readers sent."""
        self._context.go(Phase.SETTLING)
        deliveries = {uid: source.deliver() for uid, source in self._state.sources.items()}
        heard = {uid: delivery for uid, delivery in deliveries.items() if delivery is not None}
        if completed or heard:
            self._context.call(do.CallEnumerators(completed, heard))
        else:
            self._next_epoch()

    def enumerators_called(self, event: ev.EnumeratorsCalled) -> None:
        """Go on once the enumerators have started, or were notified."""
        self._state.pace(backlog=event.backlog)
        self.assigned(event.assigned)
        match self._context.phase:
            case Phase.OPENING:
                self._settle(0)
            case Phase.SETTLING:
                self._next_epoch()
            case _:
                self._finish()

    def _next_epoch(self) -> None:
        """Begin the next epoch, now or when there is something to do, or find that there is none."""
        if self._state.snapshot.finished:
            self._finish()
            return
        pause_ms = self._state.pause_ms(self._context.now)
        if pause_ms and not self._requests.waiting:
            self._context.go(Phase.PAUSED)
            self._context.alarm(pause_ms, self.hurry)
        else:
            self._run()

    def hurry(self) -> None:
        """Run the next epoch now, unless splits have come in between or the job has failed."""
        if self._context.phase is Phase.PAUSED:
            self._run()

    # -------------------------------------------------------------------------------------------------------- an epoch

    def _run(self) -> None:
        self._context.go(Phase.EPOCH)
        request = self._requests.stop
        self._stops = request.stop if request else StopMode.NO
        for_savepoint = self._requests.begun()
        dispatches = self._state.dispatches(self._completed, self._context.now.passed_ms, for_savepoint=for_savepoint)
        self._context.emit(self._begun(dispatches, self._stops))

    def _begun(self, dispatches: Mapping[Subtask, SubtaskDispatch], stop: StopMode) -> do.RunEpoch:
        context = self._context
        context.epoch_running = True
        self._rotation += 1
        self._watch.begin()
        return do.RunEpoch(context.chain.next_id, self._attempt, context.job_attempt, self._rotation, stop, dispatches)

    @property
    def _completed(self) -> int:
        parent = self._context.chain.parent
        return parent.checkpoint_id if parent else 0

    def observed(self, event: ev.EpochObserved) -> None:
        """Note how far the epoch has come."""
        if self._context.phase in {Phase.EPOCH, Phase.RELEASING}:
            self._watch.observed(event)
        self._requests.observed(event.running)

    def _expire(self) -> None:
        """Cancel the running epoch; what follows is decided once Spark has ended it."""
        self._state.expired()
        self._context.emit(do.CancelEpoch())

    def epoch_ended(self, event: ev.EpochEnded) -> None:
        """Go on after an epoch that came to its end: it counts, or is run again, or fails the job."""
        self._context.epoch_running = False
        outcome, checkpoint_id = event.outcome, self._context.chain.next_id
        if outcome.failures:
            self._life.fail(outcome.failures[0])
        elif self._context.phase is Phase.RELEASING:
            self._life.leave()
        elif reason := self._state.void_reason(checkpoint_id, outcome.acks):
            self._run_again(InternalError(f"Epoch {checkpoint_id} does not count: {reason}."))
        else:
            self._attempt = 1
            self._watch.succeeded()
            self._checkpoints.begin(outcome.acks, event.wall_ms, self._stops)

    def epoch_lost(self, event: ev.EpochLost) -> None:
        """Run an epoch again that broke off, unless too many have expired."""
        self._context.epoch_running = False
        expired = self._watch.expired
        if expired is None or self._watch.is_tolerable:
            self._run_again(expired or event.error)
        else:
            self._life.fail(expired)

    def epoch_failed(self, event: ev.EpochFailed) -> None:
        """Break off because of an epoch that would not go better a second time."""
        self._context.epoch_running = False
        self._life.fail(event.error)

    def epoch_abandoned(self, _: ev.EpochEnded | ev.EpochLost | ev.EpochFailed) -> None:
        """Note that the epoch has ended of a job that breaks off."""
        self._context.epoch_running = False
        self._life.check_stopped()

    def _run_again(self, error: Exception) -> None:
        """Run an epoch again that Spark lost, or whose tasks disagree; it counts as no restart."""
        self._context.retention.orphans_possible(self._context.now.passed_ms)
        self._attempt += 1
        if self._attempt > MAX_EPOCH_ATTEMPTS:
            self._life.fail(error)
            return
        self._context.report_failure(error, counted=False)
        self._context.emit(
            do.LogMessage(f"Epoch {self._context.chain.next_id} runs again, attempt {self._attempt}", error)
        )
        if self._context.phase is Phase.RELEASING:
            self._release()
        else:
            self._run()

    # -------------------------------------------------------------------------------------------------- its checkpoint

    def accumulators_merged(self, event: ev.AccumulatorsMerged) -> None:
        """Go on with the merged accumulators."""
        self._checkpoints.merged(event)

    def enumerators_snapshotted(self, event: ev.EnumeratorsSnapshotted) -> None:
        """Go on with the enumerators' snapshots."""
        self.assigned(event.assigned)
        self._checkpoints.snapshotted(event)

    def state_stored(self, _: ev.StateStored) -> None:
        """Go on once all state of the epoch is in files or in the metadata to be."""
        self._checkpoints.stored()

    def exported(self) -> None:
        """Put the record of the checkpoint that the job stops with."""
        self._checkpoints.put_entry()

    def go_on(self) -> None:
        """Make a normal checkpoint of the epoch that the job was to stop with."""
        self._checkpoints.go_on()

    def entry_stored(self, entry: ChainEntry) -> None:
        """Go on after the commit point of an epoch."""
        self._checkpoints.completed(entry)
        if self._context.is_stopping:
            self._life.check_stopped()
        elif self._stop.checkpoint is not None:
            self._stop.save()
        else:
            self._settle(entry.checkpoint_id)

    def entry_lost(self) -> None:
        """Let go of the epoch whose record may or may not have arrived."""
        self._checkpoints.lost()
        self._attempt = 1

    def entry_found(self, entry: ChainEntry) -> None:
        """Take up the checkpoint that is in the place of the record which was put, if it is the lost one."""
        self._checkpoints.found(entry)
        self._attempt = 1

    def commits_moved(self) -> None:
        """Go on with what waited for a commit."""
        if self._requests.wait_for_commits:
            self._savepoints.copy()
        match self._context.phase:
            case Phase.AWAITING_ROOM:
                self._checkpoints.put_entry()
            case Phase.RECOVERING if not self._state.ledger:
                self._open()
            case Phase.FINISHING:
                self.check_finished()
            case _ if self._context.is_stopping:
                self._life.check_stopped()
            case _:
                pass

    # --------------------------------------------------------------------------------------------------------- the end

    def saved(self) -> None:
        """Notify the enumerators of the checkpoint that the job stops with, unless they are closed."""
        if self._state.has_advanced:
            self._context.go(Phase.NOTIFYING)
            self._context.call(do.CallEnumerators(self._completed, {}))
        else:
            self._finish()

    def _finish(self) -> None:
        self._context.go(Phase.FINISHING)
        if self._stop.checkpoint is None:
            self._requests.finish()
            if self._requests.wait_for_commits:
                self._savepoints.copy()
        self.check_finished()

    def check_finished(self) -> None:
        """Go on with the end once all that the job has made is where it belongs."""
        if self._context.phase is not Phase.FINISHING:
            return
        if not (self._state.ledger or self._savepoints.copying or self._output.is_due):
            self._release()

    def _release(self) -> None:
        """Notify the checkpoint listeners of the last checkpoint; the same Spark job closes all functions."""
        notifications = self._state.notifications(self._completed, going_on=False)
        if notifications:
            self._context.go(Phase.RELEASING)
            self._context.emit(do.NotifyListeners(self._begun(notifications, StopMode.NO)))
        else:
            self._life.leave()

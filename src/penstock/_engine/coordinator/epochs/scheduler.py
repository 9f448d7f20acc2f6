"""The epochs of a running job, one after the other, until it fails or ends.

settle → run → accept → snapshot → put the chain entry, and again. The entry's answer arrives at the job's coordinator,
which knows whether the job still runs by then. Checkpoint listeners are notified with the dispatch of the next epoch;
after the last epoch one more Spark job does nothing else, where there are listeners.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.epochs.epoch_watch import EpochMonitor
from penstock._engine.coordinator.phases import RUNNING, Phase
from penstock._engine.protocol.control import StopMode, TaskFailure
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.acceptance import Subtask
    from penstock._engine.coordinator.epochs.job_state import JobState, PendingCheckpoint
    from penstock._engine.coordinator.life.checkpoint_requests import PendingCheckpointRequests
    from penstock._engine.coordinator.life.savepoints import PendingSavepoints
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.control import SubtaskDispatch

#: What failed: a user's function in a task, or an exception on the driver.
Cause: TypeAlias = TaskFailure | Exception

#: An epoch that is void or lost is run again at once, this often in a row; then it counts as a failure of the job.
MAX_EPOCH_ATTEMPTS: Final = 10


class EpochScheduler:
    """Runs the epochs of one job.

    Args:
        context: The coordinator's context.
        state: What epochs work on.
        settings: Say when an epoch expires.
        savepoints: Say whether the job stops, and what waits for commits.
        requests: Who waits for a checkpoint.
        fail: Called when the job has to break off.
        finish: Called when all subtasks have finished, or the job stops.
        leave: Called when all is committed and those who listen have heard of the last checkpoint.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        state: JobState,
        settings: JobSettings,
        *,
        savepoints: PendingSavepoints,
        requests: PendingCheckpointRequests,
        fail: Callable[[Cause], None],
        finish: Callable[[], None],
        leave: Callable[[], None],
    ) -> None:
        self._context = context
        self._state = state
        self._savepoints = savepoints
        self._requests = requests
        self._fail = fail
        self._finish = finish
        self._leave = leave
        self._watch = EpochMonitor(context, settings, self._expire)
        #: The epoch between its end and its commit point.
        self.pending: PendingCheckpoint | None = None
        self._attempt = 1
        self._rotation = 0
        #: Whether the job stops with the running epoch.
        self._stop = StopMode.NO

    def reset(self) -> None:
        """Forget the running epoch; called when the job fails or is cancelled."""
        self.pending = None
        self._attempt = 1

    def assigned(self, assigned: ev.Assigned) -> None:
        """Note what enumerators assigned; this ends a pause."""
        if self._context.phase not in RUNNING:
            return
        for uid, by_subtask in assigned.items():
            self._state.sources[uid].assigned(by_subtask)
        if self._context.phase is Phase.PAUSED and assigned:
            self._run()

    def settle(self, completed: int) -> None:
        """Notify the enumerators of a completed checkpoint, 0 for none, and deliver what their readers sent."""
        self._context.go(Phase.SETTLING)
        deliveries = {uid: source.deliver() for uid, source in self._state.sources.items()}
        heard = {uid: delivery for uid, delivery in deliveries.items() if delivery is not None}
        if completed or heard:
            self._context.call(do.CallEnumerators(completed, heard))
        else:
            self.next_epoch()

    def heard(self, event: ev.EnumeratorsCalled) -> None:
        """Go on once the enumerators have started, or were notified."""
        self._state.pace(backlog=event.backlog)
        self.assigned(event.assigned)
        match self._context.phase:
            case Phase.OPENING:
                self.settle(0)
            case Phase.SETTLING:
                self.next_epoch()
            case _:
                self._finish()

    def next_epoch(self) -> None:
        """Begin the next epoch, now or when there is something to do, or find that there is none."""
        if self._state.snapshot.finished:
            self._finish()
            return
        pause_ms = self._state.pause_ms(self._context.now)
        if pause_ms and not self._savepoints.waiting and not self._requests.waiting:
            self._context.go(Phase.PAUSED)
            self._context.alarm(pause_ms, self.end_pause)
        else:
            self._run()

    def end_pause(self) -> None:
        """Run the next epoch now, unless splits have come in between or the job has failed."""
        if self._context.phase is Phase.PAUSED:
            self._run()

    def _run(self) -> None:
        self._context.go(Phase.EPOCH)
        request = self._savepoints.stop
        self._stop = request.stop if request else StopMode.NO
        self._requests.begun()
        for_savepoint = self._savepoints.begun()
        dispatches = self._state.dispatches(self._completed, self._context.now.passed_ms, for_savepoint=for_savepoint)
        self._context.emit(self._begun(dispatches, self._stop))

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

    def stopped(self) -> None:
        """Notify the enumerators of the checkpoint that the job stops with, unless they are closed."""
        if self._state.has_advanced:
            self._context.go(Phase.NOTIFYING)
            self._context.call(do.CallEnumerators(self._completed, {}))
        else:
            self._finish()

    def release(self) -> None:
        """Notify the checkpoint listeners of the last checkpoint; the same Spark job closes all functions."""
        notifications = self._state.notifications(self._completed, going_on=False)
        if notifications:
            self._context.go(Phase.RELEASING)
            self._context.emit(do.NotifyListeners(self._begun(notifications, StopMode.NO)))
        else:
            self._leave()

    def observed(self, event: ev.EpochObserved) -> None:
        """Note how far the epoch has come."""
        if self._context.phase in {Phase.EPOCH, Phase.RELEASING}:
            self._watch.observed(event)

    def _expire(self) -> None:
        """Cancel the running epoch; what follows is decided once Spark has ended it."""
        self._state.expired()
        self._context.emit(do.CancelEpoch())

    def over(self, event: ev.EpochEnded | ev.EpochLost | ev.EpochFailed) -> None:
        """Go on after an epoch: accept it, run it again, or fail the job."""
        match event:
            case ev.EpochLost() if (expired := self._watch.expired) is not None:
                if self._watch.is_tolerable:
                    self._run_again(expired)
                else:
                    self._fail(expired)
            case ev.EpochLost(error):
                self._run_again(error)
            case ev.EpochFailed(error):
                self._fail(error)
            case ev.EpochEnded(outcome) if outcome.failures:
                self._fail(outcome.failures[0])
            case ev.EpochEnded() if self._context.phase is Phase.RELEASING:
                self._leave()
            case ev.EpochEnded(outcome, wall_ms):
                checkpoint_id = self._context.chain.next_id
                if reason := self._state.void_reason(checkpoint_id, outcome.acks):
                    self._run_again(InternalError(f"Epoch {checkpoint_id} does not count: {reason}."))
                else:
                    self._attempt = 1
                    self._watch.succeeded()
                    self.pending = self._state.accept(outcome.acks, wall_ms, self._stop)
                    self._context.go(Phase.SNAPSHOTTING)
                    if added := self._state.contributions(outcome.acks):
                        self._context.call(do.MergeAccumulators(self._state.snapshot.all_accumulators, added))
                    else:
                        self._context.call(do.SnapshotEnumerators(checkpoint_id))

    def _run_again(self, error: Exception) -> None:
        """Run an epoch again that Spark lost, or whose tasks disagree; it counts as no restart."""
        self._context.retention.orphans_possible(self._context.now.passed_ms)
        self._attempt += 1
        if self._attempt > MAX_EPOCH_ATTEMPTS:
            self._fail(error)
            return
        self._context.report_failure(error, counted=False)
        self._context.emit(
            do.LogMessage(f"Epoch {self._context.chain.next_id} runs again, attempt {self._attempt}", error)
        )
        if self._context.phase is Phase.RELEASING:
            self.release()
        else:
            self._run()

    def merged(self, event: ev.AccumulatorsMerged) -> None:
        """Go on with the merged accumulators."""
        assert self.pending is not None
        self.pending = replace(self.pending, accumulators=event.accumulators)
        self._context.call(do.SnapshotEnumerators(self._context.chain.next_id))

    def snapshotted(self, event: ev.EnumeratorsSnapshotted) -> None:
        """Go on with the enumerators' snapshots."""
        assert self.pending is not None
        self.assigned(event.assigned)
        chain = self._context.chain
        self.pending, files = self._state.snapshotted(self.pending, chain.job_id, chain.next_id, event.snapshots)
        if files:
            self._context.go(Phase.STORING)
            self._context.call(do.StoreState(files))
        else:
            self.stored()

    def stored(self) -> None:
        """Go on once all state of the epoch is in files or in the metadata to be."""
        assert self.pending is not None
        assert self.pending.snapshot is not None
        if self.pending.stop is StopMode.NO:
            self.put_entry()
        else:
            self._context.go(Phase.EXPORTING)
            self._savepoints.export(self._state.document(self.pending))

    def go_on(self) -> None:
        """Make a normal checkpoint of the epoch that the job was to stop with."""
        assert self.pending is not None
        self.pending = replace(self.pending, stop=StopMode.NO)
        self.put_entry()

    def put_entry(self) -> None:
        """Put the entry, once no sink has more than one checkpoint outstanding."""
        ledger = self._state.ledger
        if (self._savepoints.wait_for_commits and ledger) or not ledger.has_room:
            if self._context.phase is not Phase.AWAITING_ROOM:
                self._context.go(Phase.AWAITING_ROOM)
            return
        assert self.pending is not None
        self._context.go(Phase.RECORDING)
        document = self._state.document(self.pending)
        request = self._savepoints.stop if self.pending.stop is not StopMode.NO else None
        entry = self._context.chain.make(ChainEntryKind.CHECKPOINT, self._context.now.now_ms, document)
        if request is not None:
            entry = replace(entry, savepoint=request.path, cancels=request.stop is StopMode.CANCEL)
        self._context.put(entry)

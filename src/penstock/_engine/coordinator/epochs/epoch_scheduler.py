"""Runs a job epoch after epoch, from a start or restart to the next.

Recover → open → settle → run → accept, a checkpoint, and settle again. Each epoch notifies
checkpoint listeners of the checkpoint before it; for the last checkpoint a Spark job of its own does so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.snapshots import inline_limit
from penstock._engine.coordinator.epochs.acks import contributions, outputs
from penstock._engine.coordinator.epochs.budget import EpochMonitor
from penstock._engine.coordinator.phases import Phase
from penstock._engine.coordinator.scheduler import CheckpointCoordinator, Scheduler, StopStep
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.alarms import EpochLookDue
    from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
    from penstock._engine.coordinator.epochs.job_state import PendingCheckpoint
    from penstock._engine.coordinator.life.requests import PendingRequests, SavepointCopies
    from penstock._engine.coordinator.life.stop import StopWithSavepoint
    from penstock._engine.coordinator.scheduler import SchedulerParts
    from penstock._engine.protocol.control import EdgeStatus, SubtaskDispatch
    from penstock._engine.protocol.metadata import ChainEntry


class EpochCheckpoints(CheckpointCoordinator):
    """Makes the checkpoint of an accepted epoch, and does what follows from it.

    Pending checkpoint → state in files, if the metadata has no room → savepoint of a stop → room for commits → chain
    entry, which is the commit point.

    Args:
        parts: The parts of the job. Once a checkpoint has completed, commits start and output is delivered.
        requests: The requests for checkpoints, savepoints and a stop.
        savepoints: The savepoints that are copies of checkpoints.
        stop: The stop of the job.
    """

    def __init__(
        self, parts: SchedulerParts, requests: PendingRequests, savepoints: SavepointCopies, stop: StopWithSavepoint
    ) -> None:
        super().__init__(parts)
        self._requests = requests
        self._savepoints = savepoints
        self._stop = stop
        self._collectors = parts.state.plan.graph.collectors

    # ---------------------------------------------------------------------------------------- up to the commit point

    def begin(self, event: ev.EpochEnded, stop: StopMode) -> None:
        """Begin the checkpoint of an accepted epoch."""
        acks = event.outcome.acks
        self.pending = self._state.accept(acks, event.wall_ms, event.slots, stop)
        self._context.go(Phase.SNAPSHOTTING)
        if added := contributions(acks):
            self._context.call(do.MergeAccumulators(self._state.snapshot.all_accumulators, added))
        else:
            self._context.call(do.SnapshotEnumerators(self._state.chain.next_id))

    def merged(self, event: ev.AccumulatorsMerged) -> None:
        """Continue with the merged accumulators."""
        assert self.pending is not None
        self.pending = replace(self.pending, accumulators=event.accumulators)
        self._context.call(do.SnapshotEnumerators(self._state.chain.next_id))

    def snapshotted(self, event: ev.EnumeratorsSnapshotted) -> None:
        """Continue with the enumerators' snapshots."""
        assert self.pending is not None
        chain = self._state.chain
        self.pending, files = self._state.snapshotted(self.pending, chain.job_id, chain.next_id, event.snapshots)
        if files:
            self._context.go(Phase.STORING)
            self._context.call(do.StoreState(files))
        else:
            self.stored()

    def stored(self) -> None:
        """Continue once all state of the epoch is stored in files or prepared for the metadata."""
        assert self.pending is not None
        assert self.pending.snapshot is not None
        if self.pending.stop is StopMode.NO:
            self.put_entry()
        elif self._state.drains_on(self.pending):
            self.go_on()
        else:
            self._context.go(Phase.EXPORTING)
            self._stop.export(self._state.document(self.pending))

    def go_on(self) -> None:
        """Complete the epoch as a normal checkpoint, because the stop was given up or the drain goes on."""
        assert self.pending is not None
        self.pending = replace(self.pending, stop=StopMode.NO)
        self.put_entry()

    def put_entry(self) -> None:
        """Put the chain entry, once no sink has more than one outstanding commit."""
        ledger = self._state.ledger
        if (self._requests.wait_for_commits and ledger) or not ledger.accepts_checkpoint:
            if self._context.phase is not Phase.WAITING_FOR_COMMITS:
                self._context.go(Phase.WAITING_FOR_COMMITS)
            return
        assert self.pending is not None
        self._context.go(Phase.RECORDING)
        document = self._state.document(self.pending)
        request = self._requests.stop if self.pending.stop is not StopMode.NO else None
        chain = self._state.chain
        entry = chain.make(ChainEntryKind.CHECKPOINT, self._context.now.now_ms, document)
        if request is not None:
            entry = replace(entry, savepoint=request.path, cancels=request.stop is StopMode.CANCEL)
        self._context.emit(chain.put(entry))

    # --------------------------------------------------------------------------------------------------- behind it

    def completed(self, entry: ChainEntry) -> None:
        """Complete the pending checkpoint, whose chain entry is stored, and answer who asked for it."""
        super().completed(entry)
        self._context.emit(*self._requests.answer_checkpoints(entry.checkpoint_id))

    def _complete(self, entry: ChainEntry, pending: PendingCheckpoint) -> None:
        """Start commits, deliver output and delete old checkpoints."""
        assert entry.snapshot is not None
        context, state, now = self._context, self._state, self._context.now
        chain, retention = state.chain, state.retention
        state.completed(pending, entry.snapshot, entry.checkpoint_id)
        retention.keep(entry)
        if entry.savepoint is not None:
            self._stop.checkpoint = entry
        context.emit(*self._commits.start(context.phase, now.passed_ms))
        self._requests.completed()
        context.emit(
            *self._savepoints.copy(now.now_ms),
            *self._output.begin(entry.checkpoint_id, outputs(pending.acks, self._collectors), retention),
            do.PublishProgress(state.progress, pending.acks, entry.snapshot),
            *chain.deletion(retention.drop()),
        )
        if retention.sweep_due(now.passed_ms):
            context.emit(chain.sweep(retention))


class EpochScheduler(Scheduler[EpochCheckpoints]):
    """Runs the epochs of one job.

    Args:
        parts: The parts of the job.
        requests: The requests for checkpoints, savepoints and a stop.
        savepoints: The savepoints that are copies of checkpoints.
        stop: The stop of the job.
    """

    def __init__(
        self, parts: SchedulerParts, requests: PendingRequests, savepoints: SavepointCopies, stop: StopWithSavepoint
    ) -> None:
        super().__init__(parts, EpochCheckpoints(parts, requests, savepoints, stop))
        self._requests = requests
        self._savepoints = savepoints
        self._stop = stop
        self._watch = EpochMonitor(parts.state.settings)
        self._rotation = 0
        #: Whether the job stops with the running epoch.
        self._stops = StopMode.NO

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
        settings = self._state.settings
        self._state.budgets.interval_ms = settings.backlog_epoch_ms if event.backlog else settings.epoch_ms
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
            self._state.chain.completed, self._context.now.passed_ms, for_savepoint=for_savepoint
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
            *(self._state.chain.next_id, attempt, context.job_attempt, rotation, stop, dispatches, inputs),
            inline_bytes=inline_limit(self._state.snapshot),
            least_ms=max(self._state.budgets.least_ms, self._state.settings.min_pause_ms),
        )

    def observed(self, event: ev.EpochObserved) -> None:
        """Cancel the running epoch if it has expired; its end decides what follows. A stop may wait for it too long."""
        context = self._context
        is_running = context.phase in {Phase.EPOCH, Phase.RELEASING}
        if is_running and self._watch.observed(event, self._state.chain.next_id, context.now.passed_ms):
            self._state.budgets.expired()
            context.emit(do.CancelEpoch())
        if self._stop.give_up_late(event.running):
            self._life.cancel()

    def look_due(self, _: EpochLookDue) -> None:
        """Ask for the progress of the running epoch."""
        self._context.emit(*self._watch.look(is_running=self._context.epoch_running))

    def epoch_ended(self, event: ev.EpochEnded) -> None:
        """Handle the end of an epoch: it is accepted, runs again, or fails the job."""
        self._context.epoch_running = False
        outcome, checkpoint_id = event.outcome, self._state.chain.next_id
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
        return f"Epoch {self._state.chain.next_id}"

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
            self._context.call(do.CallEnumerators(self._state.chain.completed, {}))
        else:
            self._finish()

    def _finish(self) -> None:
        self._context.go(Phase.FINISHING)
        if self._stop.checkpoint is None:
            self._requests.finish()
            self._copy_savepoints()

    def _copy_savepoints(self) -> None:
        context = self._context
        context.emit(*self._savepoints.copy(context.now.now_ms))

    def check_finished(self) -> None:
        """End the job if it is about to, once everything is committed and delivered."""
        if self._context.phase is not Phase.FINISHING:
            return
        if not (self._state.ledger or self._savepoints.copying or self._output.is_due):
            self._release()

    def _release(self) -> None:
        """Notify the checkpoint listeners of the last checkpoint; the same Spark job closes all functions."""
        notifications = self._state.notifications(self._state.chain.completed, going_on=False)
        if notifications:
            self._context.go(Phase.RELEASING)
            self._context.emit(do.NotifyListeners(self._begun(notifications, {}, StopMode.NO)))
        else:
            self._life.terminate()

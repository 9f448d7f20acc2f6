"""Makes the checkpoint of an accepted epoch, and does what follows from it.

Pending checkpoint → state in files, if the metadata has no room → savepoint of a stop → room for commits → chain entry,
which is the commit point.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.epochs.acks import contributions, outputs
from penstock._engine.coordinator.phases import Phase
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind

if TYPE_CHECKING:
    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.commits.commits import CommitScheduler, OutputDelivery
    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.job_state import JobState, PendingCheckpoint
    from penstock._engine.coordinator.life.requests import PendingRequests, SavepointCopies
    from penstock._engine.coordinator.life.stop import StopWithSavepoint
    from penstock._engine.protocol.metadata import ChainEntry


class CheckpointCoordinator:
    """Makes the checkpoints of one job.

    Args:
        context: The coordinator's context.
        state: The job's state.
        requests: The requests for checkpoints, savepoints and a stop.
        savepoints: The savepoints that are copies of checkpoints.
        stop: The stop of the job.
        commits: Start once a checkpoint has completed.
        output: Is delivered then.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        state: JobState,
        *,
        requests: PendingRequests,
        savepoints: SavepointCopies,
        stop: StopWithSavepoint,
        commits: CommitScheduler,
        output: OutputDelivery,
    ) -> None:
        self._context = context
        self._state = state
        self._requests = requests
        self._savepoints = savepoints
        self._stop = stop
        self._commits = commits
        self._output = output
        self._collectors = state.plan.graph.collectors
        #: The epoch between its end and its commit point.
        self.pending: PendingCheckpoint | None = None
        #: The pending checkpoint whose chain entry has no known outcome; the entry may turn out to be stored.
        self._lost_pending: PendingCheckpoint | None = None

    def reset(self) -> None:
        """Forget the running epoch."""
        self.pending = None

    # ---------------------------------------------------------------------------------------- up to the commit point

    def begin(self, event: ev.EpochEnded, stop: StopMode) -> None:
        """Begin the checkpoint of an accepted epoch."""
        acks = event.outcome.acks
        self.pending = self._state.accept(acks, event.wall_ms, event.slots, stop)
        self._context.go(Phase.SNAPSHOTTING)
        if added := contributions(acks):
            self._context.call(do.MergeAccumulators(self._state.snapshot.all_accumulators, added))
        else:
            self._context.call(do.SnapshotEnumerators(self._context.chain.next_id))

    def merged(self, event: ev.AccumulatorsMerged) -> None:
        """Continue with the merged accumulators."""
        assert self.pending is not None
        self.pending = replace(self.pending, accumulators=event.accumulators)
        self._context.call(do.SnapshotEnumerators(self._context.chain.next_id))

    def snapshotted(self, event: ev.EnumeratorsSnapshotted) -> None:
        """Continue with the enumerators' snapshots."""
        assert self.pending is not None
        chain = self._context.chain
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
        if (self._requests.wait_for_commits and ledger) or not ledger.has_room:
            if self._context.phase is not Phase.WAITING_FOR_COMMITS:
                self._context.go(Phase.WAITING_FOR_COMMITS)
            return
        assert self.pending is not None
        self._context.go(Phase.RECORDING)
        document = self._state.document(self.pending)
        request = self._requests.stop if self.pending.stop is not StopMode.NO else None
        chain = self._context.chain
        entry = chain.make(ChainEntryKind.CHECKPOINT, self._context.now.now_ms, document)
        if request is not None:
            entry = replace(entry, savepoint=request.path, cancels=request.stop is StopMode.CANCEL)
        self._context.emit(chain.put(entry))

    # --------------------------------------------------------------------------------------------------- behind it

    def completed(self, entry: ChainEntry) -> None:
        """Complete the pending checkpoint, whose chain entry is stored."""
        pending = self.pending
        assert pending is not None
        self.pending = None
        self._complete(entry, pending)
        self._context.emit(*self._requests.answer_checkpoints(entry.checkpoint_id))

    def lost(self) -> None:
        """Abandon the pending checkpoint, whose chain entry may or may not be stored."""
        self._lost_pending, self.pending = self.pending, None

    def found(self, entry: ChainEntry) -> None:
        """Complete the abandoned checkpoint if this entry, which was found on the chain, is its own."""
        lost, pending = self._context.chain.lost, self._lost_pending
        self.pending = None
        if lost is not None and pending is not None and lost.same_write(entry):
            self._complete(lost, pending)

    def _complete(self, entry: ChainEntry, pending: PendingCheckpoint) -> None:
        """Start commits, deliver output and delete old checkpoints."""
        assert entry.snapshot is not None
        context, state, now = self._context, self._state, self._context.now
        chain, retention = context.chain, context.retention
        state.completed(pending, entry.snapshot, entry.checkpoint_id)
        retention.keep(entry)
        if entry.savepoint is not None:
            self._stop.checkpoint = entry
        context.emit(*self._commits.start(context.phase, now.passed_ms))
        self._requests.completed()
        context.emit(
            *self._savepoints.copy(chain, retention, now.now_ms),
            *self._output.begin(entry.checkpoint_id, outputs(pending.acks, self._collectors), retention),
            do.PublishProgress(state.progress, pending.acks, entry.snapshot),
            *chain.deletion(retention.drop()),
        )
        if retention.sweep_due(now.passed_ms):
            context.emit(chain.sweep(retention))

"""From an epoch that counts to its checkpoint, and what follows from that.

cut → state in files, where it is too much for the metadata → savepoint of a stop → room → record: the commit point.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.phases import Phase
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind

if TYPE_CHECKING:
    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.commits.commits import CommitScheduler
    from penstock._engine.coordinator.commits.output_delivery import OutputDelivery
    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.job_state import JobState, PendingCheckpoint
    from penstock._engine.coordinator.life.requests import PendingRequests
    from penstock._engine.coordinator.life.savepoint_copies import SavepointCopies
    from penstock._engine.coordinator.life.stop import StopWithSavepoint
    from penstock._engine.protocol.control import SubtaskAck
    from penstock._engine.protocol.metadata import ChainEntry


class CheckpointCoordinator:
    """Makes the checkpoints of one job.

    Args:
        context: The coordinator's context.
        state: What epochs work on.
        requests: Who waits for a checkpoint, and whether the job stops with it.
        savepoints: Copies of it.
        stop: The stop of the job.
        commits: Begin once it has completed.
        output: Is handed over then.
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
        #: The epoch between its end and its commit point.
        self.pending: PendingCheckpoint | None = None
        #: The epoch of a record that got lost, which may be found to have arrived.
        self._lost_pending: PendingCheckpoint | None = None

    def reset(self) -> None:
        """Forget the running epoch."""
        self.pending = None

    # ---------------------------------------------------------------------------------------- up to the commit point

    def begin(self, acks: tuple[SubtaskAck, ...], wall_ms: int, stop: StopMode) -> None:
        """Begin with the checkpoint of an epoch that counts."""
        self.pending = self._state.accept(acks, wall_ms, stop)
        self._context.go(Phase.SNAPSHOTTING)
        if added := self._state.contributions(acks):
            self._context.call(do.MergeAccumulators(self._state.snapshot.all_accumulators, added))
        else:
            self._context.call(do.SnapshotEnumerators(self._context.chain.next_id))

    def merged(self, event: ev.AccumulatorsMerged) -> None:
        """Go on with the merged accumulators."""
        assert self.pending is not None
        self.pending = replace(self.pending, accumulators=event.accumulators)
        self._context.call(do.SnapshotEnumerators(self._context.chain.next_id))

    def snapshotted(self, event: ev.EnumeratorsSnapshotted) -> None:
        """Go on with the enumerators' snapshots."""
        assert self.pending is not None
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
            self._stop.export(self._state.document(self.pending))

    def go_on(self) -> None:
        """Make a normal checkpoint of the epoch that the job was to stop with."""
        assert self.pending is not None
        self.pending = replace(self.pending, stop=StopMode.NO)
        self.put_entry()

    def put_entry(self) -> None:
        """Put the record, once no sink has more than one checkpoint outstanding."""
        ledger = self._state.ledger
        if (self._requests.wait_for_commits and ledger) or not ledger.has_room:
            if self._context.phase is not Phase.AWAITING_ROOM:
                self._context.go(Phase.AWAITING_ROOM)
            return
        assert self.pending is not None
        self._context.go(Phase.RECORDING)
        document = self._state.document(self.pending)
        request = self._requests.stop if self.pending.stop is not StopMode.NO else None
        entry = self._context.chain.make(ChainEntryKind.CHECKPOINT, self._context.now.now_ms, document)
        if request is not None:
            entry = replace(entry, savepoint=request.path, cancels=request.stop is StopMode.CANCEL)
        self._context.put(entry)

    # --------------------------------------------------------------------------------------------------- behind it

    def completed(self, entry: ChainEntry) -> None:
        """Do what follows from the checkpoint at hand, which is there."""
        pending = self.pending
        assert pending is not None
        self.pending = None
        self._complete(entry, pending)
        self._requests.answer_checkpoints(entry.checkpoint_id)

    def lost(self) -> None:
        """Let go of the checkpoint at hand, whose record may or may not have arrived."""
        self._lost_pending, self.pending = self.pending, None

    def found(self, entry: ChainEntry) -> None:
        """Do what follows from a checkpoint whose record was lost, if it is this one that has arrived."""
        lost, pending = self._context.lost, self._lost_pending
        self.pending = None
        if lost is not None and pending is not None and lost.same_write(entry):
            self._complete(lost, pending)

    def _complete(self, entry: ChainEntry, pending: PendingCheckpoint) -> None:
        """Do what follows from a checkpoint that is there: commit, hand over, tidy up."""
        assert entry.snapshot is not None
        self._state.completed(pending, entry.snapshot, entry.checkpoint_id)
        self._context.retention.keep(entry)
        if entry.savepoint is not None:
            self._stop.completed(entry)
        self._commits.start()
        self._requests.completed()
        if self._requests.wait_for_commits:
            self._savepoints.copy()
        self._output.begin(entry.checkpoint_id, self._state.outputs(pending.acks))
        self._context.emit(do.PublishProgress(self._state.progress, pending.acks, entry.snapshot))
        self._tidy()

    def _tidy(self) -> None:
        self._context.delete(self._context.retention.drop())
        if self._context.retention.sweep_due(self._context.now.passed_ms):
            self._context.sweep()

"""From an epoch that counts to its checkpoint, and what follows from that.

cut → state in files, where it is too much for the metadata → savepoint of a stop → room → record: the commit point.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.phases import Phase
from penstock._engine.protocol.control import Stop
from penstock._engine.protocol.metadata import RecordKind

if TYPE_CHECKING:
    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.commits.commits import CommitCycle
    from penstock._engine.coordinator.commits.handover import HandingOver
    from penstock._engine.coordinator.context import Desk
    from penstock._engine.coordinator.epochs.job_state import Cut, JobState
    from penstock._engine.coordinator.life.requests import PendingRequests
    from penstock._engine.coordinator.life.savepoints import SavepointCopies
    from penstock._engine.coordinator.life.stop import JobStop
    from penstock._engine.protocol.control import SubtaskAck
    from penstock._engine.protocol.metadata import Record


class CheckpointCoordinator:
    """Makes the checkpoints of one job.

    Args:
        desk: The coordinator's desk.
        state: What epochs work on.
        requests: Who waits for a checkpoint, and whether the job stops with it.
        savepoints: Copies of it.
        stop: The stop of the job.
        commits: Begin once it has completed.
        output: Is handed over then.
    """

    def __init__(
        self,
        desk: Desk,
        state: JobState,
        *,
        requests: PendingRequests,
        savepoints: SavepointCopies,
        stop: JobStop,
        commits: CommitCycle,
        output: HandingOver,
    ) -> None:
        self._desk = desk
        self._state = state
        self._requests = requests
        self._savepoints = savepoints
        self._stop = stop
        self._commits = commits
        self._output = output
        #: The epoch between its end and its commit point.
        self.cut: Cut | None = None
        #: The epoch of a record that got lost, which may be found to have arrived.
        self._lost_cut: Cut | None = None

    def reset(self) -> None:
        """Forget the epoch at hand."""
        self.cut = None

    # ---------------------------------------------------------------------------------------- up to the commit point

    def begin(self, acks: tuple[SubtaskAck, ...], wall_ms: int, stop: Stop) -> None:
        """Begin with the checkpoint of an epoch that counts."""
        self.cut = self._state.accept(acks, wall_ms, stop)
        self._desk.go(Phase.CUTTING)
        if added := self._state.contributions(acks):
            self._desk.call(do.MergeAccumulators(self._state.snapshot.counted, added))
        else:
            self._desk.call(do.SnapshotEnumerators(self._desk.chain.next_id))

    def merged(self, event: ev.AccumulatorsMerged) -> None:
        """Go on with what has been counted."""
        assert self.cut is not None
        self.cut = replace(self.cut, counted=event.counted)
        self._desk.call(do.SnapshotEnumerators(self._desk.chain.next_id))

    def snapshotted(self, event: ev.EnumeratorsSnapshotted) -> None:
        """Go on with the enumerators' snapshots."""
        assert self.cut is not None
        chain = self._desk.chain
        self.cut, files = self._state.snapshotted(self.cut, chain.job_id, chain.next_id, event.snapshots)
        if files:
            self._desk.go(Phase.STORING)
            self._desk.call(do.StoreState(files))
        else:
            self.stored()

    def stored(self) -> None:
        """Go on once all state of the epoch is in files or in the metadata to be."""
        assert self.cut is not None
        assert self.cut.snapshot is not None
        if self.cut.stop is Stop.NO:
            self.record()
        else:
            self._desk.go(Phase.EXPORTING)
            self._stop.export(self._state.document(self.cut))

    def go_on(self) -> None:
        """Make a normal checkpoint of the epoch that the job was to stop with."""
        assert self.cut is not None
        self.cut = replace(self.cut, stop=Stop.NO)
        self.record()

    def record(self) -> None:
        """Put the record, once no sink has more than one checkpoint outstanding."""
        ledger = self._state.ledger
        if (self._requests.wait_for_commits and ledger) or not ledger.has_room:
            if self._desk.phase is not Phase.AWAITING_ROOM:
                self._desk.go(Phase.AWAITING_ROOM)
            return
        assert self.cut is not None
        self._desk.go(Phase.RECORDING)
        document = self._state.document(self.cut)
        request = self._requests.stop if self.cut.stop is not Stop.NO else None
        record = self._desk.chain.make(RecordKind.CHECKPOINT, self._desk.now.now_ms, document)
        if request is not None:
            record = replace(record, savepoint=request.path, cancels=request.stop is Stop.CANCEL)
        self._desk.put(record)

    # --------------------------------------------------------------------------------------------------- behind it

    def completed(self, record: Record) -> None:
        """Do what follows from the checkpoint at hand, which is there."""
        cut = self.cut
        assert cut is not None
        self.cut = None
        self._complete(record, cut)
        self._requests.answer_checkpoints(record.checkpoint_id)

    def lost(self) -> None:
        """Let go of the checkpoint at hand, whose record may or may not have arrived."""
        self._lost_cut, self.cut = self.cut, None

    def found(self, record: Record) -> None:
        """Do what follows from a checkpoint whose record was lost, if it is this one that has arrived."""
        lost, cut = self._desk.lost, self._lost_cut
        self.cut = None
        if lost is not None and cut is not None and lost.same_write(record):
            self._complete(lost, cut)

    def _complete(self, record: Record, cut: Cut) -> None:
        """Do what follows from a checkpoint that is there: commit, hand over, tidy up."""
        assert record.snapshot is not None
        self._state.completed(cut, record.snapshot, record.checkpoint_id)
        self._desk.retention.keep(record)
        if record.savepoint is not None:
            self._stop.completed(record)
        self._commits.start()
        self._requests.completed()
        if self._requests.wait_for_commits:
            self._savepoints.copy()
        self._output.begin(record.checkpoint_id, self._state.outputs(cut.acks))
        self._desk.emit(do.Publish(self._state.progress, cut.acks, record.snapshot))
        self._tidy()

    def _tidy(self) -> None:
        self._desk.delete(self._desk.retention.drop())
        if self._desk.retention.sweep_due(self._desk.now.passed_ms):
            self._desk.sweep()

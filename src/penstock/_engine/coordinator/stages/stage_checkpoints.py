"""The one checkpoint of a batch job, at its end; operators behind a committer have one more, at theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator.commits.commits import commits_of
from penstock._engine.coordinator.epochs.acks import outputs
from penstock._engine.coordinator.epochs.job_state import PendingCheckpoint
from penstock._engine.coordinator.phases import Phase
from penstock._engine.coordinator.scheduler import CheckpointCoordinator
from penstock._engine.protocol.metadata import ChainEntryKind

if TYPE_CHECKING:
    from penstock._engine.coordinator.scheduler import SchedulerParts
    from penstock._engine.coordinator.stages.results import StageResults
    from penstock._engine.protocol.metadata import ChainEntry, JobSnapshot


class StageCheckpoints(CheckpointCoordinator):
    """Puts the chain entry of a batch job, which is the commit point of all its sinks.

    Args:
        parts: The parts of the job.
        results: Has the acks of all stages so far.
    """

    def __init__(self, parts: SchedulerParts, results: StageResults) -> None:
        super().__init__(parts)
        self._results = results
        self._last: JobSnapshot | None = None
        #: How many acks the chain entries of this run have, and what was passed on behind committers since then.
        self._recorded = 0
        self.passed_on: dict[str, int] = {}

    @property
    def last(self) -> JobSnapshot:
        """The state at the last checkpoint, to which a restart returns."""
        assert self._last is not None
        return self._last

    def return_to_last(self) -> JobSnapshot:
        """Return to the last checkpoint, which at the first start is what the job starts from."""
        if self._last is None:
            self._last = self._state.snapshot
        self._state.snapshot = self._last
        self._recorded, self.passed_on = 0, {}
        return self._last

    def put_entry(self) -> None:
        """Put the chain entry of the whole job, or of all that runs before a committer: the commit point."""
        context, state, chain = self._context, self._state, self._state.chain
        acks = tuple(self._results.acks[self._recorded :])
        context.go(Phase.RECORDING)
        commits = commits_of(chain.next_id, acks, state.sink_uids)
        self.pending = PendingCheckpoint(acks, 0, snapshot=state.snapshot, commits=commits, passed_on=self.passed_on)
        document = state.document(self.pending)
        context.emit(chain.put(chain.make(ChainEntryKind.CHECKPOINT, context.now.now_ms, document)))

    def _complete(self, entry: ChainEntry, pending: PendingCheckpoint) -> None:
        assert entry.snapshot is not None
        context, state = self._context, self._state
        self._last = state.snapshot = entry.snapshot
        state.ledger.add(pending.commits)
        state.committed.passed_on(pending.passed_on)
        self._recorded, self.passed_on = len(self._results.acks), {}
        state.retention.keep(entry)
        context.emit(*self._commits.start(context.phase, context.now.passed_ms))
        found = outputs(pending.acks, state.plan.graph.collectors)
        context.emit(*self._output.begin(entry.checkpoint_id, found, state.retention))

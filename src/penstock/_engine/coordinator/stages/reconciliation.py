"""The start of a batch job with recovery: what earlier drivers have recorded, and what of it is stored, is taken up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.alarms import PartitionsLookDue
from penstock._engine.coordinator.epochs.acks import contributions
from penstock._engine.coordinator.epochs.job_state import PendingCheckpoint
from penstock._engine.coordinator.phases import Phase
from penstock._engine.coordinator.stages.recovery import LOOK_EVERY_MS
from penstock.common.user_values import error_line
from penstock.errors import InternalError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.scheduler import SchedulerParts
    from penstock._engine.coordinator.stages.recovery import JobRecovery
    from penstock._engine.coordinator.stages.results import StageResults, VertexBounds
    from penstock._engine.coordinator.stages.stage_checkpoints import StageCheckpoints
    from penstock._engine.protocol.metadata import StoredAccumulator


class JobReconciliation:
    """Claims the events of earlier drivers → lists stored results → replays → merges accumulators.

    Each step tells whether the job is reconciled, so that its enumerators may start.

    Args:
        parts: The parts of the job.
        recovery: What is recorded of it.
        results: Gets the acks of subtasks that have finished in earlier runs.
        bounds: Gets what subtasks read, where that was decided.
        checkpoints: The job's checkpoints.
    """

    def __init__(
        self,
        parts: SchedulerParts,
        recovery: JobRecovery,
        results: StageResults,
        bounds: VertexBounds,
        checkpoints: StageCheckpoints,
    ) -> None:
        self._context = parts.context
        self._state = parts.state
        self._life = parts.life
        self._recovery = recovery
        self._results = results
        self._bounds = bounds
        self._checkpoints = checkpoints

    def begin(self) -> bool:
        """Find out what is left to do."""
        self._context.go(Phase.RECONCILING)
        if self._recovery.is_claimed:
            return self._resume()
        self._context.call(self._recovery.claim(self._state.chain))
        return False

    def claimed(self, event: ev.JobEventsClaimed) -> bool:
        """Look for the results that the events of earlier drivers name."""
        self._context.emit(*self._recovery.claimed(event, self._context.now.passed_ms))
        if not self._recovery.has_events:
            return self._resume()
        self.look()
        return False

    def look(self) -> None:
        """Look for the results, unless the job was cancelled meanwhile."""
        if self._context.phase is Phase.RECONCILING:
            self._context.call(do.ListPartitions(self._state.chain.job_id))

    def listed(self, event: ev.PartitionsListed) -> bool:
        """Take up the job once what it needs is there, or the wait for it is over."""
        if self._recovery.partitions_listed(event, self._context.now.passed_ms):
            return self._resume()
        self._context.emit(do.SetAlarm(LOOK_EVERY_MS, PartitionsLookDue()))
        return False

    def _resume(self) -> bool:
        """Replay the events, and continue from the state that they lead to."""
        state, recovery = self._state, self._recovery
        try:
            self._context.emit(*recovery.replay())
            state.snapshot = recovery.state(self._checkpoints.last)
            state.reset()
        except PenstockError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the events, the job can do without them
            self._start_fresh(error)
            return False
        self._bounds.of_vertex.update({vertex: event.bounds for vertex, event in recovery.job.initialized.items()})
        for done in recovery.finished_after(self._checkpoints.last):
            self._context.emit(*self._results.add(done.acks, state.chain.job_id, done.run_id))
        state.committed.begin(state.ledger.outstanding, self._checkpoints.last)
        self._checkpoints.passed_on = state.committed.ended(state.snapshot)
        if added := contributions(self._results.acks):
            self._context.call(do.MergeAccumulators({}, added))
            return False
        self.resumed({})
        return True

    def _start_fresh(self, error: Exception) -> None:
        cause = InternalError(f"The recovery of the job failed, and it starts fresh: {error_line(error)}")
        self._context.emit(self._recovery.clear(str(cause)))
        self._context.report_failure(cause, self._state.chain.next_id, counted=False)
        self._context.emit(do.LogMessage("The job starts fresh", cause))
        self._life.restart()

    def resumed(self, accumulators: Mapping[str, dict[str, StoredAccumulator]]) -> None:
        """Count what has been taken up, with its accumulators."""
        state, acks, snapshot = self._state, tuple(self._results.acks), self._state.snapshot
        if not acks:
            return
        operators = {
            uid: replace(operator, accumulators=accumulators.get(uid, operator.accumulators))
            for uid, operator in snapshot.operators.items()
        }
        state.progress = replace(state.progress, records=0)  # after a restart they were counted before
        state.completed(PendingCheckpoint(acks, 0), replace(snapshot, operators=operators), state.chain.next_id)
        shown = (*acks, *self._recovery.idle(self._checkpoints.last))
        self._context.emit(do.PublishProgress(state.progress, shown, state.snapshot, self._recovery.view, begins=True))

"""Runs a batch job stage after stage, and makes one checkpoint at its end.

Operators behind a sink's committer run once it has committed, with one more checkpoint at their end.

Recover → open → settle → run a stage → accept → settle, until all subtasks have finished; then the chain entry, which
is the commit point of all sinks. A stage is the vertices of one level. Their tasks read the stored results of the
stages before, and store their own. Sources run several times while their enumerators assign splits.

Without recovery nothing before the chain entry is kept: a restart begins with the first stage. With it, a stage is one
vertex, finished subtasks are recorded (`recovery`), and a start reconciles the job with what is recorded and stored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.snapshots import unfinished
from penstock._engine.coordinator.epochs.acks import contributions, void_reason
from penstock._engine.coordinator.phases import Phase
from penstock._engine.coordinator.scheduler import MAX_ATTEMPTS, Scheduler
from penstock._engine.coordinator.stages.reconciliation import JobReconciliation
from penstock._engine.coordinator.stages.recovery import JobRecovery
from penstock._engine.coordinator.stages.results import StageResults, VertexBounds, idle_ack
from penstock._engine.coordinator.stages.stage_checkpoints import StageCheckpoints
from penstock._engine.plan.bounds import subtasks_of
from penstock._engine.plan.epoch_plan import EpochOutcome
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.job_events import NO_CHECKPOINT
from penstock.errors import InternalError, UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._engine.coordinator.alarms import PartitionsLookDue
    from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
    from penstock._engine.coordinator.epochs.job_state import PendingCheckpoint
    from penstock._engine.coordinator.scheduler import SchedulerParts
    from penstock._engine.graph.job_graph import JobVertex
    from penstock._engine.plan.bounds import Bounds
    from penstock._engine.protocol.metadata import ChainEntry, JobSnapshot

#: A source reads all splits that it has.
_WITHOUT_LIMIT_MS: Final = 1 << 40


class StageScheduler(Scheduler[StageCheckpoints]):
    """Runs the stages of one job.

    Args:
        parts: The parts of the job. Between two stages its state is ahead of the last checkpoint.
    """

    def __init__(self, parts: SchedulerParts) -> None:
        state = parts.state
        graph, recovery = state.plan.graph, state.settings.recovery
        self._results = StageResults(graph, keeps=recovery is not None)
        super().__init__(parts, StageCheckpoints(parts, self._results))
        #: By vertex whose input is known: what its subtasks read.
        self._bounds = VertexBounds(graph, state.settings.auto_parallelism)
        #: None for a job that starts fresh after a failure.
        self._recovery = None if recovery is None else JobRecovery(state.plan, recovery)
        self._reconciliation = (
            None
            if self._recovery is None
            else JobReconciliation(parts, self._recovery, self._results, self._bounds, self._checkpoints)
        )
        self._losses = 0
        #: By subtask of the running stage: whether it runs. A subtask that does not run finishes with the stage.
        self._stage: dict[Subtask, bool] = {}
        #: The accepted run of a stage whose accumulators are being merged.
        self._accepted: PendingCheckpoint | None = None
        #: The number of stages that have run, which is the id of the running one.
        self._runs = 0

    @property
    def has_pending_checkpoint(self) -> bool:
        """Whether the job is between its last stage and its commit point, or a stage is being accepted."""
        return super().has_pending_checkpoint or self._accepted is not None

    def reset(self) -> None:
        """Forget what was under way."""
        super().reset()
        self._accepted = None

    # --------------------------------------------------------------------------------------------------- the beginning

    def recover(self) -> None:
        """Begin with the first stage; if the job's chain entry is stored already, finish its commits and output."""
        self._context.go(Phase.RECOVERING)
        checkpoint = self._checkpoints.return_to_last()
        self._state.reset()
        chain = self._state.chain
        self._context.emit(*self._results.begin(chain.job_id, chain.runs[-1]))
        self._bounds.of_vertex.clear()
        self._redo()
        if _has_begun(checkpoint):
            reason = (
                "batch jobs start from the beginning; run the job with execution.runtime-mode = STREAMING, or start it "
                "fresh"
            )
            self._life.fail(UnsupportedOperationError("A batch job that continues from a checkpoint", reason))
        elif not self._state.ledger:
            self._open()

    def _open(self) -> None:
        """Start the enumerators; with recovery, first find out what is left to do."""
        if self._reconciliation is None or self._state.snapshot.finished or self._reconciliation.begin():
            super()._open()

    def events_claimed(self, event: ev.JobEventsClaimed) -> None:
        """Look for the results that the events of earlier drivers name."""
        assert self._reconciliation is not None
        if self._reconciliation.claimed(event):
            super()._open()

    def partitions_look_due(self, _: PartitionsLookDue) -> None:
        """Look again for the results that the events of earlier drivers name."""
        assert self._reconciliation is not None
        self._reconciliation.look()

    def partitions_listed(self, event: ev.PartitionsListed) -> None:
        """Take up the job once what it needs is there, or the wait for it is over."""
        assert self._reconciliation is not None
        if self._reconciliation.listed(event):
            super()._open()

    # --------------------------------------------------------------------------------------------------- between stages

    def assigned(self, assigned: ev.Assigned) -> None:
        """Note what enumerators assigned."""
        if self._recovery is not None:
            self._recovery.enumerators.assigned(assigned)
        super().assigned(assigned)

    def enumerators_called(self, event: ev.EnumeratorsCalled) -> None:
        """Continue once the enumerators have started or have handled their readers' events."""
        self.assigned(event.assigned)
        if self._context.phase is Phase.OPENING:
            self._settle(0)
        else:
            self._next()

    def _next(self) -> None:
        """Run the next stage, now or when its sources have splits; after the last stage, make the checkpoint."""
        if vertices := self._vertices():
            if self._recovery is not None and self._recovery.enumerators.are_wanted(
                min(vertices), self._context.now.passed_ms
            ):
                self._context.call(do.SnapshotEnumerators(NO_CHECKPOINT))
            else:
                self._run_after(self._state.wait_for_splits_ms())
        elif self._state.snapshot is self._checkpoints.last:
            self._finish()
        else:
            self._checkpoints.put_entry()

    def enumerators_snapshotted(self, event: ev.EnumeratorsSnapshotted) -> None:
        """Run the next stage, with the state of its enumerators at hand."""
        assert self._recovery is not None
        self.assigned(event.assigned)
        self._recovery.enumerators.take(event.snapshots, self._state.sources.by_uid, self._context.now.passed_ms)
        self._run_after(self._state.wait_for_splits_ms())

    # --------------------------------------------------------------------------------------------------------- a stage

    def _vertices(self) -> set[int]:
        """Return the vertices of the next stage; none before a checkpoint."""
        state, plan = self._state, self._state.plan
        waiting = state.committed.waiting(
            state.ledger.outstanding, self._checkpoints.last
        )  # what it has is to be committed
        levels, left = plan.level_of, {vertex for vertex, _ in unfinished(state.snapshot)} - plan.graph.behind(waiting)
        if not left:
            return set()
        level = min(map(levels.__getitem__, left))
        vertices = {vertex for vertex in left if levels[vertex] == level}
        return vertices if self._recovery is None else {min(vertices)}

    def _run(self) -> None:
        context, state = self._context, self._state
        context.go(Phase.EPOCH)
        vertices = self._vertices()
        time_ms = _WITHOUT_LIMIT_MS if any(not state.plan.level_of[vertex] for vertex in vertices) else 0
        dispatches = state.dispatches(0, context.now.passed_ms, for_savepoint=False, only=vertices)
        stage = {
            place: replace(part, max_records=0, max_bytes=0, max_time_ms=time_ms)
            for place, part in dispatches.items()
            if place[0] in vertices and not part.is_notification
        }
        bounds = {vertex: self._decided(state.plan.graph.vertices[vertex]) for vertex in vertices}
        self._stage = {place: place[1] < subtasks_of(bounds[place[0]]) for place in stage}
        self._runs += 1
        results = self._results.read_by(vertices)
        running = {place: part for place, part in stage.items() if self._stage[place]}
        if self._recovery is not None:
            self._recovery.enumerators.dispatched(running)
            running = {place: part for place, part in running.items() if not self._recovery.is_registered(place)}
            if not running:
                self._accept(ev.EpochEnded(EpochOutcome((), ()), wall_ms=0, slots=1))
                return
        context.epoch_running = True
        number, restarts = self._runs, context.job_attempt
        context.emit(
            do.RunEpoch(
                state.chain.next_id,
                number,
                restarts,
                0,
                StopMode.NO,
                running,
                {},
                results=results,
                bounds=self._bounds.fewer(vertices),
            )
        )

    def _decided(self, vertex: JobVertex) -> Bounds:
        """Return what the subtasks of a vertex read, which is decided once: when its inputs are known."""
        known = self._bounds.of_vertex.get(vertex.id)
        if known is not None:
            return known
        sizes = self._results.bytes_read_by(vertex.id)
        bounds = self._bounds.decide(vertex, sizes)
        if self._recovery is not None:
            self._context.emit(self._recovery.initialized(vertex.id, bounds, sizes.by_sender))
        return bounds

    def subtasks_finished(self, event: ev.SubtasksFinished) -> None:
        """Record subtasks that have finished while others of their stage run on."""
        is_current = event.job_attempt == self._context.job_attempt and self._context.phase is Phase.EPOCH
        if is_current and self._recovery is not None:
            # They may have finished an interval ago, so they are stored without another one.
            self._context.emit(*self._recovery.register(event.acks, self._stage), do.RecordJobEvents((), cut=True))

    def stage_ended(self, event: ev.EpochEnded) -> None:
        """Handle the end of a stage: it is accepted, runs again, or fails the job."""
        self._context.epoch_running = False
        if self._recovery is not None:
            self._context.emit(*self._recovery.register(event.outcome.acks, self._stage))
        if event.outcome.failures:
            self._life.fail(event.outcome.failures[0])
        else:
            self._accept(event)

    def _accept(self, event: ev.EpochEnded) -> None:
        """Accept a stage, or let it run again."""
        answers = event.outcome.acks
        checkpoint_id = self._state.chain.next_id
        acks = answers if self._recovery is None else self._recovery.counting(answers)
        vertices = {vertex for vertex, _ in self._stage}
        edges = [edge for edge in self._state.plan.graph.edges if edge.target in vertices]
        running = [place for place, runs in self._stage.items() if runs]
        reason = void_reason(checkpoint_id, acks, running, edges, self._results.acks)
        if reason:
            if self._recovery is not None:
                self._context.emit(*self._recovery.void())
            self._run_again("A stage", InternalError(f"A stage does not count: {reason}."))
            return
        self._attempt = 1
        self._context.go(Phase.SNAPSHOTTING)
        if self._recovery is not None:
            self._context.emit(self._recovery.accepted(acks))
        idle = (idle_ack(place, checkpoint_id) for place, runs in self._stage.items() if not runs)
        accepted = self._state.accept((*acks, *idle), event.wall_ms, event.slots, StopMode.NO)
        self._checkpoints.passed_on |= accepted.passed_on
        self._accepted = replace(accepted, passed_on={})  # only a chain entry makes it count
        if added := contributions(acks):
            self._context.call(do.MergeAccumulators(self._state.snapshot.all_accumulators, added))
        else:
            self._advance(self._accepted)

    def accumulators_merged(self, event: ev.AccumulatorsMerged) -> None:
        """Continue with the merged accumulators."""
        if self._context.phase is Phase.RECONCILING:
            assert self._reconciliation is not None
            self._reconciliation.resumed(event.accumulators)
            super()._open()
            return
        assert self._accepted is not None
        self._advance(replace(self._accepted, accumulators=event.accumulators))

    def _advance(self, accepted: PendingCheckpoint) -> None:
        """Take up the state after a stage."""
        self._accepted = None
        snapshot = self._state.advanced(accepted, {})
        chain = self._state.chain
        self._state.completed(accepted, snapshot, chain.next_id)
        self._context.emit(*self._results.add(accepted.acks, chain.job_id, chain.runs[-1]))
        view = None if self._recovery is None else self._recovery.view
        self._context.emit(do.PublishProgress(self._state.progress, accepted.acks, snapshot, view))
        self._settle(0)

    def stage_lost(self, event: ev.EpochLost) -> None:
        """Run a lost stage again."""
        self._context.epoch_running = False
        self._run_again("A stage", event.error)

    def results_lost(self, event: ev.ResultsLost) -> None:
        """Let the subtasks of lost results run again, which is no failure of the job unless it happens too often."""
        assert self._recovery is not None
        self._context.epoch_running = False
        self._context.emit(*self._recovery.register(event.outcome.acks, self._stage))
        self._recovery.lost(event.subtasks)
        self._losses += 1
        if self._losses > MAX_ATTEMPTS:
            self._life.fail(event.error)
            return
        self._context.report_failure(event.error, self._state.chain.next_id, counted=False)
        self._context.emit(do.LogMessage("A result is lost, and is made again", event.error))
        self._life.restart()

    # ----------------------------------------------------------------------------------------------- the one checkpoint

    def entry_stored(self, entry: ChainEntry) -> None:
        """Start all commits, and deliver all output."""
        self._checkpoints.completed(entry)
        if not self._context.is_stopping:
            self._finish()

    # --------------------------------------------------------------------------------------------------------- the end

    def _finish(self) -> None:
        self._context.go(Phase.FINISHING)
        self.check_finished()  # a stage of which all had been recorded runs on from here without an event

    def check_finished(self) -> None:
        """End the job, or run what is behind committers, once everything is committed and delivered."""
        if self._context.phase is not Phase.FINISHING or self._state.ledger or self._output.is_due:
            return
        if self._state.snapshot.finished:
            self._life.terminate()
        else:
            self._run()


def _has_begun(snapshot: JobSnapshot) -> bool:
    parts = (subtask for vertex in snapshot.vertices for subtask in vertex.subtasks)
    return any(subtask.has_run and not subtask.finished for subtask in parts)

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
from penstock._engine.coordinator.alarms import PartitionsLookDue
from penstock._engine.coordinator.checkpoints.snapshots import unfinished
from penstock._engine.coordinator.commits.commits import commits_of
from penstock._engine.coordinator.epochs.acks import contributions, outputs, void_reason
from penstock._engine.coordinator.epochs.job_state import PendingCheckpoint
from penstock._engine.coordinator.phases import Phase
from penstock._engine.coordinator.scheduler import MAX_ATTEMPTS, Scheduler
from penstock._engine.coordinator.stages.recovery import LOOK_EVERY_MS, JobRecovery
from penstock._engine.coordinator.stages.results import StageResults, VertexBounds, idle_ack
from penstock._engine.plan.bounds import subtasks_of
from penstock._engine.plan.epoch_plan import EpochOutcome
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.job_events import NO_CHECKPOINT
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.common.user_values import error_line
from penstock.errors import InternalError, PenstockError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
    from penstock._engine.coordinator.scheduler import SchedulerParts
    from penstock._engine.graph.job_graph import JobVertex
    from penstock._engine.plan.bounds import Bounds
    from penstock._engine.protocol.control import SubtaskAck
    from penstock._engine.protocol.metadata import ChainEntry, JobSnapshot, StoredAccumulator

#: A source reads all splits that it has.
_WITHOUT_LIMIT_MS: Final = 1 << 40


class StageScheduler(Scheduler):
    """Runs the stages of one job.

    Args:
        parts: The parts of the job. Between two stages its state is ahead of the last checkpoint.
    """

    def __init__(self, parts: SchedulerParts) -> None:
        super().__init__(parts)
        state = parts.state
        graph = state.plan.graph
        #: None for a job that begins anew after a failure.
        recovery = state.settings.recovery
        self._recovery = None if recovery is None else JobRecovery(state.plan, recovery)
        self._losses = 0
        self._results = StageResults(graph, keeps=self._recovery is not None)
        #: The state at the last checkpoint, to which a restart returns; None before the first start.
        self._checkpoint: JobSnapshot | None = None
        #: By vertex whose input is known: what its subtasks read.
        self._bounds = VertexBounds(graph, state.settings.auto_parallelism)
        #: By subtask of the running stage: whether it runs. A subtask that does not run finishes with the stage.
        self._stage: dict[Subtask, bool] = {}
        #: The accepted run of a stage whose accumulators are being merged.
        self._accepted: PendingCheckpoint | None = None
        #: The pending checkpoint of the job while its chain entry is being stored, and the one whose entry has no known
        #: outcome.
        self._pending: PendingCheckpoint | None = None
        self._lost_pending: PendingCheckpoint | None = None
        #: The number of stages that have run, which is the id of the running one.
        self._runs = 0
        #: How many acks the chain entries of this run have, and what was passed on behind committers since then.
        self._recorded = 0
        self._passed_on: dict[str, int] = {}

    @property
    def has_pending_checkpoint(self) -> bool:
        """Whether the job is between its last stage and its commit point, or a stage is being accepted."""
        return self._pending is not None or self._accepted is not None

    def reset(self) -> None:
        """Forget what was under way."""
        self._accepted = self._pending = None
        self._attempt = 1

    # --------------------------------------------------------------------------------------------------- the beginning

    def recover(self) -> None:
        """Begin with the first stage; if the job's chain entry is stored already, finish its commits and output."""
        self._context.go(Phase.RECOVERING)
        if self._checkpoint is None:
            self._checkpoint = self._state.snapshot
        self._state.snapshot = self._checkpoint
        self._state.reset()
        chain = self._state.chain
        self._context.emit(*self._results.begin(chain.job_id, chain.runs[-1]))
        self._recorded, self._passed_on = 0, {}
        self._bounds.of_vertex.clear()
        self._redo()
        if _has_begun(self._checkpoint):
            reason = "batch jobs start from the beginning; run the job with execution.runtime-mode = STREAMING, or anew"
            self._life.fail(UnsupportedOperationError("A batch job that continues from a checkpoint", reason))
        elif not self._state.ledger:
            self._open()

    def _open(self) -> None:
        """Start the enumerators; with recovery, first find out what is left to do."""
        if self._recovery is None or self._state.snapshot.finished:
            super()._open()
            return
        self._context.go(Phase.RECONCILING)
        if self._recovery.is_claimed:
            self._take_up(self._recovery)
        else:
            self._context.call(self._recovery.claim(self._state.chain))

    def events_claimed(self, event: ev.JobEventsClaimed) -> None:
        """Look for the results that the events of earlier drivers name."""
        assert self._recovery is not None
        self._context.emit(*self._recovery.claimed(event, self._context.now.passed_ms))
        if self._recovery.has_events:
            self._context.call(do.ListPartitions(self._state.chain.job_id))
        else:
            self._take_up(self._recovery)

    def partitions_look_due(self, _: PartitionsLookDue) -> None:
        """Look again for the results that the events of earlier drivers name."""
        if self._context.phase is Phase.RECONCILING:  # else the job was cancelled meanwhile
            self._context.call(do.ListPartitions(self._state.chain.job_id))

    def partitions_listed(self, event: ev.PartitionsListed) -> None:
        """Take up the job once what it needs is there, or the wait for it is over."""
        assert self._recovery is not None
        if self._recovery.partitions_listed(event, self._context.now.passed_ms):
            self._take_up(self._recovery)
        else:
            self._context.emit(do.SetAlarm(LOOK_EVERY_MS, PartitionsLookDue()))

    def _take_up(self, recovery: JobRecovery) -> None:
        """Replay the events, and continue from the state that they lead to."""
        try:
            self._context.emit(*recovery.replay())
            checkpoint = self._state.snapshot
            self._state.snapshot = recovery.state(checkpoint)
            self._state.reset()
        except PenstockError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the events, the job can do without them
            self._begin_anew(recovery, error)
            return
        self._bounds.of_vertex.update({vertex: event.bounds for vertex, event in recovery.job.initialized.items()})
        for done in recovery.finished_after(checkpoint):
            self._context.emit(*self._results.add(done.acks, self._state.chain.job_id, done.run_id))
        self._state.committed.begin(self._state.ledger.outstanding, checkpoint)
        self._passed_on = self._state.committed.ended(self._state.snapshot)
        if added := contributions(self._results.acks):
            self._context.call(do.MergeAccumulators({}, added))
        else:
            self._taken_up({})

    def _begin_anew(self, recovery: JobRecovery, error: Exception) -> None:
        cause = InternalError(f"The recovery of the job failed, and it begins anew: {error_line(error)}")
        self._context.emit(recovery.clear(str(cause)))
        self._context.report_failure(cause, self._state.chain.next_id, counted=False)
        self._context.emit(do.LogMessage("The job begins anew", cause))
        self._life.restart()

    def _taken_up(self, accumulators: Mapping[str, dict[str, StoredAccumulator]]) -> None:
        acks, snapshot = tuple(self._results.acks), self._state.snapshot
        if acks:
            operators = {
                uid: replace(operator, accumulators=accumulators.get(uid, operator.accumulators))
                for uid, operator in snapshot.operators.items()
            }
            self._state.progress = replace(self._state.progress, records=0)  # after a restart they were counted before
            self._state.completed(
                PendingCheckpoint(acks, 0), replace(snapshot, operators=operators), self._state.chain.next_id
            )
            assert self._recovery is not None
            assert self._checkpoint is not None
            self._publish((*acks, *self._recovery.idle(self._checkpoint)), begins=True)
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
        elif self._state.snapshot is self._checkpoint:
            self._finish()
        else:
            self._put_entry()

    def enumerators_snapshotted(self, event: ev.EnumeratorsSnapshotted) -> None:
        """Run the next stage, with the state of its enumerators at hand."""
        assert self._recovery is not None
        self.assigned(event.assigned)
        self._recovery.enumerators.take(event.snapshots, self._state.sources, self._context.now.passed_ms)
        self._run_after(self._state.wait_for_splits_ms())

    # --------------------------------------------------------------------------------------------------------- a stage

    def _vertices(self) -> set[int]:
        """Return the vertices of the next stage; none before a checkpoint."""
        state, plan = self._state, self._state.plan
        assert self._checkpoint is not None
        waiting = state.committed.waiting(state.ledger.outstanding, self._checkpoint)  # what it has is to be committed
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
        self._passed_on |= accepted.passed_on
        self._accepted = replace(accepted, passed_on={})  # only a chain entry makes it count
        if added := contributions(acks):
            self._context.call(do.MergeAccumulators(self._state.snapshot.all_accumulators, added))
        else:
            self._advance(self._accepted)

    def accumulators_merged(self, event: ev.AccumulatorsMerged) -> None:
        """Continue with the merged accumulators."""
        if self._context.phase is Phase.RECONCILING:
            self._taken_up(event.accumulators)
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
        self._publish(accepted.acks)
        self._settle(0)

    def _publish(self, acks: tuple[SubtaskAck, ...], *, begins: bool = False) -> None:
        view = None if self._recovery is None else self._recovery.view
        self._context.emit(do.PublishProgress(self._state.progress, acks, self._state.snapshot, view, begins))

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

    def events_fenced(self, event: ev.JobEventsFenced) -> None:
        """End this driver: the job is another one's."""
        self._life.fail(event.error)

    # ----------------------------------------------------------------------------------------------- the one checkpoint

    def _put_entry(self) -> None:
        """Put the chain entry of the whole job, or of all that runs before a committer: the commit point."""
        context, acks = self._context, tuple(self._results.acks[self._recorded :])
        context.go(Phase.RECORDING)
        commits = commits_of(self._state.chain.next_id, acks, self._state.sink_uids)
        self._pending = PendingCheckpoint(
            acks, 0, snapshot=self._state.snapshot, commits=commits, passed_on=self._passed_on
        )
        document = self._state.document(self._pending)
        chain = self._state.chain
        context.emit(chain.put(chain.make(ChainEntryKind.CHECKPOINT, context.now.now_ms, document)))

    def entry_stored(self, entry: ChainEntry) -> None:
        """Start all commits, and deliver all output."""
        pending, self._pending = self._pending, None
        assert pending is not None
        self._complete(entry, pending)
        if not self._context.is_stopping:
            self._finish()

    def _complete(self, entry: ChainEntry, pending: PendingCheckpoint) -> None:
        assert entry.snapshot is not None
        self._checkpoint = self._state.snapshot = entry.snapshot
        self._state.ledger.add(pending.commits)
        self._state.committed.passed_on(pending.passed_on)
        self._recorded, self._passed_on = len(self._results.acks), {}
        retention = self._state.retention
        retention.keep(entry)
        self._start_commits()
        found = outputs(pending.acks, self._state.plan.graph.collectors)
        self._context.emit(*self._output.begin(entry.checkpoint_id, found, retention))

    def entry_lost(self) -> None:
        """Abandon the chain entry, which may turn out to be stored."""
        self._lost_pending, self._pending = self._pending, None

    def entry_found(self, entry: ChainEntry) -> None:
        """Complete the job if this entry, which was found on the chain, is its own."""
        lost, pending = self._state.chain.lost, self._lost_pending
        self._pending = None
        if lost is not None and pending is not None and lost.same_write(entry):
            self._complete(lost, pending)

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

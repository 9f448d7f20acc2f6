"""Runs a batch job stage after stage, and makes one checkpoint at its end.

Recover → open → settle → run a stage → accept → settle, until all subtasks have finished; then the chain entry, which
is the commit point of all sinks. A stage is the vertices of one level. Their tasks read the stored results of the
stages before, and store their own. Sources run several times while their enumerators assign splits. Nothing before the
chain entry is kept: a restart begins with the first stage.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.snapshots import unfinished
from penstock._engine.coordinator.commits.commits import commits_of
from penstock._engine.coordinator.epochs.acceptance import void_reason
from penstock._engine.coordinator.epochs.job_state import PendingCheckpoint
from penstock._engine.coordinator.epochs.source_scheduler import SourceScheduler
from penstock._engine.coordinator.phases import Phase
from penstock._engine.coordinator.stages.results import StageResults
from penstock._engine.protocol.control import StopMode, SubtaskAck
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.rows import MAX_WATERMARK
from penstock.errors import InternalError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.commits.commits import CommitScheduler
    from penstock._engine.coordinator.commits.output_delivery import OutputDelivery
    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.acceptance import Subtask
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.scheduler import JobLife
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.metadata import ChainEntry, JobSnapshot

#: A source reads all splits that it has.
_WITHOUT_LIMIT_MS: Final = 1 << 40


class StageScheduler(SourceScheduler):
    """Runs the stages of one job.

    Args:
        context: The coordinator's context.
        state: The job's state. Between two stages it is ahead of the last checkpoint.
        life: The life of the job.
        settings: Say how many subtasks a vertex runs.
        commits: The commits.
        output: Delivers printed and collected records to the program.
        unused: The parts for requested checkpoints and savepoints, which batch jobs do not make.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        state: JobState,
        life: JobLife,
        *,
        settings: JobSettings,
        commits: CommitScheduler,
        output: OutputDelivery,
        **unused: object,
    ) -> None:
        del unused
        super().__init__(context, state, life, commits, output)
        self._auto_parallelism = settings.auto_parallelism
        self._results = StageResults(context, state.topology.graph)
        #: The state at the last checkpoint, to which a restart returns; None before the first start.
        self._checkpoint: JobSnapshot | None = None
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
        self._results.begin()
        self._output.again()
        self._commits.start()
        if not self._checkpoint.finished and _has_begun(self._checkpoint):
            reason = "batch jobs start from the beginning; run the job with execution.runtime-mode = STREAMING, or anew"
            self._life.fail(UnsupportedOperationError("A batch job that continues from a checkpoint", reason))
        elif not self._state.ledger:
            self._open()

    # --------------------------------------------------------------------------------------------------- between stages

    def enumerators_called(self, event: ev.EnumeratorsCalled) -> None:
        """Continue once the enumerators have started or have handled their readers' events."""
        self.assigned(event.assigned)
        if self._context.phase is Phase.OPENING:
            self._settle(0)
        else:
            self._next()

    def _next(self) -> None:
        """Run the next stage, now or when its sources have splits; after the last stage, make the checkpoint."""
        if not self._state.snapshot.finished:
            self._run_after(self._state.wait_for_splits_ms())
        elif self._state.snapshot is self._checkpoint:
            self._finish()
        else:
            self._put_entry()

    # --------------------------------------------------------------------------------------------------------- a stage

    def _run(self) -> None:
        context, state = self._context, self._state
        context.go(Phase.EPOCH)
        levels = state.topology.levels
        level = min(levels[vertex] for vertex, _ in unfinished(state.snapshot))
        stage = {
            place: replace(part, max_records=0, max_bytes=0, max_time_ms=_WITHOUT_LIMIT_MS if level == 0 else 0)
            for place, part in state.dispatches(0, context.now.passed_ms, for_savepoint=False).items()
            if levels[place[0]] == level and not part.is_notification
        }
        parallelism = self._parallelism({vertex for vertex, _ in stage})
        self._stage = {place: place[1] < parallelism.get(place[0], place[1] + 1) for place in stage}
        self._runs += 1
        context.epoch_running = True
        results = self._results.read_by({vertex for vertex, _ in stage})
        running = {place: part for place, part in stage.items() if self._stage[place]}
        number, restarts = self._runs, context.job_attempt
        context.emit(
            do.RunEpoch(
                context.chain.next_id,
                number,
                restarts,
                0,
                StopMode.NO,
                running,
                {},
                results=results,
                parallelism=parallelism,
            )
        )

    def _parallelism(self, vertices: Iterable[int]) -> dict[int, int]:
        """Return the number of subtasks of each vertex that runs fewer of them than the job graph says."""
        if not self._auto_parallelism.enabled:
            return {}
        found: dict[int, int] = {}
        for vertex in map(self._state.topology.graph.vertices.__getitem__, vertices):
            if not (vertex.is_source or vertex.parallelism_is_set):
                runs = self._auto_parallelism.decide(self._results.bytes_read_by(vertex.id), vertex.parallelism)
                if runs < vertex.parallelism:
                    found[vertex.id] = runs
        return found

    def stage_ended(self, event: ev.EpochEnded) -> None:
        """Handle the end of a stage: it is accepted, runs again, or fails the job."""
        self._context.epoch_running = False
        outcome, checkpoint_id = event.outcome, self._context.chain.next_id
        if outcome.failures:
            self._life.fail(outcome.failures[0])
            return
        vertices = {vertex for vertex, _ in self._stage}
        edges = [edge for edge in self._state.topology.graph.edges if edge.target in vertices]
        running = [place for place, runs in self._stage.items() if runs]
        reason = void_reason(checkpoint_id, outcome.acks, running, edges, self._results.acks)
        if reason:
            self._run_again("A stage", InternalError(f"A stage does not count: {reason}."))
            return
        self._attempt = 1
        self._context.go(Phase.SNAPSHOTTING)
        idle = (_idle_ack(place, checkpoint_id) for place, runs in self._stage.items() if not runs)
        self._accepted = self._state.accept((*outcome.acks, *idle), event.wall_ms, StopMode.NO)
        if added := self._state.contributions(outcome.acks):
            self._context.call(do.MergeAccumulators(self._state.snapshot.all_accumulators, added))
        else:
            self._advance(self._accepted)

    def accumulators_merged(self, event: ev.AccumulatorsMerged) -> None:
        """Continue with the merged accumulators."""
        assert self._accepted is not None
        self._advance(replace(self._accepted, accumulators=event.accumulators))

    def _advance(self, accepted: PendingCheckpoint) -> None:
        """Take up the state after a stage."""
        self._accepted = None
        snapshot = self._state.advanced(accepted, {})
        self._state.completed(accepted, snapshot, self._context.chain.next_id)
        self._results.add(accepted.acks)
        self._context.emit(do.PublishProgress(self._state.progress, accepted.acks, snapshot))
        self._settle(0)

    def stage_lost(self, event: ev.EpochLost) -> None:
        """Run a lost stage again."""
        self._context.epoch_running = False
        self._run_again("A stage", event.error)

    # ----------------------------------------------------------------------------------------------- the one checkpoint

    def _put_entry(self) -> None:
        """Put the chain entry of the whole job: the commit point."""
        context, acks = self._context, tuple(self._results.acks)
        context.go(Phase.RECORDING)
        commits = commits_of(context.chain.next_id, acks)
        self._pending = PendingCheckpoint(acks, 0, snapshot=self._state.snapshot, commits=commits)
        document = self._state.document(self._pending)
        context.put(context.chain.make(ChainEntryKind.CHECKPOINT, context.now.now_ms, document))

    def entry_stored(self, entry: ChainEntry) -> None:
        """Start all commits, and deliver all output."""
        pending, self._pending = self._pending, None
        assert pending is not None
        self._complete(entry, pending)
        if self._context.is_stopping:
            self._life.check_stopped()
        else:
            self._finish()

    def _complete(self, entry: ChainEntry, pending: PendingCheckpoint) -> None:
        assert entry.snapshot is not None
        self._checkpoint = self._state.snapshot = entry.snapshot
        self._state.ledger.add(pending.commits)
        self._context.retention.keep(entry)
        self._commits.start()
        self._output.begin(entry.checkpoint_id, self._state.outputs(pending.acks))

    def entry_lost(self) -> None:
        """Abandon the chain entry, which may turn out to be stored."""
        self._lost_pending, self._pending = self._pending, None

    def entry_found(self, entry: ChainEntry) -> None:
        """Complete the job if this entry, which was found on the chain, is its own."""
        lost, pending = self._context.lost, self._lost_pending
        self._pending = None
        if lost is not None and pending is not None and lost.same_write(entry):
            self._complete(lost, pending)

    # --------------------------------------------------------------------------------------------------------- the end

    def _finish(self) -> None:
        self._context.go(Phase.FINISHING)
        self.check_finished()

    def check_finished(self) -> None:
        """End the job once everything is committed and delivered."""
        if self._context.phase is Phase.FINISHING and not (self._state.ledger or self._output.is_due):
            self._life.leave()

    # ----------------------------------------------------------------------- a stop with a savepoint, which is refused

    def exported(self) -> None:
        """Raise: a batch job has no savepoints."""
        raise InternalError("A batch job was stopped with a savepoint.")

    go_on = exported
    saved = exported


def _has_begun(snapshot: JobSnapshot) -> bool:
    return any(subtask.has_run for vertex in snapshot.vertices for subtask in vertex.subtasks)


def _idle_ack(place: Subtask, checkpoint_id: int) -> SubtaskAck:
    """Return the ack of a subtask that does not run, because fewer subtasks read the stage's input."""
    return SubtaskAck(
        vertex=place[0],
        subtask=place[1],
        checkpoint_id=checkpoint_id,
        token=0,
        rows_read={},
        rows_sent={},
        operators={},
        outputs={},
        finished=True,
        input_watermark=MAX_WATERMARK,
        watermark=MAX_WATERMARK,
        records_in=0,
        records_out=0,
        bytes_out=0,
        busy_ms=0,
        started_ms=0,
        ended_ms=0,
    )

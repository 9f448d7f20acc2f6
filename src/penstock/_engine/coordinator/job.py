"""The coordinator of one job: from start to end, one event at a time.

The driver hands in what happened and does what comes back. Nothing here waits, reads a clock or touches the world, so
any order of events can be tried in a test; `validate` says what must hold after each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.retention import CheckpointRetention
from penstock._engine.coordinator.checkpoints.splits import unread_splits
from penstock._engine.coordinator.commits.commit_cycle import CommitScheduler
from penstock._engine.coordinator.commits.handover import OutputDelivery
from penstock._engine.coordinator.context import CoordinatorContext
from penstock._engine.coordinator.epochs.job_state import JobState
from penstock._engine.coordinator.epochs.scheduler import Cause, EpochScheduler
from penstock._engine.coordinator.life.breaking_off import ExecutionFailureHandler
from penstock._engine.coordinator.life.checkpoint_requests import PendingCheckpointRequests
from penstock._engine.coordinator.life.ending import JobTermination
from penstock._engine.coordinator.life.invariants import check
from penstock._engine.coordinator.life.savepoints import PendingSavepoints
from penstock._engine.coordinator.life.start import StartMachine, StartPhase
from penstock._engine.coordinator.life.stop import StopWithSavepoint
from penstock._engine.coordinator.phases import STOPPING, Phase
from penstock._engine.coordinator.restore.origin import adopt_checkpoint
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.common.job_status import JobStatus
from penstock.errors import FencedError, InternalError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator.checkpoints.chain import ChainWriter, DriverIdentity
    from penstock._engine.coordinator.epochs.job_state import PendingCheckpoint
    from penstock._engine.coordinator.epochs.topology import Topology
    from penstock._engine.coordinator.restore.state_assignment import RestoredCheckpoint
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.protocol.metadata import ChainEntry, GivenUp, StoredAccumulator


class JobCoordinator:
    """Decides on one job.

    Args:
        topology: The job.
        settings: Its settings.
        identity: This driver.
        slots: Tasks that run at the same time.
    """

    def __init__(self, topology: Topology, settings: JobSettings, identity: DriverIdentity, slots: int) -> None:
        self._settings = settings
        self._identity = identity
        self._context = CoordinatorContext()
        self._start = StartMachine(settings, identity, topology.graph)
        self._state = JobState(topology, settings, slots)
        self._savepoints = PendingSavepoints(
            self._context, self._state, cancel=self._cancel, is_decided=lambda: self._stop.is_decided
        )
        self._requests = PendingCheckpointRequests(self._context)
        self._output = OutputDelivery(self._context)
        self._scheduler = EpochScheduler(
            self._context,
            self._state,
            settings,
            savepoints=self._savepoints,
            requests=self._requests,
            fail=self._fail,
            finish=self._finish,
            leave=self._leave,
        )
        self._commits = CommitScheduler(
            self._context, self._state, settings.committer_retries, fail=self._fail, moved=self._commits_moved
        )
        self._termination = JobTermination(
            self._context,
            self._start,
            savepoints=self._savepoints,
            requests=self._requests,
            retention=settings.retention,
            state=self._state,
        )
        self._stop = StopWithSavepoint(
            self._context, self._state, self._savepoints, self._scheduler, go_back=self._go_back
        )
        self._failure_handler = ExecutionFailureHandler(
            self._context,
            self._state,
            settings.restart,
            identity.run_id,
            scheduler=self._scheduler,
            commits=self._commits,
            stop=self._stop,
            requests=self._requests,
            ending=self._termination,
            recover=self._recover,
        )
        #: The epoch of an entry that got lost, which may be found to have arrived.
        self._lost_pending: PendingCheckpoint | None = None

    # ---------------------------------------------------------------------------------------------------- the outside

    def begin(self, now: Moment) -> list[do.Instruction]:
        """Return the first instructions."""
        self._context.now = now
        self._context.emit(do.ChangeStatus(self._context.status))
        self._context.calling = True
        self._context.emit(*self._start.begin())
        return self._context.taken()

    def handle(self, event: ev.Event, now: Moment) -> list[do.Instruction]:
        """Return what to do after an event.

        Args:
            event: What happened.
            now: When it did.
        """
        self._context.now = now
        if self._context.phase is Phase.ENDED:
            return []
        try:
            self._react(event)
        except PenstockError as error:
            self._fail(error)
        return self._context.taken()

    @property
    def phase(self) -> Phase:
        """What the coordinator is doing."""
        return self._context.phase

    @property
    def state(self) -> JobState:
        """The state that epochs work on."""
        return self._state

    @property
    def job_id(self) -> str:
        """The job's id; empty while it is being looked for."""
        return self._start.job_id

    @property
    def chain(self) -> ChainWriter:
        """The writer of the job's chain, once its next id is claimed."""
        return self._context.chain

    @property
    def accumulators(self) -> Mapping[str, Mapping[str, StoredAccumulator]]:
        """What the job has counted up to its last completed checkpoint, by operator uid and name."""
        ended = self._start.already_ended
        return self._state.snapshot.all_accumulators if ended is None else ended.all_accumulators

    @property
    def given_up(self) -> tuple[GivenUp, ...]:
        """What its sinks' committers have given up, oldest first."""
        ended = self._start.already_ended
        return self._state.given_up if ended is None else ended.given_up or ()

    @property
    def unread_splits(self) -> Mapping[str, int]:
        """How many splits readers have left that have finished, by the uid of the source."""
        return unread_splits(self._state.snapshot)

    @property
    def restored(self) -> RestoredCheckpoint | None:
        """What this driver started from, None without a checkpoint."""
        return self._start.restored

    @property
    def restored_checkpoint_id(self) -> int | None:
        """The checkpoint that this driver started from, None without one."""
        return self.restored and self.restored.entry.checkpoint_id

    def validate(self) -> None:
        """Check what must hold between two events; raises InternalError."""
        finished = self._context.status is JobStatus.FINISHED and self._start.already_ended is None
        check(
            self._context,
            has_pending=self._scheduler.pending is not None,
            uncommitted=bool(self._state.ledger),
            undelivered=self._output.is_due,
            finished=finished,
        )

    # ------------------------------------------------------------------------------------------------------- reactions

    def _react(self, event: ev.Event) -> None:
        match event:
            case ev.CancelRequested():
                self._cancel()
            case ev.CheckpointRequested(request_id):
                self._requests.request(request_id)
                self._scheduler.end_pause()
            case ev.SavepointRequested() | ev.SavepointWritten() | ev.SavepointFailed():
                self._about_savepoint(event)
            case ev.AlarmFired(alarm):
                self._context.ring(alarm)
            case ev.SplitsAssigned(assigned):
                self._scheduler.assigned(assigned)
            case ev.DriverFailed(error):
                self._fail(error)
            case ev.Committed() | ev.CommitFailed() | ev.OutputsDelivered():
                self._about_output(event)
            case ev.EpochObserved() | ev.EpochEnded() | ev.EpochLost() | ev.EpochFailed():
                self._about_epoch(event)
            case ev.ChainEntryStored() | ev.ChainEntryTaken() | ev.ChainEntryUncertain() if (
                self._context.entry is not None
            ):
                self._entry_answered(self._context.entry, event)
            case _:
                self._call_answered(event)

    def _about_epoch(self, event: ev.EpochObserved | ev.EpochEnded | ev.EpochLost | ev.EpochFailed) -> None:
        if isinstance(event, ev.EpochObserved):
            self._scheduler.observed(event)
            self._savepoints.observed(event.running)
            return
        self._context.epoch_running = False
        if self._context.phase in STOPPING:
            self._failure_handler.check()
        else:
            self._scheduler.over(event)

    def _about_output(self, event: ev.Committed | ev.CommitFailed | ev.OutputsDelivered) -> None:
        if isinstance(event, ev.OutputsDelivered):
            self._output.done()
            self._check_finished()
        else:
            self._commits.answered(event)

    def _about_savepoint(self, event: ev.SavepointRequested | ev.SavepointWritten | ev.SavepointFailed) -> None:
        match event:
            case ev.SavepointRequested(request):
                self._savepoints.request(request)
                if self._savepoints.waiting:
                    self._scheduler.end_pause()
            case _:
                self._stop.heard(event)
                self._failure_handler.check()
                self._check_finished()

    def _call_answered(self, event: ev.Event) -> None:
        self._context.calling = False
        match self._context.phase, event:
            case Phase.STARTING, _:
                self._context.calling = True
                self._context.emit(*self._start.handle(event, self._context.now.now_ms))
                if self._start.phase is StartPhase.DONE:
                    self._context.calling = False
                    self._started()
            case _, _ if self._context.phase in STOPPING:
                self._failure_handler.check()
            case _, ev.InstructionFailed(cause) | ev.MergeFailed(cause):
                self._fail(cause)
            case Phase.CREATED, ev.StateCopied():
                self._recover()
            case ((Phase.OPENING | Phase.SETTLING | Phase.NOTIFYING), ev.EnumeratorsCalled()):
                self._scheduler.heard(event)
            case Phase.SNAPSHOTTING, ev.AccumulatorsMerged():
                self._scheduler.merged(event)
            case Phase.SNAPSHOTTING, ev.EnumeratorsSnapshotted():
                self._scheduler.snapshotted(event)
            case Phase.STORING, ev.StateStored():
                self._scheduler.stored()
            case _:
                raise InternalError(f"A job in phase {self._context.phase.name} got {event}.")

    # --------------------------------------------------------------------------------------------- start and recovery

    def _started(self) -> None:
        """Go on after the claim."""
        ended = self._start.already_ended
        if ended is not None:
            text = f"Job {ended.job_name!r} has {ended.kind.value} already; there is nothing to run"
            self._context.emit(do.LogMessage(text, unexpected=True))
            self._termination.end(JobStatus.FINISHED)
            return
        chain = self._start.chain
        assert chain is not None
        self._context.chain = chain
        self._context.retention = CheckpointRetention(
            self._settings.retention.retained, self._context.now.passed_ms, chain.claimed
        )
        self._context.go(Phase.CREATED)
        restored = self._start.restored
        if restored is None:
            self._context.emit(*self._start.remarks)
            self._recover()
            return
        self._context.emit(do.LogMessage(f"Resuming from checkpoint {restored.entry.checkpoint_id} ({restored.path})"))
        self._context.emit(*self._start.remarks)
        self._context.emit(do.AdoptGraph(restored.assignment.graph))
        self._stop.checkpoint = restored.entry if restored.stopping else None
        origin = adopt_checkpoint(restored, chain, self._context.retention)
        self._state.restore(origin.snapshot, write_all=origin.write_all)
        if origin.copies:
            self._context.call(do.CopyState(restored.path, origin.copies))
        else:
            self._recover()

    def _recover(self) -> None:
        """Take up the last completed checkpoint: first its output and commits, then its sources."""
        self._context.go(Phase.RECOVERING)
        self._state.reset()
        self._output.again()
        self._commits.start()
        if self._stop.checkpoint is not None:
            self._stop.save()
        elif not self._state.ledger:
            self._open()

    def _open(self) -> None:
        self._context.go(Phase.OPENING)
        openings = {uid: source.opening for uid, source in self._state.sources.items()}
        self._context.call(
            do.StartEnumerators({uid: opening for uid, opening in openings.items() if opening is not None})
        )

    # ----------------------------------------------------------------------------------------------------- checkpoints

    def _commits_moved(self) -> None:
        """Go on with what waited for a commit."""
        self._savepoints.copy()
        match self._context.phase:
            case Phase.AWAITING_ROOM:
                self._scheduler.put_entry()
            case Phase.RECOVERING if not self._state.ledger:
                self._open()
            case Phase.FINISHING:
                self._check_finished()
            case _:
                self._failure_handler.check()

    def _entry_answered(
        self, entry: ChainEntry, event: ev.ChainEntryStored | ev.ChainEntryTaken | ev.ChainEntryUncertain
    ) -> None:
        match event:
            case ev.ChainEntryUncertain(error):
                self._entry_uncertain(entry, error)
            case ev.ChainEntryTaken(existing) if not entry.same_write(existing):
                self._context.entry = None
                self._other_entry(existing)
            case _:
                self._context.entry = None
                self._context.chain.stored(entry)
                match entry.kind:
                    case ChainEntryKind.CHECKPOINT:
                        self._stored(entry)
                    case ChainEntryKind.TAKEOVER:
                        self._stop.resumed()
                        self._failure_handler.check()
                    case _:
                        self._termination.closed()

    def _entry_uncertain(self, entry: ChainEntry, error: Exception) -> None:
        if self._context.put_again():
            return
        self._lost_pending = self._scheduler.pending
        self._scheduler.reset()
        match self._context.phase:
            case Phase.CLOSING:
                self._context.emit(
                    do.LogMessage(
                        "The end of the job could not be recorded; a start with 'latest' would resume it", error
                    )
                )
                self._termination.closed(is_stored=False)
            case _ if self._context.phase in STOPPING:
                self._failure_handler.check()
            case _:
                self._fail(error)

    def _other_entry(self, existing: ChainEntry) -> None:
        """React to another entry in the place of ours."""
        if existing.run_id != self._identity.run_id:
            error = FencedError(
                self._context.chain.job_id, existing.checkpoint_id, self._identity.run_id, existing.run_id
            )
            self._context.emit(do.CloseEnumerators())
            self._termination.end(JobStatus.SUSPENDED, error)
            return
        # A write of our own that was given up as uncertain had arrived: that one is the checkpoint.
        self._context.chain.stored(existing)
        entry, pending = self._context.lost, self._lost_pending
        self._scheduler.reset()
        if entry is not None and pending is not None and entry.same_write(existing):
            self._complete(entry, pending)
        match self._context.phase:
            case Phase.CLOSING:
                self._termination.put_entry()
            case _ if self._context.phase in STOPPING:
                self._failure_handler.check()
            case _:
                self._go_back()

    def _stored(self, entry: ChainEntry) -> None:
        """Go on after the commit point of an epoch."""
        pending = self._scheduler.pending
        assert pending is not None
        self._scheduler.pending = None
        self._complete(entry, pending)
        self._requests.completed(entry.checkpoint_id)
        if self._context.phase in STOPPING:
            self._failure_handler.check()
        elif self._stop.checkpoint is not None:
            self._stop.save()
        else:
            self._scheduler.settle(entry.checkpoint_id)

    def _complete(self, entry: ChainEntry, pending: PendingCheckpoint) -> None:
        """Do what follows from a checkpoint that is there: commit, hand over, tidy up."""
        assert entry.snapshot is not None
        self._state.completed(pending, entry.snapshot, entry.checkpoint_id)
        self._context.retention.keep(entry)
        self._stop.completed(entry)
        self._commits.start()
        self._savepoints.completed()
        self._output.begin(entry.checkpoint_id, self._state.outputs(pending.acks))
        self._context.emit(do.PublishProgress(self._state.progress, pending.acks, entry.snapshot))
        self._tidy()

    def _tidy(self) -> None:
        self._context.delete(self._context.retention.drop())
        if self._context.retention.sweep_due(self._context.now.passed_ms):
            self._context.sweep()

    # ------------------------------------------------------------------------------------------------------------- end

    def _finish(self) -> None:
        self._context.go(Phase.FINISHING)
        if self._stop.checkpoint is None:
            self._savepoints.finish()
        self._check_finished()

    def _check_finished(self) -> None:
        """Go on with the end once all that the job has made is where it belongs."""
        due = self._state.ledger or self._savepoints.copying or self._output.is_due
        if self._context.phase is Phase.FINISHING and not due:
            self._scheduler.release()

    def _leave(self) -> None:
        stop = self._stop
        if stop.checkpoint is None:
            self._termination.close(ChainEntryKind.FINISHED)
        elif stop.checkpoint.cancels:
            self._failure_handler.cancelled_into(stop.path)
        else:
            drained = self._state.snapshot.finished
            self._termination.close(
                ChainEntryKind.DRAINED if drained else ChainEntryKind.SUSPENDED, savepoint=stop.path
            )

    # ----------------------------------------------------------------------------------------------------- breaking off

    def _fail(self, cause: Cause) -> None:
        self._failure_handler.fail(cause)

    def _cancel(self) -> None:
        self._failure_handler.cancel()

    def _go_back(self) -> None:
        self._failure_handler.go_back()

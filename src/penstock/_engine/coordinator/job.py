"""The coordinator of one job: from start to end, one event at a time.

The driver hands in what happened and does what comes back. Nothing here waits, reads a clock or touches the world, so
any order of events can be tried in a test; `validate` says what must hold after each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.retention import Retention
from penstock._engine.coordinator.commits.commit_cycle import CommitCycle
from penstock._engine.coordinator.commits.handover import HandingOver
from penstock._engine.coordinator.context import Desk
from penstock._engine.coordinator.epochs.job_state import JobState
from penstock._engine.coordinator.epochs.scheduler import Cause, EpochCycle
from penstock._engine.coordinator.life.breaking_off import BreakingOff
from penstock._engine.coordinator.life.checkpoint_requests import CheckpointRequests
from penstock._engine.coordinator.life.ending import JobEnding
from penstock._engine.coordinator.life.invariants import check
from penstock._engine.coordinator.life.savepoints import Savepoints
from penstock._engine.coordinator.life.start import StartMachine, StartPhase
from penstock._engine.coordinator.life.stop import JobStop
from penstock._engine.coordinator.phases import STOPPING, Phase
from penstock._engine.coordinator.restore.origin import take_up
from penstock._engine.protocol.metadata import RecordKind
from penstock.common.job_status import JobStatus
from penstock.errors import FencedError, InternalError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator.checkpoints.chain import Chain, Identity
    from penstock._engine.coordinator.epochs.job_state import Cut
    from penstock._engine.coordinator.epochs.topology import Topology
    from penstock._engine.coordinator.restore.state_assignment import Restored
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.protocol.metadata import AccumulatorRecord, GivenUp, Record


class JobCoordinator:
    """Decides on one job.

    Args:
        topology: The job.
        settings: Its settings.
        identity: This driver.
        slots: Tasks that run at the same time.
    """

    def __init__(self, topology: Topology, settings: JobSettings, identity: Identity, slots: int) -> None:
        self._settings = settings
        self._identity = identity
        self._desk = Desk()
        self._start = StartMachine(settings, identity, topology.graph)
        self._state = JobState(topology, settings, slots)
        self._savepoints = Savepoints(
            self._desk, self._state, cancel=self._cancel, is_decided=lambda: self._stop.is_decided
        )
        self._requests = CheckpointRequests(self._desk)
        self._output = HandingOver(self._desk)
        self._cycle = EpochCycle(
            self._desk,
            self._state,
            settings,
            savepoints=self._savepoints,
            requests=self._requests,
            fail=self._fail,
            finish=self._finish,
            leave=self._leave,
        )
        self._commits = CommitCycle(
            self._desk, self._state, settings.committer_retries, fail=self._fail, moved=self._commits_moved
        )
        self._ending = JobEnding(
            self._desk,
            self._start,
            savepoints=self._savepoints,
            requests=self._requests,
            retention=settings.retention,
            state=self._state,
        )
        self._stop = JobStop(self._desk, self._state, self._savepoints, self._cycle, go_back=self._go_back)
        self._breaking_off = BreakingOff(
            self._desk,
            self._state,
            settings.restart,
            identity.run_id,
            cycle=self._cycle,
            commits=self._commits,
            stop=self._stop,
            requests=self._requests,
            ending=self._ending,
            recover=self._recover,
        )
        #: The epoch of a record that got lost, which may be found to have arrived.
        self._lost_cut: Cut | None = None

    # ---------------------------------------------------------------------------------------------------- the outside

    def begin(self, now: Moment) -> list[do.Instruction]:
        """Return the first instructions."""
        self._desk.now = now
        self._desk.emit(do.ChangeStatus(self._desk.status))
        self._desk.calling = True
        self._desk.emit(*self._start.begin())
        return self._desk.taken()

    def handle(self, event: ev.Event, now: Moment) -> list[do.Instruction]:
        """Return what to do after an event.

        Args:
            event: What happened.
            now: When it did.
        """
        self._desk.now = now
        if self._desk.phase is Phase.ENDED:
            return []
        try:
            self._react(event)
        except PenstockError as error:
            self._fail(error)
        return self._desk.taken()

    @property
    def phase(self) -> Phase:
        """What the coordinator is doing."""
        return self._desk.phase

    @property
    def state(self) -> JobState:
        """The state that epochs work on."""
        return self._state

    @property
    def job_id(self) -> str:
        """The job's id; empty while it is being looked for."""
        return self._start.job_id

    @property
    def chain(self) -> Chain:
        """The job's place on its chain of records, once it is claimed."""
        return self._desk.chain

    @property
    def counted(self) -> Mapping[str, Mapping[str, AccumulatorRecord]]:
        """What the job has counted up to its last completed checkpoint, by operator uid and name."""
        ended = self._start.already_ended
        return self._state.snapshot.counted if ended is None else ended.counted

    @property
    def given_up(self) -> tuple[GivenUp, ...]:
        """What its sinks' committers have given up, oldest first."""
        ended = self._start.already_ended
        return self._state.given_up if ended is None else ended.given_up or ()

    @property
    def restored(self) -> Restored | None:
        """What this driver started from, None without a checkpoint."""
        return self._start.restored

    @property
    def restored_checkpoint_id(self) -> int | None:
        """The checkpoint that this driver started from, None without one."""
        return self.restored and self.restored.record.checkpoint_id

    def validate(self) -> None:
        """Check what must hold between two events; raises InternalError."""
        finished = self._desk.status is JobStatus.FINISHED and self._start.already_ended is None
        check(
            self._desk,
            has_cut=self._cycle.cut is not None,
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
                self._cycle.end_pause()
            case ev.SavepointRequested() | ev.SavepointWritten() | ev.SavepointFailed():
                self._about_savepoint(event)
            case ev.Woken(alarm):
                self._desk.ring(alarm)
            case ev.SplitsAssigned(assigned):
                self._cycle.assigned(assigned)
            case ev.DriverFailed(error):
                self._fail(error)
            case ev.Committed() | ev.CommitFailed() | ev.HandedOver():
                self._about_output(event)
            case ev.EpochObserved() | ev.EpochEnded() | ev.EpochLost() | ev.EpochBroke():
                self._about_epoch(event)
            case ev.RecordStored() | ev.RecordTaken() | ev.RecordUncertain() if self._desk.record is not None:
                self._record_answered(self._desk.record, event)
            case _:
                self._call_answered(event)

    def _about_epoch(self, event: ev.EpochObserved | ev.EpochEnded | ev.EpochLost | ev.EpochBroke) -> None:
        if isinstance(event, ev.EpochObserved):
            self._cycle.observed(event)
            self._savepoints.observed(event.running)
            return
        self._desk.epoch_running = False
        if self._desk.phase in STOPPING:
            self._breaking_off.check()
        else:
            self._cycle.over(event)

    def _about_output(self, event: ev.Committed | ev.CommitFailed | ev.HandedOver) -> None:
        if isinstance(event, ev.HandedOver):
            self._output.done()
            self._check_finished()
        else:
            self._commits.answered(event)

    def _about_savepoint(self, event: ev.SavepointRequested | ev.SavepointWritten | ev.SavepointFailed) -> None:
        match event:
            case ev.SavepointRequested(request):
                self._savepoints.request(request)
                if self._savepoints.waiting:
                    self._cycle.end_pause()
            case _:
                self._stop.heard(event)
                self._breaking_off.check()
                self._check_finished()

    def _call_answered(self, event: ev.Event) -> None:
        self._desk.calling = False
        match self._desk.phase, event:
            case Phase.STARTING, _:
                self._desk.calling = True
                self._desk.emit(*self._start.handle(event, self._desk.now.now_ms))
                if self._start.phase is StartPhase.DONE:
                    self._desk.calling = False
                    self._started()
            case _, _ if self._desk.phase in STOPPING:
                self._breaking_off.check()
            case _, ev.StepFailed(cause) | ev.MergeFailed(cause):
                self._fail(cause)
            case Phase.CREATED, ev.StateCopied():
                self._recover()
            case ((Phase.OPENING | Phase.SETTLING | Phase.NOTIFYING), ev.EnumeratorsCalled()):
                self._cycle.heard(event)
            case Phase.CUTTING, ev.AccumulatorsMerged():
                self._cycle.merged(event)
            case Phase.CUTTING, ev.EnumeratorsSnapshotted():
                self._cycle.snapshotted(event)
            case Phase.STORING, ev.StateStored():
                self._cycle.stored()
            case _:
                raise InternalError(f"A job in phase {self._desk.phase.name} got {event}.")

    # --------------------------------------------------------------------------------------------- start and recovery

    def _started(self) -> None:
        """Go on after the claim."""
        ended = self._start.already_ended
        if ended is not None:
            text = f"Job {ended.job_name!r} has {ended.kind.value} already; there is nothing to run"
            self._desk.emit(do.Log(text, unexpected=True))
            self._ending.end(JobStatus.FINISHED)
            return
        chain = self._start.chain
        assert chain is not None
        self._desk.chain = chain
        self._desk.retention = Retention(self._settings.retention.retained, self._desk.now.passed_ms, chain.claimed)
        self._desk.go(Phase.CREATED)
        restored = self._start.restored
        if restored is None:
            self._desk.emit(*self._start.remarks)
            self._recover()
            return
        self._desk.emit(do.Log(f"Resuming from checkpoint {restored.record.checkpoint_id} ({restored.path})"))
        self._desk.emit(*self._start.remarks)
        self._desk.emit(do.AdoptGraph(restored.fitted.graph))
        self._stop.checkpoint = restored.record if restored.stopping else None
        origin = take_up(restored, chain, self._desk.retention)
        self._state.restore(origin.snapshot, write_all=origin.write_all)
        if origin.copies:
            self._desk.call(do.CopyState(restored.path, origin.copies))
        else:
            self._recover()

    def _recover(self) -> None:
        """Take up the last completed checkpoint: first its output and commits, then its sources."""
        self._desk.go(Phase.RECOVERING)
        self._state.reset()
        self._output.again()
        self._commits.start()
        if self._stop.checkpoint is not None:
            self._stop.save()
        elif not self._state.ledger:
            self._open()

    def _open(self) -> None:
        self._desk.go(Phase.OPENING)
        openings = {uid: source.opening for uid, source in self._state.sources.items()}
        self._desk.call(do.OpenEnumerators({uid: opening for uid, opening in openings.items() if opening is not None}))

    # ----------------------------------------------------------------------------------------------------- checkpoints

    def _commits_moved(self) -> None:
        """Go on with what waited for a commit."""
        self._savepoints.copy()
        match self._desk.phase:
            case Phase.AWAITING_ROOM:
                self._cycle.record()
            case Phase.RECOVERING if not self._state.ledger:
                self._open()
            case Phase.FINISHING:
                self._check_finished()
            case _:
                self._breaking_off.check()

    def _record_answered(self, record: Record, event: ev.RecordStored | ev.RecordTaken | ev.RecordUncertain) -> None:
        match event:
            case ev.RecordUncertain(error):
                self._record_uncertain(record, error)
            case ev.RecordTaken(existing) if not record.same_write(existing):
                self._desk.record = None
                self._other_record(existing)
            case _:
                self._desk.record = None
                self._desk.chain.stored(record)
                match record.kind:
                    case RecordKind.CHECKPOINT:
                        self._stored(record)
                    case RecordKind.TAKEOVER:
                        self._stop.resumed()
                        self._breaking_off.check()
                    case _:
                        self._ending.closed()

    def _record_uncertain(self, record: Record, error: Exception) -> None:
        if self._desk.put_again():
            return
        self._lost_cut = self._cycle.cut
        self._cycle.reset()
        match self._desk.phase:
            case Phase.CLOSING:
                self._desk.emit(
                    do.Log("The end of the job could not be recorded; a start with 'latest' would resume it", error)
                )
                self._ending.closed(recorded=False)
            case _ if self._desk.phase in STOPPING:
                self._breaking_off.check()
            case _:
                self._fail(error)

    def _other_record(self, existing: Record) -> None:
        """React to another record in the place of ours."""
        if existing.run_id != self._identity.run_id:
            error = FencedError(self._desk.chain.job_id, existing.checkpoint_id, self._identity.run_id, existing.run_id)
            self._desk.emit(do.CloseEnumerators())
            self._ending.end(JobStatus.SUSPENDED, error)
            return
        # A write of our own that was given up as uncertain had arrived: that one is the checkpoint.
        self._desk.chain.stored(existing)
        record, cut = self._desk.lost, self._lost_cut
        self._cycle.reset()
        if record is not None and cut is not None and record.same_write(existing):
            self._complete(record, cut)
        match self._desk.phase:
            case Phase.CLOSING:
                self._ending.put_record()
            case _ if self._desk.phase in STOPPING:
                self._breaking_off.check()
            case _:
                self._go_back()

    def _stored(self, record: Record) -> None:
        """Go on after the commit point of an epoch."""
        cut = self._cycle.cut
        assert cut is not None
        self._cycle.cut = None
        self._complete(record, cut)
        self._requests.completed(record.checkpoint_id)
        if self._desk.phase in STOPPING:
            self._breaking_off.check()
        elif self._stop.checkpoint is not None:
            self._stop.save()
        else:
            self._cycle.settle(record.checkpoint_id)

    def _complete(self, record: Record, cut: Cut) -> None:
        """Do what follows from a checkpoint that is there: commit, hand over, tidy up."""
        assert record.snapshot is not None
        self._state.completed(cut, record.snapshot, record.checkpoint_id)
        self._desk.retention.keep(record)
        self._stop.completed(record)
        self._commits.start()
        self._savepoints.completed()
        self._output.begin(record.checkpoint_id, self._state.outputs(cut.acks))
        self._desk.emit(do.Publish(self._state.progress, cut.acks, record.snapshot))
        self._tidy()

    def _tidy(self) -> None:
        self._desk.delete(self._desk.retention.drop())
        if self._desk.retention.sweep_due(self._desk.now.passed_ms):
            self._desk.sweep()

    # ------------------------------------------------------------------------------------------------------------- end

    def _finish(self) -> None:
        self._desk.go(Phase.FINISHING)
        if self._stop.checkpoint is None:
            self._savepoints.finish()
        self._check_finished()

    def _check_finished(self) -> None:
        """Go on with the end once all that the job has made is where it belongs."""
        due = self._state.ledger or self._savepoints.copying or self._output.is_due
        if self._desk.phase is Phase.FINISHING and not due:
            self._cycle.release()

    def _leave(self) -> None:
        stop = self._stop
        if stop.checkpoint is None:
            self._ending.close(RecordKind.FINISHED)
        elif stop.checkpoint.cancels:
            self._breaking_off.cancelled_into(stop.path)
        else:
            drained = self._state.snapshot.finished
            self._ending.close(RecordKind.DRAINED if drained else RecordKind.SUSPENDED, savepoint=stop.path)

    # ----------------------------------------------------------------------------------------------------- breaking off

    def _fail(self, cause: Cause) -> None:
        self._breaking_off.fail(cause)

    def _cancel(self) -> None:
        self._breaking_off.cancel()

    def _go_back(self) -> None:
        self._breaking_off.go_back()

"""The coordinator of one job: from start to end, one event at a time.

The driver hands in what happened and does what comes back. Nothing here waits, reads a clock or touches the world, so
any order of events can be tried in a test; `validate` says what must hold after each of them.

A job that breaks off, to restart or for good, waits for all that is on its way: then nothing of it can come late.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoint_requests import CheckpointRequests
from penstock._engine.coordinator.commit_cycle import CommitCycle
from penstock._engine.coordinator.cycle import Cause, EpochCycle
from penstock._engine.coordinator.desk import Desk
from penstock._engine.coordinator.ending import JobEnding, text_of
from penstock._engine.coordinator.handover import HandingOver
from penstock._engine.coordinator.invariants import check
from penstock._engine.coordinator.job_state import JobState
from penstock._engine.coordinator.origin import take_up
from penstock._engine.coordinator.phases import RUNNING, STOPPING, Phase
from penstock._engine.coordinator.restarts import restart_strategy
from penstock._engine.coordinator.retention import Retention
from penstock._engine.coordinator.savepoints import Savepoints
from penstock._engine.coordinator.start import DRAINED, StartMachine, StartPhase
from penstock._engine.protocol.control import Failure, Stop
from penstock._engine.protocol.lasting import is_lasting
from penstock._engine.protocol.metadata import RecordKind
from penstock.common.job_status import JobStatus
from penstock.errors import (
    FencedError,
    InternalError,
    PenstockError,
    SavepointError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator.chain import Chain, Identity
    from penstock._engine.coordinator.job_state import Cut
    from penstock._engine.coordinator.restore import Restored
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.coordinator.topology import Topology
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.protocol.metadata import AccumulatorRecord, Record

#: The phases of a stop whose savepoint is complete.
_SAVED: Final = frozenset({Phase.NOTIFYING, Phase.FINISHING, Phase.RELEASING})


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
            self._desk, self._state, cancel=self._cancel, is_decided=lambda: self._stop_is_decided
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
            counted=lambda: self._state.snapshot.counted,
        )
        self._restarts = restart_strategy(settings.restart)
        self._random = Random(identity.run_id)  # noqa: S311 - jitter of a delay
        #: Why the job is failing or restarting, and the time until the restart.
        self._error: Cause | None = None
        self._backoff_ms = 0
        #: The last completed checkpoint, when the job stops with it; from then on nothing else happens.
        self._stopping: Record | None = None
        #: The savepoint that a job which ends as cancelled has stopped into, once all of that is done.
        self._stopped_into: str | None = None
        #: Why the savepoint that the job was to stop into is not there.
        self._not_saved = SavepointError("", "")
        #: A record that was given up as uncertain, and its epoch: it may be found to have arrived.
        self._given_up: tuple[Record, Cut | None] | None = None

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
            self._check_stopped()
        else:
            self._cycle.over(event)

    def _about_output(self, event: ev.Committed | ev.CommitFailed | ev.HandedOver) -> None:
        if isinstance(event, ev.HandedOver):
            self._output.done()
            if self._desk.phase is Phase.FINISHING:
                self._check_finished()
        else:
            self._commits.answered(event)

    def _about_savepoint(self, event: ev.SavepointRequested | ev.SavepointWritten | ev.SavepointFailed) -> None:
        match event:
            case ev.SavepointRequested(request):
                self._savepoints.request(request)
                if self._savepoints.waiting:
                    self._cycle.end_pause()
            case ev.SavepointWritten(path):
                self._savepoint_written(path)
            case ev.SavepointFailed(path, error):
                self._savepoint_failed(path, error)

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
                self._check_stopped()
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
        self._stopping = restored.record if restored.stopping else None
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
        if self._stopping is not None:
            self._save()
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
                self._check_stopped()

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
                        self._resumed()
                    case _:
                        self._ending.closed()

    def _record_uncertain(self, record: Record, error: Exception) -> None:
        if self._desk.put_again():
            return
        self._given_up = record, self._cycle.cut
        self._cycle.reset()
        match self._desk.phase:
            case Phase.CLOSING:
                self._desk.emit(
                    do.Log("The end of the job could not be recorded; a start with 'latest' would resume it", error)
                )
                self._ending.closed(recorded=False)
            case _ if self._desk.phase in STOPPING:
                self._check_stopped()
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
        record, cut = self._given_up or (None, None)
        self._cycle.reset()
        if record is not None and cut is not None and record.same_write(existing):
            self._complete(record, cut)
        match self._desk.phase:
            case Phase.CLOSING:
                self._ending.put_record()
            case _ if self._desk.phase in STOPPING:
                self._check_stopped()
            case _:
                self._backoff_ms = 0
                self._desk.go(Phase.TEARDOWN)
                self._check_stopped()

    def _stored(self, record: Record) -> None:
        """Go on after the commit point of an epoch."""
        cut = self._cycle.cut
        assert cut is not None
        self._cycle.cut = None
        self._complete(record, cut)
        self._requests.completed(record.checkpoint_id)
        if self._desk.phase in STOPPING:
            self._check_stopped()
        elif self._stopping is not None:
            self._save()
        else:
            self._cycle.settle(record.checkpoint_id)

    def _complete(self, record: Record, cut: Cut) -> None:
        """Do what follows from a checkpoint that is there: commit, hand over, tidy up."""
        assert record.snapshot is not None
        self._state.completed(cut, record.snapshot, record.checkpoint_id)
        self._desk.retention.keep(record)
        self._stopping = record if record.savepoint is not None else None
        self._commits.start()
        self._savepoints.completed()
        self._output.begin(record.checkpoint_id, self._state.outputs(cut.acks))
        self._desk.emit(do.Publish(self._state.progress, cut.acks, record.snapshot))
        self._tidy()

    def _tidy(self) -> None:
        self._desk.delete(self._desk.retention.drop())
        if self._desk.retention.sweep_due(self._desk.now.passed_ms):
            self._desk.sweep()

    # ---------------------------------------------------------------------------------------------- stop with savepoint

    def _save(self) -> None:
        self._desk.go(Phase.SAVING)
        assert self._stop_path is not None
        self._savepoints.save(self._stop_path)

    @property
    def _stop_path(self) -> str | None:
        """The savepoint that the last completed checkpoint stops the job into."""
        return self._stopping and self._stopping.savepoint

    @property
    def _stop_is_saved(self) -> bool:
        """Whether the savepoint that the job stops into is complete."""
        return self._stopping is not None and self._desk.phase in _SAVED

    @property
    def _stop_is_decided(self) -> bool:
        """Whether the record that the job stops with is there, or may be: it is on its way, or got lost there."""
        if self._stopping is not None:
            return True
        record = self._desk.record or (self._given_up and self._given_up[0])
        if record is None or record.kind is not RecordKind.CHECKPOINT or record.savepoint is None:
            return False
        return record.checkpoint_id == self._desk.chain.next_id

    @property
    def _stop_is_open(self) -> bool:
        """Whether it is not known yet if there will be the savepoint that the job stops into."""
        return self._stop_is_decided and not self._stop_is_saved

    def _savepoint_written(self, path: str) -> None:
        stop = self._savepoints.stop
        self._desk.saving = self._desk.saving and path != self._stop_path
        match self._desk.phase:
            case Phase.EXPORTING if stop is not None and stop.path == path:
                self._cycle.record()
            case Phase.SAVING if path == self._stop_path:
                self._desk.chain.resumes = False
                self._cycle.stopped()
            case _ if self._desk.phase in STOPPING and path == self._stop_path:
                self._savepoints.give_up_stop(text_of(self._error or "the job was cancelled"), complete=True)
                self._check_stopped()
            case _:
                self._savepoints.written(path)
                self._end_with_savepoints()

    def _savepoint_failed(self, path: str, error: Exception) -> None:
        stop = self._savepoints.stop
        self._desk.saving = self._desk.saving and path != self._stop_path
        match self._desk.phase:
            case Phase.EXPORTING if stop is not None and stop.path == path:
                self._savepoints.give_up_stop(error)
                if stop.stop is not Stop.DRAIN:
                    self._cycle.go_on()
                else:  # timers have fired and functions have finished: that epoch must not have been
                    self._backoff_ms = 0
                    self._release()
                    self._desk.go(Phase.TEARDOWN)
                    self._check_stopped()
            case Phase.SAVING if path == self._stop_path:
                if not self._savepoints.save_again(path):
                    self._resume(path, error)
            case _ if self._desk.phase in STOPPING and path == self._stop_path:
                self._check_stopped()
            case _:
                self._savepoints.failed(path, error)
                self._end_with_savepoints()

    def _resume(self, path: str, error: Exception) -> None:
        """Put the record that the job goes on from the checkpoint with which it was to stop."""
        self._not_saved = SavepointError(path, text_of(error))
        self._desk.go(Phase.RESUMING)
        chain = self._desk.chain
        chain.resumes = True
        self._desk.put(chain.make(RecordKind.TAKEOVER, self._desk.now.now_ms))

    def _resumed(self) -> None:
        """Go on from the checkpoint with which the job was to stop: what its savepoint lacks is all there."""
        assert self._stopping is not None
        checkpoint, drained = self._desk.chain.parent, self._state.resume()
        path = "" if checkpoint is None else checkpoint.path
        text = f"The job does not stop and goes on from checkpoint {path}. {self._not_saved}"
        self._desk.emit(do.Log(text, unexpected=True))
        if drained:
            self._desk.emit(do.Log(DRAINED.format(path), unexpected=True))
        self._stopping = None
        if self._desk.phase not in STOPPING:  # else its end is the answer
            self._savepoints.give_up_stop(self._not_saved.reason)
            self._backoff_ms = 0
            self._desk.go(Phase.TEARDOWN)
        self._check_stopped()

    def _end_with_savepoints(self) -> None:
        """End a job that has waited for the copies of its last checkpoint."""
        if self._desk.phase is Phase.FINISHING:
            self._check_finished()

    # ----------------------------------------------------------------------------------------------------- breaking off

    def _fail(self, cause: Cause) -> None:
        """Break off because of an error: the restart strategy says what follows."""
        match self._desk.phase:
            case Phase.STARTING:
                self._ending.end(JobStatus.FAILED, cause)
            case Phase.CREATED:
                self._error = cause
                self._desk.go(Phase.FAILING)
            case _ if self._desk.phase in RUNNING:
                self._break_off(cause)
            case _:
                self._desk.emit(do.Log("Another error while the job was ending", cause))
        self._check_stopped()

    def _break_off(self, cause: Cause) -> None:
        self._error = cause
        self._desk.note_failure(cause, counted=True)
        self._desk.retention.orphans_possible(self._desk.now.passed_ms)
        delay_ms = self._restarts.on_failure(self._desk.now.passed_ms, self._random.random())
        self._savepoints.give_up(text_of(cause), complete=self._stop_is_saved, is_open=self._stop_is_open)
        self._requests.give_up(text_of(cause))
        self._release()
        if _is_lasting(cause):
            self._desk.go(Phase.FAILING)
            return
        if delay_ms is None:
            self._desk.emit(do.Log(f"No more restarts (restart strategy: {self._restarts.description})"))
            self._desk.go(Phase.FAILING)
            return
        self._backoff_ms = delay_ms
        self._desk.emit(do.Log(f"The job failed and restarts in {delay_ms} ms", cause))
        self._desk.go(Phase.TEARDOWN)

    def _release(self) -> None:
        """Interrupt the epoch at hand; one whose record is on its way may still complete."""
        if self._desk.epoch_running:
            self._desk.emit(do.CancelEpoch())
        if self._desk.record is None:
            self._cycle.reset()

    def _cancel(self) -> None:
        match self._desk.phase:
            case Phase.STARTING:
                self._ending.end(JobStatus.CANCELED)
            case Phase.CANCELLING | Phase.CLOSING:
                pass
            case _:
                reason, saved = "the job was cancelled", self._stop_is_saved
                self._savepoints.give_up(reason, complete=saved, is_open=self._stop_is_open)
                self._requests.give_up("the job was cancelled")
                if self._desk.phase not in STOPPING:
                    self._release()
                self._desk.go(Phase.CANCELLING)
                self._commits.start()
                self._check_stopped()

    def _check_stopped(self) -> None:
        """Go on with breaking off once nothing is on its way any more."""
        if self._desk.phase not in STOPPING or self._desk.awaiting or self._state.ledger.running:
            return
        match self._desk.phase:
            case Phase.TEARDOWN:
                self._restart()
            case Phase.FAILING:
                self._ending.close(RecordKind.FAILED, self._error)
            case _:
                self._ending.close(RecordKind.CANCELED, savepoint=self._stopped_into)

    def _restart(self) -> None:
        self._desk.emit(do.CloseEnumerators())
        self._desk.go(Phase.BACKING_OFF)
        if self._error is not None:  # else nothing but a drain is taken back
            self._state.progress = replace(self._state.progress, restarts=self._state.progress.restarts + 1)
        self._error = None
        self._cycle.reset()
        self._desk.job_attempt += 1
        self._state.ledger.retry_all()
        self._desk.alarm(self._backoff_ms, self._backoff_over)

    def _backoff_over(self) -> None:
        if self._desk.phase is Phase.BACKING_OFF:  # else it was cancelled
            self._recover()

    # ------------------------------------------------------------------------------------------------------------- end

    def _finish(self) -> None:
        self._desk.go(Phase.FINISHING)
        if self._stopping is None:
            self._savepoints.finish()
        self._check_finished()

    def _check_finished(self) -> None:
        if not self._state.ledger and not self._savepoints.copying and not self._output.is_due:
            self._cycle.release()

    def _leave(self) -> None:
        if self._stopping is None:
            self._ending.close(RecordKind.FINISHED)
        elif self._stopping.cancels:
            self._stopped_into = self._stop_path
            self._desk.go(Phase.CANCELLING)
            self._check_stopped()
        else:
            drained = self._state.snapshot.finished
            self._ending.close(RecordKind.DRAINED if drained else RecordKind.SUSPENDED, savepoint=self._stop_path)


def _is_lasting(cause: Cause) -> bool:
    """Tell whether a restart would end the same way."""
    return cause.lasting if isinstance(cause, Failure) else is_lasting(cause)

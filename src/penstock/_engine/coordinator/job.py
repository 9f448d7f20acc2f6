"""The coordinator of one job: from start to end, one event at a time.

The driver hands in what happened and does what comes back. Nothing here waits, reads a clock or touches the world, so
any order of events can be tried in a test; `validate` says what must hold after each of them.

What is on its way and has not been answered: at most one *call* (an instruction that the driver answers before it takes
the next event), one epoch, one record, and one commit for each sink. A job that breaks off waits for all of them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.job_state import JobState
from penstock._engine.coordinator.outbox import Outbox
from penstock._engine.coordinator.phases import MOVES, RUNNING, STATUS, STOPPING, Phase
from penstock._engine.coordinator.restarts import restart_strategy
from penstock._engine.coordinator.restore import own_files
from penstock._engine.coordinator.retention import Retention
from penstock._engine.coordinator.start import StartMachine, StartPhase
from penstock._engine.protocol.control import Failure
from penstock._engine.protocol.metadata import RecordKind
from penstock.common.job_status import JobStatus
from penstock.errors import FencedError, InternalError, JobRunError, PenstockError

if TYPE_CHECKING:
    from penstock._engine.coordinator.chain import Chain, Identity
    from penstock._engine.coordinator.job_state import Cut
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.coordinator.topology import Topology
    from penstock._engine.protocol.metadata import Committable, Record

#: What failed: a user's function in a task, or an exception on the driver.
Cause: TypeAlias = Failure | Exception

#: An epoch that is void or lost is run again at once, this often in a row; then it counts as a failure of the job.
MAX_EPOCH_ATTEMPTS: Final = 10
#: A committable that was put off is tried again after this time.
_COMMIT_PAUSE_MS: Final = 1_000

_ENDS: Final = {
    RecordKind.FINISHED: JobStatus.FINISHED,
    RecordKind.CANCELED: JobStatus.CANCELED,
    RecordKind.FAILED: JobStatus.FAILED,
}


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
        self._start = StartMachine(settings, identity, topology.graph)
        self._state = JobState(topology, settings, slots)
        self._restarts = restart_strategy(settings.restart)
        self._random = Random(identity.run_id)  # noqa: S311 - jitter of a delay
        self.phase = Phase.STARTING
        self.status = STATUS[Phase.STARTING]
        self._now_ms = 0
        self._out = Outbox()
        #: The epoch between its end and its commit point.
        self._cut: Cut | None = None
        self._epoch_attempt = 1
        self._job_attempt = 0
        self._rotation = 0
        #: Why the job is failing or restarting, and the time until the restart.
        self._error: Cause | None = None
        self._backoff_ms = 0
        self._end_kind = RecordKind.FINISHED

    # ---------------------------------------------------------------------------------------------------- the outside

    def begin(self, now_ms: int) -> list[do.Instruction]:
        """Return the first instructions."""
        self._now_ms = now_ms
        self._out.emit(do.ChangeStatus(self.status))
        self._out.calling = True
        self._out.emit(*self._start.begin())
        return self._out.taken()

    def handle(self, event: ev.Event, now_ms: int) -> list[do.Instruction]:
        """Return what to do after an event.

        Args:
            event: What happened.
            now_ms: When it did, in epoch milliseconds.
        """
        self._now_ms = now_ms
        if self.phase is Phase.ENDED:
            return []
        try:
            self._react(event)
        except PenstockError as error:
            self._fail(error)
        return self._out.taken()

    @property
    def state(self) -> JobState:
        """The state that epochs work on."""
        return self._state

    @property
    def job_id(self) -> str:
        """The job's id; empty while it is being looked for."""
        return self._start.job_id

    @property
    def restored_checkpoint_id(self) -> int | None:
        """The checkpoint that this driver started from, None without one."""
        return self._start.restored and self._start.restored.record.checkpoint_id

    def validate(self) -> None:
        """Check what must hold between two events; raises InternalError."""
        rules = {
            "an epoch runs exactly in its phase, or while the job breaks off": self._out.epoch_running
            == (self.phase is Phase.EPOCH)
            or (self._out.epoch_running and self.phase in STOPPING),
            "a record is on its way at its phase, or while the job breaks off": (self._out.record is not None)
            == (self.phase in {Phase.RECORDING, Phase.CLOSING})
            or (self._out.record is not None and self.phase in STOPPING),
            "an epoch between its end and its commit point has a cut": (self._cut is not None)
            == (self.phase in {Phase.CUTTING, Phase.STORING, Phase.AWAITING_ROOM, Phase.RECORDING})
            or self.phase in STOPPING,
            "no epoch starts before the commits of the checkpoint are done": not (
                self.phase is Phase.OPENING and self._state.ledger
            ),
            "a job that finishes has no commit left": not (
                self.phase in {Phase.CLOSING, Phase.ENDED}
                and self._end_kind is RecordKind.FINISHED
                and self.status is JobStatus.FINISHED
                and self._state.ledger
            ),
            "nothing is left running at the end": not (
                self.phase is Phase.ENDED and self.status is not JobStatus.SUSPENDED and self._out.epoch_running
            ),
        }
        broken = [rule for rule, holds in rules.items() if not holds]
        if broken:
            raise InternalError(f"In phase {self.phase.name}: not true that {broken[0]}.")

    # ------------------------------------------------------------------------------------------------------- reactions

    def _react(self, event: ev.Event) -> None:
        match event:
            case ev.CancelRequested():
                self._cancel()
            case ev.Woken(alarm):
                self._out.ring(alarm)
            case ev.SplitsAssigned(assigned):
                self._assigned(assigned)
            case ev.DriverFailed(error):
                self._fail(error)
            case ev.Committed(uid, retry):
                self._committed(uid, retry)
            case ev.CommitFailed(uid, error):
                self._commit_failed(uid, error)
            case ev.EpochEnded() | ev.EpochLost() | ev.EpochBroke():
                self._epoch_over(event)
            case ev.RecordStored() | ev.RecordTaken() | ev.RecordUncertain() if self._out.record is not None:
                self._record_answered(self._out.record, event)
            case _:
                self._call_answered(event)

    def _call_answered(self, event: ev.Event) -> None:
        self._out.calling = False
        match self.phase, event:
            case Phase.STARTING, _:
                self._out.calling = True
                self._out.emit(*self._start.handle(event, self._now_ms))
                if self._start.phase is StartPhase.DONE:
                    self._out.calling = False
                    self._started()
            case _, _ if self.phase in STOPPING:
                self._check_stopped()
            case _, ev.StepFailed(error):
                self._fail(error)
            case Phase.CREATED, ev.StateCopied():
                self._recover()
            case Phase.OPENING, ev.EnumeratorsCalled(assigned):
                self._assigned(assigned)
                self._settle(0)
            case Phase.SETTLING, ev.EnumeratorsCalled(assigned):
                self._assigned(assigned)
                self._next_epoch()
            case Phase.CUTTING, ev.EnumeratorsSnapshotted():
                self._snapshotted(event)
            case Phase.STORING, ev.StateStored():
                self._await_room()
            case _:
                raise InternalError(f"A job in phase {self.phase.name} got {event}.")

    # --------------------------------------------------------------------------------------------- start and recovery

    def _started(self) -> None:
        """Go on after the claim."""
        ended = self._start.already_ended
        if ended is not None:
            self._out.emit(do.Log(f"Job {ended.job_name!r} has {ended.kind.value} already; there is nothing to run"))
            self._end(JobStatus.FINISHED)
            return
        chain = self._chain
        self._retention = Retention(self._settings.retention.retained, self._now_ms)
        self._go(Phase.CREATED)
        restored = self._start.restored
        if restored is None:
            self._recover()
            return
        self._out.emit(do.Log(f"Going on from checkpoint {restored.record.checkpoint_id} ({restored.path})"))
        inside = "://" not in restored.path and not PurePath(restored.path).is_absolute()
        if inside and restored.record.job_id == chain.job_id:
            owned = self._settings.latest or self._settings.claim
            (self._retention.keep if owned else self._retention.pin)(restored.record)
        snapshot, files = own_files(restored.snapshot, chain.job_id, inside=inside)
        self._state.restore(snapshot, restored.returned)
        if files:
            self._out.call(do.CopyState(restored.path, files))
        else:
            self._recover()

    def _recover(self) -> None:
        """Take up the last completed checkpoint: first its commits, then its sources."""
        self._go(Phase.RECOVERING)
        self._state.reset()
        self._start_commits()
        if not self._state.ledger:
            self._open()

    def _open(self) -> None:
        self._go(Phase.OPENING)
        openings = {uid: source.opening for uid, source in self._state.sources.items()}
        self._out.call(do.OpenEnumerators({uid: opening for uid, opening in openings.items() if opening is not None}))

    def _assigned(self, assigned: ev.Assigned) -> None:
        if self.phase not in RUNNING:
            return
        for uid, by_subtask in assigned.items():
            self._state.sources[uid].assigned(by_subtask)
        if self.phase is Phase.PAUSED and assigned:
            self._run_epoch()

    # ---------------------------------------------------------------------------------------------------------- epochs

    def _settle(self, completed: int) -> None:
        """Let enumerators hear of a completed checkpoint and of what it brought."""
        self._go(Phase.SETTLING)
        deliveries = {uid: source.deliver() for uid, source in self._state.sources.items()}
        heard = {uid: delivery for uid, delivery in deliveries.items() if delivery is not None}
        if completed or heard:
            self._out.call(do.CallEnumerators(completed, heard))
        else:
            self._next_epoch()

    def _next_epoch(self) -> None:
        if self._state.snapshot.finished:
            self._go(Phase.FINISHING)
            self._check_finished()
            return
        pause_ms = self._state.pause_ms(self._now_ms)
        if pause_ms:
            self._go(Phase.PAUSED)
            self._out.alarm(pause_ms, self._pause_over)
        else:
            self._run_epoch()

    def _pause_over(self) -> None:
        if self.phase is Phase.PAUSED:  # else splits came in between, or the job breaks off
            self._run_epoch()

    def _run_epoch(self) -> None:
        self._go(Phase.EPOCH)
        self._out.epoch_running = True
        self._rotation += 1
        parent = self._chain.parent
        dispatches = self._state.dispatches(parent.checkpoint_id if parent else 0, self._now_ms)
        self._out.emit(
            do.RunEpoch(self._chain.next_id, self._epoch_attempt, self._job_attempt, self._rotation, dispatches)
        )

    def _epoch_over(self, event: ev.EpochEnded | ev.EpochLost | ev.EpochBroke) -> None:
        self._out.epoch_running = False
        if self.phase in STOPPING:
            self._check_stopped()
        elif isinstance(event, ev.EpochLost):
            self._run_again(event.error)
        elif isinstance(event, ev.EpochBroke):
            self._fail(event.error)
        elif event.outcome.failures:
            self._fail(event.outcome.failures[0])
        else:
            self._accept(event)

    def _accept(self, event: ev.EpochEnded) -> None:
        acks = event.outcome.acks
        reason = self._state.why_void(self._chain.next_id, acks)
        if reason is not None:
            self._run_again(InternalError(f"Epoch {self._chain.next_id} does not count: {reason}."))
            return
        self._epoch_attempt = 1
        self._cut = self._state.accept(acks, event.wall_ms)
        self._go(Phase.CUTTING)
        self._out.call(do.SnapshotEnumerators(self._chain.next_id))

    def _run_again(self, error: Exception) -> None:
        """Run an epoch again that Spark lost, or whose tasks disagree: nobody's fault, so no restart is counted."""
        self._retention.orphans_possible(self._now_ms)
        self._epoch_attempt += 1
        if self._epoch_attempt > MAX_EPOCH_ATTEMPTS:
            self._epoch_attempt = 1
            self._fail(error)
            return
        self._out.emit(do.Log(f"Epoch {self._chain.next_id} runs again, attempt {self._epoch_attempt}", error))
        self._run_epoch()

    # ----------------------------------------------------------------------------------------------------- checkpoints

    def _snapshotted(self, event: ev.EnumeratorsSnapshotted) -> None:
        assert self._cut is not None
        self._cut, files = self._state.snapshotted(self._cut, self._chain.job_id, self._chain.next_id, event.snapshots)
        if files:
            self._go(Phase.STORING)
            self._out.call(do.StoreState(files))
        else:
            self._await_room()

    def _await_room(self) -> None:
        """Put the record, once no sink has more than one checkpoint outstanding."""
        assert self._cut is not None
        if not self._state.ledger.has_room:
            self._go(Phase.AWAITING_ROOM)
            return
        self._go(Phase.RECORDING)
        self._out.put(self._chain.make(RecordKind.CHECKPOINT, self._now_ms, self._state.document(self._cut)))

    def _put(self, record: Record) -> None:
        self._record, self._record_tries = record, 1
        self._out.emit(do.PutRecord(record))

    def _record_answered(self, record: Record, event: ev.RecordStored | ev.RecordTaken | ev.RecordUncertain) -> None:
        match event:
            case ev.RecordUncertain(error):
                self._record_uncertain(error)
            case ev.RecordTaken(existing) if not record.same_write(existing):
                self._out.record = None
                self._other_record(existing)
            case _:
                self._out.record = None
                self._chain.stored(record)
                if record.kind is RecordKind.CHECKPOINT:
                    self._completed(record)
                else:
                    self._closed()

    def _record_uncertain(self, error: Exception) -> None:
        if self._out.put_again():
            return
        self._cut = None
        match self.phase:
            case Phase.CLOSING:
                self._out.emit(do.Log("The end of the job could not be recorded; 'latest' would go on with it", error))
                self._closed()
            case _ if self.phase in STOPPING:
                self._check_stopped()
            case _:
                self._fail(error)

    def _other_record(self, existing: Record) -> None:
        """React to another record in the place of ours."""
        if existing.run_id != self._identity.run_id:
            error = FencedError(self._chain.job_id, existing.checkpoint_id, self._identity.run_id, existing.run_id)
            self._out.emit(do.CloseEnumerators())
            self._end(JobStatus.SUSPENDED, error)
            return
        # A write of our own that was given up as uncertain had arrived: that one is the checkpoint.
        self._cut = None
        self._chain.stored(existing)
        if existing.snapshot is not None:
            self._state.adopt(existing.snapshot, existing.checkpoint_id)
            self._retention.keep(existing)
        match self.phase:
            case Phase.CLOSING:
                self._out.put(self._chain.make(self._end_kind, self._now_ms, reason=self._reason))
            case _ if self.phase in STOPPING:
                self._check_stopped()
            case _:
                self._backoff_ms = 0
                self._go(Phase.TEARDOWN)
                self._check_stopped()

    def _completed(self, record: Record) -> None:
        """Go on after the commit point of an epoch."""
        cut, self._cut = self._cut, None
        assert cut is not None and record.snapshot is not None  # noqa: PT018 - a checkpoint has both
        self._state.completed(cut, record.snapshot, record.checkpoint_id)
        self._retention.keep(record)
        if self.phase not in STOPPING:
            self._start_commits()
        outputs = self._state.outputs(cut.acks)
        if outputs:
            self._out.emit(do.HandOver(outputs))
        self._out.emit(do.Publish(self._state.progress))
        self._tidy()
        if self.phase in STOPPING:
            self._check_stopped()
        else:
            self._settle(record.checkpoint_id)

    def _tidy(self) -> None:
        job_id = self._chain.job_id
        garbage = self._retention.drop()
        if garbage:
            self._out.emit(do.Delete(job_id, garbage))
        if self._retention.sweep_due(self._now_ms):
            before = self._chain.next_id - 1
            self._out.emit(do.SweepOrphans(job_id, before, self._retention.checkpoints, self._retention.files))

    # --------------------------------------------------------------------------------------------------------- commits

    def _start_commits(self) -> None:
        self._out.emit(*(do.Commit(commit) for commit in self._state.ledger.start()))

    def _committed(self, uid: str, retry: tuple[Committable, ...]) -> None:
        ledger = self._state.ledger
        if not retry:
            ledger.done(uid)
        elif max(item.retries for item in retry) > self._settings.committer_retries:
            self._commit_failed(
                uid,
                JobRunError(
                    f"The committer of sink {uid!r} put {len(retry)} committables off more than "
                    f"{self._settings.committer_retries} times (sink.committer.retries)."
                ),
            )
            return
        else:
            ledger.put_off(uid, retry)
            self._out.alarm(_COMMIT_PAUSE_MS, lambda: self._retry_commit(uid))
        self._commits_moved()

    def _retry_commit(self, uid: str) -> None:
        if self.phase in RUNNING:
            self._state.ledger.retry(uid)
            self._start_commits()

    def _commits_moved(self) -> None:
        if self.phase in STOPPING:
            self._check_stopped()
            return
        self._start_commits()
        if self.phase is Phase.AWAITING_ROOM:
            if self._state.ledger.has_room:
                self._await_room()
        elif self.phase is Phase.RECOVERING and not self._state.ledger:
            self._open()
        elif self.phase is Phase.FINISHING:
            self._check_finished()

    def _commit_failed(self, uid: str, error: Exception) -> None:
        self._state.ledger.failed(uid)
        self._fail(error)

    # ----------------------------------------------------------------------------------------------------- breaking off

    def _fail(self, cause: Cause) -> None:
        """Break off because of an error: the restart strategy says what follows."""
        match self.phase:
            case Phase.STARTING:
                self._end(JobStatus.FAILED, cause)
            case Phase.CREATED:
                self._error = cause
                self._go(Phase.FAILING)
            case _ if self.phase in RUNNING:
                self._break_off(cause)
            case _:
                self._out.emit(do.Log("Another error while the job comes to its end", cause))
        self._check_stopped()

    def _break_off(self, cause: Cause) -> None:
        self._error = cause
        self._retention.orphans_possible(self._now_ms)
        delay_ms = self._restarts.on_failure(self._now_ms, self._random.random())
        if self._out.epoch_running:
            self._out.emit(do.CancelEpoch())
        self._release()
        if delay_ms is None:
            self._out.emit(do.Log(f"No restart any more (restart strategy: {self._restarts.description})"))
            self._go(Phase.FAILING)
            return
        self._backoff_ms = delay_ms
        self._out.emit(do.Log(f"The job failed and restarts in {delay_ms} ms", cause))
        self._go(Phase.TEARDOWN)

    def _release(self) -> None:
        """Let go of an epoch that has not reached its record; one that has may still complete."""
        if self._out.record is None:
            self._cut = None

    def _cancel(self) -> None:
        match self.phase:
            case Phase.STARTING:
                self._end(JobStatus.CANCELED)
            case Phase.CANCELLING | Phase.CLOSING:
                pass
            case _:
                if self._out.epoch_running and self.phase not in STOPPING:
                    self._out.emit(do.CancelEpoch())
                self._release()
                self._error = None
                self._go(Phase.CANCELLING)
                self._start_commits()
                self._check_stopped()

    def _check_stopped(self) -> None:
        """Go on with breaking off once nothing is on its way any more."""
        if self.phase not in STOPPING or self._out.awaiting or self._state.ledger.running:
            return
        match self.phase:
            case Phase.TEARDOWN:
                self._restart()
            case Phase.FAILING:
                self._close(RecordKind.FAILED)
            case _:
                self._close(RecordKind.CANCELED)

    def _restart(self) -> None:
        self._out.emit(do.CloseEnumerators())
        self._go(Phase.BACKING_OFF)
        self._job_attempt += 1
        self._epoch_attempt = 1
        self._state.ledger.retry_all()
        self._state.progress = replace(self._state.progress, restarts=self._job_attempt)
        self._out.alarm(self._backoff_ms, self._backoff_over)

    def _backoff_over(self) -> None:
        if self.phase is Phase.BACKING_OFF:  # else it was cancelled
            self._recover()

    # ------------------------------------------------------------------------------------------------------------- end

    def _check_finished(self) -> None:
        if not self._state.ledger:
            self._close(RecordKind.FINISHED)

    def _close(self, kind: RecordKind) -> None:
        self._out.emit(do.CloseEnumerators())
        self._go(Phase.CLOSING)
        self._end_kind = kind
        self._out.put(self._chain.make(kind, self._now_ms, reason=self._reason))

    def _closed(self) -> None:
        """Go on after the terminal record: drop what is not to be kept."""
        kept = {
            RecordKind.CANCELED: self._settings.retention.on_cancel,
            RecordKind.FAILED: self._settings.retention.on_failure,
        }.get(self._end_kind, False)
        if not kept:
            self._out.emit(do.Delete(self._chain.job_id, self._retention.drop_all()))
            files, checkpoints = self._retention.files, self._retention.checkpoints
            self._out.emit(do.SweepOrphans(self._chain.job_id, self._chain.next_id, checkpoints, files))
        self._end(_ENDS[self._end_kind], self._error, checkpoint=kept)

    def _end(self, status: JobStatus, error: Cause | None = None, *, checkpoint: bool = True) -> None:
        self._go(Phase.ENDED)
        self._show(status)
        parent = self._start.chain.parent if self._start.chain else None
        self._out.emit(do.End(status, error, parent.path if parent and checkpoint else None))

    @property
    def _reason(self) -> str:
        return self._error.error if isinstance(self._error, Failure) else str(self._error or "")

    # --------------------------------------------------------------------------------------------------------- helpers

    @property
    def _chain(self) -> Chain:
        assert self._start.chain is not None
        return self._start.chain

    def _go(self, phase: Phase) -> None:
        if phase not in MOVES[self.phase]:
            raise InternalError(f"A job cannot go from phase {self.phase.name} to {phase.name}.")
        self.phase = phase
        self._show(STATUS.get(phase, self.status))

    def _show(self, status: JobStatus) -> None:
        if status is not self.status:
            self.status = status
            self._out.emit(do.ChangeStatus(status))

"""The coordinator of one job: its life from start to end, one event at a time.

The driver passes events in and performs the returned instructions. The coordinator does no I/O, reads no clock and
never waits, so tests can try any order of events; `validate` checks the invariants after each. Its scheduler
(`scheduler`) drives the job while it runs; a table says which of the two reacts to an event, and how (`reactions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.retention import CheckpointRetention
from penstock._engine.coordinator.checkpoints.splits import unread_splits
from penstock._engine.coordinator.commits.commits import CommitScheduler
from penstock._engine.coordinator.commits.output_delivery import OutputDelivery
from penstock._engine.coordinator.context import CoordinatorContext
from penstock._engine.coordinator.epochs.job_state import JobState
from penstock._engine.coordinator.history import EventHistory
from penstock._engine.coordinator.life.failure_handler import ExecutionFailureHandler
from penstock._engine.coordinator.life.invariants import check
from penstock._engine.coordinator.life.requests import PendingRequests
from penstock._engine.coordinator.life.savepoint_copies import SavepointCopies
from penstock._engine.coordinator.life.start import JobStart
from penstock._engine.coordinator.life.start_reactions import START, react
from penstock._engine.coordinator.life.stop import StopWithSavepoint
from penstock._engine.coordinator.life.termination import JobTermination
from penstock._engine.coordinator.phases import RUNNING, STOPPING, Phase, StartPhase
from penstock._engine.coordinator.reactions import CALL_ANSWERS, ENTRY_ANSWERS, LIVE, TAKEN_OVER, Rule, table_of
from penstock._engine.coordinator.restore.commit_decisions import published
from penstock._engine.coordinator.restore.origin import adopt_checkpoint
from penstock._engine.coordinator.schedulers import SCHEDULERS
from penstock._engine.protocol.metadata import ChainEntryKind, handles_of
from penstock.common.job_status import JobStatus
from penstock.common.user_values import error_line
from penstock.errors import FencedError, InternalError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator.checkpoints.chain import ChainWriter, DriverIdentity
    from penstock._engine.coordinator.epochs.topology import Topology
    from penstock._engine.coordinator.restore.state_assignment import RestoredCheckpoint
    from penstock._engine.coordinator.scheduler import Cause, Scheduler
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.protocol.metadata import ChainEntry, GivenUp, StoredAccumulator


class JobCoordinator:
    """Decides on one job.

    Args:
        topology: The job.
        settings: Its settings.
        identity: This driver.
    """

    def __init__(self, topology: Topology, settings: JobSettings, identity: DriverIdentity) -> None:
        self._settings = settings
        self._identity = identity
        self._context = CoordinatorContext()
        self._history = EventHistory()
        self._start = JobStart(settings, identity, topology.graph)
        self._state = JobState(topology, settings)
        factory = SCHEDULERS[topology.graph.job_type]
        self._requests = PendingRequests(
            self._context,
            cancel=self._cancel,
            is_decided=lambda: self._stop.is_decided,
            refusal=lambda: f"job {self.job_id} {factory.refusal}" if factory.refusal else "",
        )
        self._savepoints = SavepointCopies(self._context, self._state, self._requests)
        self._output = OutputDelivery(self._context)
        self._stop = StopWithSavepoint(
            self._context, self._state, self._requests, self._savepoints, life=self, scheduler=lambda: self._scheduler
        )
        self._commits = CommitScheduler(
            self._context,
            topology.graph,
            self._state.ledger,
            self._state.committed,
            retries=settings.committer_retries,
            lost=self._state.lost,
            fail=self.fail,
        )
        self._scheduler: Scheduler = factory.make(
            context=self._context,
            state=self._state,
            life=self,
            requests=self._requests,
            savepoints=self._savepoints,
            stop=self._stop,
            commits=self._commits,
            output=self._output,
        )
        self._termination = JobTermination(
            self._context, self._start, requests=self._requests, retention=settings.retention, state=self._state
        )
        self._failure_handler = ExecutionFailureHandler(
            self._context,
            self._state,
            settings.restart,
            identity.run_id,
            scheduler=self._scheduler,
            commits=self._commits,
            stop=self._stop,
            ending=self._termination,
        )
        self._table = _TABLES[topology.graph.job_type]

    # ---------------------------------------------------------------------------------------------------- the outside

    def begin(self, now: Moment) -> list[do.Instruction]:
        """Return the first instructions."""
        self._context.now = now
        self._context.emit(do.ChangeStatus(self._context.status))
        self._context.emit(*self._start.begin())
        return self._context.taken()

    def handle(self, event: ev.Event, now: Moment) -> list[do.Instruction]:
        """Return the instructions that follow from an event.

        Args:
            event: The event.
            now: The time of the event.

        Raises:
            InternalError: Penstock has a bug, and the job cannot continue.
        """
        context = self._context
        context.now = now
        if context.phase is Phase.ENDED:
            return []
        self._history.add(event, context.phase, now)
        if isinstance(event, CALL_ANSWERS):
            context.calling = False
        try:
            self._react(event)
        except InternalError as error:
            self.fail(self._with_history(error))
        except PenstockError as error:
            self.fail(error)
        except Exception as error:
            raise self._with_history(error) from error
        return context.taken()

    def _react(self, event: ev.Event) -> None:
        reaction = self._table.get((self._context.phase, type(event)))
        if reaction is None:
            raise InternalError(f"A job in phase {self._context.phase.name} got {type(event).__name__}.")
        reaction(self if reaction in _OF_LIFE else self._scheduler, event)

    def _with_history(self, error: Exception) -> InternalError:
        text = str(error) if isinstance(error, InternalError) else error_line(error)
        return InternalError(f"{text}\n{self._history}")

    @property
    def phase(self) -> Phase:
        """The coordinator's phase."""
        return self._context.phase

    @property
    def state(self) -> JobState:
        """The job's state."""
        return self._state

    @property
    def job_id(self) -> str:
        """The job's id; empty while it is unknown."""
        return self._start.job_id

    @property
    def chain(self) -> ChainWriter:
        """The writer of the job's chain, after the takeover."""
        return self._context.chain

    @property
    def has_taken_over(self) -> bool:
        """Whether this driver has taken the job over, and has a chain."""
        return self._start.chain is not None

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, and nothing is left from which it could continue."""
        return self._termination.is_over

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs of the job whose files are this driver's to delete."""
        ended = self._start.already_ended
        return self.chain.runs if self.has_taken_over else () if ended is None else ended.runs

    @property
    def has_ended_for_good(self) -> bool:
        """Whether the end of the job is recorded: no driver recovers it."""
        return self._termination.is_recorded or self._start.already_ended is not None

    @property
    def is_complete(self) -> bool:
        """Whether the job has ended, and has read all of its input in this run."""
        return self._termination.is_complete

    @property
    def accumulators(self) -> Mapping[str, Mapping[str, StoredAccumulator]]:
        """The accumulators at the last completed checkpoint, by operator uid and name."""
        ended = self._start.already_ended
        return self._state.snapshot.all_accumulators if ended is None else ended.accumulators

    @property
    def given_up(self) -> tuple[GivenUp, ...]:
        """The committables that the sinks' committers gave up, oldest first."""
        ended = self._start.already_ended
        return self._state.given_up if ended is None or ended.commits is None else ended.commits.given_up

    @property
    def unread_splits(self) -> Mapping[str, int]:
        """The number of splits that finished readers left unread, by the uid of the source."""
        return unread_splits(self._state.snapshot)

    @property
    def restored(self) -> RestoredCheckpoint | None:
        """The checkpoint that this driver started from with its state; None without one."""
        return self._start.restored

    @property
    def restored_checkpoint_id(self) -> int | None:
        """The id of the checkpoint that this driver started from; None without one."""
        return self.restored and self.restored.entry.checkpoint_id

    def validate(self) -> None:
        """Check the invariants between two events; raise InternalError if one is broken."""
        finished = self._context.status is JobStatus.FINISHED and self._start.already_ended is None
        check(
            self._context,
            has_pending=self._scheduler.has_pending_checkpoint,
            uncommitted=bool(self._state.ledger),
            undelivered=self._output.is_due,
            finished=finished,
        )

    # ----------------------------------------------------------------------------------------------------- the start

    def start_answered(self, event: ev.Event) -> None:
        """Continue with the start."""
        self._context.emit(*react(self._start, event, self._context.now.now_ms))
        if self._start.phase is StartPhase.DONE:
            self._started()

    def _started(self) -> None:
        """Continue after the takeover."""
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
            self._scheduler.recover()
            return
        self._context.emit(do.LogMessage(f"Restored from checkpoint {restored.entry.checkpoint_id} ({restored.path})"))
        self._context.emit(*self._start.remarks)
        self._context.emit(do.AdoptGraph(restored.assignment.graph))
        self._stop.checkpoint = restored.entry if restored.stopping else None
        origin = adopt_checkpoint(restored, chain, self._context.retention)
        self._state.restore(origin.snapshot, write_all=origin.write_all)
        self._state.ledger.publish(published(self._settings.commit_decisions))
        if origin.copies:
            named = handles_of(restored.assignment.snapshot)
            sizes = {handle.path: handle.size for handle in named if handle.path is not None}
            self._context.call(do.CopyState(restored.path, origin.copies, sizes))
        else:
            self._scheduler.recover()

    def state_copied(self, _: ev.StateCopied) -> None:
        """Run the job: its state files are its own now."""
        self._scheduler.recover()

    # --------------------------------------------------------------------------------------- what runs, and its answers

    def call_failed(self, event: ev.InstructionFailed | ev.MergeFailed) -> None:
        """Fail the job because of an instruction that failed."""
        self.fail(event.failure if isinstance(event, ev.MergeFailed) else event.error)

    def call_abandoned(self, _: ev.Event) -> None:
        """Note the answer to a call of a job that is being torn down."""
        self.check_stopped()

    def driver_failed(self, event: ev.DriverFailed) -> None:
        """Fail the job because of an error on the driver."""
        self.fail(event.error)

    def alarm_fired(self, event: ev.AlarmFired) -> None:
        """Call the function of an alarm."""
        self._context.ring(event.alarm)

    def commit_answered(self, event: ev.Committed | ev.CommitFailed) -> None:
        """Continue after a commit."""
        if self._commits.answered(event):
            self._scheduler.commits_moved()

    def outputs_delivered(self, _: ev.OutputsDelivered) -> None:
        """Continue once the program has its output."""
        self._output.done()
        self._scheduler.check_finished()

    # ---------------------------------------------------------------------------------------------- what is asked of it

    def cancel_requested(self, _: ev.CancelRequested) -> None:
        """Cancel the job."""
        self._cancel()

    def checkpoint_requested(self, event: ev.CheckpointRequested) -> None:
        """Accept or refuse a request for a checkpoint."""
        self._requests.request_checkpoint(event.id)
        self._scheduler.trigger_now()

    def savepoint_requested(self, event: ev.SavepointRequested) -> None:
        """Accept or refuse a request for a savepoint or a stop."""
        self._requests.request_savepoint(event.request)
        if self._requests.waiting:
            self._scheduler.trigger_now()

    def savepoint_answered(self, event: ev.SavepointWritten | ev.SavepointFailed) -> None:
        """Continue after a savepoint was written or has failed."""
        self._stop.on_savepoint_answer(event)
        self.check_stopped()
        self._scheduler.check_finished()

    # -------------------------------------------------------------------------------------------------------- entries

    def entry_answered(self, event: ev.ChainEntryStored | ev.ChainEntryTaken | ev.ChainEntryUncertain) -> None:
        """Continue after a chain entry was put: of a checkpoint, of a stop that was given up, or of the job's end."""
        entry = self._context.entry
        if entry is None:
            raise InternalError(f"A job in phase {self._context.phase.name} has put no chain entry.")
        match event:
            case ev.ChainEntryUncertain(error):
                self._entry_uncertain(error)
            case ev.ChainEntryTaken(existing) if not entry.same_write(existing):
                self._context.entry = None
                self._other_entry(existing)
            case _:
                self._context.entry = None
                self._context.chain.stored(entry)
                match entry.kind:
                    case ChainEntryKind.CHECKPOINT:
                        self._scheduler.entry_stored(entry)
                    case ChainEntryKind.TAKEOVER:
                        self._stop.resumed()
                        self.check_stopped()
                    case _:
                        self._termination.closed()

    def _entry_uncertain(self, error: Exception) -> None:
        if self._context.put_again():
            return
        self._scheduler.entry_lost()
        if self._context.phase is Phase.CLOSING:
            text = "The end of the job could not be recorded; a start with 'latest' would resume it"
            self._context.emit(do.LogMessage(text, error))
            self._termination.closed(is_stored=False)
        elif self._context.is_stopping:
            self.check_stopped()
        else:
            self.fail(error)

    def _other_entry(self, existing: ChainEntry) -> None:
        """React to another chain entry under the id of ours."""
        if existing.run_id != self._identity.run_id:
            error = FencedError(
                self._context.chain.job_id, existing.checkpoint_id, self._identity.run_id, existing.run_id
            )
            self._context.emit(do.CloseEnumerators())
            self._scheduler.reset()
            self._termination.end(JobStatus.SUSPENDED, error)
            return
        # An earlier write of this driver with an unknown outcome was stored: its entry is the checkpoint.
        self._context.chain.stored(existing)
        self._scheduler.entry_found(existing)
        if self._context.phase is Phase.CLOSING:
            self._termination.put_entry()
        elif self._context.is_stopping:
            self.check_stopped()
        else:
            self.restart()

    # ------------------------------------------------------------------------------- failures, the end (`JobLife`)

    def fail(self, cause: Cause) -> None:
        """Fail the job because of an error: it restarts or ends."""
        self._failure_handler.fail(cause)

    def _cancel(self) -> None:
        self._failure_handler.cancel()

    def restart(self) -> None:
        """Restart from the last completed checkpoint at once, without a failure."""
        self._failure_handler.restart()

    def check_stopped(self) -> None:
        """Continue the teardown, if the job is being torn down and no answer is due any more."""
        self._failure_handler.check()

    def terminate(self) -> None:
        """End the job: everything is committed and delivered, and checkpoint listeners are notified."""
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


#: The life of a job.
LIFE: Final = (
    Rule(
        JobCoordinator.start_answered,
        tuple(dict.fromkeys(event for rule in START for event in rule.events)),
        frozenset({Phase.STARTING}),
    ),
    Rule(JobCoordinator.state_copied, (ev.StateCopied,), frozenset({Phase.CREATED})),
    Rule(JobCoordinator.call_failed, (ev.InstructionFailed, ev.MergeFailed), RUNNING | {Phase.CREATED}),
    Rule(JobCoordinator.call_abandoned, CALL_ANSWERS, STOPPING),
    Rule(JobCoordinator.entry_answered, ENTRY_ANSWERS, STOPPING | {Phase.RECORDING, Phase.RESUMING, Phase.CLOSING}),
    Rule(JobCoordinator.driver_failed, (ev.DriverFailed,), LIVE),
    Rule(JobCoordinator.cancel_requested, (ev.CancelRequested,), LIVE),
    Rule(JobCoordinator.checkpoint_requested, (ev.CheckpointRequested,), LIVE),
    Rule(JobCoordinator.savepoint_requested, (ev.SavepointRequested,), LIVE),
    Rule(JobCoordinator.savepoint_answered, (ev.SavepointWritten, ev.SavepointFailed), TAKEN_OVER),
    Rule(JobCoordinator.outputs_delivered, (ev.OutputsDelivered,), TAKEN_OVER),
    Rule(JobCoordinator.commit_answered, (ev.Committed, ev.CommitFailed), TAKEN_OVER),
    Rule(JobCoordinator.alarm_fired, (ev.AlarmFired,), TAKEN_OVER),
)
#: The reactions by type of job, phase and type of event: whether the job's life reacts or its scheduler, and how.
_TABLES: Final = {kind: table_of(LIFE, factory.rules) for kind, factory in SCHEDULERS.items()}
_OF_LIFE: Final = frozenset(rule.reaction for rule in LIFE)

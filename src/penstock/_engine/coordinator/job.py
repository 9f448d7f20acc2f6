"""The coordinator of one job: its life from start to end, one event at a time.

The driver passes events in and performs the returned instructions. The coordinator does no I/O, reads no clock and
never waits, so tests can try any order of events; `validate` checks the invariants after each. Its scheduler
(`scheduler`) drives the job while it runs; a table says which function of the job's life (`life.reactions`) or method
of its scheduler handles an event in a phase.
"""

from __future__ import annotations

from collections import deque
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.subtask_state import unread_splits
from penstock._engine.coordinator.commits.commits import CommitScheduler, OutputDelivery
from penstock._engine.coordinator.epochs.epoch_scheduler import EpochScheduler
from penstock._engine.coordinator.epochs.job_state import JobState
from penstock._engine.coordinator.epochs.reactions import EPOCHS
from penstock._engine.coordinator.life.invariants import check
from penstock._engine.coordinator.life.reactions import LIFE, JobParts
from penstock._engine.coordinator.life.requests import PendingRequests, SavepointCopies
from penstock._engine.coordinator.life.start import JobStart
from penstock._engine.coordinator.life.stop import StopWithSavepoint
from penstock._engine.coordinator.life.termination import ExecutionFailureHandler, JobTermination
from penstock._engine.coordinator.phases import Phase, StartPhase
from penstock._engine.coordinator.reactions import CALL_ANSWERS, table_of
from penstock._engine.coordinator.scheduler import CoordinatorContext, SchedulerParts
from penstock._engine.coordinator.stages.reactions import STAGES
from penstock._engine.coordinator.stages.stage_scheduler import StageScheduler
from penstock._engine.graph.job_graph import JobType
from penstock.common.user_values import error_line
from penstock.errors import InternalError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.checkpoints.chain import ChainWriter, DriverIdentity
    from penstock._engine.coordinator.restore.state_assignment import RestoredCheckpoint
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.protocol.metadata import GivenUp, StoredAccumulator


#: The number of events that are kept.
LENGTH: Final = 50
#: The longest text of a value, in characters.
_WIDTH: Final = 60


class EventHistory:
    """Keeps the last events: time, phase, and those fields that are short and no user data."""

    def __init__(self) -> None:
        self._entries: deque[tuple[int, str, str]] = deque(maxlen=LENGTH)

    def add(self, event: object, phase: Phase, now: Moment) -> None:
        """Keep an event."""
        self._entries.append((now.passed_ms, phase.name, _event_text(event)))

    def __str__(self) -> str:
        """List the events, oldest first, each with the milliseconds between it and the last one."""
        if not self._entries:
            return ""
        last_ms = self._entries[-1][0]
        lines = (f"  {passed_ms - last_ms} ms, {phase}: {text}" for passed_ms, phase, text in self._entries)
        return "\n".join(["The last events of the job:", *lines])


def _event_text(event: Any) -> str:
    """Return the text of an event: its type, its numbers and texts, and the types of errors."""
    shown: list[str] = []
    for field in fields(event):
        value = getattr(event, field.name)
        if isinstance(value, (int, str)):
            shown.append(f"{field.name}={str(value)[:_WIDTH]}")
        elif isinstance(value, Exception):
            shown.append(f"{field.name}={type(value).__name__}")
    return f"{type(event).__name__}({', '.join(shown)})"


#: The reactions by type of job, phase and type of event: those of the job's life, and those of its scheduler.
TABLES: Final = {JobType.STREAMING: table_of(LIFE, EPOCHS), JobType.BATCH: table_of(LIFE, STAGES)}
_OF_LIFE: Final = frozenset(rule.reaction for rule in LIFE)
_REFUSAL: Final = "is not a streaming job: a batch job commits once, at its end, and has no savepoints"


def _parts_of(plan: ExecutionPlan, settings: JobSettings, identity: DriverIdentity) -> JobParts:
    """Make the parts of a job's coordinator: a stream runs epochs, a batch job runs stages."""
    graph = plan.graph
    context, state, requests = CoordinatorContext(), JobState(plan, settings), PendingRequests()
    start, output = JobStart(settings, identity, graph), OutputDelivery()
    savepoints, stop = SavepointCopies(state, requests), StopWithSavepoint(context, state, requests)
    commits = CommitScheduler(graph, state.ledger, state.committed, retries=settings.committer_retries)
    termination = JobTermination(context, start, requests=requests, retention=settings.retention, state=state)
    life = ExecutionFailureHandler(
        context, state, settings.restart, identity.run_id, commits=commits, stop=stop, ending=termination
    )
    is_batch = graph.job_type is JobType.BATCH
    shared = SchedulerParts(context, state, life, commits, output)
    scheduler = StageScheduler(shared) if is_batch else EpochScheduler(shared, requests, savepoints, stop)
    life.drive(scheduler)
    return JobParts(
        settings=settings,
        context=context,
        start=start,
        state=state,
        requests=requests,
        savepoints=savepoints,
        stop=stop,
        commits=commits,
        output=output,
        termination=termination,
        life=life,
        scheduler=scheduler,
        refusal=_REFUSAL if is_batch else "",
    )


class JobCoordinator:
    """Decides on one job.

    Args:
        plan: The job with its levels.
        settings: Its settings.
        identity: This driver.
    """

    def __init__(self, plan: ExecutionPlan, settings: JobSettings, identity: DriverIdentity) -> None:
        self._parts = _parts_of(plan, settings, identity)
        self._context = self._parts.context
        self._start = self._parts.start
        self._history = EventHistory()
        self._table = TABLES[plan.graph.job_type]

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
            self._parts.life.fail(self._with_history(error))
        except PenstockError as error:
            self._parts.life.fail(error)
        except Exception as error:
            raise self._with_history(error) from error
        return context.taken()

    def _react(self, event: ev.Event) -> None:
        reaction = self._table.get((self._context.phase, type(event)))
        if reaction is None:
            raise InternalError(f"A job in phase {self._context.phase.name} got {type(event).__name__}.")
        reaction(self._parts if reaction in _OF_LIFE else self._parts.scheduler, event)
        self._parts.scheduler.check_finished()
        if self._context.is_stopping:
            self._parts.life.check()

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
        return self._parts.state

    @property
    def job_id(self) -> str:
        """The job's id; empty while it is unknown."""
        return self._start.job_id

    @property
    def chain(self) -> ChainWriter:
        """The writer of the job's chain, after the takeover."""
        return self._parts.state.chain

    @property
    def has_taken_over(self) -> bool:
        """Whether this driver has taken the job over: its takeover entry is stored, and no other has ended the job."""
        return self._start.phase is StartPhase.DONE and self._start.already_ended is None

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, and nothing is left from which it could continue."""
        return self._parts.termination.is_over

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs of the job whose files are this driver's to delete."""
        ended = self._start.already_ended
        return self.chain.runs if self.has_taken_over else () if ended is None else ended.runs

    @property
    def has_ended_for_good(self) -> bool:
        """Whether the end of the job is recorded: no driver recovers it."""
        return self._parts.termination.is_recorded or self._start.already_ended is not None

    @property
    def is_complete(self) -> bool:
        """Whether the job has ended, and has read all of its input in this run."""
        return self._parts.termination.is_complete

    @property
    def accumulators(self) -> Mapping[str, Mapping[str, StoredAccumulator]]:
        """The accumulators at the last completed checkpoint, by operator uid and name."""
        ended = self._start.already_ended
        return self._parts.state.snapshot.all_accumulators if ended is None else ended.accumulators

    @property
    def given_up(self) -> tuple[GivenUp, ...]:
        """The committables that the sinks' committers gave up, oldest first."""
        ended = self._start.already_ended
        return self._parts.state.ledger.given_up if ended is None or ended.commits is None else ended.commits.given_up

    @property
    def unread_splits(self) -> Mapping[str, int]:
        """The number of splits that finished readers left unread, by the uid of the source."""
        return unread_splits(self._parts.state.snapshot)

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
        check(self._parts)

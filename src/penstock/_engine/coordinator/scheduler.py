"""The progress of a job, which streams and batch jobs make in two ways, and what it shares with the job's life.

The life of a job is its start, its failures, its savepoints and its end. Progress is what a running job does in
between: Spark jobs one after the other, between two of which enumerators are called, and pauses while there is no
input. Both share the job's phase, the instructions that are given, and the answers that are still due. Source: Flink's
``SchedulerNG``, which a ``JobMaster`` drives without knowing whether the job is a stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.alarms import PauseOver
from penstock._engine.coordinator.phases import MOVES, RUNNING, STATUS, STOPPING, Phase
from penstock._engine.protocol.clocks import Moment
from penstock._engine.protocol.control import TaskFailure
from penstock.common.user_values import log_text
from penstock.errors import InternalError

if TYPE_CHECKING:
    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.commits.commits import CommitScheduler, OutputDelivery
    from penstock._engine.coordinator.epochs.job_state import JobState, PendingCheckpoint
    from penstock._engine.protocol.metadata import ChainEntry
    from penstock.common.job_status import JobStatus

#: The failure: an error of a user's function in a task, or an exception on the driver.
Cause: TypeAlias = TaskFailure | Exception

#: A void or lost epoch or stage runs again at once, this often in a row; after that it is a failure of the job.
MAX_ATTEMPTS: Final = 10


def text_of(cause: Cause | str) -> str:
    """Return the text of a failure for a chain entry or for the answer to a request."""
    return cause.error if isinstance(cause, TaskFailure) else log_text(str(cause))


class CoordinatorContext:
    """The state that the life of a job and its scheduler share: phase, outgoing instructions, unanswered calls.

    At most one *call* (an instruction that the driver answers before it takes the next event), one epoch, the naming of
    one savepoint, and one chain entry (`ChainWriter`) are unanswered at a time.
    """

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self.status: JobStatus = STATUS[Phase.STARTING]
        #: The time of the current event.
        self.now = Moment(0, 0)
        #: The number of restarts.
        self.job_attempt = 0
        #: Why the job fails or restarts; None while it runs.
        self.error: Cause | None = None
        self._instructions: list[do.Instruction] = []
        #: An instruction that the driver answers before it takes the next event.
        self.calling = False
        self.epoch_running = False
        #: Whether the savepoint that the job stops into is being named.
        self.saving = False

    @property
    def awaiting(self) -> bool:
        """Whether an answer is still due, beside that to a chain entry."""
        return self.calling or self.epoch_running or self.saving

    @property
    def is_stopping(self) -> bool:
        """Whether the job is being torn down and starts no new work."""
        return self.phase in STOPPING

    def go(self, phase: Phase) -> None:
        """Move on to a phase; raises InternalError when it cannot follow."""
        if phase not in MOVES[self.phase]:
            raise InternalError(f"A job cannot go from phase {self.phase.name} to {phase.name}.")
        self.phase = phase
        self.show(STATUS.get(phase, self.status))

    def show(self, status: JobStatus) -> None:
        """Show a status, when it is a new one."""
        if status is not self.status:
            self.status = status
            self.emit(do.ChangeStatus(status))

    def emit(self, *instructions: do.Instruction) -> None:
        """Give instructions."""
        self._instructions += instructions

    def report_failure(self, cause: Cause, checkpoint_id: int, *, counted: bool) -> None:
        """Report a failure of the epoch of a checkpoint."""
        self.emit(do.ReportFailure(cause, checkpoint_id, self.job_attempt, counted))

    def call(self, instruction: do.Instruction) -> None:
        """Give an instruction, and wait for its answer."""
        self.calling = True
        self._instructions.append(instruction)

    def taken(self) -> list[do.Instruction]:
        """Return the instructions that were given since the last call."""
        taken, self._instructions = self._instructions, []
        return taken


class StopStep(Enum):
    """What an answer about the savepoint of a stop leads to."""

    #: Nothing follows yet, or the answer is about another savepoint.
    NONE = auto()
    #: The savepoint is written, but not named: its checkpoint may complete.
    EXPORTED = auto()
    #: The savepoint could not be written: the checkpoint completes as a normal one, and the job continues.
    GIVEN_UP = auto()
    #: The savepoint of a drain could not be written: timers have fired and functions have finished, which is undone.
    UNDONE = auto()
    #: The savepoint exists.
    SAVED = auto()


class JobLife(Protocol):
    """The calls from a scheduler to the life of its job."""

    def fail(self, cause: Cause) -> None:
        """Fail the job because of an error: it restarts or ends."""

    def restart(self) -> None:
        """Restart from the last completed checkpoint at once, without a failure."""

    def cancel(self) -> None:
        """Tear the job down and end it as cancelled."""

    def terminate(self) -> None:
        """End the job: everything is committed and delivered, and checkpoint listeners are notified."""


@dataclass(frozen=True, slots=True)
class SchedulerParts:
    """The parts of a job that any scheduler is given."""

    context: CoordinatorContext
    state: JobState
    life: JobLife
    commits: CommitScheduler
    #: Delivers printed and collected records to the program.
    output: OutputDelivery


class CheckpointCoordinator(ABC):
    """The checkpoint of a job between its last input and its commit point, and what follows from it.

    Args:
        parts: The parts of the job. Once a checkpoint has completed, commits start and output is delivered.
    """

    def __init__(self, parts: SchedulerParts) -> None:
        self._context = parts.context
        self._state = parts.state
        self._commits = parts.commits
        self._output = parts.output
        #: What is to be in the next chain entry, up to the commit point.
        self.pending: PendingCheckpoint | None = None
        #: The pending checkpoint whose chain entry has no known outcome; the entry may turn out to be stored.
        self._lost_pending: PendingCheckpoint | None = None

    def reset(self) -> None:
        """Forget what was under way."""
        self.pending = None

    def completed(self, entry: ChainEntry) -> None:
        """Complete the pending checkpoint, whose chain entry is stored."""
        pending, self.pending = self.pending, None
        assert pending is not None
        self._complete(entry, pending)

    def lost(self) -> None:
        """Abandon the pending checkpoint, whose chain entry may or may not be stored."""
        self._lost_pending, self.pending = self.pending, None

    def found(self, entry: ChainEntry) -> None:
        """Complete the abandoned checkpoint if this entry, which was found on the chain, is its own."""
        lost, pending = self._state.chain.lost, self._lost_pending
        self.pending = None
        if lost is not None and pending is not None and lost.same_write(entry):
            self._complete(lost, pending)

    @abstractmethod
    def _complete(self, entry: ChainEntry, pending: PendingCheckpoint) -> None:
        """Take up the state of a completed checkpoint, start its commits and deliver its output."""


CheckpointsT_co = TypeVar("CheckpointsT_co", bound=CheckpointCoordinator, covariant=True)


class Scheduler(ABC, Generic[CheckpointsT_co]):
    """Makes the progress of one job: runs Spark jobs, between which the enumerators of the sources are called.

    Each implementation has a table of the events that it handles (`epochs.reactions`, `stages.reactions`). Its other
    public methods are the calls from the life of the job.

    Args:
        parts: What it is given of the job.
        checkpoints: Makes its checkpoints.
    """

    def __init__(self, parts: SchedulerParts, checkpoints: CheckpointsT_co) -> None:
        self._context = parts.context
        self._state = parts.state
        self._life = parts.life
        self._commits = parts.commits
        self._output = parts.output
        self._checkpoints = checkpoints
        #: The number of the present attempt at an epoch or stage.
        self._attempt = 1

    @abstractmethod
    def recover(self) -> None:
        """Continue from the last completed checkpoint."""

    def _redo(self) -> None:
        """Deliver and commit what the last completed checkpoint has left to do."""
        self._context.emit(*self._output.again())
        self._start_commits()

    def _start_commits(self) -> None:
        self._context.emit(*self._commits.start(self._context.phase, self._context.now.passed_ms))

    def interrupt(self) -> None:
        """Cancel what runs on Spark; a checkpoint whose chain entry is being written may still complete."""
        if self._context.epoch_running:
            self._context.emit(do.CancelEpoch())
        if self._state.chain.entry is None:
            self.reset()

    def reset(self) -> None:
        """Forget what was under way; no answer of it is due any more."""
        self._checkpoints.reset()
        self._attempt = 1

    @property
    def has_pending_checkpoint(self) -> bool:
        """Whether a checkpoint is between its last input and its commit point."""
        return self._checkpoints.pending is not None

    # ---------------------------------------------------------------------------------------------------- enumerators

    def _open(self) -> None:
        """Start the enumerators."""
        self._context.go(Phase.OPENING)
        self._context.call(do.StartEnumerators(self._state.sources.openings()))

    def assigned(self, assigned: ev.Assigned) -> None:
        """Note what enumerators assigned; this ends a pause."""
        if self._context.phase not in RUNNING:
            return
        self._state.sources.assigned(assigned)
        if self._context.phase is Phase.PAUSED and assigned:
            self._run()

    def splits_assigned(self, event: ev.SplitsAssigned) -> None:
        """Note the splits that an enumerator assigned outside of a call."""
        if self._context.phase is Phase.EPOCH:  # and not the one that these splits may begin
            self.hurry(at_once=False)
        self.assigned(event.assigned)

    def _settle(self, completed: int) -> None:
        """Notify the enumerators of a completed checkpoint, 0 for none, and deliver their readers' events."""
        self._context.go(Phase.NOTIFYING_SOURCES)
        deliveries = self._state.sources.deliver()
        if completed or deliveries:
            self._context.call(do.CallEnumerators(completed, deliveries))
        else:
            self._next()

    @abstractmethod
    def _next(self) -> None:
        """Continue once the enumerators have handled all deliveries."""

    # ----------------------------------------------------------------------------------------------------- a Spark job

    def _run_after(self, pause_ms: int) -> None:
        """Run the next Spark job after a pause."""
        if pause_ms:
            self._context.go(Phase.PAUSED)
            self._context.emit(do.SetAlarm(pause_ms, PauseOver()))
        else:
            self._run()

    def trigger_now(self, _: PauseOver | None = None) -> None:
        """End a pause, unless splits have arrived meanwhile or the job has failed."""
        if self._context.phase is Phase.PAUSED:
            self._run()

    def hurry(self, *, at_once: bool) -> None:
        """Let the next Spark job begin soon: end a pause, or let the sources of the running epoch read no further."""
        if self._context.phase is Phase.EPOCH:
            self._context.emit(do.EndEpoch(at_once))
        else:
            self.trigger_now()

    @abstractmethod
    def _run(self) -> None:
        """Run the next Spark job now, or once more."""

    def _run_again(self, what: str, error: Exception) -> None:
        """Run a lost or void epoch or stage again; this does not count as a restart."""
        self._state.retention.leftovers_possible(self._context.now.passed_ms)
        self._attempt += 1
        if self._attempt > MAX_ATTEMPTS:
            self._life.fail(error)
            return
        self._context.report_failure(error, self._state.chain.next_id, counted=False)
        self._context.emit(do.LogMessage(f"{what} runs again, attempt {self._attempt}", error))
        self._run()

    def epoch_failed(self, event: ev.EpochFailed) -> None:
        """Fail the job, because another attempt at the epoch or stage would fail as well."""
        self._context.epoch_running = False
        self._life.fail(event.error)

    def epoch_abandoned(self, _: ev.EpochEnded | ev.EpochLost | ev.EpochFailed | ev.ResultsLost) -> None:
        """Note the end of the epoch or stage of a job that is being torn down."""
        self._context.epoch_running = False

    # -------------------------------------------------------------------------------- the entries of its checkpoints

    @abstractmethod
    def entry_stored(self, entry: ChainEntry) -> None:
        """Continue after the commit point of a checkpoint."""

    def entry_lost(self) -> None:
        """Abandon a checkpoint whose chain entry has no known outcome; it may turn out to be stored."""
        self._checkpoints.lost()
        self._attempt = 1

    def entry_found(self, entry: ChainEntry) -> None:
        """Complete the abandoned checkpoint if this entry of this driver, which was found on the chain, is its own."""
        self._checkpoints.found(entry)
        self._attempt = 1

    def commits_moved(self) -> None:
        """Continue with what waited for a commit."""
        if self._context.phase is Phase.RECOVERING and not self._state.ledger:
            self._open()

    # ------------------------------------------------------------------------------------------------ a stop, the end

    def on_stop(self, step: StopStep) -> None:
        """Continue with a stop: EXPORTED, GIVEN_UP or SAVED. A batch job has none."""
        raise InternalError(f"A batch job was stopped with a savepoint: {step.name}.")

    @abstractmethod
    def check_finished(self) -> None:
        """End the job if it is about to, once everything is committed and delivered. Called after each event."""

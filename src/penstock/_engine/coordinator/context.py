"""The phase of a job, the instructions that its coordinator has given, and the answers that are still due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.instructions import (
    ChangeStatus,
    DeleteFiles,
    Instruction,
    PutChainEntry,
    ReportFailure,
    SetAlarm,
    SweepLeftovers,
)
from penstock._engine.coordinator.phases import MOVES, STATUS, STOPPING, Phase
from penstock._engine.protocol.clocks import Moment
from penstock.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator.checkpoints.chain import ChainWriter
    from penstock._engine.coordinator.checkpoints.retention import CheckpointRetention, Leftovers
    from penstock._engine.protocol.control import TaskFailure
    from penstock._engine.protocol.metadata import ChainEntry
    from penstock.common.job_status import JobStatus

#: A chain entry whose outcome is unknown is put again this often, each time after twice the pause.
MAX_RECORD_TRIES: Final = 5
RECORD_PAUSE_MS: Final = 200


class CoordinatorContext:
    """The state that the parts of a job's coordinator share: phase, outgoing instructions, alarms, unanswered calls.

    At most one *call* (an instruction that the driver answers before it takes the next event), one epoch, one chain
    entry and the naming of one savepoint are unanswered at a time.
    """

    #: Set by the takeover.
    chain: ChainWriter
    retention: CheckpointRetention

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self.status: JobStatus = STATUS[Phase.STARTING]
        #: The time of the current event.
        self.now = Moment(0, 0)
        #: The number of restarts.
        self.job_attempt = 0
        #: Why the job fails or restarts; None while it runs.
        self.error: TaskFailure | Exception | None = None
        self._instructions: list[Instruction] = []
        self._alarms: dict[int, Callable[[], None]] = {}
        self._next_alarm = 1
        #: An instruction that the driver answers before it takes the next event.
        self.calling = False
        self.epoch_running = False
        #: Whether the savepoint that the job stops into is being named.
        self.saving = False
        #: The entry between `put` and its answer.
        self.entry: ChainEntry | None = None
        #: The last chain entry without a known outcome; it may turn out to be stored.
        self.lost: ChainEntry | None = None
        self._entry_tries = 0

    @property
    def awaiting(self) -> bool:
        """Whether an answer is still due."""
        return self.calling or self.epoch_running or self.saving or self.entry is not None

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
            self.emit(ChangeStatus(status))

    def emit(self, *instructions: Instruction) -> None:
        """Give instructions."""
        self._instructions += instructions

    def report_failure(self, cause: TaskFailure | Exception, *, counted: bool) -> None:
        """Report a failure of the running epoch."""
        self.emit(ReportFailure(cause, self.chain.next_id, self.job_attempt, counted))

    def delete(self, leftovers: Leftovers) -> None:
        """Delete files that are not needed any more."""
        if leftovers:
            self.chain.claimed = tuple(path for path in self.chain.claimed if path not in leftovers.claimed)
            self.emit(DeleteFiles(self.chain.job_id, leftovers, self.chain.begins))

    def sweep(self) -> None:
        """Delete files that earlier drivers and attempts left behind."""
        chain, retention = self.chain, self.retention
        before = chain.next_id - 1
        self.emit(SweepLeftovers(chain.job_id, before, retention.checkpoints, retention.files, chain.begins))

    def call(self, instruction: Instruction) -> None:
        """Give an instruction, and wait for its answer."""
        self.calling = True
        self._instructions.append(instruction)

    def taken(self) -> list[Instruction]:
        """Return the instructions that were given since the last call."""
        taken, self._instructions = self._instructions, []
        return taken

    def alarm(self, delay_ms: int, react: Callable[[], None]) -> None:
        """Call a function after a delay."""
        self._alarms[self._next_alarm] = react
        self._instructions.append(SetAlarm(self._next_alarm, delay_ms))
        self._next_alarm += 1

    def ring(self, alarm: int) -> None:
        """Call the function of an alarm."""
        self._alarms.pop(alarm)()

    def put(self, entry: ChainEntry) -> None:
        """Put a chain entry."""
        self.entry, self._entry_tries = entry, 1
        self._instructions.append(PutChainEntry(entry))

    def put_again(self) -> bool:
        """Put the chain entry again after a pause; tell whether a try was left.

        It keeps its nonce, so it is recognized if an earlier try has stored it after all.
        """
        if self._entry_tries == MAX_RECORD_TRIES:
            self.lost, self.entry = self.entry, None
            return False
        self.alarm(RECORD_PAUSE_MS << (self._entry_tries - 1), self._repeat)
        self._entry_tries += 1
        return True

    def _repeat(self) -> None:
        assert self.entry is not None
        self._instructions.append(PutChainEntry(self.entry))

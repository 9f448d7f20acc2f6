"""The phase of a job, the instructions that its coordinator has given, and the answers that are still due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator.instructions import ChangeStatus, ReportFailure
from penstock._engine.coordinator.phases import MOVES, STATUS, STOPPING, Phase
from penstock._engine.protocol.clocks import Moment
from penstock.errors import InternalError

if TYPE_CHECKING:
    from penstock._engine.coordinator.instructions import Instruction
    from penstock._engine.protocol.control import TaskFailure
    from penstock.common.job_status import JobStatus


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
        self.error: TaskFailure | Exception | None = None
        self._instructions: list[Instruction] = []
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
            self.emit(ChangeStatus(status))

    def emit(self, *instructions: Instruction) -> None:
        """Give instructions."""
        self._instructions += instructions

    def report_failure(self, cause: TaskFailure | Exception, checkpoint_id: int, *, counted: bool) -> None:
        """Report a failure of the epoch of a checkpoint."""
        self.emit(ReportFailure(cause, checkpoint_id, self.job_attempt, counted))

    def call(self, instruction: Instruction) -> None:
        """Give an instruction, and wait for its answer."""
        self.calling = True
        self._instructions.append(instruction)

    def taken(self) -> list[Instruction]:
        """Return the instructions that were given since the last call."""
        taken, self._instructions = self._instructions, []
        return taken

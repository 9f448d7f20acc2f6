"""The common base of the schedulers: calls enumerators between two Spark jobs, and pauses while there is no input."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.phases import RUNNING, Phase
from penstock._engine.coordinator.scheduler import Scheduler

if TYPE_CHECKING:
    from penstock._engine.coordinator import events as ev
    from penstock._engine.coordinator.commits.commits import CommitScheduler
    from penstock._engine.coordinator.commits.output_delivery import OutputDelivery
    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.scheduler import JobLife

#: A void or lost epoch or stage runs again at once, this often in a row; after that it is a failure of the job.
MAX_ATTEMPTS: Final = 10


class SourceScheduler(Scheduler):
    """Runs Spark jobs, between which the enumerators of the sources are called.

    Args:
        context: The coordinator's context.
        state: The job's state.
        life: The life of the job.
        commits: The commits.
        output: Delivers printed and collected records to the program.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        state: JobState,
        life: JobLife,
        commits: CommitScheduler,
        output: OutputDelivery,
    ) -> None:
        self._context = context
        self._state = state
        self._life = life
        self._commits = commits
        self._output = output
        #: The number of the present attempt at an epoch or stage.
        self._attempt = 1

    def interrupt(self) -> None:
        """Cancel what runs on Spark; a checkpoint whose chain entry is being written may still complete."""
        if self._context.epoch_running:
            self._context.emit(do.CancelEpoch())
        if self._context.entry is None:
            self.reset()

    def _open(self) -> None:
        """Start the enumerators."""
        self._context.go(Phase.OPENING)
        openings = {uid: source.opening for uid, source in self._state.sources.items()}
        self._context.call(
            do.StartEnumerators({uid: opening for uid, opening in openings.items() if opening is not None})
        )

    def assigned(self, assigned: ev.Assigned) -> None:
        """Note what enumerators assigned; this ends a pause."""
        if self._context.phase not in RUNNING:
            return
        for uid, by_subtask in assigned.items():
            self._state.sources[uid].assigned(by_subtask)
        if self._context.phase is Phase.PAUSED and assigned:
            self._run()

    def splits_assigned(self, event: ev.SplitsAssigned) -> None:
        """Note the splits that an enumerator assigned outside of a call."""
        self.assigned(event.assigned)

    def _settle(self, completed: int) -> None:
        """Notify the enumerators of a completed checkpoint, 0 for none, and deliver their readers' events."""
        self._context.go(Phase.NOTIFYING_SOURCES)
        deliveries = {uid: source.deliver() for uid, source in self._state.sources.items()}
        heard = {uid: delivery for uid, delivery in deliveries.items() if delivery is not None}
        if completed or heard:
            self._context.call(do.CallEnumerators(completed, heard))
        else:
            self._next()

    @abstractmethod
    def _next(self) -> None:
        """Continue once the enumerators have handled all deliveries."""

    def _run_after(self, pause_ms: int) -> None:
        """Run the next Spark job after a pause."""
        if pause_ms:
            self._context.go(Phase.PAUSED)
            self._context.alarm(pause_ms, self.trigger_now)
        else:
            self._run()

    def trigger_now(self) -> None:
        """End a pause, unless splits have arrived meanwhile or the job has failed."""
        if self._context.phase is Phase.PAUSED:
            self._run()

    @abstractmethod
    def _run(self) -> None:
        """Run the next Spark job now."""

    def _run_again(self, what: str, error: Exception) -> None:
        """Run a lost or void epoch or stage again; this does not count as a restart."""
        self._context.retention.leftovers_possible(self._context.now.passed_ms)
        self._attempt += 1
        if self._attempt > MAX_ATTEMPTS:
            self._life.fail(error)
            return
        self._context.report_failure(error, counted=False)
        self._context.emit(do.LogMessage(f"{what} runs again, attempt {self._attempt}", error))
        self._repeat()

    def _repeat(self) -> None:
        """Run the same Spark job once more."""
        self._run()

    def epoch_failed(self, event: ev.EpochFailed) -> None:
        """Fail the job, because another attempt at the epoch or stage would fail as well."""
        self._context.epoch_running = False
        self._life.fail(event.error)

    def epoch_abandoned(self, _: ev.EpochEnded | ev.EpochLost | ev.EpochFailed) -> None:
        """Note the end of the epoch or stage of a job that is being torn down."""
        self._context.epoch_running = False
        self._life.check_stopped()

    def commits_moved(self) -> None:
        """Continue with what waited for a commit."""
        match self._context.phase:
            case Phase.RECOVERING if not self._state.ledger:
                self._open()
            case Phase.FINISHING:
                self.check_finished()
            case _ if self._context.is_stopping:
                self._life.check_stopped()
            case _:
                pass

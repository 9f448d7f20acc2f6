"""The main loop of one job: it takes events, asks the coordinator, and performs its instructions one by one.

`perform` is one step with an effect outside, so tests can stop between any two steps.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.failures import job_error
from penstock._engine.gateway.progress import JobFailure
from penstock.common.job_status import JobStatus
from penstock.common.process import tell
from penstock.common.redaction import hiding, shown_text
from penstock.common.user_values import error_line
from penstock.errors import EpochInfrastructureError, JobExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._engine.coordinator.job import JobCoordinator
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.checkpoints.checkpoint_store import CheckpointStore
    from penstock._engine.driver.checkpoints.savepoints import ClientRequests, SavepointFiles
    from penstock._engine.driver.checkpoints.start_lookups import StartLookups
    from penstock._engine.driver.client.other_drivers import OtherDrivers
    from penstock._engine.driver.client.results import Results
    from penstock._engine.driver.epochs.accumulators import AccumulatorMerger
    from penstock._engine.driver.epochs.committers import Committers
    from penstock._engine.driver.epochs.enumerators import Enumerators
    from penstock._engine.driver.epochs.execution import Epochs
    from penstock._engine.driver.mailbox import Clock, Mailbox
    from penstock._engine.driver.monitor.job_monitor import JobMonitor
    from penstock._engine.driver.stages.event_store import JobEventStore
    from penstock._engine.driver.stages.partitions import ResultPartitions
    from penstock._engine.gateway.progress import JobProgress, JobStatusListener
    from penstock._engine.protocol.clocks import Moment
    from penstock.errors import FailureLocation


_log = hiding(logging.getLogger("penstock"))

#: The tolerated difference of the two clocks between two looks: a system corrects its clock by up to 1/2000.
_LEAST_MS: Final = 500
_SLEW: Final = 1 / 1000


class ClockJumpDetector:
    """Compares the time of day with the monotonic clock, from one turn of the loop to the next.

    Args:
        job_name: The job, for messages.
        now: The moment of the job's start.
    """

    def __init__(self, job_name: str, now: Moment) -> None:
        self._job_name = job_name
        self._last = now

    def look(self, now: Moment) -> None:
        """Log a jump since the last look, once and with its size."""
        passed_ms = now.since(self._last)
        jump_ms = now.now_ms - self._last.now_ms - passed_ms
        self._last = now
        if abs(jump_ms) <= max(_LEAST_MS, passed_ms * _SLEW):
            return
        if jump_ms < 0:
            text = (
                "The machine's clock was set back by %.1f s; job %r continues, and its processing-time timers wait "
                "for it"
            )
        else:
            text = (
                "The machine's clock went ahead by %.1f s, or it slept; job %r continues, and processing time with it"
            )
        _log.warning(text, abs(jump_ms) / 1000, self._job_name)


class JobOutcome:
    """The end of a job."""

    def __init__(self, status: JobStatus, error: Exception | None, checkpoint: str | None) -> None:
        self.status = status
        #: The error for the program, for any end but FINISHED and CANCELED.
        self.error = error
        #: The path of the newest retained checkpoint, below the checkpoint directory.
        self.checkpoint = checkpoint


@dataclass(frozen=True, slots=True)
class Performers:
    """The parts of a driver that perform the coordinator's instructions."""

    #: What a start finds; checkpoint storage; sources; accumulators; sinks; epochs.
    lookups: StartLookups
    store: CheckpointStore
    enumerators: Enumerators
    merger: AccumulatorMerger
    committers: Committers
    epochs: Epochs
    #: Delivers output to the program.
    results: Results
    savepoints: SavepointFiles
    #: Answers requests for checkpoints, savepoints and stops.
    requests: ClientRequests
    #: The events of a batch job with recovery, and its stored results.
    job_events: JobEventStore
    partitions: ResultPartitions
    #: The other drivers of this user.
    drivers: OtherDrivers


class JobReports:
    """Performs the instructions that tell of the job: to its listeners, and in the log.

    Args:
        coordinator: Has the job's id, once it is known.
        job_name: The job.
        clock: Gives the moments of failures.
        listeners: Are notified of statuses and progress.
    """

    def __init__(
        self, coordinator: JobCoordinator, job_name: str, clock: Clock, listeners: Sequence[JobStatusListener] = ()
    ) -> None:
        self._coordinator = coordinator
        self._job_name = job_name
        self._clock = clock
        self.listeners = list(listeners)

    def change_status(self, instruction: do.ChangeStatus) -> None:
        """Tell a new status."""
        for listener in self.listeners:
            listener.on_status(instruction.status)

    def show_progress(self, instruction: do.PublishProgress | do.PublishGivenUp) -> None:
        """Tell new figures."""
        progress: JobProgress = instruction.progress
        for listener in self.listeners:
            listener.on_progress(progress)

    def note_failure(self, instruction: do.ReportFailure) -> None:
        """Tell a failure, which the job may survive."""
        error = job_error(instruction.cause, self._coordinator.job_id, self._job_name)
        place = _shown(error.place) if isinstance(error, JobExecutionError) else None
        reason = error.reason if isinstance(error, JobExecutionError) else error_line(error)
        failure = JobFailure(
            self._clock.now(),
            instruction.checkpoint_id,
            instruction.job_attempt,
            instruction.counted,
            shown_text(reason),
            place,
        )
        for listener in self.listeners:
            listener.on_failure(failure)

    def log(self, instruction: do.LogMessage) -> None:
        """Write to the log."""
        if instruction.error is None:
            tell(logging.WARNING if instruction.unexpected else logging.INFO, instruction.text, shown=instruction.shown)
            return
        error = job_error(instruction.error, self._coordinator.job_id, self._job_name)
        cause = error.__cause__
        # Where our code noticed that Spark lost an epoch says nothing.
        trace = None if isinstance(cause, EpochInfrastructureError) else cause
        _log.warning("%s: %s", instruction.text, error, exc_info=trace)


class Alarms:
    """The alarms that the coordinator has set.

    Args:
        clock: Its monotonic time counts.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._numbers = count()
        #: Monotonic time in milliseconds, number and event of each, the next one first.
        self._set: list[tuple[int, int, ev.Event]] = []

    def add(self, instruction: do.SetAlarm) -> None:
        """Set an alarm."""
        due_ms = self._clock.now().passed_ms + instruction.delay_ms
        heapq.heappush(self._set, (due_ms, next(self._numbers), instruction.event))

    @property
    def next_ms(self) -> int | None:
        """When the next one is due; None without any."""
        return self._set[0][0] if self._set else None

    def due(self) -> ev.Event | None:
        """Return the event of one that is due, and forget it; None if none is."""
        is_due = self._set and self._set[0][0] <= self._clock.now().passed_ms
        return heapq.heappop(self._set)[2] if is_due else None


class JobLoop:
    """Runs one job to its end.

    Args:
        coordinator: Decides.
        job_name: The job, for messages.
        mailbox: The inbox for events.
        performers: Perform what the coordinator decides.
        watch: Observes the job.
        background: The other threads.
        reports: Tell of the job.
    """

    def __init__(
        self,
        coordinator: JobCoordinator,
        job_name: str,
        mailbox: Mailbox,
        performers: Performers,
        *,
        watch: JobMonitor,
        background: BackgroundExecutor,
        reports: JobReports,
    ) -> None:
        self._coordinator = coordinator
        self._job_name = job_name
        self._mailbox = mailbox
        self._performers = performers
        self._background = background
        self._watch = watch
        self._reports = reports
        self._jumps = ClockJumpDetector(job_name, mailbox.clock.now())
        self._alarms = Alarms(mailbox.clock)
        #: The answers to instructions, which come before all letters, so that nothing happens in between.
        self._answers: deque[ev.Event] = deque()
        self._ending: JobOutcome | None = None
        self._handlers = self._handlers_of(performers)

    def _handlers_of(self, of: Performers) -> dict[type[Any], Callable[[Any], ev.Event | None]]:
        """Return who performs each instruction; all are performed, and answered, at once."""
        return {
            do.ListJobs: of.lookups.list_jobs,
            do.ReadMark: of.lookups.read_mark,
            do.RecordStart: of.lookups.record_start,
            do.FindLaterCheckpoint: of.lookups.find_later,
            do.ListChainEntries: of.lookups.list_entries,
            do.ReadChainEntry: of.lookups.read_entry,
            do.PutChainEntry: of.store.put_entry,
            do.AdoptGraph: of.epochs.adopt,
            do.CopyState: of.store.copy_state,
            do.StoreState: of.store.store_state,
            do.DeleteFiles: of.store.delete,
            do.SweepLeftovers: of.store.sweep_leftovers,
            do.StartEnumerators: of.enumerators.open,
            do.CallEnumerators: of.enumerators.call,
            do.SnapshotEnumerators: of.enumerators.snapshot,
            do.MergeAccumulators: of.merger.merge,
            do.CloseEnumerators: self._close_enumerators,
            do.RunEpoch: self._run_epoch,
            do.DeleteResults: of.store.delete_results,
            do.NotifyListeners: self._notify_listeners,
            do.ObserveEpoch: of.epochs.observe,
            do.CancelEpoch: self._cancel_epoch,
            do.EndEpoch: of.epochs.end_early,
            do.Commit: self._commit,
            do.HandOverRecords: of.committers.hand_over,
            do.DeliverOutputs: of.results.hand_over,
            do.WriteSavepoint: of.savepoints.write,
            do.CompleteSavepoint: of.savepoints.complete,
            do.DiscardSavepoint: of.savepoints.discard,
            do.AnswerSavepoint: of.requests.answer_savepoint,
            do.AnswerCheckpoint: of.requests.answer_checkpoint,
            do.FindDriver: of.drivers.find,
            do.FindJobEvents: of.job_events.find,
            do.SetAlarm: self._alarms.add,
            do.ClaimJobEvents: of.job_events.claim,
            do.RecordJobEvents: of.job_events.record,
            do.ListPartitions: of.partitions.list_partitions,
            do.ChangeStatus: self._reports.change_status,
            do.PublishProgress: self._reports.show_progress,
            do.PublishGivenUp: self._reports.show_progress,
            do.ReportFailure: self._reports.note_failure,
            do.LogMessage: self._reports.log,
            do.EndDriver: self._end,
        }

    @property
    def coordinator(self) -> JobCoordinator:
        """The coordinator, for the views of the job."""
        return self._coordinator

    def add_listener(self, listener: JobStatusListener) -> None:
        """Add a listener for statuses and progress, before the job runs."""
        self._reports.listeners.append(listener)

    def run(self) -> JobOutcome:
        """Run the job to its end."""
        try:
            self._perform_all(self._coordinator.begin(self._now))
            while self._ending is None:
                event, now = self._next_event(), self._now
                self._jumps.look(now)
                if event is not None:
                    self._watch.on_event(event)
                    self._perform_all(self._coordinator.handle(event, now))
                    self._watch.on_turn()
            return self._ending
        finally:
            self._background.close(wait=self._ending is not None and self._ending.status is not JobStatus.SUSPENDED)
            self._performers.committers.close()

    def perform(self, instruction: do.Instruction) -> None:
        """Perform one instruction of the coordinator."""
        self._watch.on_instruction(instruction)
        try:
            answer = self._handlers[type(instruction)](instruction)
        except Exception as error:  # noqa: BLE001 - storage or user code failed; the coordinator knows what follows
            answer = ev.InstructionFailed(error) if isinstance(instruction, do.ANSWERED) else ev.DriverFailed(error)
        if answer is not None:
            self._answers.append(answer)

    def _perform_all(self, instructions: Sequence[do.Instruction]) -> None:
        for instruction in instructions:
            self.perform(instruction)

    def _next_event(self) -> ev.Event | None:
        """Wait for an event: an answer, a due alarm, a letter, or the result of a call."""
        if self._answers:
            return self._answers.popleft()
        if (event := self._alarms.due()) is not None:
            return event
        letter = self._mailbox.receive(self._alarms.next_ms)
        return letter() if callable(letter) else letter

    @property
    def _now(self) -> Moment:
        return self._mailbox.clock.now()

    def _run_epoch(self, instruction: do.RunEpoch) -> None:
        self._performers.epochs.run(instruction, self._coordinator.chain)

    def _notify_listeners(self, instruction: do.NotifyListeners) -> None:
        self._performers.epochs.notify(instruction, self._coordinator.chain)

    def _cancel_epoch(self, _: do.CancelEpoch) -> None:
        self._performers.epochs.cancel()

    def _commit(self, instruction: do.Commit) -> None:
        self._performers.committers.commit(
            instruction, self._coordinator.chain, self._coordinator.restored_checkpoint_id
        )

    def _close_enumerators(self, instruction: do.CloseEnumerators) -> None:
        try:
            self._performers.enumerators.close(instruction)
        except Exception:  # noqa: BLE001 - the job continues without it
            _log.warning("An enumerator of job %r failed to close", self._job_name, exc_info=True)

    def _end(self, instruction: do.EndDriver) -> None:
        error = instruction.error
        shown = None if error is None else job_error(error, self._coordinator.job_id, self._job_name)
        self._ending = JobOutcome(instruction.status, shown, instruction.checkpoint)


def _shown(place: FailureLocation | None) -> FailureLocation | None:
    """Return where a function failed; secrets in its record and in its source lines are hidden."""
    if place is None:
        return None
    record, trace = (None if text is None else shown_text(text) for text in (place.record, place.traceback))
    return replace(place, operator_name=shown_text(place.operator_name), record=record, traceback=trace)

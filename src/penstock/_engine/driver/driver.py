"""One job in this process: its thread, its status and figures, and its control interface."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock import __version__
from penstock._engine.coordinator.events import CancelRequested
from penstock._engine.driver.client.signals import Interruption
from penstock._engine.driver.epochs.accumulators import values
from penstock._engine.driver.failures import job_error
from penstock._engine.driver.loop import JobOutcome
from penstock._engine.driver.stages.files import delete_of_runs
from penstock._engine.graph.job_graph import JobType
from penstock._engine.processes.given_up import note_given_up
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.paths import blobs_directory, frames_directory, staged_directory
from penstock._engine.storage.opening import options_for_tasks
from penstock._engine.storage.temporary import TemporaryStorage
from penstock._files.job_options import reaching_stores_by
from penstock.common.job_execution_result import GivenUpCommittables, JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.common.process import tell
from penstock.common.redaction import hiding
from penstock.errors import CheckpointStorageError, JobCancelledError

if TYPE_CHECKING:
    from penstock._engine.coordinator.job import JobCoordinator
    from penstock._engine.driver.checkpoints.savepoints import ClientRequests
    from penstock._engine.driver.client.results import Results
    from penstock._engine.driver.epochs.execution import Epochs
    from penstock._engine.driver.loop import JobLoop
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.driver.monitor.job_monitor import JobMonitor
    from penstock._engine.driver.stages.files import StageFiles
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.gateway.progress import JobFailure, JobProgress
    from penstock._engine.plan.epoch_plan import EpochRunner
    from penstock._engine.protocol.metadata import GivenUp
    from penstock._engine.storage.checkpoint_storage import FileStorage
    from penstock._engine.storage.local_state import LocalStateDirectory

_log = hiding(logging.getLogger("penstock"))

_UNREAD: Final = (
    "Splits left unread by %s: %d. Their readers ended the input themselves and finished before, and nothing has read "
    "the rest of them"
)


@dataclass(frozen=True, slots=True)
class RunCleanUp:
    """Ends what only one run of a job needed: deletes files, and closes functions."""

    run_id: str
    runner: EpochRunner
    coordinator: JobCoordinator
    storage: FileStorage
    epochs: Epochs
    stages: StageFiles
    local_state: LocalStateDirectory

    def delete_files(self) -> None:
        """Delete files, once the job has ended in this driver."""
        coordinator, storage = self.coordinator, self.storage
        is_batch = coordinator.state.plan.graph.job_type is JobType.BATCH
        self.local_state.remove()
        if self.epochs.has_stored:
            delete_of_runs(storage, coordinator, blobs_directory(coordinator.job_id))
        if coordinator.is_over or (is_batch and (coordinator.has_ended_for_good or not self.stages.recovers)):
            delete_of_runs(storage, coordinator, frames_directory(coordinator.job_id))
        if coordinator.is_over:
            delete_of_runs(storage, coordinator, staged_directory(coordinator.job_id))
        if is_batch:
            self.stages.clean_up(coordinator)
        if isinstance(storage, TemporaryStorage):
            storage.remove()

    def close_functions(self) -> None:
        """Close all functions; it takes as long as their close()."""
        self.epochs.close()
        self.runner.release(self.run_id)


class JobDriver:
    """Runs a job's loop on a thread of its own, and is its `JobControl`.

    Args:
        job_name: The job.
        mailbox: The inbox of the loop.
        results: The job's printed and collected output.
        requests: Takes requests for checkpoints, savepoints and a stop.
        watch: The monitor that keeps the job's view up to date.
        storage: The checkpoint storage; enumerators and committers reach object stores by its options.
        clean_up: Runs after the job has ended and before its result is set; functions are closed after stops are
            answered.
    """

    def __init__(
        self,
        job_name: str,
        mailbox: Mailbox,
        results: Results,
        requests: ClientRequests,
        *,
        watch: JobMonitor,
        storage: FileStorage,
        clean_up: RunCleanUp,
    ) -> None:
        self.job_name = job_name
        self.results = results
        #: Completed when the job has ended.
        self.result: Future[JobExecutionResult] = Future()
        #: The path of the newest retained checkpoint, for users; known when the job has ended.
        self.checkpoint: str | None = None
        self._mailbox = mailbox
        self._requests = requests
        self.watch = watch
        #: The effect of signals to this process on the job.
        self.interruption = Interruption(job_name, self)
        self._storage = storage
        self._clean_up = clean_up
        self._started = mailbox.clock.now()

    # ------------------------------------------------------------------------------------------- JobControl, any thread

    @property
    def status(self) -> JobStatus:
        """The status of the job."""
        return self.view.status

    @property
    def view(self) -> JobView:
        """The current view of the job."""
        return self.watch.view

    @property
    def progress(self) -> JobProgress:
        """The job's figures after its last epoch."""
        return self.view.progress

    @property
    def failures(self) -> tuple[JobFailure, ...]:
        """The last failures, oldest first, including those that the job survived."""
        return self.view.failures

    @property
    def job_id(self) -> str:
        """The job's id; waits until it is known."""
        self.watch.named.wait()
        return self.view.job_id

    def accumulators(self) -> dict[str, Any]:
        """Return the accumulators at the last completed checkpoint, by name."""
        return values(self.view.accumulators)

    def cancel(self) -> None:
        """Cancel the job; does nothing if it has ended."""
        self._mailbox.post(CancelRequested())

    @property
    def savepoint_directory(self) -> str | None:
        """The directory of savepoints if a request names none; None if it is not configured."""
        return self._requests.default

    @property
    def stopping(self) -> tuple[str, Future[str]] | None:
        """The first unanswered stop: its savepoint's path, and its future."""
        return self._requests.stopping

    @property
    def savepoints(self) -> frozenset[str]:
        """The paths of the savepoints that the job has made in this process."""
        return frozenset(self._requests.made)

    def savepoint(
        self, directory: str | None, stop: StopMode, timeout_ms: int | None = None, no_links_below: str | None = None
    ) -> Future[str]:
        """Request a savepoint; the future has its path once it is complete and, with a stop, the job has stopped."""
        return self._requests.savepoint(self.job_id, directory, stop, timeout_ms, no_links_below)

    def cancel_with_savepoint(self, directory: str | None, *, no_links_below: str | None = None) -> Future[str]:
        """Stop the job with a savepoint and end it as cancelled; the future has the savepoint's path."""
        return self.savepoint(directory, StopMode.CANCEL, no_links_below=no_links_below)

    def trigger_checkpoint(self) -> Future[int]:
        """Request a checkpoint; the future has its id once it has completed."""
        return self._requests.checkpoint()

    # ------------------------------------------------------------------------------------------------------- the thread

    def start(self, loop: JobLoop) -> None:
        """Run the loop on a thread of its own."""
        threading.Thread(target=self.run, args=(loop,), name=f"penstock-{self.job_name}", daemon=True).start()

    def run(self, loop: JobLoop) -> None:
        """Run the loop on this thread, to the end of the job."""
        self._started = self._mailbox.clock.now()
        _log.info("Penstock %s starts job %r", __version__, self.job_name)
        try:
            with reaching_stores_by(options_for_tasks(self._storage.options)):
                ending = loop.run()
        except BaseException as error:  # whatever it is, it must reach the code that waits for the result
            if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
                raise  # there nobody waits, and Ctrl-C or an exit is for the program
            _log.exception("Job %r failed with an internal error", self.job_name)
            ending = JobOutcome(JobStatus.FAILED, job_error(error, self.view.job_id, self.job_name), None)
        try:
            self._clean_up.delete_files()
        except (OSError, CheckpointStorageError) as error:
            _log.warning("Cleaning up after job %r failed: %s", self.job_name, error)
        try:
            self._finish(ending)
        except Exception as error:  # noqa: BLE001 - the program waits for the result, whatever happens here
            _log.exception("The end of job %r failed with an internal error", self.job_name)
            if not self.result.done():
                self.result.set_exception(job_error(error, self.view.job_id, self.job_name))

    def _finish(self, ending: JobOutcome) -> None:
        if ending.checkpoint is not None:
            self.checkpoint = self._storage.lasting_path(ending.checkpoint)
        error = ending.error
        if ending.status is JobStatus.CANCELED:
            error = JobCancelledError(self.view.job_id, self.job_name, self.checkpoint)
        self.watch.ended(ending.status, error)
        savepoint = self._requests.end(ending.status.name)
        self._clean_up.close_functions()
        self.results.end(error)
        self._say_end(ending.status.name, savepoint)
        if error is not None:
            self.result.set_exception(error)
        else:
            runtime_ms = self._mailbox.clock.now().since(self._started)
            job_id, late = JobID(self.view.job_id), self.view.late_records_by_name
            given_up = tuple(map(_given_up, self.view.given_up))
            for entry in given_up:
                note_given_up(self.job_name, entry)
            unread = self.view.unread_splits_by_name
            for name, count in unread.items():
                _log.warning(_UNREAD, name, count)
            self.result.set_result(
                JobExecutionResult(
                    job_id,
                    runtime_ms,
                    self.accumulators(),
                    late,
                    given_up,
                    unread,
                    job_name=self.job_name,
                    records=self.progress.records,
                    epochs=self.progress.epochs,
                )
            )

    def _say_end(self, status: str, savepoint: str | None) -> None:
        """Log the end; a stop that a client asked for is said in any log, as one by a signal is."""
        text = f"Job {self.job_name!r} ({self.view.job_id}) ended: {status}"
        if savepoint is not None:
            text += f", stopped with savepoint {savepoint}"
        tell(logging.INFO, text, shown=savepoint is not None and not self.interruption.number)


def _given_up(entry: GivenUp) -> GivenUpCommittables:
    first, last = entry.first_checkpoint_id, entry.last_checkpoint_id
    return GivenUpCommittables(entry.name, entry.uid, first, last, entry.count, entry.reason)

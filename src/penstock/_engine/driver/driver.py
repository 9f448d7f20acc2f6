"""One job in this process: its thread, its status and figures, and the ways to ask and to steer it."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from penstock import __version__
from penstock._engine.coordinator.events import CancelRequested
from penstock._engine.driver.client.signals import Interruption
from penstock._engine.driver.epochs.accumulators import values
from penstock._engine.driver.failures import job_error
from penstock._engine.driver.loop import JobOutcome
from penstock._engine.gateway.given_up import note_given_up
from penstock._engine.protocol.control import StopMode
from penstock.common.job_execution_result import GivenUpCommittables, JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointStorageError, JobCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.checkpoints.requests import ClientRequests
    from penstock._engine.driver.client.results import Results
    from penstock._engine.driver.loop import JobLoop
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.driver.monitor.job_monitor import JobMonitor
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.gateway.progress import JobFailure, JobProgress
    from penstock._engine.protocol.metadata import GivenUp

_log = logging.getLogger("penstock")

_UNREAD: Final = (
    "Splits left unread by %s: %d. Their readers ended the input themselves and finished before, and nothing has read "
    "the rest of them"
)


class JobDriver:
    """Runs a job's loop on a thread of its own, and is its `JobControl`.

    Args:
        job_name: The job.
        mailbox: Where the loop listens.
        results: What the job prints and collects.
        requests: Takes requests for checkpoints, savepoints and a stop.
        watch: Keeps the job's view up to date.
        full_path: Turns a path below the checkpoint directory into one for people; None where that directory goes
            with the job.
        clean_up: Runs when the job has ended, before anybody hears of it: removes what only this run of it needed.
        close_functions: Runs before the job has its result; it takes as long as the functions do, and whoever asked for
            a stop has heard by then.
    """

    def __init__(
        self,
        job_name: str,
        mailbox: Mailbox,
        results: Results,
        requests: ClientRequests,
        *,
        watch: JobMonitor,
        full_path: Callable[[str], str] | None,
        clean_up: Callable[[], None],
        close_functions: Callable[[], None],
    ) -> None:
        self.job_name = job_name
        self.results = results
        #: Completed when the job has ended.
        self.result: Future[JobExecutionResult] = Future()
        #: The newest checkpoint that was kept, for people; known when the job has ended.
        self.checkpoint: str | None = None
        self._mailbox = mailbox
        self._requests = requests
        self.watch = watch
        #: What signals to this process have done to the job.
        self.interruption = Interruption(job_name, self)
        self._full_path = full_path
        self._clean_up = clean_up
        self._close_functions = close_functions
        self._started = mailbox.clock.now()

    # ------------------------------------------------------------------------------------------- JobControl, any thread

    @property
    def status(self) -> JobStatus:
        """Where the job stands."""
        return self.view.status

    @property
    def view(self) -> JobView:
        """The job as it is now."""
        return self.watch.view

    @property
    def progress(self) -> JobProgress:
        """The job's figures after its last epoch."""
        return self.view.progress

    @property
    def failures(self) -> tuple[JobFailure, ...]:
        """The last failures, oldest first, those included that the job went on after."""
        return self.view.failures

    @property
    def job_id(self) -> str:
        """The job's id; waits while it is being looked for."""
        self.watch.named.wait()
        return self.view.job_id

    def accumulators(self) -> dict[str, Any]:
        """Return what the job has counted up to its last completed checkpoint, by name."""
        return values(self.view.accumulators)

    def cancel(self) -> None:
        """Ask for the job to be cancelled; asking an ended job changes nothing."""
        self._mailbox.post(CancelRequested())

    @property
    def savepoint_directory(self) -> str | None:
        """The directory of savepoints that are asked for without one; None where it is not configured."""
        return self._requests.default

    @property
    def stopping(self) -> tuple[str, Future[str]] | None:
        """The stop that was asked for first and is not answered: its savepoint's path, and its future."""
        return self._requests.stopping

    def savepoint(self, directory: str | None, stop: StopMode, timeout_ms: int | None = None) -> Future[str]:
        """Ask for a savepoint; the future has its path once it is complete, and the job has stopped if it was to."""
        return self._requests.savepoint(self.job_id, directory, stop, timeout_ms)

    def cancel_with_savepoint(self, directory: str | None) -> Future[str]:
        """Ask the job to stop with a savepoint and to end as cancelled; the future has the savepoint's path."""
        return self.savepoint(directory, StopMode.CANCEL)

    def trigger_checkpoint(self) -> Future[int]:
        """Ask for a checkpoint now; the future has its id once it has completed."""
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
            ending = loop.run()
        except Exception as error:  # noqa: BLE001 - a bug of ours must reach the code that waits for the result
            _log.exception("Job %r failed with an internal error", self.job_name)
            ending = JobOutcome(JobStatus.FAILED, job_error(error, self.view.job_id, self.job_name), None)
        try:
            self._clean_up()
        except (OSError, CheckpointStorageError) as error:
            _log.warning("Cleaning up after job %r failed: %s", self.job_name, error)
        try:
            self._finish(ending)
        except Exception as error:  # noqa: BLE001 - the program waits for the result, whatever happens here
            _log.exception("The end of job %r failed with an internal error", self.job_name)
            if not self.result.done():
                self.result.set_exception(job_error(error, self.view.job_id, self.job_name))

    def _finish(self, ending: JobOutcome) -> None:
        if ending.checkpoint is not None and self._full_path is not None:
            self.checkpoint = self._full_path(ending.checkpoint)
        error = ending.error
        if ending.status is JobStatus.CANCELED:
            error = JobCancelledError(self.view.job_id, self.job_name, self.checkpoint)
        self.watch.ended(ending.status, error)
        self._requests.end(ending.status.name)
        self._close_functions()
        self.results.end(error)
        _log.info("Job %r (%s) ended: %s", self.job_name, self.view.job_id, ending.status.name)
        if error is not None:
            self.result.set_exception(error)
        else:
            runtime_ms = self._mailbox.clock.now().since(self._started)
            job_id, late = JobID(self.view.job_id), self.view.late_records_by_name
            given_up = tuple(map(_told, self.view.given_up))
            note_given_up(self.job_name, given_up)
            unread = self.view.unread_splits_by_name
            for name, count in unread.items():
                _log.warning(_UNREAD, name, count)
            self.result.set_result(JobExecutionResult(job_id, runtime_ms, self.accumulators(), late, given_up, unread))


def _told(entry: GivenUp) -> GivenUpCommittables:
    first, last = entry.first_checkpoint_id, entry.last_checkpoint_id
    return GivenUpCommittables(entry.name, entry.uid, first, last, entry.count, entry.reason)

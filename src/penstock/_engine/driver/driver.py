"""One job in this process: its thread, its status and figures, and the ways to ask and to steer it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING

from penstock import __version__
from penstock._engine.coordinator.events import CancelRequested
from penstock._engine.driver.failures import job_error
from penstock._engine.driver.loop import Ending
from penstock._engine.driver.signals import Interruption
from penstock._engine.gateway.progress import JobFailure, JobProgress
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.errors import JobCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.loop import JobLoop
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.driver.results import Results
    from penstock._engine.driver.savepoints import Savepoints
    from penstock._engine.protocol.control import Stop

_log = logging.getLogger("penstock")


class JobDriver:
    """Runs a job's loop on a thread of its own, and is its `JobControl`.

    Args:
        job_name: The job.
        mailbox: Where the loop listens.
        results: What the job prints and collects.
        savepoints: Takes requests for savepoints.
        full_path: Turns a path below the checkpoint directory into one for people; None where that directory goes
            with the job.
        failures_kept: How many of its last failures can be asked for.
        clean_up: Runs when the job has ended: removes what it needed in this process and on the local disk.
    """

    def __init__(
        self,
        job_name: str,
        mailbox: Mailbox,
        results: Results,
        savepoints: Savepoints,
        *,
        full_path: Callable[[str], str] | None,
        failures_kept: int,
        clean_up: Callable[[Ending], None],
    ) -> None:
        self.job_name = job_name
        self.results = results
        #: Completed when the job has ended.
        self.result: Future[JobExecutionResult] = Future()
        #: The newest checkpoint that was kept, for people; known when the job has ended.
        self.checkpoint: str | None = None
        self._mailbox = mailbox
        self._savepoints = savepoints
        #: What signals to this process have done to the job.
        self.interruption = Interruption(self)
        self._full_path = full_path
        self._clean_up = clean_up
        self._status = JobStatus.INITIALIZING
        self._progress = JobProgress()
        self._failures: deque[JobFailure] = deque(maxlen=failures_kept)
        self._named = threading.Event()
        self._job_id = ""
        self._started_ms = 0
        self._loop: JobLoop | None = None

    # ------------------------------------------------------------------------------------------- JobControl, any thread

    @property
    def status(self) -> JobStatus:
        """Where the job stands."""
        return self._status

    @property
    def progress(self) -> JobProgress:
        """The job's figures after its last epoch."""
        return self._progress

    @property
    def failures(self) -> tuple[JobFailure, ...]:
        """The last failures, oldest first, those included that the job went on after."""
        return tuple(self._failures)

    @property
    def job_id(self) -> str:
        """The job's id; waits while it is being looked for."""
        self._named.wait()
        return self._job_id

    def cancel(self) -> None:
        """Ask for the job to be cancelled; asking an ended job changes nothing."""
        self._mailbox.post(CancelRequested())

    @property
    def savepoint_directory(self) -> str | None:
        """Where savepoints go that name no directory; None where nobody said."""
        return self._savepoints.default

    def savepoint(self, directory: str | None, stop: Stop) -> Future[str]:
        """Ask for a savepoint; the future has its path once it is complete, and the job has stopped if it was to."""
        return self._savepoints.request(self.job_id, directory, stop)

    # ----------------------------------------------------------------------------------------- JobListener, on the loop

    def on_status(self, status: JobStatus) -> None:
        """Take note of a new status; a terminal one shows when the job's result is there as well."""
        self._learn_job_id()
        if not status.is_terminal_state():
            self._status = status

    def on_progress(self, progress: JobProgress) -> None:
        """Take note of an epoch that counted."""
        self._progress = progress

    def on_failure(self, failure: JobFailure) -> None:
        """Keep a failure."""
        self._failures.append(failure)

    def _learn_job_id(self) -> None:
        if self._loop is not None and self._loop.coordinator.job_id:
            self._job_id = self._loop.coordinator.job_id
            self._named.set()

    # ------------------------------------------------------------------------------------------------------- the thread

    def start(self, loop: JobLoop) -> None:
        """Run the loop on a thread of its own."""
        threading.Thread(target=self.run, args=(loop,), name=f"penstock-{self.job_name}", daemon=True).start()

    def run(self, loop: JobLoop) -> None:
        """Run the loop on this thread, to the end of the job."""
        self._loop = loop
        self._started_ms = self._mailbox.clock.now_ms()
        _log.info("Penstock %s starts job %r", __version__, self.job_name)
        try:
            ending = loop.run()
        except Exception as error:  # noqa: BLE001 - a bug of ours must reach whoever waits for the result
            _log.exception("Job %r broke off", self.job_name)
            ending = Ending(JobStatus.FAILED, job_error(error, self._job_id, self.job_name), None)
        self._named.set()
        try:
            self._clean_up(ending)
        except OSError as error:
            _log.warning("Cleaning up after job %r failed: %s", self.job_name, error)
        self._finish(ending)

    def _finish(self, ending: Ending) -> None:
        if ending.checkpoint is not None and self._full_path is not None:
            self.checkpoint = self._full_path(ending.checkpoint)
        error = ending.error
        if ending.status is JobStatus.CANCELED:
            error = JobCancelledError(self._job_id, self.job_name, self.checkpoint)
        self._status = ending.status
        self._savepoints.end(ending.status.name)
        self.results.end(error)
        _log.info("Job %r (%s) ended: %s", self.job_name, self._job_id, ending.status.name)
        if error is not None:
            self.result.set_exception(error)
        else:
            runtime_ms = self._mailbox.clock.now_ms() - self._started_ms
            self.result.set_result(JobExecutionResult(JobID(self._job_id), runtime_ms))

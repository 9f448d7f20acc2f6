"""The client of a job that a program has started."""

from __future__ import annotations

import math
import time
from concurrent import futures
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from penstock._engine.driver.client.signals import SIGNAL_POLL_S, ending_on_signals
from penstock._engine.protocol.control import StopMode
from penstock.common.completable_future import CompletableFuture
from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.common.notebook import table
from penstock.errors import JobStoppedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.driver.driver import JobDriver
    from penstock.common.job_execution_result import JobExecutionResult
    from penstock.common.job_status import JobStatus
    from penstock.common.time import Duration


class JobHandle:
    """A job that was submitted."""

    def __init__(self, driver: JobDriver) -> None:
        self._driver = driver
        self.client: JobClient = DriverJobClient(driver)

    def finish(self) -> None:
        """Wait until the job has read all of its input.

        Raises:
            JobExecutionError: The job has failed.
            JobCancelledError: The job was cancelled.
            JobStoppedError: The job was stopped before.
        """
        self.client.get_job_execution_result().result()
        view = self._driver.view
        if not view.is_complete:
            raise JobStoppedError(view.job_id, view.name)

    def results(self, uid: str) -> Iterator[Any]:
        """Yield the records of a collecting operator; those of an epoch appear once its checkpoint has completed.

        Raises:
            JobExecutionError: The job has failed; raised after the earlier records.
            JobCancelledError: The job was cancelled.
        """
        while True:
            with ending_on_signals(
                self._driver.interruption
            ):  # only while waiting: between two records the program has Ctrl-C
                block = self._driver.results.next_block(uid)
            if block is None:
                return
            yield from block


class DriverJobClient(JobClient):
    """The client of a job that runs in this process."""

    def __init__(self, driver: JobDriver) -> None:
        self._driver = driver

    def get_job_id(self) -> JobID:
        """Return the id of the job."""
        return JobID(self._driver.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return the status of the job."""
        return CompletableFuture.completed(self._driver.status)

    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job; the future completes when it has ended in any way."""
        ended: Future[None] = Future()

        def answer(_: Future[JobExecutionResult]) -> None:
            if ended.set_running_or_notify_cancel():
                ended.set_result(None)

        self._driver.result.add_done_callback(answer)
        self._driver.cancel()
        return CompletableFuture(ended)

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        *,
        timeout: Duration | None = None,
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint; the future has its path once the job has stopped."""
        stop = StopMode.DRAIN if advance_to_end_of_event_time else StopMode.SUSPEND
        timeout_ms = None if timeout is None else timeout.to_millis()
        return CompletableFuture(self._driver.savepoint(savepoint_directory, stop, timeout_ms))

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Stop the job with a savepoint and end it as cancelled; the future has the savepoint's path after the end."""
        return CompletableFuture(self._driver.cancel_with_savepoint(savepoint_directory))

    def trigger_checkpoint(self) -> CompletableFuture[int]:
        """Request a checkpoint; the future has its id once it has completed."""
        return CompletableFuture(self._driver.trigger_checkpoint())

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Request a savepoint; the future has its path once it is complete. The job continues."""
        return CompletableFuture(self._driver.savepoint(savepoint_directory, StopMode.NO))

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return the values of the accumulators so far."""
        return CompletableFuture.completed(self._driver.accumulators())

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the result; the future completes when the job has ended."""
        return _JobResult(self._driver)

    def _repr_html_(self) -> str:
        """Return the job as it is now as a table, for notebooks."""
        view, progress = self._driver.view, self._driver.progress
        rows = [
            ("id", view.job_id or "not known yet"),
            ("status", view.status.name),
            ("records read", f"{progress.records:,}"),
            ("epochs", f"{progress.epochs:,}"),
            ("last checkpoint", str(progress.checkpoint_id or "none")),
            ("restarts", f"{progress.restarts:,}"),
            ("late records dropped", f"{progress.late_records:,}"),
            ("committables given up", f"{progress.given_up:,}"),
        ]
        return table(f"Job {self._driver.job_name!r}", (), rows)


class _JobResult(CompletableFuture["JobExecutionResult"]):
    """A job's result; while the main thread waits for it, Ctrl-C ends the job."""

    def __init__(self, driver: JobDriver) -> None:
        super().__init__(driver.result)
        self._driver = driver

    def result(self, timeout: float | None = None) -> JobExecutionResult:
        """Wait for the job to end, and return its result."""
        with ending_on_signals(self._driver.interruption):
            self._wait(math.inf if timeout is None else timeout)
            return super().result(0)

    def _wait(self, timeout_s: float) -> None:
        end_s = time.monotonic() + timeout_s
        while not self.done() and (left_s := end_s - time.monotonic()) > 0:
            futures.wait([self._driver.result], min(left_s, SIGNAL_POLL_S))

"""JobClient: the client of a job that the program has started (``pyflink.common.job_client``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock._absent import explain

if TYPE_CHECKING:
    from penstock.common.completable_future import CompletableFuture
    from penstock.common.job_execution_result import JobExecutionResult
    from penstock.common.job_id import JobID
    from penstock.common.job_status import JobStatus
    from penstock.common.time import Duration

__all__ = ["JobClient"]


class JobClient(ABC):
    """A job that was started by ``execute_async``.

    Every method returns a future and never blocks. The client also works after the end of the job.

    Source: org.apache.flink.core.execution.JobClient.
    """

    @abstractmethod
    def get_job_id(self) -> JobID:
        """Return the id of the job."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return the status of the job."""

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job; the future completes when the job has ended, with any status.

        In Flink, the future completes when the request was accepted.
        """

    @abstractmethod
    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        *,
        timeout: Duration | None = None,
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint.

        Args:
            advance_to_end_of_event_time: True drains: the last watermark fires every event-time timer and window, so
                the savepoint is for a job whose input has ended. False suspends: the job can continue from the
                savepoint.
            savepoint_directory: Where the savepoint goes; ``execution.checkpointing.savepoint-dir`` when left out.
            timeout: The longest wait for the stop (not in Flink); unlimited by default. After it the job is cancelled,
                and the future has a :class:`penstock.errors.StopTimeoutError`, which names the running subtasks.

        Returns:
            The path of the savepoint, when the job has ended.
        """

    @abstractmethod
    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Suspend the job with a savepoint, and end it as cancelled.

        Not in PyFlink; the counterpart of ``flink cancel -s``. All output up to the savepoint is committed, and nothing
        after it.

        Args:
            savepoint_directory: Where the savepoint goes; ``execution.checkpointing.savepoint-dir`` when left out.

        Returns:
            The path of the savepoint, when the job has ended.
        """

    @abstractmethod
    def trigger_checkpoint(self) -> CompletableFuture[int]:
        """Request a checkpoint now; the job continues. Not in PyFlink.

        The checkpoint of a running epoch answers the request; otherwise the next epoch begins at once.

        Returns:
            The id of the checkpoint, when it has completed.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Request a savepoint; the job continues.

        Args:
            savepoint_directory: Where the savepoint goes; ``execution.checkpointing.savepoint-dir`` when left out.

        Returns:
            The path of the savepoint, when it is complete.
        """

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return the values of the accumulators by name, as of the last completed checkpoint.

        See :mod:`penstock.common.accumulators`. Each value is a copy.
        """

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the result; the future completes when the job has ended.

        For a failed job the future has a :class:`penstock.errors.JobExecutionError`, for a cancelled one a
        :class:`penstock.errors.JobCancelledError`.
        """


explain(__name__)

"""JobClient: what a program can ask of a job that it has started (``pyflink.common.job_client``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.common.completable_future import CompletableFuture
    from penstock.common.job_execution_result import JobExecutionResult
    from penstock.common.job_id import JobID
    from penstock.common.job_status import JobStatus
    from penstock.common.time import Duration

__all__ = ["JobClient"]


class JobClient(ABC):
    """A job that was started by ``execute_async``.

    Every question is answered by a future, and asking never blocks. A job that has ended keeps answering.

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
        """Ask for the job to be cancelled; the answer comes when the job has ended, whatever its last status is.

        Flink answers when the request has been taken.
        """

    @abstractmethod
    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        *,
        timeout: Duration | None = None,
    ) -> CompletableFuture[str]:
        """Ask for the job to stop with a savepoint.

        Args:
            advance_to_end_of_event_time: True drains: the last watermark fires every event-time timer and window, and
                the job cannot continue from the savepoint as if nothing had been. False suspends: the job can continue.
            savepoint_directory: Where the savepoint goes; ``execution.checkpointing.savepoint-dir`` when left out.
            timeout: How long to wait for the job, ours; for ever when left out. A job that has not stopped by then is
                cancelled, and the answer is a :class:`penstock.errors.StopTimeoutError` that names the subtasks which
                were still at work.

        Returns:
            The path of the savepoint, when the job has ended.
        """

    @abstractmethod
    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Ask for the job to stop with a savepoint, as a suspend does, and to end as cancelled.

        Ours, for what was ``flink cancel -s``. Everything up to the savepoint is committed, and nothing after it.

        Args:
            savepoint_directory: Where the savepoint goes; ``execution.checkpointing.savepoint-dir`` when left out.

        Returns:
            The path of the savepoint, when the job has ended.
        """

    @abstractmethod
    def trigger_checkpoint(self) -> CompletableFuture[int]:
        """Ask for a checkpoint now, ours; the job keeps running.

        An epoch that runs already is the one; else the next one begins at once, whatever the interval.

        Returns:
            The id of the checkpoint, when it has completed.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Ask for a savepoint while the job keeps running.

        Args:
            savepoint_directory: Where the savepoint goes; ``execution.checkpointing.savepoint-dir`` when left out.

        Returns:
            The path of the savepoint, when it is complete.
        """

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Ask for the values of the accumulators by name, as they are in the last completed checkpoint.

        See :mod:`penstock.common.accumulators`. Each value is a copy.
        """

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Ask for the result; the answer comes when the job has ended.

        A job that failed answers with :class:`penstock.errors.JobExecutionError`, one that was cancelled with
        :class:`penstock.errors.JobCancelledError`.
        """

"""The control interface of a running job, which the driver implements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.gateway.progress import JobFailure, JobProgress
    from penstock._engine.protocol.control import StopMode
    from penstock.common.job_status import JobStatus


class JobControl(Protocol):
    """The control interface of one job, for clients, REST handlers and signals on any thread."""

    @property
    def job_name(self) -> str:
        """The name of the job."""
        ...

    @property
    def job_id(self) -> str:
        """The job's id; waits until it is known."""
        ...

    @property
    def status(self) -> JobStatus:
        """The status of the job."""
        ...

    @property
    def progress(self) -> JobProgress:
        """The job's figures after its last epoch."""
        ...

    @property
    def view(self) -> JobView:
        """The current view of the job, at no cost."""
        ...

    @property
    def checkpoint(self) -> str | None:
        """The path of the newest retained checkpoint, for users; known when the job has ended."""
        ...

    @property
    def savepoint_directory(self) -> str | None:
        """The directory of savepoints if a request names none; None if it is not configured."""
        ...

    @property
    def stopping(self) -> tuple[str, Future[str]] | None:
        """The first unanswered stop: its savepoint's path, and its future."""
        ...

    @property
    def failures(self) -> tuple[JobFailure, ...]:
        """The last failures, oldest first, including those that the job survived."""
        ...

    @property
    def savepoints(self) -> frozenset[str]:
        """The paths of the savepoints that the job has made in this process."""
        ...

    def savepoint(
        self, directory: str | None, stop: StopMode, timeout_ms: int | None = None, no_links_below: str | None = None
    ) -> Future[str]:
        """Request a savepoint; the future has its path once it is complete and, with a stop, the job has stopped.

        Args:
            directory: Where its directory is made; ``execution.checkpointing.savepoint-dir`` when left out.
            stop: Whether, and how, the job stops with it.
            timeout_ms: Milliseconds after which a job that has not stopped is cancelled: the future then has a
                StopTimeoutError, which names the subtasks that were still at work.
            no_links_below: No part of the directory behind this one may be a link; None lets all of them be.
        """
        ...

    def cancel_with_savepoint(self, directory: str | None, *, no_links_below: str | None = None) -> Future[str]:
        """Stop the job with a savepoint and end it as cancelled; the future has the savepoint's path after the end.

        The job reads nothing after the savepoint, and commits all output up to it first.

        Args:
            directory: Where its directory is made; ``execution.checkpointing.savepoint-dir`` when left out.
            no_links_below: No part of the directory behind this one may be a link; None lets all of them be.
        """
        ...

    def trigger_checkpoint(self) -> Future[int]:
        """Request a checkpoint; the future has its id once it has completed.

        A running epoch answers the request, because its checkpoint covers this moment; otherwise the next epoch begins
        at once.
        """
        ...

    def cancel(self) -> None:
        """Request the cancellation of the job; for an ended job this has no effect."""
        ...

"""JobListener: is told when a program's jobs start and end (Flink's ``org.apache.flink.core.execution``)."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common.job_client import JobClient
    from penstock.common.job_execution_result import JobExecutionResult

__all__ = ["JobListener"]

_log = logging.getLogger(__name__)


class JobListener(ABC):
    """Is told when the jobs of an environment start and end; ``env.register_job_listener`` registers it.

    Both methods run in the thread that calls the environment. An error that one of them raises is logged, and the job
    goes on. PyFlink has no such class; names and calls are those of Flink's Java class.

    Source: org.apache.flink.core.execution.JobListener.

    Example:
        >>> class Announce(JobListener):
        ...     def on_job_submitted(self, job_client, throwable):
        ...         print("started" if throwable is None else f"not started: {throwable}")
        ...
        ...     def on_job_executed(self, job_execution_result, throwable):
        ...         print("finished" if throwable is None else f"ended: {throwable}")
    """

    @abstractmethod
    def on_job_submitted(self, job_client: JobClient | None, throwable: Exception | None) -> None:
        """Take note that a job has started, or could not be.

        Args:
            job_client: The job; None when it could not be started.
            throwable: Why it could not be started.
        """

    @abstractmethod
    def on_job_executed(self, job_execution_result: JobExecutionResult | None, throwable: Exception | None) -> None:
        """Take note that a job has ended; only called for ``execute()``, which waits for the end.

        Args:
            job_execution_result: The result of a job that has finished.
            throwable: What ended any other job, such as JobExecutionError or JobCancelledError.
        """


def tell(listeners: Iterable[JobListener], what: Callable[[JobListener], None]) -> None:
    """Tell each of some listeners something, and log what they raise."""
    for listener in listeners:
        try:
            what(listener)
        except Exception:  # noqa: BLE001 - a listener is the user's, and may raise anything
            _log.exception("Job listener %r failed", listener)

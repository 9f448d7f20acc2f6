"""JobStatus: the status of a job (``pyflink.common.job_status``)."""

from __future__ import annotations

from enum import Enum

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """The status of a job.

    PyFlink's enumeration lacks INITIALIZING, which a job has in Flink before it is CREATED. It stands last here, so
    that the others keep their numbers.

    Source: org.apache.flink.api.common.JobStatus.

    Example:
        >>> JobStatus.SUSPENDED.is_terminal_state(), JobStatus.SUSPENDED.is_globally_terminal_state()
        (True, False)
    """

    CREATED = 0
    """No task has started yet."""
    RUNNING = 1
    """Tasks run; some may have finished."""
    FAILING = 2
    """The job has failed and is being cleaned up."""
    FAILED = 3
    """The job has failed for good."""
    CANCELLING = 4
    """The job is being cancelled."""
    CANCELED = 5
    """The job was cancelled."""
    FINISHED = 6
    """All tasks have finished."""
    RESTARTING = 7
    """The job has failed and will start again."""
    SUSPENDED = 8
    """This driver has given the job up without ending it; another one can take it over."""
    RECONCILING = 9
    """A restarted driver determines the remaining work."""
    INITIALIZING = 10
    """The driver is getting ready."""

    def is_globally_terminal_state(self) -> bool:
        """Tell whether the job has ended for good and will not be resumed."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Tell whether the job has ended in this driver."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()

"""The interface through which the outside steers a running job; the driver implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock._engine.gateway.progress import JobFailure, JobProgress
    from penstock.common.job_status import JobStatus


class JobControl(Protocol):
    """What a client, a REST handler or a signal may ask of the driver of one job, from any thread."""

    @property
    def status(self) -> JobStatus:
        """Where the job stands."""
        ...

    @property
    def progress(self) -> JobProgress:
        """The job's figures after its last epoch."""
        ...

    @property
    def failures(self) -> tuple[JobFailure, ...]:
        """The last failures, oldest first, those included that the job went on after."""
        ...

    def cancel(self) -> None:
        """Ask for the job to be cancelled; asking an ended job changes nothing."""
        ...

"""The progress of a running job, as plain data, and its listeners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock._engine.protocol.rows import MIN_WATERMARK

if TYPE_CHECKING:
    from penstock._engine.protocol.clocks import Moment
    from penstock.common.job_status import JobStatus
    from penstock.errors import FailureLocation


@dataclass(frozen=True, slots=True)
class JobProgress:
    """A job's figures after an accepted epoch."""

    #: The checkpoint that completed last; 0 before the first one.
    checkpoint_id: int = 0
    #: The numbers of accepted epochs and of restarts in this run.
    epochs: int = 0
    restarts: int = 0
    #: Records that all sources read in this run; -1 where that is not known any more.
    records: int = 0
    #: The last epoch: its records, and its length from dispatch to the last ack.
    epoch_records: int = 0
    epoch_ms: int = 0
    #: The smallest watermark at the ends of the job graph.
    watermark: int = MIN_WATERMARK
    #: The number of dropped late records in all runs of the job.
    late_records: int = 0
    #: The number of committables that sinks' committers gave up, in all runs of the job.
    given_up: int = 0
    finished_subtasks: int = 0
    subtasks: int = 0


@dataclass(frozen=True, slots=True)
class JobFailure:
    """One failure of a job, for display."""

    #: When it was noticed.
    time: Moment
    #: The checkpoint of its epoch, and the number of restarts in this run before it.
    checkpoint_id: int
    job_attempt: int
    #: Whether the restart strategy was asked; lost epochs, and tolerated expired ones, run again without asking.
    counted: bool
    #: Type and text of the error, on one line.
    reason: str
    #: Where a user's function raised; None for other failures.
    place: FailureLocation | None = None


class JobStatusListener(Protocol):
    """Is notified of a job's progress on the driver's thread; it must be quick and must not raise."""

    def on_status(self, status: JobStatus) -> None:
        """Note a new status."""
        ...

    def on_progress(self, progress: JobProgress) -> None:
        """Note an accepted epoch."""
        ...

    def on_failure(self, failure: JobFailure) -> None:
        """Note a failure, whether the job continues or not."""
        ...

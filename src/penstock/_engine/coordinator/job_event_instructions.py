"""The instructions about events and results of batch jobs; `instructions` has them with all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock._engine.protocol.job_events import JobEvent


@dataclass(frozen=True, slots=True)
class FindJobEvents:
    """Look whether a run has left events of a job: JobEventsFound or InstructionFailed."""

    job_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class ClaimJobEvents:
    """Take the log of a job's events over from earlier drivers, then read it: JobEventsClaimed or InstructionFailed."""

    job_id: str
    run_id: str
    #: The takeover of this driver, and the first one whose events count.
    takeover: int
    first: int


@dataclass(frozen=True, slots=True)
class ListPartitions:
    """List the stored results of a job: PartitionsListed."""

    job_id: str


@dataclass(frozen=True, slots=True)
class RecordJobEvents:
    """Write events to the log in the background; JobEventsFenced may follow."""

    events: tuple[JobEvent, ...]
    #: Whether they are stored without waiting for others.
    cut: bool = False


@dataclass(frozen=True, slots=True)
class DeleteResults:
    """Delete results of stages in the background; a failure is logged."""

    job_id: str
    #: Files that no stage reads any more.
    files: tuple[str, ...]
    #: The run that begins, and deletes what other runs of the job have left; "" where none begins.
    beginning_run: str = ""

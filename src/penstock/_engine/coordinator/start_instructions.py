"""The instructions by which a start finds its job; `instructions` has them with all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import ChainEntry


@dataclass(frozen=True, slots=True)
class ListJobs:
    """Look up the jobs in the checkpoint directory: JobsListed or InstructionFailed."""

    #: The name of the job to find.
    job_name: str


@dataclass(frozen=True, slots=True)
class FindLaterCheckpoint:
    """Look up which jobs have continued from some state: LaterCheckpointFound or InstructionFailed."""

    #: The checkpoint or savepoint, as in `ReadChainEntry`.
    path: str
    entry: ChainEntry
    #: The job that starts from it, and whether it means to own it.
    job_name: str
    job_id: str
    claims: bool = False


@dataclass(frozen=True, slots=True)
class RecordStart:
    """Record that this job was started last of all jobs of its name: StartRecorded or InstructionFailed."""

    job_name: str
    job_id: str
    #: Checkpoints and savepoints from elsewhere that the job has claimed, which no other one may claim now.
    claimed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadMark:
    """Read the mark of the checkpoint directory, or make it: MarkRead or InstructionFailed."""

    #: The mark that a directory without one gets.
    fresh: str


@dataclass(frozen=True, slots=True)
class FindDriver:
    """Look whether another driver of a job is known to run: DriverFound or InstructionFailed."""

    job_id: str

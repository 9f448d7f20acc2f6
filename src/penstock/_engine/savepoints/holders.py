"""The jobs that hold a savepoint, by files beside it: the one that was stopped into it, and those that claim it.

The content of a savepoint does not tell where the job that made it keeps its checkpoints. A driver writes a note about
the job before the metadata; the job's own records say whether it waits still. A claim has the same format.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from penstock._engine.protocol.paths import WAITING, number_of_claim
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from penstock._engine.storage.checkpoint_storage import FileStorage


@dataclass(frozen=True, slots=True)
class HoldingJob:
    """A job that was stopped into a savepoint, or has claimed a checkpoint or savepoint."""

    job_id: str
    job_name: str
    #: Its checkpoint directory.
    checkpoints: str
    #: The path of the savepoint or checkpoint at that time, because a copy of it is not held.
    path: str

    def encoded(self) -> bytes:
        """Return the content of a note or claim."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decoded(cls, data: bytes) -> HoldingJob:
        """Return the job that a note or claim names; raises ValueError for a damaged one."""
        try:
            job = cls(**json.loads(data))
        except TypeError as error:
            raise ValueError(str(error)) from error
        if not all(isinstance(value, str) for value in asdict(job).values()):
            raise ValueError(job)
        return job


def note_waiting(savepoint: FileStorage, job: HoldingJob) -> None:
    """Note the job that is about to be stopped into a savepoint."""
    savepoint.put(WAITING, job.encoded())


def waiting_job(savepoint: FileStorage) -> HoldingJob | None:
    """Return the job that was stopped into a savepoint; None if there was none.

    Raises:
        CorruptCheckpointError: The note is damaged.
    """
    return _job_in(savepoint, WAITING)


def claimants(savepoint: FileStorage) -> list[HoldingJob]:
    """Return the jobs that have claimed a savepoint; a claim names what a note does.

    Raises:
        CorruptCheckpointError: A claim is damaged.
    """
    found = (_job_in(savepoint, name) for name in savepoint.names("") if number_of_claim(name))
    return [job for job in found if job is not None]


def _job_in(savepoint: FileStorage, file: str) -> HoldingJob | None:
    """Return the job that a file beside a savepoint names; None if there is no file."""
    data = savepoint.find(file)
    if data is None:
        return None
    try:
        return HoldingJob.decoded(data)
    except ValueError:
        raise CorruptCheckpointError(savepoint.full_path(file), "it does not name a job") from None

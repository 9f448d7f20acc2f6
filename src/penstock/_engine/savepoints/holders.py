"""The note beside a savepoint that says which job was stopped into it, and so may wait for it.

The content of a savepoint does not tell where the job that made it keeps its checkpoints. A driver writes the note
before the metadata; the job's own records say whether it waits still.
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
class StoppedJob:
    """A job that was stopped into a savepoint, or has claimed it."""

    job_id: str
    job_name: str
    #: Its checkpoint directory.
    checkpoints: str
    #: The path of the savepoint at that time.
    path: str


def note_waiting(savepoint: FileStorage, job: StoppedJob) -> None:
    """Note the job that is about to be stopped into a savepoint."""
    savepoint.put(WAITING, json.dumps(asdict(job)).encode())


def waiting_job(savepoint: FileStorage) -> StoppedJob | None:
    """Return the job that was stopped into a savepoint; None if there was none.

    Raises:
        CorruptCheckpointError: The note is damaged.
    """
    return _job_in(savepoint, WAITING)


def claimants(savepoint: FileStorage) -> list[StoppedJob]:
    """Return the jobs that have claimed a savepoint; a claim names what a note does.

    Raises:
        CorruptCheckpointError: A claim is damaged.
    """
    found = (_job_in(savepoint, name) for name in savepoint.names("") if number_of_claim(name))
    return [job for job in found if job is not None]


def _job_in(savepoint: FileStorage, file: str) -> StoppedJob | None:
    """Return the job that a file beside a savepoint names; None if there is no file."""
    data = savepoint.find(file)
    if data is None:
        return None
    try:
        job = StoppedJob(**json.loads(data))
    except (TypeError, ValueError):
        raise CorruptCheckpointError(savepoint.full_path(file), "it does not name a job") from None
    if not all(isinstance(value, str) for value in asdict(job).values()):
        raise CorruptCheckpointError(savepoint.full_path(file), "it does not name a job")
    return job

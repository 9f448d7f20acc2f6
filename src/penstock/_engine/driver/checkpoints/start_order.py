"""The order in which the jobs of a name were started: ``latest`` uses it, and no clock.

In the checkpoint directory each name has its own list, to which a driver adds the next number after its takeover. The
number is put if it is absent, so one of two drivers is later. The list is no lock: a driver that is killed between the
takeover and the list has done nothing that another could continue from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.paths import is_job_directory, start_order_directory
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.storage.checkpoint_storage import FileStorage

#: The number of starts that stay in a list: if the last jobs were deleted by hand, the one before them is found.
_KEPT: Final = 16
_DAMAGED: Final = (
    "it does not begin with the id of the job that was started last. Delete {}, and the job is found by the times of "
    "checkpoints"
)


def record_start(storage: FileStorage, job_name: str, job_id: str) -> None:
    """Record the start of a job, after all earlier starts of its name.

    Args:
        storage: The checkpoint directory.
        job_name: The job's name.
        job_id: Its id.
    """
    directory = start_order_directory(job_name)
    numbers = _numbers(storage, directory)
    if numbers and _job(storage, directory, numbers[-1]) == job_id:
        return
    number = numbers[-1] + 1 if numbers else 1
    while not storage.put_if_absent(f"{directory}/{number}", f"{job_id} {job_name}\n".encode(errors="replace")):
        number += 1
    storage.delete(f"{directory}/{old}" for old in numbers if old <= number - _KEPT)


def started_jobs(storage: FileStorage, job_name: str) -> Iterator[str]:
    """Iterate over the ids of the jobs of a name, the last started first.

    Raises:
        CorruptCheckpointError: A file of the list is damaged.
    """
    directory = start_order_directory(job_name)
    jobs = (_job(storage, directory, number) for number in reversed(_numbers(storage, directory)))
    yield from dict.fromkeys(job for job in jobs if job is not None)


def _numbers(storage: FileStorage, directory: str) -> list[int]:
    return sorted(int(name) for name in storage.names(directory) if name.isdecimal())


def _job(storage: FileStorage, directory: str, number: int) -> str | None:
    """Return the job of a number in the list; None if a later start has deleted it meanwhile."""
    data = storage.find(f"{directory}/{number}")
    if data is None:
        return None
    job_id = data[:32].decode("ascii", "replace")
    if not is_job_directory(job_id):
        where = storage.full_path(directory)
        raise CorruptCheckpointError(storage.full_path(f"{directory}/{number}"), _DAMAGED.format(where))
    return job_id

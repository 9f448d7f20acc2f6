"""The order in which the jobs of a name were claimed: ``latest`` goes by it, and by no clock.

Below the checkpoint directory each name has its own list, in which a driver that has claimed a job puts the next
number. A number is put where it is absent, so of two drivers one is the later. The list is no lock: it is written
behind the claim, and a driver that was killed between the two has done nothing that another could go on from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.paths import is_job_directory, start_order_directory
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.storage.checkpoint_storage import CheckpointStorage

#: Claims that stay in a list: where the last jobs were removed by hand, the one before them is found.
_KEPT: Final = 16
_DAMAGED: Final = (
    "it does not begin with the id of the job that was claimed last. Delete {}, and the job is found by the times of "
    "checkpoints"
)


def record_start(storage: CheckpointStorage, job_name: str, job_id: str) -> None:
    """Write down that a job was claimed now, behind all claims of its name that are there.

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


def started_jobs(storage: CheckpointStorage, job_name: str) -> Iterator[str]:
    """Iterate the ids of the jobs of a name, the one that was claimed last first.

    Raises:
        CorruptCheckpointError: A file of the list is damaged.
    """
    directory = start_order_directory(job_name)
    jobs = (_job(storage, directory, number) for number in reversed(_numbers(storage, directory)))
    yield from dict.fromkeys(job for job in jobs if job is not None)


def _numbers(storage: CheckpointStorage, directory: str) -> list[int]:
    return sorted(int(name) for name in storage.names(directory) if name.isdecimal())


def _job(storage: CheckpointStorage, directory: str, number: int) -> str | None:
    """Return the job of a claim; None where that was removed by a later one meanwhile."""
    data = storage.find(f"{directory}/{number}")
    if data is None:
        return None
    job_id = data[:32].decode("ascii", "replace")
    if not is_job_directory(job_id):
        where = storage.full_path(directory)
        raise CorruptCheckpointError(storage.full_path(f"{directory}/{number}"), _DAMAGED.format(where))
    return job_id

"""Records which job has claimed a checkpoint or savepoint, so that no second job claims it meanwhile.

The claim is a file beside the metadata, and is deleted with it. So it is visible from every checkpoint directory, under
any name of a job. It is put if it is absent, after the takeover of the job's own chain: a driver that is killed between
the two has done nothing. If the earlier claimant has ended, the next number is put.

A job that ends takes its claims back, so that they do not outlive its records. A claimant without records may run on a
machine where its directory is mounted: unknown is not ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.protocol.paths import (
    METADATA,
    checkpoint_ids,
    checkpoint_path,
    claim_file,
    number_of_claim,
)
from penstock._engine.savepoints.chains import newest_entry, same_place
from penstock._engine.savepoints.holders import HoldingJob
from penstock._engine.storage.opening import open_storage
from penstock.errors import CheckpointClaimedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.storage.checkpoint_storage import FileStorage


def claim(storage: FileStorage, path: str, claimant: HoldingJob, options: Mapping[str, str]) -> None:
    """Claim a checkpoint or savepoint for a job, unless it was deleted or already belongs to the job.

    Args:
        storage: The directory that it is in.
        path: Its path there.
        claimant: The job.
        options: Options to open checkpoint directories with.

    Raises:
        CheckpointClaimedError: Another job has claimed it, and is not known to have ended.
    """
    while METADATA in (names := storage.names(path)):
        last = check_claim(storage, path, claimant.job_id, options, names)
        if last is not None and last.job_id == claimant.job_id:
            return
        file = claim_file(path, _last_number(names) + 1)
        if storage.put_if_absent(file, claimant.encoded()):
            return


def check_claim(
    storage: FileStorage, path: str, job_id: str, options: Mapping[str, str], names: list[str] | None = None
) -> HoldingJob | None:
    """Return the last claimant of a checkpoint or savepoint if it is this job, and None if the checkpoint is free.

    Raises:
        CheckpointClaimedError: Another job has claimed it, and is not known to have ended.
    """
    names = storage.names(path) if names is None else names
    last = claimant_of(storage, path, names)
    if last is None or last.job_id == job_id:
        return last
    if not has_ended(last, options):
        ids = checkpoint_ids(open_storage(last.checkpoints, options).names(last.job_id))
        newest = checkpoint_path(last.job_id, ids[-1]) if ids else None
        claimed, file = (storage.full_path(name) for name in (path, claim_file(path, _last_number(names))))
        raise CheckpointClaimedError(claimed, last.job_id, last.job_name, last.checkpoints, file, newest)
    return None


def release(storage: FileStorage, path: str, job_id: str) -> None:
    """Take back the claim of a job that has ended, unless another job has claimed after it."""
    names = storage.names(path)
    last = claimant_of(storage, path, names)
    if last is not None and last.job_id == job_id:
        storage.delete([claim_file(path, _last_number(names))])


def claimant_of(storage: FileStorage, path: str, names: list[str]) -> HoldingJob | None:
    """Return the job that has claimed a checkpoint or savepoint last; None without a valid claim."""
    number = _last_number(names)
    data = storage.find(claim_file(path, number)) if number else None
    if data is None:
        return None
    try:
        found = HoldingJob.decoded(data)
    except ValueError:  # incomplete, or written by hand
        return None
    return found if same_place(found.path, storage.full_path(path)) else None


def has_ended(claimant: HoldingJob, options: Mapping[str, str]) -> bool:
    """Return whether a job's own records say that it has ended; False where there are none."""
    newest = newest_entry(open_storage(claimant.checkpoints, options), claimant.job_id)
    return newest is not None and newest.is_terminal


def _last_number(names: list[str]) -> int:
    """Return the number of the last claim; 0 without any."""
    return max(filter(None, map(number_of_claim, names)), default=0)

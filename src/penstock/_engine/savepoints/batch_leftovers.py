"""The results and events of batch jobs that no start needs any more.

A killed job can be resumed at any time, and nothing says that it will not be: only its age does. Its events go with its
results, because a start that finds neither begins the job anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.paths import events_directory, finished_directory, is_job_directory, results_directory
from penstock._engine.savepoints.survey import Leftover, LeftoverKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from penstock._engine.storage.checkpoint_storage import FileStorage, StoredFile

_KINDS: Final = {
    results_directory: LeftoverKind.STAGE_RESULT,
    finished_directory: LeftoverKind.JOB_EVENTS,
    events_directory: LeftoverKind.JOB_EVENTS,
}


def batch_leftovers(
    storage: FileStorage,
    *,
    ended: Collection[str],
    given_up: Collection[str],
    running: Collection[str],
    oldest_ms: int,
    abandoned_ms: int,
) -> Iterator[Leftover]:
    """Iterate the results and events that batch jobs have left in a directory.

    Those of a job that has ended are dead. Its events may tell a start that it has: they stay for the longer time.

    Args:
        storage: The directory.
        ended: The ids of jobs that have ended.
        given_up: The ids of jobs of which the user says that they will not be resumed.
        running: The ids of jobs that run on this machine: all that they have is needed.
        oldest_ms: What was changed after this time is ignored.
        abandoned_ms: A job of which nothing was changed after this time will not be resumed.
    """
    for job_id in storage.names(""):
        if not is_job_directory(job_id) or job_id in running or storage.is_link(job_id):
            continue
        files = [(kind, file) for place, kind in _KINDS.items() for file in storage.files(place(job_id))]
        newest_ms = max((file.modified_ms for _, file in files), default=0)
        is_abandoned = newest_ms <= min(abandoned_ms, oldest_ms)
        for kind, file in files:
            if is_abandoned:
                yield _leftover(storage, kind, file, f"no start has gone on with job {job_id} for so long")
            elif file.modified_ms > oldest_ms:
                continue
            elif job_id in given_up or (job_id in ended and kind is LeftoverKind.STAGE_RESULT):
                yield _leftover(storage, kind, file, f"job {job_id} has ended")


def _leftover(storage: FileStorage, kind: LeftoverKind, file: StoredFile, reason: str) -> Leftover:
    return Leftover(kind, storage.full_path(file.path), file.size, reason, file.modified_ms, storage.url, file.path)

"""What the records of a job's earlier runs must show at its next start: one that finds nothing may not be the first.

Who knows that a job has run before, its supervisor or its program, or says so by ``-s latest``, has its directory
checked for that. Who cannot know starts fresh, and the log says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.errors import MissingRecordsError, MovedCheckpointError, NoCheckpointError

if TYPE_CHECKING:
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.metadata import ChainEntry

_LEFT_NOTHING: Final = (
    "the job has finished and left no checkpoint, as jobs do that end without penstock.restart-finished-sources"
)


def check_records(settings: JobSettings, job: str, newest: int) -> None:
    """Make sure that a directory has the records of the runs that a job is known to have had.

    Args:
        settings: The job's settings.
        job: The job, for messages.
        newest: The id of its newest record; 0 if there is none.

    Raises:
        MissingRecordsError: There is none, or only older ones.
    """
    earlier = settings.earlier
    if earlier is None or newest >= max(1, earlier.checkpoint_id):
        return
    found = f"its records there end with chk-{newest}, before chk-{earlier.checkpoint_id}"
    if not newest:
        found = "that directory has no record of it"
    raise MissingRecordsError(settings.directory, job, f"{found}, and {earlier.reason}")


def nothing_at(path: str, job: str, named_by: tuple[ChainEntry, str] | None) -> NoCheckpointError:
    """Return the error about a path at which there is no checkpoint.

    Args:
        path: The path.
        job: The job that was to start from there.
        named_by: The record of the job that has led there, and its path; None if the user has named the path.
    """
    if named_by is None:
        return NoCheckpointError(path, job, "there is no checkpoint metadata at that path")
    entry, record = named_by
    if entry.is_terminal and entry.savepoint is None and not entry.keeps_checkpoints:
        if entry.kind is ChainEntryKind.FINISHED:
            return NoCheckpointError(path, job, _LEFT_NOTHING)
        return NoCheckpointError(path, job, f"the job has ended ({entry.kind.value}) and was to keep no checkpoint")
    done = "continues from it" if entry.savepoint is None else "was stopped into it"
    return MovedCheckpointError(path, job, f"its last record, {record} ({entry.kind.value}), says that it {done}")

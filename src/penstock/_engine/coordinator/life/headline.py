"""What a start says: what the job resumes from, or that it starts fresh, and what becomes of its state."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.instructions import LogMessage
from penstock._engine.protocol.clocks import time_text
from penstock._engine.protocol.metadata import ChainEntryKind

if TYPE_CHECKING:
    from penstock._engine.coordinator.events import LaterCheckpointFound
    from penstock._engine.coordinator.restore.reopening import ReopenedSources
    from penstock._engine.coordinator.restore.state_assignment import RestoredCheckpoint, StateAssignment
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.metadata import ChainEntry

_FIRST: Final = (
    "Job {job} starts fresh: {directory} has no record of it. That is right at its first start. If it has run before, "
    "its checkpoints are elsewhere (execution.checkpointing.dir), and it publishes its results a second time."
)
_LEFT: Final = (
    "Job {job} starts fresh, although an earlier run of that id has left checkpoints. They stay where they are, until "
    "you remove them (`penstock clean --retained`); with execution.state-recovery.path: latest the job continues from "
    "them."
)
_UNFINISHED: Final = "Job {job} starts fresh: its earlier run has completed no checkpoint in {directory}."
_RECOVERS: Final = (
    "Job {job} resumes where an earlier driver of it was lost: what that has stored in {directory} is not made again."
)
_PLAIN: Final = "Job {job} starts fresh, with its checkpoints in {directory}."
_NOWHERE: Final = (
    "Job {job} starts fresh; a later start cannot resume it, because execution.checkpointing.dir is not set."
)

#: Logged if a job starts from a checkpoint that some job has already continued from.
_PUBLISHED: Final = (
    "{path} is not the newest state of job {job_id}, which has completed {checkpoints} after it. What sinks have "
    "published with {them} is published again, and so is printed output. To repeat nothing, start from that job's "
    "newest checkpoint, or as that job with execution.state-recovery.path: latest."
)

#: Logged if a job starts from a checkpoint that live jobs continue from.
_GO_ON_TOO: Final = (
    "{path} is what job {jobs} may continue from, too: as far as records say, it has not ended. What comes behind that "
    "checkpoint is then published by each of them, and where they write to one place it is there twice. Let this job "
    "write elsewhere, or cancel the other one first."
)


def headline(
    settings: JobSettings, job: str, restored: RestoredCheckpoint | None, newest: ChainEntry | None, *, continues: bool
) -> LogMessage:
    """Return what a start says first, on the terminal, whatever the log shows.

    Args:
        settings: The job's settings.
        job: The job, by name and id.
        restored: What it resumes from; None if it starts fresh.
        newest: The newest record of the job; None if there is none.
        continues: Whether it continues its earlier run, if that has got anywhere.
    """
    if restored is not None:
        return LogMessage(_resumed(settings, job, restored), shown=True)
    if newest is None and settings.latest:
        form, unexpected = _FIRST, True
    elif newest is not None and not continues and _left_checkpoints(newest):
        form, unexpected = _LEFT, True
    elif continues:
        form, unexpected = _UNFINISHED if settings.recovery is None else _RECOVERS, False
    else:
        form, unexpected = _PLAIN if settings.directory else _NOWHERE, False
    return LogMessage(form.format(job=job, directory=settings.directory), unexpected=unexpected, shown=True)


def _left_checkpoints(newest: ChainEntry) -> bool:
    if newest.kind is ChainEntryKind.TAKEOVER:
        return newest.parent is not None
    return newest.keeps_checkpoints or not newest.is_terminal


def _resumed(settings: JobSettings, job: str, restored: RestoredCheckpoint) -> str:
    entry, path = restored.entry, restored.path
    if settings.directory and "://" not in path and not PurePath(path).is_absolute():
        path = f"{settings.directory.rstrip('/')}/{path}"
    what = "savepoint" if entry.kind is ChainEntryKind.SAVEPOINT else "checkpoint"
    stops = "" if restored.stopping is None else f", and completes its stop into {restored.stopping}"
    return f"Job {job} resumes from {what} {entry.checkpoint_id} of {time_text(entry.created_ms)} ({path}){stops}."


def restore_remarks(assignment: StateAssignment, again: ReopenedSources) -> tuple[LogMessage, ...]:
    """Return what a start says about the state that it restores: what is dropped or left, and what begins again."""
    return (
        *(
            LogMessage(f"The state of operator {name!r} (uid {uid!r}) is dropped")
            for uid, name in assignment.dropped.items()
        ),
        *(
            LogMessage(f"Finished subtasks of operator {name} have left {count:,} list items, which nobody gets")
            for name, count in assignment.left
        ),
        *(LogMessage(f"Source {uid!r} had finished and looks for new input") for uid in again.sources),
        *(
            LogMessage(
                f"penstock.restart-finished-sources has no effect on {uid!r}, which has not finished", unexpected=True
            )
            for uid in again.unfinished
        ),
    )


def remarks_on_others(entry: ChainEntry, found: LaterCheckpointFound) -> tuple[LogMessage, ...]:
    """Return what a start says about output that is published twice: by the job's own past, and by other jobs.

    Args:
        entry: The checkpoint that the job starts from.
        found: What has come of that checkpoint.
    """
    said: list[LogMessage] = []
    if found.checkpoint_id is not None:
        first, one = entry.checkpoint_id + 1, entry.checkpoint_id + 1 == found.checkpoint_id
        text = _PUBLISHED.format(
            path=found.path,
            job_id=entry.job_id,
            checkpoints=f"checkpoint {first}" if one else f"checkpoints {first} to {found.checkpoint_id}",
            them="it" if one else "them",
        )
        said.append(LogMessage(text, unexpected=True))
    if found.others:
        text = _GO_ON_TOO.format(path=found.path, jobs=" and ".join(found.others))
        said.append(LogMessage(text, unexpected=True))
    return tuple(said)

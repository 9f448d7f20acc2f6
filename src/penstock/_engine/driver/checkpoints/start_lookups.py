"""Performs the instructions with which a job starts: what checkpoint directories hold that it can continue from."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.driver.checkpoints.claimants import check_claim, claim, claimant_of, has_ended
from penstock._engine.driver.checkpoints.start_order import record_start, started_jobs
from penstock._engine.driver.failures import metadata_damage
from penstock._engine.protocol.metadata import (
    ChainEntry,
    ChainEntryKind,
    ParentCheckpoint,
)
from penstock._engine.protocol.paths import (
    MARK,
    METADATA,
    checkpoint_ids,
    checkpoint_path,
    is_job_directory,
    is_mark,
)
from penstock._engine.savepoints.chains import (
    commits_at_the_end,
    last_checkpoint,
    newest_entry,
    read_chain,
    read_entry,
    readable_entry,
    same_place,
)
from penstock._engine.savepoints.holders import HoldingJob, waiting_job
from penstock._engine.savepoints.located import rebased
from penstock._engine.storage.opening import above, open_storage, without_links
from penstock._engine.storage.ownership import first_not_trusted, foreign_link, why_exchangeable
from penstock.errors import (
    CorruptCheckpointError,
    ExposedCheckpointError,
    PenstockError,
    SignatureError,
    UnsupportedFormatError,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.storage.checkpoint_storage import FileStorage

_log = logging.getLogger(__name__)

_DAMAGED_MARK: Final = (
    "it does not hold the 32 hexadecimal digits that make up the ids of new jobs there. Delete it, and a new one is "
    "made; jobs that are in the directory keep their ids"
)


class StartLookups:
    """Finds jobs, chain entries and later checkpoints.

    Args:
        storage: The checkpoint directory of the job.
    """

    def __init__(self, storage: FileStorage) -> None:
        self._storage = storage

    def list_jobs(self, instruction: do.ListJobs) -> ev.Event:
        """Look up the last started job of a name; without a start order, list all jobs by their newest entries."""
        for job_id in started_jobs(self._storage, instruction.job_name):
            newest = newest_entry(self._storage, job_id)
            if newest.job_name == instruction.job_name if newest is not None else self._has_entries(job_id):
                return ev.JobsListed((), job_id)
        found = {name: newest_entry(self._storage, name) for name in self._storage.names("") if is_job_directory(name)}
        unread = [name for name, entry in found.items() if entry is None and self._has_entries(name)]
        found.update((name, newest_entry(self._storage, name)) for name in unread)  # one may have made its first entry
        jobs = (ev.ListedJob(entry.job_id, entry.job_name, entry.created_ms) for entry in found.values() if entry)
        nameless = (name for name in unread if found[name] is None)
        return ev.JobsListed(tuple(jobs), nameless=tuple(map(self._storage.full_path, nameless)))

    def record_start(self, instruction: do.RecordStart) -> ev.Event:
        """Record which job of a name was started last.

        Raises:
            CheckpointClaimedError: Another job has claimed the checkpoint that this job was to claim.
        """
        here = self._storage.full_path("")
        for path in instruction.claimed:
            storage, inner = locate(self._storage, path)
            job = HoldingJob(instruction.job_id, instruction.job_name, here, storage.full_path(inner))
            claim(storage, inner, job, self._storage.options)
        record_start(self._storage, instruction.job_name, instruction.job_id)
        return ev.StartRecorded()

    def _has_entries(self, job_id: str) -> bool:
        return any(METADATA in self._storage.names(checkpoint_path(job_id, number)) for number in self._ids(job_id))

    def read_mark(self, instruction: do.ReadMark) -> ev.Event:
        """Read the mark of the directory; if several drivers find none, all use the first one that is stored.

        Raises:
            CorruptCheckpointError: The file is damaged.
        """
        data = self._storage.find(MARK)
        if data is None:
            self._storage.put_if_absent(MARK, f"{instruction.fresh}\n".encode())
            data = self._storage.read(MARK)
        text = data.decode("ascii", "replace")
        if not (text.endswith("\n") and is_mark(text[:-1])):
            raise CorruptCheckpointError(self._storage.full_path(MARK), _DAMAGED_MARK)
        return ev.MarkRead(text[:-1])

    def _ids(self, job_id: str) -> tuple[int, ...]:
        return checkpoint_ids(self._storage.names(job_id))

    def list_entries(self, instruction: do.ListChainEntries) -> ev.Event:
        """List the ids of a chain; newest directories without metadata, of drivers that died early, are left out."""
        job_id = instruction.job_id
        ids = self._ids(job_id)
        while ids and METADATA not in self._storage.names(checkpoint_path(job_id, ids[-1])):
            ids = ids[:-1]
        return ev.ChainEntriesListed(ids)

    def read_entry(self, instruction: do.ReadChainEntry) -> ev.Event:
        """Read an entry by the path of its checkpoint or metadata.

        Raises:
            CheckpointClaimedError: A job is to continue from its own checkpoint, which another job has claimed.
        """
        path = instruction.path.rstrip("/").removesuffix(f"/{METADATA}")
        storage, inner = locate(self._storage, path)
        shown = inner if storage is self._storage else storage.full_path(inner)
        seen: dict[str, os.stat_result] = {}
        try:
            entry = read_entry(storage, inner, seen)
        except (SignatureError, UnsupportedFormatError):
            raise
        except CorruptCheckpointError as error:
            raise metadata_damage(error, storage, inner) from None
        if entry is not None and entry.kind is ChainEntryKind.SAVEPOINT:
            entry = rebased(entry, inner)
        elif entry is not None and entry.parent is not None and storage is not self._storage:
            entry = replace(entry, parent=_as_seen_from_elsewhere(entry.parent, entry.job_id, storage))
        if entry is not None and instruction.is_followed and not storage.keys:
            if (reason := foreign_link(path)) is not None:
                raise ExposedCheckpointError(path, reason)
            _check_own(storage, inner, entry, seen)
        if entry is not None and entry.kind is ChainEntryKind.CHECKPOINT and entry.job_id == instruction.continued_by:
            check_claim(storage, inner, entry.job_id, self._storage.options)
        return ev.ChainEntryRead(entry, shown if entry is not None else storage.full_path(inner))

    def find_later(self, instruction: do.FindLaterCheckpoint) -> ev.Event:
        """Look up the last checkpoint of a job, and live jobs that continue from it; errors are only logged.

        Raises:
            CheckpointClaimedError: The job is to claim a checkpoint that another job has claimed.
        """
        entry = instruction.entry
        if instruction.claims:
            check_claim(*locate(self._storage, instruction.path), instruction.job_id, self._storage.options)
        path, others, commits = instruction.path, tuple[str, ...](), None
        # A savepoint does not name the checkpoint directory of its job, so this job's own directory is searched.
        is_savepoint = entry.kind is ChainEntryKind.SAVEPOINT
        try:
            storage, inner = (self._storage, path) if is_savepoint else locate(self._storage, path)
            path = path if is_savepoint else storage.full_path(inner)
            last = last_checkpoint(storage, entry.job_id, entry.checkpoint_id)
            commits = commits_at_the_end(storage, entry.job_id, entry.checkpoint_id)
            others = self._going_on(instruction, storage)
        except (PenstockError, OSError) as error:
            _log.debug(
                "The checkpoints that job %s has completed after %s are unknown: %s",
                entry.job_id,
                instruction.path,
                error,
            )
            last = None
        return ev.LaterCheckpointFound(last, path, others, commits)

    def _going_on(self, start: do.FindLaterCheckpoint, storage: FileStorage) -> tuple[str, ...]:
        """Return live jobs: the job of a checkpoint, and jobs of the same name that have started from it."""
        own = start.job_id
        # Other jobs may start from a savepoint; the job that made it continues with its own checkpoints.
        first = [start.entry.job_id] if start.entry.kind is not ChainEntryKind.SAVEPOINT else []
        jobs = [job for job in first if job != own and _goes_on(newest_entry(storage, job))]
        holder, inner = locate(self._storage, start.path)
        claimant = claimant_of(holder, inner, holder.names(inner))
        if (
            claimant is not None
            and claimant.job_id not in {own, *jobs}
            and not has_ended(claimant, self._storage.options)
        ):
            jobs.append(claimant.job_id)
        if start.claims and (waiting := self._waits_for(start)) not in {None, own, *jobs}:
            jobs.append(str(waiting))
        for job in started_jobs(self._storage, start.job_name):
            newest = None if job in {own, *first, *jobs} else newest_entry(self._storage, job)
            if newest is None or newest.is_terminal:
                continue
            begun = readable_entry(self._storage, checkpoint_path(job, newest.begins))
            if begun is not None and begun.parent is not None and begun.parent.path == start.path:
                jobs.append(job)
        return tuple(jobs)

    def _waits_for(self, start: do.FindLaterCheckpoint) -> str | None:
        """Return the job of another name that waits for a savepoint which is to be claimed."""
        holder, inner = locate(self._storage, start.path)
        savepoint = holder.full_path(inner)
        with contextlib.suppress(PenstockError, OSError):  # nobody knows
            job = waiting_job(open_storage(savepoint, self._storage.options))
            if job is not None and job.job_name != start.job_name:
                needed = read_chain(open_storage(job.checkpoints, self._storage.options), job.job_id).start()
                return job.job_id if any(same_place(savepoint, place) for place in needed) else None
        return None


def _goes_on(newest: ChainEntry | None) -> bool:
    return newest is not None and not newest.is_terminal


def locate(own: FileStorage, path: str) -> tuple[FileStorage, str]:
    """Return the checkpoint directory of a checkpoint, and the checkpoint's path in it.

    Args:
        own: The job's own checkpoint directory.
        path: The path of the checkpoint; a relative one is below that.
    """
    if "://" not in path and not Path(path).is_absolute():
        return own, path
    for root in (own.full_path(""), own.url):
        if path.startswith(f"{root.rstrip('/')}/"):
            return own, path[len(root.rstrip("/")) + 1 :]
    if "://" not in path and own.url.startswith("file:"):  # a path with links may name the same place
        place, root = Path(path).resolve(), Path(own.full_path("")).resolve()
        if place.is_relative_to(root):
            return own, place.relative_to(root).as_posix()
    directory, name = above(without_links(path))
    root, job = above(directory)
    return open_storage(root or "/", own.options), "/".join(filter(None, (job, name)))


def _check_own(storage: FileStorage, checkpoint: str, entry: ChainEntry, seen: Mapping[str, os.stat_result]) -> None:
    """Make sure that only this user can have written an unsigned entry and the files that it names.

    The directories above a savepoint, and the directory of all checkpoints, are the user's choice; but nobody else may
    exchange a savepoint in the one that it lies in. Files of state are known by their digests, which the entry has.

    Args:
        storage: The storage.
        checkpoint: The checkpoint's directory.
        entry: The entry that was read.
        seen: The status of its file, and of the directories on the way to it.

    Raises:
        ExposedCheckpointError: Others can change it.
    """
    above_savepoint = checkpoint.rpartition("/")[0] if entry.kind is ChainEntryKind.SAVEPOINT else ""
    exposed = first_not_trusted(seen, above_savepoint)
    if above_savepoint in seen and entry.kind is ChainEntryKind.SAVEPOINT:
        reason = why_exchangeable(seen[above_savepoint])
        exposed = exposed if reason is None else (above_savepoint, reason)
    if exposed is not None:
        raise ExposedCheckpointError(storage.full_path(exposed[0]), exposed[1])
    files = state_files(entry.snapshot) if entry.snapshot is not None else ()
    levels = {
        "/".join(names[:end]) for names in (file.split("/") for file in files) for end in range(1, len(names) + 1)
    }
    for level in sorted(levels):
        inside = not above_savepoint or level.startswith(f"{above_savepoint}/")
        exposed = storage.why_exposed(level) if inside else None
        if exposed is not None:
            raise ExposedCheckpointError(*exposed)


def _as_seen_from_elsewhere(parent: ParentCheckpoint, job_id: str, storage: FileStorage) -> ParentCheckpoint:
    """Return the parent of another directory's entry, with a path that is valid in this directory."""
    if parent.path != checkpoint_path(job_id, parent.checkpoint_id):
        return parent
    return replace(parent, path=storage.full_path(parent.path))

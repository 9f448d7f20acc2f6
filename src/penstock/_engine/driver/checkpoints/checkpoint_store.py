"""Performs the instructions about the checkpoint directory: chain entries, state files, deletions."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.driver.checkpoints.claimants import Claimant, check_claim, claim, claimant_of, has_ended, release
from penstock._engine.driver.checkpoints.claimed_checkpoints import delete_claimed
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
    checkpoint_of,
    checkpoint_path,
    is_job_directory,
    is_mark,
    metadata_path,
    number_of_claim,
    results_directory,
    run_of_file,
    shared_directory,
)
from penstock._engine.savepoints.chains import (
    commits_at_the_end,
    last_checkpoint,
    read_chain,
    read_entry,
    readable_entry,
    same_place,
)
from penstock._engine.savepoints.located import rebased
from penstock._engine.savepoints.waiting import waiting_job
from penstock._engine.storage.checkpoint_storage import copy_files, document_of, entry_of, find_entry
from penstock._engine.storage.opening import above, open_storage, without_links
from penstock._engine.storage.ownership import first_not_trusted, foreign_link, why_exchangeable
from penstock.errors import (
    CheckpointStorageError,
    CorruptCheckpointError,
    ExposedCheckpointError,
    PenstockError,
    SignatureError,
    UnsupportedFormatError,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.coordinator.instructions import Leftovers
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.mailbox import Clock
    from penstock._engine.storage.checkpoint_storage import FileStorage

_log = logging.getLogger(__name__)

_DAMAGED_MARK: Final = (
    "it does not hold the 32 hexadecimal digits that make up the ids of new jobs there. Delete it, and a new one is "
    "made; jobs that are in the directory keep their ids"
)


#: Why what was just made for this user alone can be changed by others.
_WILL_REFUSE: Final = (
    "%s: %s, so 'latest' will not restore what this job writes (penstock.state.private-files is false, or the file "
    "system keeps no rights, as vfat and 9p do). Take another directory, set penstock.state.signing-key, or name the "
    "checkpoint to start from"
)


class CheckpointStore:
    """Reads and writes in one checkpoint directory.

    Args:
        storage: The directory.
        background: Runs deletions.
        clock: The clock for the age of files.
    """

    def __init__(self, storage: FileStorage, background: BackgroundExecutor, clock: Clock) -> None:
        self._storage = storage
        self._background = background
        self._clock = clock
        self._looked_at_rights = False

    def list_jobs(self, instruction: do.ListJobs) -> ev.Event:
        """Look up the last started job of a name; without a start order, list all jobs by their newest entries."""
        for job_id in started_jobs(self._storage, instruction.job_name):
            newest = self._newest(job_id)
            if newest.job_name == instruction.job_name if newest is not None else self._has_entries(job_id):
                return ev.JobsListed((), job_id)
        found = {name: self._newest(name) for name in self._storage.names("") if is_job_directory(name)}
        jobs = (ev.ListedJob(entry.job_id, entry.job_name, entry.created_ms) for entry in found.values() if entry)
        nameless = (name for name, entry in found.items() if entry is None and self._has_entries(name))
        return ev.JobsListed(tuple(jobs), nameless=tuple(map(self._storage.full_path, nameless)))

    def record_start(self, instruction: do.RecordStart) -> ev.Event:
        """Record which job of a name was started last.

        Raises:
            CheckpointClaimedError: Another job has claimed the checkpoint that this job was to claim.
        """
        here = self._storage.full_path("")
        for path in instruction.claimed:
            storage, inner = self._locate(path)
            job = Claimant(instruction.job_id, instruction.job_name, here, storage.full_path(inner))
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

    def _newest(self, job_id: str) -> ChainEntry | None:
        entries = (
            readable_entry(self._storage, checkpoint_path(job_id, number)) for number in reversed(self._ids(job_id))
        )
        # A damaged entry is left out: an older entry names its job, and a restore from the damaged one raises.
        return next(filter(None, entries), None)

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
        """Read an entry by the path of its checkpoint or metadata."""
        path = instruction.path.rstrip("/").removesuffix(f"/{METADATA}")
        storage, inner = self._locate(path)
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
        return ev.ChainEntryRead(entry, shown if entry is not None else storage.full_path(inner))

    def find_later(self, instruction: do.FindLaterCheckpoint) -> ev.Event:
        """Look up the last checkpoint of a job, and live jobs that continue from it; errors are only logged.

        Raises:
            CheckpointClaimedError: The job is to claim a checkpoint that another job has claimed.
        """
        entry = instruction.entry
        if instruction.claims:
            check_claim(*self._locate(instruction.path), instruction.job_id, self._storage.options)
        path, others, commits = instruction.path, tuple[str, ...](), None
        # A savepoint does not name the checkpoint directory of its job, so this job's own directory is searched.
        is_savepoint = entry.kind is ChainEntryKind.SAVEPOINT
        try:
            storage, inner = (self._storage, path) if is_savepoint else self._locate(path)
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
        jobs = [job for job in first if job != own and self._goes_on(storage, job)]
        holder, inner = self._locate(start.path)
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
            newest = None if job in {own, *first, *jobs} else self._newest(job)
            if newest is None or newest.is_terminal:
                continue
            begun = readable_entry(self._storage, checkpoint_path(job, newest.begins))
            if begun is not None and begun.parent is not None and begun.parent.path == start.path:
                jobs.append(job)
        return tuple(jobs)

    def _waits_for(self, start: do.FindLaterCheckpoint) -> str | None:
        """Return the job of another name that waits for a savepoint which is to be claimed."""
        holder, inner = self._locate(start.path)
        savepoint = holder.full_path(inner)
        with contextlib.suppress(PenstockError, OSError):  # nobody knows
            job = waiting_job(open_storage(savepoint, self._storage.options))
            if job is not None and job.job_name != start.job_name:
                needed = read_chain(open_storage(job.checkpoints, self._storage.options), job.job_id).start()
                return job.job_id if any(same_place(savepoint, place) for place in needed) else None
        return None

    def _goes_on(self, storage: FileStorage, job_id: str) -> bool:
        for number in reversed(checkpoint_ids(storage.names(job_id))):
            entry = readable_entry(storage, checkpoint_path(job_id, number))
            if entry is not None:
                return not entry.is_terminal
        return False

    def _locate(self, path: str) -> tuple[FileStorage, str]:
        """Return the checkpoint directory of a checkpoint, and the checkpoint's path in it."""
        if "://" not in path and not Path(path).is_absolute():
            return self._storage, path
        for root in (self._storage.full_path(""), self._storage.url):
            if path.startswith(f"{root.rstrip('/')}/"):
                return self._storage, path[len(root.rstrip("/")) + 1 :]
        if "://" not in path and self._storage.url.startswith("file:"):  # a path with links may name the same place
            place, root = Path(path).resolve(), Path(self._storage.full_path("")).resolve()
            if place.is_relative_to(root):
                return self._storage, place.relative_to(root).as_posix()
        directory, name = above(without_links(path))
        root, job = above(directory)
        return open_storage(root or "/", self._storage.options), "/".join(filter(None, (job, name)))

    def put_entry(self, instruction: do.PutChainEntry) -> ev.Event:
        """Put an entry unless its id is taken; for a checkpoint this is the commit point."""
        entry = instruction.entry
        path = metadata_path(entry.job_id, entry.checkpoint_id)
        try:
            if self._storage.put_if_absent(path, document_of(self._storage, entry)):
                self._warn_of_others(path)
                if entry.is_terminal:
                    self._release(entry)
                return ev.ChainEntryStored()
            existing = entry_of(self._storage, path, self._storage.read(path))
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the entry may be there or not
            return ev.ChainEntryUncertain(error)
        return ev.ChainEntryTaken(existing)

    def _release(self, entry: ChainEntry) -> None:
        """Delete the claims of a job that has ended; a claim that stays is void by the job's terminal entry."""
        for path in entry.claimed:
            try:
                release(*self._locate(path), entry.job_id)
            except (PenstockError, OSError) as error:
                _log.debug("The claim of job %s on %s stays: %s", entry.job_id, path, error)

    def _warn_of_others(self, path: str) -> None:
        """Warn at the start if others can change the job's files, because a start with `latest` would refuse them."""
        if self._looked_at_rights or self._storage.keys:
            return
        self._looked_at_rights = True
        with contextlib.suppress(CheckpointStorageError):
            levels = path.split("/")
            for end in range(1, len(levels) + 1):
                if (exposed := self._storage.why_exposed("/".join(levels[:end]))) is not None:
                    _log.warning(_WILL_REFUSE, *exposed)
                    return

    def copy_state(self, instruction: do.CopyState) -> ev.Event:
        """Copy state files of another job or directory into this job's."""
        source, _ = self._locate(instruction.checkpoint)
        copy_files(source, self._storage, instruction.files, instruction.sizes)
        return ev.StateCopied()

    def store_state(self, instruction: do.StoreState) -> ev.Event:
        """Write state to files."""
        for path, data in instruction.files:
            self._storage.put(path, data)
        return ev.StateStored()

    def delete(self, instruction: do.DeleteFiles) -> None:
        """Delete checkpoints, and then the files that no other checkpoint names."""
        leftovers, job_id = instruction.leftovers, instruction.job_id
        entries = [metadata_path(job_id, number) for number in leftovers.checkpoints]

        def delete() -> None:
            files = self._without_those_of_others(job_id, instruction.begins, leftovers)
            for path in leftovers.claimed:  # before the files that it shares with this job's checkpoints
                delete_claimed(*self._locate(path), job_id)
            self._storage.delete(entries)
            self._storage.delete(files)

        self._in_background(delete)

    def sweep_leftovers(self, instruction: do.SweepLeftovers) -> None:
        """Delete files that earlier drivers and attempts left behind."""

        def sweep() -> None:
            for leftovers in self._leftovers(instruction):
                self._storage.delete(leftovers)

        self._in_background(sweep)

    def _leftovers(self, instruction: do.SweepLeftovers) -> tuple[Sequence[str], Sequence[str]]:
        """Return the checkpoints to delete, and the files to delete after them."""
        job_id, begins, before = instruction.job_id, instruction.begins, instruction.before
        unneeded = [number for number in self._ids(job_id) if begins <= number < before]
        unneeded = [number for number in unneeded if number not in instruction.checkpoints]
        entries = [metadata_path(job_id, number) for number in unneeded if self._is_checkpoint(job_id, number)]
        entries += [file for number in unneeded for file in self._claims_alone(checkpoint_path(job_id, number))]
        newest_ms = self._clock.now().now_ms - instruction.age_ms  # files have times of day
        files = [
            file.path
            for file in self._storage.files(shared_directory(job_id))
            if (file.modified_ms <= newest_ms or not instruction.age_ms)
            and file.path not in instruction.files
            and begins <= (checkpoint_of(file.path) or 0) <= before
        ]
        return entries, files

    def _without_those_of_others(self, job_id: str, begins: int, leftovers: Leftovers) -> Sequence[str]:
        """Return the files that no other owner's checkpoint names; if one of those is damaged, no older files."""
        older = [file for file in leftovers.files if (checkpoint_of(file) or 0) < begins]
        if not older:
            return leftovers.files
        needed: set[str] = set()
        others = (checkpoint_path(job_id, number) for number in self._ids(job_id) if number < begins)
        for path in (path for path in others if path not in leftovers.claimed):
            try:
                entry = read_entry(self._storage, path)
            except CorruptCheckpointError as error:
                _log.warning("Keeping files that checkpoint %s, which belongs to you, may need: %s", path, error)
                needed.update(older)
                break
            if entry is not None and entry.snapshot is not None:
                needed |= state_files(entry.snapshot)
        return [file for file in leftovers.files if file not in needed]

    def _is_checkpoint(self, job_id: str, checkpoint_id: int) -> bool:
        """Tell whether an entry is a readable checkpoint; no other entry may be deleted."""
        path = metadata_path(job_id, checkpoint_id)
        try:
            entry = find_entry(self._storage, path)
        except CorruptCheckpointError:
            return False
        return entry is not None and entry.kind is ChainEntryKind.CHECKPOINT

    def _claims_alone(self, path: str) -> list[str]:
        """Return the claims of a checkpoint that has been deleted."""
        names = self._storage.names(path)
        return [] if METADATA in names else [f"{path}/{name}" for name in names if number_of_claim(name)]

    def delete_results(self, instruction: do.DeleteResults) -> None:
        """Delete stored results of stages."""
        directory, run = results_directory(instruction.job_id), instruction.beginning_run

        def delete() -> None:
            names = self._storage.names(directory) if run else []
            left = [f"{directory}/{name}" for name in names if run_of_file(name) != run]
            self._storage.delete([*instruction.files, *left])

        self._in_background(delete)

    def _in_background(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except CheckpointStorageError as error:
                _log.warning("Cleaning up failed; it is tried again after the next start: %s", error)

        self._background.run(run)


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

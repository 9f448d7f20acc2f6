"""Performs the instructions that change the checkpoint directory: chain entries, state files, deletions."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.driver.checkpoints.claimants import release
from penstock._engine.driver.checkpoints.claimed_checkpoints import delete_claimed
from penstock._engine.driver.checkpoints.start_lookups import locate
from penstock._engine.protocol.metadata import (
    ChainEntry,
    ChainEntryKind,
)
from penstock._engine.protocol.paths import (
    METADATA,
    checkpoint_ids,
    checkpoint_of,
    checkpoint_path,
    metadata_path,
    number_of_claim,
    results_directory,
    run_of_file,
    shared_directory,
)
from penstock._engine.savepoints.chains import (
    read_entry,
)
from penstock._engine.storage.checkpoint_storage import copy_files, document_of, entry_of, find_entry
from penstock.errors import (
    CheckpointStorageError,
    CorruptCheckpointError,
    PenstockError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.coordinator.instructions import Leftovers
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.mailbox import Clock
    from penstock._engine.storage.checkpoint_storage import FileStorage

_log = logging.getLogger(__name__)

#: Why what was just made for this user alone can be changed by others.
_WILL_REFUSE: Final = (
    "%s: %s, so 'latest' will not restore what this job writes (penstock.state.private-files is false, or the file "
    "system keeps no rights, as vfat and 9p do). Take another directory, set penstock.state.signing-key, or name the "
    "checkpoint to start from"
)


class CheckpointStore:
    """Writes and deletes in one checkpoint directory.

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
                release(*locate(self._storage, path), entry.job_id)
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
        source, _ = locate(self._storage, instruction.checkpoint)
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
                delete_claimed(*locate(self._storage, path), job_id)
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
        unneeded = [number for number in checkpoint_ids(self._storage.names(job_id)) if begins <= number < before]
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
        others = (
            checkpoint_path(job_id, number) for number in checkpoint_ids(self._storage.names(job_id)) if number < begins
        )
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

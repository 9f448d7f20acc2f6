"""Reads the chain entries of a checkpoint directory: single ones, and whole chains of jobs."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind
from penstock._engine.protocol.paths import (
    METADATA,
    checkpoint_ids,
    checkpoint_of,
    checkpoint_path,
    is_job_directory,
)
from penstock._engine.storage.checkpoint_storage import find_entry
from penstock._engine.storage.opening import local_path
from penstock.common.paths import real_path
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from penstock._engine.protocol.metadata import StoredCommits
    from penstock._engine.storage.checkpoint_storage import FileStorage

#: Entries that lead to the savepoint that they name: the job stops into it, or continues from it.
_INTO_SAVEPOINT: Final = frozenset({ChainEntryKind.CHECKPOINT, ChainEntryKind.SUSPENDED, ChainEntryKind.CANCELED})
#: Entries of a job that has ended.
_DONE: Final = frozenset({ChainEntryKind.FINISHED, ChainEntryKind.DRAINED})


@dataclass(frozen=True, slots=True)
class JobChain:
    """The chain entries of one job."""

    storage: FileStorage
    job_id: str
    #: By checkpoint id, rising.
    entries: dict[int, ChainEntry]
    #: Metadata files that are damaged or of an unknown format, so that their state files are unknown.
    unreadable: tuple[str, ...]

    @property
    def newest(self) -> ChainEntry | None:
        """The newest entry that can be read."""
        return self.entries[max(self.entries)] if self.entries else None

    @property
    def last_unreadable(self) -> int | None:
        """The id of the last record that cannot be read; None if all can be."""
        ids = (re.search(r"/chk-(\d+)/", path) for path in self.unreadable)
        return max((sys.maxsize if found is None else int(found.group(1)) for found in ids), default=None)

    @property
    def hides_newest(self) -> bool:
        """Whether a record that cannot be read may be its newest one."""
        return (self.last_unreadable or 0) > max(self.entries, default=0)

    def may_be_named(self, file: str) -> bool:
        """Tell whether a record that cannot be read may name a state file: files of later checkpoints are not named."""
        last, made_for = self.last_unreadable, checkpoint_of(file)
        return last is not None and (made_for is None or made_for <= last)

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended; it may still be resumed from the state that its entries name."""
        return self.newest is not None and self.newest.is_terminal

    @property
    def runs(self) -> frozenset[str]:
        """All runs of the job: takeover entries are never deleted."""
        return frozenset(run for entry in self.entries.values() for run in (entry.run_id, *entry.runs))

    @property
    def to_be_deleted(self) -> frozenset[int]:
        """The checkpoints that each run of an ended job would have deleted at its end, had it been able to."""
        last = self.newest
        if last is None or not last.is_terminal:
            return frozenset()
        ends = [entry for entry in self.entries.values() if entry.is_terminal and not entry.keeps_checkpoints]
        parent = None if last.parent is None else last.parent.path
        return frozenset(
            number
            for number, entry in self.entries.items()
            if entry.kind is ChainEntryKind.CHECKPOINT
            and any(end.begins <= number < end.checkpoint_id for end in ends)
            and (number >= last.begins or checkpoint_path(self.job_id, number) not in {parent, *last.claimed})
        )

    @property
    def abandoned(self) -> frozenset[int]:
        """The checkpoints of earlier runs that the last run did not continue from; `latest` needs none of them."""
        last = self.newest
        if last is None or self.hides_newest:
            return frozenset()
        parent = None if last.parent is None else last.parent.path
        return frozenset(
            number
            for number, entry in self.entries.items()
            if number < last.begins
            and entry.kind is ChainEntryKind.CHECKPOINT
            and checkpoint_path(self.job_id, number) not in {parent, *last.claimed}
        )

    @property
    def living(self) -> list[ChainEntry]:
        """The entries that stay."""
        to_be_deleted = self.to_be_deleted
        return [entry for number, entry in self.entries.items() if number not in to_be_deleted]

    def runs_with_frames(self, *, abandoned: bool) -> frozenset[str]:
        """Return the runs whose DataFrames a start may read.

        Args:
            abandoned: Whether from checkpoints that the last run did not continue from, too.
        """
        last = self.newest
        runs = [self.entries[number] for number in self.abandoned] if abandoned else []
        continues = last is not None and (last.keeps_checkpoints or last.kind is ChainEntryKind.SUSPENDED)
        if last is not None and last.kind not in _DONE and (continues or not last.is_terminal):
            runs.append(last)
        return frozenset(run for entry in runs for run in (entry.run_id, *entry.runs))

    @property
    def state_files(self) -> frozenset[str]:
        """The state files that its checkpoints name."""
        return self.files_of(self.living)

    @staticmethod
    def files_of(entries: Iterable[ChainEntry]) -> frozenset[str]:
        """Return the state files that some entries name."""
        snapshots = (entry.snapshot for entry in entries if entry.snapshot is not None)
        return frozenset[str]().union(*map(state_files, snapshots))

    def start(self) -> tuple[str, ...]:
        """Return the savepoints and checkpoints elsewhere that a start from the newest entry needs.

        This is the savepoint that the job was suspended into or stops into. A job without a checkpoint of its own needs
        the one that it was started from.
        """
        entry, needed, stops = self.newest, list[str](), True
        if entry is not None and entry.kind in _DONE and not entry.keeps_checkpoints:
            return ()  # no start needs its checkpoints, even if a crash has kept one from its deletion
        while entry is not None:
            if entry.savepoint is not None and entry.kind in _INTO_SAVEPOINT and stops:
                needed.append(entry.savepoint)
                break
            stops = stops and entry.kind is not ChainEntryKind.CANCELED and not entry.resumes  # else the job continues
            if entry.kind is ChainEntryKind.CHECKPOINT or entry.parent is None:
                break
            above, _, _ = entry.parent.path.rpartition("/")
            if above != self.job_id:
                needed.append(entry.parent.path)
                break
            entry = self.entries.get(entry.parent.checkpoint_id)
        return tuple(needed)


def read_chains(storage: FileStorage) -> list[JobChain]:
    """Return the chains of all jobs of a checkpoint directory."""
    return [read_chain(storage, name) for name in storage.names("") if is_job_directory(name)]


def read_entry(
    storage: FileStorage, checkpoint: str, seen: dict[str, os.stat_result] | None = None
) -> ChainEntry | None:
    """Read the chain entry of a checkpoint; None if there is none.

    Args:
        storage: The checkpoint directory.
        checkpoint: The checkpoint's directory, below that one.
        seen: As for `FileStorage.find`.

    Raises:
        CorruptCheckpointError: The entry is damaged.
    """
    return find_entry(storage, f"{checkpoint}/{METADATA}", seen)


def readable_entry(storage: FileStorage, checkpoint: str) -> ChainEntry | None:
    """Read the chain entry of a checkpoint; None if there is none, or a damaged one."""
    try:
        return read_entry(storage, checkpoint)
    except CorruptCheckpointError:
        return None


def newest_entry(storage: FileStorage, job_id: str) -> ChainEntry | None:
    """Return the newest readable entry of a job's chain; None where there is none.

    An older entry than a damaged one names the job as well, and a restore from the damaged one raises.
    """
    entries = (
        readable_entry(storage, checkpoint_path(job_id, number))
        for number in reversed(checkpoint_ids(storage.names(job_id)))
    )
    return next(filter(None, entries), None)


def read_chain(storage: FileStorage, job_id: str) -> JobChain:
    """Return the chain of one job."""
    entries: dict[int, ChainEntry] = {}
    unreadable: list[str] = []
    if storage.is_link(job_id):
        return JobChain(storage, job_id, {}, (storage.full_path(job_id),))
    for number in checkpoint_ids(storage.names(job_id)):
        checkpoint = checkpoint_path(job_id, number)
        try:
            entry = read_entry(storage, checkpoint)
        except CorruptCheckpointError:
            unreadable.append(storage.full_path(f"{checkpoint}/{METADATA}"))
            continue
        if entry is not None:  # else a driver died before its commit point
            entries[number] = entry
    return JobChain(storage, job_id, entries, tuple(unreadable))


def commits_at_the_end(storage: FileStorage, job_id: str, checkpoint_id: int) -> StoredCommits | None:
    """Return what a job knew of the commits of a checkpoint when it ended behind it; None if it has gone on from it."""
    known: StoredCommits | None = None
    for number in checkpoint_ids(storage.names(job_id)):
        if number <= checkpoint_id:
            continue
        entry = readable_entry(storage, checkpoint_path(job_id, number))
        parent = None if entry is None else entry.parent
        if entry is None or parent is None or parent.checkpoint_id != checkpoint_id or entry.commits is None:
            break
        known = entry.commits
    return known


def last_checkpoint(storage: FileStorage, job_id: str, behind: int) -> int | None:
    """Return the id of the last checkpoint that a job has completed after a given one; None if there is none.

    The checkpoint may be deleted by now: takeover and terminal entries stay, and name their parent.

    Args:
        storage: The checkpoint directory.
        job_id: The job.
        behind: The id of the given checkpoint.
    """
    for number in reversed([number for number in checkpoint_ids(storage.names(job_id)) if number > behind]):
        entry = readable_entry(storage, checkpoint_path(job_id, number))
        if entry is None:
            continue
        if entry.kind is ChainEntryKind.CHECKPOINT:
            return number
        parent = entry.parent
        if parent is not None and parent.path == checkpoint_path(job_id, parent.checkpoint_id):
            return parent.checkpoint_id if parent.checkpoint_id > behind else None
    return None


def same_place(left: str, right: str) -> bool:
    """Tell whether two paths name the same savepoint or checkpoint once links are resolved."""
    return _bare(left) == _bare(right)


def _bare(path: str) -> str:
    return real_path(local_path(path).removesuffix(f"/{METADATA}"))

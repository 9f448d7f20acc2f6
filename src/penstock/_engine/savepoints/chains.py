"""The chain entries of a checkpoint directory's jobs, as they are read from outside of these jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind
from penstock._engine.protocol.paths import METADATA, checkpoint_ids, checkpoint_path, is_job_directory, metadata_path
from penstock._engine.storage.entries import find_entry
from penstock._engine.storage.opening import local_path
from penstock.common.paths import real_path
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.storage.checkpoint_storage import CheckpointStorage

#: Records that, where they name a savepoint, lead to it: the job stops into it, or goes on from it.
_INTO_SAVEPOINT: Final = frozenset({ChainEntryKind.CHECKPOINT, ChainEntryKind.SUSPENDED, ChainEntryKind.CANCELED})
#: Records after which there is nothing left to do.
_DONE: Final = frozenset({ChainEntryKind.FINISHED, ChainEntryKind.DRAINED})


@dataclass(frozen=True, slots=True)
class JobChain:
    """The chain entries of one job."""

    storage: CheckpointStorage
    job_id: str
    #: By checkpoint id, rising.
    entries: dict[int, ChainEntry]
    #: Metadata files that are damaged or of another format: what they name is not known.
    unreadable: tuple[str, ...]

    @property
    def newest(self) -> ChainEntry | None:
        """The newest entry that can be read."""
        return self.entries[max(self.entries)] if self.entries else None

    @property
    def has_ended(self) -> bool:
        """Whether the job ended; it may still be resumed, from what its entries name."""
        return self.newest is not None and self.newest.is_terminal

    @property
    def runs(self) -> frozenset[str]:
        """The runs of the job, all of them: the entries of their starts stay for good."""
        return frozenset(run for entry in self.entries.values() for run in (entry.run_id, *entry.runs))

    @property
    def doomed(self) -> frozenset[int]:
        """The checkpoints that the job was about to delete at its end when its process died."""
        last = self.newest
        if last is None or not last.is_terminal or last.keeps_checkpoints:
            return frozenset()
        checkpoints = (number for number, entry in self.entries.items() if entry.kind is ChainEntryKind.CHECKPOINT)
        return frozenset(number for number in checkpoints if number >= last.begins)

    @property
    def abandoned(self) -> frozenset[int]:
        """The checkpoints of earlier runs that the last one did not go on from; `latest` needs none of them."""
        last = self.newest
        if last is None or self.unreadable:
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
        doomed = self.doomed
        return [entry for number, entry in self.entries.items() if number not in doomed]

    @property
    def state_files(self) -> frozenset[str]:
        """The files of state that its checkpoints name."""
        return self.files_of(self.living)

    @staticmethod
    def files_of(entries: Iterable[ChainEntry]) -> frozenset[str]:
        """Return the files of state that some entries name."""
        snapshots = (entry.snapshot for entry in entries if entry.snapshot is not None)
        return frozenset[str]().union(*map(state_files, snapshots))

    def start(self) -> tuple[str, ...]:
        """Return the savepoints and checkpoints elsewhere that a start from the newest entry needs.

        That is the savepoint that the job was suspended into or stops into, or what it was started from as long as it
        has no checkpoint of its own.
        """
        entry, needed, stops = self.newest, list[str](), True
        if entry is not None and entry.kind in _DONE and not entry.keeps_checkpoints:
            return ()  # nothing starts from there any more, also where a crash has left a checkpoint that was to go
        while entry is not None:
            if entry.savepoint is not None and entry.kind in _INTO_SAVEPOINT and stops:
                needed.append(entry.savepoint)
                break
            stops = stops and entry.kind is not ChainEntryKind.CANCELED and not entry.resumes  # else it goes on
            if entry.kind is ChainEntryKind.CHECKPOINT or entry.parent is None:
                break
            above, _, _ = entry.parent.path.rpartition("/")
            if above != self.job_id:
                needed.append(entry.parent.path)
                break
            entry = self.entries.get(entry.parent.checkpoint_id)
        return tuple(needed)


def read_chains(storage: CheckpointStorage) -> list[JobChain]:
    """Return the chains of all jobs of a checkpoint directory."""
    return [read_chain(storage, name) for name in storage.names("") if is_job_directory(name)]


def read_chain(storage: CheckpointStorage, job_id: str) -> JobChain:
    """Return the chain of one job."""
    entries: dict[int, ChainEntry] = {}
    unreadable: list[str] = []
    if storage.is_link(job_id):
        return JobChain(storage, job_id, {}, (storage.full_path(job_id),))
    for number in checkpoint_ids(storage.names(job_id)):
        path = metadata_path(job_id, number)
        try:
            entry = find_entry(storage, path)
        except CorruptCheckpointError:
            unreadable.append(storage.full_path(path))
            continue
        if entry is not None:  # else a driver died before its commit point
            entries[number] = entry
    return JobChain(storage, job_id, entries, tuple(unreadable))


def last_checkpoint(storage: CheckpointStorage, job_id: str, behind: int) -> int | None:
    """Return the id of the last checkpoint that a job has completed, None where none is above an id.

    It is told also where that is deleted by now: the entries of starts and ends stay, and name what they follow.

    Args:
        storage: The checkpoint directory.
        job_id: The job.
        behind: The id.
    """
    for number in reversed([number for number in checkpoint_ids(storage.names(job_id)) if number > behind]):
        try:
            entry = find_entry(storage, metadata_path(job_id, number))
        except CorruptCheckpointError:
            continue
        if entry is None:
            continue
        if entry.kind is ChainEntryKind.CHECKPOINT:
            return number
        parent = entry.parent
        if parent is not None and parent.path == checkpoint_path(job_id, parent.checkpoint_id):
            return parent.checkpoint_id if parent.checkpoint_id > behind else None
    return None


def same_place(left: str, right: str) -> bool:
    """Tell whether two paths of savepoints or checkpoints mean the same one once links are resolved."""
    return _bare(left) == _bare(right)


def _bare(path: str) -> str:
    return real_path(local_path(path).removesuffix(f"/{METADATA}"))

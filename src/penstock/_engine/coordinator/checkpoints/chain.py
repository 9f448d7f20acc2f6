"""Puts the entries of a job's chain: each has the next id, the parent checkpoint and the driver that writes it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.alarms import EntryRetryDue
from penstock._engine.coordinator.instructions import DeleteFiles, PutChainEntry, SetAlarm, SweepOrphans
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind, JobSnapshot, ParentCheckpoint
from penstock._engine.protocol.paths import checkpoint_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.coordinator.checkpoints.retention import CheckpointRetention, Garbage
    from penstock._engine.coordinator.instructions import Instruction
    from penstock._engine.protocol.batch_program import BatchProgram
    from penstock._engine.protocol.metadata import StoredCommits

#: A chain entry whose outcome is unknown is put again this often, each time after twice the pause.
MAX_RECORD_TRIES: Final = 5
RECORD_PAUSE_MS: Final = 200


@dataclass(frozen=True, slots=True)
class DriverIdentity:
    """The identity of this driver; its random parts come from outside."""

    #: One start of the job in one driver.
    run_id: str
    #: The job's id if neither a setting nor its name gives one, and the mark of a checkpoint directory without a mark.
    fresh_job_id: str
    penstock_version: str


@dataclass(slots=True)
class ChainWriter:
    """Puts the chain entries of one driver, each with the next id; at most one is unanswered at a time."""

    identity: DriverIdentity
    job_id: str
    job_name: str
    next_id: int
    #: The last checkpoint, which the next entry follows.
    parent: ParentCheckpoint | None = None
    #: See `ChainEntry`.
    claimed: tuple[str, ...] = ()
    begins: int = 1
    runs: tuple[str, ...] = ()
    #: Whether the job continues from the parent although that was to be the last checkpoint before a stop.
    resumes: bool = False
    #: Batch jobs with recovery: the program.
    program: BatchProgram | None = None
    #: The entry between `put` and its answer.
    entry: ChainEntry | None = None
    #: The last entry without a known outcome; it may turn out to be stored.
    lost: ChainEntry | None = None
    _tries: int = 0
    _writes: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def completed(self) -> int:
        """The id of the last checkpoint; 0 for none."""
        return self.parent.checkpoint_id if self.parent else 0

    def make(
        self,
        kind: ChainEntryKind,
        now_ms: int,
        snapshot: JobSnapshot | None = None,
        *,
        reason: str = "",
        savepoint: str | None = None,
        keeps_checkpoints: bool = True,
        commits: StoredCommits | None = None,
    ) -> ChainEntry:
        """Make the entry with the next id; each call gives it another nonce."""
        return ChainEntry(
            kind=kind,
            job_id=self.job_id,
            job_name=self.job_name,
            checkpoint_id=self.next_id,
            run_id=self.identity.run_id,
            nonce=f"{self.identity.run_id}-{next(self._writes)}",
            created_ms=now_ms,
            penstock_version=self.identity.penstock_version,
            parent=self.parent,
            snapshot=snapshot,
            reason=reason,
            savepoint=savepoint,
            keeps_checkpoints=keeps_checkpoints,
            claimed=self.claimed,
            begins=self.begins,
            runs=self.runs,
            resumes=self.resumes,
            commits=commits,
            program=self.program if kind is ChainEntryKind.TAKEOVER else None,
        )

    def savepoint(self, snapshot: JobSnapshot, now_ms: int, *, of: int) -> ChainEntry:
        """Make the entry of a savepoint, which is a copy of the last checkpoint or of the next one."""
        is_last = self.parent is not None and self.parent.checkpoint_id == of
        parent = self.parent if is_last else ParentCheckpoint(of, checkpoint_path(self.job_id, of))
        entry = self.make(ChainEntryKind.SAVEPOINT, now_ms, snapshot)
        return replace(entry, checkpoint_id=of, parent=parent, claimed=(), begins=0, runs=(), resumes=False)

    def put(self, entry: ChainEntry) -> PutChainEntry:
        """Put an entry."""
        self.entry, self._tries = entry, 1
        return PutChainEntry(entry)

    def put_again(self) -> SetAlarm | None:
        """Put the entry again after a pause; None if no try is left, and the entry is lost.

        It keeps its nonce, so it is recognized if an earlier try has stored it after all.
        """
        if self._tries == MAX_RECORD_TRIES:
            self.lost, self.entry = self.entry, None
            return None
        self._tries += 1
        return SetAlarm(RECORD_PAUSE_MS << (self._tries - 2), EntryRetryDue())

    def deletion(self, garbage: Garbage) -> list[Instruction]:
        """Delete files of this job that are not needed any more."""
        if not garbage:
            return []
        self.claimed = tuple(path for path in self.claimed if path not in garbage.claimed)
        return [DeleteFiles(self.job_id, garbage, self.begins)]

    def sweep(self, retention: CheckpointRetention) -> SweepOrphans:
        """Delete files that earlier drivers and attempts left behind."""
        return SweepOrphans(self.job_id, self.next_id - 1, retention.checkpoints, retention.files, self.begins)

    def stored(self, entry: ChainEntry) -> None:
        """Note that an entry of this driver is on the chain."""
        self.next_id = entry.checkpoint_id + 1
        if entry.kind is ChainEntryKind.CHECKPOINT:
            path = checkpoint_path(entry.job_id, entry.checkpoint_id)
            self.parent, self.resumes = ParentCheckpoint(entry.checkpoint_id, path), False

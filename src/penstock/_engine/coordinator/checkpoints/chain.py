"""The chain of a job: its entries, and which of its files are left over.

An entry has the next id, the parent checkpoint and the driver that writes it. Left over are old checkpoints, state
files that no retained checkpoint names, and others. Takeover and terminal entries are never deleted: an older driver
that wakes up must find its next id taken.
"""

from __future__ import annotations

import bisect
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.alarms import EntryRetryDue
from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.coordinator.instructions import DeleteFiles, Leftovers, PutChainEntry, SetAlarm, SweepLeftovers
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind, JobSnapshot, ParentCheckpoint
from penstock._engine.protocol.paths import checkpoint_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.coordinator.instructions import Instruction
    from penstock._engine.protocol.batch_program import BatchProgram
    from penstock._engine.protocol.metadata import JobSnapshot, StoredCommits


#: An abandoned attempt may write for some more seconds; its files are removed after this time.
LEFTOVER_AGE_MS: Final = 60_000
#: Spark runs tasks twice without an abandoned attempt, and hosts that were cut off write late; so a sweep comes in any
#: case after this time.
SWEEP_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, eq=False)
class RetainedCheckpoint:
    """A checkpoint that stays, and the files that it names."""

    #: None for a checkpoint that the job does not own, or that is not on its chain.
    checkpoint_id: int | None
    files: frozenset[str]
    #: The path of a checkpoint from elsewhere that the job has claimed.
    claimed: str | None = None


class CheckpointRetention:
    """Keeps the newest checkpoints of one job.

    Args:
        retained: The number of checkpoints to keep.
        passed_ms: When the job started, by the monotonic clock; earlier drivers may have left some.
        claimed: What the job has claimed from elsewhere.
    """

    def __init__(self, retained: int, passed_ms: int, claimed: tuple[str, ...] = ()) -> None:
        self._retained = retained
        #: Oldest first.
        self._kept = [RetainedCheckpoint(None, frozenset(), path) for path in claimed]
        #: Checkpoints that are being copied, or whose output is being delivered.
        self._pinned: list[RetainedCheckpoint] = []
        #: The times of the next sweeps for leftovers, rising; there is always one.
        self._sweeps_ms = deque([passed_ms, passed_ms + LEFTOVER_AGE_MS])

    @property
    def files(self) -> frozenset[str]:
        """The files that kept checkpoints name."""
        return frozenset[str]().union(*(kept.files for kept in (*self._pinned, *self._kept)))

    @property
    def checkpoints(self) -> frozenset[int]:
        """The ids of the kept checkpoints."""
        ids = (kept.checkpoint_id for kept in (*self._pinned, *self._kept))
        return frozenset(checkpoint_id for checkpoint_id in ids if checkpoint_id is not None)

    def keep(self, entry: ChainEntry) -> None:
        """Count a checkpoint of this job as the newest one."""
        self._kept.append(_kept(entry))

    def keep_origin(self, snapshot: JobSnapshot) -> None:
        """Keep the files of the checkpoint that the job starts from, until newer checkpoints replace them."""
        self._kept.append(RetainedCheckpoint(None, state_files(snapshot)))

    def pin(self, checkpoint_id: int, files: frozenset[str]) -> RetainedCheckpoint:
        """Keep a checkpoint and files of its epoch until they are unpinned."""
        self._pinned.append(RetainedCheckpoint(checkpoint_id, files))
        return self._pinned[-1]

    def unpin(self, pinned: RetainedCheckpoint) -> Leftovers:
        """Unpin a checkpoint, and return the files that no other kept checkpoint names."""
        self._pinned.remove(pinned)
        return Leftovers((), tuple(sorted(pinned.files - self.files)))

    def drop(self) -> Leftovers:
        """Drop all but the newest checkpoints, and return the files that no kept checkpoint names."""
        own = [place for place, kept in enumerate(self._kept) if kept.checkpoint_id is not None]
        return self._let_go(own[-self._retained] if len(own) >= self._retained else 0)

    def drop_all(self) -> Leftovers:
        """Drop all that this job owns, at the end of a job that retains nothing."""
        return self._let_go(len(self._kept))

    def _let_go(self, count: int) -> Leftovers:
        dropped, self._kept = self._kept[:count], self._kept[count:]
        files = frozenset[str]().union(*(kept.files for kept in dropped))
        return Leftovers(
            tuple(kept.checkpoint_id for kept in dropped if kept.checkpoint_id is not None),
            tuple(sorted(files - self.files)),
            tuple(kept.claimed for kept in dropped if kept.claimed is not None),
        )

    def leftovers_possible(self, passed_ms: int) -> None:
        """Note an abandoned attempt, which may have left files and may still write some."""
        soon = passed_ms + LEFTOVER_AGE_MS
        if not any(soon - LEFTOVER_AGE_MS // 2 <= sweep_ms <= soon for sweep_ms in self._sweeps_ms):
            bisect.insort(self._sweeps_ms, soon)

    def sweep_due(self, passed_ms: int) -> bool:
        """Tell whether a sweep for leftovers is due, and count it as done."""
        due = passed_ms >= self._sweeps_ms[0]
        while self._sweeps_ms and passed_ms >= self._sweeps_ms[0]:
            self._sweeps_ms.popleft()
        if not self._sweeps_ms:
            self._sweeps_ms.append(passed_ms + SWEEP_MS)
        return due


def _kept(entry: ChainEntry) -> RetainedCheckpoint:
    return RetainedCheckpoint(
        entry.checkpoint_id, frozenset() if entry.snapshot is None else state_files(entry.snapshot)
    )


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

    def deletion(self, leftovers: Leftovers) -> list[Instruction]:
        """Delete files of this job that are not needed any more."""
        if leftovers == Leftovers():
            return []
        self.claimed = tuple(path for path in self.claimed if path not in leftovers.claimed)
        return [DeleteFiles(self.job_id, leftovers, self.begins)]

    def sweep(self, retention: CheckpointRetention, *, at_end: bool = False) -> SweepLeftovers:
        """Delete files that earlier drivers and attempts left behind.

        Args:
            retention: Says what is kept.
            at_end: Whether no epoch of the job follows, so that files which were just written are leftovers, too.
        """
        age_ms = 0 if at_end else LEFTOVER_AGE_MS
        return SweepLeftovers(
            self.job_id, self.next_id - 1, retention.checkpoints, retention.files, self.begins, age_ms
        )

    def stored(self, entry: ChainEntry) -> None:
        """Note that an entry of this driver is on the chain."""
        self.next_id = entry.checkpoint_id + 1
        if entry.kind is ChainEntryKind.CHECKPOINT:
            path = checkpoint_path(entry.job_id, entry.checkpoint_id)
            self.parent, self.resumes = ParentCheckpoint(entry.checkpoint_id, path), False

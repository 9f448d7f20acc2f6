"""Decides which files of a job are left over: old checkpoints, state files that no retained checkpoint names, others.

Takeover and terminal entries are never deleted: an older driver that wakes up must find its next id taken.
"""

from __future__ import annotations

import bisect
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.snapshots import state_files

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import ChainEntry, JobSnapshot

#: An abandoned attempt may write for some more seconds; its files are removed after this time.
LEFTOVER_AGE_MS: Final = 60_000
#: Spark runs tasks twice without an abandoned attempt, and hosts that were cut off write late; so a sweep comes in any
#: case after this time.
SWEEP_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What a job needs no more, and deletes."""

    #: Ids of checkpoints of this job.
    checkpoints: tuple[int, ...] = ()
    #: Paths of files in the job's shared directory.
    files: tuple[str, ...] = ()
    #: Paths of checkpoints and savepoints from elsewhere that the job has claimed.
    claimed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Tell whether there is anything to delete."""
        return bool(self.checkpoints or self.files or self.claimed)


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

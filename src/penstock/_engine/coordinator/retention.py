"""Which files of a job may go: checkpoints beyond the newest, state that no kept checkpoint names, orphans.

Takeover and terminal records stay for good: an older driver that wakes up must find the id taken that it wants.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.snapshots import state_files

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import JobSnapshot, Record

#: A losing attempt may still be writing for seconds; what it wrote is removed after this time.
ORPHAN_AGE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Garbage:
    """What may be deleted."""

    #: Ids of checkpoints of this job.
    checkpoints: tuple[int, ...] = ()
    #: Paths of files in the job's shared directory.
    files: tuple[str, ...] = ()
    #: Paths of checkpoints and savepoints from elsewhere that the job has claimed.
    claimed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Tell whether there is anything."""
        return bool(self.checkpoints or self.files or self.claimed)


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint that stays, and the files that it names."""

    #: None for one from elsewhere; then this job has copies of its files.
    checkpoint_id: int | None
    files: frozenset[str]
    #: Where one from elsewhere is.
    path: str = ""


class Retention:
    """Keeps the newest checkpoints of one job.

    Args:
        retained: How many.
        now_ms: The time of the start: drivers before this one may have left something.
    """

    def __init__(self, retained: int, now_ms: int) -> None:
        self._retained = retained
        self._kept: deque[Kept] = deque()
        #: What belongs to the user: the checkpoint that this job was told to start from without owning it.
        self._pinned: list[Kept] = []
        #: When orphans are to be looked for, rising.
        self._sweeps_ms = deque([now_ms, now_ms + ORPHAN_AGE_MS])

    @property
    def files(self) -> frozenset[str]:
        """The files that kept checkpoints name."""
        return frozenset[str]().union(*(kept.files for kept in (*self._pinned, *self._kept)))

    @property
    def checkpoints(self) -> frozenset[int]:
        """The ids of the kept checkpoints."""
        ids = (kept.checkpoint_id for kept in (*self._pinned, *self._kept))
        return frozenset(checkpoint_id for checkpoint_id in ids if checkpoint_id is not None)

    def keep(self, record: Record) -> None:
        """Count a checkpoint of this job as the newest one."""
        self._kept.append(_kept(record))

    def claim(self, path: str, snapshot: JobSnapshot) -> None:
        """Count a checkpoint from elsewhere as one of this job, which goes when newer ones are there.

        Args:
            path: Where it is.
            snapshot: Its state, with the names that its files have as this job's own.
        """
        self._kept.append(Kept(None, state_files(snapshot), path))

    def pin(self, checkpoint_id: int, snapshot: JobSnapshot) -> None:
        """Keep a checkpoint of this job until it is unpinned."""
        self._pinned.append(Kept(checkpoint_id, state_files(snapshot)))

    def unpin(self, checkpoint_id: int) -> Garbage:
        """Let a pinned checkpoint go as any other, and return what only it still named."""
        pinned = next(kept for kept in self._pinned if kept.checkpoint_id == checkpoint_id)
        self._pinned.remove(pinned)
        return Garbage((), tuple(sorted(pinned.files - self.files)))

    def drop(self) -> Garbage:
        """Let go of the checkpoints beyond the newest, and return what is of no use any more."""
        dropped: list[Kept] = []
        while len(self._kept) > self._retained:
            dropped.append(self._kept.popleft())
        return self._garbage(dropped)

    def drop_all(self) -> Garbage:
        """Let go of all that this job owns, at the end of one that leaves nothing."""
        dropped = list(self._kept)
        self._kept.clear()
        return self._garbage(dropped)

    def _garbage(self, dropped: list[Kept]) -> Garbage:
        files = frozenset[str]().union(*(kept.files for kept in dropped))
        return Garbage(
            tuple(kept.checkpoint_id for kept in dropped if kept.checkpoint_id is not None),
            tuple(sorted(files - self.files)),
            tuple(kept.path for kept in dropped if kept.checkpoint_id is None),
        )

    def orphans_possible(self, now_ms: int) -> None:
        """Take note that an attempt was given up, which may have left files behind and still write some."""
        if not self._sweeps_ms or self._sweeps_ms[-1] < now_ms + ORPHAN_AGE_MS // 2:
            self._sweeps_ms.append(now_ms + ORPHAN_AGE_MS)

    def sweep_due(self, now_ms: int) -> bool:
        """Tell whether orphans are to be looked for now, and count them as looked for."""
        due = bool(self._sweeps_ms) and now_ms >= self._sweeps_ms[0]
        while self._sweeps_ms and now_ms >= self._sweeps_ms[0]:
            self._sweeps_ms.popleft()
        return due


def _kept(record: Record) -> Kept:
    return Kept(record.checkpoint_id, frozenset() if record.snapshot is None else state_files(record.snapshot))

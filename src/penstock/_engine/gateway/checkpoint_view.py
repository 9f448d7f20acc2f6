"""The checkpoints of a job as others see them: counts, the last ones of each kind, and a short history."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock._engine.protocol.clocks import Moment


_FURTHER: Final = 10**9


class CheckpointKind(StrEnum):
    """The purpose of a checkpoint.

    Source: org.apache.flink.runtime.rest.messages.checkpoints.CheckpointStatistics.RestAPICheckpointType.
    """

    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"
    #: The job stops with it.
    SYNC_SAVEPOINT = "SYNC_SAVEPOINT"


class CheckpointStatus(StrEnum):
    """The status of a checkpoint."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class SubtaskCheckpoint:
    """The part of one subtask in a checkpoint."""

    #: The time of its ack, in epoch milliseconds.
    acked_ms: int
    #: The milliseconds from its begin to its ack.
    duration_ms: int
    #: Bytes that it wrote for this checkpoint, and bytes of all its state.
    written_bytes: int
    state_bytes: int
    records: int


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """One checkpoint, or savepoint."""

    id: int
    kind: CheckpointKind
    status: CheckpointStatus
    #: When its epoch was dispatched; for a savepoint of a running job, when the copy began.
    triggered: Moment
    #: The number of subtasks in its epoch.
    subtask_count: int
    #: The time of the last ack, and the time at which the checkpoint completed or failed; None before.
    acked: Moment | None = None
    ended: Moment | None = None
    #: By vertex of the plan and by subtask; a subtask that had finished before is left out. Empty until it completes.
    subtasks: tuple[dict[int, SubtaskCheckpoint], ...] = ()
    #: Bytes that all of them wrote for it, and bytes of all the state that it names.
    written_bytes: int = 0
    state_bytes: int = 0
    #: Its path for display; None until it completes, and if its directory is temporary.
    path: str | None = None
    #: Its files were deleted, because newer checkpoints replaced it.
    discarded: bool = False
    #: Why it failed.
    failure: str = ""
    #: By vertex: the number of subtasks that had finished before the checkpoint. Empty until it completes.
    finished: tuple[int, ...] = ()
    #: 0 for the checkpoint of this id itself. Other entries of the id are numbered from 1 in this run: savepoints that
    #: were copied from the checkpoint, and failed tries.
    further: int = 0

    @property
    def entry_id(self) -> int:
        """The id of the entry: that of the checkpoint, with the number of a further entry before its nine digits.

        Example:
            >>> from penstock._engine.protocol.clocks import Moment
            >>> [CheckpointView(4, "CHECKPOINT", "FAILED", Moment(0, 0), 2, further=n).entry_id for n in (0, 1)]
            [4, 1000000004]
        """
        return self.id + self.further * _FURTHER

    @property
    def duration_ms(self) -> int | None:
        """From when it was triggered to when it completed or failed; None before that."""
        return None if self.ended is None else self.ended.since(self.triggered)

    @property
    def acknowledged(self) -> int:
        """The number of subtasks that have acknowledged."""
        return sum(map(len, self.subtasks))


@dataclass(frozen=True, slots=True)
class RestoredView:
    """The checkpoint that the job continued from last."""

    checkpoint_id: int
    #: In epoch milliseconds.
    restored_ms: int
    is_savepoint: bool
    path: str | None
    #: The last checkpoint that its job has completed after it: output between the two is published again.
    later: int | None = None


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The checkpoint settings of a job. Times in milliseconds."""

    #: True if neither an interval nor a directory is set: then checkpoints only serve the job's own restarts.
    enabled: bool
    interval_ms: int
    timeout_ms: int
    min_pause_ms: int
    tolerable_failures: int
    #: Whether checkpoints stay when the job was cancelled.
    kept_on_cancel: bool
    durable: bool


@dataclass(frozen=True, slots=True)
class StatsSummary:
    """The distribution of a figure over the last thousand completed checkpoints of this run."""

    values: tuple[int, ...] = ()

    def quantile(self, share: float) -> float:
        """Return the quantile of a share from 0 to 1.

        Example:
            >>> StatsSummary((1, 2, 3, 4, 5)).quantile(0.5), StatsSummary().quantile(0.5)
            (3.0, 0.0)
        """
        if not self.values:
            return 0.0
        place = share * (len(self.values) - 1)
        below = int(place)
        above = min(below + 1, len(self.values) - 1)
        ordered = sorted(self.values)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(frozen=True, slots=True)
class CheckpointsView:
    """The checkpoints of a job in this run."""

    settings: CheckpointSettings
    completed: int = 0
    failed: int = 0
    in_progress: int = 0
    #: The number of restores from a checkpoint: at the start, and in each restart.
    restored: int = 0
    #: Newest first.
    history: tuple[CheckpointView, ...] = ()
    last_completed: CheckpointView | None = None
    last_savepoint: CheckpointView | None = None
    last_failed: CheckpointView | None = None
    last_restored: RestoredView | None = None
    durations_ms: StatsSummary = StatsSummary()
    written_bytes: StatsSummary = StatsSummary()
    state_bytes: StatsSummary = StatsSummary()

    def find(self, entry_id: int) -> CheckpointView | None:
        """Return the entry of an id."""
        known = [*self.history, self.last_completed, self.last_failed, self.last_savepoint]
        return next((entry for entry in known if entry is not None and entry.entry_id == entry_id), None)

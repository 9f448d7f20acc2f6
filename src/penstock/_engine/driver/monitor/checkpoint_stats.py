"""The statistics of a job's checkpoints and savepoints: counts and a short history, kept by the loop."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from penstock._engine.gateway.checkpoint_view import (
    CheckpointKind,
    CheckpointStatus,
    CheckpointsView,
    CheckpointView,
    RestoredView,
    StatsSummary,
    SubtaskCheckpoint,
)
from penstock._engine.protocol.control import StopMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._engine.gateway.checkpoint_view import CheckpointSettings
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.protocol.control import SubtaskAck
    from penstock._engine.protocol.metadata import JobSnapshot

#: The number of checkpoints in the history, as in Flink, and of values in statistics.
_LISTED: Final = 10
_MEASURED: Final = 1000


class CheckpointStatsTracker:
    """The checkpoints of one job in this run.

    Args:
        settings: The job's checkpoint settings.
        path_of: Returns the path of a checkpoint for users; None if it is temporary.
    """

    def __init__(self, settings: CheckpointSettings, path_of: Callable[[int], str | None]) -> None:
        self._path_of = path_of
        self._list: deque[CheckpointView] = deque(maxlen=_LISTED)
        self._durations: deque[int] = deque(maxlen=_MEASURED)
        self._written: deque[int] = deque(maxlen=_MEASURED)
        self._sizes: deque[int] = deque(maxlen=_MEASURED)
        #: The savepoints of the running job that are being copied, by path.
        self._copying: dict[str, CheckpointView] = {}
        self._acked: Moment | None = None
        self._further = count(1)
        self.view = CheckpointsView(settings)

    # ------------------------------------------------------------------------------------------------- checkpoints

    def begun(self, checkpoint_id: int, stop: StopMode, subtasks: int, now: Moment) -> None:
        """Note the dispatch of an epoch."""
        kind = CheckpointKind.CHECKPOINT if stop is StopMode.NO else CheckpointKind.SYNC_SAVEPOINT
        self._acked = None
        self._make_way(checkpoint_id)
        self._append(CheckpointView(checkpoint_id, kind, CheckpointStatus.IN_PROGRESS, now, subtasks))

    def acked(self, now: Moment) -> None:
        """Note that all acks of the epoch have arrived."""
        self._acked = now

    def completed(self, checkpoint_id: int, acks: Iterable[SubtaskAck], snapshot: JobSnapshot, now: Moment) -> None:
        """Note that the checkpoint of the epoch is durable."""
        begun = self._in_progress(checkpoint_id)
        if begun is None:
            return
        parts = _parts(acks, snapshot, checkpoint_id)
        known = [subtask for part in parts for subtask in part.values()]
        done = replace(
            begun,
            status=CheckpointStatus.COMPLETED,
            acked=now if self._acked is None else self._acked,
            ended=now,
            subtasks=parts,
            written_bytes=sum(subtask.written_bytes for subtask in known),
            state_bytes=sum(subtask.state_bytes for subtask in known),
            finished=_finished_before(parts, snapshot),
            path=self._path_of(checkpoint_id),
        )
        self._durations.append(now.since(done.triggered))
        self._written.append(done.written_bytes)
        self._sizes.append(done.state_bytes)
        self._replace(begun, done)
        self.view = replace(
            self.view,
            completed=self.view.completed + 1,
            last_completed=done,
            durations_ms=StatsSummary(tuple(self._durations)),
            written_bytes=StatsSummary(tuple(self._written)),
            state_bytes=StatsSummary(tuple(self._sizes)),
        )

    def failed(self, checkpoint_id: int, reason: str, now: Moment) -> None:
        """Note that the epoch is void."""
        begun = self._in_progress(checkpoint_id)
        if begun is not None:
            self._fail(begun, reason, now)

    def job_ended(self, reason: str, now: Moment) -> None:
        """Note that no pending checkpoint will complete."""
        for entry in [entry for entry in self._list if entry.status is CheckpointStatus.IN_PROGRESS]:
            self._fail(entry, reason, now)
        self._copying.clear()

    def discarded(self, ids: Iterable[int]) -> None:
        """Note that the files of checkpoints are being deleted."""
        gone = set(ids)
        for entry in list(self._list):
            if entry.id in gone and entry.kind is CheckpointKind.CHECKPOINT and not entry.discarded:
                self._replace(entry, replace(entry, discarded=True))

    def restored(self, restored: RestoredView) -> None:
        """Note that the job continues from a checkpoint."""
        self.view = replace(self.view, restored=self.view.restored + 1, last_restored=restored)

    # ---------------------------------------------------------------------------------------------------- savepoints

    def savepoint_begun(self, path: str, checkpoint_id: int, now: Moment) -> None:
        """Note that the last checkpoint is being copied."""
        source, number = self.view.last_completed, next(self._further)
        kind, status, subtasks = (
            CheckpointKind.SAVEPOINT,
            CheckpointStatus.IN_PROGRESS,
            source.subtask_count if source else 0,
        )
        entry = CheckpointView(checkpoint_id, kind, status, now, subtasks, further=number)
        if source is not None and source.id == checkpoint_id:
            entry = replace(
                entry,
                subtasks=source.subtasks,
                written_bytes=source.written_bytes,
                state_bytes=source.state_bytes,
                finished=source.finished,
            )
        self._copying[path] = entry
        self._append(entry)

    def savepoint_ended(self, path: str, stop: StopMode, reason: str | None, now: Moment) -> None:
        """Note that a savepoint is complete or has failed."""
        entry = self._copying.pop(path, None) if stop is StopMode.NO else self.view.last_completed
        if entry is None:
            return
        if stop is not StopMode.NO:  # one with the checkpoint that the job stopped with
            if reason is None:
                done = replace(entry, kind=CheckpointKind.SYNC_SAVEPOINT, path=path)
                self._replace(entry, done)
                self.view = replace(self.view, last_savepoint=done)
        elif reason is not None:
            self._fail(entry, reason, now)
        else:
            done = replace(entry, status=CheckpointStatus.COMPLETED, acked=now, ended=now, path=path)
            self._replace(entry, done)
            self.view = replace(self.view, completed=self.view.completed + 1, last_savepoint=done)

    # ------------------------------------------------------------------------------------------------------ the list

    def _in_progress(self, checkpoint_id: int) -> CheckpointView | None:
        entries = (entry for entry in reversed(self._list) if entry.status is CheckpointStatus.IN_PROGRESS)
        return next(
            (entry for entry in entries if entry.id == checkpoint_id and entry.kind is not CheckpointKind.SAVEPOINT),
            None,
        )

    def _make_way(self, checkpoint_id: int) -> None:
        """Give a try that failed an id of its own, because the checkpoint is tried again."""
        for entry in list(self._list):
            if entry.id == checkpoint_id and not entry.further:
                other = replace(entry, further=next(self._further))
                if self.view.last_failed is entry:
                    self.view = replace(self.view, last_failed=other)
                self._replace(entry, other)

    def _fail(self, entry: CheckpointView, reason: str, now: Moment) -> None:
        done = replace(entry, status=CheckpointStatus.FAILED, ended=now, failure=reason)
        self._replace(entry, done)
        self.view = replace(self.view, failed=self.view.failed + 1, last_failed=done)

    def _append(self, entry: CheckpointView) -> None:
        self._list.append(entry)
        self._show()

    def _replace(self, old: CheckpointView, new: CheckpointView) -> None:
        for place, entry in enumerate(self._list):
            if entry is old:
                self._list[place] = new
        self._show()

    def _show(self) -> None:
        running = sum(entry.status is CheckpointStatus.IN_PROGRESS for entry in self._list)
        self.view = replace(self.view, history=tuple(reversed(self._list)), in_progress=running)


def _finished_before(parts: tuple[dict[int, SubtaskCheckpoint], ...], snapshot: JobSnapshot) -> tuple[int, ...]:
    """Return, by vertex, the number of subtasks that had finished before a checkpoint and took no part in it."""
    return tuple(
        sum(subtask.finished and index not in part for index, subtask in enumerate(vertex.subtasks))
        for part, vertex in zip(parts, snapshot.vertices, strict=True)
    )


def _parts(
    acks: Iterable[SubtaskAck], snapshot: JobSnapshot, checkpoint_id: int
) -> tuple[dict[int, SubtaskCheckpoint], ...]:
    """Return, by vertex, each subtask's part of a checkpoint."""
    parts: tuple[dict[int, SubtaskCheckpoint], ...] = tuple({} for _ in snapshot.vertices)
    for ack in acks:
        states = [snapshot.operators[uid].subtasks[ack.subtask] for uid in snapshot.vertices[ack.vertex].operators]
        handles = [handle for state in states for handle in (*state.lineage, *state.operator_state)]
        plain = sum(len(state.state) for state in states if state.state is not None)
        parts[ack.vertex][ack.subtask] = SubtaskCheckpoint(
            acked_ms=ack.ended_ms,
            duration_ms=max(0, ack.ended_ms - ack.started_ms),
            written_bytes=plain + sum(handle.size for handle in handles if handle.checkpoint_id == checkpoint_id),
            state_bytes=plain + sum(handle.size for handle in handles),
            records=ack.io.records_in,
        )
    return parts

"""The state of a job in its driver: the last checkpoint's, and the changes since.

`reset` drops everything after the last completed checkpoint, so a restart undoes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock._engine.coordinator.checkpoints.snapshots import (
    advance,
    dispatch,
    edge_statuses,
    fresh_snapshot,
    notification,
    resumable,
    spill,
    unfinished,
    visible_states,
)
from penstock._engine.coordinator.commits.commits import CommitLedger, commits_of
from penstock._engine.coordinator.commits.committed import CommittedCommittables
from penstock._engine.coordinator.epochs.acks import (
    Reports,
    group_watermarks,
    may_read_on,
    reports_of,
    restored_reports,
    void_reason,
)
from penstock._engine.coordinator.epochs.budget import BudgetPlanner, epoch_cost
from penstock._engine.coordinator.epochs.sources import JobSources
from penstock._engine.coordinator.restore.reopening import at_and_behind
from penstock._engine.gateway.progress import JobProgress
from penstock._engine.protocol.control import HISTORY, StopMode
from penstock._engine.protocol.metadata import StoredCommits, late_records
from penstock._engine.protocol.rows import MAX_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock._engine.coordinator.checkpoints.chain import ChainWriter, CheckpointRetention
    from penstock._engine.coordinator.checkpoints.subtask_state import Subtask
    from penstock._engine.coordinator.epochs.sources import EnumeratorSnapshot
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.plan.levels import ExecutionPlan
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.protocol.control import EdgeStatus, SubtaskAck, SubtaskDispatch
    from penstock._engine.protocol.metadata import GivenUp, JobSnapshot, OutstandingCommit, StoredAccumulator


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """An accepted epoch whose chain entry is not stored yet."""

    acks: tuple[SubtaskAck, ...]
    wall_ms: int
    #: Whether the job stops with it.
    stop: StopMode = StopMode.NO
    #: By operator uid: the accumulators, including this epoch's updates.
    accumulators: Mapping[str, dict[str, StoredAccumulator]] | None = None
    #: The state after the epoch, without outstanding commits.
    snapshot: JobSnapshot | None = None
    #: The commits of this epoch.
    commits: tuple[OutstandingCommit, ...] = ()
    #: What it passes on to operators behind committers, as `CommittedCommittables.begun` says.
    passed_on: Mapping[str, int] = field(default_factory=dict[str, int])


class JobState:
    """The state of one job in one driver.

    Args:
        plan: The job with its levels.
        settings: Its settings.
    """

    #: The chain that the job's checkpoints are put on, and what is kept of them. Set by the takeover.
    chain: ChainWriter
    retention: CheckpointRetention

    def __init__(self, plan: ExecutionPlan, settings: JobSettings) -> None:
        self.plan = plan
        graph = plan.graph
        #: The sources, and what each of them may read.
        self.sources = JobSources(graph)
        self.budgets = BudgetPlanner(settings.epoch_ms, self.sources.vertices, pipelined=settings.pipelined)
        self._ends = graph.ends
        self.sink_uids = graph.sink_uids
        self.settings = settings
        #: The operators that keep their state after they have finished.
        self._kept = at_and_behind(graph, settings.reopened_sources)
        operators = graph.operators.items()
        self._writers = frozenset(uid for uid, node in operators if node.factory.has_items)
        #: The state at the last completed checkpoint.
        self.snapshot = fresh_snapshot(graph)
        self.ledger = CommitLedger()
        self.committed = CommittedCommittables(graph)
        self.progress = JobProgress(subtasks=len(unfinished(self.snapshot)))
        self._write_all = False
        self._history: dict[Subtask, tuple[tuple[int, int], ...]] = {}
        self._started_ms = 0
        self._last: tuple[SubtaskAck, ...] = ()
        self._alignment: Reports = {}

    # ------------------------------------------------------------------------------------------- start and restart

    def restore(self, snapshot: JobSnapshot, *, write_all: bool) -> None:
        """Take up the state of a checkpoint.

        Args:
            snapshot: The state.
            write_all: Whether subtasks write all of their state anew, so that the next checkpoint names none of its
                files.
        """
        self.snapshot = snapshot
        self._write_all = write_all
        self.ledger.restore(snapshot.outstanding, snapshot.given_up)
        self.committed.restore(snapshot.committed)
        self.progress = replace(self.progress, given_up=self.ledger.lost_count)

    def reset(self) -> None:
        """Go back to the last completed checkpoint; commits that were done since then stay done."""
        self._history.clear()
        self._last = ()
        self.budgets.restarted()
        self._alignment = restored_reports(self.snapshot, self.sources.vertex_of)
        self.sources.reset(self.snapshot)

    def resume(self) -> bool:
        """Continue from a checkpoint that was to be the last before a stop; tell whether that stop was a drain."""
        drained = any(operator.drained for operator in self.snapshot.operators.values())
        if drained:
            self.snapshot = resumable(self.snapshot)
        return drained

    # ------------------------------------------------------------------------------------------------------ an epoch

    def dispatches(
        self, completed_checkpoint: int, passed_ms: int, *, for_savepoint: bool, only: Collection[int] | None = None
    ) -> dict[Subtask, SubtaskDispatch]:
        """Return the dispatch of each subtask for an epoch that begins at this monotonic time in milliseconds.

        Args:
            completed_checkpoint: The last checkpoint, 0 for none.
            passed_ms: That time.
            for_savepoint: Whether a savepoint is made of it.
            only: The vertices that run; None for all.
        """
        self._started_ms = passed_ms
        self.committed.begin(self.ledger.outstanding, self.snapshot)

        def events(uid: str, index: int) -> tuple[bytes, ...]:
            source = self.sources.by_uid.get(uid)
            return source.dispatch(index) if source else self.committed.dispatch(uid, index)

        result = self.notifications(completed_checkpoint, going_on=True)
        ending, visible = self.sources.ending(), visible_states(self.snapshot)
        ending.update((ack.vertex, ack.subtask) for ack in self._last if ack.awaits_end)
        group_marks, ending_fed = group_watermarks(self._alignment), self.committed.ending
        for subtask in unfinished(self.snapshot):
            if only is not None and subtask[0] not in only:
                continue
            part = dispatch(
                self.snapshot,
                subtask,
                events,
                history=self._history.get(subtask, ()),
                completed_checkpoint=completed_checkpoint,
                visible=visible,
            )
            if subtask[0] in self.sources.vertices:
                budget = self.budgets.budget(subtask[0])
                budget = budget.shortened() if for_savepoint else budget
                part = replace(
                    part,
                    max_records=budget.records,
                    max_bytes=budget.bytes,
                    max_time_ms=budget.time_ms,
                    ends=subtask in ending,
                    group_watermark=group_marks.get(subtask, MAX_WATERMARK),
                )
            if subtask[0] in ending_fed:
                part = replace(part, ends=True)
            part = replace(part, full_snapshot=True, write_all=True) if self._write_all else part
            result[subtask] = replace(part, for_savepoint=True) if for_savepoint else part
        return result

    def inputs(self) -> dict[int, EdgeStatus]:
        """Return the channel status of each edge at the start of the next epoch."""
        return edge_statuses(self.snapshot, self.plan.graph, self._last)

    def notifications(self, completed_checkpoint: int, *, going_on: bool) -> dict[Subtask, SubtaskDispatch]:
        """Return the notifications of the last checkpoint for subtasks that run no epoch after it.

        Args:
            completed_checkpoint: The checkpoint.
            going_on: Whether an epoch follows; then only finished subtasks are notified here.
        """
        return {
            (ack.vertex, ack.subtask): notification(
                self.snapshot, ack, self._history[ack.vertex, ack.subtask], completed_checkpoint
            )
            for ack in self._last
            if ack.listeners and (ack.finished or not going_on)
        }

    @property
    def has_advanced(self) -> bool:
        """Whether a checkpoint has completed since the last start or restart."""
        return bool(self._last)

    def void_reason(self, checkpoint_id: int, acks: tuple[SubtaskAck, ...]) -> str | None:
        """Say why an epoch is void; return None if it counts."""
        expected = dict.fromkeys(unfinished(self.snapshot))
        return void_reason(checkpoint_id, acks, expected, self.plan.graph.edges)

    def accept(self, acks: tuple[SubtaskAck, ...], wall_ms: int, slots: int, stop: StopMode) -> PendingCheckpoint:
        """Note an accepted epoch."""
        self.budgets.accepted(acks, epoch_cost(acks, wall_ms, self.plan.level_of, slots))
        self.sources.accepted(acks)
        return PendingCheckpoint(acks, wall_ms, stop, passed_on=self.committed.begun)

    def snapshotted(
        self, pending: PendingCheckpoint, job_id: str, checkpoint_id: int, enumerators: Mapping[str, EnumeratorSnapshot]
    ) -> tuple[PendingCheckpoint, tuple[tuple[str, bytes], ...]]:
        """Add the enumerators' snapshots.

        Returns:
            The pending checkpoint with its state, and the files to write because the metadata has no room for them.
        """
        state, files = spill(self.advanced(pending, enumerators), job_id, checkpoint_id)
        commits = commits_of(checkpoint_id, pending.acks, self.sink_uids)
        return replace(pending, snapshot=state, commits=commits), files

    def advanced(self, pending: PendingCheckpoint, enumerators: Mapping[str, EnumeratorSnapshot]) -> JobSnapshot:
        """Return the state after an accepted epoch, without outstanding commits."""
        return advance(
            self.snapshot,
            pending.acks,
            self.sources.states(enumerators),
            (),
            drain=pending.stop is StopMode.DRAIN,
            kept=self._kept,
            writers=self._writers,
            accumulators=pending.accumulators,
        )

    def document(self, pending: PendingCheckpoint) -> JobSnapshot:
        """Return the content of the metadata: the state, and all commits that are not known to be done."""
        assert pending.snapshot is not None
        outstanding = (*self.ledger.outstanding, *pending.commits)
        committed = self.committed.left(pending.passed_on)
        return replace(pending.snapshot, outstanding=outstanding, given_up=self.ledger.given_up, committed=committed)

    def drains_on(self, pending: PendingCheckpoint) -> bool:
        """Tell whether a drain needs one more epoch, because a sink has to commit what is then passed on."""
        assert pending.snapshot is not None
        return pending.stop is StopMode.DRAIN and bool(self.committed) and not pending.snapshot.finished

    def lost(self, given_up: tuple[GivenUp, ...]) -> JobProgress:
        """Note the committables that a committer gave up, and return the job's figures with them."""
        self.ledger.lost(given_up)
        self.progress = replace(self.progress, given_up=self.ledger.lost_count)
        return self.progress

    @property
    def commits(self) -> StoredCommits:
        """What is known of the commits now."""
        return StoredCommits(self.ledger.outstanding, self.ledger.given_up, self.committed.left({}))

    def completed(self, pending: PendingCheckpoint, document: JobSnapshot, checkpoint_id: int) -> None:
        """Note that an epoch's checkpoint has completed."""
        self.snapshot = document
        self.ledger.add(pending.commits)
        self.committed.passed_on(pending.passed_on)
        self._write_all = False
        self._last, self._alignment = pending.acks, reports_of(pending.acks)
        for ack in pending.acks:
            subtask = (ack.vertex, ack.subtask)
            self._history[subtask] = (*self._history.get(subtask, ())[1 - HISTORY :], (checkpoint_id, ack.token))
        self.progress = self._progress(pending, checkpoint_id)

    # ------------------------------------------------------------------------------------------------------- the pace

    @property
    def awaits_commits(self) -> bool:
        """Whether all sources have ended, and the next epoch has work once more is committed."""
        return self._reads_no_more and not self.is_fed

    @property
    def is_fed(self) -> bool:
        """Whether all sources have ended, and what sinks have committed is at hand for an epoch."""
        return self._reads_no_more and self.committed.has_work(self.ledger.outstanding, self.snapshot)

    @property
    def _reads_no_more(self) -> bool:
        return bool(self.committed) and not self._sources_left

    def pause_ms(self, now: Moment) -> int:
        """Return the pause before the next epoch in milliseconds: 0 as long as there is work."""
        reading = [ack for ack in self._last if ack.vertex in self.sources.vertices]
        if self.settings.pipelined and self._sources_left:
            return 0
        if self.is_fed or (self._work_at_hand(reading) and not self.awaits_commits):
            return 0
        if any(ack.io.records_in for ack in reading):
            pause_ms = self._started_ms + (self.budgets.interval_ms or 0) - now.passed_ms
        else:
            pause_ms = self.budgets.idle()
        timers = [
            subtask.next_timer_ms - now.now_ms
            for vertex in self.snapshot.vertices
            for subtask in vertex.subtasks
            if subtask.next_timer_ms is not None and not subtask.finished
        ]
        return max(0, min([pause_ms, *timers]))

    def wait_for_splits_ms(self) -> int:
        """Return the pause before sources run again in a batch job: 0 as long as they have read something or may."""
        reading = [ack for ack in self._last if ack.vertex in self.sources.vertices]
        if not self._sources_left or self._work_at_hand(reading) or any(ack.io.records_in for ack in reading):
            return 0
        return self.budgets.idle()

    @property
    def _sources_left(self) -> bool:
        return any(vertex in self.sources.vertices for vertex, _ in unfinished(self.snapshot))

    def _work_at_hand(self, reading: list[SubtaskAck]) -> bool:
        more = any(part.more_available for ack in reading for part in ack.operators.values())
        more = more or any(ack.awaits_end for ack in reading) or may_read_on(self._alignment)
        return not self._last or more or self.sources.has_pending or all(ack.finished for ack in reading)

    def _progress(self, pending: PendingCheckpoint, checkpoint_id: int) -> JobProgress:
        before = self.progress
        read = sum(ack.io.records_in for ack in pending.acks if ack.vertex in self.sources.vertices)
        ends = [subtask for id_ in self._ends for subtask in self.snapshot.vertices[id_].subtasks]
        return JobProgress(
            checkpoint_id=checkpoint_id,
            epochs=before.epochs + 1,
            restarts=before.restarts,
            records=before.records + read,
            epoch_records=read,
            epoch_ms=pending.wall_ms,
            watermark=min(subtask.watermark for subtask in ends),
            late_records=sum(late_records(self.snapshot.all_accumulators).values()),
            given_up=self.ledger.lost_count,
            finished_subtasks=before.subtasks - len(unfinished(self.snapshot)),
            subtasks=before.subtasks,
        )

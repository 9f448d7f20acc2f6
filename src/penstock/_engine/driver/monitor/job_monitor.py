"""Observes the loop, and keeps the job's view for other threads up to date.

It sees each instruction before it is performed. The job does not depend on it; its cost is per epoch, never per record.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.subtask_state import unread_splits
from penstock._engine.driver.epochs.accumulators import totals
from penstock._engine.driver.monitor.checkpoint_stats import CheckpointStatsTracker
from penstock._engine.driver.monitor.views import checkpoint_settings
from penstock._engine.gateway.checkpoint_view import RestoredView
from penstock._engine.gateway.job_view import JobView, SubtaskView
from penstock._engine.gateway.progress import JobFailure, JobProgress
from penstock._engine.protocol.control import IOMetrics
from penstock._engine.protocol.metadata import LATE_RECORDS, ChainEntryKind, late_records
from penstock._engine.protocol.paths import checkpoint_path
from penstock.common.job_status import JobStatus
from penstock.common.option_table import EXCEPTION_HISTORY_SIZE
from penstock.common.redaction import shown_text, shown_value
from penstock.common.user_values import error_line
from penstock.errors import JobExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from penstock._engine.coordinator.job import JobCoordinator
    from penstock._engine.coordinator.restore.state_assignment import RestoredCheckpoint
    from penstock._engine.gateway.job_view import PlanView
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.protocol.control import LogLine, SubtaskAck
    from penstock._engine.protocol.metadata import StoredAccumulator
    from penstock._engine.storage.checkpoint_storage import FileStorage
    from penstock.common.configuration import Configuration


def none_lost(_: bool) -> Sequence[Exception]:
    """Return no executors, for a job that is not on a cluster."""
    return ()


_NOTHING: Final = IOMetrics()
#: The log lines of functions that are kept.
_LINES: Final = 300


class JobMonitor:
    """Makes the views of one job: a `JobStatusListener`.

    Args:
        coordinator: Holds the job's id, the restored checkpoint and the outstanding commits.
        job_name: The job.
        run_id: The run.
        plan: Its plan.
        clock: Returns the current moment.
        configuration: Its configuration.
        storage: Its checkpoint storage.
        lost_executors: Returns the executors that Spark has lost since the last call; True for the last call.
    """

    def __init__(
        self,
        coordinator: JobCoordinator,
        job_name: str,
        run_id: str,
        plan: PlanView,
        clock: Callable[[], Moment],
        *,
        configuration: Configuration,
        storage: FileStorage,
        lost_executors: Callable[[bool], Sequence[Exception]] = none_lost,
    ) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._storage = storage
        self._lost_executors = lost_executors
        self._checkpoints = CheckpointStatsTracker(checkpoint_settings(configuration), self._checkpoint_path)
        self._failures: deque[JobFailure] = deque(maxlen=configuration.get(EXCEPTION_HISTORY_SIZE))
        self._failure_count = 0
        #: Since when the job is RUNNING, None while it is not; and below the end of its last accepted epoch.
        self._running_since: Moment | None = None
        now = self._last_epoch = clock()
        #: Set once the job has its id, or has ended without one.
        self.named = threading.Event()
        #: Called when it has its id, and when it has ended, before its result is set; both on the loop's thread.
        self.on_named: list[Callable[[JobView], None]] = []
        self.on_end: list[Callable[[JobView], None]] = []
        self._reactions: dict[type[Any], Callable[[Any], None]] = {
            do.RunEpoch: self._run_epoch,
            do.PublishProgress: self._epoch_counts,
            do.PublishGivenUp: self._show_given_up,
            do.Commit: self._commit,
            do.DeleteFiles: self._delete,
            do.WriteSavepoint: self._write_savepoint,
            do.AnswerSavepoint: self._answer_savepoint,
        }
        #: The current view, which is replaced as a whole, so that other threads read it without a lock.
        self.view = JobView(
            job_id="",
            run_id=run_id,
            name=job_name,
            status=JobStatus.INITIALIZING,
            status_times={JobStatus.INITIALIZING: now},
            started=now,
            ended=None,
            plan=plan,
            subtasks=tuple((SubtaskView(),) * vertex.parallelism for vertex in plan.vertices),
            progress=JobProgress(subtasks=sum(vertex.parallelism for vertex in plan.vertices)),
            last_interval_ms=0,
            running_ms=0,
            checkpoints=self._checkpoints.view,
            configuration={key: shown_value(key, value) for key, value in configuration.to_dict().items()},
            stage=frozenset() if plan.job_type == "BATCH" else None,
        )

    # --------------------------------------------------------------------------------- called by the loop, on its
    # thread

    def on_instruction(self, instruction: do.Instruction) -> None:
        """Note an instruction before it is performed."""
        react = self._reactions.get(type(instruction))
        if react is not None:
            react(instruction)

    def on_event(self, event: ev.Event) -> None:
        """Note an event before the coordinator handles it."""
        if isinstance(event, ev.EpochEnded):
            self._checkpoints.acked(self._clock())
            self._note(event.outcome.retries)
            self._keep_lines(event.outcome.log)
        elif isinstance(event, ev.Committed):
            self._show(commit_metrics={**self.view.commit_metrics, event.uid: event.metrics})
        elif isinstance(event, ev.EnumeratorsCalled) and any(event.metrics.values()):
            self._show(enumerator_metrics={**self.view.enumerator_metrics, **event.metrics})

    def _keep_lines(self, log: Iterable[LogLine]) -> None:
        """Keep what functions have logged; Penstock's own lines of tasks are among those of the driver."""
        lines = [replace(line, message=shown_text(line.message)) for line in log if not _is_ours(line.logger)]
        if lines:
            self._show(task_log=(*self.view.task_log, *lines)[-_LINES:])

    def on_turn(self) -> None:
        """Note that all instructions after an event are performed."""
        pending = self._pending_commits()
        if pending != self.view.pending_commits:
            self._show(pending_commits=pending)
        self._note(self._lost_executors(False))

    def _note(self, losses: Iterable[Exception]) -> None:
        """Keep what Spark lost and ran again by itself."""
        for error in losses:
            progress, reason = self.view.progress, shown_text(_headline(error))
            self._keep(
                JobFailure(self._clock(), progress.checkpoint_id, progress.restarts, counted=False, reason=reason)
            )

    def on_status(self, status: JobStatus) -> None:
        """Note a new status; a terminal one is shown together with the job's result."""
        now = self._clock()
        if self._coordinator.job_id and not self.named.is_set():
            self._show(job_id=self._coordinator.job_id)
            self.named.set()
            for tell in self.on_named:
                tell(self.view)
        if status.is_terminal_state():
            return
        if status is JobStatus.RUNNING:
            self._note_restore(now.now_ms)
            self._show_accumulators(self._coordinator.accumulators)
            self._show(given_up=self._coordinator.given_up, unread_splits=self._coordinator.unread_splits)
            self._running_since = self._last_epoch = now
        elif self._running_since is not None:
            running_ms = self.view.running_ms + now.since(self._last_epoch)
            self._running_since = None
            self._show(running_ms=running_ms)
        self._show(status=status, status_times={**self.view.status_times, status: now})

    def on_progress(self, progress: JobProgress) -> None:
        """Do nothing: `on_instruction` gets the acks as well."""

    def on_failure(self, failure: JobFailure) -> None:
        """Keep a failure."""
        self._checkpoints.failed(failure.checkpoint_id, failure.reason, failure.time)
        self._keep(failure)

    def _keep(self, failure: JobFailure) -> None:
        self._failures.append(failure)
        self._failure_count += 1
        self._show(failures=tuple(self._failures), failures_dropped=self._failure_count - len(self._failures))

    def ended(self, status: JobStatus, error: Exception | None) -> None:
        """Show the final status and the error for the program."""
        self._note(self._lost_executors(True))
        now = self._clock()
        self._checkpoints.job_ended(f"the job is {status.name}", now)
        self._show_accumulators(self._coordinator.accumulators)
        self._show(
            given_up=self._coordinator.given_up,
            is_complete=self._coordinator.is_complete,
            status=status,
            status_times={**self.view.status_times, status: now},
            ended=now,
            error=None if error is None else shown_text(_headline(error)),
            error_text=None if error is None else shown_text(str(error)),
            pending_commits=self._pending_commits(),
        )
        self.named.set()
        for tell in self.on_end:
            tell(self.view)

    # --------------------------------------------------------------------------------------------------- instructions

    def _run_epoch(self, instruction: do.RunEpoch) -> None:
        subtasks = sum(not part.is_notification for part in instruction.dispatches.values())
        self._checkpoints.begun(instruction.checkpoint_id, instruction.stop, subtasks, self._clock())
        is_stage = instruction.results is not None
        self._show(stage=frozenset(vertex for vertex, _ in instruction.dispatches) if is_stage else None)

    def _epoch_counts(self, instruction: do.PublishProgress) -> None:
        now, progress = self._clock(), instruction.progress
        self._checkpoints.completed(progress.checkpoint_id, instruction.acks, instruction.snapshot, now)
        interval_ms = now.since(self._last_epoch)
        self._last_epoch = now
        has_ends = any(ack.finished for ack in instruction.acks)  # only readers that finish leave splits
        left = unread_splits(instruction.snapshot) if has_ends else self.view.unread_splits
        self._show(
            progress=progress,
            subtasks=self._advanced(instruction.acks, now, begins=instruction.begins),
            last_interval_ms=interval_ms,
            running_ms=self.view.running_ms + interval_ms,
            unread_splits=left,
            recovery=instruction.recovery,
        )
        self._show_accumulators(instruction.snapshot.all_accumulators)

    def _show_given_up(self, instruction: do.PublishGivenUp) -> None:
        self._show(given_up=instruction.given_up, progress=instruction.progress)

    def _commit(self, _: do.Commit) -> None:
        self._show(pending_commits=self._pending_commits())

    def _delete(self, instruction: do.DeleteFiles) -> None:
        self._checkpoints.discarded(instruction.leftovers.checkpoints)
        self._show()

    def _write_savepoint(self, instruction: do.WriteSavepoint) -> None:
        if not instruction.is_staged:  # else it is the savepoint of the stop, which is shown as its checkpoint
            self._checkpoints.savepoint_begun(instruction.path, instruction.entry.checkpoint_id, self._clock())
            self._show()

    def _answer_savepoint(self, instruction: do.AnswerSavepoint) -> None:
        error = instruction.error
        reason = None if error is None else shown_text(str(error))
        self._checkpoints.savepoint_ended(instruction.request.path, instruction.request.stop, reason, self._clock())
        self._show()

    # -------------------------------------------------------------------------------------------------------- figures

    def _advanced(
        self, acks: Collection[SubtaskAck], now: Moment, *, begins: bool
    ) -> tuple[tuple[SubtaskView, ...], ...]:
        """Return the figures of all subtasks after an epoch; subtasks that did not run in it are idle.

        Args:
            acks: What ran; several of a subtask in the order of its runs.
            now: When.
            begins: Whether the figures start fresh.
        """
        ran = {(ack.vertex, ack.subtask) for ack in acks}
        rows = [
            [
                SubtaskView() if begins else subtask if (vertex, index) in ran else _idle(subtask)
                for index, subtask in enumerate(subtasks)
            ]
            for vertex, subtasks in enumerate(self.view.subtasks)
        ]
        end_ms = max((ack.ended_ms for ack in acks), default=0)
        returns = self.view.stage is None  # subtasks of stages have no state to return to
        for ack in acks:
            vertex, index = ack.vertex, ack.subtask
            before = rows[vertex][index]
            rows[vertex][index] = SubtaskView(
                io=before.io + ack.io,
                last_io=ack.io,
                waited_ms=before.waited_ms + end_ms - ack.ended_ms,
                last_waited_ms=end_ms - ack.ended_ms,
                input_watermark=ack.input_watermark,
                output_watermark=ack.watermark,
                finished=ack.finished,
                finished_at=now if ack.finished else None,
                host=ack.host,
                returns=before.returns + (returns and ack.host == before.host),
                moves=before.moves + (returns and before.host not in ("", ack.host)),
                metrics={uid: part.metrics for uid, part in ack.operators.items() if part.metrics},
            )
        return tuple(tuple(row) for row in rows)

    def _show_accumulators(self, accumulators: Mapping[str, Mapping[str, StoredAccumulator]]) -> None:
        late = late_records(accumulators)
        if not accumulators and not self.view.accumulators and late == self.view.late_records:
            return
        own = {
            uid: {name: stored for name, stored in by_name.items() if name != LATE_RECORDS}
            for uid, by_name in accumulators.items()
        }
        of_vertices = {
            vertex.id: totals(own.get(node.uid, {}) for node in vertex.operators) for vertex in self.view.plan.vertices
        }
        self._show(accumulators=totals(own.values()), vertex_accumulators=of_vertices, late_records=late)

    def _pending_commits(self) -> dict[str, int]:
        pending: Counter[str] = Counter()
        for commit in self._coordinator.state.ledger.outstanding:
            pending[commit.uid] += len(commit.committables)
        return dict(pending)

    def _note_restore(self, now_ms: int) -> None:
        """Note the checkpoint from which the job starts or restarts."""
        restored, last = self._coordinator.restored, self.view.progress.checkpoint_id
        if last:
            self._checkpoints.restored(RestoredView(last, now_ms, is_savepoint=False, path=self._checkpoint_path(last)))
        elif restored is not None:
            entry = restored.entry
            is_savepoint = entry.kind is ChainEntryKind.SAVEPOINT
            path = self._restored_path(restored)
            view = RestoredView(entry.checkpoint_id, now_ms, is_savepoint=is_savepoint, path=path, later=restored.later)
            self._checkpoints.restored(view)

    def _restored_path(self, restored: RestoredCheckpoint) -> str | None:
        if "://" in restored.path or restored.path.startswith("/"):
            return restored.path
        return self._storage.lasting_path(restored.path)

    def _checkpoint_path(self, checkpoint_id: int) -> str | None:
        return self._storage.lasting_path(checkpoint_path(self._coordinator.job_id, checkpoint_id))

    def _show(self, **changes: Any) -> None:
        self.view = replace(self.view, checkpoints=self._checkpoints.view, **changes)


def _headline(error: Exception) -> str:
    return error.reason if isinstance(error, JobExecutionError) else error_line(error)


def _is_ours(logger: str) -> bool:
    return logger == "penstock" or logger.startswith("penstock.")


def _idle(subtask: SubtaskView) -> SubtaskView:
    return subtask if subtask.last_io == _NOTHING else replace(subtask, last_io=_NOTHING, last_waited_ms=0)

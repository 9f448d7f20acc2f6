"""Ends a job: its terminal chain entry, the deletions after it, and the answers to open requests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.phases import Phase
from penstock._engine.protocol.control import TaskFailure
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.common.job_status import JobStatus
from penstock.common.user_values import told
from penstock.errors import FencedError

if TYPE_CHECKING:
    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.life.requests import PendingRequests
    from penstock._engine.coordinator.life.start import JobStart
    from penstock._engine.coordinator.scheduler import Cause
    from penstock._engine.coordinator.settings import RetentionSettings

_ENDS: Final = {
    ChainEntryKind.FINISHED: JobStatus.FINISHED,
    ChainEntryKind.DRAINED: JobStatus.FINISHED,
    ChainEntryKind.SUSPENDED: JobStatus.FINISHED,
    ChainEntryKind.CANCELED: JobStatus.CANCELED,
    ChainEntryKind.FAILED: JobStatus.FAILED,
}


class JobTermination:
    """Ends one job.

    Args:
        context: The coordinator's context.
        start: The start of the job, which holds its chain.
        requests: The open requests, which are answered.
        state: Holds accumulators and losses.
        retention: Says which kinds of end keep checkpoints.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        start: JobStart,
        *,
        requests: PendingRequests,
        retention: RetentionSettings,
        state: JobState,
    ) -> None:
        self._context = context
        self._start = start
        self._requests = requests
        self._retention = retention
        self._state = state
        self._kind = ChainEntryKind.FINISHED
        self._error: Cause | None = None
        self._savepoint: str | None = None
        #: Whether the job has ended, and nothing is left from which it could continue.
        self.is_over = False
        #: Whether the end of the job is on its chain, so that another start of a batch job begins anew.
        self.is_recorded = False
        #: Whether the job has ended, and has read all of its input in this run: one that was stopped has FINISHED, too.
        self.is_complete = False

    def close(self, kind: ChainEntryKind, error: Cause | None = None, savepoint: str | None = None) -> None:
        """Begin the end of the job.

        Args:
            kind: How the job ends.
            error: Why it failed.
            savepoint: The savepoint that it has stopped into.
        """
        self._kind, self._error, self._savepoint = kind, error, savepoint
        self._context.emit(do.CloseEnumerators())
        self._context.go(Phase.CLOSING)
        self.put_entry()

    def put_entry(self) -> None:
        """Put the terminal entry with the next id of the chain."""
        reason, savepoint = text_of(self._error or ""), self._savepoint
        if savepoint is None and self._requests.stop is not None:  # the request will be refused
            self._context.chain.resumes = True
        entry = self._context.chain.make(
            self._kind,
            self._context.now.now_ms,
            reason=reason,
            savepoint=savepoint,
            keeps_checkpoints=self._keeps_checkpoints,
            commits=self._state.commits,
        )
        if self._kind in {ChainEntryKind.FINISHED, ChainEntryKind.DRAINED}:
            # A later start must not depend on its checkpoints, which may be deleted.
            entry = replace(entry, accumulators=self._state.snapshot.all_accumulators)
        self._context.emit(self._context.chain.put(entry))

    def closed(self, *, is_stored: bool = True) -> None:
        """Continue after the terminal entry: delete checkpoints that are not retained.

        Args:
            is_stored: Whether the entry is stored; else another driver may have taken the job over and need the files.
        """
        is_finished = self._kind in {ChainEntryKind.FINISHED, ChainEntryKind.DRAINED}
        is_given_up = self._kind is not ChainEntryKind.SUSPENDED and not self._keeps_checkpoints
        self.is_recorded = is_stored
        self.is_over = is_stored and (is_finished or is_given_up)
        self.is_complete = is_stored and self._kind is ChainEntryKind.FINISHED
        if is_stored and not self._keeps_checkpoints:
            chain, retention = self._context.chain, self._context.retention
            self._context.emit(*chain.deletion(retention.drop_all()), chain.sweep(retention))
        if self._savepoint is not None:
            self._context.emit(*self._requests.stopped())
        self.end(_ENDS[self._kind], self._error, checkpoint=self._keeps_checkpoints or not is_stored)

    @property
    def _keeps_checkpoints(self) -> bool:
        on_end = {
            ChainEntryKind.FINISHED: self._retention.on_finish,
            ChainEntryKind.CANCELED: self._retention.on_cancel,
            ChainEntryKind.FAILED: self._retention.on_failure,
        }
        return on_end.get(self._kind, False)

    def end(self, status: JobStatus, error: Cause | None = None, *, checkpoint: bool = True) -> None:
        """End the driver of the job, which is not always the end of the job itself.

        Args:
            status: The last status that it shows.
            error: The error for the program.
            checkpoint: Whether a checkpoint to continue from exists.
        """
        if isinstance(error, FencedError):
            self._context.emit(*self._requests.leave_stop())
        self._context.emit(*self._requests.give_up(f"the job is {status.name}"))
        self._context.go(Phase.ENDED)
        self._context.show(status)
        parent = self._start.chain.parent if self._start.chain else None
        self._context.emit(do.EndDriver(status, error, parent.path if parent and checkpoint else None))


def text_of(cause: Cause | str) -> str:
    """Return the text of a failure for a chain entry or for the answer to a request."""
    return cause.error if isinstance(cause, TaskFailure) else told(str(cause))

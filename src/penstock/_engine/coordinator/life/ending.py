"""The last steps of a job: its terminal record, what is deleted then, and who hears of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.phases import Phase
from penstock._engine.protocol.control import Failure
from penstock._engine.protocol.metadata import RecordKind
from penstock.common.job_status import JobStatus
from penstock.errors import FencedError

if TYPE_CHECKING:
    from penstock._engine.coordinator.context import Desk
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.epochs.scheduler import Cause
    from penstock._engine.coordinator.life.checkpoint_requests import CheckpointRequests
    from penstock._engine.coordinator.life.savepoints import Savepoints
    from penstock._engine.coordinator.life.start import StartMachine
    from penstock._engine.coordinator.settings import RetentionSettings

_ENDS: Final = {
    RecordKind.FINISHED: JobStatus.FINISHED,
    RecordKind.DRAINED: JobStatus.FINISHED,
    RecordKind.SUSPENDED: JobStatus.FINISHED,
    RecordKind.CANCELED: JobStatus.CANCELED,
    RecordKind.FAILED: JobStatus.FAILED,
}


class JobEnding:
    """Ends one job.

    Args:
        desk: The coordinator's desk.
        start: Knows the chain, once there is one.
        savepoints: Answered with the end.
        requests: The same.
        state: Knows what the job has counted, and lost.
        retention: Says which ends keep checkpoints.
    """

    def __init__(
        self,
        desk: Desk,
        start: StartMachine,
        *,
        savepoints: Savepoints,
        requests: CheckpointRequests,
        retention: RetentionSettings,
        state: JobState,
    ) -> None:
        self._desk = desk
        self._start = start
        self._savepoints = savepoints
        self._requests = requests
        self._retention = retention
        self._state = state
        self._kind = RecordKind.FINISHED
        self._error: Cause | None = None
        self._savepoint: str | None = None

    def close(self, kind: RecordKind, error: Cause | None = None, savepoint: str | None = None) -> None:
        """Begin with the end.

        Args:
            kind: How the job ends.
            error: Why it failed.
            savepoint: What it has stopped into.
        """
        self._kind, self._error, self._savepoint = kind, error, savepoint
        self._desk.emit(do.CloseEnumerators())
        self._desk.go(Phase.CLOSING)
        self.put_record()

    def put_record(self) -> None:
        """Put the terminal record with the next id of the chain."""
        reason, savepoint = text_of(self._error or ""), self._savepoint
        if savepoint is None and self._savepoints.stop is not None:  # the answer will be that there is no savepoint
            self._desk.chain.resumes = True
        record = self._desk.chain.make(
            self._kind,
            self._desk.now.now_ms,
            reason=reason,
            savepoint=savepoint,
            keeps_checkpoints=self._keeps_checkpoints,
        )
        if self._kind in {RecordKind.FINISHED, RecordKind.DRAINED}:
            # Its checkpoints may be gone when a later start asks again.
            record = replace(record, accumulators=self._state.snapshot.counted or UNSET)
            record = replace(record, given_up=self._state.ledger.given_up)
        self._desk.put(record)

    def closed(self, *, recorded: bool = True) -> None:
        """Go on after the terminal record: drop what is not to be kept.

        Args:
            recorded: The record is there; else another driver may have taken the job over and need it all.
        """
        if recorded and not self._keeps_checkpoints:
            self._desk.delete(self._desk.retention.drop_all())
            self._desk.sweep()
        if self._savepoint is not None:
            self._savepoints.stopped()
        self.end(_ENDS[self._kind], self._error, checkpoint=self._keeps_checkpoints or not recorded)

    @property
    def _keeps_checkpoints(self) -> bool:
        on_end = {
            RecordKind.FINISHED: self._retention.on_finish,
            RecordKind.CANCELED: self._retention.on_cancel,
            RecordKind.FAILED: self._retention.on_failure,
        }
        return on_end.get(self._kind, False)

    def end(self, status: JobStatus, error: Cause | None = None, *, checkpoint: bool = True) -> None:
        """End the driver of the job, which need not be the end of the job itself.

        Args:
            status: The last one that it shows.
            error: What the program is told.
            checkpoint: Whether there is a checkpoint to go on from.
        """
        if isinstance(error, FencedError):
            self._savepoints.leave_stop()
        self._savepoints.give_up(f"the job is {status.name}")
        self._requests.give_up(f"the job is {status.name}")
        self._desk.go(Phase.ENDED)
        self._desk.show(status)
        parent = self._start.chain.parent if self._start.chain else None
        self._desk.emit(do.End(status, error, parent.path if parent and checkpoint else None))


def text_of(cause: Cause | str) -> str:
    """Return what a record, or whoever asked for a savepoint, is told of a failure."""
    return cause.error if isinstance(cause, Failure) else str(cause)

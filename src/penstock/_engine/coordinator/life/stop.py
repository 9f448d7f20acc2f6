"""The stop of a job behind its commit point: its savepoint gets its name, or the job goes on after all.

The checkpoint that a job stops with is complete then, and names the savepoint, which lacks nothing but the name of its
own record (`savepoints`). Where that name cannot be given, a record says that the job goes on from the checkpoint.
Until one of the two is there, whoever asked for the stop gets no answer: there may be a savepoint yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.life.ending import text_of
from penstock._engine.coordinator.life.start import DRAINED
from penstock._engine.coordinator.phases import STOPPING, Phase
from penstock._engine.protocol.control import Stop
from penstock._engine.protocol.metadata import RecordKind
from penstock.errors import SavepointError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator.context import Desk
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.epochs.scheduler import EpochCycle
    from penstock._engine.coordinator.life.savepoints import Savepoints
    from penstock._engine.protocol.metadata import Record

#: The phases of a stop whose savepoint is complete.
_SAVED: Final = frozenset({Phase.NOTIFYING, Phase.FINISHING, Phase.RELEASING})


class JobStop:
    """Brings the stop of one job to its end.

    Args:
        desk: The coordinator's desk.
        state: What epochs work on.
        savepoints: Hold the request.
        cycle: Puts the record of the checkpoint, and goes on once the savepoint is there.
        go_back: Called when the job is to go on from its last checkpoint.
    """

    def __init__(
        self, desk: Desk, state: JobState, savepoints: Savepoints, cycle: EpochCycle, *, go_back: Callable[[], None]
    ) -> None:
        self._desk = desk
        self._state = state
        self._savepoints = savepoints
        self._cycle = cycle
        self._go_back = go_back
        #: The last completed checkpoint, when the job stops with it; from then on nothing else happens.
        self.checkpoint: Record | None = None
        #: Why the savepoint is not there.
        self._not_saved = SavepointError("", "")

    @property
    def path(self) -> str | None:
        """The savepoint that the last completed checkpoint stops the job into."""
        return self.checkpoint and self.checkpoint.savepoint

    @property
    def is_decided(self) -> bool:
        """Whether the record that the job stops with is there, or may be: it is on its way, or got lost there."""
        if self.checkpoint is not None:
            return True
        record = self._desk.record or self._desk.lost
        if record is None or record.kind is not RecordKind.CHECKPOINT or record.savepoint is None:
            return False
        return record.checkpoint_id == self._desk.chain.next_id

    @property
    def _is_saved(self) -> bool:
        return self.checkpoint is not None and self._desk.phase in _SAVED

    def completed(self, record: Record) -> None:
        """Take note of a completed checkpoint: the job stops with it if it names a savepoint."""
        self.checkpoint = record if record.savepoint is not None else None

    def give_up(self, reason: str) -> None:
        """Answer all that savepoints were asked for, because the job breaks off.

        Args:
            reason: Why it does.
        """
        saved = self._is_saved
        self._savepoints.give_up(reason, complete=saved, is_open=self.is_decided and not saved)

    def save(self) -> None:
        """Give the savepoint its name."""
        assert self.path is not None
        self._desk.go(Phase.SAVING)
        self._savepoints.save(self.path)

    def heard(self, event: ev.SavepointWritten | ev.SavepointFailed) -> None:
        """Go on after a savepoint was written, or could not be: that of the stop, or one of a job that goes on."""
        request, path = self._savepoints.stop, event.path
        if path == self.path:
            self._desk.saving = False
        match self._desk.phase, event:
            case Phase.EXPORTING, _ if request is not None and request.path == path:
                self._exported(event, request.stop)
            case Phase.SAVING, _ if path == self.path:
                self._named(event)
            case _, ev.SavepointWritten() if self._desk.phase in STOPPING and path == self.path:
                self._savepoints.give_up_stop(text_of(self._desk.error or "the job was cancelled"), complete=True)
            case _ if self._desk.phase in STOPPING and path == self.path:
                pass  # the job goes on with the stop when it starts again
            case _, ev.SavepointFailed(_, error):
                self._savepoints.failed(path, error)
            case _:
                self._savepoints.written(path)

    def _exported(self, event: ev.SavepointWritten | ev.SavepointFailed, stop: Stop) -> None:
        if isinstance(event, ev.SavepointWritten):
            self._cycle.record()
            return
        self._savepoints.give_up_stop(event.error)
        if stop is Stop.DRAIN:  # timers have fired and functions have finished: that epoch must not have been
            self._go_back()
        else:
            self._cycle.go_on()

    def _named(self, event: ev.SavepointWritten | ev.SavepointFailed) -> None:
        if isinstance(event, ev.SavepointWritten):
            self._desk.chain.resumes = False
            self._cycle.stopped()
        elif not self._savepoints.save_again(event.path):
            self._resume(event.path, event.error)

    def _resume(self, path: str, error: Exception) -> None:
        """Put the record that the job goes on from the checkpoint with which it was to stop."""
        self._not_saved = SavepointError(path, text_of(error))
        self._desk.go(Phase.RESUMING)
        chain = self._desk.chain
        chain.resumes = True
        self._desk.put(chain.make(RecordKind.TAKEOVER, self._desk.now.now_ms))

    def resumed(self) -> None:
        """Go on from the checkpoint with which the job was to stop: what its savepoint lacks is all there."""
        assert self.checkpoint is not None
        checkpoint, drained = self._desk.chain.parent, self._state.resume()
        path = "" if checkpoint is None else checkpoint.path
        text = f"The job does not stop and goes on from checkpoint {path}. {self._not_saved}"
        self._desk.emit(do.Log(text, unexpected=True))
        if drained:
            self._desk.emit(do.Log(DRAINED.format(path), unexpected=True))
        self.checkpoint = None
        if self._desk.phase not in STOPPING:  # else its end is the answer
            self._savepoints.give_up_stop(self._not_saved.reason)
            self._go_back()

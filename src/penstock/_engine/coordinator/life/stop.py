"""The stop of a job after its commit point: its savepoint gets its name, or the job goes on after all.

The checkpoint that a job stops with is complete then, and names the savepoint, which lacks nothing but the name of its
own entry (`savepoints`). Where that name cannot be given, an entry says that the job goes on from the checkpoint.
Until one of the two is there, the request for the stop gets no answer: there may be a savepoint yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.life.ending import text_of
from penstock._engine.coordinator.life.start import DRAINED
from penstock._engine.coordinator.phases import STOPPING, Phase
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.errors import SavepointError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.epochs.scheduler import EpochScheduler
    from penstock._engine.coordinator.life.savepoints import PendingSavepoints
    from penstock._engine.protocol.metadata import ChainEntry

#: The phases of a stop whose savepoint is complete.
_SAVED: Final = frozenset({Phase.NOTIFYING, Phase.FINISHING, Phase.RELEASING})


class StopWithSavepoint:
    """Brings the stop of one job to its end.

    Args:
        context: The coordinator's context.
        state: What epochs work on.
        savepoints: Hold the request.
        scheduler: Puts the entry of the checkpoint, and goes on once the savepoint is there.
        go_back: Called when the job is to go on from its last checkpoint.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        state: JobState,
        savepoints: PendingSavepoints,
        scheduler: EpochScheduler,
        *,
        go_back: Callable[[], None],
    ) -> None:
        self._context = context
        self._state = state
        self._savepoints = savepoints
        self._scheduler = scheduler
        self._go_back = go_back
        #: The last completed checkpoint, when the job stops with it; from then on nothing else happens.
        self.checkpoint: ChainEntry | None = None
        #: Why the savepoint is not there.
        self._not_saved = SavepointError("", "")

    @property
    def path(self) -> str | None:
        """The savepoint that the last completed checkpoint stops the job into."""
        return self.checkpoint and self.checkpoint.savepoint

    @property
    def is_decided(self) -> bool:
        """Whether the chain entry that the job stops with is stored, or may be: its answer is open, or got lost."""
        if self.checkpoint is not None:
            return True
        entry = self._context.entry or self._context.lost
        if entry is None or entry.kind is not ChainEntryKind.CHECKPOINT or entry.savepoint is None:
            return False
        return entry.checkpoint_id == self._context.chain.next_id

    @property
    def _is_saved(self) -> bool:
        return self.checkpoint is not None and self._context.phase in _SAVED

    def completed(self, entry: ChainEntry) -> None:
        """Note a completed checkpoint: the job stops with it if it names a savepoint."""
        self.checkpoint = entry if entry.savepoint is not None else None

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
        self._context.go(Phase.SAVING)
        self._savepoints.save(self.path)

    def heard(self, event: ev.SavepointWritten | ev.SavepointFailed) -> None:
        """Go on after a savepoint was written, or could not be: that of the stop, or one of a job that goes on."""
        request, path = self._savepoints.stop, event.path
        if path == self.path:
            self._context.saving = False
        match self._context.phase, event:
            case Phase.EXPORTING, _ if request is not None and request.path == path:
                self._exported(event, request.stop)
            case Phase.SAVING, _ if path == self.path:
                self._named(event)
            case _, ev.SavepointWritten() if self._context.phase in STOPPING and path == self.path:
                self._savepoints.give_up_stop(text_of(self._context.error or "the job was cancelled"), complete=True)
            case _ if self._context.phase in STOPPING and path == self.path:
                pass  # the job goes on with the stop when it starts again
            case _, ev.SavepointFailed(_, error):
                self._savepoints.failed(path, error)
            case _:
                self._savepoints.written(path)

    def _exported(self, event: ev.SavepointWritten | ev.SavepointFailed, stop: StopMode) -> None:
        if isinstance(event, ev.SavepointWritten):
            self._scheduler.put_entry()
            return
        self._savepoints.give_up_stop(event.error)
        if stop is StopMode.DRAIN:  # timers have fired and functions have finished: that epoch must not have been
            self._go_back()
        else:
            self._scheduler.go_on()

    def _named(self, event: ev.SavepointWritten | ev.SavepointFailed) -> None:
        if isinstance(event, ev.SavepointWritten):
            self._context.chain.resumes = False
            self._scheduler.stopped()
        elif not self._savepoints.save_again(event.path):
            self._resume(event.path, event.error)

    def _resume(self, path: str, error: Exception) -> None:
        """Put the chain entry which says that the job goes on from the checkpoint that it was to stop with."""
        self._not_saved = SavepointError(path, text_of(error))
        self._context.go(Phase.RESUMING)
        chain = self._context.chain
        chain.resumes = True
        self._context.put(chain.make(ChainEntryKind.TAKEOVER, self._context.now.now_ms))

    def resumed(self) -> None:
        """Go on from the checkpoint with which the job was to stop: what its savepoint lacks is all there."""
        assert self.checkpoint is not None
        checkpoint, drained = self._context.chain.parent, self._state.resume()
        path = "" if checkpoint is None else checkpoint.path
        text = f"The job does not stop and goes on from checkpoint {path}. {self._not_saved}"
        self._context.emit(do.LogMessage(text, unexpected=True))
        if drained:
            self._context.emit(do.LogMessage(DRAINED.format(path), unexpected=True))
        self.checkpoint = None
        if self._context.phase not in STOPPING:  # else its end is the answer
            self._savepoints.give_up_stop(self._not_saved.reason)
            self._go_back()

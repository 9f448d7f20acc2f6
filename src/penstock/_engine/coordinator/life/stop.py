"""Stops a job with a savepoint (FLIP-34): the savepoint is written before the commit point and named after it.

A stopping job runs one more epoch, in which nothing is read, and stops with its checkpoint. All bytes of the savepoint
are durable before the chain entry of that checkpoint, which names the savepoint and is the commit point of the stop: a
driver that finds it completes the stop. If the savepoint cannot be named then, another chain entry says that the job
continues from the checkpoint, which has all of its state (decision 7). The request is answered after one of the two
entries, because until then the savepoint may still come to exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.alarms import SavepointRetryDue
from penstock._engine.coordinator.checkpoints.chain import RECORD_PAUSE_MS
from penstock._engine.coordinator.life.requests import copies, with_own_names
from penstock._engine.coordinator.life.start import DRAINED
from penstock._engine.coordinator.phases import STOPPING, Phase
from penstock._engine.coordinator.scheduler import StopStep, text_of
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.errors import SavepointError

if TYPE_CHECKING:
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.life.requests import PendingRequests
    from penstock._engine.coordinator.scheduler import CoordinatorContext
    from penstock._engine.protocol.metadata import ChainEntry, JobSnapshot

#: The phases of a stop whose savepoint is complete.
_SAVED: Final = frozenset({Phase.NOTIFYING, Phase.FINISHING, Phase.RELEASING})
#: The naming of a savepoint is tried this often, each time after twice the pause.
_MAX_TRIES: Final = 5


class StopWithSavepoint:
    """Performs the stop of one job.

    Args:
        context: The coordinator's context.
        state: The job's state.
        requests: Hold the request.
    """

    def __init__(self, context: CoordinatorContext, state: JobState, requests: PendingRequests) -> None:
        self._context = context
        self._state = state
        self._requests = requests
        #: The number of tries to name the savepoint.
        self._tries = 0
        #: The completed checkpoint that the job stops with; None before.
        self.checkpoint: ChainEntry | None = None
        #: Why the savepoint does not exist.
        self._not_saved = SavepointError("", "")

    @property
    def path(self) -> str | None:
        """The savepoint that the last completed checkpoint stops the job into."""
        return self.checkpoint and self.checkpoint.savepoint

    @property
    def is_decided(self) -> bool:
        """Whether the chain entry that the job stops with is stored or, without a known outcome, may be."""
        if self.checkpoint is not None:
            return True
        entry = self._state.chain.entry or self._state.chain.lost
        if entry is None or entry.kind is not ChainEntryKind.CHECKPOINT or entry.savepoint is None:
            return False
        return entry.checkpoint_id == self._state.chain.next_id

    @property
    def _is_saved(self) -> bool:
        return self.checkpoint is not None and self._context.phase in _SAVED

    def give_up(self, reason: str) -> None:
        """Refuse all requests for savepoints, because the job is torn down.

        Args:
            reason: Why it is.
        """
        saved = self._is_saved
        self._context.emit(*self._requests.give_up(reason, complete=saved, is_open=self.is_decided and not saved))

    def give_up_late(self, running: tuple[str, ...]) -> bool:
        """Refuse the request of a stop after its timeout; tell whether there was one that could be given up.

        Args:
            running: The subtasks for which it waits.
        """
        refused = self._requests.give_up_late_stop(running, self._context.phase, is_decided=self.is_decided)
        self._context.emit(*refused)
        return bool(refused)

    def export(self, document: JobSnapshot) -> None:
        """Write the savepoint except for the name of its metadata.

        Args:
            document: The content of the next checkpoint: the state and the outstanding commits.
        """
        assert self._requests.stop is not None
        chain = self._state.chain
        entry = chain.savepoint(with_own_names(document), self._context.now.now_ms, of=chain.next_id)
        self._context.emit(do.WriteSavepoint(self._requests.stop.path, copies(document), entry, is_staged=True))

    def save(self) -> None:
        """Name the savepoint."""
        assert self.path is not None
        self._context.go(Phase.SAVING)
        self._tries = 0
        self._save(self.path)

    def _save(self, path: str) -> None:
        chain, snapshot = self._state.chain, self._state.snapshot
        assert chain.parent is not None
        entry = chain.savepoint(with_own_names(snapshot), self._context.now.now_ms, of=chain.parent.checkpoint_id)
        self._tries += 1
        self._context.saving = True
        self._context.emit(do.CompleteSavepoint(path, copies(snapshot), entry))

    def _save_again(self, path: str) -> bool:
        """Name the savepoint after a pause; tell whether a try was left."""
        if self._tries == _MAX_TRIES:
            return False
        self._context.emit(do.SetAlarm(RECORD_PAUSE_MS << (self._tries - 1), SavepointRetryDue(path)))
        return True

    def save_again(self, path: str) -> None:
        """Name the savepoint now, after a pause."""
        if self._context.phase is Phase.SAVING and not self._context.saving:  # else the job is being torn down
            self._save(path)

    def on_answer(self, event: ev.SavepointWritten | ev.SavepointFailed) -> StopStep:
        """Continue after the savepoint was written or has failed."""
        request, path = self._requests.stop, event.path
        if path == self.path:
            self._context.saving = False
        match self._context.phase:
            case Phase.EXPORTING if request is not None and request.path == path:
                return self._exported(event, request.stop)
            case Phase.SAVING if path == self.path:
                return self._named(event)
            case phase if phase in STOPPING and path == self.path and isinstance(event, ev.SavepointWritten):
                reason = text_of(self._context.error or "the job was cancelled")
                self._context.emit(*self._requests.give_up_stop(reason, complete=True))
            case _:
                pass  # of a stop whose naming failed during a teardown: the next start continues with it
        return StopStep.NONE

    def _exported(self, event: ev.SavepointWritten | ev.SavepointFailed, stop: StopMode) -> StopStep:
        if isinstance(event, ev.SavepointWritten):
            return StopStep.EXPORTED
        self._context.emit(*self._requests.give_up_stop(event.error))
        return StopStep.UNDONE if stop is StopMode.DRAIN else StopStep.GIVEN_UP

    def _named(self, event: ev.SavepointWritten | ev.SavepointFailed) -> StopStep:
        if isinstance(event, ev.SavepointWritten):
            self._state.chain.resumes = False
            return StopStep.SAVED
        if not self._save_again(event.path):
            self._resume(event.path, event.error)
        return StopStep.NONE

    def _resume(self, path: str, error: Exception) -> None:
        """Put the chain entry that says that the job continues from the checkpoint of the stop."""
        self._not_saved = SavepointError(path, text_of(error))
        self._context.go(Phase.RESUMING)
        chain = self._state.chain
        chain.resumes = True
        self._context.emit(chain.put(chain.make(ChainEntryKind.TAKEOVER, self._context.now.now_ms)))

    def undo_drain(self) -> None:
        """Let drained operators continue where they were, because the drain has not come to its end."""
        if self._state.resume():
            self._context.emit(do.LogMessage(DRAINED.format(self._parent), unexpected=True))

    @property
    def _parent(self) -> str:
        checkpoint = self._state.chain.parent
        return "" if checkpoint is None else checkpoint.path

    def resumed(self) -> None:
        """Continue from the checkpoint of the stop, which has all state that the savepoint was to have."""
        assert self.checkpoint is not None
        text = f"The job does not stop and continues from checkpoint {self._parent}. {self._not_saved}"
        self._context.emit(do.LogMessage(text, unexpected=True))
        self.undo_drain()
        self.checkpoint = None
        if self._context.phase not in STOPPING:  # else its end is the answer
            self._context.emit(*self._requests.give_up_stop(self._not_saved.reason))

"""Savepoints: those that are asked for while the job goes on, and the one that it stops with (FLIP-34).

A savepoint of a running job is a copy of the next checkpoint that begins, taken when all of that is committed. A job
that stops runs one epoch more, in which nothing is read, and stops with its checkpoint. Before the entry of that,
which names the savepoint, all bytes of the savepoint are safe; behind it the savepoint only gets its name. The entry
is the commit point of the stop: a driver that finds it brings the stop to its end. Where even the name cannot be
given, that checkpoint has all that the job needs to go on. Sinks know of such epochs (decision 8).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.snapshots import map_handles, state_files
from penstock._engine.coordinator.context import RECORD_PAUSE_MS
from penstock._engine.coordinator.phases import RUNNING, Phase
from penstock._engine.protocol.control import StopMode
from penstock.errors import SavepointError, StopIncompleteError, StopTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator.checkpoints.retention import RetainedCheckpoint
    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.instructions import SavepointRequest
    from penstock._engine.protocol.metadata import JobSnapshot
    from penstock._engine.protocol.state_handle import StateHandle

#: The phases in which a job ends, with or without a stop.
_ENDING: Final = frozenset({Phase.NOTIFYING, Phase.FINISHING, Phase.RELEASING, Phase.CLOSING, Phase.ENDED})
#: A savepoint that does not get its name is tried again this often, each time after twice the pause.
_MAX_TRIES: Final = 5


class PendingSavepoints:
    """The requested savepoints, and how far each of them is.

    Args:
        context: The coordinator's context.
        state: What epochs work on.
        cancel: Called when the job has not stopped in the time that it was given.
        is_decided: Tells whether the stop has had its commit point, or may have had it.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        state: JobState,
        *,
        cancel: Callable[[], None],
        is_decided: Callable[[], bool],
    ) -> None:
        self._context = context
        self._state = state
        self._cancel = cancel
        self._is_decided = is_decided
        #: A stop whose time is over; the running epoch is being looked at for what it waits for.
        self._late: SavepointRequest | None = None
        #: How the job is to stop, None while it is not.
        self.stop: SavepointRequest | None = None
        self._tries = 0
        #: Savepoints of a job that goes on: those that the next epoch is for, those that the one at hand is for, those
        #: that are to be copied as soon as all is committed, and by path those that are being copied, with what stays
        #: for them meanwhile.
        self._asked: list[SavepointRequest] = []
        self._covered: list[SavepointRequest] = []
        self._completed: list[SavepointRequest] = []
        self._copying: dict[str, tuple[SavepointRequest, RetainedCheckpoint]] = {}

    @property
    def waiting(self) -> bool:
        """Whether the next epoch is to begin at once."""
        return bool(self._asked) or self.stop is not None

    @property
    def wait_for_commits(self) -> bool:
        """Whether the next checkpoint is to wait until nothing of the last one is outstanding."""
        return bool(self._completed)

    @property
    def copying(self) -> bool:
        """Whether a savepoint of a job that goes on is being made, or will be as soon as all is committed."""
        return bool(self._copying or self._completed)

    def request(self, request: SavepointRequest) -> None:
        """Take up a request, or refuse it."""
        if self._context.phase in {Phase.SAVING, Phase.RESUMING, *_ENDING}:
            self._answer(request, "the job is ending")
        elif self._context.phase not in RUNNING:
            self._answer(request, f"the job is {self._context.status.name}")
        elif self.stop is not None:
            self._answer(request, f"the job is already stopping, into {self.stop.path}")
        elif request.stop is StopMode.NO:
            self._asked.append(request)
        else:
            self.stop = request
            if request.timeout_ms is not None:
                self._context.alarm(request.timeout_ms, partial(self._time_over, request))

    def _time_over(self, request: SavepointRequest) -> None:
        if self._is_beyond(request):
            return
        self._late = request
        if self._context.phase is Phase.EPOCH:
            self._context.emit(do.ObserveEpoch())
        else:
            self._give_up_late(())

    def _is_beyond(self, request: SavepointRequest) -> bool:
        """Tell whether a stop can no longer be given up, or is none any more."""
        return self.stop is not request or self._context.phase in _ENDING or self._is_decided()

    def observed(self, running: tuple[str, ...]) -> None:
        """Note which subtasks run: a stop whose time is over waits for them."""
        if self._late is not None:
            self._give_up_late(running)

    def _give_up_late(self, running: tuple[str, ...]) -> None:
        request, self._late = self._late, None
        if request is None or self._is_beyond(request):
            return  # it has come so far meanwhile, or was given up
        self.stop = None
        self._refuse(request, StopTimeoutError(request.path, request.timeout_ms or 0, running))
        self._cancel()

    def begun(self) -> bool:
        """Note that an epoch begins, and tell whether a savepoint is to be made of its checkpoint."""
        self._covered += self._asked
        self._asked.clear()
        return bool(self._covered) or self.stop is not None

    def completed(self) -> None:
        """Note that the checkpoint of the running epoch has completed."""
        self._completed += self._covered
        self._covered.clear()
        self.copy()

    def copy(self) -> None:
        """Copy the last checkpoint for those it was made for, as soon as nothing of it is outstanding."""
        chain, requests = self._context.chain, self._completed
        if not requests or self._state.ledger or chain.parent is None:
            return
        self._completed = []
        # What its committers have given up since the checkpoint is outstanding no more, and lost here as well.
        snapshot = replace(self._state.snapshot, outstanding=(), given_up=self._state.ledger.given_up)
        of = chain.parent.checkpoint_id
        entry = chain.savepoint(_with_own_names(snapshot), self._context.now.now_ms, of=of)
        for request in requests:
            pinned = self._context.retention.pin(of, state_files(snapshot))
            self._copying[request.path] = request, pinned
            self._context.emit(do.WriteSavepoint(request.path, _copies(snapshot), entry))

    def finish(self) -> None:
        """Let a job end that was to stop, but came to its own end first: a copy of its last checkpoint will do."""
        self._completed += self._asked
        self._asked.clear()
        if self.stop is not None and self.stop.stop is not StopMode.CANCEL:
            self._completed.append(self.stop)
            self.stop = None
        self.copy()

    def export(self, document: JobSnapshot) -> None:
        """Write the savepoint that the job is to stop with, all but the name of its entry.

        Args:
            document: What the next checkpoint holds: the state, and what is outstanding.
        """
        assert self.stop is not None
        chain = self._context.chain
        entry = chain.savepoint(_with_own_names(document), self._context.now.now_ms, of=chain.next_id)
        self._context.emit(do.WriteSavepoint(self.stop.path, _copies(document), entry, is_staged=True))

    def save(self, path: str) -> None:
        """Give the savepoint that the job stops with its name."""
        self._tries = 0
        self._save(path)

    def _save(self, path: str) -> None:
        chain, snapshot = self._context.chain, self._state.snapshot
        assert chain.parent is not None
        entry = chain.savepoint(_with_own_names(snapshot), self._context.now.now_ms, of=chain.parent.checkpoint_id)
        self._tries += 1
        self._context.saving = True
        self._context.emit(do.CompleteSavepoint(path, _copies(snapshot), entry))

    def save_again(self, path: str) -> bool:
        """Give the savepoint its name after a pause, and tell whether that was to be tried once more."""
        if self._tries == _MAX_TRIES:
            return False
        self._context.alarm(RECORD_PAUSE_MS << (self._tries - 1), partial(self._repeat, path))
        return True

    def _repeat(self, path: str) -> None:
        if self._context.phase is Phase.SAVING and not self._context.saving:  # else the job has broken off
            self._save(path)

    def written(self, path: str) -> None:
        """Note that a copy is complete."""
        self._copied(path, None)

    def failed(self, path: str, error: Exception) -> None:
        """Note that a copy failed; the job goes on."""
        self._copied(path, error)

    def _copied(self, path: str, error: Exception | None) -> None:
        if path not in self._copying:
            return  # it is of a stop that was given up: the driver discards it
        request, pinned = self._copying.pop(path)
        self._context.delete(self._context.retention.unpin(pinned))
        self._answer(request, None if error is None else _text(error))

    def give_up_stop(self, reason: Exception | str, *, complete: bool = False) -> None:
        """Let the job go on, and say why it does not stop."""
        if self.stop is not None:
            request, self.stop = self.stop, None
            self._answer(request, reason if isinstance(reason, str) else _text(reason), complete=complete)

    def give_up(self, reason: Exception | str, *, complete: bool = False, is_open: bool = False) -> None:
        """Answer all that has not begun; what is being copied is completed.

        Args:
            reason: Why the job breaks off, or that it has ended.
            complete: The savepoint of a stop is there, and only what follows it failed.
            is_open: Whether there will be a savepoint of a stop is not known yet: the answer waits until it is.
        """
        if not is_open:
            self.give_up_stop(reason, complete=complete)
        unanswered = [*self._completed, *self._covered, *self._asked]
        self._completed, self._covered, self._asked = [], [], []
        for request in unanswered:
            self._answer(request, reason if isinstance(reason, str) else _text(reason))

    def leave_stop(self) -> None:
        """Leave a stop to the driver that has the job now, with what there is of its savepoint."""
        if self.stop is not None:
            request, self.stop = self.stop, None
            reason = "another driver has taken the job over, and brings to its end what has had its commit point"
            self._context.emit(do.AnswerSavepoint(request, SavepointError(request.path, reason)))

    def stopped(self) -> None:
        """Answer that the job has stopped."""
        if self.stop is not None:
            request, self.stop = self.stop, None
            self._answer(request, None)

    def _answer(self, request: SavepointRequest, reason: str | None, *, complete: bool = False) -> None:
        if reason is None:
            self._context.emit(do.AnswerSavepoint(request, None))
        elif complete:
            self._context.emit(do.AnswerSavepoint(request, StopIncompleteError(request.path, reason)))
        else:
            self._refuse(request, SavepointError(request.path, reason))

    def _refuse(self, request: SavepointRequest, error: SavepointError) -> None:
        """Answer that there is no savepoint, and leave nothing of it."""
        self._context.emit(do.AnswerSavepoint(request, error), do.DiscardSavepoint(request.path))


def _copies(snapshot: JobSnapshot) -> tuple[tuple[str, str], ...]:
    return tuple((path, _own_name(path)) for path in sorted(state_files(snapshot)))


def _with_own_names(snapshot: JobSnapshot) -> JobSnapshot:
    """Return the state with the names that its files have in the directory of the savepoint."""

    def change(handle: StateHandle) -> StateHandle:
        return handle if handle.path is None else replace(handle, path=_own_name(handle.path))

    return map_handles(snapshot, change)


def _own_name(path: str) -> str:
    return path.rpartition("/")[2]


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

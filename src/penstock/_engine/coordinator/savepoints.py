"""Savepoints: those that are asked for while the job goes on, and the one that it stops with (FLIP-34).

A savepoint of a running job is a copy of the next checkpoint that begins, taken when all of that is committed. A job
that stops runs one epoch more, in which nothing is read, and stops with its checkpoint. Its one commit point is the
record of that, which names the savepoint: a driver that finds it brings the stop to its end. Sinks know of such epochs,
and leave nothing staged that would go on (decision 7).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.phases import RUNNING, Phase
from penstock._engine.coordinator.snapshots import map_handles, state_files
from penstock._engine.protocol.control import Stop
from penstock.errors import SavepointError, StopIncompleteError, StopTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator.desk import Desk
    from penstock._engine.coordinator.instructions import SavepointRequest
    from penstock._engine.coordinator.job_state import JobState
    from penstock._engine.coordinator.retention import Kept
    from penstock._engine.protocol.metadata import JobSnapshot
    from penstock._engine.protocol.state_handle import StateHandle

#: The phases in which a stop can no longer be given up.
_DECIDED: Final = frozenset(
    {Phase.RECORDING, Phase.SAVING, Phase.NOTIFYING, Phase.FINISHING, Phase.CLOSING, Phase.ENDED}
)


class Savepoints:
    """What was asked for, and how far it is.

    Args:
        desk: The coordinator's desk.
        state: What epochs work on.
        cancel: Called when the job has not stopped in the time that it was given.
    """

    def __init__(self, desk: Desk, state: JobState, cancel: Callable[[], None]) -> None:
        self._desk = desk
        self._state = state
        self._cancel = cancel
        #: A stop whose time is over; the running epoch is being looked at for what it waits for.
        self._late: SavepointRequest | None = None
        #: How the job is to stop, None while it is not.
        self.stop: SavepointRequest | None = None
        #: Savepoints of a job that goes on: those that the next epoch is for, those that the one at hand is for, those
        #: that are to be copied as soon as all is committed, and by path those that are being copied, with what stays
        #: for them meanwhile.
        self._asked: list[SavepointRequest] = []
        self._covered: list[SavepointRequest] = []
        self._completed: list[SavepointRequest] = []
        self._copying: dict[str, tuple[SavepointRequest, Kept]] = {}

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
        if self._desk.phase not in RUNNING:
            self._answer(request, f"the job is {self._desk.status.name}")
        elif self._desk.phase in {Phase.SAVING, Phase.NOTIFYING, Phase.FINISHING}:
            self._answer(request, "the job is ending")
        elif self.stop is not None:
            self._answer(request, f"the job is already stopping, into {self.stop.path}")
        elif request.stop is Stop.NO:
            self._asked.append(request)
        else:
            self.stop = request
            if request.timeout_ms is not None:
                self._desk.alarm(request.timeout_ms, partial(self._time_over, request))

    def _time_over(self, request: SavepointRequest) -> None:
        if self.stop is not request or self._desk.phase in _DECIDED:
            return
        self._late = request
        if self._desk.phase is Phase.EPOCH:
            self._desk.emit(do.ObserveEpoch())
        else:
            self._give_up_late(())

    def observed(self, running: tuple[str, ...]) -> None:
        """Take note of which subtasks run: a stop whose time is over waits for them."""
        if self._late is not None:
            self._give_up_late(running)

    def _give_up_late(self, running: tuple[str, ...]) -> None:
        request, self._late = self._late, None
        if request is None or self.stop is not request or self._desk.phase in _DECIDED:
            return  # it has come so far meanwhile, or was given up
        self.stop = None
        error = StopTimeoutError(request.path, request.timeout_ms or 0, running)
        self._desk.emit(do.AnswerSavepoint(request, error))
        self._cancel()

    def begun(self) -> bool:
        """Take note that an epoch begins, and tell whether a savepoint is to be made of its checkpoint."""
        self._covered += self._asked
        self._asked.clear()
        return bool(self._covered) or self.stop is not None

    def completed(self) -> None:
        """Take note that the checkpoint of the epoch at hand has completed."""
        self._completed += self._covered
        self._covered.clear()
        self.copy()

    def copy(self) -> None:
        """Copy the last checkpoint for those it was made for, as soon as nothing of it is outstanding."""
        chain, requests = self._desk.chain, self._completed
        if not requests or self._state.ledger or chain.parent is None:
            return
        self._completed = []
        snapshot = replace(self._state.snapshot, outstanding=())
        record = chain.savepoint(_with_own_names(snapshot), self._desk.now_ms)
        for request in requests:
            pinned = self._desk.retention.pin(chain.parent.checkpoint_id, state_files(snapshot))
            self._copying[request.path] = request, pinned
            self._desk.emit(do.WriteSavepoint(request.path, _copies(snapshot), record))

    def finish(self) -> None:
        """Let a job end that was to stop, but came to its own end first: a copy of its last checkpoint will do."""
        self._completed += self._asked
        self._asked.clear()
        if self.stop is not None and self.stop.stop is not Stop.CANCEL:
            self._completed.append(self.stop)
            self.stop = None
        self.copy()

    def export(self, snapshot: JobSnapshot) -> None:
        """Copy the files of the state that the job stops with."""
        assert self.stop is not None
        self._desk.emit(do.WriteSavepoint(self.stop.path, _copies(snapshot), None))

    def save(self, path: str) -> None:
        """Write the record of the savepoint that the job stops with; what is outstanding is in it, too."""
        record = self._desk.chain.savepoint(_with_own_names(self._state.snapshot), self._desk.now_ms)
        self._desk.emit(do.WriteSavepoint(path, (), record))

    def written(self, path: str) -> None:
        """Take note that a copy is complete."""
        self._copied(path, None)

    def failed(self, path: str, error: Exception) -> None:
        """Take note that a copy failed; the job goes on."""
        self._copied(path, error)

    def _copied(self, path: str, error: Exception | None) -> None:
        if path not in self._copying:
            return  # it is of a stop that was given up
        request, pinned = self._copying.pop(path)
        self._desk.delete(self._desk.retention.unpin(pinned))
        self._answer(request, None if error is None else _text(error))

    def give_up_stop(self, reason: Exception | str, *, complete: bool = False) -> None:
        """Let the job go on, and say why it does not stop."""
        if self.stop is not None:
            request, self.stop = self.stop, None
            self._answer(request, reason if isinstance(reason, str) else _text(reason), complete=complete)

    def give_up(self, reason: Exception | str, *, complete: bool = False) -> None:
        """Answer all that has not begun; what is being copied is completed.

        Args:
            reason: Why the job breaks off, or that it has ended.
            complete: The savepoint of a stop is there, and only what follows it failed.
        """
        self.give_up_stop(reason, complete=complete)
        unanswered = [*self._completed, *self._covered, *self._asked]
        self._completed, self._covered, self._asked = [], [], []
        for request in unanswered:
            self._answer(request, reason if isinstance(reason, str) else _text(reason))

    def stopped(self) -> None:
        """Answer that the job has stopped."""
        if self.stop is not None:
            request, self.stop = self.stop, None
            self._answer(request, None)

    def _answer(self, request: SavepointRequest, reason: str | None, *, complete: bool = False) -> None:
        kind = StopIncompleteError if complete else SavepointError
        self._desk.emit(do.AnswerSavepoint(request, None if reason is None else kind(request.path, reason)))


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

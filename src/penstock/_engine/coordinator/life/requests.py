"""The open requests to a running job: for checkpoints, savepoints and a stop; and what answers which request.

A running epoch answers requests for a checkpoint that arrive before its end, because its checkpoint covers that moment.
All other requests are for the next epoch, which then begins without a pause. The savepoint of a job that continues is a
copy of the checkpoint of that epoch, made once all its commits are done. `stop` writes the savepoint that a job stops
with, with the same names for its files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.alarms import StopTimedOut
from penstock._engine.coordinator.checkpoints.snapshots import map_handles, state_files
from penstock._engine.coordinator.phases import RUNNING, Phase
from penstock._engine.protocol.control import StopMode
from penstock.common.user_values import error_line
from penstock.errors import CheckpointRequestError, SavepointError, StopIncompleteError, StopTimeoutError

if TYPE_CHECKING:
    from penstock._engine.coordinator.checkpoints.chain import RetainedCheckpoint
    from penstock._engine.coordinator.epochs.job_state import JobState
    from penstock._engine.coordinator.instructions import Instruction, SavepointRequest
    from penstock._engine.protocol.metadata import JobSnapshot
    from penstock._engine.protocol.state_handle import StateHandle
    from penstock.common.job_status import JobStatus


#: The phases in which a job ends, with or without a stop.
_ENDING: Final = frozenset({Phase.NOTIFYING, Phase.FINISHING, Phase.RELEASING, Phase.CLOSING, Phase.ENDED})
#: The phases after which no checkpoint follows to answer a request with.
_NO_MORE: Final = _ENDING | {Phase.SAVING, Phase.RESUMING}


class PendingRequests:
    """The open requests of one job."""

    def __init__(self) -> None:
        #: The request that stops the job; None without one.
        self.stop: SavepointRequest | None = None
        #: The savepoint of the accepted stop, also once the job ends with it; None where it was given up.
        self._stops_into: str | None = None
        #: A stop after its timeout, while the running epoch is observed to say what it waits for.
        self._late: SavepointRequest | None = None
        #: Requests for checkpoints that the next epoch answers, and those that the running epoch answers.
        self._waiting: list[int] = []
        self._answered_by_epoch: list[int] = []
        #: Requests for savepoints of a job that continues: those of the next epoch, those of the running epoch, and
        #: those to be copied as soon as all is committed.
        self._asked: list[SavepointRequest] = []
        self._covered: list[SavepointRequest] = []
        self._completed: list[SavepointRequest] = []

    @property
    def waiting(self) -> bool:
        """Whether the next epoch begins without a pause."""
        return bool(self._waiting or self._asked) or self.stop is not None

    @property
    def only_drains(self) -> bool:
        """Whether a drain is all that the next epoch has to answer."""
        drains = self.stop is not None and self.stop.stop is StopMode.DRAIN
        return drains and not (self._waiting or self._asked)

    @property
    def wait_for_commits(self) -> bool:
        """Whether the next checkpoint waits until all commits of the last one are done."""
        return bool(self._completed)

    def request_checkpoint(self, request_id: int, phase: Phase, status: JobStatus, refusal: str) -> list[Instruction]:
        """Accept or refuse a request for a checkpoint.

        Args:
            request_id: Names the request.
            phase: Of the job.
            status: Of the job.
            refusal: Why this job has no such requests; "" if it may have some.
        """
        if not refusal and phase is Phase.EPOCH:
            self._answered_by_epoch.append(request_id)
        elif not refusal and phase in RUNNING - _NO_MORE:
            self._waiting.append(request_id)
        else:
            return self._refuse_checkpoint(request_id, refusal or self._why_not(phase, status, RUNNING))
        return []

    def request_savepoint(
        self, request: SavepointRequest, phase: Phase, status: JobStatus, refusal: str
    ) -> list[Instruction]:
        """Accept or refuse a request for a savepoint; takes the same as `request_checkpoint`."""
        if refusal:
            return self.answer(request, refusal)
        if self._stops_into is not None or phase in _NO_MORE or phase not in RUNNING:
            return self.answer(request, self._why_not(phase, status, _NO_MORE))
        if request.stop is StopMode.NO:
            self._asked.append(request)
            return []
        self.stop, self._stops_into = request, request.path
        return [] if request.timeout_ms is None else [do.SetAlarm(request.timeout_ms, StopTimedOut(request.id))]

    def _why_not(self, phase: Phase, status: JobStatus, ending: frozenset[Phase]) -> str:
        if self._stops_into is not None:
            return f"the job is already stopping, into {self._stops_into}"
        return "the job is ending" if phase in ending else f"the job is {status.name}"

    # ------------------------------------------------------------------------------------------------ a stop in time

    def stop_timed_out(self, request_id: int) -> bool:
        """Note that a stop has taken as long as its request allows; tell whether it is still open."""
        if self.stop is None or self.stop.id != request_id:
            return False
        self._late = self.stop
        return True

    def give_up_late_stop(self, running: tuple[str, ...], phase: Phase, *, is_decided: bool) -> list[Instruction]:
        """Refuse a stop after its timeout, unless it cannot be given up any more; nothing without such a stop.

        Args:
            running: The subtasks for which it waits.
            phase: Of the job.
            is_decided: Whether the stop has, or may have, passed its commit point.
        """
        request, self._late = self._late, None
        if request is None or self.stop is not request or phase in _ENDING or is_decided:
            return []
        self.stop = self._stops_into = None
        return self._refuse(request, StopTimeoutError(request.path, request.timeout_ms or 0, running))

    # ------------------------------------------------------------------------------------------------------- epochs

    def begun(self) -> bool:
        """Note the beginning of an epoch; tell whether its checkpoint becomes a savepoint."""
        self._answered_by_epoch += self._waiting
        self._waiting.clear()
        self._covered += self._asked
        self._asked.clear()
        return bool(self._covered) or self.stop is not None

    def completed(self) -> None:
        """Note the completed checkpoint of the running epoch, which its savepoints are copies of."""
        self._completed += self._covered
        self._covered.clear()

    def answer_checkpoints(self, checkpoint_id: int) -> list[Instruction]:
        """Answer the requests for a checkpoint that the completed checkpoint covers."""
        answered, self._answered_by_epoch = self._answered_by_epoch, []
        return [do.AnswerCheckpoint(request_id, checkpoint_id) for request_id in answered]

    def finish(self) -> None:
        """Let a job end by itself that was to stop: a copy of its last checkpoint is the savepoint."""
        self._completed += self._asked
        self._asked.clear()
        if self.stop is not None and self.stop.stop is not StopMode.CANCEL:
            self._completed.append(self.stop)
            self.stop = None

    def take_completed(self) -> list[SavepointRequest]:
        """Hand the caller the requests for savepoints that are copies of the last checkpoint."""
        taken, self._completed = self._completed, []
        return taken

    # ------------------------------------------------------------------------------------------------------ answers

    def give_up(self, reason: str, *, complete: bool = False, is_open: bool = False) -> list[Instruction]:
        """Refuse all requests that are not under way; savepoints that are being copied complete.

        Args:
            reason: Why the job is torn down, or that it has ended.
            complete: Whether the savepoint of a stop exists, and only a later step failed.
            is_open: Whether the outcome of a stop is still unknown, so that its answer waits.
        """
        refused = [] if is_open else self.give_up_stop(reason, complete=complete)
        for request in (*self._completed, *self._covered, *self._asked):
            refused += self.answer(request, reason)
        for request_id in (*self._answered_by_epoch, *self._waiting):
            refused += self._refuse_checkpoint(request_id, reason)
        self._completed, self._covered, self._asked = [], [], []
        self._answered_by_epoch, self._waiting = [], []
        return refused

    def give_up_stop(self, reason: Exception | str, *, complete: bool = False) -> list[Instruction]:
        """Let the job continue, and say why it does not stop."""
        request, self.stop = self.stop, None
        return [] if request is None else self.answer(request, reason, complete=complete)

    def leave_stop(self) -> list[Instruction]:
        """Leave a stop and the files of its savepoint to the driver that has taken the job over."""
        request, self.stop = self.stop, None
        reason = "another driver has taken the job over, and completes the stop if that is committed"
        return [] if request is None else [do.AnswerSavepoint(request, SavepointError(request.path, reason))]

    def stopped(self) -> list[Instruction]:
        """Answer that the job has stopped."""
        request, self.stop = self.stop, None
        return [] if request is None else self.answer(request, None)

    def answer(
        self, request: SavepointRequest, reason: Exception | str | None, *, complete: bool = False
    ) -> list[Instruction]:
        """Answer a request for a savepoint.

        Args:
            request: The request.
            reason: Why there is no savepoint, or why the job has not stopped; None after a success.
            complete: Whether the savepoint exists all the same.
        """
        if reason is None:
            return [do.AnswerSavepoint(request, None)]
        if request.path == self._stops_into and not complete:
            self._stops_into = None
        text = reason if isinstance(reason, str) else error_line(reason)
        if complete:
            return [do.AnswerSavepoint(request, StopIncompleteError(request.path, text))]
        return self._refuse(request, SavepointError(request.path, text))

    def _refuse(self, request: SavepointRequest, error: SavepointError) -> list[Instruction]:
        """Answer that there is no savepoint, and delete its files."""
        return [do.AnswerSavepoint(request, error), do.DiscardSavepoint(request.path)]

    def _refuse_checkpoint(self, request_id: int, reason: str) -> list[Instruction]:
        return [do.AnswerCheckpoint(request_id, 0, CheckpointRequestError(reason))]


class SavepointCopies:
    """The savepoints of a running job that are being written.

    Args:
        state: The state of the last checkpoint.
        requests: The open requests.
    """

    def __init__(self, state: JobState, requests: PendingRequests) -> None:
        self._state = state
        self._requests = requests
        #: By path: the request, and the checkpoint that is kept for it meanwhile.
        self._copying: dict[str, tuple[SavepointRequest, RetainedCheckpoint]] = {}

    @property
    def copying(self) -> bool:
        """Whether such a savepoint is being written, or will be once all is committed."""
        return bool(self._copying) or self._requests.wait_for_commits

    def copy(self, now_ms: int) -> list[Instruction]:
        """Copy the last checkpoint for its requests, if there are any and all its commits are done."""
        chain, retention = self._state.chain, self._state.retention
        if not self._requests.wait_for_commits or self._state.ledger or chain.parent is None:
            return []
        # Committables that were given up since the checkpoint are not outstanding, and are lost in the copy as well.
        snapshot = self._state.snapshot.with_commits(self._state.commits)
        of = chain.parent.checkpoint_id
        entry = chain.savepoint(with_own_names(snapshot), now_ms, of=of)
        written: list[Instruction] = []
        for request in self._requests.take_completed():
            self._copying[request.path] = request, retention.pin(of, state_files(snapshot))
            written.append(do.WriteSavepoint(request.path, copies(snapshot), entry))
        return written

    def copied(self, path: str, error: Exception | None) -> list[Instruction]:
        """Note that a copy is complete or has failed; the job continues."""
        if path not in self._copying:
            return []  # of a stop that was given up: the driver discards it
        request, pinned = self._copying.pop(path)
        left = self._state.retention.unpin(pinned)
        return [*self._state.chain.deletion(left), *self._requests.answer(request, error)]


def copies(snapshot: JobSnapshot) -> tuple[tuple[str, str], ...]:
    """Return the files of a state, each with its name in a savepoint's directory."""
    return tuple((path, _own_name(path)) for path in sorted(state_files(snapshot)))


def with_own_names(snapshot: JobSnapshot) -> JobSnapshot:
    """Return the state with the names of its files in a savepoint's directory."""

    def change(handle: StateHandle) -> StateHandle:
        return handle if handle.path is None else replace(handle, path=_own_name(handle.path))

    return map_handles(snapshot, change)


def _own_name(path: str) -> str:
    return path.rpartition("/")[2]

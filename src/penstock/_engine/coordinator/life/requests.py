"""The open requests to a running job: for checkpoints, savepoints and a stop; and which epoch answers which request.

A running epoch answers requests for a checkpoint that arrive before its end, because its checkpoint covers that moment.
All other requests are for the next epoch, which then begins without a pause.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.phases import RUNNING, Phase
from penstock._engine.protocol.control import StopMode
from penstock.common.user_values import error_line
from penstock.errors import CheckpointRequestError, SavepointError, StopIncompleteError, StopTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator.context import CoordinatorContext
    from penstock._engine.coordinator.instructions import SavepointRequest

#: The phases in which a job ends, with or without a stop.
_ENDING: Final = frozenset({Phase.NOTIFYING, Phase.FINISHING, Phase.RELEASING, Phase.CLOSING, Phase.ENDED})
#: The phases after which no checkpoint follows to answer a request with.
_NO_MORE: Final = _ENDING | {Phase.SAVING, Phase.RESUMING}


class PendingRequests:
    """The open requests of one job.

    Args:
        context: The coordinator's context.
        cancel: Called if the job has not stopped within its timeout.
        is_decided: Tells whether the stop has, or may have, passed its commit point.
        refusal: Why no request of this job is accepted, such as that it is a batch job; "" where requests are accepted.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        *,
        cancel: Callable[[], None],
        is_decided: Callable[[], bool],
        refusal: Callable[[], str] = str,
    ) -> None:
        self._context = context
        self._refusal = refusal
        self._cancel = cancel
        self._is_decided = is_decided
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

    def request_checkpoint(self, request_id: int) -> None:
        """Accept or refuse a request for a checkpoint."""
        match self._context.phase:
            case _ if refusal := self._refusal():
                self._refuse_checkpoint(request_id, refusal)
            case Phase.EPOCH:
                self._answered_by_epoch.append(request_id)
            case phase if phase in RUNNING - _NO_MORE:
                self._waiting.append(request_id)
            case phase:
                self._refuse_checkpoint(request_id, self._why_not(phase, RUNNING))

    def request_savepoint(self, request: SavepointRequest) -> None:
        """Accept or refuse a request for a savepoint."""
        phase = self._context.phase
        if refusal := self._refusal():
            self.answer(request, refusal)
        elif self._stops_into is not None or phase in _NO_MORE or phase not in RUNNING:
            self.answer(request, self._why_not(phase, _NO_MORE))
        elif request.stop is StopMode.NO:
            self._asked.append(request)
        else:
            self.stop, self._stops_into = request, request.path
            if request.timeout_ms is not None:
                self._context.alarm(request.timeout_ms, partial(self._time_over, request))

    def _why_not(self, phase: Phase, ending: frozenset[Phase]) -> str:
        if self._stops_into is not None:
            return f"the job is already stopping, into {self._stops_into}"
        return "the job is ending" if phase in ending else f"the job is {self._context.status.name}"

    # ------------------------------------------------------------------------------------------------ a stop in time

    def _time_over(self, request: SavepointRequest) -> None:
        if self._is_beyond(request):
            return
        self._late = request
        if self._context.phase is Phase.EPOCH:
            self._context.emit(do.ObserveEpoch())
        else:
            self._give_up_late(())

    def _is_beyond(self, request: SavepointRequest) -> bool:
        """Tell whether a stop can no longer be given up, or is not open any more."""
        return self.stop is not request or self._context.phase in _ENDING or self._is_decided()

    def observed(self, running: tuple[str, ...]) -> None:
        """Note the running subtasks, for which a stop after its timeout still waits."""
        if self._late is not None:
            self._give_up_late(running)

    def _give_up_late(self, running: tuple[str, ...]) -> None:
        request, self._late = self._late, None
        if request is None or self._is_beyond(request):
            return  # it was decided or given up meanwhile
        self.stop = self._stops_into = None
        self._refuse(request, StopTimeoutError(request.path, request.timeout_ms or 0, running))
        self._cancel()

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

    def answer_checkpoints(self, checkpoint_id: int) -> None:
        """Answer the requests for a checkpoint that the completed checkpoint covers."""
        self._context.emit(*(do.AnswerCheckpoint(request_id, checkpoint_id) for request_id in self._answered_by_epoch))
        self._answered_by_epoch.clear()

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

    def give_up(self, reason: str, *, complete: bool = False, is_open: bool = False) -> None:
        """Refuse all requests that are not under way; savepoints that are being copied complete.

        Args:
            reason: Why the job is torn down, or that it has ended.
            complete: Whether the savepoint of a stop exists, and only a later step failed.
            is_open: Whether the outcome of a stop is still unknown, so that its answer waits.
        """
        if not is_open:
            self.give_up_stop(reason, complete=complete)
        savepoints = [*self._completed, *self._covered, *self._asked]
        checkpoints = [*self._answered_by_epoch, *self._waiting]
        self._completed, self._covered, self._asked = [], [], []
        self._answered_by_epoch, self._waiting = [], []
        for request in savepoints:
            self.answer(request, reason)
        for request_id in checkpoints:
            self._refuse_checkpoint(request_id, reason)

    def give_up_stop(self, reason: Exception | str, *, complete: bool = False) -> None:
        """Let the job continue, and say why it does not stop."""
        if self.stop is not None:
            request, self.stop = self.stop, None
            self.answer(request, reason, complete=complete)

    def leave_stop(self) -> None:
        """Leave a stop and the files of its savepoint to the driver that has taken the job over."""
        if self.stop is not None:
            request, self.stop = self.stop, None
            reason = "another driver has taken the job over, and completes the stop if that is committed"
            self._context.emit(do.AnswerSavepoint(request, SavepointError(request.path, reason)))

    def stopped(self) -> None:
        """Answer that the job has stopped."""
        if self.stop is not None:
            request, self.stop = self.stop, None
            self.answer(request, None)

    def answer(self, request: SavepointRequest, reason: Exception | str | None, *, complete: bool = False) -> None:
        """Answer a request for a savepoint.

        Args:
            request: The request.
            reason: Why there is no savepoint, or why the job has not stopped; None after a success.
            complete: Whether the savepoint exists all the same.
        """
        if reason is None:
            self._context.emit(do.AnswerSavepoint(request, None))
            return
        if request.path == self._stops_into and not complete:
            self._stops_into = None
        text = reason if isinstance(reason, str) else error_line(reason)
        if complete:
            self._context.emit(do.AnswerSavepoint(request, StopIncompleteError(request.path, text)))
        else:
            self._refuse(request, SavepointError(request.path, text))

    def _refuse(self, request: SavepointRequest, error: SavepointError) -> None:
        """Answer that there is no savepoint, and delete its files."""
        self._context.emit(do.AnswerSavepoint(request, error), do.DiscardSavepoint(request.path))

    def _refuse_checkpoint(self, request_id: int, reason: str) -> None:
        self._context.emit(do.AnswerCheckpoint(request_id, 0, CheckpointRequestError(reason)))

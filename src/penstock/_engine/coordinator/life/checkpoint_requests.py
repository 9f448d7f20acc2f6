"""Requests for a checkpoint: which epoch answers which of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.coordinator.instructions import AnswerCheckpoint
from penstock._engine.coordinator.phases import RUNNING, Phase
from penstock.errors import CheckpointRequestError

if TYPE_CHECKING:
    from penstock._engine.coordinator.context import CoordinatorContext


class PendingCheckpointRequests:
    """The requests that are not answered yet.

    A running epoch answers what is asked for before it has ended: its checkpoint covers that moment. Everything else is
    answered by the next epoch, which then begins without a pause.

    Args:
        context: The coordinator's context.
    """

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._waiting: list[int] = []
        #: Answered by the running epoch.
        self._covered: list[int] = []

    @property
    def waiting(self) -> bool:
        """Whether the next epoch is to begin at once."""
        return bool(self._waiting)

    def request(self, request_id: int) -> None:
        """Take up a request, or refuse it."""
        match self._context.phase:
            case Phase.EPOCH:
                self._covered.append(request_id)
            case Phase.SAVING | Phase.RESUMING | Phase.NOTIFYING | Phase.FINISHING | Phase.RELEASING:
                self._refuse(request_id, "the job is ending")
            case phase if phase in RUNNING:
                self._waiting.append(request_id)
            case _:
                self._refuse(request_id, f"the job is {self._context.status.name}")

    def begun(self) -> None:
        """Note that an epoch begins."""
        self._covered += self._waiting
        self._waiting.clear()

    def completed(self, checkpoint_id: int) -> None:
        """Answer what the epoch covers whose checkpoint has completed."""
        self._context.emit(*(AnswerCheckpoint(request_id, checkpoint_id) for request_id in self._covered))
        self._covered.clear()

    def give_up(self, reason: str) -> None:
        """Refuse all that is not answered: the job breaks off, or has ended."""
        unanswered = [*self._covered, *self._waiting]
        self._covered.clear()
        self._waiting.clear()
        for request_id in unanswered:
            self._refuse(request_id, reason)

    def _refuse(self, request_id: int, reason: str) -> None:
        self._context.emit(AnswerCheckpoint(request_id, 0, CheckpointRequestError(reason)))

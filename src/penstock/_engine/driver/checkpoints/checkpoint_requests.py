"""Requests for a checkpoint now: taken from any thread, answered by the loop."""

from __future__ import annotations

from concurrent.futures import Future
from itertools import count
from typing import TYPE_CHECKING

from penstock._engine.coordinator.events import CheckpointRequested
from penstock.errors import CheckpointRequestError

if TYPE_CHECKING:
    from penstock._engine.coordinator import instructions as do
    from penstock._engine.driver.mailbox import Mailbox


class CheckpointRequests:
    """The requests for a checkpoint now.

    Args:
        mailbox: Takes the requests.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._ids = count(1)
        self._futures: dict[int, Future[int]] = {}
        self._over: str | None = None

    def request(self) -> Future[int]:
        """Ask for a checkpoint, from any thread; the future has its id, or a CheckpointRequestError."""
        request_id, future = next(self._ids), Future[int]()
        self._futures[request_id] = future
        if self._over is None:
            self._mailbox.post(CheckpointRequested(request_id))
        if self._over is not None:  # it may have ended since
            self._fail(request_id, CheckpointRequestError(self._over))
        return future

    def answer(self, instruction: do.AnswerCheckpoint) -> None:
        """Answer the request."""
        if instruction.error is not None:
            self._fail(instruction.request_id, instruction.error)
        else:
            self._futures.pop(instruction.request_id).set_result(instruction.checkpoint_id)

    def end(self, status: str) -> None:
        """Refuse all that is left when the job has ended."""
        self._over = f"the job is {status}"
        for request_id in list(self._futures):
            self._fail(request_id, CheckpointRequestError(self._over))

    def _fail(self, request_id: int, error: Exception) -> None:
        future = self._futures.pop(request_id, None)
        if future is not None:
            future.set_exception(error)

"""Accepts requests for checkpoints, savepoints and stops from any thread; the main loop answers them."""

from __future__ import annotations

import secrets
import threading
from collections import deque
from concurrent.futures import Future
from itertools import count
from typing import TYPE_CHECKING

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.instructions import SavepointRequest
from penstock._engine.protocol.control import StopMode
from penstock._engine.storage.opening import absolute
from penstock.errors import CheckpointRequestError, CheckpointStorageError, SavepointError

if TYPE_CHECKING:
    from penstock._engine.coordinator import instructions as do
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.checkpoints.savepoint_files import SavepointFiles
    from penstock._engine.driver.mailbox import Mailbox


class ClientRequests:
    """The open requests to one job.

    Args:
        default: The directory of savepoints if a request names none; None if it is not configured.
        savepoints: Checks whether a directory is writable.
        mailbox: Passes the requests to the loop.
        background: Runs that check.
    """

    def __init__(
        self, default: str | None, savepoints: SavepointFiles, mailbox: Mailbox, background: BackgroundExecutor
    ) -> None:
        self.default = default
        self._savepoints = savepoints
        self._mailbox = mailbox
        self._background = background
        self._ids = count(1)
        self._checkpoints: dict[int, Future[int]] = {}
        self._asked: dict[int, tuple[SavepointRequest, Future[str]]] = {}
        self._lock = threading.RLock()
        #: Stops in the order of their requests, each until its directory is checked; and below the results of these
        #: checks: None for a writable directory.
        self._line: deque[SavepointRequest] = deque()
        self._looked_at: dict[int, Exception | None] = {}
        #: Successful stops, whose answers wait until the job's status shows the end.
        self._stopped: list[tuple[SavepointRequest, Future[str]]] = []
        self._over: str | None = None
        #: The savepoints that were made.
        self.made: list[str] = []

    # --------------------------------------------------------------------------------------------------- checkpoints

    def checkpoint(self) -> Future[int]:
        """Request a checkpoint, from any thread; the future has its id, or a CheckpointRequestError."""
        request_id, future = next(self._ids), Future[int]()
        self._checkpoints[request_id] = future
        if self._over is None:
            self._mailbox.post(ev.CheckpointRequested(request_id))
        if self._over is not None:  # the job may have ended meanwhile
            self._fail_checkpoint(request_id, CheckpointRequestError(self._over))
        return future

    def answer_checkpoint(self, instruction: do.AnswerCheckpoint) -> None:
        """Answer the request."""
        if instruction.error is not None:
            self._fail_checkpoint(instruction.request_id, instruction.error)
        else:
            self._checkpoints.pop(instruction.request_id).set_result(instruction.checkpoint_id)

    def _fail_checkpoint(self, request_id: int, error: Exception) -> None:
        future = self._checkpoints.pop(request_id, None)
        if future is not None:
            future.set_exception(error)

    # --------------------------------------------------------------------------------------------------- savepoints

    @property
    def stopping(self) -> tuple[str, Future[str]] | None:
        """The first unanswered stop: its savepoint's path, and its future."""
        asked = list(self._asked.values())
        return next(((request.path, future) for request, future in asked if request.stop is not StopMode.NO), None)

    def savepoint(
        self,
        job_id: str,
        directory: str | None,
        stop: StopMode,
        timeout_ms: int | None = None,
        no_links_below: str | None = None,
    ) -> Future[str]:
        """Request a savepoint, from any thread; the future has its path, or a SavepointError.

        Args:
            job_id: The job.
            directory: The parent of its directory; the default one if left out.
            stop: Whether and how the job stops with it.
            timeout_ms: Milliseconds after which a job that has not stopped is cancelled.
            no_links_below: No part of the directory behind this one may be a link; None lets all of them be.
        """
        future: Future[str] = Future()
        place = directory or self.default
        if place is None:
            reason = "no directory was named, and execution.checkpointing.savepoint-dir is not set"
            future.set_exception(SavepointError("of this job", reason))
            return future
        try:
            root = absolute(place)
        except CheckpointStorageError as error:
            future.set_exception(SavepointError(place, str(error)))
            return future
        path = f"{root.rstrip('/')}/savepoint-{job_id[:6]}-{secrets.token_hex(6)}"
        request = SavepointRequest(next(self._ids), path, stop, timeout_ms)
        self._asked[request.id] = request, future
        if self._over is not None:
            self._fail(request, self._over)
            return future
        if stop is not StopMode.NO:
            with self._lock:
                self._line.append(request)
        self._background.run(lambda: self._begin(request, no_links_below))
        return future

    def _begin(self, request: SavepointRequest, no_links_below: str | None) -> None:
        """Check that the directory is writable, before the job does anything for the request."""
        refusal: Exception | None = None
        try:
            self._savepoints.probe(request.path, no_links_below)
        except Exception as error:  # noqa: BLE001 - whatever the store raises, the job continues
            refusal = error
        with self._lock:
            self._looked_at[request.id] = refusal
            if request.stop is StopMode.NO:
                self._hand_in(request)
            while self._line and self._line[0].id in self._looked_at:  # the first of two stops wins
                self._hand_in(self._line.popleft())

    def _hand_in(self, request: SavepointRequest) -> None:
        refusal = self._looked_at.pop(request.id)
        if refusal is None and self._over is None:
            self._mailbox.post(ev.SavepointRequested(request))
        else:
            self._fail(request, self._over or str(refusal))
            self._background.run(lambda: self._savepoints.abandon(request.path))

    def answer_savepoint(self, instruction: do.AnswerSavepoint) -> None:
        """Answer the request."""
        request = instruction.request
        _, future = self._asked.pop(request.id)
        if instruction.error is not None:
            future.set_exception(instruction.error)
        elif request.stop is StopMode.NO:
            self._succeed(request.path, future)
        else:
            self._stopped.append((request, future))

    def end(self, status: str) -> str | None:
        """Answer all open requests after the end of the job; return the savepoint that it was stopped into."""
        made = [*self._stopped, *(one for one in self._asked.values() if one[0].path in self._savepoints.copied)]
        into = next((request.path for request, _ in made if request.stop is not StopMode.NO), None)
        self._over = f"the job is {status}" if into is None else f"the job is {status}, stopped into {into}"
        for request_id in list(self._checkpoints):
            self._fail_checkpoint(request_id, CheckpointRequestError(self._over))
        for request, future in made:
            self._asked.pop(request.id, None)
            self._succeed(request.path, future)
        for request, _ in list(self._asked.values()):
            self._fail(request, self._over)
            self._savepoints.abandon(request.path)
        return into

    def _succeed(self, path: str, future: Future[str]) -> None:
        self.made.append(path)
        future.set_result(path)

    def _fail(self, request: SavepointRequest, reason: str) -> None:
        _, future = self._asked.pop(request.id, (None, None))
        if future is not None:
            future.set_exception(SavepointError(request.path, reason))

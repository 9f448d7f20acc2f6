"""Savepoints of a job: requests for them from any thread, which the main loop answers, and the directories they fill.

Requests for checkpoints and stops are taken in the same way. Directories are filled and deleted in the background.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.instructions import SavepointRequest
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import handles_of
from penstock._engine.protocol.paths import METADATA, STAGED_METADATA
from penstock._engine.savepoints.holders import HoldingJob, note_waiting
from penstock._engine.state.files.integrity import check_intact
from penstock._engine.storage.checkpoint_storage import copy_files, document_of, entry_of, find_entry
from penstock._engine.storage.opening import above, absolute, open_storage
from penstock._engine.storage.temporary import TemporaryStorage
from penstock._files.disk import check_no_links, first_missing, remove_empty
from penstock.errors import CheckpointRequestError, CheckpointStorageError, PenstockError, SavepointError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.protocol.metadata import ChainEntry, JobSnapshot
    from penstock._engine.protocol.state_handle import StateHandle
    from penstock._engine.storage.checkpoint_storage import FileStorage


#: So many copies, each of them as a whole in memory, are checked at the same time.
_THREADS: Final = 2


class SavepointFiles:
    """Writes the savepoints of one job.

    Args:
        storage: The checkpoint directory.
        mailbox: Passes outcomes to the loop.
        background: Copies files.
    """

    def __init__(self, storage: FileStorage, mailbox: Mailbox, background: BackgroundExecutor) -> None:
        self._storage = storage
        self._mailbox = mailbox
        self._background = background
        self._lock = threading.Lock()
        #: The directories that are being written to, and below those of them that are discarded afterwards.
        self._writing: set[str] = set()
        self._unwanted: set[str] = set()
        #: The complete savepoints of a job that continues.
        self.copied: set[str] = set()
        #: By savepoint: the topmost directory that was made for it.
        self._new: dict[str, Path] = {}

    def probe(self, path: str, no_links_below: str | None = None) -> None:
        """Find out whether a directory can be made and written to.

        Args:
            path: The directory.
            no_links_below: No part of it behind this one may be a link; None lets all of them be.

        Raises:
            CheckpointStorageError: It is not.
        """
        if (top := first_missing(path)) is not None:
            self._new[path] = top
        if no_links_below is not None:
            check_no_links(path, no_links_below)
        open_storage(path, self._storage.options).probe()
        if no_links_below is not None:  # a link may have been made meanwhile
            check_no_links(path, no_links_below)

    def write(self, instruction: do.WriteSavepoint) -> None:
        """Fill a directory in the background."""
        self._in_background(instruction.path, lambda: self._fill(instruction))

    def complete(self, instruction: do.CompleteSavepoint) -> None:
        """Name the entry of a staged savepoint in the background."""
        self._in_background(instruction.path, lambda: self._complete(instruction))

    def discard(self, instruction: do.DiscardSavepoint) -> None:
        """Delete the files of a savepoint in the background."""
        self._background.run(lambda: self.abandon(instruction.path))

    def _in_background(self, path: str, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - whatever the store raises, the coordinator decides
                answer: ev.Event = ev.SavepointFailed(path, error)
            else:
                answer = ev.SavepointWritten(path)
            if self._has_ended_with(path):
                self._discard(path)
            self._mailbox.post(answer)

        with self._lock:
            self._writing.add(path)
        self._background.run(run)

    def _has_ended_with(self, path: str) -> bool:
        """Note the end of writing to a directory, and tell whether it is to be discarded."""
        with self._lock:
            self._writing.discard(path)
            is_unwanted = path in self._unwanted
            self._unwanted.discard(path)
        return is_unwanted

    def _fill(self, instruction: do.WriteSavepoint) -> None:
        target = open_storage(instruction.path, self._storage.options)
        self._copy(target, instruction)
        if instruction.is_staged:
            self._note_waiting(target, instruction)
            target.put(STAGED_METADATA, document_of(target, instruction.entry))
        else:
            self._put(target, instruction.entry)
            self.copied.add(instruction.path)

    def _complete(self, instruction: do.CompleteSavepoint) -> None:
        target, entry = open_storage(instruction.path, self._storage.options), instruction.entry
        try:
            staged = find_entry(target, STAGED_METADATA)
            if staged is not None and not _is_same_state(staged, entry):
                target.delete([STAGED_METADATA])
            target.move(STAGED_METADATA, METADATA)
            self._check_same(target, entry)
        except PenstockError:
            self._copy(target, instruction)
            self._note_waiting(target, instruction)
            self._put(target, entry)

    def _note_waiting(self, target: FileStorage, instruction: do.WriteSavepoint | do.CompleteSavepoint) -> None:
        """Note that the job waits for the savepoint that it stops into, unless its checkpoints go with its process."""
        if not isinstance(self._storage, TemporaryStorage):
            entry = instruction.entry
            job = HoldingJob(entry.job_id, entry.job_name, self._storage.full_path(""), instruction.path)
            note_waiting(target, job)

    def _copy(self, target: FileStorage, instruction: do.WriteSavepoint | do.CompleteSavepoint) -> None:
        """Copy the files of a savepoint, and compare the copies with what was written at first.

        Raises:
            CorruptCheckpointError: A file was damaged before, or on its way.
        """
        copy_files(self._storage, target, instruction.files)
        snapshot = instruction.entry.snapshot
        handles = {handle.path: handle for handle in handles_of(snapshot) if handle.path} if snapshot else {}
        with ThreadPoolExecutor(_THREADS) as threads:
            for _ in threads.map(partial(_check_copy, target), handles.values()):
                pass

    def _put(self, target: FileStorage, entry: ChainEntry) -> None:
        if not target.put_if_absent(METADATA, document_of(target, entry)):
            self._check_same(target, entry)

    @staticmethod
    def _check_same(target: FileStorage, entry: ChainEntry) -> None:
        """Accept the files of an earlier try; raise CheckpointStorageError for other files."""
        found = entry_of(target, METADATA, target.read(METADATA))
        if (found.job_id, found.checkpoint_id) != (entry.job_id, entry.checkpoint_id):
            raise CheckpointStorageError(
                target.url, f"there is a savepoint of checkpoint {found.checkpoint_id} already"
            )

    def _discard(self, path: str) -> None:
        root, name = above(path)
        with contextlib.suppress(PenstockError):  # the rest is no savepoint, and `penstock clean` finds it
            storage = open_storage(root or "/", self._storage.options)
            storage.delete(
                [f"{name}/{METADATA}"]
            )  # first: the store may have written it although it answered with an error
            storage.delete([file.path for file in storage.files(name)])
        if (top := self._new.pop(path, None)) is not None:
            remove_empty(top)

    def abandon(self, path: str) -> None:
        """Delete the files of a savepoint, once nothing writes to it any more."""
        with self._lock:
            if path in self._writing:
                self._unwanted.add(path)
                return
        self._discard(path)


def _is_same_state(found: ChainEntry, entry: ChainEntry) -> bool:
    """Tell whether a staged entry has the same state; commits may have been done since it was written."""
    return (found.job_id, found.checkpoint_id) == (entry.job_id, entry.checkpoint_id) and (
        found.snapshot is not None and entry.snapshot is not None and _state(found.snapshot) == _state(entry.snapshot)
    )


def _state(snapshot: JobSnapshot) -> JobSnapshot:
    """Return a state without commits and display names, which may differ between tries."""
    operators = {uid: replace(operator, name="") for uid, operator in snapshot.operators.items()}
    return replace(snapshot, operators=operators, outstanding=(), committed=())


def _check_copy(target: FileStorage, handle: StateHandle) -> None:
    path = handle.path
    assert path is not None
    check_intact(target.read_sized(path, handle.size), handle, target.full_path(path))


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

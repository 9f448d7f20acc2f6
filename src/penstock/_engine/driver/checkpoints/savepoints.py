"""Savepoints on the driver: takes requests from any thread, fills directories, and answers."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.instructions import SavepointRequest
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import decode_chain_entry, encode_chain_entry
from penstock._engine.protocol.paths import METADATA, STAGED_METADATA
from penstock._engine.storage.copying import copy_files
from penstock._engine.storage.opening import above, absolute, open_storage
from penstock.errors import CheckpointStorageError, PenstockError, SavepointError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.driver.background import BackgroundExecutor
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.protocol.metadata import ChainEntry, JobSnapshot
    from penstock._engine.storage.checkpoint_storage import CheckpointStorage


class SavepointService:
    """The savepoints of one job.

    Args:
        storage: The checkpoint directory.
        options: How object stores are reached.
        default: The directory of savepoints that are asked for without one; None where it is not configured.
        mailbox: Takes requests and outcomes.
        background: Copies files.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        options: dict[str, str],
        default: str | None,
        mailbox: Mailbox,
        background: BackgroundExecutor,
    ) -> None:
        self._storage = storage
        self._options = options
        self.default = default
        self._mailbox = mailbox
        self._background = background
        self._ids = count(1)
        self._asked: dict[int, tuple[SavepointRequest, Future[str]]] = {}
        self._lock = threading.RLock()
        #: Stops in the order in which they were asked for, each until its directory was looked at; then what came of
        #: that is there, too: None where it can be written to.
        self._line: deque[SavepointRequest] = deque()
        self._looked_at: dict[int, Exception | None] = {}
        #: The directories that are being written to, and those of them that are to be discarded after that.
        self._writing: set[str] = set()
        self._unwanted: set[str] = set()
        #: Those that are complete, of a job that goes on.
        self._copied: set[str] = set()
        #: Stops that succeeded: told when the job's status says so, too.
        self._stopped: list[Callable[[], None]] = []
        self._over: str | None = None

    @property
    def stopping(self) -> tuple[str, Future[str]] | None:
        """The stop that was asked for first and is not answered: its savepoint's path, and its future."""
        asked = list(self._asked.values())
        return next(((request.path, future) for request, future in asked if request.stop is not StopMode.NO), None)

    def request(self, job_id: str, directory: str | None, stop: StopMode, timeout_ms: int | None = None) -> Future[str]:
        """Ask for a savepoint, from any thread; the future has its path, or a SavepointError.

        Args:
            job_id: The job.
            directory: Where its directory is to be made; the default when left out.
            stop: Whether, and how, the job stops with it.
            timeout_ms: Milliseconds after which a job that has not stopped is cancelled.
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
        self._background.run(lambda: self._begin(request))
        return future

    def _begin(self, request: SavepointRequest) -> None:
        """Find out whether the directory can be written to, before the job does anything for it."""
        refusal: Exception | None = None
        try:
            open_storage(request.path, self._options).probe()
        except Exception as error:  # noqa: BLE001 - whatever the store raises, the job goes on
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
            self._background.run(lambda: self._discard(request.path))

    # ------------------------------------------------------------------------------------- what the coordinator wants

    def write(self, instruction: do.WriteSavepoint) -> None:
        """Fill a directory in the background."""
        self._in_background(instruction.path, lambda: self._fill(instruction))

    def complete(self, instruction: do.CompleteSavepoint) -> None:
        """Give the entry of a staged savepoint its name in the background."""
        self._in_background(instruction.path, lambda: self._complete(instruction))

    def discard(self, instruction: do.DiscardSavepoint) -> None:
        """Delete in the background what there is of a savepoint."""
        self._background.run(lambda: self._abandon(instruction.path))

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
        """Note that a directory is being written to no more, and tell whether it is to be discarded."""
        with self._lock:
            self._writing.discard(path)
            is_unwanted = path in self._unwanted
            self._unwanted.discard(path)
        return is_unwanted

    def _fill(self, instruction: do.WriteSavepoint) -> None:
        target = open_storage(instruction.path, self._options)
        copy_files(self._storage, target, instruction.files)
        if instruction.is_staged:
            target.put(STAGED_METADATA, encode_chain_entry(instruction.entry))
        else:
            self._put(target, instruction.entry)
            self._copied.add(instruction.path)

    def _complete(self, instruction: do.CompleteSavepoint) -> None:
        target, entry = open_storage(instruction.path, self._options), instruction.entry
        try:
            staged = target.find(STAGED_METADATA)
            if staged is not None and not _is_same_state(staged, entry):
                target.delete([STAGED_METADATA])
            target.move(STAGED_METADATA, METADATA)
            self._check_same(target, entry)
        except PenstockError:
            copy_files(self._storage, target, instruction.files)
            self._put(target, entry)

    def _put(self, target: CheckpointStorage, entry: ChainEntry) -> None:
        if not target.put_if_absent(METADATA, encode_chain_entry(entry)):
            self._check_same(target, entry)

    @staticmethod
    def _check_same(target: CheckpointStorage, entry: ChainEntry) -> None:
        """Accept what an earlier try has left; raises CheckpointStorageError where it is something else."""
        found = decode_chain_entry(target.read(METADATA), target.full_path(METADATA))
        if (found.job_id, found.checkpoint_id) != (entry.job_id, entry.checkpoint_id):
            raise CheckpointStorageError(
                target.url, f"there is a savepoint of checkpoint {found.checkpoint_id} already"
            )

    def _discard(self, path: str) -> None:
        root, name = above(path)
        with contextlib.suppress(
            PenstockError
        ):  # what cannot be deleted is no savepoint, and `penstock clean` finds it
            storage = open_storage(root or "/", self._options)
            storage.delete([f"{name}/{METADATA}"])  # first: it may have been written although the store said no
            storage.delete([file.path for file in storage.files(name)])

    # ------------------------------------------------------------------------------------------------------- answers

    def answer(self, instruction: do.AnswerSavepoint) -> None:
        """Answer the request."""
        request = instruction.request
        _, future = self._asked.pop(request.id)
        if instruction.error is not None:
            future.set_exception(instruction.error)
        elif request.stop is StopMode.NO:
            future.set_result(request.path)
        else:
            self._stopped.append(lambda: future.set_result(request.path))

    def end(self, status: str) -> None:
        """Answer all that is left when the job has ended."""
        self._over = f"the job is {status}"
        for tell in self._stopped:
            tell()
        for request, future in list(self._asked.values()):
            if request.path in self._copied:
                self._asked.pop(request.id)
                future.set_result(request.path)
            else:
                self._fail(request, self._over)
                self._abandon(request.path)

    def _abandon(self, path: str) -> None:
        with self._lock:
            if path in self._writing:
                self._unwanted.add(path)
                return
        self._discard(path)

    def _fail(self, request: SavepointRequest, reason: str) -> None:
        _, future = self._asked.pop(request.id, (None, None))
        if future is not None:
            future.set_exception(SavepointError(request.path, reason))


def _is_same_state(staged: bytes, entry: ChainEntry) -> bool:
    """Tell whether a staged entry holds what one is to hold; commits may have been done since it was written."""
    found = decode_chain_entry(staged, STAGED_METADATA)
    return (found.job_id, found.checkpoint_id) == (entry.job_id, entry.checkpoint_id) and (
        found.snapshot is not None and entry.snapshot is not None and _state(found.snapshot) == _state(entry.snapshot)
    )


def _state(snapshot: JobSnapshot) -> JobSnapshot:
    """Return a state without what may differ from one try to the next: outstanding commits, and names for people."""
    operators = {uid: replace(operator, name="") for uid, operator in snapshot.operators.items()}
    return replace(snapshot, operators=operators, outstanding=())

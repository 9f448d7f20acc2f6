"""Savepoints on the driver: takes requests from any thread, fills directories, and answers."""

from __future__ import annotations

import contextlib
import secrets
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator.instructions import SavepointRequest
from penstock._engine.protocol.control import Stop
from penstock._engine.protocol.metadata import decode_record, encode_record
from penstock._engine.protocol.paths import METADATA
from penstock._engine.storage.copying import copy_files
from penstock._engine.storage.opening import local_path, open_storage
from penstock.errors import CheckpointStorageError, SavepointError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.driver.background import Background
    from penstock._engine.driver.mailbox import Mailbox
    from penstock._engine.storage.checkpoint_storage import CheckpointStorage


class Savepoints:
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
        background: Background,
    ) -> None:
        self._storage = storage
        self._options = options
        self.default = default
        self._mailbox = mailbox
        self._background = background
        self._ids = count(1)
        self._futures: dict[int, Future[str]] = {}
        #: Stops that succeeded: told when the job's status says so, too.
        self._stopped: list[Callable[[], None]] = []
        self._over: str | None = None

    def request(self, job_id: str, directory: str | None, stop: Stop, timeout_ms: int | None = None) -> Future[str]:
        """Ask for a savepoint, from any thread; the future has its path, or a SavepointError.

        Args:
            job_id: The job.
            directory: Where its directory is to be made; the default when left out.
            stop: Whether, and how, the job stops with it.
            timeout_ms: Milliseconds after which a job that has not stopped is cancelled.
        """
        future: Future[str] = Future()
        above = directory or self.default
        if above is None:
            reason = "no directory was named, and execution.checkpointing.savepoint-dir is not set"
            future.set_exception(SavepointError("of this job", reason))
            return future
        try:
            above = local_path(above)
        except CheckpointStorageError as error:
            future.set_exception(SavepointError(above, str(error)))
            return future
        root = above if "://" in above else str(Path(above).absolute())
        path = f"{root.rstrip('/')}/savepoint-{job_id[:6]}-{secrets.token_hex(6)}"
        request = SavepointRequest(next(self._ids), path, stop, timeout_ms)
        self._futures[request.id] = future
        if self._over is not None:
            self._fail(request, self._over)
        else:
            self._background.run(lambda: self._begin(request))
        return future

    def _begin(self, request: SavepointRequest) -> None:
        """Find out whether the directory can be written to, before the job does anything for it."""
        try:
            open_storage(request.path, self._options).probe()
        except Exception as error:  # noqa: BLE001 - whatever the store raises, the job goes on
            self._fail(request, str(error))
        else:
            self._mailbox.post(ev.SavepointRequested(request))

    def write(self, instruction: do.WriteSavepoint) -> None:
        """Fill a directory in the background."""
        self._background.run(lambda: self._mailbox.post(self._write(instruction)))

    def _write(self, instruction: do.WriteSavepoint) -> ev.Event:
        try:
            self._fill(open_storage(instruction.path, self._options), instruction)
        except Exception as error:  # noqa: BLE001 - whatever the store raises, the coordinator decides
            return ev.SavepointFailed(instruction.path, error)
        return ev.SavepointWritten(instruction.path)

    def _fill(self, target: CheckpointStorage, instruction: do.WriteSavepoint) -> None:
        try:
            copy_files(self._storage, target, instruction.files)
            if instruction.record is not None and not target.put_if_absent(METADATA, encode_record(instruction.record)):
                self._check_same(target, instruction.record.job_id, instruction.record.checkpoint_id)
        except Exception:
            _take_back(target, instruction)
            raise

    @staticmethod
    def _check_same(target: CheckpointStorage, job_id: str, checkpoint_id: int) -> None:
        """Accept what an earlier try of the same stop left."""
        found = decode_record(target.read(METADATA), target.full_path(METADATA))
        if (found.job_id, found.checkpoint_id) != (job_id, checkpoint_id):
            raise CheckpointStorageError(
                target.url, f"there is a savepoint of checkpoint {found.checkpoint_id} already"
            )

    def answer(self, instruction: do.AnswerSavepoint) -> None:
        """Tell whoever asked."""
        request, future = instruction.request, self._futures.pop(instruction.request.id)
        if instruction.error is not None:
            future.set_exception(instruction.error)
        elif request.stop is Stop.NO:
            future.set_result(request.path)
        else:
            self._stopped.append(lambda: future.set_result(request.path))

    def end(self, status: str) -> None:
        """Answer all that is left when the job has ended."""
        self._over = f"the job is {status}"
        for tell in self._stopped:
            tell()
        for id_ in list(self._futures):
            self._fail(SavepointRequest(id_, "of this job", Stop.NO), self._over)

    def _fail(self, request: SavepointRequest, reason: str) -> None:
        future = self._futures.pop(request.id, None)
        if future is not None:
            future.set_exception(SavepointError(request.path, reason))


def _take_back(target: CheckpointStorage, instruction: do.WriteSavepoint) -> None:
    """Delete what was copied for a savepoint that will not be, so that a full disk is not left fuller."""
    if not instruction.files:  # the record of a stop is missing: what was copied for it before is still needed
        return
    with contextlib.suppress(Exception):  # the first error is the one to tell
        target.delete([METADATA])  # first: it may have been written although the store said no
        target.delete(name for _, name in instruction.files)

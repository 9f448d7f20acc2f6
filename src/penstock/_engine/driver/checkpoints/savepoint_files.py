"""Fills the directories of savepoints in the background, and deletes those of abandoned savepoints."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import events as ev
from penstock._engine.protocol.metadata import handles_of
from penstock._engine.protocol.paths import METADATA, STAGED_METADATA
from penstock._engine.savepoints.waiting import StoppedJob, note_waiting
from penstock._engine.state.files.integrity import check_intact
from penstock._engine.storage.checkpoint_storage import document_of, entry_of, find_entry
from penstock._engine.storage.copying import copy_files
from penstock._engine.storage.new_directory import check_no_links, first_missing, remove_empty
from penstock._engine.storage.opening import above, open_storage
from penstock._engine.storage.temporary import TemporaryStorage
from penstock.errors import CheckpointStorageError, PenstockError

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
            job = StoppedJob(entry.job_id, entry.job_name, self._storage.full_path(""), instruction.path)
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

"""Reads and deletes what the writers of one sink have staged in the checkpoint storage."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.paths import checkpoint_of_staged, staged_directory, staged_prefix
from penstock._engine.storage.opening import open_storage
from penstock.common.redaction import hiding
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.storage.checkpoint_storage import FileStorage

_log = hiding(logging.getLogger(__name__))

#: The names of a staged file's path below the checkpoint directory: job, "staged", file.
_DEPTH: Final = 3


class StagedFiles:
    """The staged files of one sink, as the committer's context and the engine use them.

    Args:
        storage: The checkpoint storage of the job.
        job_id: The job.
        uid: The sink.
        runs: The runs that the job consists of; files of others are read, and never deleted.
    """

    def __init__(self, storage: FileStorage, job_id: str, uid: str, runs: Iterable[str]) -> None:
        self._storage = storage
        self._directory = staged_directory(job_id)
        self._own = tuple(staged_prefix(job_id, run, uid) for run in runs)
        self._read: list[str] = []
        self._swept = False

    def read(self, name: str) -> bytes | None:
        """Return a file, first by its place below this job's checkpoint directory, which may have been moved."""
        inner = "/".join(name.split("/")[-_DEPTH:])
        data = self._storage.find(inner)
        if data is not None:
            self._read.append(inner)
            return data
        root = name.removesuffix(inner).rstrip("/")
        if not root or root == self._storage.full_path("").rstrip("/"):
            return None
        return open_storage(root, self._storage.options).find(inner)

    def delete_read(self) -> None:
        """Delete the files that were read since the last call; the commit that needed them is done."""
        files, self._read = self._read, []
        self._delete(file for file in files if file.startswith(self._own))

    def forget_read(self) -> None:
        """Keep the files that were read since the last call: their commit failed, or is tried again."""
        self._read = []

    def sweep_once(self, checkpoint_id: int) -> None:
        """Delete what void attempts have staged up to a committed checkpoint; done once, as it lists a directory."""
        if not self._swept:
            self._swept = True
            self.sweep(checkpoint_id)

    def sweep(self, checkpoint_id: int) -> None:
        """Delete all that was staged up to a committed checkpoint."""
        try:
            files = [f"{self._directory}/{name}" for name in self._storage.names(self._directory)]
        except CheckpointStorageError as error:
            _log.warning("Staged files of failed attempts stay: %s", error)
            return
        self._delete(
            file for file in files if file.startswith(self._own) and checkpoint_of_staged(file) <= checkpoint_id
        )

    def _delete(self, files: Iterable[str]) -> None:
        found = list(files)
        if not found:
            return
        try:
            self._storage.delete(found)
        except CheckpointStorageError as error:
            _log.warning("Staged files that were committed stay: %s", error)

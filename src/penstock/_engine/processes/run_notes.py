"""The notes of running jobs in a directory of archives: what stays of one there is a run whose driver did not end.

A driver writes the note of its run once the job has its id, and removes it after the archive of the run. A note names
the process, so that a reader on the same machine knows whether that lives, and the checkpoint directory, whose chain
entries tell how far the run came.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

import msgspec

from penstock._engine.processes.registry import is_alive
from penstock._engine.protocol.decoders import json_decoder
from penstock._engine.storage.executor_directory import process_name
from penstock.common.user_values import encoded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.storage.checkpoint_storage import FileStorage

_DIRECTORY: Final = ".running"


class RunNote(msgspec.Struct, frozen=True):
    """A run of a job, while it goes on."""

    job_id: str
    run_id: str
    name: str
    #: STREAMING or BATCH.
    job_type: str
    #: In epoch milliseconds.
    started_ms: int
    host: str
    pid: int
    #: The process among all that have had its id; None where the system does not tell.
    process: str | None
    #: The directory of its checkpoints; None if that is temporary.
    checkpoints: str | None

    @staticmethod
    def of_this_process(job: JobView, checkpoints: str | None) -> RunNote:
        """Return the note of a run in this process."""
        pid, started_ms = os.getpid(), job.started.now_ms
        place = socket.gethostname(), pid, process_name(pid)
        return RunNote(job.job_id, job.run_id, job.name, job.plan.job_type, started_ms, *place, checkpoints)

    @property
    def is_local(self) -> bool:
        """Whether its driver was on this machine."""
        return self.host == socket.gethostname()

    @property
    def lives(self) -> bool:
        """Whether its process lives, whoever's it is; of another machine that is not known."""
        return is_alive(self.pid) if self.process is None else process_name(self.pid) == self.process

    @property
    def _path(self) -> str:
        return f"{_DIRECTORY}/{self.job_id}-{self.run_id}.json"

    def write(self, storage: FileStorage) -> None:
        """Write it; raises CheckpointStorageError."""
        storage.put(self._path, msgspec.json.format(encoded(self, msgspec.json.encode)))

    def remove(self, storage: FileStorage) -> None:
        """Remove it; raises CheckpointStorageError."""
        storage.delete([self._path])


def run_notes(storage: FileStorage) -> Iterator[RunNote]:
    """Iterate the notes in a directory of archives; raises CheckpointStorageError."""
    for name in storage.names(_DIRECTORY):
        data = storage.find(f"{_DIRECTORY}/{name}") if name.endswith(".json") else None
        if data is None:
            continue  # removed meanwhile
        try:
            yield json_decoder(RunNote).decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue  # not a note

"""The note of a supervised program's jobs, through which each of its processes learns of jobs of earlier processes.

`penstock run --supervise` makes the note before the first process starts. So a process that finds no note knows that it
was lost, and does not start a job fresh by mistake. From the note, commands also know the jobs that are between two
processes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import stat
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import msgspec

from penstock._engine.processes.registry import is_alive, open_itself
from penstock._engine.processes.user_directories import make_private, user_state_directory
from penstock._engine.protocol.decoders import json_decoder
from penstock._engine.storage.ownership import why_not_own
from penstock._engine.storage.scratch import DirectoryLock, is_dead, remove_dead, remove_tree
from penstock.common.user_values import encoded
from penstock.errors import LocalDirectoryError, SupervisionNoteError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

#: A process sends this signal to its supervisor after a stop that has failed; no disk has to have room for that.
STOP_FAILED: Final[int] = getattr(signal, "SIGUSR1", signal.SIGTERM)

_FILE: Final = "jobs.json"


class NotedJob(msgspec.Struct, frozen=True):
    """A job that a process of the program has begun."""

    job_name: str
    job_id: str
    #: The process.
    pid: int
    #: Whether it has checkpoints that outlive its process.
    is_kept: bool = True
    #: Whether it has ended.
    has_ended: bool = False
    #: The last checkpoint that it is known to have completed.
    checkpoint_id: int = 0


class _Note(msgspec.Struct, frozen=True):
    """The content of the file: its owner, and the jobs by their places in the program, from 1."""

    supervision: str
    supervisor: int
    host: str
    jobs: dict[int, NotedJob]


class SupervisionNote:
    """The note of one supervision.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[int, NotedJob]:
        """Return the jobs by their places.

        Raises:
            SupervisionNoteError: The file is missing, damaged, or another user's.
        """
        return self._read().jobs

    def write(self, jobs: Mapping[int, NotedJob]) -> None:
        """Replace the jobs; the file is replaced in one step.

        Raises:
            SupervisionNoteError: The file can no longer be read, or cannot be written.
        """
        self._write(msgspec.structs.replace(self._read(), jobs=dict(jobs)))

    def tell_failed_stop(self) -> bool:
        """Tell the supervisor that the program runs on after a signal; return whether there is one.

        Raises:
            SupervisionNoteError: The file cannot be read.
        """
        supervisor = self._read().supervisor
        if os.getppid() != supervisor:  # it was killed, and its number may be another process's
            return False
        os.kill(supervisor, STOP_FAILED)
        return True

    def create(self) -> None:
        """Create the note, owned by this process."""
        self._write(_Note(self.path.parent.name, os.getpid(), socket.gethostname(), {}))

    def _read(self) -> _Note:
        try:
            with open(self.path, "rb", opener=open_itself) as file:  # closes the descriptor also if it is a directory
                status, data = os.fstat(file.fileno()), file.read()
        except FileNotFoundError:
            raise SupervisionNoteError(str(self.path), "it is gone") from None
        except OSError as error:
            raise SupervisionNoteError(str(self.path), f"it cannot be read ({error.strerror})") from error
        if sys.platform != "win32" and status.st_uid != os.geteuid():
            raise SupervisionNoteError(str(self.path), f"it belongs to user {status.st_uid}, not to {os.geteuid()}")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise SupervisionNoteError(str(self.path), "others can write to it")
        try:
            note = json_decoder(_Note).decode(data)
        except msgspec.DecodeError:
            reason = "it is cut short or altered" if data else "it is empty"
            raise SupervisionNoteError(str(self.path), reason) from None
        if note.supervision != self.path.parent.name:
            raise SupervisionNoteError(str(self.path), "it is the note of another program")
        return note

    def _write(self, note: _Note) -> None:
        draft = self.path.with_suffix(".draft")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                # Not synced: it has to outlive processes, and not the machine.
                file.write(msgspec.json.format(encoded(note, msgspec.json.encode)))
            draft.replace(self.path)
        except OSError as error:
            raise SupervisionNoteError(str(self.path), f"it cannot be written ({error.strerror})") from error


class Supervision:
    """The directory of one supervision, locked while the supervisor or a process that it started lives.

    Raises:
        LocalDirectoryError: It cannot be made.
    """

    def __init__(self) -> None:
        parent = _directory()
        try:
            make_private(parent)
            for other in parent.iterdir():
                if why_not_own(other) is None and is_dead(other):
                    remove_dead(other)
            self._path = parent / secrets.token_hex(8)
            self._path.mkdir(mode=0o700)
            self._lock = DirectoryLock(self._path)
            self.note = SupervisionNote(self._path / _FILE)
            self.note.create()
            self.note.read()  # checks that the directory can be locked and written
        except (OSError, SupervisionNoteError) as error:
            raise LocalDirectoryError(str(parent), f"{error}; XDG_STATE_HOME can name another one") from error

    @property
    def lock(self) -> int:
        """The descriptor that a process of the program inherits, so that it holds the directory, too."""
        return self._lock.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.close()
        remove_tree(self._path)


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job without a process, of a program that its supervisor starts again."""

    job_id: str
    job_name: str
    #: The process of the supervisor.
    supervisor: int


def waiting_jobs() -> list[WaitingJob]:
    """Return the jobs of this user on this machine that are between two processes of their programs."""
    found = (
        WaitingJob(job.job_id, job.job_name, note.supervisor)
        for note in _notes()
        for job in note.jobs.values()
        if not job.has_ended and not is_alive(job.pid)
    )
    return sorted(found, key=lambda job: (job.job_name, job.job_id))


def is_supervising(supervisor: int) -> bool:
    """Tell whether a process of this user on this machine is a running supervisor."""
    return any(note.supervisor == supervisor for note in _notes())


def _notes() -> Iterator[_Note]:
    """Iterate the notes of running supervisors on this machine."""
    for path in _directory().glob(f"*/{_FILE}"):
        with contextlib.suppress(SupervisionNoteError, OSError):
            note = SupervisionNote(path)._read()
            if note.host == socket.gethostname() and is_alive(note.supervisor) and not is_dead(path.parent):
                yield note


def _directory() -> Path:
    return user_state_directory() / "supervised"

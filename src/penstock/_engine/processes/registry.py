"""The running jobs of this user: one small file for each run, with the address of its REST server.

Two runs may have one job id at the same time, where users set it or have copied a directory of checkpoints.

A driver writes the file of its job once the job has its id, removes it at the job's end, and holds it locked meanwhile.
Before that, a job that starts has a file with another suffix: its server does not answer yet, and it has no id.
So a file that is not held belongs to a process that was killed; the next reader removes it. Directory and files are
the user's alone, because an entry may hold the token that opens the job's address.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import stat
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from penstock._engine.processes.user_directories import make_private, user_state_directory
from penstock._engine.protocol.decoders import json_decoder
from penstock.common.user_values import encoded

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = logging.getLogger(__name__)

#: Sets `penstock.rest.registry-dir` in the environment.
_VARIABLE = "PENSTOCK_REST__REGISTRY_DIR"
#: The suffix of jobs with an id, and of those that start.
_JOB, _STARTING = ".json", ".starting"
#: The maximum size of an entry; its longest part is a certificate of some thousand characters.
_LARGEST = 1 << 20


class RegistryEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The address of a job, and the credentials for it."""

    job_id: str
    name: str
    #: The REST server, such as http://127.0.0.1:8081.
    address: str
    pid: int
    host: str
    #: In epoch milliseconds.
    started_ms: int
    #: The server's bearer token; None without one.
    token: str | None = None
    #: The run of the job.
    run_id: str = ""
    #: The server's own certificate, as PEM; None where it speaks plain HTTP.
    certificate: str | None = None
    #: The files of a client's certificate and its key, where the server requires one.
    client_files: tuple[str, str | None] | None = None

    @staticmethod
    def of_this_process(
        job_id: str,
        name: str,
        address: str,
        started_ms: int,
        token: str | None = None,
        *,
        run_id: str = "",
        certificate: str | None = None,
        client_files: tuple[str, str | None] | None = None,
    ) -> RegistryEntry:
        """Return the entry of a job that runs in this process."""
        place = os.getpid(), socket.gethostname()
        return RegistryEntry(job_id, name, address, *place, started_ms, token, run_id, certificate, client_files)

    @property
    def is_local(self) -> bool:
        """Whether the job runs on this machine."""
        return self.host == socket.gethostname()


class JobRegistry:
    """The directory with the entries.

    Args:
        directory: Where it is; made when the first entry is written.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        #: By path: the entries of this process with their files, open and locked.
        self._own: dict[Path, tuple[RegistryEntry, IO[bytes]]] = {}
        self._has_warned = False

    def add(self, entry: RegistryEntry) -> None:
        """Write an entry of this process; if that fails, the job can still be reached by its address and token.

        The entry becomes visible when it is complete and locked.
        """
        path = self._path(entry)
        draft = path.with_name(f"{path.name}.new")
        try:
            make_private(self._directory)
            draft.unlink(missing_ok=True)  # an existing file of another user would keep its owner
            file = os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b")
            file.write(msgspec.json.format(encoded(entry, msgspec.json.encode)))
            file.flush()
            _lock(file)
            draft.replace(path)
            self._own[path] = entry, file
        except OSError as error:
            if not self._has_warned:
                _log.warning(
                    "Job %r cannot be listed in %s (%s): penstock's commands find it by --address and --token alone",
                    *(entry.name, self._directory, error.strerror),
                )
            self._has_warned = True

    def restore(self) -> None:
        """Write entries of running jobs again that were removed."""
        for path, (entry, file) in list(self._own.items()):
            if not path.exists() and entry.pid == os.getpid():
                file.close()
                self.add(entry)

    def remove(self, entry: RegistryEntry) -> None:
        """Remove an entry of this process, if it is there."""
        if self._path(entry) in self._own:
            self._forget(self._path(entry))

    def clear(self) -> None:
        """Remove all entries of this process."""
        for path in list(self._own):
            self._forget(path)

    def _path(self, entry: RegistryEntry) -> Path:
        suffix = _JOB if entry.job_id else _STARTING
        return self._directory / "-".join((entry.job_id, str(entry.pid), f"{entry.run_id}{suffix}"))

    def _forget(self, path: Path) -> None:
        entry, file = self._own.pop(path)
        with file, contextlib.suppress(OSError):
            if entry.pid == os.getpid():  # else an entry of the process that forked this one
                path.unlink(missing_ok=True)

    def entries(self) -> list[RegistryEntry]:
        """Return the entries of live processes, oldest first, and delete the others.

        A process on another machine, with which this one shares the directory, counts as alive.
        """
        return sorted(self._alive(_JOB), key=lambda entry: (entry.started_ms, entry.job_id))

    def starting(self) -> list[RegistryEntry]:
        """Return the entries of jobs that have no id yet, oldest first; deletes those of dead processes."""
        return sorted(self._alive(_STARTING), key=lambda entry: (entry.started_ms, entry.name))

    def _alive(self, suffix: str) -> Iterator[RegistryEntry]:
        for path in self._directory.glob(f"*{suffix}"):
            try:
                entry = json_decoder(RegistryEntry).decode(_own_bytes(path))
            except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
                continue  # removed meanwhile, or not an entry
            if not entry.is_local or (_is_held(path) and is_alive(entry.pid)):
                yield entry
                continue
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def default_directory() -> Path:
    """Return the directory of this user's entries: ``penstock/jobs`` below the directory for a user's state.

    ``PENSTOCK_REST__REGISTRY_DIR`` names another one: it is `penstock.rest.registry-dir` in the environment.
    """
    given = os.environ.get(_VARIABLE)
    return Path(given) if given else user_state_directory() / "jobs"


def open_itself(path: str, flags: int) -> int:
    """Open a file without following a link, and without waiting for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _own_bytes(path: Path) -> bytes:
    """Return the content of a file of this user; a file of another user could make us send tokens to that user.

    Raises:
        OSError: Others can write it, it is a link, or it cannot be read.
    """
    with open(path, "rb", opener=open_itself) as file:  # closes the descriptor also if it is a directory
        status = os.fstat(file.fileno())
        if sys.platform != "win32" and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
            raise PermissionError(errno.EPERM, "it is not this user's alone", str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.ENXIO, "it is a device or a pipe", str(path))
        return file.read(_LARGEST)


def _lock(file: IO[bytes]) -> None:
    """Lock a file while it is open."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_held(path: Path) -> bool:
    """Tell whether a living process holds a file; a process id that was used again is not mistaken for it."""
    if sys.platform == "win32":
        return True  # this system has no such locks
    import fcntl

    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return path.exists()  # a disk without locks, or an entry that was removed meanwhile
    return False


def is_stopped(pid: int) -> bool:
    """Tell whether a process was stopped by a signal, so that it answers nothing; False where the system cannot say."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return status.rpartition(") ")[2][:1] in {"T", "t"}


def is_alive(pid: int) -> bool:
    """Tell whether there is a process; one that it forked may hold its lock after its end."""
    if sys.platform == "win32":
        return True  # on Windows os.kill would end the process
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # the number belongs to another user's process now
        return False
    return True

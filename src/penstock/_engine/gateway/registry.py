"""The running jobs of this user on this machine: one file for each, written by the job's driver, read by the command.

A driver registers its job once the job has an address, and keeps the file locked for as long as it lives. So a file
that nobody holds belongs to a process that was killed; whoever reads it removes it. The directory and the files are
the user's alone, because an entry may hold the token that opens the job's address.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from penstock.errors import LocalDirectoryError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUFFIX = ".json"


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """Where a running job can be asked and steered."""

    job_id: str
    job_name: str
    #: Where its REST server listens, such as ``http://127.0.0.1:8081``.
    address: str
    #: The driver's process, and the machine that it runs on.
    pid: int = msgspec.field(default_factory=os.getpid)
    host: str = msgspec.field(default_factory=socket.gethostname)
    started_ms: int = 0
    #: What the server wants to be shown; None where it wants nothing.
    token: str | None = None


class Registration:
    """A job's entry; it ends with the process at the latest.

    Args:
        path: The file.
        lock: The open file, which is locked.
    """

    def __init__(self, path: Path, lock: IO[bytes]) -> None:
        self.path = path
        self._lock = lock

    def unregister(self) -> None:
        """Remove the entry; doing it twice does no harm."""
        if not self._lock.closed:
            self.path.unlink(missing_ok=True)
            self._lock.close()


def registry_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the entries stand: ``penstock/jobs`` in ``XDG_STATE_HOME``, by default ``~/.local/state``."""
    state = environ.get("XDG_STATE_HOME")
    home = Path(environ.get("HOME") or "~").expanduser()
    return (Path(state) if state else home / ".local" / "state") / "penstock" / "jobs"


def register(job: RunningJob, directory: Path | None = None) -> Registration:
    """Make a running job known; the entry is whole and locked as soon as it can be seen.

    Args:
        job: The job.
        directory: Where entries stand; the user's own directory when left out.

    Raises:
        LocalDirectoryError: The entry cannot be written. The job can run without.
    """
    place = registry_directory() if directory is None else directory
    path = place / f"{job.job_id}-{job.pid}{_SUFFIX}"
    draft = path.with_suffix(".draft")
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "r+b")
        lock.write(msgspec.json.format(msgspec.json.encode(job)))
        lock.flush()
        _hold(lock)
        draft.replace(path)
    except OSError as error:
        raise LocalDirectoryError(str(place), error.strerror or str(error)) from error
    return Registration(path, lock)


def running_jobs(directory: Path | None = None) -> list[RunningJob]:
    """Return the jobs that run on this machine, oldest first.

    Args:
        directory: Where entries stand; the user's own directory when left out.
    """
    place = registry_directory() if directory is None else directory
    here = socket.gethostname()
    jobs: list[RunningJob] = []
    for path in place.glob(f"*{_SUFFIX}"):
        job = _read(path)
        if job is not None and job.host == here and _is_held(path, job.pid):
            jobs.append(job)
    return sorted(jobs, key=lambda job: (job.started_ms, job.job_id))


def _read(path: Path) -> RunningJob | None:
    """Return an entry; None for one that is gone or not made by this version."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunningJob)
    except (OSError, msgspec.DecodeError):
        return None


def _is_held(path: Path, pid: int) -> bool:
    """Tell whether the process behind an entry of this machine lives; remove the entry of one that does not."""
    if sys.platform == "win32":
        return True  # without flock nobody can tell a dead owner from a living one
    import fcntl

    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _is_alive(pid)  # a process that it forked may hold the lock after its end
            path.unlink(missing_ok=True)
    except OSError:
        return False
    return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _hold(file: IO[bytes]) -> None:
    """Lock a file for as long as it is open."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

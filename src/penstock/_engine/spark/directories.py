"""Private directories of this user on the local disk for a Spark session.

Called by the session and the Java finder. One process holds each run directory by a lock, so what a killed process
left behind is known and removed by the next one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import sys
import tempfile
import uuid
from pathlib import Path

from penstock._engine.storage.ownership import user_path, why_exposed, why_not_own
from penstock._engine.storage.scratch import DirectoryLock, ScratchDirectory, is_dead, remove_dead, remove_tree
from penstock.errors import LocalDirectoryError

#: With less free space Spark fails in the middle of a shuffle with an error that does not name the disk.
MIN_FREE_BYTES = 256 << 20

#: The longest path of a Unix domain socket with its end: 104 bytes on macOS, 108 on Linux.
_SOCKET_PATH_BYTES = 104

#: A directory with a short path, for systems whose temporary directory has a long path, such as macOS.
_SHORT_BASE = Path("/tmp")  # noqa: S108 - what is made there is this user's alone

_LOGS_KEPT = 10
_RUN_PREFIX = "spark-"


def private_directory(path: Path) -> Path:
    """Create ``path`` where it is missing, and check that only this user can write to it.

    Raises:
        LocalDirectoryError: It cannot be created, or it belongs to another user, who could have created it first in a
            shared temporary directory, or could exchange it there.
    """
    try:
        reason = why_exposed(path.parent)
        if reason is not None:
            raise LocalDirectoryError(str(path), reason)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise LocalDirectoryError(str(path), error.strerror or str(error)) from error
    if not stat.S_ISDIR(status.st_mode):
        raise LocalDirectoryError(str(path), "it is a link or a file, not a directory")
    if sys.platform != "win32":
        if status.st_uid != os.geteuid():
            raise LocalDirectoryError(str(path), f"it belongs to user {status.st_uid}, not to user {os.geteuid()}")
        if status.st_mode & 0o077:
            path.chmod(0o700)
    return path


def user_directory(base: Path | None = None) -> Path:
    """Return the directory of this user below ``base``, by default below the temporary directory."""
    return private_directory(user_path(base))


def require_free_space(path: Path, needed: int = MIN_FREE_BYTES) -> None:
    """Check that the disk of ``path`` has ``needed`` free bytes.

    Raises:
        LocalDirectoryError: It has less, or its free space is unknown.
    """
    try:
        free = shutil.disk_usage(path).free
    except OSError as error:
        raise LocalDirectoryError(str(path), error.strerror or str(error)) from error
    if free < needed:
        raise LocalDirectoryError(str(path), f"its disk has {free >> 20} MiB free, Spark needs {needed >> 20} MiB")


class RunDirectory:
    """The directory of one JVM, with its shuffle files and settings; deleted at the end of the process.

    Args:
        base: The parent directory; None for the temporary directory.

    Raises:
        LocalDirectoryError: It cannot be created, or its disk is full.
    """

    def __init__(self, base: Path | None = None) -> None:
        parent = user_directory(base)
        _sweep(parent)
        require_free_space(parent)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=_RUN_PREFIX, dir=parent))
            self._lock = DirectoryLock(self.path)
            self.log_file = _new_log_file(private_directory(parent / "logs"), self.path.name)
        except OSError as error:
            raise LocalDirectoryError(str(parent), error.strerror or str(error)) from error

        self._socket_directory: ScratchDirectory | None = None

    def socket_directory(self) -> Path | None:
        """Return a directory for Unix domain sockets; None where none can be used.

        It is the run directory if that has a short path, else a directory of its own in the temporary directory.
        """
        if takes_sockets(self.path):
            return self.path
        for base in (None, _SHORT_BASE):
            with contextlib.suppress(LocalDirectoryError):
                parent = user_directory(base)
                _sweep(parent)
                directory = ScratchDirectory(_RUN_PREFIX, parent)
                if takes_sockets(directory.path):
                    self._socket_directory = directory
                    return directory.path
                directory.remove()
        return None

    def remove(self) -> None:
        """Remove the directory and its files, but not the log file; a second call has no effect."""
        self._lock.close()
        remove_tree(self.path)
        if self._socket_directory is not None:
            self._socket_directory.remove()


def takes_sockets(directory: Path) -> bool:
    """Return whether Spark's Unix domain sockets can be in a directory, by creating one as Spark does."""
    path = directory / f".{uuid.uuid4()}.sock"
    if not hasattr(socket, "AF_UNIX") or len(os.fsencode(path)) >= _SOCKET_PATH_BYTES:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.bind(str(path))
        path.unlink()
    except OSError:
        return False
    return True


def _new_log_file(directory: Path, name: str) -> Path:
    """Create an empty log file named after the run, and delete all but the newest logs of ended runs."""
    ended: list[tuple[float, Path]] = []
    for log in directory.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):  # another process may tidy up at the same time
            if not (directory.parent / log.stem).exists():
                ended.append((log.stat().st_mtime, log))
    for _, old in sorted(ended)[: 1 - _LOGS_KEPT]:
        old.unlink(missing_ok=True)
        old.with_name(f"{old.name}.1").unlink(missing_ok=True)  # what the log rolled over to
    log = directory / f"{name}.log"
    log.touch(mode=0o600)
    return log


def dead_run_directories(parent: Path) -> list[Path]:
    """Return the run directories of processes that were killed."""
    return [directory for directory in sorted(parent.glob(f"{_RUN_PREFIX}*")) if _is_own_dead(directory)]


def _is_own_dead(directory: Path) -> bool:
    with contextlib.suppress(OSError):
        return why_not_own(directory) is None and is_dead(directory)
    return False


def _sweep(parent: Path) -> None:
    """Remove the run directories of processes that were killed."""
    for directory in dead_run_directories(parent):
        remove_dead(directory)

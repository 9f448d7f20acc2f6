"""Temporary directories of one process, which others recognize as abandoned when that process is dead.

The process holds a lock on a file in the directory while it lives; the kernel releases it however the process ends. It
holds one on the directory itself, too: systemd-tmpfiles, which cleans temporary directories by age, passes over a
directory on which there is a lock, with all that is below it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from penstock._engine.storage.ownership import why_exposed
from penstock.errors import LocalDirectoryError

if TYPE_CHECKING:
    from types import TracebackType

#: The lock file in a directory.
LOCK: Final = "lock"
#: The prefix of directories with what a process ships to executors.
MODULES: Final = "penstock-modules-"


def temporary_directory() -> Path:
    """Return the temporary directory, in which only this user can change what this user makes.

    Raises:
        LocalDirectoryError: There is none, or others can.
    """
    try:
        place = Path(tempfile.gettempdir())
        reason = why_exposed(place)
    except OSError as error:
        raise LocalDirectoryError("for temporary files", error.strerror or str(error)) from error
    if reason is not None:
        raise LocalDirectoryError(str(place), reason)
    return place


class ScratchDirectory:
    """A temporary directory that its process removes; if the process is killed, others recognize the directory as dead.

    Args:
        prefix: The prefix of its name.
        parent: Where to make it; None for the temporary directory.

    Raises:
        LocalDirectoryError: It cannot be made.
    """

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        place = parent or temporary_directory()
        try:
            self.path: Path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
            self._lock = DirectoryLock(self.path)
        except OSError as error:
            raise LocalDirectoryError(str(place), error.strerror or str(error)) from error

    @property
    def is_there(self) -> bool:
        """Whether the directory still exists and is the same one."""
        return self._lock.is_there(self.path)

    def remove(self) -> None:
        """Remove the directory and all in it."""
        self._lock.close()
        remove_tree(self.path)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


class DirectoryLock:
    """A directory that is locked while this process lives, or until it is released.

    Args:
        directory: The directory.
        shared: Whether other processes may hold it at the same time, by shared locks as well.

    Raises:
        BlockingIOError: Another process holds it.
    """

    def __init__(self, directory: Path, *, shared: bool = False) -> None:
        self._itself: int | None = None
        if sys.platform == "win32":
            self._file = (directory / LOCK).open("ab")
        else:
            import fcntl

            self._file = _locked_by_many(directory / LOCK) if shared else _locked(directory / LOCK)
            self._itself = os.open(directory, os.O_RDONLY)
            with contextlib.suppress(OSError):  # as on some network disks: then nothing but the file is locked
                fcntl.flock(self._itself, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def fileno(self) -> int:
        """Return the descriptor with the lock."""
        return self._file.fileno()

    def is_there(self, directory: Path) -> bool:
        """Tell whether the directory at a path is still the one that was locked."""
        if self._itself is None:
            return directory.is_dir()
        try:
            return os.path.samestat(os.fstat(self._itself), directory.stat())
        except OSError:
            return False

    def close(self) -> None:
        """Release the directory."""
        self._file.close()
        if self._itself is not None:
            os.close(self._itself)
            self._itself = None


def _locked(path: Path) -> IO[bytes]:
    """Open and lock a file. A new file gets its name after it was locked, or it would look like a dead process's.

    Raises:
        BlockingIOError: Another process holds it.
    """
    import fcntl

    draft = None if path.exists() else path.with_name(f".{secrets.token_hex(8)}")
    file = (draft or path).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if draft is not None:
            draft.rename(path)
    except OSError:
        file.close()
        raise
    return file


def _locked_by_many(path: Path) -> IO[bytes]:
    """Open a file and lock it with a shared lock; waits while another process checks whether it is dead.

    Raises:
        FileNotFoundError: The directory was removed.
    """
    import fcntl

    while True:
        file = path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except OSError:
            file.close()
            raise
        file.close()  # it was removed as dead before it was locked


def is_dead(directory: Path) -> bool:
    """Tell whether the processes that held a directory have ended.

    A directory without a lock file is being made or removed by a live process. Without flock, as on Windows, the answer
    is always False.
    """
    if sys.platform == "win32" or not (directory / LOCK).is_file():
        return False
    try:
        DirectoryLock(directory).close()
    except OSError:
        return False
    return True


def remove_dead(directory: Path) -> None:
    """Remove a directory unless a process holds it; a process that is about to hold it waits and finds it missing.

    The directory is renamed first: otherwise a process that finds no lock file could make a new one in it, and lose the
    files that it then writes.
    """
    if not (directory / LOCK).is_file():
        return
    try:
        lock = DirectoryLock(directory)
    except OSError:
        return
    unnamed = directory.with_name(f"{directory.name}-removed-{secrets.token_hex(4)}")
    try:
        directory.rename(unnamed)
    except OSError:  # as on Windows, where a file in it is open
        unnamed = directory
    remove_tree(unnamed)
    lock.close()


def remove_tree(directory: Path) -> None:
    """Remove a directory, as far as possible, and its lock file last: if this is interrupted, it is known as dead."""
    with contextlib.suppress(OSError):
        for child in directory.iterdir():
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child, ignore_errors=True)
            elif child.name != LOCK:
                child.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)

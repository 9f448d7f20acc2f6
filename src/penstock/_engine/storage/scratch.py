"""Temporary directories of one process, of which others can tell when that process is dead.

The process holds a lock on a file in the directory for as long as it lives; the kernel lets go of it whatever ends it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType

#: The file of a directory that its process holds.
LOCK: Final = "lock"


class ScratchDirectory:
    """A temporary directory that goes with its user, and is known to be dead when it could not.

    Args:
        prefix: Of its name.
    """

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self._lock = hold(self.path)

    def remove(self) -> None:
        """Remove the directory and all in it."""
        self._lock.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


def hold(directory: Path) -> IO[bytes]:
    """Lock a directory for as long as this process lives, or until the file that is returned is closed.

    Raises:
        BlockingIOError: Another process holds it.
    """
    lock = (directory / LOCK).open("ab")
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise
    return lock


def is_dead(directory: Path) -> bool:
    """Tell whether the process that held a directory has ended.

    A directory without a lock file is half made, or half removed, by a process that is alive; and without flock, as on
    Windows, nobody can tell.
    """
    if sys.platform == "win32" or not (directory / LOCK).is_file():
        return False
    try:
        hold(directory).close()
    except OSError:
        return False
    return True

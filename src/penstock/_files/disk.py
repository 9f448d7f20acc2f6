"""Local disks: files and directories that are durable, and names that are given in one step.

Written by hand, because the library for object stores does not fsync.
"""

from __future__ import annotations

import contextlib
import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

#: The errors of link() on file systems without hard links, and between two file systems.
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


def make_directories(directory: Path, mode: int = 0o777) -> None:
    """Make a directory, with its parents; it is durable on return, even if another process has just made it.

    Args:
        directory: The directory.
        mode: Of those that are made, before the umask.

    Raises:
        OSError: One cannot be made, or is no directory.
    """
    if not directory.parent.exists():
        make_directories(directory.parent, mode)
    directory.mkdir(mode, exist_ok=True)
    try:
        sync_directory(directory.parent)
    except OSError:  # else the next try would find it and assume that it is durable
        with contextlib.suppress(OSError):
            directory.rmdir()
        raise


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    if os.name == "nt":  # Windows cannot open a directory; its journal orders the entries
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def alone_in(directory: Path) -> Generator[None]:
    """Wait for others that change something in a directory in this way, and let none of them begin.

    The lock is of this host, and goes with its process. Without locks, as on Windows and some network disks, nobody
    waits.
    """
    if os.name == "nt":
        yield
        return
    import fcntl

    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def link(source: Path, target: Path) -> bool | None:
    """Give a file one more name unless that is taken, in one step.

    Returns:
        Whether it has the name now; None if the file system cannot give a second name.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return None
    return True

"""Local disks: files and directories that are durable, names that are given in one step, and paths of new directories.

Written by hand, because the library for object stores does not fsync.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.common.paths import scheme_of
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Generator

#: A change of a few lines takes milliseconds; whoever takes longer than this has been stopped.
LONGEST_CHANGE_S: Final = 2.0
_LOCK_POLL_S: Final = 0.005

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

    The lock is of this host, and goes with its process. Nobody waits for ever: a process that was stopped in the midst
    of such a change, and may never continue, must not stop those that take over its work. Without locks, as on Windows
    and some network disks, nobody waits.
    """
    if os.name == "nt":
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Lock a directory; goes on without the lock if that takes too long."""
    import fcntl

    deadline = time.monotonic() + LONGEST_CHANGE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_POLL_S)


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


def check_no_links(path: str, below: str) -> None:
    """Refuse a path that leads through a link, which another user may have put there to lead elsewhere.

    Args:
        path: An absolute path, or the URL of an object store, which has no links.
        below: The parts up to this path are trusted, and may be links.

    Raises:
        CheckpointStorageError: A part of the path is a link.
    """
    if scheme_of(path):
        return
    trusted, place = Path(below), Path(path)
    for part in (place, *place.parents):
        if part == trusted or trusted.is_relative_to(part):
            return
        if part.is_symlink():
            reason = "it leads through a link; give the path that the link leads to"
            raise CheckpointStorageError(path, reason)


def first_missing(path: str) -> Path | None:
    """Return the topmost missing directory of a path; None if none is missing."""
    if scheme_of(path):
        return None
    missing = None
    for part in (Path(path), *Path(path).parents):
        if os.path.lexists(part):  # False for invalid names, too
            break
        missing = part
    return missing


def remove_empty(top: Path) -> None:
    """Remove a directory and its subdirectories, as far as they are empty."""
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()

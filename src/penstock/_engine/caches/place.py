"""The directory of what this program keeps: below its checkpoint directory, else a temporary one.

A directory on a disk is locked while the program lives, like the other temporary directories of a process, so what a
killed program has left is known as dead. Its name begins with that of the host, because a lock may not be seen from
another one. A bucket has no locks: there the age of the newest file has to tell.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.storage.local import LocalStorage
from penstock._engine.storage.opening import absolute, open_storage
from penstock._engine.storage.scratch import ScratchDirectory, remove_dead
from penstock.common.paths import scheme_of
from penstock.common.process import at_exit
from penstock.errors import CheckpointStorageError, LocalDirectoryError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.storage.checkpoint_storage import FileStorage

#: The directory below a checkpoint directory in which programs have theirs.
CACHES: Final = ".caches"
#: Of the names of temporary directories, for programs without a checkpoint directory.
TEMPORARY: Final = "penstock-caches-"

_log = logging.getLogger(__name__)


class CacheDirectory:
    """The directory of this program.

    Args:
        storage: Opens it.
        scratch: The directory on a disk; None in a bucket.
    """

    def __init__(self, storage: FileStorage, scratch: ScratchDirectory | None) -> None:
        self.storage = storage
        self._scratch = scratch

    @property
    def is_there(self) -> bool:
        """Whether it still exists: somebody may have deleted it."""
        return self._scratch is None or self._scratch.is_there

    def remove(self) -> None:
        """Remove it with all that is in it."""
        if self._scratch is not None:
            self._scratch.remove()
        else:
            self.delete("")

    def delete(self, writing: str) -> None:
        """Delete what one job has written; what cannot be deleted now goes with the program."""
        try:
            self.storage.delete([file.path for file in self.storage.files(writing)])
        except CheckpointStorageError as error:
            _log.warning("%s", error)


_places: dict[str, CacheDirectory] = {}
_lock: Final = threading.Lock()


def cache_directory(directory: str | None, options: Mapping[str, str]) -> CacheDirectory:
    """Return the directory of this program; it is made at the first call, and goes with the process.

    Args:
        directory: The checkpoint directory; None for a temporary directory.
        options: Of the storage.

    Raises:
        CheckpointStorageError: It cannot be made.
    """
    base = "" if directory is None else absolute(directory)
    with _lock:
        place = _places.get(base)
        if place is None or not place.is_there:
            if place is not None:
                place.remove()
            elif not _places:
                at_exit(remove_places)
            place = _places[base] = _made(base, options)
        return place


def remove_places() -> None:
    """Remove all that this program keeps."""
    while _places:
        _places.popitem()[1].remove()


def _made(base: str, options: Mapping[str, str]) -> CacheDirectory:
    if scheme_of(base):
        return CacheDirectory(open_storage(f"{base.rstrip('/')}/{CACHES}/{secrets.token_hex(16)}", options), None)
    try:
        if base:
            parent = Path(base) / CACHES
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for directory in of_this_host(parent):
                remove_dead(directory)
            scratch = ScratchDirectory(_prefix(), parent)
        else:
            scratch = ScratchDirectory(TEMPORARY)
    except (OSError, LocalDirectoryError) as error:
        raise CheckpointStorageError(base or "the temporary directory", str(error)) from error
    return CacheDirectory(LocalStorage(scratch.path), scratch)


def of_this_host(parent: Path) -> list[Path]:
    """Return the directories of this host's programs below one; `remove_dead` leaves those that live."""
    with contextlib.suppress(OSError):
        return sorted(path for path in parent.iterdir() if path.name.startswith(_prefix()) and not path.is_symlink())
    return []


def _prefix() -> str:
    host = re.sub(r"\W", "_", socket.gethostname())
    return f"{host}-"

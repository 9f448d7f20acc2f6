"""One LMDB environment on the executor's local disk, and the rules under which several processes share it.

- One handle per process and path: LMDB loses its locks when a path is opened twice in a process.
- The map is a sparse file that starts small and doubles; other processes notice and follow.
- Each write first clears readers of killed processes: they would keep old pages from being used again.
- Nothing is synced to disk: the store is a cache of checkpoints, and its directory is not used after a reboot.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakSet, WeakValueDictionary

import lmdb

from penstock.errors import LocalStateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")

_FIRST_MAP_BYTES: Final = 1 << 28
_MAX_READERS: Final = 512


class LmdbEnvironment:
    """An open environment with two databases; made by `open_environment`."""

    def __init__(self, path: Path, map_bytes: int) -> None:
        self._path = path
        self._readers: WeakSet[lmdb.Transaction] = WeakSet()
        # No sync: a lost page costs a restore from the checkpoint, which is authoritative.
        self._env = lmdb.open(
            str(path),
            map_size=map_bytes,
            max_readers=_MAX_READERS,
            max_dbs=2,
            mode=0o600,
            sync=False,
            metasync=False,
            meminit=False,
        )
        self.entries = self._env.open_db(b"entries")
        self.meta = self._env.open_db(b"meta")

    def read(self) -> lmdb.Transaction:
        """Begin a read transaction; keep it short, because it keeps old pages in use."""
        try:
            reader = self._env.begin(db=self.entries)
        except lmdb.MapResizedError:  # another process has grown the map
            self._resize(0)
            reader = self._env.begin(db=self.entries)
        self._readers.add(reader)
        return reader

    def write(self, action: Callable[[lmdb.Transaction], T]) -> T:
        """Run `action` in a write transaction, and again in a larger map when this one is full.

        Raises:
            LocalStateError: The disk refuses the write.
        """
        self._env.reader_check()
        while True:
            try:
                with self._env.begin(write=True, db=self.entries) as transaction:
                    return action(transaction)
            except lmdb.MapFullError:
                self._resize(2 * int(self._env.info()["map_size"]))
            except lmdb.MapResizedError:
                self._resize(0)
            except lmdb.Error as error:  # LMDB reports a full disk as "Input/output error"
                raise not_usable(self._path, error) from error

    def _resize(self, map_bytes: int) -> None:
        # A failed epoch may have left a reader open: it must fail rather than read unmapped memory.
        for reader in list(self._readers):
            reader.abort()
        self._env.set_mapsize(map_bytes)


_opened: Final[WeakValueDictionary[tuple[int, Path], LmdbEnvironment]] = WeakValueDictionary()
_opening = threading.Lock()


def open_environment(path: Path, map_bytes: int = _FIRST_MAP_BYTES) -> LmdbEnvironment:
    """Return this process's handle of the environment in a directory; the handle closes with its last user.

    Either both files of the environment must exist or neither: where one was deleted, a process that has them open
    still uses its own, and a second process, with another lock file, would write into the same data.

    Args:
        path: The directory.
        map_bytes: The first size of the map, where this process has not opened it.

    Raises:
        lmdb.Error: The directory cannot be opened as an environment.
    """
    with _opening:
        key = (os.getpid(), path)  # a forked child may not use its parent's handles
        environment = _opened.get(key)
        if environment is None:
            if (path / "data.mdb").exists() != (path / "lock.mdb").exists():
                raise lmdb.Error(f"{path}: one of its two files is missing")
            environment = _opened[key] = LmdbEnvironment(path, map_bytes)
        return environment


def not_usable(path: Path, error: Exception) -> LocalStateError:
    """Return the error about a directory that cannot be written."""
    reason = str(error)
    with contextlib.suppress(OSError):
        reason += f", and its disk has {shutil.disk_usage(path).free} bytes left"
    return LocalStateError(str(path), reason)


def is_in_use(path: Path) -> bool:
    """Tell whether a process on this machine has the environment in a directory open.

    LMDB holds a lock on the first byte of its lock file for as long as a process has it open.
    """
    if (os.getpid(), path) in _opened:  # locking and unlocking this process's own file would release LMDB's lock
        return True
    import fcntl

    try:
        with (path / "lock.mdb").open("r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False

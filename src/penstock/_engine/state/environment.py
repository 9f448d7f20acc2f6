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
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakSet, WeakValueDictionary

import lmdb

from penstock._engine.storage.ownership import levels_of_user, why_not_own
from penstock.errors import LocalStateError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_FIRST_MAP_BYTES: Final = 1 << 28
_MAX_READERS: Final = 512

#: File systems that lack the locks and shared mappings that LMDB needs.
_NETWORK_DISKS: Final = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs"),
    *("gpfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"),
}


class LmdbEnvironment:
    """An open environment with two databases; made by `open_environment`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readers: WeakSet[lmdb.Transaction] = WeakSet()
        # No sync: a lost page costs a restore from the checkpoint, which is authoritative.
        self._env = lmdb.open(
            str(path),
            map_size=_FIRST_MAP_BYTES,
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


def open_environment(path: Path) -> LmdbEnvironment:
    """Return this process's handle of the environment in a directory; the handle closes with its last user.

    Either both files of the environment must exist or neither: where one was deleted, a process that has them open
    still uses its own, and a second process, with another lock file, would write into the same data.

    Raises:
        lmdb.Error: The directory cannot be opened as an environment.
    """
    with _opening:
        key = (os.getpid(), path)  # a forked child may not use its parent's handles
        environment = _opened.get(key)
        if environment is None:
            if (path / "data.mdb").exists() != (path / "lock.mdb").exists():
                raise lmdb.Error(f"{path}: one of its two files is missing")
            environment = _opened[key] = LmdbEnvironment(path)
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


def private_directory(path: Path) -> Path:
    """Make a directory that only this user can enter, and return its real path.

    Raises:
        LocalStateError: The directory, or one above it that holds only this user's state, belongs to another user or is
            open to others; or it is not on a local disk.
    """
    try:
        for directory in reversed([path, *path.parents]):
            if not directory.exists():
                directory.mkdir(mode=0o700, exist_ok=True)
        for level in levels_of_user(path)[:-1]:
            if (reason := why_not_own(level)) is not None:
                raise LocalStateError(str(level), reason)
        status = path.lstat()
    except OSError as error:
        raise LocalStateError(str(path), str(error)) from error
    if not stat.S_ISDIR(status.st_mode):
        raise LocalStateError(str(path), "it is not a directory")
    if status.st_uid != os.geteuid():
        raise LocalStateError(str(path), f"it belongs to user {status.st_uid}, not to {os.geteuid()}")
    if status.st_mode & 0o077:
        raise LocalStateError(str(path), f"other users can enter it (mode {stat.S_IMODE(status.st_mode):o})")
    disk = _file_system(status.st_dev)
    if disk in _NETWORK_DISKS:
        raise LocalStateError(str(path), f"it is on a network disk ({disk})")
    return path.resolve()


def _file_system(device: int, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the type of a mounted file system, "" where the system does not report it."""
    if not mounts.exists():  # macOS
        return ""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        if fields.split()[2] == number:
            return rest.split()[0]
    return ""

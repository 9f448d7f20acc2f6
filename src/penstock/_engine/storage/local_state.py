"""The directories in which runs keep keyed state on the local disk of a host.

Each process derives the place from its own user, and from the directory that a cluster gives its executor, else from
its temporary directory; all of them may differ from the driver's. Each run has a directory of its own, because two jobs
may have the same id, and tasks of a replaced driver may still run. The directory is a cache of checkpoints. The driver
and each worker with keyed state on the host hold it by a lock; the last process of a run that has ended removes it. The
directory of killed processes is removed by the next run, once their executor is gone, too: Spark ends idle workers.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
import weakref
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.storage.executor_directory import (
    executor_directories,
    executor_process,
    is_alive,
    of_other_applications,
)
from penstock._engine.storage.ownership import levels_of_user, user_path, why_exposed, why_not_own
from penstock._engine.storage.scratch import DirectoryLock, is_dead, remove_dead, remove_tree
from penstock.errors import LocalStateError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Names of files that name an executor begin so.
_EXECUTOR: Final = "executor-"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE: Final = Path("/proc/self/ns/pid")
#: File systems that lack the locks and shared mappings that LMDB needs.
_NETWORK_DISKS: Final = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs"),
    *("gpfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"),
}


class LocalStateDirectory:
    """The directory of one run on this host, as one process sees it.

    Args:
        run_id: The run.
        parent: The directory of all runs; by default that of this user below the temporary directory.
    """

    def __init__(self, run_id: str, parent: Path | None = None) -> None:
        self._run_id = run_id
        self.parent = parent
        self._executors_own = _executors_own() if parent is None else None
        self._lock: DirectoryLock | None = None
        self._let_go: Callable[[], object] | None = None

    @property
    def path(self) -> Path:
        """The directory.

        Raises:
            LocalStateError: This host has no directory for temporary files.
        """
        if self.parent is not None:
            return self.parent / self._run_id
        try:
            return user_path(self._executors_own) / "state" / self._run_id
        except OSError as error:
            raise LocalStateError("the temporary directory", error.strerror or str(error)) from error

    def hold(self) -> Path:
        """Hold the directory as long as this process lives, and return its subdirectory for this boot of the host.

        Directories of other runs that no process holds are deleted.

        Raises:
            LocalStateError: It cannot be made, does not belong to this user alone, or is not on a local disk.
        """
        path = self.path
        if self._lock is None or not self._lock.is_there(path):
            self._release()
            try:
                self._lock = _held(path)
            except OSError as error:
                raise LocalStateError(str(path), error.strerror or str(error)) from error
            self._let_go = weakref.finalize(self, self._lock.close)
            _sweep(path.parent)
            if self._executors_own is not None:
                self._note_executor(path)
                for other in of_other_applications(self._executors_own):
                    _sweep(user_path(other) / "state")
        return private_directory(path / _boot())

    def _note_executor(self, path: Path) -> None:
        """Note the executor, whose workers Spark ends after a minute without tasks: the run may go on after it."""
        if (executor := executor_process()) is not None:
            with contextlib.suppress(OSError):
                (private_directory(path / _boot()) / f"{_EXECUTOR}{executor}").touch()

    def leave(self) -> None:
        """Let go of the directory of a run that has ended; the last process that leaves it deletes it."""
        if self._lock is not None:
            self._release()
            remove_dead(self.path)

    def remove(self) -> None:
        """Delete the directory, whichever processes still hold it."""
        self._release()
        with contextlib.suppress(LocalStateError):
            remove_tree(self.path)

    def _release(self) -> None:
        if self._let_go is not None:
            self._let_go()
        self._lock = self._let_go = None


def _executors_own() -> Path | None:
    """Return the first directory of this executor that is safe and on a local disk; None without one."""
    for directory in executor_directories():
        with contextlib.suppress(OSError):
            is_safe = os.access(directory, os.W_OK) and why_exposed(directory) is None
            if is_safe and _file_system(directory.stat().st_dev) not in _NETWORK_DISKS:
                return directory
    return None


@cache
def _boot() -> str:
    """Return a name of this boot of the host and of this namespace of processes; constants where there are none.

    Local state is not synced, so a crash of the host may lose pages of it, while the run may continue. LMDB tells its
    readers apart by the ids of their processes, so containers that share a disk must not share a directory.
    """
    with contextlib.suppress(OSError):
        return f"{_boot_name()}-{_NAMESPACE.readlink().name.strip('pid:[]')}"
    return _boot_name()


def _boot_name() -> str:
    with contextlib.suppress(OSError):
        return f"boot-{_BOOT_ID.read_text().strip()}"
    return "boot"


def _held(path: Path) -> DirectoryLock:
    """Make and lock a directory; another process may remove it in between."""
    while True:
        try:
            private_directory(path)
            return DirectoryLock(path, shared=True)
        except FileNotFoundError:
            continue
        except LocalStateError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise


def _sweep(parent: Path) -> None:
    """Delete the directories of runs that no process of this host holds."""
    with contextlib.suppress(OSError):
        for other in parent.iterdir() if why_not_own(parent) is None else ():
            if why_not_own(other) is None and is_dead(other) and not _is_of_others(other):
                remove_dead(other)


def _is_of_others(run: Path) -> bool:
    """Return whether a directory that no process of this host holds belongs to others all the same."""
    return has_living_executor(run) or _may_be_of_another_kernel(run)


def has_living_executor(run: Path) -> bool:
    """Tell whether an executor of this host that had workers with a directory lives."""
    executors = (note.name.removeprefix(_EXECUTOR) for note in (run / _boot()).glob(f"{_EXECUTOR}*"))
    return any(map(is_alive, executors))


def _may_be_of_another_kernel(run: Path) -> bool:
    """Return whether another machine that runs now may hold a directory: locks do not tell there.

    Virtual machines may share a disk. So what another boot has made counts as that of an earlier boot of this machine
    only if nothing in it has changed since this one began.
    """
    this = _boot_name()
    others = [boot for boot in run.iterdir() if boot.name.startswith("boot") and not boot.name.startswith(this)]
    if not others:
        return False
    began = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return any(path.stat().st_mtime >= began for other in others for path in (other, *other.rglob("*")))


def private_directory(path: Path) -> Path:
    """Make a directory that only this user can enter, and return its real path.

    Raises:
        LocalStateError: The directory, or one above it that holds only this user's state, belongs to another user or is
            open to others; or it is not on a local disk.
    """
    try:
        _make(path)
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


def _make(path: Path) -> None:
    """Make a directory and those above it, unless one of this user's is not safely that."""
    levels = levels_of_user(path)
    if (reason := why_exposed(levels[0].parent)) is not None:
        raise LocalStateError(str(path), reason)
    for directory in reversed([path, *path.parents]):
        if not directory.exists():
            directory.mkdir(mode=0o700, exist_ok=True)
    for level in levels[:-1]:
        if (reason := why_not_own(level)) is not None:
            raise LocalStateError(str(level), reason)


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

"""Checkpoint storage in a local or mounted directory.

A record must be on disk before anything is committed in its name (`_files.disk`). A file appears under its name in one
step (link or rename of a synced temporary file), so readers see it whole or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.storage.checkpoint_storage import FileStorage, StoredFile
from penstock._engine.storage.ownership import why_not_trusted
from penstock._files.disk import make_directories, sync_directory
from penstock.common.option_table import CHECKPOINT_DIRECTORY
from penstock.errors import CheckpointStorageError, CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from typing import BinaryIO

#: Temporary files begin with this; listings leave them out.
_TEMPORARY: Final = ".tmp-"

_COPY_BYTES: Final = 8 << 20
#: The errors of copy_file_range between file systems, or on one without it.
_NO_RANGES: Final = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.EPERM}

_REASONS: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "it is read-only",
    errno.EACCES: "this user may not write there",
    errno.EPERM: "this user may not write there, or the file system has no hard links",
    errno.ENOTSUP: "the file system has no hard links",
    errno.ENOTDIR: "a part of the path is a file",
    errno.EISDIR: "it is a directory",
    errno.ELOOP: "it is a link, and below the directory that was given none is followed",
}

#: Flags for opening: they neither wait for the writer of a pipe nor follow a link.
_READ_FLAGS: Final = sum(getattr(os, name, 0) for name in ("O_RDONLY", "O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"))
#: The same for the directories on the way to a file, which need not be readable.
_DIRECTORY_FLAGS: Final = sum(getattr(os, name, 0) for name in ("O_PATH", "O_DIRECTORY", "O_NOFOLLOW"))


class LocalStorage(FileStorage):
    """Checkpoint storage below a directory, which is made when the first file is written.

    The path of the directory itself may contain links. Below it no link is followed, because a link of another user
    could redirect reads, writes and deletions.

    Args:
        root: The directory.
        private: Whether only this user can access files and directories; otherwise the umask decides.
    """

    def __init__(self, root: Path, *, private: bool = True) -> None:
        self._root = root.absolute()
        self._private = private
        self.url = self._root.as_uri()

    def why_absent(self) -> str | None:
        """Return why this host does not have the storage that the driver has probed, a clause; None where it does."""
        with self._naming(""):
            if self._root.is_dir():
                return None
        host, key = socket.gethostname(), CHECKPOINT_DIRECTORY.key
        return f"host {host}, where a task runs, does not have it; let {key} name a place that all hosts share"

    def full_path(self, path: str) -> str:
        """Return a path in full, for display."""
        return str(self._root / path)

    def find(
        self, path: str, *, at_most: int | None = None, seen: dict[str, os.stat_result] | None = None
    ) -> bytes | None:
        """Return the bytes of a file, None when there is none; a file of more bytes than `at_most` is not read."""
        with self._naming(path):
            try:
                file, size = self._open(path, seen)
            except FileNotFoundError:
                return None
            with file:
                self._check_most(path, size, at_most)
                return file.read()

    def read_sized(self, path: str, size: int) -> bytes:
        """Return the bytes of a file that has to be there with a certain size; any other one is not read."""
        with self._naming(path):
            try:
                file, found = self._open(path)
            except FileNotFoundError:
                raise CorruptCheckpointError(self.full_path(path), "it is gone") from None
            with file:
                self._check_size(path, found, size)
                data = file.read(size)
        self._check_size(path, len(data), size)
        return data

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return a part of a file; raise CorruptCheckpointError if the file is missing or too short."""
        with self._naming(path):
            try:
                with self._open(path)[0] as file:
                    file.seek(start)
                    data = file.read(length)
            except FileNotFoundError:
                raise CorruptCheckpointError(self.full_path(path), "it is gone") from None
        if len(data) < length:
            raise CorruptCheckpointError(self.full_path(path), f"it ends before byte {start + length}")
        return data

    def put(self, path: str, data: bytes) -> None:
        """Write a file, durable on return; a file of that name is replaced in one step."""
        self._publish(path, _writer(data), os.replace)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file unless its name is taken; tell whether this call has written it."""
        try:
            self._publish(path, _writer(data), os.link)
        except FileExistsError:
            # The writer may have failed after the link, and may be this process at its first try; a caller assumes that
            # an existing file is durable.
            with self._naming(path):
                sync_directory(self._place(path).parent)
            return False
        return True

    def is_link(self, path: str) -> bool:
        """Tell whether a file or directory is a link to another place: it is listed, and not followed."""
        return self._place(path, may_be_link=True).is_symlink()

    def why_exposed(self, path: str) -> tuple[str, str] | None:
        """Return the full path and a clause where others than this user can change a file or directory; else None."""
        with self._naming(path), contextlib.suppress(FileNotFoundError):
            reason = why_not_trusted(self._place(path, may_be_link=True))
            return None if reason is None else (self.full_path(path), reason)
        return None

    def copy_from(self, source: FileStorage, path: str, name: str, *, size: int | None = None) -> None:
        """Write a file of another storage under a name here; between local disks the kernel moves the bytes."""
        if not isinstance(source, LocalStorage):
            super().copy_from(source, path, name, size=size)
            return
        with source._naming(path):
            try:
                original, found = source._open(path)
            except FileNotFoundError:
                raise CorruptCheckpointError(source.full_path(path), "it is gone") from None
        with original:
            source._check_size(path, found, found if size is None else size)
            self._publish(name, lambda descriptor: _copy_bytes(original.fileno(), descriptor), os.replace)

    def move(self, path: str, name: str) -> None:
        """Rename a file, durable on return; repeating it changes nothing. It needs no additional space."""
        with self._naming(name):
            source, target = self._place(path), self._place(name)
            try:
                source.replace(target)
            except FileNotFoundError:
                if not target.exists():
                    raise CorruptCheckpointError(self.full_path(path), "it is gone") from None
            sync_directory(target.parent)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, and their directories once these are empty."""
        directories: set[Path] = set()
        for path in paths:
            with self._naming(path):
                place = self._place(path, may_be_link=True)
                place.unlink(missing_ok=True)
            directories.add(place.parent)
        for directory in directories - {self._root}:
            with contextlib.suppress(OSError):  # not empty, or just used again
                directory.rmdir()

    def names(self, directory: str) -> list[str]:
        """Return the names right below a directory ("" for the root), files and directories, sorted."""
        with self._naming(directory):
            try:
                names = (entry.name for entry in self._place(directory).iterdir())
                return sorted(name for name in names if not name.startswith(_TEMPORARY))
            except FileNotFoundError:
                return []

    def files(self, directory: str) -> list[StoredFile]:
        """Return all files below a directory, at any depth, sorted by path."""
        with self._naming(directory):
            return sorted(self._walk(directory), key=lambda file: file.path)

    def unfinished(self) -> list[StoredFile]:
        """Return the temporary files: of killed writers, and of running ones, which soon rename theirs."""
        with self._naming(""):
            return sorted(self._walk("", temporary=True), key=lambda file: file.path)

    def _walk(self, directory: str, *, temporary: bool = False) -> Iterator[StoredFile]:
        for folder, _, names in os.walk(self._place(directory)):
            for name in names:
                if name.startswith(_TEMPORARY) is not temporary:
                    continue
                file = Path(folder, name)
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    status = file.lstat()
                    relative = file.relative_to(self._root).as_posix()
                    yield StoredFile(relative, status.st_size, status.st_mtime_ns // 1_000_000)

    def _publish(self, path: str, fill: Callable[[int], None], move: Callable[[Path, Path], None]) -> None:
        """Write a synced temporary file, then give it its name in one step and sync the directory."""
        with self._naming(path):
            target = self._place(path, may_be_link=True)  # what has that name is replaced, or is in the way
            temporary = target.parent / f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(6)}"
            try:
                self._write_synced(temporary, fill)
                move(temporary, target)
                sync_directory(target.parent)
            finally:
                temporary.unlink(missing_ok=True)

    def _write_synced(self, file: Path, fill: Callable[[int], None]) -> None:
        descriptor = self._create(file)
        try:
            fill(descriptor)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _create(self, file: Path) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        mode = 0o600 if self._private else 0o666
        for _ in range(3):
            try:
                return os.open(file, flags, mode)
            except FileNotFoundError:  # the directory does not exist yet, or `delete` found it empty meanwhile
                with contextlib.suppress(FileNotFoundError):  # or finds one of its parents empty now
                    make_directories(file.parent, 0o700 if self._private else 0o777)
        return os.open(file, flags, mode)

    def _open(self, path: str, seen: dict[str, os.stat_result] | None = None) -> tuple[BinaryIO, int]:
        """Open a file for reading, and return it with its size."""
        descriptor = self._descend(self._place(path), {} if seen is None else seen)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.ENXIO
            raise OSError(number, "it is a device or a pipe, not a file")
        return os.fdopen(descriptor, "rb"), status.st_size

    def _descend(self, place: Path, seen: dict[str, os.stat_result]) -> int:
        """Open a file level by level, each in the directory that the last one was, whatever has its name by now."""
        names = place.relative_to(self._root).parts
        if os.open not in os.supports_dir_fd or not names:
            return os.open(place, _READ_FLAGS)
        descriptor = os.open(self._root, _DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
        for depth, name in enumerate(names, 1):
            try:
                seen["/".join(names[: depth - 1])] = os.fstat(descriptor)
                inner = os.open(name, _READ_FLAGS if depth == len(names) else _DIRECTORY_FLAGS, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = inner
        seen["/".join(names)] = os.fstat(descriptor)
        return descriptor

    def _place(self, path: str, *, may_be_link: bool = False) -> Path:
        """Return the local path of a path below the root.

        Raises:
            CheckpointStorageError: The path leads outside, or through a link.
        """
        names = [name for name in path.split("/") if name not in {"", "."}]
        if ".." in names or path.startswith("/"):
            raise CheckpointStorageError(self.full_path(path), "it does not lie below the directory that was given")
        level = str(self._root)
        for place, name in enumerate(names):
            level = f"{level}{os.sep}{name}"
            if os.path.islink(level) and not (may_be_link and place == len(names) - 1):  # noqa: PTH114 - per file
                raise CheckpointStorageError(level, _REASONS[errno.ELOOP])
        return self._root.joinpath(*names)

    @contextlib.contextmanager
    def _naming(self, path: str) -> Generator[None]:
        """Turn an error of the operating system into ours, which names the path."""
        try:
            yield
        except FileExistsError:
            raise
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
            raise CheckpointStorageError(self.full_path(path), reason) from error
        except ValueError as error:  # a zero byte, or undecodable text
            raise CheckpointStorageError(self.full_path(path), "it cannot be the name of a file") from error


def _writer(data: bytes) -> Callable[[int], None]:
    """Return what writes some bytes to an open file."""
    return lambda descriptor: _write_all(descriptor, data)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _copy_bytes(source: int, target: int) -> None:
    """Copy all bytes of an open file to the beginning of another one."""
    if hasattr(os, "copy_file_range"):
        try:
            while os.copy_file_range(source, target, _COPY_BYTES):
                pass
        except OSError as error:
            if error.errno not in _NO_RANGES:
                raise
        else:
            return
        os.lseek(target, 0, os.SEEK_SET)
        os.lseek(source, 0, os.SEEK_SET)
    while data := os.read(source, _COPY_BYTES):
        _write_all(target, data)

"""Chooses the file system of a path, and opens the files that a source has found."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from penstock._connectors.files.filesystem import NotAFileError
from penstock._connectors.files.local import LocalFileSystem
from penstock._formats.unpacking import is_compressed
from penstock.common.paths import scheme_of
from penstock.errors import SourceFileChangedError, SourceFileError, SourceFileGoneError

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock._connectors.files.filesystem import FileStatus, FileSystem

_COPIED_BYTES: Final = 1 << 20
_WAY_OUT: Final = (
    "write files under another name and rename them when they are complete, and change none after that; files of lines "
    "that only grow are read as far as they were there with read_appended_files()"
)


def copy_file(source: str, target: str) -> None:
    """Copy a file durably, also between file systems.

    Raises:
        FileNotFoundError: The other one is gone.
    """
    origin, filesystem = filesystem_of(source), filesystem_of(target)
    if type(origin) is type(filesystem) and filesystem.duplicate(source, target):
        return
    with origin.open(source) as data:
        stream = filesystem.create(target)
        shutil.copyfileobj(data, stream, _COPIED_BYTES)
        filesystem.finish(target, stream)


def filesystem_of(path: str) -> FileSystem:
    """Return the file system of a path: an object store by its scheme, else the local one."""
    if scheme_of(path) in {"", "file"}:
        return LocalFileSystem()
    # Imported here, because importing obstore takes long, and local files do not need it.
    from penstock._connectors.files.object_store import ObjectFileSystem

    return ObjectFileSystem()


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A found file, as an ``InputFile`` for formats.

    Args:
        path: Where it is.
        size: Its length in bytes when it was found.
        status: Its status then.
        may_grow: Whether it may be longer now; only the bytes that existed then are read.
    """

    path: str
    size: int
    status: FileStatus
    may_grow: bool = False

    @classmethod
    def of(cls, status: FileStatus, *, may_grow: bool = False) -> FoundFile:
        """Return the file of a listing's status."""
        return cls(status.path, status.size, status, may_grow and not is_compressed(status.path))

    def open(self) -> BinaryIO:
        """Open the file.

        Raises:
            SourceFileGoneError: The file is gone.
            SourceFileChangedError: It has changed since it was found.
            SourceFileError: It cannot be opened.
        """
        with self._translating_errors():
            filesystem = filesystem_of(self.path)
            stream = filesystem.open_again(self.status) if self.may_grow else filesystem.open(self.path)
        try:
            self.check()
        except BaseException:
            stream.close()
            raise
        return stream

    def check(self, *, while_reading: bool = False) -> None:
        """Check that the file is the one that was found, because positions in another one are meaningless.

        Args:
            while_reading: Whether more of it will be read, so that a check that costs a request waits for the end,
                or for the checkpoint.

        Raises:
            SourceFileGoneError: The file is gone.
            SourceFileChangedError: The file has changed.
        """
        filesystem = filesystem_of(self.path)
        if while_reading and not filesystem.status_is_cheap:
            return
        # Another file may have its name by now, but the open one is the file that was found.
        renamed = self.may_grow and self.status.inode is not None
        with self._translating_errors():
            try:
                now = filesystem.status(self.path)
            except FileNotFoundError:
                if renamed:
                    return
                raise
        if renamed and now.inode != self.status.inode:
            return
        change = None if self.may_grow and now.size >= self.size else now.differs_from(self.status)
        if change is not None:
            raise SourceFileChangedError(self.path, f"{change}: it has changed since the job found it; {_WAY_OUT}")

    @contextmanager
    def _translating_errors(self) -> Generator[None]:
        """Translate the errors of a file system into Penstock's."""
        try:
            yield
        except FileNotFoundError as error:
            gone = "it was deleted or renamed, or the folder or disk that it is in went away"
            what = (error.strerror or gone) if isinstance(error, NotAFileError) else gone
            reason = (
                f"it was there when the job found it, with {self.size} bytes, and is not any more: {what}; put it back "
                "under this name, or start the job without a checkpoint to look for files again"
            )
            raise SourceFileGoneError(self.path, reason) from None
        except OSError as error:
            raise SourceFileError(
                self.path, f"{error.strerror or error}; check the path and its permissions"
            ) from error

"""The places that files are in: local paths and object stores, behind one small interface.

The source lists and opens; the sink stages under a hidden name and publishes under the final one. Publishing may be
repeated and interrupted at any point: the target is either not there or complete.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: What makes a path a glob.
MAGIC: Final = "*?["


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file that was found: its path, its length in bytes and when it was last changed."""

    path: str
    size: int
    modified_ms: int
    #: The store's name for these very bytes; None on disks, and in checkpoints of versions that did not keep it.
    etag: str | None = None
    #: What its disk tells it by, whatever its name is; None in stores, and in checkpoints of versions that did not
    #: keep it.
    inode: int | None = None
    #: Of a file that others append to: a digest of the bytes before ``size`` (`growing`).
    tail: bytes | None = None

    def __setstate__(self, state: list[Any]) -> None:
        # Checkpoints of earlier versions hold fewer fields.
        names = ("path", "size", "modified_ms", "etag", "inode", "tail")
        for name, value in zip(names, [*state, None, None, None], strict=False):
            object.__setattr__(self, name, value)

    def differs_from(self, found: FileStatus) -> str | None:
        """Return what is different in a file that was found earlier, None for nothing."""
        if self.size != found.size:
            return f"it has {self.size} bytes, and had {found.size}"
        if self.etag is not None and found.etag is not None:
            return None if self.etag == found.etag else f"its ETag is {self.etag}, and was {found.etag}"
        # Stores give the time in seconds in one answer, and in milliseconds in another.
        unit = 1 if self.etag is None else 1000
        if self.modified_ms // unit == found.modified_ms // unit:
            return None
        return f"it was changed at {_shown(self.modified_ms)}, and before that at {_shown(found.modified_ms)}"


class NotAFileError(FileNotFoundError):
    """There is no file at a path, but something else; ``strerror`` says what, in a clause without a full stop."""


def pass_over(path: str, reason: str) -> None:
    """Do nothing about a path that is no file."""


class FileSystem(Protocol):
    """What the file source and the file sink need of a place; paths are whole paths, with their scheme."""

    def find(self, path: str, skip: Callable[[str, str], None] = pass_over) -> list[FileStatus]:
        """Return the files that a path, folder or glob stands for, sorted by path.

        A folder or glob stands for all files below it, but those with a name that begins with ``.`` or ``_``, or that
        are in a folder with such a name, unless the glob itself asks for that name.

        Args:
            path: The path.
            skip: Told of each path below that is no file, or none any more, and why.

        Raises:
            NotAFileError: The path itself is no file and no folder.
            FileNotFoundError: There is nothing.
        """
        ...

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading.

        Raises:
            FileNotFoundError: It is gone; NotAFileError where there is something else.
        """
        ...

    def open_again(self, found: FileStatus) -> BinaryIO:
        """Open a file to which others append, also where it was renamed in its folder since it was found.

        Raises:
            FileNotFoundError: It is gone; NotAFileError where there is another one in its place.
        """
        ...

    def create(self, path: str) -> BinaryIO:
        """Open a new file for writing, and make its folder.

        Raises:
            FileExistsError: There is one already.
        """
        ...

    def finish(self, path: str, stream: BinaryIO) -> None:
        """Close a file made by ``create``; when this returns it is durable."""
        ...

    def park(self, stream: BinaryIO) -> bool:
        """Let go of a file made by ``create`` so that it takes no descriptor and little memory; it is not durable yet.

        Returns:
            False when nothing was done, because it would take too much; then ``finish`` it.
        """
        ...

    def unpark(self, path: str, stream: BinaryIO, size: int) -> BinaryIO:
        """Open a file again of which ``park`` has let go, to write at its end.

        Args:
            path: The file.
            stream: What was parked.
            size: How many bytes it had.

        Raises:
            OSError: It is gone, or has another length.
        """
        ...

    def twin(self, folder: str) -> str | None:
        """Return the folder that is there in place of one with a name that only looks otherwise, None without one."""
        ...

    def publish(self, staged: Sequence[str], target: str) -> bool:
        """Make a file of one or several staged ones, in order; they stay behind until ``delete``.

        Returns:
            False when nothing was done: the target is there already, or a staged file is gone.
        """
        ...

    def duplicate(self, path: str, target: str) -> bool:
        """Make a new file of the bytes of another without reading them, and its folder; durable when this returns.

        Returns:
            False when nothing was done, because the two are not in one place that can do so.

        Raises:
            FileNotFoundError: The other one is gone.
        """
        ...

    #: Whether to ask for a status costs next to nothing.
    status_is_cheap: bool

    def status(self, path: str) -> FileStatus:
        """Return how a file is now.

        Raises:
            FileNotFoundError: It is gone; NotAFileError where there is something else.
        """
        ...

    def size_of(self, path: str) -> int | None:
        """Return the length of a file in bytes, None when it is not there."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""
        ...

    def hidden_files(self, folder: str) -> Iterator[FileStatus]:
        """List the files below a folder whose names begin with a dot."""
        ...


def is_hidden(name: str) -> bool:
    """Tell whether a name is passed over by a source that reads a folder."""
    return name.startswith((".", "_"))


def is_passed_over(path: str, glob: str) -> bool:
    """Tell whether a match of a glob is hidden, or is in a folder that is.

    What stands before the first sign of the glob was asked for by name, and so is what a part of it that begins with
    ``.`` or ``_`` matches.
    """
    parts = glob.split("/")
    literal = next((place for place, part in enumerate(parts) if any(sign in part for sign in MAGIC)), len(parts))
    asked_for = [part for part in parts[literal:] if is_hidden(part)]
    return any(
        is_hidden(name) and not any(fnmatch.fnmatchcase(name, part) for part in asked_for)
        for name in path.split("/")[literal:]
    )


def _shown(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")

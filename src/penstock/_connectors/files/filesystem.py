"""The interface to local files and object stores.

The source lists and opens; the sink stages under a hidden name and publishes under the final one. Publishing may be
interrupted and repeated at any point: the target either does not exist or is complete.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: The characters that make a path a glob.
MAGIC: Final = "*?["


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The status of a file: its path, its length in bytes and the time of its last change."""

    path: str
    size: int
    modified_ms: int
    #: The object store's ETag; None on disks.
    etag: str | None = None
    #: The inode on a disk; None in object stores.
    inode: int | None = None
    #: For a growing file: a digest of the bytes before ``size`` (`growing`).
    tail: bytes | None = None

    def differs_from(self, found: FileStatus) -> str | None:
        """Return the difference to an earlier status as text; None without any."""
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
    """The path is no file but something else; ``strerror`` says what, in a clause without a full stop."""


def pass_over(path: str, reason: str) -> None:
    """Ignore a path that is no file."""


class FileSystem(Protocol):
    """A file system for the file source and the file sink; paths are complete, with their scheme."""

    def find(self, path: str, skip: Callable[[str, str], None] = pass_over) -> list[FileStatus]:
        """Return the files of a path, folder or glob, sorted by path.

        A folder or glob includes all files below it, except hidden ones: their name, or that of a folder above them,
        begins with ``.`` or ``_`` and the glob does not ask for it.

        Args:
            path: The path.
            skip: Called for each path below that is no file, or no longer one, with the reason.

        Raises:
            NotAFileError: The path itself is no file and no folder.
            FileNotFoundError: The path matches nothing.
        """
        ...

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading.

        Raises:
            FileNotFoundError: It is gone; NotAFileError where there is something else.
        """
        ...

    def open_again(self, found: FileStatus) -> BinaryIO:
        """Open a growing file, even if it was renamed in its folder since it was found.

        Raises:
            FileNotFoundError: It is gone; NotAFileError where there is another one in its place.
        """
        ...

    def create(self, path: str) -> BinaryIO:
        """Open a new file for writing, and make its folder.

        Raises:
            FileExistsError: The file exists already.
        """
        ...

    def finish(self, path: str, stream: BinaryIO) -> None:
        """Close a file made by ``create``; when this returns it is durable."""
        ...

    def park(self, stream: BinaryIO) -> int | None:
        """Park a file made by ``create``, so that it takes no descriptor and little memory; it is not durable yet.

        Returns:
            The bytes of memory that it takes now; None when nothing was done, because it would take too much: then
            ``finish`` it.
        """
        ...

    def unpark(self, path: str, stream: BinaryIO, size: int) -> BinaryIO:
        """Reopen a parked file, to write at its end.

        Args:
            path: The file.
            stream: The parked stream.
            size: Its length in bytes.

        Raises:
            OSError: It is gone, or has another length.
        """
        ...

    def case_collision(self, folder: str) -> str | None:
        """Return the existing folder that the file system takes for this one despite another name; None without one."""
        ...

    def publish(self, staged: Sequence[str], target: str) -> bool:
        """Make a file of one or several staged ones, in order; the staged ones stay until ``delete``.

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

    #: Whether reading a status is cheap.
    status_is_cheap: bool

    def status(self, path: str) -> FileStatus:
        """Return the current status of a file.

        Raises:
            FileNotFoundError: It is gone; NotAFileError where there is something else.
        """
        ...

    def size_of(self, path: str) -> int | None:
        """Return the length of a file in bytes; None if it does not exist."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        ...

    def add_line(self, path: str, line: str) -> None:
        """Add a line to a file, which is made if it does not exist; it outlasts this process when this returns."""
        ...

    def change_lines(self, path: str, change: Callable[[list[str]], list[str]]) -> None:
        """Replace the lines of a file in one step and durably; on a disk no line is lost that others add meanwhile.

        Args:
            path: The file, which is made if it does not exist.
            change: Returns the new lines for those that are there.
        """
        ...

    def lines_of(self, path: str) -> list[str]:
        """Return the lines of a file; none where it does not exist, or may not be read."""
        ...

    def folders_above(self, folder: str) -> list[str]:
        """Return a folder and those above it, the highest last."""
        ...

    def notes(self, folder: str, ending: str) -> dict[str, list[str]]:
        """Return the lines of the files of a folder, by name, whose names end so; none where listing is expensive."""
        ...

    def hidden_files(self, folder: str) -> Iterator[FileStatus]:
        """List the files below a folder whose names begin with a dot."""
        ...


def is_hidden(name: str) -> bool:
    """Tell whether a source that reads a folder skips a name."""
    return name.startswith((".", "_"))


def is_passed_over(path: str, glob: str) -> bool:
    """Tell whether a match of a glob is hidden, or is in a hidden folder.

    Names before the first wildcard, and matches of a part that begins with ``.`` or ``_``, were asked for explicitly.
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


def lines_in(data: bytes) -> list[str]:
    """Return the lines of a file of lines; a crash may have left anything in it."""
    return data.decode(errors="replace").split("\n")


def bytes_of(lines: Iterable[str]) -> bytes:
    """Return a file of lines."""
    return "".join(f"{line}\n" for line in lines).encode()

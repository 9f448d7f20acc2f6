"""The places that files are in: local paths and object stores, behind one small interface.

The source lists and opens; the sink stages under a hidden name and publishes under the final one. Publishing may be
repeated and interrupted at any point: the target is either not there or complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file that was found: its path, its length in bytes and when it was last changed."""

    path: str
    size: int
    modified_ms: int


class FileSystem(Protocol):
    """What the file source and the file sink need of a place; paths are whole paths, with their scheme."""

    def find(self, path: str) -> list[FileStatus]:
        """Return the files that a path, folder or glob stands for, sorted by path.

        A folder stands for all files below it, but those with a name that begins with ``.`` or ``_``, or that are in a
        folder with such a name.

        Raises:
            FileNotFoundError: There is nothing.
        """
        ...

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading."""
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

    def publish(self, staged: Sequence[str], target: str) -> bool:
        """Make a file of one or several staged ones, in order; they may stay behind until ``delete``.

        Returns:
            False when nothing was done: the target is there already, or a staged file is gone.
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

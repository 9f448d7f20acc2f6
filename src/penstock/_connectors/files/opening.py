"""Which file system a path belongs to, and opening the files that a source has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from penstock._connectors.files.local import LocalFileSystem
from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from penstock._connectors.files.filesystem import FileStatus, FileSystem


def filesystem_of(path: str) -> FileSystem:
    """Return the file system that a path belongs to: object stores by their scheme, else the local one."""
    scheme = path.split("://", 1)[0] if "://" in path else "file"
    if scheme == "file":
        return LocalFileSystem()
    # Imported here, because obstore takes long to import, and local files do without it.
    from penstock._connectors.files.object_store import ObjectFileSystem

    return ObjectFileSystem()


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as formats see it (``InputFile``)."""

    path: str
    size: int

    @classmethod
    def of(cls, status: FileStatus) -> FoundFile:
        """Return what a listing has found."""
        return cls(status.path, status.size)

    def open(self) -> BinaryIO:
        """Open the file.

        Raises:
            SourceFileError: The file is gone or cannot be opened.
        """
        try:
            return filesystem_of(self.path).open(self.path)
        except FileNotFoundError:
            reason = (
                "it was deleted after the job had found it; put it back, or start the job without a checkpoint to look "
                "for files again"
            )
            raise SourceFileError(self.path, reason) from None
        except OSError as error:
            raise SourceFileError(
                self.path, f"{error.strerror or error}; check the path and its permissions"
            ) from error

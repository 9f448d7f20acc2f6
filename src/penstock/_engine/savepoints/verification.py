"""Checks that all files of a savepoint or checkpoint exist and are unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._engine.protocol.metadata import handles_of
from penstock._engine.savepoints.located import locate
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.savepoints.located import LocatedCheckpoint


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file that differs from what was written."""

    path: str
    #: A clause without a full stop.
    reason: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of verifying all files."""

    path: str
    #: The number of files that were read, without the metadata, and their original bytes.
    files: int
    bytes: int
    damaged: tuple[DamagedFile, ...]

    def check(self) -> None:
        """Raise an error for the first damaged file, if there is one.

        Raises:
            CorruptCheckpointError: It names the file.
        """
        for file in self.damaged:
            raise CorruptCheckpointError(file.path, file.reason)


def verify(path: str, options: Mapping[str, str] | None = None) -> Verification:
    """Read every file of a savepoint or checkpoint and compare it with its checksum.

    Args:
        path: The directory or its metadata file.
        options: Options of the object store.

    Raises:
        UnknownStateError: There is no savepoint or checkpoint at that path.
        CorruptCheckpointError: The metadata itself is damaged.
    """
    return verify_located(locate(path, options))


def verify_located(located: LocatedCheckpoint) -> Verification:
    """Verify an opened savepoint, as `verify` does."""
    # After a rescale several subtasks name one file.
    handles = {(handle.path, handle.inline): handle for handle in handles_of(located.entry.snapshot)}
    damaged: list[DamagedFile] = []
    for handle in handles.values():
        try:
            located.read(handle)
        except CorruptCheckpointError as error:
            damaged.append(DamagedFile(error.path, error.reason))
    files = [handle for handle in handles.values() if handle.path is not None]
    return Verification(located.path, len(files), sum(handle.size for handle in files), tuple(damaged))

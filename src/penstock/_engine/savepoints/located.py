"""Opens a savepoint or a checkpoint by its path: its chain entry, and its files, each checked when it is read."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.snapshots import map_handles
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind
from penstock._engine.protocol.metadata_document import document_format
from penstock._engine.protocol.paths import METADATA
from penstock._engine.state.files.integrity import check_intact
from penstock._engine.state.files.trust import ALL_CLASSES
from penstock._engine.storage.checkpoint_storage import entry_of, find_document
from penstock._engine.storage.opening import above, absolute, open_storage, without_links
from penstock.errors import CorruptCheckpointError, PenstockError, UnknownStateError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from penstock._engine.protocol.metadata import JobSnapshot
    from penstock._engine.protocol.state_handle import StateHandle
    from penstock._engine.state.files.trust import AllowedClasses
    from penstock._engine.storage.checkpoint_storage import FileStorage

#: The maximum number of names that a message lists of a directory without metadata.
_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class LocatedCheckpoint:
    """A chain entry, and the storage that the paths in it are relative to."""

    #: The directory, as shown to users.
    path: str
    storage: FileStorage
    entry: ChainEntry
    #: The size of the metadata in bytes.
    format: int
    #: The classes that values may have.
    classes: AllowedClasses = ALL_CLASSES

    @property
    def snapshot(self) -> JobSnapshot:
        """Return the state.

        Raises:
            UnknownStateError: The entry says that a job was taken over or ended, and holds none.
        """
        if self.entry.snapshot is None:
            raise UnknownStateError(self.path, "state", (f"a chain entry of the kind {self.entry.kind.value!r}",))
        return self.entry.snapshot

    def name_of(self, handle: StateHandle) -> str:
        """Return the name of a state file for messages."""
        if handle.path is None:
            return f"{self.path}/{METADATA} (state of checkpoint {handle.checkpoint_id} inside)"
        return self.storage.full_path(handle.path)

    def read(self, handle: StateHandle) -> bytes:
        """Return the bytes of a state file, after checking its checksum.

        Raises:
            CorruptCheckpointError: The file is damaged, truncated or missing.
        """
        data = handle.inline
        if data is None:
            assert handle.path is not None
            data = self.storage.read_sized(handle.path, handle.size)
        check_intact(data, handle, self.name_of(handle))
        return data


def locate(
    path: str, options: Mapping[str, str] | None = None, classes: AllowedClasses = ALL_CLASSES
) -> LocatedCheckpoint:
    """Open a savepoint or checkpoint.

    Args:
        path: Its directory or its metadata file: a local path or a URL.
        options: Options of the object store.
        classes: The classes that values may have.

    Raises:
        UnknownStateError: There is no savepoint or checkpoint at that path.
        CorruptCheckpointError: Its metadata is damaged.
        UnsupportedFormatError: It is in a format that this version does not read.
        CheckpointStorageError: The path cannot be read.
    """
    directory = absolute(path).removesuffix(f"/{METADATA}")
    storage = open_storage(directory, options)
    data = find_document(storage, METADATA)
    if data is None:
        names = storage.names("")
        known = (*names[:_SHOWN], *([f"{len(names) - _SHOWN} more names"] if len(names) > _SHOWN else []))
        raise UnknownStateError(
            directory, f"savepoint or checkpoint (no {METADATA} in it)", known or ("nothing at all",)
        )
    entry = entry_of(storage, METADATA, data)
    if entry.kind is not ChainEntryKind.SAVEPOINT:
        # A checkpoint names its files from the directory of all checkpoints.
        storage = open_storage(above(above(without_links(directory))[0])[0] or "/", options)
    return LocatedCheckpoint(directory, storage, entry, document_format(data), classes)


@contextlib.contextmanager
def decoding(path: str) -> Generator[None]:
    """Turn the exception of a decoder, raised for invalid bytes, into an error that names the savepoint.

    Raises:
        CorruptCheckpointError: The bytes are invalid.
    """
    try:
        yield
    except (PenstockError, OSError):
        raise
    except Exception as error:  # invalid bytes may raise any exception
        raise CorruptCheckpointError(path, f"it holds what cannot be ({type(error).__name__}: {error})") from error


def rebased(entry: ChainEntry, directory: str) -> ChainEntry:
    """Return a savepoint's entry with paths relative to the parent of its directory, as in checkpoints."""
    if entry.snapshot is None:
        return entry

    def change(handle: StateHandle) -> StateHandle:
        return handle if handle.path is None else replace(handle, path=f"{directory}/{handle.path}")

    return replace(entry, snapshot=map_handles(entry.snapshot, change))

"""The interface of checkpoint storage.

Tasks and the driver open the same storage; all paths are relative to its URL, with ``/`` between names. Every error is
a `CheckpointStorageError` that names the path and what happened, whatever the store below says.
"""

from __future__ import annotations

import secrets
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.metadata_document import decode_chain_entry, encode_chain_entry
from penstock._engine.protocol.signing import UNSIGNED, SigningKeys
from penstock._files.disk import first_missing, remove_empty
from penstock.errors import CheckpointStorageError, CorruptCheckpointError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from penstock._engine.protocol.metadata import ChainEntry


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a listing shows it."""

    path: str
    size: int
    #: When it was written, in epoch milliseconds by the store's clock.
    modified_ms: int


#: The maximum size of a chain entry; larger state is in files.
_MOST_BYTES: Final = 1 << 30


class FileStorage(ABC):
    """A directory or bucket that keeps checkpoints. Safe to use from several threads and processes."""

    #: Opens the same storage again in another process, together with the options.
    url: str
    #: How it was opened; others of its kind are opened so, too. They may contain secrets.
    options: Mapping[str, str] = MappingProxyType({})
    #: Sign and check the chain entries in it.
    keys: SigningKeys = UNSIGNED

    @abstractmethod
    def find(
        self, path: str, *, at_most: int | None = None, seen: dict[str, os.stat_result] | None = None
    ) -> bytes | None:
        """Return the bytes of a file, None when there is none; a file of more bytes than `at_most` is not read.

        Args:
            path: The file.
            at_most: The limit of its size in bytes.
            seen: Gets, on a local disk, the status of the file and of each directory above it by its path ("" for the
                root), of the very files whose bytes are returned: none can be exchanged between a check and the read.

        Raises:
            CheckpointStorageError: It cannot be read, or is larger.
        """

    @abstractmethod
    def read_sized(self, path: str, size: int) -> bytes:
        """Return the bytes of a file that has to be there with a certain size; any other one is not read.

        Raises:
            CorruptCheckpointError: It is gone, or has another size.
        """

    @abstractmethod
    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return a part of a file; raise CorruptCheckpointError if the file is missing or too short."""

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write a file, durable on return; a file of that name is replaced in one step."""

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file unless its name is taken; tell whether this call has written it.

        Of several calls for one path, in any processes, at most one ever returns True. After an error the outcome is
        unknown: the file may or may not have been written.
        """

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, in any order; missing ones are ignored."""

    @abstractmethod
    def names(self, directory: str) -> list[str]:
        """Return the names right below a directory ("" for the root), files and directories, sorted."""

    @abstractmethod
    def files(self, directory: str) -> list[StoredFile]:
        """Return all files below a directory, at any depth, sorted by path."""

    def read(self, path: str) -> bytes:
        """Return the bytes of a file that has to be there.

        Raises:
            CorruptCheckpointError: It is missing.
        """
        data = self.find(path)
        if data is None:
            raise CorruptCheckpointError(self.full_path(path), "it is gone")
        return data

    def is_link(self, path: str) -> bool:
        """Tell whether a file or directory is a link to another place: it is listed, and not followed."""
        return False

    def why_exposed(self, path: str) -> tuple[str, str] | None:
        """Return the full path and a clause where others than this user can change a file or directory; else None."""
        return None

    def copy_from(self, source: FileStorage, path: str, name: str, *, size: int | None = None) -> None:
        """Write a file of another storage under a name here, durable on return; if possible the store copies the bytes.

        Raises:
            CorruptCheckpointError: The file is gone, or has another size than one that is given.
        """
        self.put(name, source.read(path) if size is None else source.read_sized(path, size))

    def move(self, path: str, name: str) -> None:
        """Rename a file, durable on return; repeating it changes nothing. Most storages need no additional space.

        Raises:
            CorruptCheckpointError: No file has either name.
        """
        if self.find(path) is None and self.find(name) is not None:
            return
        self.copy_from(self, path, name)
        self.delete([path])

    def _check_size(self, path: str, found: int, size: int) -> None:
        if found != size:
            reason = f"it was cut off or replaced ({found} bytes are there, {size} were written)"
            raise CorruptCheckpointError(self.full_path(path), reason)

    def _check_most(self, path: str, found: int, at_most: int | None) -> None:
        if at_most is not None and found > at_most:
            raise CheckpointStorageError(self.full_path(path), f"it has {found} bytes, and {at_most} are read at most")

    def unfinished(self) -> list[StoredFile]:
        """Return the temporary files of killed writers at any depth, which listings leave out."""
        return []

    def full_path(self, path: str) -> str:
        """Return a path in full, for display."""
        return f"{self.url.rstrip('/')}/{path}" if path else self.url

    def lasting_path(self, path: str) -> str | None:
        """Return a path in full, for users; None where the storage goes with the job."""
        return self.full_path(path)

    def wait_for_answers(self) -> None:  # noqa: B027 - most storages answer at once, or never
        """Note that the storage is there, so that an outage is waited for: the driver has probed it."""

    def why_absent(self) -> str | None:
        """Return why this host does not have the storage that the driver has probed, a clause; None where it does."""
        return None

    def probe(self) -> None:
        """Check that the storage can be written to and that a second conditional put fails; nothing of it stays.

        Raises:
            CheckpointStorageError: It cannot be used, or conditional puts do not work, so that two drivers could both
                commit.
        """
        new = first_missing(self.full_path(""))
        try:
            self._check_conditional_put()
        finally:
            if new is not None:  # perhaps a mistake: no start has said yet that it is the place
                remove_empty(new)

    def _check_conditional_put(self) -> None:
        path = f".probe-{secrets.token_hex(8)}"
        self.put_if_absent(path, b"1")  # False if the first answer was lost and the retry finds the file
        try:
            if self.put_if_absent(path, b"2") or self.find(path) != b"1":
                reason = "it does not refuse to overwrite a file in a conditional put, which checkpoints rely on"
                raise CheckpointStorageError(self.url, reason)
        finally:
            self.delete([path])


def find_document(storage: FileStorage, path: str, seen: dict[str, os.stat_result] | None = None) -> bytes | None:
    """Return the bytes of an entry, None when there is none."""
    return storage.find(path, at_most=_MOST_BYTES, seen=seen)


def find_entry(storage: FileStorage, path: str, seen: dict[str, os.stat_result] | None = None) -> ChainEntry | None:
    """Return an entry, None when there is none.

    Raises:
        CorruptCheckpointError: It is damaged.
        SignatureError: The storage has keys, and none of them has signed the entry.
    """
    data = find_document(storage, path, seen)
    return None if data is None else entry_of(storage, path, data)


def entry_of(storage: FileStorage, path: str, data: bytes) -> ChainEntry:
    """Return the entry that a file of a storage holds; raises as `find_entry` does."""
    return decode_chain_entry(data, storage.full_path(path), storage.keys)


def document_of(storage: FileStorage, entry: ChainEntry) -> bytes:
    """Return the document of an entry that is to be put into a storage."""
    return encode_chain_entry(entry, storage.keys)


#: The number of files that are copied at the same time.
_THREADS: Final = 8


def copy_files(
    source: FileStorage,
    target: FileStorage,
    files: Iterable[tuple[str, str]],
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Copy files, each from its path in one storage to its name in the other; all of them are durable on return.

    Args:
        source: Has them.
        target: Gets them.
        files: Paths there and names here.
        sizes: By path: the bytes that a file is to have. It is not copied when it has more or fewer.

    Raises:
        CorruptCheckpointError: A file is gone, or has another size.
        CheckpointStorageError: A storage cannot be used. Files that were copied before stay.
    """
    waiting = list(files)
    copying = _Copying(source, target, iter(waiting), sizes or {})
    # Daemons, as all threads of a driver: a program that ends does not wait for a store that hangs.
    threads = [threading.Thread(target=copying.run, daemon=True) for _ in range(min(_THREADS, len(waiting)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if copying.error is not None:
        raise copying.error


class _Copying:
    """The state that the threads of one copy share."""

    def __init__(
        self,
        source: FileStorage,
        target: FileStorage,
        files: Iterator[tuple[str, str]],
        sizes: Mapping[str, int],
    ) -> None:
        self._sizes = sizes
        self._source = source
        self._target = target
        self._files = files
        self._lock = threading.Lock()
        self.error: Exception | None = None

    def run(self) -> None:
        while (file := self._next()) is not None:
            try:
                self._target.copy_from(self._source, *file, size=self._sizes.get(file[0]))
            except Exception as error:  # noqa: BLE001 - whatever the store raises, the caller of copy_files gets it
                with self._lock:
                    self.error = self.error or error

    def _next(self) -> tuple[str, str] | None:
        with self._lock:
            return None if self.error is not None else next(self._files, None)

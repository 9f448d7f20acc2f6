"""Object stores: ``s3://``, ``gs://``, ``az://`` and what else obstore knows; credentials come from the environment."""

from __future__ import annotations

import fnmatch
import io
import tempfile
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import urlsplit

import obstore
from obstore.store import from_url

from penstock._connectors.files.filesystem import MAGIC, FileStatus, is_hidden, is_passed_over

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from obstore import ReadableFile

_IN_MEMORY_BYTES = 16 * 1024 * 1024
_READ_BYTES = 8 * 1024 * 1024


class _RawObject(io.RawIOBase):
    """An object as Python's buffered readers want it."""

    def __init__(self, reader: ReadableFile) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        data = self._reader.read(len(view))
        view[: len(data)] = memoryview(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell()


class ObjectFileSystem:
    """Objects as files: a folder is a common prefix, and writing an object is one step anyway."""

    status_is_cheap = False

    def find(self, path: str) -> list[FileStatus]:
        """Return the objects that a key, prefix or glob stands for."""
        root, key = _split(path)
        prefix = key
        if any(sign in key for sign in MAGIC):
            prefix = key[: min(key.find(sign) for sign in MAGIC if sign in key)].rpartition("/")[0]
        found = [status for status in self._list(root, prefix) if _belongs(_split(status.path)[1], key)]
        if not found:
            raise FileNotFoundError(path)
        return sorted(found, key=lambda status: status.path)

    def _list(self, root: str, prefix: str) -> Iterator[FileStatus]:
        store = _store(root)
        try:
            yield _status(root, obstore.head(store, prefix))
        except (FileNotFoundError, ValueError):
            for batch in obstore.list(store, prefix or None):  # pyright: ignore[reportUnknownMemberType]
                yield from (_status(root, meta) for meta in batch)

    def open(self, path: str) -> BinaryIO:
        """Open an object for reading."""
        root, key = _split(path)
        return cast("BinaryIO", io.BufferedReader(_RawObject(obstore.open_reader(_store(root), key)), _READ_BYTES))

    def create(self, path: str) -> BinaryIO:
        """Open a new object for writing; nothing is there before ``finish``."""
        del path
        return cast("BinaryIO", tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES))

    def finish(self, path: str, stream: BinaryIO) -> None:
        """Upload what was written."""
        root, key = _split(path)
        with stream:
            stream.seek(0)
            obstore.put(_store(root), key, stream)

    def publish(self, staged: Sequence[str], target: str) -> bool:
        """Copy a single object, upload several as one; two committers would write the same bytes."""
        root, key = _split(target)
        store = _store(root)
        if self.size_of(target) is not None:
            return False
        try:
            if len(staged) == 1:
                obstore.copy(store, _split(staged[0])[1], key)
            else:
                _concatenate(store, [_split(path)[1] for path in staged], key)
        except FileNotFoundError:
            return False
        return True

    def duplicate(self, path: str, target: str) -> bool:
        """Copy an object within its bucket."""
        if _split(path)[0] != _split(target)[0]:
            return False
        if not self.publish([path], target):
            raise FileNotFoundError(path)
        return True

    def status(self, path: str) -> FileStatus:
        """Return how an object is now."""
        root, key = _split(path)
        return _status(root, obstore.head(_store(root), key))

    def size_of(self, path: str) -> int | None:
        """Return the length of an object in bytes, None when it is not there."""
        root, key = _split(path)
        try:
            return obstore.head(_store(root), key)["size"]
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> None:
        """Delete an object, if it is there."""
        root, key = _split(path)
        try:
            obstore.delete(_store(root), key)
        except FileNotFoundError:
            return

    def hidden_files(self, folder: str) -> Iterator[FileStatus]:
        """List the objects below a prefix whose last part begins with a dot."""
        for status in self._list(*_split(folder)):
            if status.path.rpartition("/")[2].startswith("."):
                yield status


def _concatenate(store: Any, keys: list[str], target: str) -> None:
    """Upload several objects as one, which appears when all of it is there."""
    readers = [obstore.open_reader(store, key) for key in keys]  # all of them, before the upload begins
    with obstore.open_writer(store, target) as writer:
        for reader in readers:
            while len(data := reader.read(_READ_BYTES)):
                writer.write(data)


def _split(path: str) -> tuple[str, str]:
    """Return the root of the store, and the key in it."""
    parts = urlsplit(path)
    return f"{parts.scheme}://{parts.netloc}", path.removeprefix(f"{parts.scheme}://{parts.netloc}").strip("/")


@lru_cache(maxsize=32)
def _store(root: str) -> Any:
    return from_url(root)


def _status(root: str, meta: Any) -> FileStatus:
    changed_ms = int(meta["last_modified"].timestamp() * 1000)
    return FileStatus(f"{root}/{meta['path']}", meta["size"], changed_ms, meta["e_tag"])


def _belongs(key: str, wanted: str) -> bool:
    """Tell whether an object is what was asked for, is below it, or matches it as a glob."""
    if key == wanted:
        return True
    if key.startswith(f"{wanted}/") or not wanted:
        below = key[len(wanted) :].strip("/").split("/")
        return not any(map(is_hidden, below))
    return fnmatch.fnmatchcase(key, wanted) and not is_passed_over(key, wanted)

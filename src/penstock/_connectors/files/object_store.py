"""Object stores: ``s3://``, ``gs://``, ``az://`` and the others of obstore; credentials come from the environment."""

from __future__ import annotations

import errno
import fnmatch
import io
import tempfile
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import obstore
from obstore.store import from_url

from penstock._connectors.files.filesystem import MAGIC, FileStatus, is_hidden, is_passed_over, pass_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from obstore import ReadableFile

_IN_MEMORY_BYTES = 16 * 1024 * 1024
_READ_BYTES = 8 * 1024 * 1024
#: The bytes that a parked file may keep in memory.
_PARKED_BYTES = 256 * 1024
#: The largest number of parts of one upload; S3 allows 10,000.
_MOST_PARTS = 9000
_PARTS_AT_ONCE = 6


class _RawObject(io.RawIOBase):
    """An object as a raw stream for Python's buffered readers."""

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
    """Objects as files: a folder is a common prefix, and an object is written atomically.

    Args:
        largest_copy: The largest object in bytes that the store copies in one request, 5 GiB in S3. Larger ones are
            copied through this process, in parts.
    """

    status_is_cheap = False

    def __init__(self, largest_copy: int = 5 << 30) -> None:
        self._largest_copy = largest_copy

    def find(self, path: str, skip: Callable[[str, str], None] = pass_over) -> list[FileStatus]:
        """Return the objects of a key, prefix or glob."""
        del skip  # everything that is listed is an object
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

    def open_again(self, found: FileStatus) -> BinaryIO:
        """Open the object; stores do not rename objects."""
        return self.open(found.path)

    def create(self, path: str) -> BinaryIO:
        """Open a new object for writing, which exists after ``finish``."""
        del path
        return cast("BinaryIO", tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES))

    def finish(self, path: str, stream: BinaryIO) -> None:
        """Upload the written bytes."""
        root, key = _split(path)
        with stream:
            stream.seek(0)
            obstore.put(_store(root), key, stream)

    def park(self, stream: BinaryIO) -> bool:
        """Keep a small file in memory; a larger one is better uploaded."""
        return stream.tell() <= _PARKED_BYTES

    def unpark(self, path: str, stream: BinaryIO, size: int) -> BinaryIO:
        """Return the stream."""
        del path, size
        return stream

    def twin(self, folder: str) -> str | None:
        """Return None, because stores distinguish all names."""
        del folder

    def publish(self, staged: Sequence[str], target: str) -> bool:
        """Copy a single object, upload several as one; two committers would write the same bytes."""
        root, key = _split(target)
        store = _store(root)
        if self.size_of(target) is not None:
            return False
        keys = [_split(path)[1] for path in staged]
        try:
            size = sum(obstore.head(store, each)["size"] for each in keys)
            if len(keys) == 1 and size <= self._largest_copy:
                obstore.copy(store, keys[0], key)
            else:
                _concatenate(store, keys, key, size)
        except FileNotFoundError:
            return False
        # A store may report success wrongly, and the staged objects are deleted next.
        if (found := self.size_of(target)) != size:
            raise OSError(errno.EIO, f"the store took {size} bytes and has {'none' if found is None else found}")
        return True

    def duplicate(self, path: str, target: str) -> bool:
        """Copy an object within its bucket."""
        if _split(path)[0] != _split(target)[0]:
            return False
        if not self.publish([path], target):
            raise FileNotFoundError(path)
        return True

    def status(self, path: str) -> FileStatus:
        """Return the current status of an object."""
        root, key = _split(path)
        return _status(root, obstore.head(_store(root), key))

    def size_of(self, path: str) -> int | None:
        """Return the length of an object in bytes; None if it does not exist."""
        root, key = _split(path)
        try:
            return obstore.head(_store(root), key)["size"]
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> None:
        """Delete an object if it exists."""
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


def _concatenate(store: Any, keys: list[str], target: str, size: int) -> None:
    """Upload objects as one, which appears when it is complete."""
    part_bytes = max(_READ_BYTES, -(-size // _MOST_PARTS))
    with obstore.open_writer(store, target, buffer_size=part_bytes, max_concurrency=_PARTS_AT_ONCE) as writer:
        written = 0
        for key in keys:
            reader = obstore.open_reader(store, key)  # one at a time: each keeps what it has read ahead
            while len(data := reader.read(_READ_BYTES)):
                writer.write(data)
                written += len(data)
        if written != size:
            raise OSError(errno.EIO, f"{written} bytes were read, and there were {size}")


def _split(path: str) -> tuple[str, str]:
    """Return the root of the store, and the key in it."""
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key.strip("/")


@lru_cache(maxsize=32)
def _store(root: str) -> Any:
    return from_url(root)


def _status(root: str, meta: Any) -> FileStatus:
    changed_ms = int(meta["last_modified"].timestamp() * 1000)
    return FileStatus(f"{root}/{meta['path']}", meta["size"], changed_ms, meta["e_tag"])


def _belongs(key: str, wanted: str) -> bool:
    """Tell whether an object has the wanted key, is below it, or matches it as a glob."""
    if key == wanted:
        return True
    if key.startswith(f"{wanted}/") or not wanted:
        below = key[len(wanted) :].strip("/").split("/")
        return not any(map(is_hidden, below))
    return fnmatch.fnmatchcase(key, wanted) and not is_passed_over(key, wanted)

"""Object stores: ``s3://``, ``gs://``, ``az://`` and the others of obstore, reached as `stores` says."""

from __future__ import annotations

import errno
import fnmatch
import io
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import obstore
from obstore.exceptions import BaseError, InvalidPathError, PermissionDeniedError

from penstock._connectors.files.filesystem import (
    MAGIC,
    FileStatus,
    bytes_of,
    is_hidden,
    is_passed_over,
    lines_in,
    pass_over,
)
from penstock._connectors.files.stores import store_of
from penstock._files.stores import bucket_and_key

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from obstore import ReadableFile

#: The bytes of an open file that stay in memory: a writer may have hundreds open.
_IN_MEMORY_BYTES = 1024 * 1024
_READ_BYTES = 8 * 1024 * 1024
#: The bytes that a parked file may keep in memory.
_PARKED_BYTES = 256 * 1024
#: The largest number of parts of one upload; S3 allows 10,000.
_MOST_PARTS = 9000
#: Bytes of an upload that are on their way at once, and in memory.
_SENT_BYTES = 6 * _READ_BYTES


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
        with _translating_errors():
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
        root, key = bucket_and_key(path)
        prefix = key
        if any(sign in key for sign in MAGIC):
            prefix = key[: min(key.find(sign) for sign in MAGIC if sign in key)].rpartition("/")[0]
        with _translating_errors():
            found = [status for status in self._list(root, prefix) if _belongs(bucket_and_key(status.path)[1], key)]
        if not found:
            raise FileNotFoundError(path)
        return sorted(found, key=lambda status: status.path)

    def _list(self, root: str, prefix: str) -> Iterator[FileStatus]:
        store = store_of(root)
        try:
            yield _status(root, obstore.head(store, prefix))
        except (FileNotFoundError, ValueError):
            for batch in obstore.list(store, prefix or None):  # pyright: ignore[reportUnknownMemberType]
                yield from (_status(root, meta) for meta in batch)

    def open(self, path: str) -> BinaryIO:
        """Open an object for reading."""
        root, key = bucket_and_key(path)
        with _translating_errors():
            reader = obstore.open_reader(store_of(root), key)
        return cast("BinaryIO", io.BufferedReader(_RawObject(reader), _READ_BYTES))

    def open_again(self, found: FileStatus) -> BinaryIO:
        """Open the object; stores do not rename objects."""
        return self.open(found.path)

    def create(self, path: str) -> BinaryIO:
        """Open a new object for writing, which exists after ``finish``."""
        del path
        return cast("BinaryIO", tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES))

    def finish(self, path: str, stream: BinaryIO) -> None:
        """Upload the written bytes."""
        root, key = bucket_and_key(path)
        with stream:
            size = stream.seek(0, io.SEEK_END)
            stream.seek(0)
            part_bytes, at_once = _parts(size)
            obstore.put(store_of(root, size), key, stream, chunk_size=part_bytes, max_concurrency=at_once)

    def park(self, stream: BinaryIO) -> int | None:
        """Keep a small file in memory; a larger one is better uploaded."""
        size = stream.tell()
        return size if size <= _PARKED_BYTES else None

    def unpark(self, path: str, stream: BinaryIO, size: int) -> BinaryIO:
        """Return the stream."""
        del path, size
        return stream

    def case_collision(self, folder: str) -> str | None:
        """Return None, because stores distinguish all names."""
        del folder

    def publish(self, staged: Sequence[str], target: str) -> bool:
        """Copy a single object, upload several as one; two committers would write the same bytes."""
        if self.size_of(target) is not None:
            return False
        sizes = [self.size_of(path) for path in staged]
        if None in sizes:
            return False
        size = sum(filter(None, sizes))
        failure = self._make(staged, target, size)
        found = self.size_of(target)
        if found == size:  # the store may have finished although its answer was late or lost
            return True
        if failure is not None and found is None and any(self.size_of(path) is None for path in staged):
            return False  # another committer is done with them
        has = "none" if found is None else found
        reason = f"the store took {size} bytes and has {has}" if failure is None else str(failure).partition("\n")[0]
        raise OSError(errno.EIO, reason) from failure

    def _make(self, staged: Sequence[str], target: str, size: int) -> Exception | None:
        """Make one object from others, and return the store's error, which may be wrong."""
        root, key = bucket_and_key(target)
        keys = [bucket_and_key(path)[1] for path in staged]
        try:
            if len(keys) == 1 and size <= self._largest_copy:
                obstore.copy(store_of(root, size), keys[0], key)
            else:
                _concatenate(root, keys, key, size)
        except (BaseError, OSError) as error:
            return error
        return None

    def duplicate(self, path: str, target: str) -> bool:
        """Copy an object within its bucket."""
        if bucket_and_key(path)[0] != bucket_and_key(target)[0]:
            return False
        if not self.publish([path], target):
            raise FileNotFoundError(path)
        return True

    def status(self, path: str) -> FileStatus:
        """Return the current status of an object."""
        root, key = bucket_and_key(path)
        with _translating_errors():
            return _status(root, obstore.head(store_of(root), key))

    def size_of(self, path: str) -> int | None:
        """Return the length of an object in bytes; None if it does not exist."""
        root, key = bucket_and_key(path)
        try:
            return obstore.head(store_of(root), key)["size"]
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> None:
        """Delete an object if it exists."""
        root, key = bucket_and_key(path)
        try:
            obstore.delete(store_of(root), key)
        except FileNotFoundError:
            return

    def add_line(self, path: str, line: str) -> None:
        """Put the object anew, with the line."""
        self.change_lines(path, lambda lines: [*lines, line])

    def change_lines(self, path: str, change: Callable[[list[str]], list[str]]) -> None:
        """Get the object and put it."""
        root, key = bucket_and_key(path)
        lines = change(self.lines_of(path))
        with _translating_errors():
            obstore.put(store_of(root), key, bytes_of(lines))

    def lines_of(self, path: str) -> list[str]:
        """Get the object."""
        root, key = bucket_and_key(path)
        with _translating_errors():
            try:
                data = obstore.get(store_of(root), key).bytes()
            except (FileNotFoundError, PermissionDeniedError):  # S3 says so where there is none, and no right to list
                return []
        return lines_in(bytes(data))

    def folders_above(self, folder: str) -> list[str]:
        """Return the prefix and those above it, with the bucket."""
        root, key = bucket_and_key(folder)
        parts = key.split("/") if key else []
        return ["/".join([root, *parts[:count]]) for count in range(len(parts), -1, -1)]

    def notes(self, folder: str, ending: str) -> dict[str, list[str]]:
        """Return none, because all names of the folder would have to be listed."""
        del folder, ending
        return {}

    def hidden_files(self, folder: str) -> Iterator[FileStatus]:
        """List the objects below a prefix whose last part begins with a dot."""
        for status in self._list(*bucket_and_key(folder)):
            if status.path.rpartition("/")[2].startswith("."):
                yield status


@contextmanager
def _translating_errors() -> Generator[None]:
    """Translate what a store's client says into errors of a file system."""
    try:
        yield
    except InvalidPathError as error:
        reason = (
            f"the store has a key that its client cannot name ({_said(error)}): it has an empty part, a dot as a part "
            "or a control character; rename the object, or read a folder without it"
        )
        raise OSError(errno.EINVAL, reason) from None
    except BaseError as error:
        raise OSError(errno.EIO, _said(error)) from error


def _said(error: Exception) -> str:
    """Return what a client says, on one line and without its own source."""
    return str(error).partition("\n\nDebug source")[0].replace("\n", "\\n")


def _parts(size: int) -> tuple[int, int]:
    """Return the size of an upload's parts, and the number of parts that are sent at once."""
    part_bytes = max(_READ_BYTES, -(-size // _MOST_PARTS))
    return part_bytes, max(1, _SENT_BYTES // part_bytes)


def _concatenate(root: str, keys: list[str], target: str, size: int) -> None:
    """Upload objects as one, which appears when it is complete."""
    part_bytes, at_once = _parts(size)
    store = store_of(root)
    with obstore.open_writer(store_of(root, size), target, buffer_size=part_bytes, max_concurrency=at_once) as writer:
        written = 0
        for key in keys:
            reader = obstore.open_reader(store, key)  # one at a time, because each keeps a buffer
            while len(data := reader.read(_READ_BYTES)):
                writer.write(data)
                written += len(data)
        if written != size:
            raise OSError(errno.EIO, f"{written} bytes were read, and there were {size}")


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

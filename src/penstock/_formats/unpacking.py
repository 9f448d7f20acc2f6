"""Decompresses files while they are read, if their names say that they are compressed.

A file may consist of several concatenated archives. A truncated archive is an error, and so is anything else behind one
but zeros; an empty file has no records.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from penstock._formats.parts import InputFile


_READ_BYTES: Final = 64 * 1024


class _Archives(io.RawIOBase):
    """The bytes of concatenated archives; Python's own readers of them pass over a damaged one behind the first.

    Args:
        stream: The file.
        make: Makes the decompressor of an archive.
    """

    def __init__(self, stream: BinaryIO, make: Callable[[], Any]) -> None:
        self._stream, self._make = stream, make
        self._archive = make()
        #: What was read of the file and is not unpacked yet.
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        size = len(buffer)
        while not self._archive.eof or self._begin_next():
            data = self._archive.decompress(self._packed(), size)
            if data:
                buffer[: len(data)] = data
                return len(data)
        return 0

    def _packed(self) -> bytes:
        """Return the next bytes of the archive; none while it can give more of what it had."""
        packed, self._waiting = self._waiting, b""
        if not packed and self._archive.needs_input:
            packed = self._stream.read(_READ_BYTES)
            if not packed:
                raise EOFError("it ends within an archive")
        return packed

    def _begin_next(self) -> bool:
        """Go to the next archive, behind zeros that fill up the last one; tell whether there is one."""
        waiting: bytes = self._archive.unused_data.lstrip(b"\0")
        while not waiting:
            data = self._stream.read(_READ_BYTES)
            if not data:
                return False
            waiting = data.lstrip(b"\0")
        self._archive, self._waiting = self._make(), waiting
        return True


def _open_archives(make: Callable[[], Any], stream: BinaryIO) -> io.BufferedReader:
    return io.BufferedReader(_Archives(stream, make), _READ_BYTES)


def _open_zstd(stream: Any) -> Any:
    # Imported here: Arrow takes long to import, and Python's own library has had Zstandard since 3.14 only.
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd")


_DECOMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": gzip.open,
    ".gzip": gzip.open,
    ".bz2": partial(_open_archives, bz2.BZ2Decompressor),
    ".xz": partial(_open_archives, lzma.LZMADecompressor),
    ".zst": _open_zstd,
}


def is_compressed(path: str) -> bool:
    """Tell whether a file is compressed, so that it cannot be cut."""
    return PurePosixPath(path).suffix.lower() in _DECOMPRESSORS


@contextmanager
def open_unpacked(file: InputFile) -> Generator[BinaryIO]:
    """Open a file, and decompress it if its name says that it is compressed.

    Raises:
        SourceFileError: The file cannot be opened, or, inside of the block, not be unpacked.
    """
    unpack = _DECOMPRESSORS.get(PurePosixPath(file.path).suffix.lower())
    with file.open() as stream:
        if unpack is None or file.size == 0:
            yield stream
            return
        try:
            with unpack(stream) as unpacked:
                yield unpacked
        except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # an error of the disk or the network
                raise
            reason = f"it cannot be unpacked ({error}); repair the file, or give it a name without this suffix"
            raise SourceFileError(file.path, reason) from error

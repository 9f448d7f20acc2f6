"""Decompresses files while they are read, if their names say that they are compressed.

A file may consist of several concatenated archives. A truncated archive is an error; an empty file has no records.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from penstock._formats.parts import InputFile


def _open_zstd(stream: Any) -> Any:
    # Imported here: Arrow takes long to import, and Python's own library has had Zstandard since 3.14 only.
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd")


_DECOMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": gzip.open,
    ".gzip": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
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

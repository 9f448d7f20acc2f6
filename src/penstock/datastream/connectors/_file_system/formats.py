"""How a file becomes records: the formats of the file source.

A format is a description that is pickled with the job. Reading is a generator of blocks, each with the position behind
it; to go on from a snapshot is to read the same part again from such a position.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Protocol

from penstock.common.typeinfo import Types
from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from penstock.common.typeinfo import TypeInformation

_CHUNK_BYTES = 256 * 1024
_DECOMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": gzip.open,
    ".gzip": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}


class InputFile(Protocol):
    """A file to read, wherever it is."""

    @property
    def path(self) -> str:
        """The path, as a person would write it."""
        ...

    @property
    def size(self) -> int:
        """The length in bytes, as it was when the file was found."""
        ...

    def open(self) -> BinaryIO:
        """Open the file; it can seek.

        Raises:
            SourceFileError: The file is gone or cannot be opened.
        """
        ...


@dataclass(frozen=True, slots=True)
class FilePart:
    """The part of a file that one split covers, and how far it was read.

    Args:
        start: Where the part begins, in the units of the format: bytes, row groups.
        end: Where the next part begins.
        size: About how many bytes it has.
        position: What the format gave with the last block that counts; None when none does.
    """

    start: int
    end: int
    size: int
    position: int | None = None


class FileFormat(ABC):
    """How the bytes of a file become records; the base of stream formats and bulk formats.

    Example:
        >>> class Bytes(FileFormat):
        ...     def read(self, file, part):
        ...         with file.open() as stream:
        ...             stream.seek(part.position or part.start)
        ...             yield list(stream.read()), part.end

    Attributes:
        emits_new_records: True where each record is made anew, and neither kept nor changed afterwards; see
            ``SourceReader``.
    """

    emits_new_records: ClassVar[bool] = False

    def cut(self, file: InputFile, part_size: int) -> list[FilePart]:
        """Return the parts of a file that may be read independently; runs on the driver.

        Args:
            file: The file.
            part_size: How long a part should be, in bytes.

        Raises:
            SourceFileError: The file can be seen to be corrupt.
        """
        del part_size
        return [FilePart(0, file.size, file.size)]

    @abstractmethod
    def read(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        """Read a part, from its position on: blocks of some thousand records, each with the position after it.

        Raises:
            SourceFileError: The file is gone, changed or corrupt; the error names what to do.
        """

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records, None when there is none."""
        return None

    @property
    def holds_produced_type(self) -> bool:
        """Whether the format makes each record by that type, so that no record has to be held to it once more."""
        return False


class StreamFormat(FileFormat):
    """A format that is read from the beginning to the end, such as lines of text.

    Source: ``pyflink.datastream.connectors.file_system.StreamFormat``.
    """

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        r"""Return the format whose records are lines, without their ``\n`` or ``\r\n``.

        Files that end in ``.gz``, ``.bz2`` or ``.xz`` are unpacked. The others are read in parallel, in parts.

        Args:
            charset_name: The charset of the files.

        Raises:
            LookupError: There is no such charset.
        """
        return _TextLineFormat(codecs.lookup(charset_name).name)


class BulkFormat(FileFormat):
    """A format that is read in batches, such as Parquet.

    Source: ``pyflink.datastream.connectors.file_system.BulkFormat``.
    """


@dataclass(frozen=True)
class _TextLineFormat(StreamFormat):
    emits_new_records = True
    charset: str

    def cut(self, file: InputFile, part_size: int) -> list[FilePart]:
        if is_compressed(file.path) or not self._line_feed_is_one_byte():
            return super().cut(file, part_size)
        return cut_evenly(file.size, part_size)

    def read(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        if not self._line_feed_is_one_byte():
            return self._read_wide(file, part)
        return self._read_lines(file, part)

    def _read_lines(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        for data, position in read_lines(file, part):
            try:
                text = data.decode(self.charset)
            except UnicodeDecodeError as error:
                raise self._wrong_charset(file, position - len(data) + error.start) from None
            lines = text.split("\n")
            if not lines[-1]:
                lines.pop()
            if "\r" in text:
                lines = [line.removesuffix("\r") for line in lines]
            yield lines, position

    def _read_wide(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        """Read UTF-16 and the like: whole files, a line feed is no single byte; positions count lines."""
        with open_unpacked(file) as stream, io.TextIOWrapper(stream, self.charset, newline="\n") as text:
            position = 0
            try:
                while lines := text.readlines(_CHUNK_BYTES):
                    begin = max(0, (part.position or 0) - position)
                    position += len(lines)
                    if begin < len(lines):
                        yield [line.removesuffix("\n").removesuffix("\r") for line in lines[begin:]], position
            except UnicodeDecodeError as error:
                raise self._wrong_charset(file, error.start) from None

    def _line_feed_is_one_byte(self) -> bool:
        return "\n".encode(self.charset) == b"\n"

    def _wrong_charset(self, file: InputFile, offset: int) -> SourceFileError:
        reason = (
            f"its bytes from {offset} on are no {self.charset}; give the file's charset to text_line_format(), or "
            "repair the file"
        )
        return SourceFileError(file.path, reason)

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()

    @property
    def holds_produced_type(self) -> bool:
        return True


def is_compressed(path: str) -> bool:
    """Tell whether a file is unpacked while it is read, and so cannot be cut."""
    return PurePosixPath(path).suffix.lower() in _DECOMPRESSORS


@contextmanager
def open_unpacked(file: InputFile) -> Generator[BinaryIO]:
    """Open a file, and unpack it on the way when its name says that it is compressed."""
    unpack = _DECOMPRESSORS.get(PurePosixPath(file.path).suffix.lower())
    with file.open() as stream:
        if unpack is None:
            yield stream
        else:
            with unpack(stream) as unpacked:
                yield unpacked


def cut_evenly(size: int, part_size: int) -> list[FilePart]:
    """Cut a length into parts of about the same size, none larger than wanted; an empty file has none."""
    parts = -(-size // part_size)
    bounds = [size * part // parts for part in range(parts + 1)] if parts else []
    return [FilePart(start, end, end - start) for start, end in pairwise(bounds)]


class RecordBounds(Protocol):
    """Knows where records end that may have several lines."""

    def whole(self, data: bytes) -> int:
        """Return how many bytes of a text that begins with a record are whole records."""
        ...

    def may_end(self, line: bytes) -> bool:
        """Tell whether a record that began in a line before may end in this one."""
        ...


def read_lines(file: InputFile, part: FilePart, bounds: RecordBounds | None = None) -> Iterator[tuple[bytes, int]]:
    r"""Read the lines that begin in a part, as blocks of whole lines with the byte position after each.

    A line belongs to the part in which its first byte stands; the last one may reach beyond the part's end. The end of
    a compressed file is not known in advance, so such a file is one part, read until there is no more.

    Args:
        file: The file.
        part: What to read of it, and from where on.
        bounds: Tells where records end, where one may have several lines.
    """
    end = None if is_compressed(file.path) else part.end
    with open_unpacked(file) as stream:
        try:
            position = _first_line(stream, part.start) if part.position is None else part.position
            stream.seek(position)
            while end is None or position < end:
                data = stream.read(_CHUNK_BYTES if end is None else min(_CHUNK_BYTES, end - position))
                if not data:
                    break
                if not data.endswith(b"\n"):
                    data += stream.readline()
                if bounds is not None:
                    data += _rest_of_record(file, stream, data, position, bounds)
                position += len(data)
                yield data, position
        except (EOFError, lzma.LZMAError, gzip.BadGzipFile, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = f"it cannot be unpacked ({error}); repair the file, or give it a name without this suffix"
            raise SourceFileError(file.path, reason) from error
    if end is not None and position < end:
        reason = (
            f"it ends at byte {position}, but had {file.size} bytes when the job found it; files must not change while "
            "a job reads them"
        )
        raise SourceFileError(file.path, reason)


def _rest_of_record(file: InputFile, stream: BinaryIO, data: bytes, position: int, bounds: RecordBounds) -> bytes:
    """Return the lines up to the end of the record in the midst of which some lines end; nothing where none is cut."""
    cut = bounds.whole(data)
    begun, known = bytearray(data[cut:]), len(data) - cut
    while begun:
        line = stream.readline()
        if not line:
            reason = (
                f"a quote that opens after byte {position + cut} never closes; repair the file, or disable its quotes"
            )
            raise SourceFileError(file.path, reason)
        begun += line
        if bounds.may_end(line) and bounds.whole(bytes(begun)) == len(begun):
            break
    return bytes(begun[known:])


def _first_line(stream: BinaryIO, start: int) -> int:
    """Return where the first line begins that does not begin before ``start``."""
    if start == 0:
        return 0
    stream.seek(start - 1)
    return start - 1 + len(stream.readline())

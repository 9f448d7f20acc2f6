r"""Cuts files into blocks of whole lines.

A line ends with ``\n``, ``\r\n`` or ``\r``, as in Python's text files and Java's readers. It belongs to the part of a
file with its first byte; the last line of a part may reach beyond the part's end.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, Protocol

from penstock._formats import parts
from penstock._formats.charsets import decoded, skip_mark
from penstock._formats.unpacking import is_compressed, open_unpacked
from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._formats.parts import FilePart, InputFile

CHUNK_BYTES = 256 * 1024
LINE_END: Final = re.compile(rb"\r\n?|\n")


class Lines(NamedTuple):
    """A block of whole lines without a byte order mark, and its start and end in the file."""

    data: bytes
    begin: int
    end: int


class RecordBounds(Protocol):
    """Finds the ends of records that may have several lines."""

    def whole(self, data: bytes) -> int:
        """Return the length of the whole records at the beginning of a text, in bytes."""
        ...

    def may_end(self, line: bytes) -> bool:
        """Tell whether a record from an earlier line may end in this one."""
        ...


def read_lines(file: InputFile, part: FilePart, charset: str, bounds: RecordBounds | None = None) -> Iterator[Lines]:
    """Read the lines that begin in a part.

    The end of a compressed file is not known in advance, so such a file is one part, read until there is no more.

    Args:
        file: The file.
        part: The part to read, with its position.
        charset: Its charset, in which a line feed is one byte.
        bounds: Finds the ends of records, if a record may have several lines.

    Raises:
        SourceFileError: The file is gone, changed, cannot be unpacked, ends within a record, or has too long a one.
    """
    end = None if is_compressed(file.path) else part.end
    with open_unpacked(file) as stream:
        ahead = _at_first_line(file, stream, part, compressed=end is None)
        begin = ahead.position
        if begin == 0:
            ahead.fill(4)
            ahead.drop(skip_mark(file, charset, bytes(ahead.waiting[:4])))
        while end is None or begin < end:
            # A line that begins with the mark begins at 0, also where a part ends within the mark.
            wanted = CHUNK_BYTES if end is None else min(CHUNK_BYTES, max(1, end - ahead.position))
            ahead.fill(wanted)
            if not ahead.waiting:
                begin = ahead.position
                break
            is_last = end is not None and len(ahead.waiting) >= end - ahead.position
            size = ahead.line_behind(wanted - 1) if is_last else ahead.whole_lines() or ahead.line_behind(0)
            if bounds is not None:
                size = _whole_records(file, ahead, size, bounds)
            data = ahead.take(size)
            yield Lines(data, begin, ahead.position)
            begin = ahead.position
    if end is not None and begin < end:
        reason = (
            f"it ends at byte {begin}, but had {file.size} bytes when the job found it; files must not change while "
            "a job reads them"
        )
        raise SourceFileError(file.path, reason)


def read_text(file: InputFile, charset: str, errors: str = "strict") -> Iterator[list[str]]:
    """Read a whole file in any charset; yields lists of lines without their ends.

    Args:
        file: The file.
        charset: What it is in.
        errors: What decoders do about other bytes.

    Raises:
        SourceFileError: The file is gone, changed, cannot be unpacked, is in another charset, or has too long a line.
    """
    begun: list[str] = []
    length = 0
    with open_unpacked(file) as stream:
        chunks = iter(partial(stream.read, max(4, CHUNK_BYTES)), b"")
        for text in decoded(file, charset, chunks, errors):
            *lines, rest = text.split("\n")
            if lines:
                lines[0] = "".join([*begun, lines[0]])
                begun, length = [], 0
                yield lines
            begun.append(rest)
            length += len(rest)
            parts.check_length(file, "a line", length, parts.LONGEST_RECORD)
    if last := "".join(begun):
        yield [last]


def end_of_lines(file: InputFile, start: int) -> int:
    """Return the end of the last complete line within the length at which a file was found; ``start`` without one.

    Args:
        file: The file, which may be growing.
        start: The start of a line, from which the search begins.
    """
    end = file.size
    with file.open() as stream:
        while end > start:
            begin = max(start, end - CHUNK_BYTES)
            stream.seek(begin)
            ahead = _Ahead(file, stream, begin)
            # One byte more, which shows whether a carriage return at the end is followed by a line feed.
            ahead.fill(min(file.size, end + 1) - begin)
            if size := ahead.whole_lines():
                return begin + size
            end = begin
    return start


class _Ahead:
    """A stream with bytes that were read ahead.

    Args:
        file: The file.
        stream: Its bytes, unpacked.
        position: Its position, in bytes from the beginning.
    """

    def __init__(self, file: InputFile, stream: BinaryIO, position: int) -> None:
        self._file, self._stream = file, stream
        #: The position of the first waiting byte.
        self.position = position
        self.waiting = bytearray()
        self._ended = False

    def fill(self, size: int) -> None:
        """Read until this many bytes wait, or the stream ends."""
        while len(self.waiting) < size and not self._ended:
            data = self._stream.read(size - len(self.waiting))
            self.waiting += data
            self._ended = not data

    def take(self, size: int) -> bytes:
        """Remove and return the first waiting bytes."""
        with memoryview(self.waiting) as view:
            data = bytes(view[:size])
        self.drop(size)
        return data

    def drop(self, size: int) -> None:
        """Drop the first waiting bytes."""
        del self.waiting[:size]
        self.position += size

    def whole_lines(self) -> int:
        """Return the number of bytes in lines whose end is certain."""
        feed = self.waiting.rfind(b"\n")
        # A line feed may follow the last byte.
        last = len(self.waiting) if self._ended else len(self.waiting) - 1
        return max(feed, self.waiting.rfind(b"\r", feed + 1, max(last, 0))) + 1

    def line_behind(self, place: int) -> int:
        """Return the number of bytes up to the end of the first line that ends at or after a byte.

        Raises:
            SourceFileError: It is too long, or the record that waits before it.
        """
        while True:
            found = LINE_END.search(self.waiting, place)
            if found is not None and (self._ended or found[0] != b"\r" or found.end() < len(self.waiting)):
                return found.end()
            if self._ended:
                return len(self.waiting)
            place = len(self.waiting) if found is None else found.start()
            what = f"the record that begins within {CHUNK_BYTES} bytes behind byte {self.position}"
            parts.check_length(self._file, what, len(self.waiting) - CHUNK_BYTES, parts.LONGEST_RECORD)
            self.fill(len(self.waiting) + CHUNK_BYTES)


def _at_first_line(file: InputFile, stream: BinaryIO, part: FilePart, *, compressed: bool) -> _Ahead:
    """Go to the position where reading continues, or to the first line that begins in the part."""
    position = part.position or 0
    if compressed:  # some of these streams cannot seek
        ahead = _Ahead(file, stream, 0)
        while ahead.position < position:
            ahead.fill(min(CHUNK_BYTES, position - ahead.position))
            if not ahead.waiting:
                reason = (
                    f"it has {ahead.position} bytes when it is unpacked, and was read up to byte {position}; files "
                    "must not change while a job reads them"
                )
                raise SourceFileError(file.path, reason)
            ahead.drop(len(ahead.waiting))
        return ahead
    if position or part.start == 0:
        stream.seek(position)
        return _Ahead(file, stream, position)
    stream.seek(part.start - 1)
    ahead = _Ahead(file, stream, part.start - 1)
    ahead.drop(ahead.line_behind(0))
    return ahead


def _whole_records(file: InputFile, ahead: _Ahead, size: int, bounds: RecordBounds) -> int:
    """Return the number of bytes up to the end of the record that contains the end of some lines."""
    cut = bounds.whole(bytes(ahead.waiting[:size]))
    while size > cut:
        behind = ahead.line_behind(size)
        if behind == size:
            reason = (
                f"a quote that opens after byte {ahead.position + cut} never closes; repair the file, or disable its "
                "quotes"
            )
            raise SourceFileError(file.path, reason)
        line, size = bytes(ahead.waiting[size:behind]), behind
        if bounds.may_end(line) and bounds.whole(bytes(ahead.waiting[cut:size])) == size - cut:
            break
    return size

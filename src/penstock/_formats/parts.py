"""The input of formats: a file on any file system, and the part of it to read."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO, Final, Protocol

from penstock._shelf import show
from penstock.errors import SourceFileError

#: What is in memory as a whole may have so many bytes: a record in lines, a block of Avro.
LONGEST_RECORD: Final = 256 * 1024**2
#: A row group may have so many, unpacked; it is in memory as it is packed, with some of its pages.
LARGEST_GROUP: Final = 16 * 1024**3


class InputFile(Protocol):
    """A file to read, on any file system."""

    @property
    def path(self) -> str:
        """The path, for display."""
        ...

    @property
    def size(self) -> int:
        """The length in bytes, as it was when the file was found."""
        ...

    def open(self) -> BinaryIO:
        """Open the file; it can seek.

        Raises:
            SourceFileError: The file is missing or cannot be opened.
        """
        ...


@dataclass(frozen=True, slots=True)
class FilePart:
    """The part of a file that one split covers, and how far it was read.

    Args:
        start: Where the part begins, in the units of the format: bytes, row groups.
        end: Where the next part begins.
        size: About how many bytes it has.
        position: The format's position after the last accepted block; None before the first.
    """

    start: int
    end: int
    size: int
    position: int | None = None


def cut_evenly(start: int, end: int, part_size: int) -> list[FilePart]:
    """Cut a range of bytes into parts of about the same size, up to a maximum; an empty range has no parts."""
    size = end - start
    parts = -(-size // part_size)
    bounds = [start + size * part // parts for part in range(parts + 1)] if parts else []
    return [FilePart(begin, behind, behind - begin) for begin, behind in pairwise(bounds)]


def check_length(file: InputFile, what: str, size: int, limit: int) -> None:
    """Check the length of a part of a file before it is in memory.

    Args:
        file: The file.
        what: The part, for the error.
        size: Its length, or what of it is known, in bytes.
        limit: What it may have, in bytes.

    Raises:
        SourceFileError: It is longer.
    """
    if size > limit:
        reason = (
            f"{what} has more than {limit} bytes, which is the limit; write the file anew in smaller ones, or take it "
            "out of the source's paths"
        )
        raise SourceFileError(file.path, reason)


show("penstock.datastream.connectors.file_system", FilePart, InputFile)

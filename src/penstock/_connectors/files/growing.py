"""Recognizes growing files of lines after they were renamed or copied.

A large log is renamed, and another one begins under its name. Inodes tell the two apart. If these have changed, as in a
copied folder, the bytes before the last read position do.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from penstock._connectors.files.filesystem import FileStatus

#: The number of bytes that are compared; shorter beginnings of two logs may well be equal.
TAIL_BYTES: Final = 1024


def tail_of(stream: BinaryIO, end: int) -> bytes:
    """Return a digest of the bytes before a position of a file; a shorter file has a digest that equals no other."""
    begin = max(0, end - TAIL_BYTES)
    stream.seek(begin)
    return hashlib.blake2b(stream.read(end - begin), digest_size=16).digest()


def is_copy(stream: BinaryIO, before: FileStatus) -> bool:
    """Tell whether an open file with another inode is a copy of a known file, perhaps grown; seeks to its beginning."""
    same = before.tail is not None and before.size >= TAIL_BYTES and tail_of(stream, before.size) == before.tail
    stream.seek(0)
    return same

"""Files of lines that others append to: which of them is the one that was read, whatever its name is now.

A log is renamed when it has become large, and another one begun under its name. The two are told apart by their inodes.
Where these have changed, as in a folder that was copied, the bytes that stand before the place that was read to tell.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from penstock._connectors.files.filesystem import FileStatus

#: How much of what was read is compared; of two logs of which less was read, the beginnings may well be equal.
TAIL_BYTES: Final = 1024


def tail_of(stream: BinaryIO, end: int) -> bytes:
    """Return a digest of the bytes before a place in a file; where the file is shorter, that of no other."""
    begin = max(0, end - TAIL_BYTES)
    stream.seek(begin)
    return hashlib.blake2b(stream.read(end - begin), digest_size=16).digest()


def is_copy(stream: BinaryIO, before: FileStatus) -> bool:
    """Tell whether an open file with another inode is a copy of one as it was, perhaps grown; goes to its beginning."""
    same = before.tail is not None and before.size >= TAIL_BYTES and tail_of(stream, before.size) == before.tail
    stream.seek(0)
    return same

"""The encoding of the parts of a composite key, and of rows with field names.

A row with names is encoded as a tag, a tuple of its values and a tuple of its names, both in the order of the names.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The tag of a row with names.
NAMED: Final = b"\xfa"

_LENGTH: Final = Struct(">I")
_LENGTHS: Final = [bytes((length,)) for length in range(255)]


def framed(parts: Iterable[bytes]) -> bytes:
    """Return parts joined, each after its length."""
    return b"".join(
        [(_LENGTHS[len(part)] if len(part) < 255 else b"\xff" + _LENGTH.pack(len(part))) + part for part in parts]
    )


def unframed(payload: bytes) -> list[bytes]:
    """Return the parts that `framed` joined."""
    parts: list[bytes] = []
    start = 0
    while start < len(payload):
        length, start = payload[start], start + 1
        if length == 255:
            length, start = _LENGTH.unpack_from(payload, start)[0], start + _LENGTH.size
        parts.append(payload[start : start + length])
        start += length
    return parts

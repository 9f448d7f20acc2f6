"""The encoding of the parts of a composite key, and of rows with field names.

A row with names is encoded as a tag, a tuple of its values and a tuple of its names, both in the order of the names.
Format 1 had only the values. Key groups still depend on the values alone (`without_names`), so the subtask that owns
such a key also owns its state from a checkpoint of format 1.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The tag of a row with names. No text in UTF-8 has this byte, so a search for it seldom finds anything else.
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


def without_names(encoded: bytes) -> bytes:
    """Return the encoding of a key in format 1: rows with names as tuples of their values.

    Example:
        >>> from penstock._engine.protocol.keys import encode_key
        >>> from penstock.common import Row
        >>> without_names(encode_key((Row(b=1, a="x"), 2))) == encode_key((("x", 1), 2))
        True
    """
    if NAMED not in encoded:
        return encoded
    tag = encoded[:1]
    if tag == NAMED:
        return without_names(unframed(encoded[1:])[0])
    if tag == b"t":
        return tag + framed(map(without_names, unframed(encoded[1:])))
    if tag == b"z":
        return tag + framed(sorted(map(without_names, unframed(encoded[1:]))))
    if tag == b"d":
        name, *fields = unframed(encoded[1:])
        return tag + framed((name, *map(without_names, fields)))
    return encoded


def may_lack_names(normal: object) -> bool:
    """Return whether a normal key could be format 1's encoding of a key that contains a row with names."""
    return type(normal) is bytes and normal[:1] in {b"t", b"z", b"d"} and NAMED not in normal

"""Pairs of a serializer's version and its bytes."""

from __future__ import annotations

import struct
from typing import Final

_VERSION: Final = struct.Struct("<i")


def pack(version: int, data: bytes) -> bytes:
    """Put the serializer's version before its bytes.

    Example:
        >>> unpack(pack(3, b"offset"))
        (3, b'offset')
    """
    return _VERSION.pack(version) + data


def unpack(packed: bytes) -> tuple[int, bytes]:
    """Return the version and the bytes that `pack` joined."""
    return _VERSION.unpack_from(packed)[0], packed[_VERSION.size :]

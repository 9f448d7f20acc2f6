"""The check that a state file is the one that its handle names."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from penstock._engine.protocol.signing import check_digest
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from penstock._engine.protocol.state_handle import StateHandle


def check_intact(data: bytes, handle: StateHandle, path: str) -> None:
    """Raise for a file whose size, checksum or digest differs from its handle.

    Args:
        data: The whole file.
        handle: The handle that names the file.
        path: Its name, for the error.

    Raises:
        CorruptCheckpointError: The file was cut off, replaced or damaged.
    """
    if len(data) != handle.size:
        reason = f"it was cut off or replaced ({len(data)} bytes are there, {handle.size} were written)"
        raise CorruptCheckpointError(path, reason)
    if crc32(data) != handle.checksum:
        raise CorruptCheckpointError(path, "it is damaged (its bytes do not match its checksum)")
    if handle.digest is not None:
        check_digest(data, handle.digest, path)

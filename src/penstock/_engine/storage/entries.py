"""Chain entries in a storage: each is signed and checked with the keys that the storage was opened with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.metadata_document import decode_chain_entry, encode_chain_entry

if TYPE_CHECKING:
    import os

    from penstock._engine.protocol.metadata import ChainEntry
    from penstock._engine.storage.checkpoint_storage import FileStorage

#: The maximum size of a chain entry; larger state is in files.
_MOST_BYTES: Final = 1 << 30


def find_document(storage: FileStorage, path: str, seen: dict[str, os.stat_result] | None = None) -> bytes | None:
    """Return the bytes of an entry, None when there is none."""
    return storage.find(path, at_most=_MOST_BYTES, seen=seen)


def find_entry(storage: FileStorage, path: str, seen: dict[str, os.stat_result] | None = None) -> ChainEntry | None:
    """Return an entry, None when there is none.

    Raises:
        CorruptCheckpointError: It is damaged.
        SignatureError: The storage has keys, and none of them has signed the entry.
    """
    data = find_document(storage, path, seen)
    return None if data is None else entry_of(storage, path, data)


def entry_of(storage: FileStorage, path: str, data: bytes) -> ChainEntry:
    """Return the entry that a file of a storage holds; raises as `find_entry` does."""
    return decode_chain_entry(data, storage.full_path(path), storage.keys)


def document_of(storage: FileStorage, entry: ChainEntry) -> bytes:
    """Return the document of an entry that is to be put into a storage."""
    return encode_chain_entry(entry, storage.keys)

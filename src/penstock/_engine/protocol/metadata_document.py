"""The ``_metadata`` document of a checkpoint: the readable, versioned, checked encoding of a chain entry."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from penstock._engine.protocol.decoders import json_decoder
from penstock._engine.protocol.formats import StoredFormat
from penstock._engine.protocol.metadata import ChainEntry, handles_of
from penstock._engine.protocol.signing import UNSIGNED, SigningKeys
from penstock._engine.protocol.soundness import why_invalid
from penstock.common.user_values import encoded
from penstock.errors import CorruptCheckpointError, SignatureError

#: The content is the JSON of a `ChainEntry`.
DOCUMENT: Final = StoredFormat("checkpoint's metadata")

#: Errors of a decoder for damaged bytes.
_NOT_DECODED: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)


class _Document(msgspec.Struct, frozen=True):
    """The outer document: the version is first, so that any version of Penstock can report an unknown one."""

    format: int
    sha256: str
    entry: msgspec.Raw = msgspec.field(name="record")
    #: None where its writer had no key.
    hmac: str | None = None


def encode_chain_entry(entry: ChainEntry, keys: SigningKeys = UNSIGNED) -> bytes:
    """Return the document of an entry: indented JSON with a checksum of its body, and a signature where there is a key.

    Args:
        entry: The entry.
        keys: The keys of the user; the first one signs.
    """
    body = msgspec.json.format(encoded(entry, msgspec.json.encode), indent=1)
    signature = keys.sign(body, DOCUMENT.number)
    signed = b"" if signature is None else b'"hmac": "%s",\n' % signature.encode()
    head = b'{\n"format": %d,\n"sha256": "%s",\n' % (DOCUMENT.number, _digest(body).encode())
    return b'%s%s"record": %s\n}\n' % (head, signed, body)


def decode_chain_entry(data: bytes, path: str, keys: SigningKeys = UNSIGNED) -> ChainEntry:
    """Decode a document.

    Args:
        data: The bytes of the file.
        path: The file, for messages.
        keys: The keys, one of which must have signed it; without keys, any document is accepted.

    Raises:
        CorruptCheckpointError: The bytes are cut short or altered.
        SignatureError: None of the keys has signed it.
        UnsupportedFormatError: It is in a format that this version does not read.
    """
    try:
        document = json_decoder(_Document).decode(data)
    except _NOT_DECODED as error:
        raise CorruptCheckpointError(path, f"it is not a whole metadata document ({error})") from error
    DOCUMENT.way(document.format, path)  # of an unknown format neither checksum nor signature mean anything
    body = bytes(document.entry)
    if _digest(body) != document.sha256:
        raise CorruptCheckpointError(path, "its checksum does not match, so it was altered after it was written")
    if not keys.accept(body, document.format, document.hmac):
        reason = "it has no signature" if document.hmac is None else "another key has signed it, or it was altered"
        raise SignatureError(path, reason)
    entry = _entry_of(DOCUMENT.content(document.format, body, path), path)
    if keys and not all(handle.inline is not None or handle.digest for handle in handles_of(entry.snapshot)):
        raise SignatureError(path, "its signature does not cover the files that it names")
    return entry


def _entry_of(body: bytes, path: str) -> ChainEntry:
    try:
        entry = json_decoder(ChainEntry).decode(body)
    except _NOT_DECODED as error:
        raise CorruptCheckpointError(path, f"it is not the metadata of a checkpoint ({error})") from error
    fault = why_invalid(entry)
    if fault is not None:
        raise CorruptCheckpointError(path, f"it is not the metadata of a checkpoint: {fault}")
    return entry


def document_format(data: bytes) -> int:
    """Return the format of a readable document."""
    return json_decoder(_Document).decode(data).format


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()

"""Signatures of chain entries: only an owner of the key can write an entry, or change the files that it names.

An entry holds the state of a job, or names files with the digests of their bytes. So its signature, which is checked
before the entry is used, covers all bytes that are unpickled later.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final, Self

from penstock.common import option_table
from penstock.errors import ConfigurationError, CorruptCheckpointError

#: The prefix of signed bytes, so that signatures for another purpose do not match, nor those of another format: the
#: same bytes mean something else in it.
_PURPOSE: Final = "penstock chain entry, format {}\n"
SEAL_BYTES: Final = 32
_SHORTEST_KEY: Final = 16


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The keys of a user: the first one signs, signatures of any are accepted; without keys nothing is checked."""

    keys: tuple[bytes, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, text: str | None) -> Self:
        """Return the keys of a configuration option, which are separated by spaces.

        Raises:
            ConfigurationError: A key is too short, or there is none.

        Example:
            >>> bool(SigningKeys.of("a long random text")), bool(SigningKeys.of(None))
            Traceback (most recent call last):
            penstock.errors.ConfigurationError: penstock.state.signing-key cannot be '******': ...
            >>> bool(SigningKeys.of("0f3c9a7be2d14486 the-key-before-it")), bool(SigningKeys.of(None))
            (True, False)
        """
        if text is None:
            return cls()
        words = text.split()
        if not words or min(map(len, words)) < _SHORTEST_KEY:
            reason = f"a key has at least {_SHORTEST_KEY} characters, such as 32 random hexadecimal digits"
            raise ConfigurationError(option_table.STATE_SIGNING_KEY.key, "******", reason)
        return cls(tuple(word.encode("utf-8", "surrogatepass") for word in words))

    def __bool__(self) -> bool:
        return bool(self.keys)

    def sign(self, body: bytes, document_format: int) -> str | None:
        """Return the signature of an entry in a format; None where there is no key."""
        return _signature(self.keys[0], body, document_format) if self.keys else None

    def accept(self, body: bytes, document_format: int, signature: str | None) -> bool:
        """Return whether one of the keys made a signature; without keys anything is accepted."""
        if not self.keys:
            return True
        given = (signature or "").encode("utf-8", "surrogatepass")
        return any(hmac.compare_digest(_signature(key, body, document_format).encode(), given) for key in self.keys)


#: No keys: nothing is signed or checked.
UNSIGNED: Final = SigningKeys()


def file_digest(data: bytes) -> bytes:
    """Return the SHA-256 digest of a file."""
    return hashlib.sha256(data).digest()


def check_digest(data: bytes, digest: bytes | None, path: str) -> None:
    """Raise CorruptCheckpointError for a file whose bytes do not have the expected digest."""
    if file_digest(data) != digest:
        raise CorruptCheckpointError(path, "it was replaced (its bytes do not match its digest)")


def seal(data: bytes, key: bytes, label: str) -> bytes:
    """Return bytes with a seal, which proves that an owner of the key wrote them under a label; see `unseal`."""
    return data + seal_of(data, key, label)


def unseal(sealed: bytes, key: bytes, label: str, path: str) -> bytes:
    """Return the sealed bytes, after checking the seal.

    Raises:
        CorruptCheckpointError: The bytes were changed, or sealed with another key or under another label.

    Example:
        >>> unseal(seal(b"data", b"key", "epoch 1"), b"key", "epoch 1", "a/file")
        b'data'
    """
    data = sealed[:-SEAL_BYTES]
    if not hmac.compare_digest(seal_of(data, key, label), sealed[-SEAL_BYTES:]):
        raise CorruptCheckpointError(path, "it was replaced (its bytes do not match their seal)")
    return data


def seal_of(data: bytes, key: bytes, label: str) -> bytes:
    """Return the seal of bytes alone, of as many bytes as `SEAL_BYTES` says."""
    return hmac.digest(key, f"{label}\n".encode() + data, "sha256")


def _signature(key: bytes, body: bytes, document_format: int) -> str:
    return hmac.digest(key, _PURPOSE.format(document_format).encode() + body, "sha256").hex()

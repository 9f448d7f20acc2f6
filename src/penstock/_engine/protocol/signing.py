"""Signatures of chain entries: who does not have the key can neither write one nor change what it names.

An entry holds all state of a job, or names files with the digests of their bytes. So its signature, checked before
anything of it is looked at, covers whatever is unpickled later.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final, Self

from penstock.common import option_table
from penstock.errors import ConfigurationError, CorruptCheckpointError

#: What is signed begins with this, so that no signature of another purpose fits.
_PURPOSE: Final = b"penstock chain entry 1\n"
_SEAL_BYTES: Final = 32
_SHORTEST_KEY: Final = 16


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The keys of a user: the first one signs, and what any of them has signed is accepted; none of all is no check."""

    keys: tuple[bytes, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, text: str | None) -> Self:
        """Return the keys of a configuration, with spaces between.

        Raises:
            ConfigurationError: One of them is too short, or there is none.

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

    def sign(self, body: bytes) -> str | None:
        """Return the signature of an entry; None where there is no key."""
        return _signature(self.keys[0], body) if self.keys else None

    def accept(self, body: bytes, signature: str | None) -> bool:
        """Tell whether one of the keys has made a signature; anything is accepted where there is no key."""
        if not self.keys:
            return True
        given = (signature or "").encode("utf-8", "surrogatepass")
        return any(hmac.compare_digest(_signature(key, body).encode(), given) for key in self.keys)


#: No key: nothing is signed, and nothing checked.
UNSIGNED: Final = SigningKeys()


def file_digest(data: bytes) -> bytes:
    """Return what tells the bytes of a file from any others that somebody could make."""
    return hashlib.sha256(data).digest()


def check_digest(data: bytes, digest: bytes | None, path: str) -> None:
    """Raise CorruptCheckpointError for a file whose bytes have not the digest that a message named."""
    if file_digest(data) != digest:
        raise CorruptCheckpointError(path, "it was replaced (its bytes do not match its digest)")


def seal(data: bytes, key: bytes, label: str) -> bytes:
    """Return bytes with what shows that the owner of a key has written them under a label, see `unseal`."""
    return data + _seal(data, key, label)


def unseal(sealed: bytes, key: bytes, label: str, path: str) -> bytes:
    """Return the bytes that were sealed.

    Raises:
        CorruptCheckpointError: They are others, or were sealed with another key or under another label.

    Example:
        >>> unseal(seal(b"data", b"key", "epoch 1"), b"key", "epoch 1", "a/file")
        b'data'
    """
    data = sealed[:-_SEAL_BYTES]
    if not hmac.compare_digest(_seal(data, key, label), sealed[-_SEAL_BYTES:]):
        raise CorruptCheckpointError(path, "it was replaced (its bytes do not match their seal)")
    return data


def _seal(data: bytes, key: bytes, label: str) -> bytes:
    return hmac.digest(key, f"{label}\n".encode() + data, "sha256")


def _signature(key: bytes, body: bytes) -> str:
    return hmac.new(key, _PURPOSE + body, "sha256").hexdigest()

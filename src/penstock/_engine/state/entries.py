"""How an entry of a pane is stored in a local version.

    key     pane id, key group, encoding of the key; an encoding that is too long for LMDB by its hash
    value   a pickle of the value; that of a *wide* entry holds the original key and a long encoding as well

Ids of panes come first, so a pane is one stretch of keys; within it key groups follow each other. Nearly all keys are
str or int: they take short ways here, because each read that memory cannot answer and each write comes by.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from itertools import repeat
from operator import is_
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.protocol.key_groups import key_group
from penstock._engine.protocol.keys import NormalKey, decode_normal, encode_normal
from penstock._engine.state import pickles
from penstock._engine.state.table import ABSENT, Pane

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

PANE_ID: Final = Struct(">I")
GROUP: Final = Struct(">H")
PREFIX: Final = Struct(">IH")
#: Prefix, tag and number of an int of 64 bits, as `encode_normal` makes it.
_INT_KEY: Final = Struct(">IHBq").pack
_INT_KEY_BEHIND: Final = Struct(">6sBq").pack
_INT_TAG: Final = ord("i")

#: LMDB takes keys of 511 bytes; six of them are the pane and the key group.
_MAX_KEY_BYTES: Final = 480
_HASHED: Final = b"\x00"


def locate(pane_id: int, normal: NormalKey, max_parallelism: int) -> tuple[bytes, bool]:
    """Return the stored key of an entry, and whether the entry is wide."""
    if type(normal) is int:
        try:
            return _INT_KEY(pane_id, key_group(normal, max_parallelism), _INT_TAG, normal), False
        except struct.error:  # more than 64 bits
            pass
    encoded = encode_normal(normal)
    return PREFIX.pack(pane_id, key_group(normal, max_parallelism)) + stored(encoded), _is_wide(encoded)


def value_of(raw: bytes, *, is_wide: bool) -> tuple[Any, Any]:
    """Return the value of an entry, and its original key, None for a narrow one."""
    value = pickles.load(raw)
    return (value[0], value[1]) if is_wide else (value, None)


def changes(pane_id: int, pane: Pane, normals: list[NormalKey], max_parallelism: int) -> Iterator[tuple[bytes, Any]]:
    """Iterate (stored key, pickle) of some keys of a pane by ascending key group; None deletes."""
    groups: list[list[NormalKey]] = [[] for _ in range(max_parallelism)]
    for normal in normals:
        groups[key_group(normal, max_parallelism)].append(normal)
    hot = pane.hot
    for group, keys in enumerate(groups):
        if not keys:
            continue
        prefix = PREFIX.pack(pane_id, group)
        values = [hot[normal] for normal in keys]
        names = None if True in map(is_, values, repeat(ABSENT)) else _narrow_keys(prefix, keys)
        if names is not None:
            yield from zip(names, pickles.dump_each(values), strict=True)
        else:
            for normal, value in zip(keys, values, strict=True):
                yield _change(prefix, pane, normal, value)


def _narrow_keys(prefix: bytes, keys: list[NormalKey]) -> list[bytes] | None:
    """Return the stored keys of one key group, None unless all entries are narrow."""
    kinds = set(map(type, keys))
    try:
        if kinds == {int}:
            return [_INT_KEY_BEHIND(prefix, _INT_TAG, key) for key in keys]
        if kinds == {str}:
            names = [prefix + encode_normal(key) for key in keys]
            return names if max(map(len, names)) <= _MAX_KEY_BYTES + len(prefix) else None
    except struct.error:  # more than 64 bits
        pass
    return None


def _change(prefix: bytes, pane: Pane, normal: NormalKey, value: Any) -> tuple[bytes, bytes | None]:
    encoded = encode_normal(normal)
    if value is ABSENT:
        return prefix + stored(encoded), None
    if _is_wide(encoded):
        long = encoded if len(encoded) > _MAX_KEY_BYTES else None
        value = (value, pane.originals.get(normal) if type(normal) is bytes else None, long)
    return prefix + stored(encoded), pickles.dump(value)


def entry_of(encoded: bytes, raw: bytes, known: Container[NormalKey]) -> tuple[NormalKey, Any, Any] | None:
    """Return (normal key, value, original key) of a scanned entry of a pane, None for one whose key is known."""
    if encoded.startswith(_HASHED):
        value, original, long = pickles.load(raw)
        normal = decode_normal(long)
        return None if normal in known else (normal, value, original)
    normal = decode_normal(encoded)
    if normal in known:  # what is in memory hides it: no need to unpickle
        return None
    return (normal, *value_of(raw, is_wide=_is_wide(encoded)))


def stored(encoded: bytes) -> bytes:
    """Return what stands for an encoding in a stored key; over the limit its hash, with the encoding in the value."""
    return encoded if len(encoded) <= _MAX_KEY_BYTES else _HASHED + blake2b(encoded, digest_size=32).digest()


def _is_wide(encoded: bytes) -> bool:
    """Return whether a value stands with its original key and encoding; str and int of usual length need neither."""
    return encoded[:1] not in {b"i", b"s", b"I"} or len(encoded) > _MAX_KEY_BYTES

"""The codec of a row: how it is stored in a local version.

    key     pane id, key group, address
    value   a pickle of the value; that of a *wide* row holds the original key and long parts of the address as well.
            After a tag and a time where the row has a stamp, after another tag where a narrow row has an original key

    address   the encoding of the key, for a row that has a key only
              for other rows: _COMPOSITE, size of the key, key, size of the namespace, its numbers, sub-key

A part that is too long for LMDB is replaced by its hash. The id of the pane comes first, so a pane is one range of
keys; within it rows are ordered by key group, then by key and namespace. Nearly all keys are str or int and have fast
paths here, because each read that memory cannot answer and each write passes through this module.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from itertools import repeat
from operator import is_
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.protocol.key_groups import key_group, normal_key_groups
from penstock._engine.protocol.keys import NormalKey, decode_normal, encode_normal
from penstock._engine.state.files import pickles
from penstock._engine.state.rows import Address, Composite, Namespace, Owner, Row, key_at
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
_SUB_INT: Final = Struct(">Bq").pack

#: LMDB takes keys of up to 511 bytes; six of them are the pane and the key group.
_MAX_KEY_BYTES: Final = 480
#: The limit for a key or sub-key in an address that has both.
_MAX_PART_BYTES: Final = 220
#: The first bytes of the encodings of int and str.
_NARROW: Final = b"isI"
_HASHED: Final = b"\x00"
_COMPOSITE: Final = b"\x01"
_KEY_SIZE: Final = Struct(">H")
#: _COMPOSITE and the size of a key.
_HEAD: Final = Struct(">BH").pack
#: The size and the numbers of a namespace with two of them.
_BOUNDS: Final = 2
_WINDOW: Final = Struct(">B2q").pack
#: How many rows are encoded at a time: all of a large key at once would take as much memory as the rows.
_ENCODED: Final = 8_192
#: The tag of a value with a stamp; pickles begin with another byte.
_STAMPED: Final = 0x01
_STAMP: Final = Struct(">Bq")
#: The tag of the value of a narrow row that holds the original key as well: the address does not give it back.
_KEYED: Final = 0x02


def locate(pane_id: int, address: Address, max_parallelism: int) -> tuple[bytes, bool]:
    """Return the stored key of a row, and whether the row is wide."""
    if type(address) is int:
        try:
            return _INT_KEY(pane_id, key_group(address, max_parallelism), _INT_TAG, address), False
        except struct.error:  # more than 64 bits
            pass
    head = PREFIX.pack(pane_id, key_group(key_at(address), max_parallelism))
    if type(address) is tuple:
        owner, sub = owner_encoded(address[0], address[1]), _sub(address[2])
        return head + owner + sub, not (is_narrow_owner(owner) and _is_narrow_sub(sub))
    encoded = encode_normal(cast("NormalKey", address))
    return head + stored(encoded), _is_wide(encoded)


def locate_owner(pane_id: int, owner: Owner, max_parallelism: int) -> bytes:
    """Return the prefix of the stored keys of all rows of a key and namespace."""
    return PREFIX.pack(pane_id, key_group(owner[0], max_parallelism)) + owner_encoded(*owner)


def value_of(raw: bytes, *, is_wide: bool) -> tuple[Any, Any, int | None]:
    """Return the value of a row, its original key (None where it has none), and its stamp."""
    stamp = None
    if raw[0] == _STAMPED:
        _, stamp = _STAMP.unpack_from(raw)
        raw = raw[_STAMP.size :]
    if raw[0] == _KEYED:
        is_wide, raw = True, raw[1:]
    value = pickles.load(raw)
    return (value[0], value[1], stamp) if is_wide else (value, None, stamp)


def changes(
    pane_id: int, pane: Pane, addresses: list[Address], max_parallelism: int
) -> Iterator[tuple[bytes, bytes | None]]:
    """Iterate (stored key, value) of some rows of a pane by ascending key group; None deletes."""
    groups: list[list[Address]] = [[] for _ in range(max_parallelism)]
    if addresses and type(addresses[0]) is tuple:
        last, place = object(), groups[0]
        for address in addresses:
            key = key_at(address)
            if key is not last:  # sorted rows of one key follow each other
                last, place = key, groups[key_group(key, max_parallelism)]
            place.append(address)
    else:
        normals = cast("list[NormalKey]", addresses)
        for normal, group in zip(normals, normal_key_groups(normals, max_parallelism), strict=True):
            groups[group].append(normal)
    hot = pane.hot
    for group, rows in enumerate(groups):
        if not rows:
            continue
        prefix = PREFIX.pack(pane_id, group)
        for start in range(0, len(rows), _ENCODED):
            some = rows[start : start + _ENCODED]
            values = [hot[address] for address in some]
            names = None if pane.stamps or pane.originals else _narrow_keys(prefix, some)
            if names is not None:
                yield from _narrow_changes(names, values)
            else:
                yield from _changes_one_by_one(prefix, pane, some, values)


def _narrow_changes(names: list[bytes], values: list[Any]) -> Iterator[tuple[bytes, bytes | None]]:
    if True not in map(is_, values, repeat(ABSENT)):
        yield from zip(names, pickles.dump_each(values), strict=True)
        return
    raws = iter(pickles.dump_each([value for value in values if value is not ABSENT]))
    for name, value in zip(names, values, strict=True):
        yield name, None if value is ABSENT else next(raws)


def _narrow_keys(prefix: bytes, rows: list[Address]) -> list[bytes] | None:
    """Return the stored keys of rows of one key group; None unless all rows are narrow."""
    kinds = set(map(type, rows))
    if kinds == {tuple}:
        found = list(_names(prefix, cast("list[Composite]", rows)))
        return [name for name, _ in found] if not any(is_wide for _, is_wide in found) else None
    try:
        if kinds == {int}:
            return [_INT_KEY_BEHIND(prefix, _INT_TAG, key) for key in rows]
        if kinds == {str}:
            names = [prefix + encode_normal(key) for key in cast("list[str]", rows)]
            return names if max(map(len, names)) <= _MAX_KEY_BYTES + len(prefix) else None
    except struct.error:  # more than 64 bits
        pass
    return None


def _changes_one_by_one(
    prefix: bytes, pane: Pane, rows: list[Address], values: list[Any]
) -> Iterator[tuple[bytes, bytes | None]]:
    if type(rows[0]) is tuple:
        names = _names(prefix, cast("list[Composite]", rows))
    else:
        encodings = map(encode_normal, cast("list[NormalKey]", rows))
        names = ((prefix + stored(encoded), _is_wide(encoded)) for encoded in encodings)
    for address, value, (name, is_wide) in zip(rows, values, names, strict=True):
        yield name, None if value is ABSENT else _raw(pane, address, value, is_wide=is_wide)


def _names(prefix: bytes, rows: list[Composite]) -> Iterator[tuple[bytes, bool]]:
    """Iterate the stored keys of rows of one key group, and whether they are wide."""
    key, namespace, head, is_wide = None, None, b"", False
    for row in rows:
        if row[0] is not key or row[1] != namespace:  # rows of one key and namespace usually follow each other
            key, namespace = row[0], row[1]
            owner = owner_encoded(key, namespace)
            head, is_wide = prefix + owner, not is_narrow_owner(owner)
        sub = _sub(row[2])
        yield head + sub, is_wide or not _is_narrow_sub(sub)


def _raw(pane: Pane, address: Address, value: Any, *, is_wide: bool) -> bytes:
    original = pane.originals.get(address)
    if is_wide:
        raw = pickles.dump((value, original, long_parts(address)))
    else:
        raw = pickles.dump(value) if original is None else bytes((_KEYED,)) + pickles.dump((value, original))
    stamp = pane.stamps.get(address)
    return raw if stamp is None else _STAMP.pack(_STAMPED, stamp) + raw


class RowReader:
    """Reads scanned rows one after the other; rows of one key and namespace share a prefix, which is decoded once."""

    def __init__(self) -> None:
        #: Of the row before: the bytes of its key and namespace, the two decoded, and whether they make a row wide.
        self._head = b""
        self._owner: Owner = (b"", ())
        self._is_wide = False

    def row(self, encoded: bytes, raw: bytes, known: Container[Address]) -> Row | None:
        """Return a row; None where its address is known.

        Args:
            encoded: The stored address.
            raw: The stored value.
            known: The addresses in memory, which hide stored rows: their values need not be unpickled.
        """
        if encoded.startswith(_COMPOSITE):
            return self._composite(encoded, raw, known)
        is_hashed = encoded.startswith(_HASHED)
        address = decode_normal(_long_of(raw) if is_hashed else encoded)
        if address in known:
            return None
        return (address, *value_of(raw, is_wide=is_hashed or encoded[0] not in _NARROW))

    def _composite(self, encoded: bytes, raw: bytes, known: Container[Address]) -> Row | None:
        if not self._head or not encoded.startswith(self._head):
            address = _composite_of(encoded, raw)
            self._head, self._owner = encoded[: owner_bytes(encoded)], address[:2]
            self._is_wide = not is_narrow_owner(self._head)
        sub = encoded[len(self._head) :]
        is_wide = self._is_wide or not _is_narrow_sub(sub)
        if sub.startswith(_HASHED):
            address = _composite_of(encoded, raw)
        else:
            address = *self._owner, decode_normal(sub) if sub else None
        return None if address in known else (address, *value_of(raw, is_wide=is_wide))


def stamp_of(raw: bytes) -> int | None:
    """Return the stamp of a scanned row."""
    return _STAMP.unpack_from(raw)[1] if raw[0] == _STAMPED else None


def address_of(encoded: bytes, raw: bytes) -> Address:
    """Return the address of a scanned row, without its value."""
    if encoded.startswith(_COMPOSITE):
        return _composite_of(encoded, raw)
    return decode_normal(_long_of(raw) if encoded.startswith(_HASHED) else encoded)


def owner_of(encoded: bytes, raw: bytes) -> Owner:
    """Return the key and the namespace of a scanned row."""
    if encoded.startswith(_COMPOSITE):
        address = _composite_of(encoded, raw)
        return address[0], address[1]
    return decode_normal(_long_of(raw) if encoded.startswith(_HASHED) else encoded), ()


def owner_bytes(encoded: bytes) -> int:
    """Return how many bytes of a scanned row's address are its key and its namespace."""
    if not encoded.startswith(_COMPOSITE):
        return len(encoded)
    end: int = 1 + _KEY_SIZE.size + _KEY_SIZE.unpack_from(encoded, 1)[0]
    return end + 1 + 8 * encoded[end]


def stored(encoded: bytes, limit: int = _MAX_KEY_BYTES) -> bytes:
    """Return an encoding for a stored key; above the limit its hash, and the value then holds the encoding."""
    return encoded if len(encoded) <= limit else _HASHED + blake2b(encoded, digest_size=32).digest()


def _is_wide(encoded: bytes) -> bool:
    """Return whether a value is stored with its key and encoding; str and int of usual length need neither."""
    return encoded[0] not in _NARROW or len(encoded) > _MAX_KEY_BYTES


# ----------------------------------------------------------------------------------------------- composite addresses


def owner_encoded(key: NormalKey, namespace: Namespace) -> bytes:
    """Return the bytes of a key and a namespace in a stored address."""
    part = encode_normal(key)
    if len(part) > _MAX_PART_BYTES:
        part = stored(part, _MAX_PART_BYTES)
    if not namespace:
        return _HEAD(1, len(part)) + part + b"\0"
    size = len(namespace)
    if size == _BOUNDS:  # those of a TimeWindow
        return _HEAD(1, len(part)) + part + _WINDOW(size, *namespace)
    return _HEAD(1, len(part)) + part + bytes((size,)) + struct.pack(f">{size}q", *namespace)


def _sub(sub: NormalKey | None) -> bytes:
    if sub is None:
        return b""
    if type(sub) is int:
        try:
            return _SUB_INT(_INT_TAG, sub)
        except struct.error:  # more than 64 bits
            pass
    return stored(encode_normal(sub), _MAX_PART_BYTES)


def is_narrow_owner(owner: bytes) -> bool:
    """Return whether the key in a stored address is a str or int of usual length, and not a hash."""
    return owner[1 + _KEY_SIZE.size] in _NARROW


def _is_narrow_sub(sub: bytes) -> bool:
    """Return whether a stored sub-key is missing, or a str or int of usual length."""
    return not sub or sub[0] in _NARROW


def long_parts(address: Address) -> Any:
    """Return the encodings that a stored key holds as hashes; None where it holds no hash."""
    if type(address) is not tuple:
        encoded = encode_normal(cast("NormalKey", address))
        return encoded if len(encoded) > _MAX_KEY_BYTES else None
    parts = [None if part is None else encode_normal(part) for part in (address[0], address[2])]
    return parts if any(part is not None and len(part) > _MAX_PART_BYTES for part in parts) else None


def _long_of(raw: bytes) -> Any:
    """Return, from a stored value, the encodings that the stored key holds as hashes."""
    return pickles.load(raw[_STAMP.size :] if raw[0] == _STAMPED else raw)[2]


def _composite_of(encoded: bytes, raw: bytes) -> Composite:
    start = 1 + _KEY_SIZE.size
    end: int = start + _KEY_SIZE.unpack_from(encoded, 1)[0]
    numbers: int = encoded[end]
    tail: int = end + 1 + 8 * numbers
    namespace = struct.unpack_from(f">{numbers}q", encoded, end + 1)
    key, sub = encoded[start:end], encoded[tail:]
    if key.startswith(_HASHED) or sub.startswith(_HASHED):
        key, sub = _long_of(raw)
    return decode_normal(key), namespace, decode_normal(sub) if sub else None

"""Key groups: the group of a key, and the subtask that owns a group.

State moves by the group when the number of subtasks changes. The group of a key follows from its encoding, and may
never change: checkpoints hold the state of a group together.
"""

from __future__ import annotations

import struct
from functools import cache
from struct import Struct
from typing import Any, Final, cast
from zlib import crc32

from penstock._engine.protocol.key_blocks import normal_keys
from penstock._engine.protocol.keys import NormalKey, encode_normal

#: The bytes of an int for its key group: in this byte order CRC-32 spreads evenly spaced ints best.
_pack_for_group: Final = Struct("<q").pack
_pack_size: Final = 8
_NORMAL_KINDS: Final = ({str}, {int}, {str, int})
#: From so many ints on, an array of them is faster than a loop.
_MANY: Final = 256


def key_group(normal: NormalKey, max_parallelism: int) -> int:
    """Return the key group of a *normal* key, from 0 to `max_parallelism` - 1; runs once or twice per record.

    Example:
        >>> [key_group(key, 128) for key in ("a", "b", 1, 2)]
        [67, 121, 119, 20]
    """
    kind: type[object] = type(normal)
    if kind is int:
        try:
            return crc32(_pack_for_group(normal)) % max_parallelism
        except struct.error:
            return crc32(encode_normal(normal)) % max_parallelism
    if kind is str:
        try:
            return crc32(normal.encode()) % max_parallelism  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
        except UnicodeEncodeError:
            return crc32(encode_normal(normal)) % max_parallelism
    return crc32(cast("bytes", normal)) % max_parallelism


def key_groups(keys: list[Any], max_parallelism: int) -> list[int]:
    """Return the key groups of many keys, which need not be normal; fast where all are int or all are str.

    Raises:
        KeyEncodingError: A key has no canonical encoding.

    Example:
        >>> key_groups(["a", "b", 1, 2.0], 128)
        [67, 121, 119, 20]
    """
    plain = set(map(type, keys)) in _NORMAL_KINDS
    return normal_key_groups(keys if plain else normal_keys(keys), max_parallelism)


def normal_key_groups(normals: list[NormalKey], max_parallelism: int) -> list[int]:
    """Return the key groups of many *normal* keys; fast where all are int or all are str."""
    kinds = set(map(type, normals))
    try:
        if kinds == {int} and len(normals) >= _MANY:
            return _many_int_key_groups(normals, max_parallelism)
        if kinds == {int}:
            return [crc32(_pack_for_group(normal)) % max_parallelism for normal in normals]
        if kinds == {str}:
            return [crc32(normal.encode()) % max_parallelism for normal in cast("list[str]", normals)]
        if kinds == {bytes}:
            return [crc32(normal) % max_parallelism for normal in cast("list[bytes]", normals)]
    except (struct.error, OverflowError, UnicodeEncodeError):  # a number beyond 64 bits, a lone surrogate
        pass
    return [key_group(normal, max_parallelism) for normal in normals]


def int_key_groups(numbers: Any, max_parallelism: int) -> Any:
    """Return the key groups of many ints within 64 bits, as `key_group` does, without a Python object for each.

    Args:
        numbers: An array of NumPy's with the type int64.
        max_parallelism: The number of all key groups.

    Example:
        >>> import numpy
        >>> int_key_groups(numpy.array([1, 2, -1]), 128).tolist() == key_groups([1, 2, -1], 128)
        True
    """
    import numpy as np

    tables = _crc_tables()
    octets = np.ascontiguousarray(numbers, "<i8").view(np.uint8).reshape(-1, _pack_size)
    crc = tables[0].take(octets[:, 0])
    for place in range(1, _pack_size):
        crc ^= tables[place].take(octets[:, place])
    return crc % np.uint32(max_parallelism)


def _many_int_key_groups(numbers: list[Any], max_parallelism: int) -> list[int]:
    import numpy as np

    return int_key_groups(np.array(numbers, np.int64), max_parallelism).tolist()


@cache
def _crc_tables() -> Any:
    """Return what each octet of an int adds to its CRC-32: all places together by exclusive or are the whole.

    A checksum is linear in the bits but for its initial and final inversion, which the table of the first place holds.
    """
    import numpy as np

    of_zeros = crc32(bytes(_pack_size))
    tables = np.array(
        [
            [crc32(bytes([*bytes(place), octet, *bytes(_pack_size - 1 - place)])) ^ of_zeros for octet in range(256)]
            for place in range(_pack_size)
        ],
        np.uint32,
    )
    tables[0] ^= np.uint32(of_zeros)
    return tables


def subtask_of_key_group(group: int, parallelism: int, max_parallelism: int) -> int:
    """Return the subtask that owns a key group (Flink's ``KeyGroupRangeAssignment``)."""
    return group * parallelism // max_parallelism


def key_group_range(subtask: int, parallelism: int, max_parallelism: int) -> range:
    """Return the key groups of a subtask, as Flink's ``KeyGroupRangeAssignment`` assigns them.

    Example:
        >>> [key_group_range(subtask, 3, 128) for subtask in range(3)]
        [range(0, 43), range(43, 86), range(86, 128)]
    """
    first = (subtask * max_parallelism + parallelism - 1) // parallelism
    last = ((subtask + 1) * max_parallelism - 1) // parallelism
    return range(first, last + 1)


def default_max_parallelism(parallelism: int) -> int:
    """Return the default number of key groups: 1.5 times the parallelism, rounded up to a power of two.

    Example:
        >>> [default_max_parallelism(parallelism) for parallelism in (1, 100, 400, 100_000)]
        [128, 256, 1024, 32768]
    """
    wanted = parallelism + parallelism // 2
    return min(max(1 << (wanted - 1).bit_length(), 128), 32_768)

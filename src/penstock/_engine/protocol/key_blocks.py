"""Normal keys of many keys at once: of tuples with ints and texts, such as two ids, without a call for each part.

Composite keys are mostly that, and their encoding is made on both sides of an exchange. What it returns is what
`keys.normal_key` returns for each.
"""

from __future__ import annotations

import struct
from itertools import repeat
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.protocol.keys import NormalKey, normal_key

if TYPE_CHECKING:
    from collections.abc import Iterable

_TUPLES: Final = {tuple}
_INTS: Final = {int}
_TEXTS: Final = {str}
#: The length of an int and its tag, and the int itself.
_INT: Final = b"\x09i"
#: The lengths of texts that have one byte, with the tag.
_TEXT: Final = [bytes((length + 1, ord("s"))) for length in range(254)]


def normal_keys(keys: list[Any]) -> list[NormalKey]:
    """Return the normal keys of keys.

    Raises:
        KeyEncodingError: A key has no canonical encoding.

    Example:
        >>> normal_keys([(1, "a"), (2, "b")]) == [normal_key((1, "a")), normal_key((2, "b"))]
        True
    """
    return flat_tuples(keys) or list(map(normal_key, keys))


def flat_tuples(keys: list[Any]) -> list[NormalKey] | None:
    """Return the normal keys of tuples of ints and texts, of one form; None for other keys."""
    if set(map(type, keys)) != _TUPLES:
        return None
    try:
        columns = list(zip(*keys, strict=True))
        kinds = [set(map(type, column)) for column in columns]
        if kinds and all(kind == _INTS for kind in kinds):
            return _of_ints(columns)
        parts = [_parts(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    except (ValueError, struct.error):  # of several lengths, a lone surrogate, a number beyond 64 bits
        return None
    if not parts or None in parts:
        return None
    return list(map(b"".join, zip(repeat(b"t"), *parts)))  # pyright: ignore[reportArgumentType, reportReturnType]


def _of_ints(columns: list[tuple[int, ...]]) -> list[NormalKey]:
    # One call for all fields of a key.
    pack = Struct(f">c{'2sq' * len(columns)}").pack
    arguments: list[Iterable[Any]] = [repeat(b"t")]
    for column in columns:
        arguments += (repeat(_INT), column)
    return list(map(pack, *arguments))


def _parts(column: tuple[Any, ...], kind: set[type]) -> list[bytes] | None:
    if kind == _INTS:
        return list(map(Struct(">2sq").pack, repeat(_INT), column))
    if kind != _TEXTS:
        return None
    texts = list(map(str.encode, column))
    return [_TEXT[len(text)] + text for text in texts] if max(map(len, texts)) < len(_TEXT) else None

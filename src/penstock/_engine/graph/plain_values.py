"""Digests of values without parts, and of rows of them at the speed of C; all others are for `fingerprint`."""

from __future__ import annotations

import pickle
import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from hashlib import sha256
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, cast
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sized

#: The types whose values are told apart by their representation.
_SCALARS: Final = frozenset(
    {type(None), bool, int, float, complex, str, bytes, Decimal, date, datetime, timedelta, uuid.UUID}
)
_SEQUENCES: Final = frozenset({tuple, list})
#: Zones whose representation says all; one of a user's class says what it likes about itself.
_ZONES: Final = frozenset({type(None), timezone, ZoneInfo})
_NONE: Final = sha256(b"None").digest()
#: Items of a long row are digested so many at a time, and rows in it at most so deep.
_AT_ONCE: Final = 4096
_DEPTH: Final = 3
#: What is longer is digested by itself, so that no representation takes much memory, and once where it is shared.
_LONGEST: Final = {str: 256, bytes: 256, tuple: 64, list: 64}


def plain_digest(value: object) -> bytes | None:
    """Return the digest of a value without parts, or of rows of such values; None for all others.

    Args:
        value: Any object.
    """
    find = _DIGESTS.get(type(value))
    return None if find is None else find(value)


def is_long(value: object) -> bool:
    """Tell whether it takes longer to find the digest of a plain value again than to keep it."""
    return type(value) in _SIZED and len(cast("Sized", value)) > _AT_ONCE


def _of_bytes(value: bytes | bytearray) -> bytes:
    digest = sha256(type(value).__name__.encode())
    digest.update(value)
    return digest.digest()


def _of_buffer(value: pickle.PickleBuffer) -> bytes:
    with value.raw() as contents:
        return sha256(contents).digest()


def _of_integer(value: int) -> bytes:
    return sha256(b"int" + hex(value).encode()).digest()


def _of_text(value: str) -> bytes:
    return sha256(b"str" + value.encode(errors="surrogatepass")).digest()


def _of_scalar(value: object) -> bytes:
    return sha256(f"{type(value).__name__} {value!r}".encode()).digest()


def _of_time(value: datetime) -> bytes | None:
    return _of_scalar(value) if type(value.tzinfo) in _ZONES else None


def _of_sequence(value: list[object] | tuple[object, ...]) -> bytes | None:
    digest = sha256(type(value).__name__.encode())
    for some in _in_order(value):
        if some is None:
            return None
        digest.update(repr(some).encode())
    return digest.digest()


def _of_dict(value: dict[object, object]) -> bytes | None:
    return _of_loose("dict", value.items())


def _of_set(value: set[object] | frozenset[object]) -> bytes | None:
    return _of_loose(type(value).__name__, value)


def _of_loose(kind: str, parts: Iterable[object]) -> bytes | None:
    """Return the digest of plain values without an order: that of their digests' sum, which takes no memory."""
    total = 0
    for some in _in_order(parts):
        if some is None:
            return None
        total += sum(int.from_bytes(sha256(repr(part).encode()).digest(), "big") for part in some)
    return sha256(f"{kind} {total:x}".encode()).digest()


def _in_order(values: Iterable[object]) -> Iterator[list[object] | None]:
    """Yield values, many at a time; None in place of those that have others among them."""
    rest = iter(values)
    while some := list(islice(rest, _AT_ONCE)):
        yield some if _is_plain(some) else None


def _is_plain(values: list[object]) -> bool:
    """Tell whether the representation of values says all about them."""
    level = values
    for _ in range(_DEPTH):
        kinds = set(map(type, level))
        if not kinds <= _SCALARS | _SEQUENCES:
            return False
        if datetime in kinds and any(type(part) is datetime and type(part.tzinfo) not in _ZONES for part in level):
            return False
        if any(_has_longer(level, kinds, kind) for kind in kinds & _LONGEST.keys()):
            return False
        if int in kinds and any(type(part) is int and part.bit_length() > _BITS for part in level):
            return False
        if kinds <= _SCALARS:
            return True
        level = list(chain.from_iterable(cast("list[object]", part) for part in level if type(part) in _SEQUENCES))
    return False


def _has_longer(values: list[object], kinds: set[type], kind: type) -> bool:
    same = values if len(kinds) == 1 else [value for value in values if type(value) is kind]
    return max(map(len, cast("list[Sized]", same))) > _LONGEST[kind]


#: Python need not print longer integers.
_BITS: Final = 2_000
_SIZED: Final = frozenset({str, bytes, bytearray, tuple, list, dict, set, frozenset})
_DIGESTS: Final[dict[type, Callable[[Any], bytes | None]]] = {
    **dict.fromkeys(_SCALARS, _of_scalar),
    type(None): lambda _: _NONE,
    bytes: _of_bytes,
    bytearray: _of_bytes,
    pickle.PickleBuffer: _of_buffer,
    int: _of_integer,
    str: _of_text,
    datetime: _of_time,
    tuple: _of_sequence,
    list: _of_sequence,
    dict: _of_dict,
    set: _of_set,
    frozenset: _of_set,
}

"""Reading what is stored: a local version alone, or below the changes of the running epoch that have left memory.

A reading is a read transaction of LMDB, or a `LayeredReading` over two of them; the functions below take both.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lmdb

    Reading: TypeAlias = "lmdb.Transaction | LayeredReading"

#: In the upper layer: the pair is deleted. No value of a row or a timer begins with this byte.
GONE: Final = b"\0"


class LayeredReading:
    """Two read transactions, of which the upper one counts where both have a key."""

    __slots__ = ("above", "below")

    def __init__(self, above: lmdb.Transaction, below: lmdb.Transaction) -> None:
        self.above = above
        self.below = below

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        raw = cast("bytes | None", self.above.get(key))
        if raw is None:
            return cast("bytes | None", self.below.get(key))
        return None if raw == GONE else raw

    def abort(self) -> None:
        """End both transactions."""
        self.above.abort()
        self.below.abort()


def pairs_under(reading: Reading, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """Iterate the stored pairs whose keys have a prefix, from one of them on.

    Each layer ends with the prefix: behind it there may be any number of deleted pairs.
    """
    if type(reading) is LayeredReading:
        return _joined(pairs_under(reading.above, prefix, start), pairs_under(reading.below, prefix, start))
    cursor = cast("lmdb.Transaction", reading).cursor()
    if not cursor.set_range(start or prefix):
        return iter(())
    return takewhile(lambda pair: pair[0].startswith(prefix), cast("Iterator[tuple[bytes, bytes]]", iter(cursor)))


def first_key(reading: Reading, start: bytes) -> bytes:
    """Return the first stored key from another one on, perhaps that of a deleted pair; b"" for none."""
    if type(reading) is LayeredReading:
        keys = [first_key(reading.above, start), first_key(reading.below, start)]
        return min(filter(None, keys), default=b"")
    cursor = cast("lmdb.Transaction", reading).cursor()
    return cast("bytes", cursor.key()) if cursor.set_range(start) else b""


def _joined(
    above: Iterator[tuple[bytes, bytes]], below: Iterator[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    """Iterate the pairs of two layers in the order of keys."""
    upper, lower = next(above, None), next(below, None)
    while upper is not None:
        while lower is not None and lower[0] < upper[0]:
            yield lower
            lower = next(below, None)
        if lower is not None and lower[0] == upper[0]:
            lower = next(below, None)
        if upper[1] != GONE:
            yield upper
        upper = next(above, None)
    if lower is not None:
        yield lower
        yield from below

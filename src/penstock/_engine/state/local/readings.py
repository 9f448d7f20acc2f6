"""Reading stored pairs of bytes at one moment: those of one LMDB environment, or of one above another."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import lmdb

    from penstock._engine.state.local.lineage import Position
    from penstock._engine.state.local.moves import PaneMeta, PaneName

#: In the upper layer: the pair is deleted. No value of a row or a timer begins with this byte.
GONE: Final = b"\0"


class Reading(Protocol):
    """The stored pairs as of one moment, in the order of their keys."""

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value of a key."""
        ...

    def pairs(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Iterate the pairs whose keys have a prefix, from one of them on."""
        ...

    def first_key(self, start: bytes) -> bytes:
        """Return the first key from another one on, perhaps that of a deleted pair; b"" for none."""
        ...

    def close(self) -> None:
        """End the reading, so that old pages can be used again."""
        ...


class Layer(Protocol):
    """Stored pairs by panes: a version, or an overlay of one."""

    @property
    def panes(self) -> Mapping[PaneName, PaneMeta]:
        """The panes that have pairs of their own there."""
        ...

    def read(self, passed: Collection[Position] | None) -> Reading:
        """Begin to read.

        Args:
            passed: The positions at which the version may be: no read may find state that is newer than the memory
                of the caller. None for any.

        Raises:
            VersionMovedError: The version is elsewhere.
        """
        ...


class PlainReading:
    """A read transaction of one environment."""

    def __init__(self, transaction: lmdb.Transaction) -> None:
        self._transaction = transaction
        #: That of the transaction: each read that memory cannot answer calls it.
        self.get: Callable[[bytes], bytes | None] = cast("Any", transaction.get)

    def pairs(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Iterate the pairs whose keys have a prefix, from one of them on."""
        cursor = self._transaction.cursor()
        if not cursor.set_range(start or prefix):
            return iter(())
        return takewhile(lambda pair: pair[0].startswith(prefix), cast("Iterator[tuple[bytes, bytes]]", iter(cursor)))

    def first_key(self, start: bytes) -> bytes:
        """Return the first key from another one on; b"" for none."""
        cursor = self._transaction.cursor()
        return cast("bytes", cursor.key()) if cursor.set_range(start) else b""

    def close(self) -> None:
        """End the transaction."""
        self._transaction.abort()


class LayeredReading:
    """Two readings, of which the upper one counts where both have a key."""

    __slots__ = ("_above", "_below")

    def __init__(self, above: Reading, below: Reading) -> None:
        self._above = above
        self._below = below

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value of a key."""
        raw = self._above.get(key)
        if raw is None:
            return self._below.get(key)
        return None if raw == GONE else raw

    def pairs(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Iterate the pairs whose keys have a prefix, from one of them on.

        Each layer ends with the prefix: behind it there may be any number of deleted pairs.
        """
        above, below = self._above.pairs(prefix, start), self._below.pairs(prefix, start)
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

    def first_key(self, start: bytes) -> bytes:
        """Return the first key from another one on, perhaps that of a deleted pair; b"" for none."""
        return min(filter(None, (self._above.first_key(start), self._below.first_key(start))), default=b"")

    def close(self) -> None:
        """End both readings."""
        self._above.close()
        self._below.close()

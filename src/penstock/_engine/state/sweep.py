"""The sweep for expired rows that no function reads: each epoch looks at a part of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.state.row_lives import RowLives
from penstock._engine.state.table import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.state.rows import Address
    from penstock._engine.state.table import Base, Pane, Table

#: Rows of one part; an epoch looks at one part at least, and at four times as many rows as it has written.
_PART: Final = 1 << 10
_SHARE: Final = 4
#: The limit of rows that an epoch removes.
_MOST: Final = 1 << 17


class Sweep:
    """Goes through a table again and again, and removes expired rows.

    Args:
        table: The table.
        base: The committed version below it.
    """

    def __init__(self, table: Table, base: Base) -> None:
        self._table = table
        self._base = base
        self._parts: Iterator[tuple[int, int]] = iter(())

    def go_on(self, *, whole: bool) -> None:
        """Look at the next rows: four times as many as the epoch has written, or more where many have expired.

        So the expired rows that are not yet found are a fraction of the live rows. The number of removed rows has a
        limit, because each stays in memory as a mark until the local version moves.

        Args:
            whole: Look at all rows, unless too many have expired.
        """
        if whole:
            self._parts = self._cycle()
            self._through(1 << 62)
            return
        written = sum(len(pane.dirty) for pane in self._table.panes.values())
        left = self._through(max(_PART, _SHARE * written))
        if left > 0:  # the end of the table: begin again
            self._parts = self._cycle()
            self._through(left)

    def _through(self, left: int) -> int:
        """Look at `left` rows; return how many of them the rest of the table lacked."""
        gone = 0
        for looked_at, removed in self._parts:
            gone += removed
            if removed <= looked_at // 4:  # parts with many expired rows do not count
                left -= looked_at
            if left <= 0 or gone >= _MOST:
                return 0
        return left

    def _cycle(self) -> Iterator[tuple[int, int]]:
        """Go through the table once; yield for each part the rows looked at and the rows removed."""
        for namespace, pane in list(self._table.panes.items()):
            lives, addresses = RowLives(pane), list(pane.hot)
            for start in range(0, len(addresses), _PART):
                if self._table.panes.get(namespace) is not pane:
                    break
                yield self._look_at(pane, lives, addresses[start : start + _PART])
            place: bytes | None = b""
            while place is not None and pane.stored and self._table.panes.get(namespace) is pane:
                over = self._table.life.over() or _nothing
                expired, looked_at, place = self._base.stored_over(pane, place, _PART, over)
                lives.remove_below(expired)
                yield looked_at, len(expired)

    def _look_at(self, pane: Pane, lives: RowLives, addresses: list[Address]) -> tuple[int, int]:
        over = self._table.life.over() or _nothing
        hot, stamp = pane.hot, pane.stamps.get
        gone = [address for address in addresses if hot.get(address, ABSENT) is not ABSENT and over(stamp(address))]
        lives.remove(gone)
        return len(addresses), len(gone)


def _nothing(stamp: int | None) -> bool:
    return False

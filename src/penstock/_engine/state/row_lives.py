"""Time to live of the rows of one pane, as functions read and write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.state.rows import Address, Row
    from penstock._engine.state.table import Pane


class RowLives:
    """Stamps the rows of a pane, and removes expired rows.

    Args:
        pane: The pane; the rows of its table expire.
    """

    __slots__ = ("_clock", "_duration_ms", "_life", "_pane", "_renews", "_returns_expired", "_stamps", "_table_life")

    def __init__(self, pane: Pane) -> None:
        life = pane.table.life.time_to_live
        assert life is not None
        self._pane = pane
        self._stamps = pane.stamps
        self._table_life = pane.table.life
        self._life = life
        self._clock = life.clock
        self._duration_ms = life.duration_ms
        self._renews = life.is_renewed_by_reads
        self._returns_expired = life.returns_expired

    def now(self) -> int:
        """Return the time of day."""
        return self._clock()

    def stamp(self, address: Address) -> int | None:
        """Return the stamp of a row in memory."""
        return self._stamps.get(address)

    def written(self, address: Address, *, at_least: bool = False) -> None:
        """Note that a row has been written.

        Args:
            address: The row.
            at_least: Keep a newer stamp, where the clock was set back.
        """
        now = self._clock()
        self._stamps[address] = max(now, self._stamps.get(address, now)) if at_least else now

    def renewed_if_read(self, address: Address) -> None:
        """Note that a row in memory has been read; this never makes its stamp older."""
        if self._renews:
            self.written(address, at_least=True)
            self._pane.dirty.add(address)

    def cleared(self, address: Address) -> None:
        """Note that a function has deleted a row."""
        self._stamps.pop(address, None)

    def is_over(self, address: Address) -> bool:
        """Return whether a row in memory has expired."""
        return self._has_passed(self._stamps.get(address), self._clock())

    def read(self, address: Address, value: Any) -> Any:
        """Return the value of a row in memory that a function reads; ABSENT where the row has expired.

        Args:
            address: The row.
            value: Its value, not ABSENT.
        """
        now, stamp = self._clock(), self._stamps.get(address)
        if self._has_passed(stamp, now):
            self.remove([address])
            return value if self._returns_expired else ABSENT
        if self._renews and stamp != now:
            self._stamps[address] = now
            self._pane.dirty.add(address)
        return value

    def reading(self, rows: Iterable[Row], begin: int | None = None) -> Iterator[Row]:
        """Iterate some rows for a function, without expired ones; rows may be written meanwhile.

        Args:
            rows: The rows.
            begin: The time at which the function began to read; None for the current time at each row.
        """
        pane = self._pane
        for row in rows:
            address, value, original, stamp = row
            now = self._clock() if begin is None else begin
            if self._has_passed(stamp, now):
                if self._is_as_it_was(address, value, stamp):
                    pane.put(address, value)
                    self.remove([address])
                if not self._returns_expired:
                    continue
            elif self._renews and stamp != now and self._is_as_it_was(address, value, stamp):
                pane.put(address, value, original, now)
                pane.dirty.add(address)
            yield row

    def remove(self, addresses: list[Address]) -> None:
        """Remove expired rows in memory, and count them."""
        pane = self._pane
        for address in addresses:
            pane.hot[address] = ABSENT
            pane.stamps.pop(address, None)
            pane.originals.pop(address, None)
        pane.dirty.update(addresses)
        self._life.count(len(addresses))

    def remove_below(self, addresses: list[Address]) -> None:
        """Remove expired stored rows, except for rows that memory has."""
        pane, subs = self._pane, self._pane.subs
        gone = [address for address in addresses if address not in pane.hot and not (subs and subs.hides(address))]
        for address in gone:
            pane.put(address, ABSENT)
        self.remove(gone)

    def _has_passed(self, stamp: int | None, now: int) -> bool:
        since = self._table_life.since
        begin = since if stamp is None or (since is not None and stamp < since) else stamp
        return begin is not None and begin + self._duration_ms <= now

    def _is_as_it_was(self, address: Address, value: Any, stamp: int | None) -> bool:
        """Return whether a row has not changed since it was read."""
        held = self._pane.hot.get(address, MISSING)
        if held is MISSING:
            return self._pane.subs is None or not self._pane.subs.hides(address)
        return held is value and self._stamps.get(address) == stamp

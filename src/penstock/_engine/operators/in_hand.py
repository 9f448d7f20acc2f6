"""The records that user functions work on: an error names the one that was taken last."""

from __future__ import annotations

from typing import Any


class RecordsInHand:
    """What calls user functions with records, one after the other."""

    def __init__(self) -> None:
        self._in_hand: list[Any] = []
        self._cursor: Any = iter(())

    def iterate(self, records: list[Any]) -> Any:
        """Return an iterator over records whose position `record_in_hand` can read."""
        self._in_hand = records
        self._cursor = iter(records)
        return self._cursor

    def record_in_hand(self) -> tuple[bool, Any]:
        """Return (True, record) for the record last taken from `iterate`, (False, None) where there is none."""
        taken = len(self._in_hand) - self._cursor.__length_hint__() if self._in_hand else 0
        return (True, self._in_hand[taken - 1]) if taken > 0 else (False, None)

"""The records that user functions work on: an error names the one that was taken last."""

from __future__ import annotations

from typing import Any


class CurrentRecord:
    """What calls user functions with records, one after the other."""

    def __init__(self) -> None:
        self._current: list[Any] = []
        self._cursor: Any = iter(())

    def iterate(self, records: list[Any]) -> Any:
        """Return an iterator over records whose position `current_record` can read."""
        self._current = records
        self._cursor = iter(records)
        return self._cursor

    def current_record(self) -> tuple[bool, Any]:
        """Return (True, record) for the record last taken from `iterate`, (False, None) where there is none."""
        taken = len(self._current) - self._cursor.__length_hint__() if self._current else 0
        return (True, self._current[taken - 1]) if taken > 0 else (False, None)

"""What functions of a test note in this process: it does not travel with them, and is no part of their digest."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

T = TypeVar("T")


class NotedCounts(Counter[T]):
    """Counts; its pickle is an empty one."""

    def __reduce__(self) -> Any:
        return type(self), ()


class NotedList(list[T]):
    """A list; its pickle is an empty one."""

    def __reduce__(self) -> Any:
        return type(self), ()

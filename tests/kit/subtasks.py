"""The subtasks of one operator in harnesses, at a parallelism that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tests.kit.asking import owner

if TYPE_CHECKING:
    from collections.abc import Callable


class Subtasks:
    """All subtasks of one operator; a restore carries their state to others.

    Args:
        make: Returns a harness for ``subtask_index`` and ``parallelism``.
        parallelism: How many there are at first.
    """

    def __init__(self, make: Callable[..., Any], parallelism: int = 1) -> None:
        self.make = make
        self.parts: list[Any] = []
        self.restore(parallelism)

    def restore(self, parallelism: int, *, incremental: bool = True) -> None:
        """Take a checkpoint, and go on from it with that many subtasks; what they put out after it does not count."""
        before = [part.snapshot(incremental=incremental) for part in self.parts]
        self.close()
        self.parts = [self.make(subtask_index=index, parallelism=parallelism) for index in range(parallelism)]
        for index, part in enumerate(self.parts):
            if before:
                part.restore(*([before[index]] if len(before) == parallelism else before))
            part.open()

    def by_part(self, rows: list[Any]) -> list[tuple[Any, list[Any]]]:
        """Return each subtask that gets some of the rows, with these; a row begins with its key."""
        shares = [(part, [row for row in rows if self.owner(row[0]) == at]) for at, part in enumerate(self.parts)]
        return [(part, share) for part, share in shares if share]

    def owner(self, key: Any) -> int:
        """Return the subtask of a key."""
        return owner(key, len(self.parts))

    def close(self) -> None:
        for part in self.parts:
            part.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

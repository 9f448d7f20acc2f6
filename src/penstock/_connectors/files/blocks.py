"""The units that the file sink writes: blocks of records, and batches of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.serialization import BulkWriter


@dataclass(frozen=True, slots=True)
class RowBlock:
    """A block of records."""

    elements: list[Any]

    def __len__(self) -> int:
        return len(self.elements)

    def slice(self, start: int, stop: int) -> RowBlock:
        """Return a run of it."""
        whole = start == 0 and stop >= len(self.elements)
        return self if whole else RowBlock(self.elements[start:stop])

    def take(self, places: list[int]) -> RowBlock:
        """Return the records at some places."""
        return RowBlock([self.elements[place] for place in places])

    def first(self) -> Any:
        """Return its first record."""
        return self.elements[0]

    def write_to(self, writer: BulkWriter) -> None:
        """Write it."""
        writer.add_elements(self.elements)


@dataclass(frozen=True, slots=True)
class ColumnBlock:
    """A batch of columns."""

    batch: Any
    #: Returns the records, made once.
    records: Callable[[], list[Any]]

    def __len__(self) -> int:
        return self.batch.num_rows

    def slice(self, start: int, stop: int) -> ColumnBlock:
        """Return a run of it."""
        whole = start == 0 and stop >= len(self)
        return self if whole else ColumnBlock(self.batch[start:stop], lambda: self.records()[start:stop])

    def take(self, places: list[int]) -> ColumnBlock:
        """Return the records at some places."""
        return ColumnBlock(self.batch.take(places), lambda: list(map(self.records().__getitem__, places)))

    def first(self) -> Any:
        """Return its first record."""
        return self.records()[0]

    def write_to(self, writer: BulkWriter) -> None:
        """Write it."""
        writer.add_batch(self.batch, self.records)


Block: TypeAlias = RowBlock | ColumnBlock

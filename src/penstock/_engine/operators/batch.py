"""A batch: records that operators pass on together, with their timestamps and watermarks.

A batch has two forms: rows, a list of Python objects, and columns (`columns.ColumnBatch`), an Arrow RecordBatch. An
operator that works on rows only gets rows; see `base.Operator`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import accumulate, compress
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock.common.copies import copy_all_if_mutable

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The shape of immutable records: their common type, or the types of the fields of tuples.
Shape: TypeAlias = "type[Any] | tuple[type[Any], ...]"
#: (position, watermark) in order.
Watermarks: TypeAlias = "list[tuple[int, int]] | tuple[()]"


class Batch(ABC):
    """Records in order; a batch is read-only once passed on, because several consumers may share it.

    Attributes:
        watermarks: (position, watermark) in order; a watermark precedes the record at its position.
    """

    __slots__ = ()

    watermarks: Watermarks

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records."""

    @abstractmethod
    def rows(self) -> RowBatch:
        """Return the batch as rows; columns are converted once."""

    @abstractmethod
    def run(self, start: int, stop: int) -> Self:
        """Return a run of records without watermarks."""

    def slice(self, start: int, stop: int) -> Self:
        """Return a run of records with its watermarks; watermarks after the last record belong to the last run."""
        part = self.run(start, stop)
        part.watermarks = self.watermarks_in(start, stop)
        return part

    @abstractmethod
    def take(self, places: Any) -> Self:
        """Return the records at some places, without watermarks.

        Args:
            places: A list of whole numbers; or, of columns, a column of them.
        """

    @abstractmethod
    def every(self, first: int, step: int) -> Self:
        """Return each step-th record, beginning with the first one, without watermarks."""

    @abstractmethod
    def stamps(self) -> list[int]:
        """Return one timestamp for each record, Flink's Long.MIN_VALUE for a record without."""

    @abstractmethod
    def copy_if_shared(self, *, object_reuse: bool) -> Batch:
        """Return the batch for one of several consumers, each of which may change its records.

        Args:
            object_reuse: Give all consumers the same records.
        """

    def segments(self) -> Iterator[tuple[int, int, int | None]]:
        """Yield (start, stop, watermark): a run of records and the watermark after it, None after the last."""
        start = 0
        for position, watermark in self.watermarks:
            yield start, position, watermark
            start = position
        if start < len(self):
            yield start, len(self), None

    def watermarks_in(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the watermarks of a run, with their positions in it."""
        count = len(self)
        return [
            (position - start, mark)
            for position, mark in self.watermarks
            if start <= position < stop or (position >= count <= stop)
        ]


@dataclass(slots=True)
class RowBatch(Batch):
    """A batch of Python objects.

    Attributes:
        records: The records.
        timestamps: One per record, in milliseconds; None when no record of the batch has one.
        watermarks: See `Batch`.
        shape: The shape of all records, where it is known without checking them.
    """

    records: list[Any]
    timestamps: list[int] | None = None
    watermarks: Watermarks = ()
    shape: Shape | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.records)

    def rows(self) -> RowBatch:
        return self

    def run(self, start: int, stop: int) -> RowBatch:
        stamps = None if self.timestamps is None else self.timestamps[start:stop]
        return RowBatch(self.records[start:stop], stamps, (), self.shape)

    def copy_if_shared(self, *, object_reuse: bool) -> RowBatch:
        as_they_are = object_reuse or self.shape is not None  # known not to change
        records = self.records if as_they_are else copy_all_if_mutable(self.records)
        return RowBatch(records, self.timestamps, self.watermarks, self.shape)

    def every(self, first: int, step: int) -> RowBatch:
        stamps = None if self.timestamps is None else self.timestamps[first::step]
        return RowBatch(self.records[first::step], stamps, (), self.shape)

    def take(self, places: list[int]) -> RowBatch:
        stamps = None if self.timestamps is None else [self.timestamps[place] for place in places]
        return RowBatch([self.records[place] for place in places], stamps, (), self.shape)

    def stamps(self, start: int = 0, stop: int | None = None) -> list[int]:
        """Return the timestamps of all records, or of those of a run."""
        if self.timestamps is not None:
            return self.timestamps[start:stop]
        return [NO_TIMESTAMP] * len(range(len(self.records))[start:stop])

    def keeping(self, kept: list[bool], records: list[Any]) -> RowBatch:
        """Return a batch of the kept records, with their timestamps and the watermarks between them.

        Args:
            kept: Whether each record of this batch is kept.
            records: The result for each record of this batch.
        """
        places = list(accumulate(kept, initial=0))
        return RowBatch(
            list(compress(records, kept)),
            None if self.timestamps is None else list(compress(self.timestamps, kept)),
            [(places[position], watermark) for position, watermark in self.watermarks],
            self.shape if records is self.records else None,
        )


def watermark_only(watermark: int) -> RowBatch:
    """Return a batch that carries one watermark and no record."""
    return RowBatch([], None, [(0, watermark)])


class BatchBuilder:
    """Collects an operator's output: records, their timestamps, and watermarks at their positions."""

    __slots__ = ("_shape", "_shaped", "records", "timestamps", "watermarks")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.timestamps: list[int] = []
        self.watermarks: list[tuple[int, int]] = []
        #: The shape of so many records from the first one on.
        self._shape: Shape | None = None
        self._shaped = 0

    def add_watermark(self, watermark: int) -> None:
        """Put a watermark after the records so far."""
        self.watermarks.append((len(self.records), watermark))

    def note_shape(self, start: int, shape: Shape | None) -> None:
        """Note that all records from a position on have a shape; None where that is not known."""
        if start == self._shaped and shape is not None and (start == 0 or shape == self._shape):
            self._shape, self._shaped = shape, len(self.records)

    def build(self) -> RowBatch:
        """Return the batch, without timestamps when no record has one."""
        stamped = bool(self.timestamps) and any(stamp != NO_TIMESTAMP for stamp in self.timestamps)
        shape = self._shape if self._shaped == len(self.records) else None
        return RowBatch(self.records, self.timestamps if stamped else None, self.watermarks, shape)

"""A batch: the records that operators hand each other at once, with their timestamps and watermarks."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, compress
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock._engine.protocol.rows import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What records are that nothing can change: the type of each, or the types of the fields of each, a tuple.
Shape: TypeAlias = "type[Any] | tuple[type[Any], ...]"


@dataclass(slots=True)
class RowBatch:
    """Records in order; read-only once handed on, because several consumers may share it.

    Attributes:
        records: The records.
        timestamps: One per record, in milliseconds; None when no record of the batch has one.
        watermarks: (position, watermark) in order; a watermark stands before ``records[position]``.
        shape: That of all records, where it is known without a look at them.
    """

    records: list[Any]
    timestamps: list[int] | None = None
    watermarks: list[tuple[int, int]] | tuple[()] = ()
    shape: Shape | None = field(default=None, compare=False)

    def segments(self) -> Iterator[tuple[int, int, int | None]]:
        """Yield (start, stop, watermark): a run of records and the watermark after it, None after the last."""
        start = 0
        for position, watermark in self.watermarks:
            yield start, position, watermark
            start = position
        if start < len(self.records):
            yield start, len(self.records), None

    def stamps(self, start: int = 0, stop: int | None = None) -> list[int]:
        """Return one timestamp for each record of a run, Flink's Long.MIN_VALUE for a record without."""
        if self.timestamps is not None:
            return self.timestamps[start:stop]
        return [NO_TIMESTAMP] * len(range(len(self.records))[start:stop])

    def keeping(self, kept: list[bool], records: list[Any]) -> RowBatch:
        """Return a batch of those records that are kept, with their timestamps and the watermarks between them.

        Args:
            kept: One for each record of this batch.
            records: What has become of the records, as many as there were.
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
    """Collects an operator's output: records, their timestamps, and watermarks where they stand."""

    __slots__ = ("records", "timestamps", "watermarks")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.timestamps: list[int] = []
        self.watermarks: list[tuple[int, int]] = []

    def add_watermark(self, watermark: int) -> None:
        """Put a watermark after the records so far."""
        self.watermarks.append((len(self.records), watermark))

    def build(self) -> RowBatch:
        """Return the batch, without timestamps when no record has one."""
        stamped = bool(self.timestamps) and any(stamp != NO_TIMESTAMP for stamp in self.timestamps)
        return RowBatch(self.records, self.timestamps if stamped else None, self.watermarks)

"""Batches of columns: an Arrow RecordBatch whose rows are the records, converted to Python objects on demand.

Columns cannot change, so consumers share them without a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.operators.batch import Batch, RowBatch
from penstock._engine.protocol.rows import NO_TIMESTAMP
from penstock._engine.protocol.times import checked_timestamps
from penstock.common.columns import RecordLayout, int64_column, int64_column_of, records_of
from penstock.common.copies import copy_all_if_mutable
from penstock.errors import BatchColumnsError, TimestampError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.operators.batch import Watermarks

#: Rows converted at once: few enough to stay in the processor's cache until operators have processed them.
_ROWS_AT_ONCE: Final = 2048


class ColumnBatch(Batch):
    """A batch of columns.

    Args:
        columns: A pyarrow.RecordBatch.
        layout: The Python type of its records.
        timestamps: A column of int64 without nulls, in milliseconds; None when no record has a time.
        watermarks: See `Batch`.
    """

    __slots__ = ("_origin", "_records", "_stamps", "columns", "layout", "timestamps", "watermarks")

    def __init__(
        self,
        columns: Any,
        layout: RecordLayout = RecordLayout.DICTS,
        timestamps: Any = None,
        watermarks: Watermarks = (),
    ) -> None:
        self.columns: Any = columns
        self.layout: RecordLayout = layout
        self.timestamps: Any = timestamps
        self.watermarks: Watermarks = watermarks
        #: The converted records and times; and, for a copy, the original batch, which converts for both.
        self._records: list[Any] | None = None
        self._stamps: list[int] | None = None
        self._origin: ColumnBatch | None = None

    def __len__(self) -> int:
        return self.columns.num_rows

    def rows(self) -> RowBatch:
        if self.timestamps is not None and self._stamps is None:
            self._stamps = self.timestamps.to_pylist()
        return RowBatch(self.records(), self._stamps, self.watermarks)

    def records(self) -> list[Any]:
        """Return the records as Python objects; each call returns the same list."""
        if self._records is None:
            origin = self._origin
            self._records = (
                records_of(self.columns, self.layout) if origin is None else copy_all_if_mutable(origin.records())
            )
        return self._records

    def run(self, start: int, stop: int) -> ColumnBatch:
        stamps = None if self.timestamps is None else self.timestamps[start:stop]
        part = ColumnBatch(self.columns[start:stop], self.layout, stamps)
        if self._records is not None:
            part._records = self._records[start:stop]
        return part

    def pieces(self) -> Iterator[ColumnBatch]:
        """Yield the batch in runs small enough for operators on rows."""
        if len(self) <= _ROWS_AT_ONCE:
            yield self
            return
        for start in range(0, len(self), _ROWS_AT_ONCE):
            yield self.slice(start, start + _ROWS_AT_ONCE)

    def copy_if_shared(self, *, object_reuse: bool) -> ColumnBatch:
        if object_reuse:
            return self
        part = ColumnBatch(self.columns, self.layout, self.timestamps, self.watermarks)
        part._origin = self
        return part

    def stamped(self, timestamps: Any, watermarks: Watermarks) -> ColumnBatch:
        """Return the batch with other timestamps and watermarks; converted records are kept."""
        batch = ColumnBatch(self.columns, self.layout, timestamps, watermarks)
        batch._records, batch._origin = self._records, self._origin
        return batch

    def take(self, places: Any) -> ColumnBatch:
        places = int64_column(cast("list[int]", places)) if isinstance(places, list) else places
        stamps = None if self.timestamps is None else self.timestamps.take(places)
        return ColumnBatch(self.columns.take(places), self.layout, stamps)

    def every(self, first: int, step: int) -> ColumnBatch:
        import numpy as np

        return self.take(int64_column_of(np.arange(first, len(self), step)))

    def stamps(self) -> list[int]:
        return [NO_TIMESTAMP] * len(self) if self.timestamps is None else self.timestamps.to_pylist()

    def has(self, name: str) -> bool:
        """Return whether its records have a field that is a column of that name."""
        return self.layout in {RecordLayout.DICTS, RecordLayout.ROWS} and name in self.columns.schema.names

    @property
    def form(self) -> tuple[Any, RecordLayout, bool]:
        """The schema, the layout and whether records have timestamps: batches of one form can be joined."""
        return self.columns.schema, self.layout, self.timestamps is not None


def joined(batches: list[ColumnBatch], watermarks: Watermarks) -> ColumnBatch:
    """Join batches of one form.

    Args:
        batches: The batches, at least one.
        watermarks: The watermarks of the joined batch.
    """
    first = batches[0]
    if len(batches) == 1:
        return first.stamped(first.timestamps, watermarks)
    import pyarrow as pa

    whole: Any = pa
    stamps = None if first.timestamps is None else whole.concat_arrays([batch.timestamps for batch in batches])
    return ColumnBatch(whole.concat_batches([batch.columns for batch in batches]), first.layout, stamps, watermarks)


def time_column(timestamps: Any, count: int) -> Any:
    """Return the timestamps that a source emits as a column of milliseconds.

    Args:
        timestamps: A column of whole numbers or of points in time, or a sequence of whole numbers.
        count: The number of records.

    Raises:
        TimestampError: A timestamp is no valid time.
        BatchColumnsError: The number of timestamps differs from the number of records.
    """
    import pyarrow as pa

    kinds: Any = pa.types
    if len(timestamps) != count:
        raise BatchColumnsError(("timestamps",), f"there are {len(timestamps)} timestamps for {count} records")
    if not isinstance(timestamps, (pa.Array, pa.ChunkedArray)):
        return int64_column(checked_timestamps(timestamps, range(count)))
    column = cast("Any", timestamps)
    if isinstance(timestamps, pa.ChunkedArray):
        column = column.combine_chunks()
    if column.null_count:
        raise TimestampError("The timestamp of a record in a batch", "None")
    if not kinds.is_timestamp(column.type) and not kinds.is_integer(column.type):
        raise TimestampError("The timestamp of a record in a batch", f"of type {column.type}")
    try:
        return _milliseconds(column) if kinds.is_timestamp(column.type) else column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise TimestampError("The timestamp of a record in a batch", str(error)) from None


def _milliseconds(times: Any) -> Any:
    """Return points in time as whole milliseconds: of each the last one that is not behind it.

    Raises:
        ArrowInvalid: One is further from the epoch than milliseconds of 64 bits tell.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    functions: Any = pc
    numbers, unit = times.view(pa.int64()), times.type.unit
    if unit == "s":
        return functions.multiply_checked(numbers, 1000)
    if unit == "ms":
        return numbers
    parts = 1000 if unit == "us" else 1_000_000
    towards_zero = functions.divide(numbers, parts)
    is_behind = functions.greater(functions.multiply(towards_zero, parts), numbers)
    return functions.subtract(towards_zero, is_behind.cast(pa.int64()))


def greatest(column: Any) -> int:
    """Return the greatest number of a column that has one."""
    import pyarrow.compute as pc

    return pc.max(column).as_py()

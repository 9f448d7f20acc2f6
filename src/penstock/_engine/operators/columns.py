"""Batches of columns: an Arrow RecordBatch whose rows are the records, Python objects only where they are asked for.

Nothing can change columns, so they are handed on without a copy, whoever shares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.operators.batch import Batch, RowBatch
from penstock._engine.protocol.times import checked_timestamps
from penstock.common.columns import RecordLayout, int64_column, records_of
from penstock.common.copies import own_all
from penstock.errors import BatchColumnsError, TimestampError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.operators.batch import Watermarks

#: Rows that are made of columns at once: so many stay in the processor's cache until operators have worked on them.
_ROWS_AT_ONCE: Final = 2048


class ColumnBatch(Batch):
    """A batch of columns.

    Args:
        columns: A pyarrow.RecordBatch.
        layout: What a record of it is.
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
        self.columns = columns
        self.layout = layout
        self.timestamps = timestamps
        self.watermarks = watermarks
        #: What it was converted to, and the batch that it shares its columns with: converted there, copied here.
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
        """Return the records; whoever calls it twice gets the same ones."""
        if self._records is None:
            origin = self._origin
            self._records = records_of(self.columns, self.layout) if origin is None else own_all(origin.records())
        return self._records

    def slice(self, start: int, stop: int) -> ColumnBatch:
        stamps = None if self.timestamps is None else self.timestamps[start:stop]
        part = ColumnBatch(self.columns[start:stop], self.layout, stamps, self.watermarks_in(start, stop))
        if self._records is not None:
            part._records = self._records[start:stop]
        return part

    def pieces(self) -> Iterator[ColumnBatch]:
        """Yield the batch in runs that are good for operators on rows."""
        if len(self) <= _ROWS_AT_ONCE:
            yield self
            return
        for start in range(0, len(self), _ROWS_AT_ONCE):
            yield self.slice(start, start + _ROWS_AT_ONCE)

    def apart(self, *, object_reuse: bool) -> ColumnBatch:
        if object_reuse:
            return self
        part = ColumnBatch(self.columns, self.layout, self.timestamps, self.watermarks)
        part._origin = self
        return part

    def stamped(self, timestamps: Any, watermarks: Watermarks) -> ColumnBatch:
        """Return the batch with other timestamps and watermarks; what was converted stays so."""
        batch = ColumnBatch(self.columns, self.layout, timestamps, watermarks)
        batch._records, batch._origin = self._records, self._origin
        return batch

    def take(self, places: Any) -> ColumnBatch:
        """Return the records at some places, without watermarks.

        Args:
            places: A column of whole numbers.
        """
        stamps = None if self.timestamps is None else self.timestamps.take(places)
        return ColumnBatch(self.columns.take(places), self.layout, stamps)

    @property
    def form(self) -> tuple[Any, RecordLayout, bool]:
        """What batches have in common that can be put into one: their schema, layout, and whether they are stamped."""
        return self.columns.schema, self.layout, self.timestamps is not None


def joined(batches: list[ColumnBatch], watermarks: Watermarks) -> ColumnBatch:
    """Return batches of one form as one.

    Args:
        batches: At least one.
        watermarks: Those of the whole.
    """
    first = batches[0]
    if len(batches) == 1:
        return first.stamped(first.timestamps, watermarks)
    import pyarrow as pa

    whole: Any = pa
    stamps = None if first.timestamps is None else whole.concat_arrays([batch.timestamps for batch in batches])
    return ColumnBatch(whole.concat_batches([batch.columns for batch in batches]), first.layout, stamps, watermarks)


def time_column(timestamps: Any, count: int) -> Any:
    """Return the timestamps of records, as a source gives them, as a column of milliseconds.

    Args:
        timestamps: A column of whole numbers or of points in time, or a sequence of whole numbers.
        count: The number of records.

    Raises:
        TimestampError: One of them is no time.
        BatchColumnsError: They are more or fewer than the records.
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
    if kinds.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    elif not kinds.is_integer(column.type):
        raise TimestampError("The timestamp of a record in a batch", f"of type {column.type}")
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise TimestampError("The timestamp of a record in a batch", str(error)) from None


def greatest(column: Any) -> int:
    """Return the greatest number of a column that has one."""
    import pyarrow.compute as pc

    return pc.max(column).as_py()

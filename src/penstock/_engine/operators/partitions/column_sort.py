"""Sorts columns in bounded memory, by several columns, stably and without a Python object for each row.

Batches are collected; when they exceed the memory they are sorted and written to a file as one *run* of Arrow batches.
The runs are merged block by block: the next block of each run goes into one table, which is sorted. Up to the first row
that is the last one of its block, its order is final, because nothing that follows comes before it.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn, cast

from penstock._engine.operators.base import NOTHING
from penstock._engine.operators.columnar.columnar_operator import ColumnarOperator
from penstock._engine.operators.columnar.record_columns import DeclaredColumns
from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.operators.sorting.spilling import MOST_RUNS, PartitionSorter, SpillFiles
from penstock._formats.arrow_misfits import MisfitError
from penstock._formats.arrow_widening import joined, joined_schema
from penstock.common.batch_options import SORT_KEYED_PARTITION_MEMORY, SORT_PARTITION_MEMORY
from penstock.common.order import Order
from penstock.common.user_values import short_repr
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from penstock._engine.operators.base import Output
    from penstock.common.columns import RecordLayout
    from penstock.common.typeinfo import TypeInformation

#: The column of timestamps in runs; no column of records has a name with this character.
_STAMP: Final = "\0time"
#: The sorted copy of a run, its indices and the merged blocks are beside the batches in memory.
_SHARE: Final = 3
#: The rows of a block, and of a batch of results.
_BLOCK_ROWS: Final = 1 << 16
_LEAST_BLOCK_ROWS: Final = 256
#: Whether Arrow takes the place of nulls with each key; earlier versions take one for all.
_NULLS_BY_KEY: Final = int(version("pyarrow").partition(".")[0]) >= 25


class SortBatchesOperator(ColumnarOperator, PartitionSorter):
    """Sorts all batches of columns of the subtask.

    Args:
        columns: The columns to sort by, each with its direction; the first one counts most.
        nulls_first: Whether null comes first, then NaN.
        input_type: The declared type of the records before it, None without one.
        by_key: Whether the first column is the key of a keyed stream.
    """

    def __init__(
        self,
        columns: list[tuple[str, Order]],
        input_type: TypeInformation | None,
        *,
        nulls_first: bool,
        by_key: bool,
    ) -> None:
        super().__init__()
        self._by, self._nulls_first = columns, nulls_first
        self.given = DeclaredColumns.of(input_type)
        self.memory = SORT_KEYED_PARTITION_MEMORY if by_key else SORT_PARTITION_MEMORY
        #: The layout of all batches, and whether they have timestamps.
        self._form: tuple[RecordLayout, bool] | None = None
        #: The schema of the last batch.
        self._checked: Any = None

    def new_sorter(self, memory_bytes: int, directory: Path) -> ColumnSorter:
        return ColumnSorter(self._by, memory_bytes, directory, nulls_first=self._nulls_first)

    def process_columns(self, batch: ColumnBatch, input_index: int) -> Iterable[Output]:
        if len(batch):
            self._add(batch)
        return NOTHING

    def _add(self, batch: ColumnBatch) -> None:
        columns = batch.columns
        if batch.timestamps is not None:
            columns = columns.append_column(_STAMP, batch.timestamps)
        if self._checked is None or not batch.columns.schema.equals(self._checked):
            self._check(batch)
            self._checked = batch.columns.schema
        if self._form not in {None, batch.form[1:]}:
            self._refuse(batch, "records of two forms, or with timestamps and without them")
        self._form = batch.form[1:]
        try:
            self.sorter.add(columns)
        except MisfitError as error:
            self._refuse(batch, f"records such as {short_repr(batch.slice(0, 1).rows().records[0])}: {error.reason}")

    def _refuse(self, batch: ColumnBatch, reason: str) -> NoReturn:
        told = f"{self.context.operator_name!r} sorts columns of one schema, and got {reason}; declare the type"
        raise BatchColumnsError(tuple(batch.columns.schema.names), f"{told} of the records")

    def _check(self, batch: ColumnBatch) -> None:
        """Refuse columns that are missing or have no order."""
        import pyarrow as pa

        schema, name = batch.columns.schema, self.context.operator_name
        missing = next((column for column, _ in self._by if column not in schema.names), None)
        if missing is not None:
            reason = f"{name!r} cannot sort by {missing!r}: it has no such column"
            raise BatchColumnsError(tuple(schema.names), reason)
        try:
            self.sorter.order(cast("Any", pa.Table).from_batches([batch.columns.slice(0, 0)]))
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid) as error:
            told = ", ".join(f"{column!r} ({schema.field(column).type})" for column, _ in self._by)
            reason = f"{name!r} cannot sort by {told}: Arrow has no order for that type ({error})"
            raise BatchColumnsError(tuple(schema.names), reason) from error

    def in_order(self) -> Iterator[Output]:
        if self._form is not None:
            layout, is_stamped = self._form
            for columns in self._sorted():
                if is_stamped:
                    place = columns.schema.get_field_index(_STAMP)
                    yield None, ColumnBatch(columns.remove_column(place), layout, columns.column(place))
                else:
                    yield None, ColumnBatch(columns, layout)

    def _sorted(self) -> Iterator[Any]:
        try:
            yield from self.sorter.batches()
        except MisfitError as error:
            told = f"what {self.context.operator_name!r} has sorted does not fit later records ({error.reason})"
            way_out = "convert them in a map() before, or declare the type of the records"
            raise BatchColumnsError((error.column,), f"{told}; {way_out}") from error


class ColumnSorter:
    """Sorts Arrow batches; where their schemas differ, into the narrowest one that holds the values of all.

    Args:
        by: The columns, each with its direction.
        memory_bytes: The memory for batches and for sorting them.
        directory: The directory of runs; it is made, and deleted by `close`.
        nulls_first: Whether null comes first, then NaN.
        most_runs: The number of runs at which they are merged into one.

    Raises:
        SortSpillError: The directory cannot be made or written to.
    """

    def __init__(
        self,
        by: Sequence[tuple[str, Order]],
        memory_bytes: int,
        directory: Path,
        *,
        nulls_first: bool,
        most_runs: int = MOST_RUNS,
    ) -> None:
        self._keys = [(name, order.value) for name, order in by]
        self._nulls = "at_start" if nulls_first else "at_end"
        self._most_bytes, self._most_runs = memory_bytes // _SHARE, most_runs
        self._waiting: list[Any] = []
        #: The schema of what waits, and of what is read of runs; it only widens.
        self._schema: Any = None
        self._bytes, self._rows_bytes = 0, 1
        self._files = SpillFiles(directory, most_runs)

    def add(self, batch: Any) -> None:
        """Add an Arrow batch.

        Raises:
            MisfitError: A column has a type that has none in common with that of earlier batches.
            SortSpillError: It does not fit into memory, and there is no room on the disk.
        """
        if self._schema is None:
            self._schema = batch.schema
        elif not batch.schema.equals(self._schema):
            self._schema = joined_schema([self._schema, batch.schema])
            self._waiting = [self._as_all(one) for one in self._waiting]
            batch = self._as_all(batch)
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        self._rows_bytes = max(self._rows_bytes, batch.nbytes // batch.num_rows)
        if self._bytes >= self._most_bytes:
            self._spill()

    def _as_all(self, batch: Any) -> Any:
        """Return a batch with the schema of all.

        Raises:
            MisfitError: A value would be changed.
        """
        import pyarrow as pa

        if batch.schema.equals(self._schema):
            return batch
        none: Any = self._schema.empty_table()
        return _one(joined([none, cast("Any", pa.Table).from_batches([batch])]))

    def batches(self) -> Iterator[Any]:
        """Iterate all rows in order, once.

        Raises:
            SortSpillError: A run cannot be read.
        """
        if not self._files.runs:
            yield from self._in_memory()
            return
        self._spill()
        yield from self._merged([self._read(file) for file in self._files.runs])

    def close(self) -> None:
        """Delete the runs."""
        self._waiting.clear()
        self._files.close()

    def order(self, table: Any) -> Any:
        """Return the positions of a table's rows in order; rows that are equal keep theirs."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if len(self._keys) == 1:
            name, direction = self._keys[0]
            found = _order_of_numbers(table.column(name), is_descending=direction == Order.DESCENDING.value)
            if found is not None:
                return found
        table = table.select(list(dict.fromkeys(name for name, _ in self._keys)))
        for place, field in enumerate(table.schema):
            if pa.types.is_dictionary(field.type):
                table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
        if _NULLS_BY_KEY:
            return cast("Any", pc).sort_indices(table, sort_keys=[(*key, self._nulls) for key in self._keys])
        return cast("Any", pc).sort_indices(table, sort_keys=self._keys, null_placement=self._nulls)

    # ------------------------------------------------------------------------------------------------------- the runs

    @property
    def _block_rows(self) -> int:
        """The rows of a block, of which the merge of the most runs holds one of each, twice."""
        most = self._most_bytes // (2 * self._most_runs * self._rows_bytes)
        return max(_LEAST_BLOCK_ROWS, min(_BLOCK_ROWS, most))

    def _in_memory(self) -> Iterator[Any]:
        """Yield what waits, in order."""
        import pyarrow as pa

        batches, self._waiting, self._bytes = self._waiting, [], 0
        if batches:
            table: Any = cast("Any", pa.Table).from_batches(batches).combine_chunks()
            batches.clear()
            yield from self._taken(table, self.order(table))

    def _taken(self, table: Any, order: Any) -> Iterator[Any]:
        """Yield rows of a table in an order, in blocks."""
        size = self._block_rows
        for start in range(0, len(order), size):
            yield _one(table.take(order[start : start + size]))

    def _spill(self) -> None:
        if self._waiting:
            self._write(self._in_memory())
        self._files.merge_many(lambda files: self._write(self._merged([self._read(file) for file in files])))

    def _write(self, blocks: Iterator[Any]) -> None:
        import pyarrow as pa

        with self._files.naming():
            file = self._files.new()
            first = next(blocks)
            with cast("Any", pa.ipc).new_stream(file, first.schema) as writer:
                writer.write_batch(first)
                for block in blocks:
                    writer.write_batch(block)
            file.flush()

    def _read(self, file: IO[bytes]) -> Iterator[Any]:
        import pyarrow as pa

        with self._files.naming():
            file.seek(0)
            with cast("Any", pa.ipc).open_stream(file) as reader:
                yield from map(self._as_all, reader)

    def _merged(self, runs: list[Iterator[Any]]) -> Iterator[Any]:
        """Merge runs, oldest first."""
        import numpy as np
        import pyarrow as pa

        heads = [_NextRows(run) for run in runs]
        rows = max(self._block_rows, self._most_bytes // (2 * len(runs) * self._rows_bytes))
        while heads := [head for head in heads if head.fill(rows)]:
            table: Any = cast("Any", pa).concat_tables([head.table for head in heads]).combine_chunks()
            order = np.asarray(self.order(table))
            ends = np.cumsum([len(head.table) for head in heads])
            bounds = [end - 1 for end, head in zip(ends.tolist(), heads, strict=True) if not head.has_ended]
            if bounds:
                place = np.empty(len(order), np.int64)
                place[order] = np.arange(len(order))
                order = order[: int(place[bounds].min()) + 1]
            yield from self._taken(table, pa.array(order))
            counts = np.bincount(np.searchsorted(ends, order, side="right"), minlength=len(heads))
            for head, count in zip(heads, counts.tolist(), strict=True):
                head.table = head.table.slice(count)


class _NextRows:
    """The next rows of a run."""

    def __init__(self, run: Iterator[Any]) -> None:
        self._run = run
        self.table: Any = None
        self.has_ended = False

    def fill(self, rows: int) -> bool:
        """Read on until there are so many rows; return whether there are any."""
        import pyarrow as pa

        parts: list[Any] = [] if self.table is None else self.table.to_batches()
        count = sum(map(len, parts))
        while count < rows and not self.has_ended:
            block = next(self._run, None)
            self.has_ended = block is None
            if block is not None:
                parts.append(block)
                count += len(block)
        if count:
            self.table = cast("Any", pa.Table).from_batches(parts)
        return count > 0


def _order_of_numbers(column: Any, *, is_descending: bool) -> Any:
    """Return the order of whole or floating-point numbers or of times, by NumPy; None for other columns.

    NumPy's unstable sort takes less than half of the time of a stable one. Equal numbers are put in order behind it,
    which costs something only where there are some.
    """
    import numpy as np

    values = _numbers(column)
    if values is None:
        return None
    if is_descending:
        values = np.invert(values) if values.dtype.kind in "iu" else -values
    if len(values) > 1 and bool((values[1:] < values[:-1]).mean() < 0.01):  # mostly runs
        return np.argsort(values, kind="stable")
    order = np.argsort(values)
    in_order = values[order]
    equal = in_order[1:] == in_order[:-1]
    if bool(equal.any()):
        tied = np.zeros(len(order), bool)
        tied[1:] |= equal
        tied[:-1] |= equal
        group = np.cumsum(np.concatenate(([False], ~equal)))[tied]
        some = order[tied]
        order[tied] = some[np.lexsort((some, group))]
    return order


def _numbers(column: Any) -> Any:
    """Return a column without nulls and NaN as numbers that have its order; None for other columns."""
    import numpy as np
    import pyarrow as pa

    kinds, kind = cast("Any", pa.types), column.type
    if column.null_count:
        return None
    if kinds.is_timestamp(kind) or kinds.is_duration(kind) or kinds.is_time64(kind) or kinds.is_date64(kind):
        column = (
            column.cast(pa.int64()) if not kinds.is_date64(kind) else column.cast(pa.timestamp("ms")).cast(pa.int64())
        )
    elif kinds.is_date32(kind):
        column = column.cast(pa.int32())
    elif not (kinds.is_integer(kind) or kinds.is_float32(kind) or kinds.is_float64(kind)):
        return None
    values = column.to_numpy()
    return None if values.dtype.kind == "f" and bool(np.isnan(values).any()) else values


def _one(table: Any) -> Any:
    """Return a table as one batch."""
    return table.combine_chunks().to_batches()[0]

"""StateRows: one state of a savepoint as Python values, pandas, Arrow or Spark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import pyarrow as pa

from penstock.savepoint._plain import as_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from penstock.savepoint._columns import RowShape

EntryT = TypeVar("EntryT")

#: Types that pandas has columns for, from which they come as they were.
_COLUMN_TYPES: Final = frozenset({int, float, bool})
#: Rows that a schema is guessed from before the rest is read.
_GUESS_ROWS: Final = 1_000
#: Rows of a batch by default.
_BATCH_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class StateRows(Generic[EntryT]):
    """The entries of one state, read again, one subtask after the other, each time they are iterated.

    Iterating gives them as Python values. In Arrow and Spark, what has parts is a struct: tuples of ``_1``, ``_2`` …,
    dicts of their names. What Arrow has no type for (dataclasses, named tuples, rows, members of enums, UUIDs, moments
    with a time zone …) is a struct whose field ``_python`` says what it was: `SavepointWriter` makes the same of it
    again. Where numbers of a column are of several types, they are such structs as well.

    Reading unpickles the values: read savepoints that you trust as you trust code.

    Args:
        parts: One for each subtask; made by `Savepoint`.
        shape: The columns.
    """

    parts: tuple[Callable[[], Iterable[EntryT]], ...]
    shape: RowShape[EntryT]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.shape.columns

    def __iter__(self) -> Iterator[EntryT]:
        for part in self.parts:
            yield from part()

    def to_pandas(self) -> pd.DataFrame:
        """Return all entries as a pandas DataFrame, whose columns hold the Python values themselves.

        But a bytearray, an array of NumPy's, and a value that has the form of one of Arrow's structs (a dict of ``_1``,
        ``_2`` … or with a key ``_python``), is a struct that says so, because it would be written again as another.
        """
        import pandas

        rows = list(map(self.shape.cells, self))
        cells = {column: [as_read(row[place]) for row in rows] for place, column in enumerate(self.columns)}
        return pandas.DataFrame({column: _series(pandas, values) for column, values in cells.items()})

    def to_arrow(self, schema: pa.Schema | None = None) -> pa.Table:
        """Return all entries as an Arrow table.

        Args:
            schema: Its schema, perhaps with fewer columns; guessed from all values when left out.

        Raises:
            UnsupportedOperationError: A column has values that do not go together, or that Arrow cannot hold.
        """
        return pa.Table.from_batches([self.shape.batch(self, schema)])

    def to_batches(self, schema: pa.Schema | None = None, *, batch_rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Iterate the entries as Arrow batches, in bounded memory.

        Args:
            schema: Of all batches; guessed from the first one when left out.
            batch_rows: Rows of a batch at most.

        Raises:
            UnsupportedOperationError: A column has values that do not go together, or that Arrow cannot hold.
        """
        return self.shape.batches(iter(self), schema, batch_rows)

    def to_spark(self, spark: SparkSession, schema: pa.Schema | None = None) -> DataFrame:
        """Return the entries as a Spark DataFrame; each task reads one subtask's, when the frame is computed.

        Args:
            spark: The session. Its tasks must be able to read the savepoint, and to import the values' classes.
            schema: Its schema; guessed from the first thousand entries when left out.

        Raises:
            UnsupportedOperationError: A column has values that do not go together, or that Arrow cannot hold.
        """
        from penstock._engine.spark.frames import frame_of_parts

        is_guessed = schema is None
        if schema is None:
            schema = self.shape.batch(islice(self, _GUESS_ROWS), None).schema
        parts = [partial(_batches, part, self.shape, schema, is_guessed=is_guessed) for part in self.parts]
        return frame_of_parts(spark, parts, schema)


def _batches(
    part: Callable[[], Iterable[EntryT]], shape: RowShape[EntryT], schema: pa.Schema, *, is_guessed: bool
) -> Iterator[pa.RecordBatch]:
    return shape.batches(iter(part()), schema, _BATCH_ROWS, is_guessed=is_guessed)


def _series(pandas: Any, values: list[Any]) -> Any:
    """Return a column that gives these very values: what pandas guesses makes floats of ints where one is missing."""
    kinds = set(map(type, values))
    # A float that is no number looks like a missing value in a column of floats.
    is_column = len(kinds) == 1 and kinds <= _COLUMN_TYPES and all(value == value for value in values)  # noqa: PLR0124
    return pandas.Series(values, dtype=None if is_column else object)

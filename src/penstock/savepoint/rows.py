"""StateRows: one state of a savepoint as Python values, pandas, Arrow or Spark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import pyarrow as pa

from penstock.common.notebook import MOST_ROWS, message, table
from penstock.errors import PenstockError
from penstock.savepoint._plain import as_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from penstock.savepoint._columns import RowShape

EntryT = TypeVar("EntryT")

#: Types whose values pandas' own columns return unchanged.
_COLUMN_TYPES: Final = frozenset({int, float, bool})
#: The number of rows from which a schema is guessed.
_GUESS_ROWS: Final = 1_000
#: Rows of a batch by default.
_BATCH_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class StateRows(Generic[EntryT]):
    """The entries of one state; each iteration reads them again, one subtask after the other.

    Iteration yields Python values. In Arrow and Spark, values with parts are structs: tuples have the fields ``_1``,
    ``_2`` …, dicts their keys. Values that Arrow has no type for (dataclasses, named tuples, rows, members of enums,
    UUIDs, timestamps with a time zone …) are structs with their Python type in the field ``_python``; `SavepointWriter`
    converts them back. Numbers of several types in one column are such structs as well.

    Reading unpickles the values, which can run code: read trusted savepoints only.

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

    def _repr_html_(self) -> str:
        """Return the first entries as a table, for notebooks."""
        rows = map(self.shape.cells, islice(self, MOST_ROWS + 1))  # one more, so that the table says that there are
        try:
            return table(self.shape.title, self.columns, rows, is_text=False)
        except PenstockError as error:  # such as values of classes that were not named
            return message(error)

    def to_pandas(self) -> pd.DataFrame:
        """Return all entries as a pandas DataFrame, whose columns hold the Python values themselves.

        Exceptions are bytearrays, arrays of NumPy, and dicts with keys ``_1``, ``_2`` … or ``_python``: these are
        structs with their Python type, because they would otherwise be written back as other values.
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

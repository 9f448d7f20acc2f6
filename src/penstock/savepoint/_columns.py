"""Converts entries of a state to Arrow columns; `_plain` converts their values."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import pyarrow as pa

from penstock.errors import UnsupportedOperationError
from penstock.savepoint._plain import is_same, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

EntryT = TypeVar("EntryT")

#: The columns by which entries are identified.
_KEYS: Final = frozenset({"key", "map_key"})

_MOST_EXACT: Final = 2

_arrow: Any = pa  # its types are partly unknown


@dataclass(frozen=True, slots=True)
class RowShape(Generic[EntryT]):
    """The columns of some entries.

    Attributes:
        columns: Their names.
        cells: Returns the values of an entry, by column.
        title: What the entries are, for errors.
    """

    columns: tuple[str, ...]
    cells: Callable[[EntryT], tuple[Any, ...]]
    title: str

    def batch(self, entries: Iterable[EntryT], schema: pa.Schema | None, *, is_guessed: bool = False) -> pa.RecordBatch:
        """Return entries as a batch.

        Args:
            entries: The entries.
            schema: The schema of the batch, perhaps with fewer columns; None guesses it from the values.
            is_guessed: Whether the schema was guessed from other entries, so that it must not change any value. A
                schema of the caller may change values, but not keys.

        Raises:
            UnsupportedOperationError: A column has values that do not go together, or that Arrow cannot hold.
        """
        rows = list(map(self.cells, entries))
        wanted: dict[str, Any] = dict.fromkeys(self.columns) if schema is None else _types(schema)
        arrays: dict[str, Any] = {}
        for column, kind in wanted.items():
            if column not in self.columns:
                reason = f"the schema names column {column!r}, and the columns are {', '.join(self.columns)}"
                raise UnsupportedOperationError(f"Arrow data of {self.title}", reason)
            place = self.columns.index(column)
            is_free = kind is not None and not is_guessed and column not in _KEYS
            # A schema of the caller may declare int keys as floats, which are equal keys.
            numbers = kind is None or is_guessed
            arrays[column] = self._array(column, [row[place] for row in rows], kind, is_free=is_free, numbers=numbers)
        return _arrow.RecordBatch.from_pydict(arrays, schema=schema)

    def batches(
        self, entries: Iterator[EntryT], schema: pa.Schema | None, batch_rows: int, *, is_guessed: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Iterate entries as batches of one schema, that of the first one when none is given."""
        is_guessed = is_guessed or schema is None
        while some := list(islice(entries, batch_rows)):
            batch = self.batch(some, schema, is_guessed=is_guessed)
            schema = batch.schema
            yield batch

    def _array(self, column: str, values: list[Any], kind: Any, *, is_free: bool, numbers: bool) -> Any:
        for exact in range(_MOST_EXACT + 1) if kind is None else (0,):
            plains = [plain(value, exact=exact) for value in values]
            try:
                array = _arrow.array(plains, type=kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                if kind is None and exact < _MOST_EXACT:
                    continue
                raise self._misfit(column, values, kind, str(error)) from error
            if is_free or is_same(array.to_pylist(), plains, numbers=numbers):
                return array
        raise self._misfit(column, values, kind, "some would come back as others")

    def _misfit(self, column: str, values: list[Any], kind: Any, reason: str) -> UnsupportedOperationError:
        kinds = sorted({type(value).__qualname__ for value in values})
        text = (
            f"column {column!r} has values of {', '.join(kinds[:5])} that do not fit "
            f"{'one Arrow type' if kind is None else kind} ({reason}). Give a schema that fits, or take them as "
            "Python values: iterate, or to_pandas()"
        )
        return UnsupportedOperationError(f"Arrow data of {self.title}", text)


def _types(schema: Any) -> dict[str, Any]:
    return {field.name: field.type for field in schema}

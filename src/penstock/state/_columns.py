"""From Python values to Arrow columns: what has fields becomes a struct, what Arrow knows stays as it is."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from uuid import UUID

import pyarrow as pa

from penstock.common.types import Row, field_names
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

EntryT = TypeVar("EntryT")

_arrow: Any = pa  # its types are partly unknown


@dataclass(frozen=True, slots=True)
class RowShape(Generic[EntryT]):
    """The columns of some entries.

    Attributes:
        columns: Their names.
        cells: Returns their values of an entry.
        title: What the entries are, for errors.
    """

    columns: tuple[str, ...]
    cells: Callable[[EntryT], tuple[Any, ...]]
    title: str

    def batch(self, entries: Iterable[EntryT], schema: pa.Schema | None) -> pa.RecordBatch:
        """Return entries as a batch.

        Args:
            entries: The entries.
            schema: What the batch is to be like, perhaps with fewer columns; None to guess it from the values.

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
            arrays[column] = self._array(column, [row[place] for row in rows], kind)
        return _arrow.RecordBatch.from_pydict(arrays, schema=schema)

    def batches(self, entries: Iterator[EntryT], schema: pa.Schema | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Iterate entries as batches of one schema, that of the first one when none is given."""
        while some := list(islice(entries, batch_rows)):
            batch = self.batch(some, schema)
            schema = batch.schema
            yield batch

    def _array(self, column: str, values: list[Any], kind: Any) -> Any:
        try:
            return _arrow.array(list(map(plain, values)), type=kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            kinds = sorted({type(value).__qualname__ for value in values})
            reason = (
                f"column {column!r} has values of {', '.join(kinds[:5])} that do not fit "
                f"{'one Arrow type' if kind is None else kind} ({error}). Give a schema that fits, or take them as "
                "Python values: iterate, or to_pandas()"
            )
            raise UnsupportedOperationError(f"Arrow data of {self.title}", reason) from error


def _types(schema: Any) -> dict[str, Any]:
    return {field.name: field.type for field in schema}


def plain(value: Any) -> Any:
    """Return a value in the terms of Arrow.

    Example:
        >>> plain(("a", {1}))
        {'_1': 'a', '_2': [1]}
    """
    if isinstance(value, (list, set, frozenset)):
        return [plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return _plain_dict(cast("dict[Any, Any]", value))
    if isinstance(value, (tuple, Row)):
        items = cast("Sequence[Any]", value)
        names = field_names(value) if isinstance(value, Row) else getattr(items, "_fields", None)
        return _struct(names or [f"_{number}" for number in range(1, len(items) + 1)], items)  # as Spark calls them
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return _struct(names, [getattr(value, name) for name in names])
    if isinstance(value, Enum):
        return value.name
    return str(value) if isinstance(value, UUID) else value


def _struct(names: Iterable[str], values: Iterable[Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in zip(names, values, strict=True)}


def _plain_dict(value: dict[Any, Any]) -> Any:
    if all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    return [{"key": plain(key), "value": plain(item)} for key, item in value.items()]

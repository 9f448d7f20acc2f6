"""The forms in which functions over batches have columns: Arrow's own, and the data frames of pandas and polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock._engine.operators.pandas_frames import pandas_frame, table_of_pandas
from penstock.common.user_values import short_repr
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Frames:
    """Gives a function its batches in the form that it wants, and takes its results.

    Args:
        batch_format: "arrow", "pandas" or "polars".
        declared: The declared types of the results, by name; None for a type that Arrow does not have.
    """

    def __init__(self, batch_format: str, declared: Mapping[str, Any]) -> None:
        self._format = batch_format
        self._declared = {name: kind for name, kind in declared.items() if kind is not None}
        #: What Python objects of a column are made into, if all of them fit: its declared type, or that it had before.
        self._types: dict[str, Any] = self._declared

    def given(self, batch: Any) -> Any:
        """Return an Arrow batch in the form.

        Raises:
            BatchColumnsError: The form has no counterpart for a column.
        """
        if self._format == "arrow":
            return batch
        self._types = {field.name: field.type for field in batch.schema} | self._declared
        return pandas_frame(batch) if self._format == "pandas" else _polars_frame(batch)

    def taken(self, result: Any) -> Iterator[Any]:
        """Yield the result of a function as Arrow batches: a batch, a table, a data frame, several of them, or None.

        Batches without rows are left out.

        Raises:
            BatchColumnsError: The result has another type, or has no counterpart in Arrow.
        """
        import pyarrow as pa

        if result is None:
            return
        if isinstance(result, pa.RecordBatch):
            if result.num_rows:
                yield result
            return
        if _is_frame(result):
            yield from (batch for batch in self._table(result).to_batches() if batch.num_rows)
            return
        if _is_column(result):
            kind = type(result).__name__
            told = f"the function returned a {kind}, which is one column; return a batch or a data frame that has it"
            raise BatchColumnsError((), told)
        if isinstance(result, (dict, str, bytes)) or not hasattr(result, "__iter__"):
            told = (
                f"the function returned {short_repr(result)}; it must return a batch, a table or a data frame, or "
                "several"
            )
            raise BatchColumnsError((), told)
        for part in cast("Iterable[Any]", result):
            if not (isinstance(part, pa.RecordBatch) or _is_frame(part)):
                told = f"the function yielded {short_repr(part)}; it must yield batches, tables or data frames"
                raise BatchColumnsError((), told)
            yield from self.taken(part)

    def _table(self, frame: Any) -> Any:
        """Return a table or a data frame as a table."""
        import pyarrow as pa

        if isinstance(frame, pa.Table):
            return frame
        if not hasattr(frame, "to_arrow"):
            return table_of_pandas(frame, self._types)
        try:
            return frame.to_arrow()
        except (pa.ArrowException, TypeError, ValueError) as error:
            told = f"Arrow cannot take the data frame: {error}"
            raise BatchColumnsError(tuple(map(str, frame.columns)), told) from error


def _polars_frame(batch: Any) -> Any:
    import importlib

    import pyarrow as pa

    are_missing = (pa.types.is_map, pa.types.is_decimal256)  # polars has no such columns
    for field in batch.schema:
        kind = next((kind for kind in _types_in(field.type) if any(is_one(kind) for is_one in are_missing)), None)
        if kind is not None:
            told = f"polars has no type for {kind} in its column {field.name!r}; use another batch_format"
            raise BatchColumnsError((field.name,), told)
    return importlib.import_module("polars").from_arrow(batch)


def _types_in(kind: Any) -> Iterator[Any]:
    """Yield a type and those of its parts."""
    yield kind
    for place in range(kind.num_fields):
        yield from _types_in(kind.field(place).type)


def _is_column(value: Any) -> bool:
    """Return whether a value is an array of Arrow's, or a series of pandas or polars."""
    import pyarrow as pa

    package = type(value).__module__.partition(".")[0]
    is_series = package in {"pandas", "polars"} and type(value).__name__ == "Series"
    return is_series or isinstance(value, (pa.Array, pa.ChunkedArray))


def _is_frame(value: Any) -> bool:
    """Return whether a value is a table of Arrow's, or a data frame of pandas or polars."""
    import pyarrow as pa

    package = type(value).__module__.partition(".")[0]
    return isinstance(value, pa.Table) or (package in {"pandas", "polars"} and type(value).__name__ == "DataFrame")

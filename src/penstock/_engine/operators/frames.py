"""The forms in which functions over batches have columns: Arrow's own, and the data frames of pandas and polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from penstock.common.user_values import short_repr
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Types of columns with nulls, with their counterparts in pandas.
_NULLABLE: Final = {
    **{f"int{bits}": f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"UInt{bits}" for bits in (8, 16, 32, 64)},
    "bool_": "Boolean",
}


def as_frame(batch: Any, batch_format: str) -> Any:
    """Return an Arrow batch in the form that a function wants.

    Args:
        batch: The batch.
        batch_format: "arrow", "pandas" or "polars".
    """
    match batch_format:
        case "pandas":
            return _pandas_frame(batch)
        case "polars":
            import importlib

            return importlib.import_module("polars").from_arrow(batch)
        case _:
            return batch


def _pandas_frame(batch: Any) -> Any:
    """Return a batch as a data frame; whole numbers with nulls keep their type, where pandas would make them floats."""
    import pandas as pd
    import pyarrow as pa

    kinds: Any = pa.types
    numbers = {getattr(pa, name)(): getattr(pd, f"{title}Dtype")() for name, title in _NULLABLE.items()}
    frame = batch.to_pandas()
    for place, column in enumerate(batch.columns):
        if column.null_count and (kinds.is_integer(column.type) or kinds.is_boolean(column.type)):
            frame.isetitem(place, column.to_pandas(types_mapper=numbers.get))
    return frame


def arrow_batches(result: Any) -> Iterator[Any]:
    """Yield the result of a function as Arrow batches: it is a batch, a table, a data frame, several of them, or None.

    Batches without rows are left out.

    Raises:
        BatchColumnsError: The result has another type, or Arrow cannot convert the data frame.
    """
    import pyarrow as pa

    if result is None:
        return
    if isinstance(result, pa.RecordBatch):
        if result.num_rows:
            yield result
        return
    table = _table(result)
    if table is not None:
        yield from _batches(table)
        return
    if _is_column(result):
        kind = type(result).__name__
        told = f"the function returned a {kind}, which is one column; return a batch or a data frame that has it"
        raise BatchColumnsError((), told)
    if isinstance(result, (dict, str, bytes)) or not hasattr(result, "__iter__"):
        told = (
            f"the function returned {short_repr(result)}; it must return a batch, a table or a data frame, or several"
        )
        raise BatchColumnsError((), told)
    for part in cast("Iterable[Any]", result):
        if not (isinstance(part, pa.RecordBatch) or _is_frame(part)):
            told = f"the function yielded {short_repr(part)}; it must yield batches, tables or data frames"
            raise BatchColumnsError((), told)
        yield from arrow_batches(part)


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


def _table(value: Any) -> Any:
    """Return a table or a data frame as a table; None for anything else."""
    import pyarrow as pa

    if not _is_frame(value):
        return None
    if isinstance(value, pa.Table):
        return value
    try:
        if hasattr(value, "to_arrow"):
            return value.to_arrow()
        table: Any = cast("Any", pa.Table).from_pandas(value, preserve_index=False)
        return table.replace_schema_metadata(None)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise BatchColumnsError(tuple(map(str, value.columns)), f"Arrow cannot take the data frame: {error}") from error


def _batches(table: Any) -> Iterator[Any]:
    for batch in table.to_batches():
        if batch.num_rows:
            yield batch

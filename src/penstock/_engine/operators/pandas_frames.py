"""Columns as data frames of pandas, and back: what pandas has no type for are the Python values that records have."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._formats.arrow_runs import array_as
from penstock._formats.arrow_values import array_of
from penstock.common.columns import python_values
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Types of columns with nulls, with their counterparts in pandas.
_NULLABLE: Final = {
    **{f"int{bits}": f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"UInt{bits}" for bits in (8, 16, 32, 64)},
    "bool_": "Boolean",
}


def pandas_frame(batch: Any) -> Any:
    """Return an Arrow batch as a data frame.

    Whole numbers with nulls keep their type, where pandas would make them floats. Lists, structs and maps are Python's
    lists and dicts, as records have them.

    Raises:
        BatchColumnsError: A column has a value for which neither pandas nor Python has a counterpart.
    """
    import pandas as pd
    import pyarrow as pa

    kinds: Any = pa.types
    numbers = {getattr(pa, name)(): getattr(pd, f"{title}Dtype")() for name, title in _NULLABLE.items()}
    flat = [place for place, field in enumerate(batch.schema) if not kinds.is_nested(field.type)]
    frame = _flat_frame(batch, flat)
    for place, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        if kinds.is_nested(column.type):
            frame.insert(place, name, pd.Series(_objects(name, column), dtype=object), allow_duplicates=True)
        elif column.null_count and (kinds.is_integer(column.type) or kinds.is_boolean(column.type)):
            frame.isetitem(place, column.to_pandas(types_mapper=numbers.get))
    return frame


def _flat_frame(batch: Any, places: list[int]) -> Any:
    """Return the columns at some places as a data frame."""
    import pandas as pd
    import pyarrow as pa

    if not places:
        return pd.DataFrame(index=pd.RangeIndex(batch.num_rows))
    try:
        return batch.select(places).to_pandas()
    except (pa.ArrowException, ValueError, OverflowError) as error:
        for place in places:
            name = batch.schema.names[place]
            try:
                batch.column(place).to_pandas()
            except (pa.ArrowException, ValueError, OverflowError) as one:
                raise _without_counterpart(name, one) from error
        raise


def _objects(name: str, column: Any) -> list[Any]:
    try:
        return python_values(column)
    except ValueError as error:
        raise _without_counterpart(name, error) from error


def _without_counterpart(name: str, error: Exception) -> BatchColumnsError:
    reason = f"a value in its column {name!r} has no counterpart in pandas ({error}); cast the column"
    return BatchColumnsError((name,), reason)


def table_of_pandas(frame: Any, types: Mapping[str, Any]) -> Any:
    """Return a data frame as a table.

    Args:
        frame: The data frame; an index with a name becomes a column, as by ``reset_index()``.
        types: What columns of Python objects are made into, by name, where all of their values fit.

    Raises:
        BatchColumnsError: Two columns have one name, the index has values but no name, or a column has values for which
            Arrow has no type in common.
    """
    import pyarrow as pa

    frame = _with_index(frame)
    names = [str(name) for name in frame.columns]
    if len(frame) and not names:
        raise BatchColumnsError((), "the data frame has rows and no columns")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BatchColumnsError(tuple(names), f"the data frame has two columns of the name {twice!r}; rename one")
    arrays: dict[str, Any] = {}
    for place, name in enumerate(names):
        series = frame.iloc[:, place]
        try:
            arrays[name] = _array_of(series, types.get(name))
        except (pa.ArrowException, TypeError, ValueError) as error:
            told = f"Arrow cannot take the column {name!r} of the data frame: {error}"
            raise BatchColumnsError(tuple(names), told) from error
    return cast("Any", pa.table(arrays))


def _with_index(frame: Any) -> Any:
    """Return a data frame with the columns that its index has, if any.

    Raises:
        BatchColumnsError: The index has no name, and is more than the numbers of rows.
    """
    index = frame.index
    names: list[Any] = list(index.names)
    if names == [None] and (index.dtype.kind in "iu" or not len(index)):
        return frame
    told = tuple(map(str, frame.columns))
    if None in names:
        reason = (
            f"the index of the data frame, such as {index[0]!r}, has no name; name it, and it becomes a column, or "
            "leave it out by reset_index(drop=True)"
        )
        raise BatchColumnsError(told, reason)
    repeated = next((name for name in names if name in frame.columns), None)
    if repeated is not None:
        reason = f"the index of the data frame has the name of a column, {repeated!r}; rename one, or reset_index()"
        raise BatchColumnsError(told, reason)
    return frame.reset_index()


def _array_of(series: Any, kind: Any) -> Any:
    """Return a column of a data frame as one of Arrow's; Python objects by the rules of `arrow_values`."""
    import pandas as pd
    import pyarrow as pa

    make = cast("Any", pa).array
    is_category = series.dtype.name == "category" and series.dtype.categories.dtype == object
    if is_category and len(set(map(type, series.dtype.categories))) > 1:
        series = series.astype(object)
    if series.dtype != object:
        return make(series, from_pandas=True)
    if pd.api.types.infer_dtype(series, skipna=True) == "string":  # by far the most frequent objects
        with suppress(pa.ArrowException, ValueError):
            return make(series, pa.string(), from_pandas=True)
    values: list[Any] = series.tolist()
    if not _gaps().isdisjoint(map(type, values)):
        values = [None if _is_gap(value) else value for value in values]
    return array_of(values) if kind is None else array_as(values, kind)


@cache
def _gaps() -> set[Any]:
    """Return the classes of what pandas has in the place of None."""
    import numpy as np
    import pandas as pd

    return {float, np.float64, np.float32, type(pd.NaT), type(pd.NA)}


def _is_gap(value: Any) -> bool:
    return type(value) in _gaps() and (str(value) == "<NA>" or bool(value != value))  # noqa: PLR0124 - NaN and NaT

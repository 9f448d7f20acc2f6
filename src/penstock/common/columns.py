"""The records of columns: each row of an Arrow batch is one record.

The declared type of the stream determines the Python type of the records. Without a type, and for maps, a record is a
dict; for rows a Row; for tuples a tuple; and for any other type the value of the only column.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from typing import TYPE_CHECKING, Any, cast

from penstock.common.typeinfo import (
    MapTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.types import RowKind, make_row
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.common.typeinfo import TypeInformation


class RecordLayout(IntEnum):
    """The Python type of the records in a batch of columns; blocks name it by its number."""

    DICTS = 0
    ROWS = 1
    TUPLES = 2
    #: There is one column, and the records are its values.
    VALUES = 3


def layout_of(type_info: TypeInformation | None) -> RecordLayout:
    """Return the layout of the records of a stream with that type.

    Example:
        >>> from penstock.common.typeinfo import Types
        >>> [layout_of(kind).name for kind in (None, Types.TUPLE([Types.INT()]), Types.LONG())]
        ['DICTS', 'TUPLES', 'VALUES']
    """
    match type_info:
        case None | PickledBytesTypeInfo() | MapTypeInfo():
            return RecordLayout.DICTS
        case RowTypeInfo():
            return RecordLayout.ROWS
        case TupleTypeInfo():
            return RecordLayout.TUPLES
        case _:
            return RecordLayout.VALUES


def check_columns(batch: Any, layout: RecordLayout) -> None:
    """Make sure that each row of an Arrow batch can be a record of a layout.

    Raises:
        BatchColumnsError: It cannot.
    """
    names: list[str] = batch.schema.names
    if layout is RecordLayout.VALUES and len(names) != 1:
        raise BatchColumnsError(tuple(names), "records that are single values need exactly one column")
    if layout in {RecordLayout.DICTS, RecordLayout.ROWS} and len(set(names)) < len(names):
        raise BatchColumnsError(tuple(names), "two columns have one name, and records have each field once")


def records_of(batch: Any, layout: RecordLayout = RecordLayout.DICTS) -> list[Any]:
    """Return a new record for each row of an Arrow batch.

    Example:
        >>> import pyarrow as pa
        >>> batch = pa.RecordBatch.from_pylist([{"id": 1, "word": "to"}, {"id": 2, "word": None}])
        >>> records_of(batch)
        [{'id': 1, 'word': 'to'}, {'id': 2, 'word': None}]
        >>> records_of(batch, RecordLayout.TUPLES)
        [(1, 'to'), (2, None)]
    """
    columns = [python_values(column) for column in batch.columns]
    if layout is RecordLayout.VALUES:
        return columns[0]
    values: Any = zip(*columns, strict=True) if columns else [()] * batch.num_rows
    if layout is RecordLayout.TUPLES:
        return list(values)
    return list(map(record_maker(batch.schema.names, layout), values))


def record_maker(names: list[str], layout: RecordLayout) -> Callable[[tuple[Any, ...]], Any]:
    """Return a function from the values of the columns with these names to a record."""
    if layout is RecordLayout.ROWS:
        return lambda values: make_row(names, values, RowKind.INSERT)
    return lambda values: dict(zip(names, values, strict=True))


def python_values(column: Any) -> list[Any]:
    """Return the values of a column, with dicts for maps, of which Arrow gives lists of pairs."""
    import pyarrow as pa

    values: list[Any] = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if value is None else dict(value) for value in values]
    return values


def int64_column(values: Sequence[int]) -> Any:
    """Return whole numbers as a column; not by ``pa.array``, whose first call imports all of pandas."""
    import pyarrow as pa

    return cast("Any", pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(array("q", values))]))


def int64_column_of(numbers: Any) -> Any:
    """Return an array of whole numbers of NumPy's as a column; without a copy, where they are of 64 bits."""
    import numpy as np
    import pyarrow as pa

    octets = pa.py_buffer(cast("Any", np.ascontiguousarray(numbers.reshape(-1), np.int64)))
    return cast("Any", pa.Array.from_buffers(pa.int64(), numbers.size, [None, octets]))

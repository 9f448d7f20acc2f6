"""The records of columns: each row of an Arrow batch is one record.

The declared type of the stream determines the Python type of the records. Without a type, and for maps, a record is a
dict; for rows a Row; for tuples a tuple; and for any other type the value of the only column.
"""

from __future__ import annotations

from array import array
from datetime import UTC, datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.common._typeinfo.basic import InstantTypeInfo
from penstock.common.time import Instant
from penstock.common.typeinfo import (
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.types import RowKind, make_row
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.common.typeinfo import TypeInformation


_EPOCH: Final = datetime.fromtimestamp(0, UTC)


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
    if not names:  # where Arrow joins such batches, their rows are gone
        raise BatchColumnsError((), "it has no columns")
    if layout is RecordLayout.VALUES and len(names) != 1:
        raise BatchColumnsError(tuple(names), "records that are single values need exactly one column")
    if layout in {RecordLayout.DICTS, RecordLayout.ROWS} and len(set(names)) < len(names):
        raise BatchColumnsError(tuple(names), "two columns have one name, and records have each field once")


def records_of(
    batch: Any, layout: RecordLayout = RecordLayout.DICTS, types: Sequence[TypeInformation] | None = None
) -> list[Any]:
    """Return a new record for each row of an Arrow batch.

    Args:
        batch: The batch.
        layout: The Python type of the records.
        types: The declared types of the columns.

    Raises:
        BatchColumnsError: A value has no counterpart in Python.

    Example:
        >>> import pyarrow as pa
        >>> batch = pa.RecordBatch.from_pylist([{"id": 1, "word": "to"}, {"id": 2, "word": None}])
        >>> records_of(batch)
        [{'id': 1, 'word': 'to'}, {'id': 2, 'word': None}]
        >>> records_of(batch, RecordLayout.TUPLES)
        [(1, 'to'), (2, None)]
    """
    declared = types or [None] * batch.num_columns
    columns = [named_values(*column) for column in zip(batch.schema.names, batch.columns, declared, strict=True)]
    if layout is RecordLayout.VALUES:
        return columns[0]
    values: Any = zip(*columns, strict=True) if columns else [()] * batch.num_rows
    if layout is RecordLayout.TUPLES:
        return list(values)
    return list(map(record_maker(batch.schema.names, layout), values))


def named_values(name: str, column: Any, type_info: TypeInformation | None = None) -> list[Any]:
    """Return the values of a column as ``python_values`` does.

    Raises:
        BatchColumnsError: A value has no counterpart in Python; it names the column.
    """
    try:
        return python_values(column, type_info)
    except ValueError as error:
        raise BatchColumnsError((name,), f"in its column {name!r} {str(error).rstrip('.')}; cast the column") from error


def record_maker(names: list[str], layout: RecordLayout) -> Callable[[tuple[Any, ...]], Any]:
    """Return a function from the values of the columns with these names to a record."""
    if layout is RecordLayout.ROWS:
        return lambda values: make_row(names, values, RowKind.INSERT)
    return lambda values: dict(zip(names, values, strict=True))


def python_values(column: Any, type_info: TypeInformation | None = None) -> list[Any]:
    """Return the values of a column, with dicts for maps, of which Arrow gives lists of pairs.

    Args:
        column: The column.
        type_info: Its declared type, by which structs are rows and moments instants; without one structs are dicts.

    Raises:
        ValueError: A value has no counterpart in Python, such as a year beyond 9999, or a map that has a key
            twice, or a list as a key.
    """
    try:
        values: list[Any] = _in_microseconds(column).to_pylist()
    except OverflowError as error:
        msg = f"a value of type {column.type} has no counterpart in Python ({error})"
        raise ValueError(msg) from error
    convert = _conversion(column.type, type_info)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _in_microseconds(column: Any) -> Any:
    """Return a column with its times of day in microseconds, as Python has them: Arrow would cut nanoseconds.

    Raises:
        ValueError: One has nanoseconds.
    """
    return column.cast(_type_in_microseconds(column.type)) if _has_nanoseconds_of_a_day(column.type) else column


def _has_nanoseconds_of_a_day(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _has_nanoseconds_of_a_day(kind.value_type)
    parts = [kind.field(place).type for place in range(kind.num_fields)]
    return kind == pa.time64("ns") or any(map(_has_nanoseconds_of_a_day, parts))


def _type_in_microseconds(kind: Any) -> Any:
    import pyarrow as pa

    types: Any = pa.types
    if not _has_nanoseconds_of_a_day(kind):
        return kind
    if types.is_dictionary(kind):
        return _type_in_microseconds(kind.value_type)
    if types.is_map(kind):
        return pa.map_(*map(_type_in_microseconds, (kind.key_type, kind.item_type)))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_type_in_microseconds(field.type)) for field in kind])
    if any(is_list(kind) for is_list in _list_kinds()):
        return pa.list_(_type_in_microseconds(kind.value_type))
    return pa.time64("us")


def needs_conversion(type_info: TypeInformation) -> bool:
    """Tell whether values of a type are more than Arrow's: rows, instants, and what has them."""
    match type_info:
        case RowTypeInfo() | InstantTypeInfo():
            return True
        case ListTypeInfo() | ObjectArrayTypeInfo():
            return needs_conversion(type_info.elem_type)
        case MapTypeInfo():
            return needs_conversion(type_info.value_type)
        case _:
            return False


def _conversion(kind: Any, type_info: TypeInformation | None) -> Callable[[Any], Any] | None:
    """Return what makes a value of what Arrow gives for one of a type; None if that is the value."""
    import pyarrow as pa

    types: Any = pa.types
    if types.is_struct(kind):
        return _struct_conversion(kind, type_info)
    if types.is_map(kind):
        return _map_conversion(
            _conversion(kind.item_type, type_info.value_type if isinstance(type_info, MapTypeInfo) else None)
        )
    if any(is_list(kind) for is_list in _list_kinds()):
        inner = type_info.elem_type if isinstance(type_info, (ListTypeInfo, ObjectArrayTypeInfo)) else None
        item = _conversion(kind.value_type, inner)
        return None if item is None else lambda values: [None if value is None else item(value) for value in values]
    if types.is_timestamp(kind) and isinstance(type_info, InstantTypeInfo):
        return lambda moment: Instant(*_since_epoch(moment))
    return None


def _list_kinds() -> tuple[Callable[[Any], bool], ...]:
    """Return what tells the types of lists."""
    import pyarrow as pa

    types: Any = pa.types
    views = (types.is_list_view, types.is_large_list_view)
    return types.is_list, types.is_large_list, types.is_fixed_size_list, *views


def _since_epoch(moment: datetime) -> tuple[int, int]:
    since = moment - _EPOCH
    return since.days * 86_400 + since.seconds, since.microseconds * 1000


def _struct_conversion(kind: Any, type_info: TypeInformation | None) -> Callable[[Any], Any] | None:
    is_row = isinstance(type_info, RowTypeInfo)
    declared = dict(zip(type_info.get_field_names(), type_info.get_field_types(), strict=True)) if is_row else {}
    found = {field.name: _conversion(field.type, declared.get(field.name)) for field in kind}
    convert = {name: one for name, one in found.items() if one is not None}
    if not (convert or is_row):
        return None

    def struct(fields: dict[str, Any]) -> Any:
        for name, one in convert.items():
            if fields[name] is not None:
                fields[name] = one(fields[name])
        return make_row(list(fields), tuple(fields.values()), RowKind.INSERT) if is_row else fields

    return struct


def _map_conversion(item: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    def as_dict(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        try:
            made = dict(pairs)
        except TypeError as error:
            msg = f"the map {pairs!r:.200} has keys that no dict has ({error})"
            raise ValueError(msg) from error
        if len(made) < len(pairs):
            msg = f"the map {pairs!r:.200} has a key twice, and a dict has each once"
            raise ValueError(msg)
        return made if item is None else {key: None if one is None else item(one) for key, one in made.items()}

    return as_dict


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

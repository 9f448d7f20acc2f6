"""What a declared type makes of a record: names, nesting and the kind of number.

An operator with an ``output_type`` hands on records of that type's shape: a dict declared as a row leaves as a Row with
the declared names, a list declared as a tuple leaves as a tuple, an int declared as a double leaves as a float. Types
that leave every value as it is have no shaper, so that nobody pays for them. The engine asks once per operator.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.common.types import Row, RowKind, field_names, make_row

Shaper: TypeAlias = Callable[[Any], Any]
"""Takes a record that is not None and returns it in the declared shape."""


def record_shaper(type_info: TypeInformation | None) -> Shaper | None:
    """Return the function that brings one record into a type's shape; None where every record stays as it is.

    The function raises ValueError or TypeError for a record that cannot have the shape. None stays None.

    Args:
        type_info: The declared type, or None for a stream without one.

    Example:
        >>> from penstock.common.typeinfo import Types
        >>> shape = record_shaper(Types.ROW_NAMED(["id", "score"], [Types.INT(), Types.DOUBLE()]))
        >>> shape({"id": 1, "score": 2})
        Row(id=1, score=2.0)
        >>> record_shaper(Types.STRING()) is None
        True
    """
    shaper = _shaper_of(type_info)
    return None if shaper is None else _or_none(shaper)


def _shaper_of(type_info: TypeInformation | None) -> Shaper | None:
    match type_info:
        case BasicTypeInfo():
            return _BASIC.get(type_info.basic_type)
        case RowTypeInfo():
            return _row_shaper(type_info)
        case TupleTypeInfo():
            return _tuple_shaper(type_info)
        case ListTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo() | PrimitiveArrayTypeInfo():
            return _list_shaper(record_shaper(type_info.elem_type))
        case MapTypeInfo():
            return _map_shaper(record_shaper(type_info.key_type), record_shaper(type_info.value_type))
        case _:
            return None


def _or_none(shaper: Shaper) -> Shaper:
    return lambda value: None if value is None else shaper(value)


def _row_shaper(type_info: RowTypeInfo) -> Shaper:
    names = type_info.get_field_names()
    shape_fields = _fields_shaper(type_info, type_info.get_field_types())

    def shape(value: Any) -> Row:
        kind = value.get_row_kind() if isinstance(value, Row) else RowKind.INSERT
        if shape_fields is None and isinstance(value, Row) and field_names(value) == names:
            return value
        values = tuple(type_info.field_values(value))
        _check_count(values, len(names), type_info)
        return make_row(names, values if shape_fields is None else shape_fields(values), kind)

    return shape


def _tuple_shaper(type_info: TupleTypeInfo) -> Shaper:
    count = len(type_info.get_field_types())
    shape_fields = _fields_shaper(type_info, type_info.get_field_types())

    def shape(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (tuple, list, Row)):
            msg = f"{value!r} does not fit the type {type_info!r}."
            raise ValueError(msg)  # noqa: TRY004 - PyFlink raises ValueError here
        values: tuple[Any, ...] = tuple(cast("list[Any]", value))
        _check_count(values, count, type_info)
        return values if shape_fields is None else shape_fields(values)

    return shape


def _fields_shaper(
    whole: TypeInformation, field_types: list[TypeInformation]
) -> Callable[[tuple[Any, ...]], tuple[Any, ...]] | None:
    shapers = [record_shaper(field_type) for field_type in field_types]
    if not any(shapers):
        return None

    def shape(values: tuple[Any, ...]) -> tuple[Any, ...]:
        fields = zip(shapers, values, strict=True)
        try:
            return tuple(value if shaper is None else shaper(value) for shaper, value in fields)
        except TypeError as error:
            error.add_note(f"The record {values!r} was declared as {whole!r}.")
            raise

    return shape


def _check_count(values: tuple[Any, ...], count: int, type_info: TypeInformation) -> None:
    if len(values) != count:
        msg = f"{values!r} has {len(values)} fields, but {type_info!r} has {count}."
        raise ValueError(msg)


def _list_shaper(element: Shaper | None) -> Shaper:
    def shape(values: Any) -> Any:
        if isinstance(values, (bytes, bytearray)):
            return values
        return list(values) if element is None else [element(value) for value in values]

    return shape


def _map_shaper(key: Shaper | None, value: Shaper | None) -> Shaper | None:
    if key is None and value is None:
        return None

    def same(item: Any) -> Any:
        return item

    shape_key, shape_value = key or same, value or same
    return lambda items: {shape_key(k): shape_value(v) for k, v in items.items()}


def _double(value: Any) -> float:
    if isinstance(value, str):
        msg = f"{value!r} is a str, but was declared as a number."
        raise TypeError(msg)
    return float(value)


def _float(value: Any) -> float:
    """Round to what 32 bits can hold, which is what a Float is."""
    return struct.unpack("<f", struct.pack("<f", _double(value)))[0]


_BASIC: dict[BasicType, Shaper] = {BasicType.DOUBLE: _double, BasicType.FLOAT: _float, BasicType.BOOLEAN: bool}

"""Converts our types to Arrow's, for columnar files."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Any, cast

from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    Types,
)
from penstock.common.types import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from penstock.common.typeinfo import TypeInformation


def arrow_schema(row_type: RowTypeInfo) -> pa.Schema:
    """Return the schema of the rows of a type.

    Raises:
        ValueError: A field's type has no counterpart.
    """
    import pyarrow as pa

    fields = zip(row_type.get_field_names(), row_type.get_field_types(), strict=True)
    return pa.schema([(name, arrow_type(type_info, name)) for name, type_info in fields])


def arrow_type(type_info: TypeInformation, name: str) -> Any:
    """Return the Arrow type of one field.

    Args:
        type_info: The field's type.
        name: The field's name, for the error.

    Raises:
        ValueError: The type has no counterpart.
    """
    import pyarrow as pa

    match type_info:
        case PrimitiveArrayTypeInfo() if type_info.elem_type == Types.BYTE():
            return pa.binary()
        case ListTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo() | PrimitiveArrayTypeInfo():
            return pa.list_(arrow_type(type_info.elem_type, name))
        case MapTypeInfo():
            return pa.map_(arrow_type(type_info.key_type, name), arrow_type(type_info.value_type, name))
        case RowTypeInfo():
            return pa.struct(list(arrow_schema(type_info)))
        case _:
            return _single_type(type_info, name)


def _single_type(type_info: TypeInformation, name: str) -> Any:
    import pyarrow as pa

    basic: dict[BasicType, Any] = {
        BasicType.STRING: pa.string(),
        BasicType.CHAR: pa.string(),
        BasicType.BOOLEAN: pa.bool_(),
        BasicType.BYTE: pa.int8(),
        BasicType.SHORT: pa.int16(),
        BasicType.INT: pa.int32(),
        BasicType.LONG: pa.int64(),
        BasicType.FLOAT: pa.float32(),
        BasicType.DOUBLE: pa.float64(),
        BasicType.BIG_DEC: pa.decimal128(38, 18),
    }
    times: dict[TypeInformation, Any] = {
        Types.SQL_DATE(): pa.date32(),
        Types.SQL_TIME(): pa.time64("us"),
        Types.SQL_TIMESTAMP(): pa.timestamp("us"),
    }
    if isinstance(type_info, BasicTypeInfo) and type_info.basic_type in basic:
        return basic[type_info.basic_type]
    if type_info in times:
        return times[type_info]
    msg = (
        f"The field {name!r} has the type {type_info}, which columnar files do not have; use numbers, text, truth "
        "values, dates and times, bytes, and lists, maps and rows of these."
    )
    raise ValueError(msg)


def is_of_type(found: Any, type_info: TypeInformation) -> bool:
    """Tell whether a column is of the kind of a type, so that its values need no more than another width.

    Args:
        found: The Arrow type of the column.
        type_info: The declared type; any column fits one without a counterpart.
    """
    try:
        wanted = arrow_type(type_info, "")
    except ValueError:
        return True
    kinds = (_kind(found), _kind(wanted))
    return kinds[0] == kinds[1] or kinds[0] == "null" or kinds == ("integer", "fraction")


def _kind(arrow_type: Any) -> str:
    import pyarrow as pa

    kinds: Any = pa.types
    if kinds.is_dictionary(arrow_type):
        return _kind(arrow_type.value_type)
    named: dict[str, Callable[[Any], Any]] = {
        "null": kinds.is_null,
        "integer": kinds.is_integer,
        "truth value": kinds.is_boolean,
        "fraction": lambda one: kinds.is_floating(one) or kinds.is_decimal(one),
        "text": lambda one: kinds.is_string(one) or kinds.is_large_string(one),
        "bytes": lambda one: kinds.is_binary(one) or kinds.is_large_binary(one) or kinds.is_fixed_size_binary(one),
        "date": kinds.is_date,
        "time of day": kinds.is_time,
        "point in time": kinds.is_timestamp,
        "struct": kinds.is_struct,
        "map": kinds.is_map,
        "list": lambda one: kinds.is_list(one) or kinds.is_large_list(one) or kinds.is_fixed_size_list(one),
    }
    return next((kind for kind, fits in named.items() if fits(arrow_type)), str(arrow_type))


def arrow_array(values: Sequence[Any], arrow_type: Any) -> Any:
    """Return values as an array of a type, without changing any.

    Raises:
        ArrowException: A value does not fit or would be changed, also inside lists, maps and structs: such as 1.5 in a
            column of integers, a time in a column of dates, or a time without a zone in a column with one.
    """
    import pyarrow as pa

    types: Any = pa.types
    if types.is_nested(arrow_type):
        _check_items(values, arrow_type)
        return cast("Any", pa.array(values, arrow_type))
    if types.is_integer(arrow_type) or types.is_temporal(arrow_type):
        return _exact_array(values, arrow_type)
    made = cast("Any", pa.array(values, arrow_type))
    if types.is_float32(arrow_type) or types.is_float16(arrow_type):
        _check_finite(values, made)
    return made


def _exact_array(values: Sequence[Any], arrow_type: Any) -> Any:
    """Return values as integers, dates or times; a direct conversion to the type would truncate them silently."""
    import pyarrow as pa

    types: Any = pa.types
    if types.is_timestamp(arrow_type) or types.is_time(arrow_type):
        _check_zones(values, has_zone=types.is_timestamp(arrow_type) and arrow_type.tz is not None)
    found = _inferred(values)
    if found.type == arrow_type:
        return found
    numbers = types.is_integer(found.type) or types.is_floating(found.type) or types.is_decimal(found.type)
    is_of_kind = numbers if types.is_integer(arrow_type) else types.is_temporal(found.type)
    if types.is_null(found.type):
        return found.cast(arrow_type)
    if not is_of_kind:
        raise pa.ArrowInvalid(f"it is {found.type}, which is not read as {arrow_type}")
    made: Any = found.cast(arrow_type)
    if types.is_date(arrow_type) and not made.cast(found.type).equals(found):  # the only cast that truncates silently
        raise pa.ArrowInvalid("a time of day in a column of dates would be lost")
    return made


def array_of(values: Sequence[Any]) -> Any:
    """Return values as an array of the type that they have, without changing any.

    Raises:
        ArrowException: They have no type in common, or some of them are times with a zone and others are not.
    """
    import pyarrow as pa

    types: Any = pa.types
    made = _inferred(values)
    if types.is_timestamp(made.type) or types.is_time(made.type):
        _check_zones(values, has_zone=types.is_timestamp(made.type) and made.type.tz is not None)
    return made


def _inferred(values: Sequence[Any]) -> Any:
    """Return values as an array of the type that they have; times may have lost or got a zone."""
    import pyarrow as pa

    try:
        made: Any = pa.array(values)
    except OverflowError:  # Arrow takes whole numbers for int64
        if not set[type[Any]](map(type, values)) <= {int, type(None)}:
            raise
        return cast("Any", pa.array(values, pa.uint64()))
    types: Any = pa.types
    if types.is_timestamp(made.type) and _have_nanoseconds(values, "nanosecond"):
        return cast("Any", pa.array(values, pa.timestamp("ns", made.type.tz)))
    if types.is_duration(made.type) and _have_nanoseconds(values, "nanoseconds"):
        return cast("Any", pa.array(values, pa.duration("ns")))
    return made


def _have_nanoseconds(values: Sequence[Any], member: str) -> bool:
    """Tell whether one of them is of pandas, and has what Arrow, which takes all for microseconds, would drop."""
    kinds: set[type[Any]] = set(map(type, values))
    return any(hasattr(kind, member) for kind in kinds) and any(getattr(value, member, 0) for value in values)


def _check_zones(values: Sequence[Any], *, has_zone: bool) -> None:
    """Refuse times with a zone for columns without one, and the reverse, because Arrow takes all for UTC."""
    import pyarrow as pa

    for value in values:
        if has_zone is (getattr(value, "tzinfo", None) is None) and isinstance(
            value, (datetime.datetime, datetime.time)
        ):
            told = "has no time zone, and its column has" if has_zone else "has a time zone, and its column has none"
            raise pa.ArrowInvalid(f"the time {told}")


def _check_finite(values: Sequence[Any], made: Any) -> None:
    import pyarrow as pa

    for value, single in zip(values, made.to_pylist(), strict=True):
        if single is not None and math.isinf(single) and not math.isinf(value):
            raise pa.ArrowInvalid(f"{value} is more than a number of this size can be")


def _check_items(values: Sequence[Any], arrow_type: Any) -> None:
    """Refuse values with a part that would be changed."""
    import pyarrow as pa

    kind: Any = pa.types
    there: list[Any] = [value for value in values if value is not None]
    if kind.is_struct(arrow_type):
        for field in arrow_type:
            arrow_array([_of_dict(value, field.name) for value in there], field.type)
    elif kind.is_map(arrow_type):
        pairs: list[tuple[Any, Any]] = [pair for value in there for pair in dict[Any, Any](value).items()]
        arrow_array([key for key, _ in pairs], arrow_type.key_type)
        arrow_array([item for _, item in pairs], arrow_type.item_type)
    elif not kind.is_union(arrow_type):
        arrow_array([item for value in there for item in value], arrow_type.value_type)


def _of_dict(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def plain(value: Any) -> Any:
    """Return a value with its inner rows replaced by dicts, because Arrow does not know rows."""
    if isinstance(value, Row):
        value = value.as_dict()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in cast("list[Any]", value)]
    return value


def unknown_field(value: Any, arrow_type: Any, path: str) -> str | None:
    """Return the path of the first field inside of a value that the structs of its type lack; None without one."""
    import pyarrow as pa

    kind: Any = pa.types
    if value is None or not kind.is_nested(arrow_type):
        return None
    if kind.is_struct(arrow_type):
        return _unknown_in_struct(value.as_dict() if isinstance(value, Row) else value, arrow_type, path)
    items: Any = value
    item_type: Any = arrow_type.item_type if kind.is_map(arrow_type) else arrow_type.value_type
    if kind.is_map(arrow_type):
        items = list(dict[Any, Any](value).values())
    return _first(unknown_field(item, item_type, path) for item in items)


def _unknown_in_struct(fields: dict[str, Any], arrow_type: Any, path: str) -> str | None:
    types: dict[str, Any] = {field.name: field.type for field in arrow_type}
    extra = next((name for name in fields if name not in types), None)
    if extra is not None:
        return f"{path}.{extra}"
    return _first(unknown_field(fields.get(name), type_, f"{path}.{name}") for name, type_ in types.items())


def _first(found: Iterable[str | None]) -> str | None:
    return next((path for path in found if path is not None), None)

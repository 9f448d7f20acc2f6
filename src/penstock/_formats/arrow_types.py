"""Converts our types to Arrow's, for columnar files."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, cast

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
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from penstock.common.typeinfo import TypeInformation


#: The kinds of values, with what Arrow calls the types for them.
_KINDS: Final = {
    **{kind: (kind,) for kind in ("null", "integer", "decimal", "date", "duration", "struct", "map")},
    "truth value": ("boolean",),
    "fraction": ("floating",),
    "text": ("string", "large_string", "string_view"),
    "bytes": ("binary", "large_binary", "fixed_size_binary", "binary_view"),
    "time of day": ("time",),
    "point in time": ("timestamp",),
    "list": ("list", "large_list", "fixed_size_list", "list_view", "large_list_view"),
}
#: The same of Arrow's own extension types, by their names.
_EXTENSIONS: Final = {"arrow.bool8": "truth value", "arrow.json": "text", "arrow.uuid": "UUID"}


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
        BasicType.INSTANT: pa.timestamp("us", "UTC"),
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
    kinds = (kind_of(found), kind_of(wanted))
    numbers = ({"integer", "fraction", "decimal"}, {"fraction", "decimal"})
    return kinds[0] == kinds[1] or kinds[0] == "null" or (kinds[0] in numbers[0] and kinds[1] in numbers[1])


def kind_of(arrow_type: Any) -> str:
    """Return what values a type is for, without their widths."""
    import pyarrow as pa

    types: Any = pa.types
    if types.is_dictionary(arrow_type):
        return kind_of(arrow_type.value_type)
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _EXTENSIONS.get(cast("Any", arrow_type).extension_name, str(arrow_type))
    found = (kind for kind, names in _KINDS.items() if any(getattr(types, f"is_{name}")(arrow_type) for name in names))
    return next(found, str(arrow_type))


def with_parts(kind: Any, of_field: Callable[[Any], Any]) -> Any:
    """Return a nested type with other parts, and any other type as it is; lists of any kind become ordinary ones.

    Args:
        kind: The type.
        of_field: Returns the field that takes the place of one.
    """
    import pyarrow as pa

    types, make = cast("Any", pa.types), cast("Any", pa)
    if types.is_struct(kind):
        return make.struct(list(map(of_field, kind)))
    if types.is_map(kind):
        return make.map_(of_field(kind.key_field).with_nullable(False), of_field(kind.item_field))
    return make.list_(of_field(kind.value_field)) if hasattr(kind, "value_field") else kind


def unusable_part(arrow_type: Any) -> str | None:
    """Return why records cannot have the values of a column of a type; None if they can.

    Args:
        arrow_type: The type; what it has in it counts as well.
    """
    import pyarrow as pa

    types: Any = pa.types
    if types.is_union(arrow_type) or types.is_run_end_encoded(arrow_type):
        return f"no record has values of {arrow_type}"
    if types.is_dictionary(arrow_type):
        return unusable_part(arrow_type.value_type)
    if types.is_map(arrow_type) and types.is_nested(arrow_type.key_type):
        return f"no dict has keys of {arrow_type.key_type}"
    parts = [arrow_type.field(place) for place in range(arrow_type.num_fields)] if types.is_nested(arrow_type) else []
    twice = [name for name, count in Counter(part.name for part in parts).items() if count > 1]
    if twice and types.is_struct(arrow_type):
        return f"its structs have the field {twice[0]!r} twice"
    return next(filter(None, (unusable_part(part.type) for part in parts)), None)


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

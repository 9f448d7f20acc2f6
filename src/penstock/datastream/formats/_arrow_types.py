"""Arrow's types for ours, as far as columnar files need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
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

"""Columns as Spark's DataFrames have them, and what a stream of such columns is declared as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from penstock._formats.arrow_misfits import MisfitError
from penstock._formats.arrow_types import arrow_type, with_parts
from penstock._formats.arrow_widening import cast_column
from penstock.common.typeinfo import RowTypeInfo, Types
from penstock.common.user_values import short_repr
from penstock.errors import BatchColumnsError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from penstock.common.typeinfo import TypeInformation


#: The field of what has none, in files: Parquet has neither rows nor structs without a field. No DataFrame has it.
NO_FIELD: Final = "\0no field"
#: Of Spark's decimals.
_MOST_DIGITS: Final = 38
#: Of `Types.BIG_DEC()`: the digits behind the point, and before it.
_FRACTION_DIGITS: Final = 18
_WHOLE_DIGITS: Final = 20


def of_frames(table: Any) -> Any:
    """Return a table with types that Spark has, of the same values: times in microseconds, text for categories.

    Raises:
        BatchColumnsError: A value would not stay as it is, such as a nanosecond.
    """
    import pyarrow as pa

    fields: list[Any] = list(map(_of_frames, table.schema))
    schema: Any = pa.schema(fields)
    if table.schema.equals(schema):
        return table
    columns: list[Any] = []
    for column, field in zip(table.columns, fields, strict=True):
        try:
            columns.append(cast_column(column, field.type))
        except MisfitError as error:
            value = short_repr(next((one for one in column.to_pylist() if one is not None), None))
            told = f"of its column {field.name!r} with values such as {value}, a DataFrame would have {field.type}"
            raise BatchColumnsError((field.name,), f"{told}, and {error}") from error
    return cast("Any", pa.table(columns, schema=schema))


def _type_of_frames(kind: Any) -> Any:
    import pyarrow as pa

    types, make = cast("Any", pa.types), cast("Any", pa)
    if types.is_dictionary(kind):
        return _type_of_frames(kind.value_type)
    makers: dict[Any, Callable[[], Any]] = {
        types.is_timestamp: lambda: make.timestamp("us", kind.tz and "UTC"),
        types.is_duration: lambda: make.duration("us"),
        types.is_unsigned_integer: lambda: pa.int64() if kind.bit_width <= 32 else pa.decimal128(20, 0),
        types.is_float16: pa.float32,
        types.is_decimal: lambda: pa.decimal128(min(kind.precision, _MOST_DIGITS), kind.scale),
        types.is_large_string: pa.string,
        types.is_string_view: pa.string,
        types.is_large_binary: pa.binary,
        types.is_binary_view: pa.binary,
        types.is_nested: lambda: _with_parts(kind, _of_frames),
    }
    return next((made() for is_one, made in makers.items() if is_one(kind)), kind)


def _of_frames(field: Any) -> Any:
    return field.with_type(_type_of_frames(field.type))


def _with_parts(kind: Any, of_field: Callable[[Any], Any]) -> Any:
    """Return a nested type with other parts; structs without any get a field."""
    import pyarrow as pa

    types, make = cast("Any", pa.types), cast("Any", pa)
    if types.is_struct(kind) and not kind.num_fields:
        return make.struct([(NO_FIELD, pa.null())])
    return with_parts(kind, of_field)


def of_files(schema: Any) -> Any:
    """Return the columns of a DataFrame of files with these: what is nothing but null is text.

    Raises:
        BatchColumnsError: Records, or the structs of a column, have no field at all.
    """
    import pyarrow as pa

    fields: list[Any] = [_of_files(field, field.name) for field in schema if field.name != NO_FIELD]
    if not fields and len(schema):
        raise BatchColumnsError((), "no record of the stream has a field, all are {}, so there is no column")
    return pa.schema(fields)


def _of_files(field: Any, column: str) -> Any:
    import pyarrow as pa

    types, kind = cast("Any", pa.types), field.type
    if types.is_null(kind):
        return field.with_type(pa.string())
    if types.is_decimal(kind) and kind.precision > _MOST_DIGITS:
        reason = f"the values of its column {column!r} together are {kind}, and Spark has {_MOST_DIGITS} digits"
        raise BatchColumnsError((column,), f"{reason}; cast them to a common scale")
    if types.is_struct(kind):
        parts: list[Any] = [_of_files(part, column) for part in kind if part.name != NO_FIELD]
        if not parts:
            reason = f"all values of its column {column!r}, or of a part of it, are {{}}, and Spark has no such structs"
            raise BatchColumnsError((column,), reason)
        return field.with_type(pa.struct(parts))
    return field.with_type(_with_parts(kind, lambda part: _of_files(part, column))) if types.is_nested(kind) else field


def nullable(schema: Any) -> Any:
    """Return a schema whose columns, and all parts of them, may be null.

    Spark tells that a field of a struct has no nulls also where the struct itself may be null, as behind a left join.
    """
    import pyarrow as pa

    return cast("Any", pa.schema([_nullable(field) for field in schema]))


def _nullable(field: Any) -> Any:
    import pyarrow as pa

    kind = _with_parts(field.type, _nullable) if cast("Any", pa.types).is_nested(field.type) else field.type
    return field.with_type(kind).with_nullable(True)


def declared_rows(schema: pa.Schema) -> RowTypeInfo:
    """Return the type of the rows of a DataFrame.

    Columns of moments with a zone, of structs and lists, and of decimals with more digits than `Types.BIG_DEC()` holds,
    are there without a type of their own, as are maps that have such parts: their values are aware datetimes, dicts,
    lists and decimals.

    Example:
        >>> import pyarrow as pa
        >>> declared_rows(pa.schema([("id", pa.int64()), ("word", pa.string())]))
        RowTypeInfo(id: Long, word: String)
    """
    fields: Any = schema
    return RowTypeInfo([_declared(field.type) for field in fields], [field.name for field in fields])


def _declared(kind: Any) -> TypeInformation:
    import pyarrow as pa

    types: Any = pa.types
    simple: dict[Any, TypeInformation] = {
        pa.bool_(): Types.BOOLEAN(),
        pa.int8(): Types.BYTE(),
        pa.int16(): Types.SHORT(),
        pa.int32(): Types.INT(),
        pa.int64(): Types.LONG(),
        pa.float32(): Types.FLOAT(),
        pa.float64(): Types.DOUBLE(),
        pa.string(): Types.STRING(),
        pa.large_string(): Types.STRING(),
        pa.binary(): Types.PRIMITIVE_ARRAY(Types.BYTE()),
        pa.date32(): Types.SQL_DATE(),
        pa.timestamp("us"): Types.SQL_TIMESTAMP(),
    }
    if types.is_decimal(kind) and kind.scale <= _FRACTION_DIGITS and kind.precision - kind.scale <= _WHOLE_DIGITS:
        return Types.BIG_DEC()
    if types.is_map(kind):
        parts = [_declared(part) for part in (kind.key_type, kind.item_type)]
        if Types.PICKLED_BYTE_ARRAY() not in parts and kind == arrow_type(declared := Types.MAP(*parts), ""):
            return declared
    return simple.get(kind, Types.PICKLED_BYTE_ARRAY())

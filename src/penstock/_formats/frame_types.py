"""Columns as Spark's DataFrames have them, and what a stream of such columns is declared as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.typeinfo import RowTypeInfo, Types

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.common.typeinfo import TypeInformation


#: Of `Types.BIG_DEC()`: the digits behind the point, and before it.
_FRACTION_DIGITS: Final = 18
_WHOLE_DIGITS: Final = 20


def of_frames(table: Any) -> Any:
    """Return a table with types that Spark has, of the same values: times in microseconds, text for categories.

    Raises:
        ArrowException: A value would not stay as it is, such as a nanosecond.
    """
    import pyarrow as pa

    fields: Any = [field.with_type(_type_of_frames(field.type)) for field in table.schema]
    schema: Any = pa.schema(fields)
    return table if table.schema.equals(schema) else table.cast(schema)


def _type_of_frames(kind: Any) -> Any:
    import pyarrow as pa

    types: Any = pa.types
    if types.is_timestamp(kind) and kind.unit != "us":
        return pa.timestamp("us", kind.tz)
    if types.is_dictionary(kind):
        return _type_of_frames(kind.value_type)
    if types.is_unsigned_integer(kind):
        return pa.int64() if kind.bit_width <= 32 else pa.decimal128(20, 0)
    if types.is_large_string(kind):
        return pa.string()
    return pa.binary() if types.is_large_binary(kind) else kind


def declared_rows(schema: pa.Schema) -> RowTypeInfo:
    """Return the type of the rows of a DataFrame.

    Columns of moments with a zone, of structs, maps and lists, and of decimals with more digits than `Types.BIG_DEC()`
    holds, are there without a type of their own: their values are aware datetimes, dicts, lists and decimals.

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
    return simple.get(kind, Types.PICKLED_BYTE_ARRAY())

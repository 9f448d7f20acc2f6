"""Joins columns that were made apart, so that it does not matter how records were cut into batches.

A type only ever widens, and each value stays as it is: numbers get more digits, moments finer units and, where their
zones differ, UTC, structs the fields of both. Types that have none in common are refused by name.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._formats.arrow_misfits import MisfitError, misfits
from penstock._formats.arrow_types import kind_of
from penstock._formats.arrow_values import arrow_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The digits of Arrow's two types of decimals.
_DIGITS: Final = (38, 76)


def joined(tables: Sequence[Any]) -> Any:
    """Return tables as one, with the columns of all of them; a type only ever widens.

    Raises:
        MisfitError: A column has types that have no type in common; the place is the number of the table.
    """
    import pyarrow as pa

    functions: Any = pa
    if all(table.schema.equals(tables[0].schema) for table in tables):
        return functions.concat_tables(tables)
    names: list[str] = list(dict.fromkeys(name for table in tables for name in table.schema.names))
    columns: dict[str, Any] = {}
    for name in names:
        parts = [
            table.column(name) if name in table.schema.names else functions.nulls(table.num_rows) for table in tables
        ]
        columns[name] = alike(name, parts)
    return functions.table(columns)


def joined_schema(schemas: Sequence[Any]) -> Any:
    """Return the schema that tables of some schemas have together; raises as ``joined`` does."""
    return joined([schema.empty_table() for schema in schemas]).schema


def alike(name: str, columns: Sequence[Any]) -> Any:
    """Return columns that were made apart as one, of the narrowest type that holds all of their values.

    Args:
        name: The column's name, for the error.
        columns: Arrays, or arrays in chunks.

    Raises:
        MisfitError: There is no such type; the place is the number of the column.
    """
    import pyarrow as pa

    kinds: list[Any] = [column.type for column in columns]
    wanted = None
    for place, kind in enumerate(kinds):
        wider = kind if wanted is None else wider_type(wanted, kind)
        if wider is None:
            raise MisfitError(
                place, f"the column {name!r} is {kind} here and {wanted} before, which no column can be", name
            )
        wanted = wider
    chunks: list[Any] = []
    for place, column in enumerate(columns):
        try:
            chunks += _chunks(cast_column(column, wanted))
        except MisfitError as error:
            told = f"the column {name!r} is {column.type} here and {wanted} with the others: {error}"
            raise MisfitError(place, told, name) from error
    return cast("Any", pa).chunked_array(chunks, wanted)


def cast_column(column: Any, wanted: Any) -> Any:
    """Return a column as one of another type, with the same values.

    Arrow's cast of a type with lists of nothing but None to another one with them leaves all but one of the Nones out.

    Raises:
        MisfitError: A value would be changed, or Python has none for it.
    """
    if column.type.equals(wanted):
        return column
    try:
        return arrow_array(column.to_pylist(), wanted) if _has_only_nulls(wanted) else column.cast(wanted)
    except MisfitError:
        raise
    except misfits() as error:
        raise MisfitError(0, str(error).rstrip(".")) from error


def _has_only_nulls(kind: Any) -> bool:
    import pyarrow as pa

    parts = [kind.field(place).type for place in range(kind.num_fields)]
    return pa.types.is_null(kind) or any(map(_has_only_nulls, parts))


def _chunks(column: Any) -> list[Any]:
    return column.chunks if hasattr(column, "chunks") else [column]


def wider_type(one: Any, other: Any) -> Any:
    """Return the type to which values of two types can be cast, where the cast keeps each value or fails; or None."""
    import pyarrow as pa

    types: Any = pa.types
    if one.equals(other) or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if types.is_dictionary(one) or types.is_dictionary(other):
        return wider_type(*[kind.value_type if types.is_dictionary(kind) else kind for kind in (one, other)])
    kinds = {kind_of(one), kind_of(other)}
    if kinds <= {"integer", "fraction", "decimal"}:
        return _wider_number(one, other, kinds)
    if len(kinds) > 1:
        return None
    return _wider_parts(one, other, kinds.pop())


def _wider_number(one: Any, other: Any, kinds: set[str]) -> Any:
    import pyarrow as pa

    types: Any = pa.types
    if "fraction" in kinds:
        return None if "decimal" in kinds else pa.float64()
    if "decimal" not in kinds:
        if types.is_signed_integer(one) is types.is_signed_integer(other):
            return max(one, other, key=lambda kind: kind.bit_width)
        return pa.uint64() if pa.uint64() in (one, other) else pa.int64()
    scales = [(kind.precision - kind.scale, kind.scale) if types.is_decimal(kind) else (20, 0) for kind in (one, other)]
    whole, scale = map(max, zip(*scales, strict=True))
    if whole + scale > _DIGITS[1]:
        return None
    return pa.decimal128(whole + scale, scale) if whole + scale <= _DIGITS[0] else pa.decimal256(whole + scale, scale)


def _wider_parts(one: Any, other: Any, kind: str) -> Any:
    """Return the wider of two types of one kind: the finer unit, the larger offsets, the fields of both."""
    import pyarrow as pa

    makers: dict[str, Callable[[], Any]] = {
        "text": pa.large_string,
        "bytes": pa.large_binary,
        "point in time": lambda: _wider_moment(one, other),
        "time of day": lambda: pa.time64("us" if _finer(one, other) != "ns" else "ns"),
        "duration": lambda: cast("Any", pa).duration(_finer(one, other)),
        "list": lambda: _of_wider(pa.list_, (one.value_type, other.value_type)),
        "map": lambda: _of_wider(pa.map_, (one.key_type, other.key_type), (one.item_type, other.item_type)),
        "struct": lambda: _wider_struct(one, other),
    }
    return makers[kind]() if kind in makers else None


def _of_wider(make: Callable[..., Any], *pairs: tuple[Any, Any]) -> Any:
    """Return a type of wider parts, or None if one pair of them has no type in common."""
    parts = [wider_type(*pair) for pair in pairs]
    return None if None in parts else make(*parts)


def _wider_moment(one: Any, other: Any) -> Any:
    import pyarrow as pa

    if (one.tz is None) is not (other.tz is None):
        return None
    return cast("Any", pa).timestamp(_finer(one, other), one.tz if one.tz == other.tz else "UTC")


def _finer(one: Any, other: Any) -> str:
    return max(one.unit, other.unit, key=["s", "ms", "us", "ns"].index)


def _wider_struct(one: Any, other: Any) -> Any:
    import pyarrow as pa

    fields: dict[str, Any] = {}
    for field in chain(one, other):
        kind = wider_type(fields[field.name], field.type) if field.name in fields else field.type
        if kind is None:
            return None
        fields[field.name] = kind
    return cast("Any", pa).struct(list(fields.items()))

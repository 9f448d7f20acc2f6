"""Columns of keys: Arrow groups by their values, and keyed state has a canonical encoding of each."""

from __future__ import annotations

from typing import Any, cast

from penstock.common.columns import named_values
from penstock.errors import BatchColumnsError


def plain_column(column: Any) -> Any:
    """Return a column without a dictionary."""
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def key_column(name: str, column: Any) -> Any:
    """Return a column of keys in which equal keys are alike: Arrow tells 0.0 and -0.0 apart, and units of time.

    Raises:
        BatchColumnsError: A key is no value of Python's, or has nanoseconds, for which keys have no encoding.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    types, functions = cast("Any", pa.types), cast("Any", pc)
    column = plain_column(column)
    if types.is_floating(column.type):
        return functions.add(column, 0.0)
    if types.is_interval(column.type):
        raise BatchColumnsError((name,), f"its column {name!r} is of {column.type}, which no key can be; cast it")
    if types.is_timestamp(column.type) or types.is_date(column.type):
        named_values(name, _ends(column))
    return _in_microseconds(name, column) if getattr(column.type, "unit", "") == "ns" else column


def _ends(column: Any) -> Any:
    """Return a column of the least and the greatest value of one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    extremes: Any = cast("Any", pc).min_max(column)
    return cast("Any", pa).array([extremes["min"], extremes["max"]], column.type)


def _in_microseconds(name: str, column: Any) -> Any:
    """Return a column of times in nanoseconds without them.

    Raises:
        BatchColumnsError: One has some.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    types, functions = cast("Any", pa.types), cast("Any", pc)
    zone = column.type.tz if types.is_timestamp(column.type) else None
    kinds = {types.is_duration: pa.duration("us"), types.is_time: pa.time64("us")}
    kind: Any = next((kind for is_one, kind in kinds.items() if is_one(column.type)), pa.timestamp("us", zone))
    whole = column.cast(kind, safe=False)
    kept = functions.equal(whole.cast(column.type), column)
    if functions.all(kept).as_py() is False:
        value = column.filter(functions.invert(kept))[0].as_py()
        reason = f"in its column {name!r} {value!r} has nanoseconds, which no key can have"
        raise BatchColumnsError((name,), f"{reason}; cast the column to microseconds")
    return whole

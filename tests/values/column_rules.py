"""The rules of columnar files: what comes back where a path converts a value.

A rule takes a record that went in and its `Value`, and returns the record that has to come back.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from tests.values import rules
from tests.values.values import FIELD

from penstock._formats.arrow_types import arrow_type
from penstock.common import Instant, Row

if TYPE_CHECKING:
    from tests.values.values import Value


def filled_column(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """As ``column_value``, and a field that a record or a struct lacks is None."""
    del value
    return {FIELD: None} | plain_part(record)


def column_value(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """Rows are dicts, and tuples, sets and arrays of NumPy are lists, at every level; scalars of NumPy are Python's."""
    del value
    return plain_part(record)


def numbers_alike(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """Numbers have the class that holds all of those beside them; decimals have the most digits behind the point."""
    parts = [one[FIELD] for one in value.records]
    if any(isinstance(part, Decimal) for part in parts):
        scale = max(0, *[-cast("int", Decimal(part).as_tuple().exponent) for part in parts])
        return {FIELD: rescaled(Decimal(record[FIELD]), scale)}
    return {FIELD: float(record[FIELD])}


def numbers_alike_as_decimals(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A whole number is a decimal."""
    del value
    field = record[FIELD]
    return {FIELD: [Decimal(int(item)) for item in field] if isinstance(field, list) else Decimal(int(field))}


def zero(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """-0.0 is 0.0."""
    del value
    return {FIELD: record[FIELD] + 0.0}


def no_nan(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """NaN is None."""
    del value
    return {FIELD: None if record[FIELD] != record[FIELD] else record[FIELD]}


def same_in_utc(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A moment is the same one, in UTC."""
    del value
    if record[FIELD].tzinfo is None:
        raise rules.DoesNotApplyError
    return {FIELD: rules.of_moment(record[FIELD].astimezone(dt.UTC))}


def without_fold(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A time does not say which of two equal hours it is in."""
    del value
    return {FIELD: record[FIELD].replace(fold=0)}


def with_all_fields(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """Records, and dicts inside, have the fields of all records; those that they lack are None."""
    names = dict.fromkeys(name for one in value.records for name in one)
    whole = dict.fromkeys(names) | record
    inner = [one[FIELD] for one in value.records if isinstance(one[FIELD], dict)]
    if inner:
        whole[FIELD] = dict.fromkeys(name for one in inner for name in one) | whole[FIELD]
    for name, part in whole.items():
        if isinstance(part, list):
            names = dict.fromkeys(key for one in part for key in one)
            whole[name] = [dict.fromkeys(names) | one for one in part]
    return whole


def as_column(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A value has the class, the digits, the zone and the fields of its column's Arrow type."""
    if "arrow" not in value.columns and value.declared is None:
        raise rules.DoesNotApplyError
    kind = value.columns["arrow"] if "arrow" in value.columns else arrow_type(value.declared, FIELD)
    return {FIELD: column_part(plain_part(record.get(FIELD)), kind)}


def as_row(record: dict[str, Any], value: Value) -> dict[str, Any]:
    """A dict is the row of the declared type, with all of its fields in their order."""
    declared: Any = value.declared
    found = plain_part(record[FIELD])
    return {FIELD: Row(**{name: found.get(name) for name in declared.get_field_names()})}


def column_part(part: Any, kind: Any) -> Any:
    """Return a part of a record as a value of an Arrow type."""
    if pa.types.is_struct(kind) and part is not None:
        return {field.name: column_part(part.get(field.name), field.type) for field in kind}
    makers = {
        pa.types.is_integer: int,
        pa.types.is_float16: lambda one: float(np.float16(one)),
        pa.types.is_float32: lambda one: float(np.float32(one)),
        pa.types.is_float64: float,
        pa.types.is_decimal: lambda one: rescaled(Decimal(one), kind.scale),
        pa.types.is_date: lambda one: one.date() if isinstance(one, dt.datetime) else one,
        pa.types.is_timestamp: lambda one: moment_part(one, kind),
    }
    make = next((make for is_one, make in makers.items() if is_one(kind)), None)
    return part if part is None or make is None else make(part)


def moment_part(part: Any, kind: Any) -> Any:
    """Return a moment as a value of a column."""
    if isinstance(part, np.datetime64):
        return pd.Timestamp(part)
    if isinstance(part, Instant):
        part = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=part.to_epoch_milli())
    if not isinstance(part, dt.datetime):
        return dt.datetime.combine(part, dt.time.min)
    return part.replace(fold=0) if kind.tz is None else part.astimezone(dt.UTC)


def rescaled(number: Decimal, scale: int) -> Decimal:
    """Return a decimal with some digits behind the point; a column of decimals knows no negative zero."""
    with localcontext() as context:
        context.prec = 200
        found = number.quantize(Decimal(1).scaleb(-scale))
        return found or abs(found)


def plain_part(field: Any) -> Any:
    """Return a part of a record by the rule ``column_value``."""
    if isinstance(field, Row):
        field = field.as_dict()
    if isinstance(field, dict):
        return {plain_part(key): plain_part(part) for key, part in field.items()}
    if isinstance(field, (list, tuple, set)):
        return [plain_part(part) for part in field]
    if isinstance(field, pd.Timestamp) and not field.nanosecond:
        return field.to_pydatetime()
    if isinstance(field, np.datetime64) and field.dtype != np.dtype("datetime64[D]"):
        exact = field.astype("datetime64[us]")
        return exact.item() if exact == field else pd.Timestamp(field)
    makers = {(bytearray, memoryview): bytes, (np.ndarray, np.generic): lambda one: one.tolist()}
    make = next((make for classes, make in makers.items() if isinstance(field, classes)), rules.of_python)
    return make(field)

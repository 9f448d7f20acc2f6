"""Types and values of them, drawn at random, for the codecs of formats."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from penstock.common import Row, Types
from penstock.common._typeinfo.basic import BasicType
from penstock.common.time import Instant
from penstock.common.typeinfo import (
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TypeInformation,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


def whole(bits: int) -> st.SearchStrategy[int]:
    """Return integers of so many bits."""
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


DECIMALS = st.decimals(allow_nan=False, allow_infinity=False) | st.integers(-(10**40), 10**40).map(Decimal)
_INSTANTS = st.builds(Instant, st.integers(-62_135_596_800, 253_402_300_799), st.integers(0, 999_999_999))
SINGLE: dict[TypeInformation, st.SearchStrategy[Any]] = {
    Types.STRING(): TEXT,
    BasicTypeInfo(BasicType.CHAR): st.characters(exclude_categories=["Cs"]),
    Types.BOOLEAN(): st.booleans(),
    Types.BYTE(): whole(8),
    Types.SHORT(): whole(16),
    Types.INT(): whole(32),
    Types.LONG(): whole(64),
    Types.BIG_INT(): st.integers(),
    Types.BIG_DEC(): DECIMALS,
    Types.FLOAT(): st.floats(width=32),
    Types.DOUBLE(): st.floats(),
    Types.SQL_DATE(): st.dates(),
    Types.SQL_TIME(): st.times(),
    Types.SQL_TIMESTAMP(): st.datetimes(),
    Types.INSTANT(): _INSTANTS,
    _BYTES: st.binary(max_size=6),
}
_KEYS = [Types.STRING(), Types.INT(), Types.LONG(), Types.BOOLEAN(), Types.BIG_INT(), Types.SQL_DATE()]
_NUMBERS = [Types.INT(), Types.LONG(), Types.DOUBLE(), Types.BOOLEAN()]
_NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)


def types() -> st.SearchStrategy[TypeInformation]:
    """Return types of rows, in which others are."""
    return st.recursive(st.sampled_from(list(SINGLE)), _made_of, max_leaves=6).flatmap(lambda one: _rows(st.just(one)))


def _made_of(inner: st.SearchStrategy[TypeInformation]) -> st.SearchStrategy[TypeInformation]:
    return st.one_of(
        inner.map(Types.LIST),
        inner.map(Types.OBJECT_ARRAY),
        st.sampled_from(_NUMBERS).map(Types.PRIMITIVE_ARRAY),
        st.builds(Types.MAP, st.sampled_from(_KEYS), inner),
        _rows(inner),
    )


def _rows(inner: st.SearchStrategy[TypeInformation]) -> st.SearchStrategy[TypeInformation]:
    parts = st.dictionaries(_NAMES, inner, max_size=3)
    return parts.map(lambda fields: Types.ROW_NAMED(list(fields), list(fields.values())))


def values(type_info: TypeInformation) -> st.SearchStrategy[Any]:
    """Return values of a type, but None."""
    if isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names()
        fields = st.tuples(*map(optional, type_info.get_field_types()))
        return fields.map(lambda found: _row(names, found))
    if type_info in SINGLE:
        return SINGLE[type_info]
    if isinstance(type_info, PrimitiveArrayTypeInfo):
        return st.lists(values(type_info.elem_type), max_size=3)
    if isinstance(type_info, (ListTypeInfo, ObjectArrayTypeInfo)):
        return st.lists(optional(type_info.elem_type), max_size=3)
    assert isinstance(type_info, MapTypeInfo)
    return st.dictionaries(values(type_info.key_type), optional(type_info.value_type), max_size=3)


def optional(type_info: TypeInformation) -> st.SearchStrategy[Any]:
    """Return values of a type and None."""
    return st.none() | values(type_info)


def _row(names: list[str], found: tuple[Any, ...]) -> Row:
    row = Row(*found)
    row.set_field_names(names)
    return row


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal, of one class, and the same number where they are NaN or a zero with a sign."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other) or (one != one and other != other)  # noqa: PLR0124
    if isinstance(one, (list, Row)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


#: Values of many kinds, most of which a given type does not hold.
ODD: list[Any] = [
    *(None, True, 0, -1, 127, 128, 2**31, 2**53 + 1, 2**63, 2**70, 0.1, 1.0, -0.0, 1e39, 1e300, float("nan")),
    *(float("inf"), Decimal("1.50"), Decimal("0.1"), Decimal("1E+400"), Decimal("NaN"), 1j),
    *("", "x", "5", "true", "\0", "\r\n", "NULL", "\ud800", "2026-01-01", b"", b"ab", bytearray(b"x")),
    *(datetime.date(1, 1, 1), datetime.date(2026, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001
    datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=5))),
    datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=5))),
    *(datetime.time(1, 2, 3, 4), datetime.time(1, tzinfo=datetime.UTC), datetime.timedelta(31), Instant(1, 5)),
    datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(hours=5))),
    *([], [None], [1, None], ["a"], (1, 2), {}, {"a": 1}, {1: 2, "1": 3}, {None: 1}, {1}, Row(1), Row(a=1), object()),
]

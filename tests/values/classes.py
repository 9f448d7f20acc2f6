"""Values of classes of one's own, of NumPy and of pandas, and what else stands at the edges of kinds of values.

The names of their kinds are those of ``values``, so that they stand beside the others in the page.
"""

from __future__ import annotations

import collections
import datetime as dt
import enum
import fractions
import types
import uuid
from dataclasses import dataclass
from decimal import Decimal as D
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
from tests.values.values import DAY, MOMENT, TIME, beside, one, zone

from penstock.common import Row, RowKind, Types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.values.values import Value


class Word(str):
    """A text that calls itself otherwise."""

    __slots__ = ()

    def __str__(self) -> str:
        return "other"


class Count(int):
    """A number that calls itself otherwise."""

    def __int__(self) -> int:
        return 7


class Share(float):
    """A fraction that calls itself otherwise."""

    def __float__(self) -> float:
        return 8.5


class Money(D):
    """A Decimal of its own class."""


class Octets(bytes):
    """Bytes of their own class."""


class Moment(dt.datetime):
    """A datetime of its own class."""


class Day(dt.date):
    """A date of its own class."""


class Tags(list[Any]):
    """A list of its own class."""


class Letter(enum.StrEnum):
    """An enumeration whose members are texts."""

    A = "a"


class Flag(enum.IntFlag):
    """Flags, whose sums are members as well."""

    ONE = 1
    TWO = 2


class Pair(collections.namedtuple("Pair", "a b")):
    """A tuple with names."""

    __slots__ = ()


@dataclass
class Point:
    """A dataclass."""

    a: int
    b: str


def _deleted(**fields: Any) -> Row:
    row = Row(**fields)
    row.set_row_kind(RowKind.DELETE)
    return row


def _nested(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


def own_classes() -> Iterator[Value]:
    """Yield values of classes below Python's own ones."""
    kind = "Objects"
    yield from one(kind, Types.STRING(), {"a text of its own class": Word("x"), "a member of a StrEnum": Letter.A})
    yield from one(kind, Types.LONG(), {"an int of its own class": Count(5), "two flags": Flag.ONE | Flag.TWO})
    yield from one(
        kind, Types.DOUBLE(), {"a float of its own class": Share(0.5), "a Fraction": fractions.Fraction(1, 3)}
    )
    yield from one(kind, Types.BIG_DEC(), {"a Decimal of its own class": Money("1.5")})
    yield from one(kind, Types.PRIMITIVE_ARRAY(Types.BYTE()), {"bytes of their own class": Octets(b"x")})
    yield from one(kind, Types.SQL_TIMESTAMP(), {"a datetime of its own class": Moment(2026, 1, 2)})
    yield from one(kind, Types.SQL_DATE(), {"a date of its own class": Day(2026, 1, 2)})
    yield from one(kind, Types.LIST(Types.LONG()), {"a list of its own class": Tags([1])})
    yield from one(kind, None, {"a UUID": uuid.UUID(int=5)}, sql="uuid", arrow=pa.uuid())
    yield from one(kind, None, {"a text as UUID": "x"}, sql="uuid", arrow=pa.uuid())


def of_numpy() -> Iterator[Value]:
    """Yield values of NumPy and of pandas."""
    kind = "Objects"
    yield from one(kind, Types.LONG(), {"an array without dimensions": np.array(5), "a missing value": pd.NA})
    yield from one(kind, Types.DOUBLE(), {"a float16 of NumPy": np.float16(0.5), "an int of NumPy": np.int64(5)})
    yield from one(kind, Types.SQL_DATE(), {"a day of NumPy": np.datetime64("2026-01-02")})
    yield from one(kind, Types.SQL_TIMESTAMP(), {"no time of NumPy": np.datetime64("NaT", "us")})
    spans = {"a timedelta64": np.timedelta64(5, "ms"), "a timedelta64 of years": np.timedelta64(5, "Y")}
    yield from one(kind, None, spans, arrow=pa.duration("us"), sql="interval")
    lists = {"scalars of NumPy in a list": [np.int64(1), np.int32(2)], "a uint64 in a list": [np.uint64(2**63)]}
    more = {"an array without dimensions as a list": np.array(5), "an array of fractions": np.array([1.5])}
    yield from one(kind, Types.LIST(Types.LONG()), lists | more)
    pairs = {
        "a uint64 of NumPy beside -1": [np.uint64(2**64 - 1), -1],
        "a bool beside one of NumPy": [True, np.bool_(0)],
    }
    yield from beside(kind, None, pairs)


def numbers() -> Iterator[Value]:
    """Yield numbers at the edges of floats and decimals."""
    kind = "Floating point"
    yield from one(kind, Types.FLOAT(), {"1e-60 as FLOAT": 1e-60})
    halves = {"0.1 as float16": 0.1, "2049 as float16": 2049, "2048 as float16": 2048, "1e6 as float16": 1e6}
    yield from one(kind, None, halves, arrow=pa.float16())
    yield from one(kind, None, {"truth in 8 bits": True, "5 as truth in 8 bits": 5}, arrow=pa.bool8())
    kind = "Decimals"
    values = {"1E-5": D("1E-5"), "0E-10": D("0E-10"), "1E+100000": D("1E+100000"), "a signalling NaN": D("sNaN")}
    yield from one(kind, Types.BIG_DEC(), values | {"a truth value as BIG_DEC": True})
    yield from one(kind, None, {"hundreds": D(100), "tens in hundreds": D(150)}, arrow=pa.decimal128(5, -2))
    runs = pa.run_end_encoded(pa.int32(), pa.int64())
    yield from one("Whole numbers", None, {"a number in runs": 5}, arrow=runs)
    yield from one("Text", None, {"a text in a view": "x", "bytes in a view of texts": b"x"}, arrow=pa.string_view())
    yield from one("Bytes", None, {"bytes in a view": b"x", "a text in a view of bytes": "x"}, arrow=pa.binary_view())


def times() -> Iterator[Value]:
    """Yield times at the edges of years, of days and of zones."""
    berlin = ZoneInfo("Europe/Berlin")
    kind = "Moments"
    first, last = dt.datetime(1, 1, 1, tzinfo=zone(5)), dt.datetime(9999, 12, 31, 23, 59, tzinfo=zone(-5))
    values = {
        "year 0 in UTC": first,
        "year 10000 in UTC": last,
        "the hour that comes twice": dt.datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1),
        "seconds of an offset": dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(seconds=1234))),
        "a zone of pandas": pd.Timestamp("2026-01-01", tz="Europe/Berlin"),
        "a number as SQL_TIMESTAMP": 5,
    }
    yield from one(kind, Types.SQL_TIMESTAMP(), values)
    edges = {"last hour in a column of Berlin": last.replace(tzinfo=dt.UTC)}
    yield from one(kind, None, edges, arrow=pa.timestamp("us", "Europe/Berlin"))
    two = {"year 0 in UTC beside another": [first, MOMENT.replace(tzinfo=dt.UTC)]}
    yield from beside(kind, None, two)
    kind = "Dates and times of day"
    of_day = {"a time in UTC": TIME.replace(tzinfo=dt.UTC), "a time with fold": TIME.replace(fold=1)}
    yield from one(kind, Types.SQL_TIME(), of_day | {"a duration as SQL_TIME": dt.timedelta(hours=1)})
    yield from one(kind, None, {"a time in nanoseconds": TIME}, arrow=pa.time64("ns"))


def nested() -> Iterator[Value]:
    """Yield rows, maps and lists with odd names, keys and kinds."""
    point = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    kind = "Rows"
    rows = {
        "a row without names": Row(1, "x"),
        "a row of other names": Row(c=1, d="x"),
        "a row that lacks a field": Row(a=1),
        "a deleted row": _deleted(a=1, b="x"),
        "a namedtuple": Pair(1, "x"),
        "a dataclass": Point(1, "x"),
        "a text as row": "ax",
    }
    yield from one(kind, point, rows)
    cases = Types.ROW_NAMED(["a", "A"], [Types.INT(), Types.INT()])
    yield from one(kind, cases, {"names that differ by case": {"a": 1, "A": 2}})
    odd = Types.ROW_NAMED(["a.b", "", " "], [Types.INT()] * 3)
    yield from one(kind, odd, {"odd names": {"a.b": 1, "": 2, " ": 3}})
    yield from one(kind, None, {"a struct without fields": {}}, arrow=pa.struct([]))
    yield from one(kind, None, {"an odd name": {"": 1}, "half of a pair as name": {"\ud800": 1}})
    kind = "Maps"
    yield from one(kind, Types.MAP(Types.STRING(), point), {"rows in a map": {"a": Row(a=1, b="x")}})
    keys = {"a truth value as key": {True: 1}, "a text of NumPy as key": {np.str_("a"): 1}, "a row as map": Row(a=1)}
    others = {"a view of a dict": types.MappingProxyType({"a": 1}), "half of a pair as key": {"\ud800": 1}}
    yield from one(kind, Types.MAP(Types.STRING(), Types.LONG()), keys | others | {"a text as map": "a"})
    near = {"keys that are one in 32 bits": {0.1: "x", float(np.float32(0.1)): "y"}}
    yield from one(kind, Types.MAP(Types.FLOAT(), Types.STRING()), near)
    moments = {
        "moments as keys": {MOMENT: "x"},
        "keys of one moment": {MOMENT: "x", MOMENT.replace(tzinfo=dt.UTC): "y"},
    }
    yield from one(kind, Types.MAP(Types.SQL_TIMESTAMP(), Types.STRING()), moments)
    yield from one("Lists", None, {"50 levels": _nested(50)})
    yield from beside("Beside each other", None, {"a day beside a time": [DAY, TIME], "an empty dict": [{}, {"a": 1}]})


def of_avro() -> Iterator[Value]:
    """Yield values of unions, enumerations and defaults of Avro."""
    kind = "Rows"
    fields = [{"name": "a", "type": "long", "default": 7}, {"name": "b", "type": ["null", "long"], "default": None}]
    yield from one(kind, None, {"a default": {"b": 1}}, avro={"type": "record", "name": "whole_row", "fields": fields})
    kind = "Beside each other"
    colour = {"type": "enum", "name": "c", "symbols": ["RED"]}
    yield from beside(kind, None, {"a union of symbols and texts": ["RED", "BLUE"]}, avro=[colour, "string"])
    twice = ["string", {"type": "string", "logicalType": "uuid"}]
    yield from beside(kind, None, {"a union that has one kind twice": [uuid.UUID(int=5), "x"]}, avro=twice)
    numbers = ["int", "long", "float", "double"]
    yield from beside(kind, None, {"a union of numbers": [5, 2**40, 0.5, 0.1]}, avro=numbers)
    whole = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}
    either = {"a union of a map and a record": [{"a": 1}, {"a": 1, "b": 2}]}
    yield from beside(kind, None, either, avro=[{"type": "map", "values": "long"}, whole])

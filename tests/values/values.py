"""The values that go through every codec and through every sink with its source, by kind and by name.

A value is one record, or a few where the question is what stands beside each other in one column. Its field is called
``datum``, a name that no message has by chance. Tests of one path must not know single values: what a path does to
them stands in the files of ``conversions``.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
from dataclasses import dataclass, field
from decimal import Decimal as D
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa

from penstock.common import Instant, Row, Types

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.common.typeinfo import RowTypeInfo, TypeInformation

FIELD = "datum"


@dataclass(frozen=True, eq=False)
class Value:
    """A value, or several that stand in one column, and what the column is declared as.

    Attributes:
        kind: The part of the page in which it stands.
        name: What the page calls it.
        records: The records that have it.
        declared: The type of the field; None where a stream has no declared type.
        columns: The type of the field in one world of types, where that says more than ``declared``: "arrow" (a type of
            pyarrow), "avro" (a schema), "sql" (a type of PostgreSQL).
    """

    kind: str
    name: str
    records: tuple[dict[str, Any], ...]
    declared: TypeInformation | None = None
    columns: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def row_type(self) -> RowTypeInfo | None:
        """The declared type of the records."""
        return None if self.declared is None else Types.ROW_NAMED([FIELD], [self.declared])

    @property
    def rows(self) -> list[Row]:
        """The records as rows."""
        return [Row(**one) for one in self.records]

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


class Colour(enum.Enum):
    """An enumeration."""

    RED = "red"


class Level(enum.IntEnum):
    """An enumeration whose members are numbers."""

    HIGH = 3


def one(kind: str, declared: TypeInformation | None, values: Mapping[str, Any], **columns: Any) -> Iterator[Value]:
    """Yield values that each stand alone."""
    for name, value in values.items():
        yield Value(kind, name, ({FIELD: value},), declared, columns)


def beside(
    kind: str, declared: TypeInformation | None, values: Mapping[str, list[Any]], **columns: Any
) -> Iterator[Value]:
    """Yield values that stand beside each other in one column."""
    for name, several in values.items():
        yield Value(kind, name, tuple({FIELD: value} for value in several), declared, columns)


def zone(hours: int) -> dt.timezone:
    """Return a zone east of Greenwich."""
    return dt.timezone(dt.timedelta(hours=hours))


def _naive(*parts: int) -> dt.datetime:
    return dt.datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001 - without a zone on purpose


MOMENT = _naive(2026, 1, 2, 3, 4, 5, 678901)
DAY, TIME = MOMENT.date(), MOMENT.time()


def _whole_numbers() -> Iterator[Value]:
    kind = "Whole numbers"
    for bits, declared in ((8, Types.BYTE()), (16, Types.SHORT()), (32, Types.INT()), (64, Types.LONG())):
        ends = {f"least of {bits} bits": -(2 ** (bits - 1)), f"greatest of {bits} bits": 2 ** (bits - 1) - 1}
        beyond = {f"above {bits} bits": 2 ** (bits - 1), f"below {bits} bits": -(2 ** (bits - 1)) - 1}
        yield from one(kind, declared, ends | beyond)
    yield from one(
        kind, Types.LONG(), {"zero": 0, "a float without a fraction": 1.0, "a text": "5", "a truth value": True}
    )
    yield from one(kind, Types.INT(), {"a float with a fraction": 1.5, "a Decimal with a fraction": D("1.5")})
    for bits in (8, 16, 32, 64):
        kinds = {"arrow": getattr(pa, f"uint{bits}")()}
        yield from one(kind, None, {f"greatest unsigned of {bits} bits": 2**bits - 1}, **kinds)
    yield from one(kind, None, {"-1 as unsigned": -1}, arrow=pa.uint64())
    yield from one(kind, Types.BIG_INT(), {"100 bits": 2**100, "5,000 digits": 10**4999, "a float as BIG_INT": 1.5})


def _fractions() -> Iterator[Value]:
    kind = "Floating point"
    yield from one(
        kind,
        Types.DOUBLE(),
        {
            "0.1": 0.1,
            "NaN": math.nan,
            "infinity": math.inf,
            "-infinity": -math.inf,
            "-0.0": -0.0,
            "greatest double": 1.7976931348623157e308,
            "least double above 0": 5e-324,
            "1e22": 1e22,
            "2**53 + 1": 2**53 + 1,
            "2**53": 2**53,
            "a Decimal as DOUBLE": D("0.1234567890123456789"),
            "a text as DOUBLE": "1.5",
            "a truth value as DOUBLE": True,
        },
    )
    yield from one(
        kind,
        Types.FLOAT(),
        {
            "0.5 in 32 bits": 0.5,
            "0.1 as FLOAT": 0.1,
            "the float32 next to 0.1": float(np.float32(0.1)),
            "2**24 + 1 as FLOAT": 2**24 + 1,
            "1e39 as FLOAT": 1e39,
            "NaN as FLOAT": math.nan,
            "-0.0 as FLOAT": -0.0,
        },
    )
    yield from one(kind, None, {"1.5 as float16": 1.5}, arrow=pa.float16())


def _decimals() -> Iterator[Value]:
    kind = "Decimals"
    yield from one(
        kind,
        Types.BIG_DEC(),
        {
            "1.10": D("1.10"),
            "-0.00": D("-0.00"),
            "1E+30": D("1E+30"),
            "1E-30": D("1E-30"),
            "40 digits": D("1234567890123456789012.123456789012345678"),
            "NaN as a Decimal": D("NaN"),
            "infinite Decimal": D("Infinity"),
            "a float as BIG_DEC": 1.1,
            "an int as BIG_DEC": 5,
            "a text as BIG_DEC": "1.5",
        },
    )
    cents = {"arrow": pa.decimal128(10, 2), "sql": "numeric(10,2)"}
    cents["avro"] = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    yield from one(
        kind,
        None,
        {
            "1.005 in cents": D("1.005"),
            "1.5 in cents": D("1.5"),
            "1.500 in cents": D("1.500"),
            "1e10 in cents": D("1e10"),
        },
        **cents,
    )
    yield from one(kind, None, {"60 digits": D("1" * 60)}, arrow=pa.decimal256(76, 2), sql="numeric")


def _truth() -> Iterator[Value]:
    values = {"true": True, "false": False, "1 as BOOLEAN": 1, "0.0 as BOOLEAN": 0.0, "'true' as BOOLEAN": "true"}
    yield from one("Truth values", Types.BOOLEAN(), values)


def _texts() -> Iterator[Value]:
    yield from one(
        "Text",
        Types.STRING(),
        {
            "empty": "",
            "a space": " ",
            "spaces around": " x ",
            "NULL": "NULL",
            "null": "null",
            "NUL within": "a\0b",
            "a carriage return": "a\rb",
            "a line feed": "a\nb",
            "both": "a\r\nb",
            "line feed at the end": "a\n",
            "a double quote": 'q"q',
            "only a double quote": '"',
            "a single quote": "it's",
            "a comma": "a,b",
            "a semicolon": "a;b",
            "a tab": "a\tb",
            "a backslash": "a\\b",
            "backslash and n": "a\\nb",
            "the comment character": "#x",
            "a byte order mark": "\ufeffx",
            "a line separator": "a\u2028b",
            "beyond 16 bits": "\U0001f600",
            "combined": "e\u0301",
            "a lone surrogate": "\ud800",
            "two lone surrogates": "\udc00\ud800",
            "a digit": "5",
            "JSON in text": '{"a": [1]}',
            "dollar and braces": "${x} %s",
            "an int as STRING": 5,
            "a float as STRING": 1.5,
            "a truth value as STRING": True,
            "bytes as STRING": b"ab",
            "bytes that are no UTF-8": b"\xff",
            "a dict as STRING": {"a": 1},
            "70,000 characters": "x" * 70_000,
        },
    )


def _bytes() -> Iterator[Value]:
    kind, octets = "Bytes", Types.PRIMITIVE_ARRAY(Types.BYTE())
    values = {"no bytes": b"", "all bytes": bytes(range(256)), "a bytearray": bytearray(b"x"), "a text as bytes": "abc"}
    yield from one(kind, octets, values | {"a memoryview": memoryview(b"x")})
    fixed = {"arrow": pa.binary(4), "avro": {"type": "fixed", "name": "four", "size": 4}}
    yield from one(kind, None, {"4 of 4 bytes": b"abcd", "3 of 4 bytes": b"abc"}, **fixed)


def _dates() -> Iterator[Value]:
    kind = "Dates and times of day"
    days = {"a day": DAY, "year 1": dt.date.min, "year 9999": dt.date.max, "a datetime as SQL_DATE": MOMENT}
    midnight = dt.datetime.combine(DAY, dt.time.min)
    yield from one(
        kind, Types.SQL_DATE(), days | {"midnight as SQL_DATE": midnight, "a text as SQL_DATE": "2026-01-02"}
    )
    times = {
        "a time": TIME,
        "midnight": dt.time.min,
        "the last microsecond": dt.time.max,
        "a time with a zone": TIME.replace(tzinfo=zone(5)),
        "a datetime as SQL_TIME": MOMENT,
    }
    yield from one(kind, Types.SQL_TIME(), times)
    yield from one(kind, None, {"microseconds in time32[s]": TIME}, arrow=pa.time32("s"), sql="time(0)")
    yield from beside(
        kind, None, {"a date beside a datetime": [DAY, MOMENT], "a datetime beside a date": [MOMENT, DAY]}
    )


def _moments() -> Iterator[Value]:
    kind = "Moments"
    yield from one(
        kind,
        Types.SQL_TIMESTAMP(),
        {
            "microseconds": MOMENT,
            "no fraction": MOMENT.replace(microsecond=0),
            "milliseconds": MOMENT.replace(microsecond=678000),
            "first moment": _naive(1, 1, 1),
            "last moment": _naive(9999, 12, 31, 23, 59, 59, 999999),
            "before 1970": _naive(1969, 12, 31, 23, 59, 59, 999999),
            "before 1900": _naive(1815, 6, 18, 11, 35),
            "in UTC": MOMENT.replace(tzinfo=dt.UTC),
            "at +05:00": MOMENT.replace(tzinfo=zone(5)),
            "a date as SQL_TIMESTAMP": DAY,
            "a text as SQL_TIMESTAMP": "2026-01-02 03:04:05",
            "the second of an hour twice": _naive(2026, 10, 25, 2, 30).replace(fold=1),
        },
    )
    instants = {"milliseconds of an Instant": Instant.of_epoch_milli(1_767_225_600_123)}
    yield from one(kind, Types.INSTANT(), instants | {"nanoseconds of an Instant": Instant(1_767_225_600, 123_456_789)})
    yield from one(kind, Types.INSTANT(), {"an Instant in year 10000": Instant(253_402_300_800, 0)})
    utc = {
        "arrow": pa.timestamp("us", "UTC"),
        "sql": "timestamptz",
        "avro": {"type": "long", "logicalType": "timestamp-micros"},
    }
    aware = {
        "UTC in a column of UTC": MOMENT.replace(tzinfo=dt.UTC),
        "+05:00 in a column of UTC": MOMENT.replace(tzinfo=zone(5)),
        "Berlin in a column of UTC": MOMENT.replace(tzinfo=ZoneInfo("Europe/Berlin")),
        "naive in a column of UTC": MOMENT,
        "last moment in UTC": dt.datetime.max.replace(tzinfo=dt.UTC),
    }
    yield from one(kind, None, aware, **utc)
    yield from one(kind, None, {"microseconds in seconds": MOMENT}, arrow=pa.timestamp("s"), sql="timestamp(0)")
    millis = {"arrow": pa.timestamp("ms"), "avro": {"type": "long", "logicalType": "timestamp-millis"}}
    yield from one(kind, None, {"microseconds in milliseconds": MOMENT.replace(tzinfo=dt.UTC)}, **millis)
    yield from one(
        kind, None, {"nanoseconds of pandas": pd.Timestamp("2026-01-01 00:00:00.123456789")}, arrow=pa.timestamp("ns")
    )
    yield from one(kind, None, {"no time of pandas": pd.NaT}, arrow=pa.timestamp("us"))
    naive, utc_moment = MOMENT, MOMENT.replace(tzinfo=dt.UTC)
    yield from beside(
        kind,
        None,
        {
            "naive beside aware": [naive, utc_moment],
            "aware beside naive": [MOMENT.replace(tzinfo=zone(5)), naive],
            "two zones": [utc_moment, MOMENT.replace(tzinfo=zone(5))],
        },
    )


def _durations() -> Iterator[Value]:
    spans = {
        "a day and a microsecond": dt.timedelta(days=1, microseconds=1),
        "a negative duration": dt.timedelta(seconds=-1),
        "longest duration": dt.timedelta.max,
    }
    yield from one("Durations", None, spans, arrow=pa.duration("us"), sql="interval")
    yield from one("Durations", None, {"microseconds in ms": dt.timedelta(microseconds=5)}, arrow=pa.duration("ms"))
    yield from one(
        "Durations", None, {"nanoseconds of a Timedelta": pd.Timedelta(123_456_789, "ns")}, arrow=pa.duration("ns")
    )


def _lists() -> Iterator[Value]:
    kind = "Lists"
    texts = {
        "two texts": ["a", "b"],
        "None in a list": ["a", None],
        "an empty text": [""],
        "two empty texts": ["", ""],
        "NULL in a list": ["NULL"],
        "an empty list": [],
        "no list": None,
        "the delimiter in a list": ["a;b", "c,d"],
        "ints in a list of texts": [1, 2],
        "bytes in a list of texts": [b"x"],
        "a tuple": ("a", "b"),
        "an array of texts": np.array(["a", "b"]),
    }
    yield from one(kind, Types.OBJECT_ARRAY(Types.STRING()), texts)
    yield from beside(kind, Types.OBJECT_ARRAY(Types.STRING()), {"an empty list beside None": [[], None]})
    numbers = {"longs": [1, 2**62], "None among longs": [1, None], "a fraction among longs": [1.5], "70 bits": [2**70]}
    yield from one(kind, Types.LIST(Types.LONG()), numbers | {"a set": {1, 2}, "an array of NumPy": np.array([1, 2])})
    yield from one(
        kind,
        Types.LIST(Types.LIST(Types.INT())),
        {"lists in lists": [[1], [], [2, 3]], "None in lists": [None, [None]]},
    )
    yield from one(kind, None, {"three in lists of two": [1, 2, 3]}, arrow=pa.list_(pa.int64(), 2))
    yield from one(
        kind, None, {"microseconds in a list": [MOMENT]}, arrow=pa.list_(pa.timestamp("ms")), sql="timestamp(3)[]"
    )
    yield from one(
        kind, None, {"None in a list without": [None]}, arrow=pa.list_(pa.field("item", pa.int32(), nullable=False))
    )
    mixed = {
        "a date beside a datetime in lists": [[DAY], [MOMENT]],
        "naive beside aware in a list": [[MOMENT, MOMENT.replace(tzinfo=dt.UTC)]],
    }
    yield from beside(kind, None, mixed)


def _maps() -> Iterator[Value]:
    kind, counts = "Maps", Types.MAP(Types.STRING(), Types.LONG())
    values = {
        "a map": {"a": 1, "b": 2},
        "an empty map": {},
        "None in a map": {"a": None},
        "an empty key": {"": 1},
        "None as key": {None: 1},
        "a fraction in a map": {"a": 1.5},
        "keys twice": [("a", 1), ("a", 2)],
        "other order": {"b": 2, "a": 1},
    }
    yield from one(kind, counts, values)
    yield from one(
        kind,
        Types.MAP(Types.INT(), Types.STRING()),
        {"ints as keys": {1: "x"}, "int and text as keys": {1: "x", "1": "y"}},
    )
    yield from one(kind, Types.LIST(counts), {"maps in lists": [{"a": 1}, {}]})
    yield from one(kind, Types.MAP(Types.STRING(), counts), {"maps in maps": {"a": {"b": 1}}})


def _rows() -> Iterator[Value]:
    kind, point = "Rows", Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    values = {
        "a row": Row(a=1, b="x"),
        "a dict": {"a": 1, "b": "x"},
        "a tuple as row": (1, "x"),
        "a field is None": Row(a=None, b="x"),
        "a field is missing": {"a": 1},
        "a field too many": {"a": 1, "b": "x", "c": 2},
        "another order": {"b": "x", "a": 1},
        "the delimiter in a row": Row(a=1, b="x;y,z"),
        "a fraction in a row": {"a": 1.5, "b": "x"},
        "no row": None,
    }
    yield from one(kind, point, values)
    yield from one(kind, Types.ROW_NAMED(["inner"], [point]), {"rows in rows": Row(inner=Row(a=1, b="x"))})
    yield from one(kind, Types.LIST(point), {"rows in lists": [Row(a=1, b="x"), None]})
    strict = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    yield from one(
        kind, None, {"None in a field without": {"a": None}, "no struct with such a field": None}, arrow=strict
    )
    yield Value(kind, "a record without the field", ({},), Types.LONG())
    yield Value(kind, "a record with one more", ({FIELD: 1, "extra": 2},), Types.LONG())
    yield Value(kind, "more fields later", ({FIELD: 1}, {FIELD: 2, "extra": 3}))
    yield from beside(kind, None, {"dicts of other fields": [{"a": 1}, {"b": 2}]})


def _beside() -> Iterator[Value]:
    kind = "Beside each other"
    pairs = {
        "int beside float": [1, 1.5],
        "2**53 + 1 beside a float": [2**53 + 1, 1.5],
        "int beside Decimal": [1, D("1.1")],
        "float beside Decimal": [1.5, D("1.1")],
        "Decimals of two scales": [D("1.5"), D("1.123456789")],
        "bool beside int": [True, 5],
        "text beside bytes": ["a", b"b"],
        "int beside text": [1, "b"],
        "None first": [None, 1],
        "only None": [None, None],
        "list beside None beside list": [[1], None, []],
        "int beside int above 63 bits": [1, 2**63],
        "negative beside 64 bits": [-1, 2**63],
        "rows beside other rows": [Row(a=1), Row(a="x")],
    }
    yield from beside(kind, None, pairs)
    union = {"avro": [{"type": "long", "logicalType": "timestamp-micros"}, "string", "null"]}
    yield from beside(kind, None, {"a union of a moment and text": [MOMENT.replace(tzinfo=dt.UTC), "x", None]}, **union)
    parts = [{"type": "record", "name": n, "fields": [{"name": n, "type": "long"}]} for n in ("left", "right")]
    yield from beside(kind, None, {"a union of records": [{"left": 1}, {"right": 2}]}, avro=parts)


def _objects() -> Iterator[Value]:
    kind = "Objects"
    yield from one(kind, Types.STRING(), {"a member of an Enum": Colour.RED, "a string of NumPy": np.str_("x")})
    numbers = {
        "a member of an IntEnum": Level.HIGH,
        "an int64 of NumPy": np.int64(5),
        "a uint64 of NumPy": np.uint64(2**64 - 1),
    }
    yield from one(kind, Types.LONG(), numbers)
    yield from one(kind, Types.DOUBLE(), {"a float64 of NumPy": np.float64(0.1), "a float32 of NumPy": np.float32(0.1)})
    yield from one(kind, Types.BOOLEAN(), {"a bool of NumPy": np.bool_(True)})
    yield from one(kind, Types.SQL_TIMESTAMP(), {"a datetime64": np.datetime64("2026-01-02T03:04:05.678901")})
    yield from one(
        kind,
        None,
        {"a datetime64 of nanoseconds": np.datetime64("2026-01-02T03:04:05.678901234")},
        arrow=pa.timestamp("ns"),
    )
    yield from one(kind, None, {"1.5 in a dictionary of ints": 1.5}, arrow=pa.dictionary(pa.int32(), pa.int32()))
    yield from one(kind, None, {"a text in a dictionary": "a"}, arrow=pa.dictionary(pa.int32(), pa.string()))
    yield from one(
        kind, None, {"microseconds in a dictionary of ms": MOMENT}, arrow=pa.dictionary(pa.int32(), pa.timestamp("ms"))
    )
    yield from one(
        kind, None, {"an enumeration of Avro": "RED"}, avro={"type": "enum", "name": "c", "symbols": ["RED"]}
    )
    yield from one(
        kind, None, {"no symbol of the enumeration": "BLUE"}, avro={"type": "enum", "name": "c", "symbols": ["RED"]}
    )
    yield from one(kind, None, {"an object": object(), "a complex number": 1j})


def _all() -> Iterator[Value]:
    """Yield all values, those of one kind beside each other."""
    from tests.values import classes

    own = (_whole_numbers, _fractions, _decimals, _truth, _texts, _bytes, _dates, _moments, _durations, _lists, _maps)
    more = (classes.own_classes, classes.of_numpy, classes.numbers, classes.times, classes.nested, classes.of_avro)
    found = [value for part in (*own, _rows, _beside, _objects, *more) for value in part()]
    kinds = list(dict.fromkeys(value.kind for value in found))
    yield from sorted(found, key=lambda value: kinds.index(value.kind))


VALUES: tuple[Value, ...] = tuple(_all())

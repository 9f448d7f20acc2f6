from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections import namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from tests.kit.cells import cells

import penstock
from penstock._engine.protocol.key_groups import (
    default_max_parallelism,
    key_group,
    key_group_range,
    key_groups,
    subtask_of_key_group,
)
from penstock._engine.protocol.keys import encode_key, encode_normal, normal_key
from penstock.common.types import Row, RowKind
from penstock.errors import KeyEncodingError


class Level(IntEnum):
    LOW = 1


class Colour(StrEnum):
    RED = "red"


class Shape(Enum):
    CIRCLE = "circle"
    ROUND = "circle"  # noqa: PIE796 - an alias
    SQUARE = 1


class Access(Flag):
    READ = 1
    WRITE = 2


class Name(str):
    __slots__ = ()


class Loud(bytes):
    def __bytes__(self) -> bytes:
        return b"loud"


class Backwards(tuple[Any, ...]):
    __slots__ = ()

    def __iter__(self) -> Any:
        return reversed(list(super().__iter__()))


Pair = namedtuple("Pair", ["left", "right"])


@dataclass(frozen=True)
class User:
    name: str
    age: int
    seen: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Member:
    name: str
    age: int


CET = timezone(timedelta(hours=1))
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    "keys",
    [
        (1, True, 1.0, Decimal(1), Decimal("1.00"), Fraction(1), 1 + 0j, Level.LOW),
        (0, False, 0.0, -0.0, Decimal("-0"), Decimal("0E+20000")),
        (0.5, Decimal("0.5"), Fraction(1, 2), 0.5 + 0j),
        (10**40, Decimal(10**40), Fraction(10**40)),
        (1e300, int(1e300), Fraction(1e300)),
        (0.1, Decimal(0.1), Fraction(0.1)),  # noqa: RUF032 - exactly the float
        (Fraction(1, 3), Fraction(2, 6)),
        (float("inf"), Decimal("Infinity")),
        (float("nan"), -float("nan"), Decimal("NaN")),
        ("red", Colour.RED, Name("red")),
        ((1, "a"), (True, "a"), Pair(1, "a"), Row(1, "a"), Row.of_kind(RowKind.DELETE, 1, "a")),
        (Row(a=1, b="a"), Row(b="a", a=1), Row("b", "a")("a", True), Row.of_kind(RowKind.DELETE, a=1, b="a")),
        ((Row(a=1, b=Row(c=2)), 1), (Row(b=Row(c=2.0), a=1), 1)),
        (np.int64(1), np.float32(1), 1 + 0j, Level.LOW, 1),
        (np.str_("red"), "red"),
        (Loud(b"a"), b"a"),
        (Backwards((1, 2)), (1, 2)),
        ((1, (2, (None,))), (1.0, Pair(2, Row(None)))),
        (frozenset({1, "a", None}), frozenset({None, True, "a"})),
        (Shape.CIRCLE, Shape.ROUND),
        (Access.READ | Access.WRITE, Access.WRITE | Access.READ),
        (User("ada", 36), User("ada", 36, seen=7), User("ada", 36.0)),  # type: ignore[arg-type]
        (datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 13, tzinfo=CET)),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)),
        (time(12, tzinfo=UTC), time(13, tzinfo=CET)),
        (timedelta(days=1), timedelta(hours=24)),
    ],
    ids=lambda keys: "frozenset" if isinstance(keys[0], frozenset) else repr(keys[0])[:30],
)
def test_equal_keys_have_equal_bytes(keys: tuple[Any, ...]) -> None:
    assert len({encode_key(key) for key in keys}) == 1
    assert len({normal_key(key) for key in keys}) == 1
    assert {type(normal_key(key)) for key in keys} == {type(normal_key(keys[0]))}


DIFFERENT: list[Any] = [
    *(None, 0, 1, -1, 2**63, -(2**63) - 1, 1.5, 10**30, 1 + 1j, Decimal("0.1"), 0.1, float("nan")),
    *("", "1", "a", "\ud800", b"", b"1", b"a", b"i" + bytes(7) + b"\x01"),
    *(
        (),
        (1,),
        ((1,),),
        (1, 2),
        (2, 1),
        ("ab", "c"),
        ("a", "bc"),
        ("abc",),
        (None,),
        ("",),
        ("x" * 300,),
        ("x" * 301,),
    ),
    *(frozenset(), frozenset({1}), frozenset({(1,)}), frozenset({1, 2})),
    *(Shape.CIRCLE, Shape.SQUARE, Access.READ, Access.WRITE, Access(0), RowKind.INSERT),
    *(Row(a=1), Row(b=1), Row(a=2), Row(a=1, b=1), Row(a=1, b=(1, "a")), Row(a=Row(b=1)), Row(a=(1,)), (Row(a=1),)),
    *(frozenset({Row(a=1)}), frozenset({Row(b=1)}), frozenset({Row(a=1), Row(b=1)}), b"\xfa", b"\xfa\x02", -6),
    *(User("ada", 36), User("ada", 37), Member("ada", 36)),
    *(date(2026, 1, 1), datetime.min, datetime(2026, 1, 1, tzinfo=UTC), datetime.min.replace(tzinfo=UTC), time(0)),  # noqa: DTZ901 - naive on purpose
    *(time(0, tzinfo=UTC), timedelta(0), timedelta(days=999_999_999), UUID(int=0), UUID(int=1)),
]


def test_different_keys_have_different_bytes_and_normal_keys() -> None:
    assert len({encode_key(key) for key in DIFFERENT}) == len(DIFFERENT)
    assert len({(type(normal), normal) for normal in map(normal_key, DIFFERENT)}) == len(DIFFERENT)
    assert len({normal_key(key) for key in DIFFERENT}) == len(DIFFERENT)


@cells("key", DIFFERENT)
def test_normal_key_has_the_encoding_of_its_key(key: Any) -> None:
    assert encode_normal(normal_key(key)) == encode_key(key)


def test_str_and_int_stand_for_themselves_and_lookalikes_become_exact() -> None:
    text, number = "user-7", 2**70
    assert normal_key(text) is text
    assert normal_key(number) is number
    assert [type(normal_key(key)) for key in (True, 2.0, Level.LOW, Name("a"), Colour.RED)] == [int, int, int, str, str]


@pytest.mark.parametrize(
    ("key", "path", "type_name"),
    [
        ([1], "key", "list"),
        ({"a": 1}, "key", "dict"),
        ({1}, "key", "set"),
        (object(), "key", "object"),
        (bytearray(b"a"), "key", "bytearray"),
        ((1, ("a", [2])), "key[1][1]", "list"),
        (Row(1, {}), "key[1]", "dict"),
        (User("ada", []), "key.age", "list"),  # type: ignore[arg-type]
        (frozenset({("a", object())}), "key{...}[1]", "object"),
        (Decimal("1E+20000"), "key", "decimal.Decimal"),
        (lambda: 0, "key", "function"),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", repr(value)),
)
def test_key_without_encoding_names_the_part_at_fault(key: Any, path: str, type_name: str) -> None:
    with pytest.raises(KeyEncodingError) as caught:
        encode_key(key)
    assert (caught.value.path, caught.value.type_name) == (path, type_name)
    with pytest.raises(KeyEncodingError):
        normal_key(key)


def test_numpy_scalars_are_the_numbers_and_strings_they_equal() -> None:
    import numpy as np

    ones = [np.int8(1), np.int64(1), np.uint64(1), np.bool_(True), np.float32(1), np.float64(1), np.complex64(1)]
    assert {encode_key(one) for one in ones} == {encode_key(1)}
    assert encode_key(np.str_("a")) == encode_key("a")
    assert encode_key(np.bytes_(b"a")) == encode_key(b"a")
    for unfit in (np.datetime64("2026-01-01"), np.array([1])):
        with pytest.raises(KeyEncodingError):
            encode_key(unfit)


def test_pandas_values_that_fit_no_datetime_are_refused() -> None:
    import pandas as pd

    assert encode_key(pd.Timestamp("2026-01-01T12:00:00")) == encode_key(datetime.fromisoformat("2026-01-01T12:00:00"))
    with warnings.catch_warnings():  # pandas 2 does what NumPy 2.5 advises against
        warnings.simplefilter("ignore", DeprecationWarning)
        hour, nanosecond = pd.Timedelta(hours=1), pd.Timedelta(1)
    assert encode_key(hour) == encode_key(timedelta(hours=1))
    for unfit in (pd.NaT, pd.Timestamp(1), nanosecond, pd.NA):
        with pytest.raises(KeyEncodingError):
            encode_key(unfit)


#: What checkpoints hold: these bytes may never change.
STORED = {
    "None": b"n",
    "7": b"i\0\0\0\0\0\0\0\x07",
    "-1": b"i" + b"\xff" * 8,
    "2**63": b"I\0\x80" + bytes(7),
    "'ä'": b"s\xc3\xa4",
    "b'ab'": b"bab",
    "1.5": b"f\x3f\xf8" + bytes(6),
    "(1, 'a')": b"t\x09i" + bytes(7) + b"\x01\x02sa",
    "('x' * 300,)": b"t\xff\0\0\x01\x2ds" + b"x" * 300,
    "Fraction(1, 3)": b"q\x09i" + bytes(7) + b"\x01\x09i" + bytes(7) + b"\x03",
    "frozenset({'b', 'a'})": b"z\x02sa\x02sb",
    "date(1, 1, 2)": b"D" + bytes(7) + b"\x02",
    "datetime.min + timedelta(microseconds=5)": b"m" + bytes(7) + b"\x05",
    "timedelta(0, 0, 5)": b"li" + bytes(7) + b"\x05",
    "UUID(int=1)": b"u" + bytes(15) + b"\x01",
    "Row(b=1, a=None)": b"\xfa\x0dt\x01n\x09i" + bytes(7) + b"\x01\x07t\x02sa\x02sb",
    "RowKind.INSERT": b"e\x1dpenstock.common.types.RowKindsINSERT",
}


@cells("source", list(STORED))
def test_encodings_never_change(source: str) -> None:
    assert encode_key(eval(source)) == STORED[source]


def test_key_groups_never_change() -> None:
    keys = [0, 1, -1, 2**63, "a", "user-7", "ä", "\ud800", (1, "a"), None]
    assert [key_group(normal_key(key), 32_768) for key in keys] == GROUPS


GROUPS = [24425, 24567, 24348, 16838, 15939, 25377, 29059, 11348, 20760, 9170]


@pytest.mark.parametrize("last", [-1, (1 << 63) - 1, 1 << 63, -(1 << 63) - 1, "7", True], ids=repr)
def test_many_keys_have_the_groups_of_each(last: Any) -> None:
    keys = [*range(-500, 500), -(1 << 63), last]
    assert key_groups(keys, 128) == [key_group(normal_key(key), 128) for key in keys]


def test_every_process_makes_the_same_bytes_whatever_its_hash_seed() -> None:
    program = (
        "from penstock._engine.protocol.key_groups import *; from penstock._engine.protocol.keys import *;"
        "keys = [frozenset({'b', 'a', 1, None, ('x', frozenset({'y', 'z'}))}), 'a', (1, 'b')];"
        "print([(encode_key(key), key_group(normal_key(key), 128)) for key in keys])"
    )
    source = str(Path(penstock.__file__).parents[1])
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1


def test_classes_of_the_main_script_are_keys_by_their_name() -> None:
    script = {"__name__": "__main__"}
    source = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Point:\n    x: int\n"
    first, second = dict(script), dict(script)
    exec(source, first)
    exec(source, second)
    assert first["Point"] is not second["Point"]
    assert encode_key(first["Point"](1)) == encode_key(second["Point"](1))  # type: ignore[operator]


# --------------------------------------------------------------------------------- assignment, as Flink's tests have it


@pytest.mark.parametrize(
    ("parallelism", "max_parallelism"), [(1, 128), (2, 128), (3, 128), (7, 128), (128, 128), (5, 7)]
)
def test_key_group_ranges_cover_all_groups_and_agree_with_the_assignment(
    parallelism: int, max_parallelism: int
) -> None:
    ranges = [key_group_range(subtask, parallelism, max_parallelism) for subtask in range(parallelism)]
    assert [group for groups in ranges for group in groups] == list(range(max_parallelism))
    for subtask, groups in enumerate(ranges):
        assert {subtask_of_key_group(group, parallelism, max_parallelism) for group in groups} == {subtask}


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (170, 256), (171, 256), (200, 512), (20_000, 32_768), (32_768, 32_768)],
)
def test_default_max_parallelism_is_flinks(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


@pytest.mark.parametrize("stride", [1, 2, 3, 8, 64, 100, 128, 1000, 1024, 1597, 3_600_000, 86_400_000, 1 << 32])
def test_int_keys_in_any_stride_spread_over_the_groups(stride: int) -> None:
    groups = [key_group(number * stride, 128) for number in range(12_800)]
    counts = [groups.count(group) for group in range(128)]
    assert min(counts) > 50
    assert max(counts) < 150

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.common.record_text import record_text
from penstock.common.time import Instant
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row, RowKind

PAIR = Types.ROW([Types.INT(), Types.STRING()])


@pytest.mark.parametrize("type_info", [None, Types.PICKLED_BYTE_ARRAY()])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, "a"), "(1, 'a')"),
        (None, "None"),
        (True, "True"),
        (Row(a=1, b="z"), "Row(a=1, b='z')"),
        (Row(1, None), "<Row(1, None)>"),
        ("as is", "as is"),
        (b"raw", "b'raw'"),
        (0.5, "0.5"),
    ],
)
def test_untyped_records_print_as_python_does(value: Any, text: str, type_info: TypeInformation | None) -> None:
    assert record_text(value, type_info) == text


@pytest.mark.parametrize(
    ("type_info", "value", "text"),
    [
        (Types.ROW([Types.INT(), Types.STRING(), Types.STRING()]), Row(1, "a", None), "+I[1,a,None]"),
        (Types.ROW([Types.BOOLEAN(), Types.DOUBLE()]), Row(True, 0.5), "+I[True,0.5]"),
        (PAIR, Row.of_kind(RowKind.UPDATE_BEFORE, 1, "a"), "-U[1,a]"),
        (Types.ROW([PAIR]), Row(Row(f0=1, f1="a")), "+I[Row(f0=1, f1='a')]"),
    ],
)
def test_typed_rows_print_their_kind_and_pythons_text_of_the_fields(
    type_info: TypeInformation, value: Any, text: str
) -> None:
    assert record_text(value, type_info) == text


@pytest.mark.parametrize(
    ("type_info", "value", "text"),
    [
        (Types.TUPLE([Types.INT(), Types.STRING()]), (1, "a"), "(1,a)"),
        (Types.TUPLE([Types.INT(), Types.STRING()]), (1, None), "(1,null)"),
        (Types.TUPLE([PAIR, Types.BOOLEAN()]), (Row(1, "a"), False), "(+I[1, a],false)"),
        (Types.DOUBLE(), 0.5, "0.5"),
        (Types.BOOLEAN(), True, "true"),
        (Types.LONG(), 7, "7"),
        (Types.STRING(), "as is", "as is"),
        (Types.LIST(Types.STRING()), ["p", "q"], "[p, q]"),
        (Types.LIST(Types.DOUBLE()), [1.0, None], "[1.0, null]"),
        (Types.MAP(Types.STRING(), Types.INT()), {"p": 1}, "{p=1}"),
        (Types.MAP(Types.STRING(), Types.LIST(Types.BOOLEAN())), {"p": [True], "q": []}, "{p=[true], q=[]}"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x01\xff", "[1, -1]"),
        (Types.BASIC_ARRAY(Types.STRING()), ["a"], "[a]"),
        (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
        (Types.SQL_DATE(), datetime.date(2013, 1, 1), "2013-01-01"),
        (Types.SQL_TIME(), datetime.time(5, 17), "05:17:00"),
        (Types.SQL_TIMESTAMP(), datetime.datetime.fromisoformat("2013-01-01T05:17"), "2013-01-01 05:17:00.0"),
        (Types.SQL_TIMESTAMP(), datetime.datetime.fromisoformat("0001-01-01T05:17"), "0001-01-01 05:17:00.0"),
        (
            Types.SQL_TIMESTAMP(),
            datetime.datetime.fromisoformat("2013-01-01T05:17:00.1205"),
            "2013-01-01 05:17:00.1205",
        ),
        (Types.INSTANT(), Instant.of_epoch_milli(1500), "1970-01-01T00:00:01.500Z"),
        (Types.INSTANT(), Instant.of_epoch_milli(-1000), "1969-12-31T23:59:59Z"),
        (Types.INSTANT(), Instant(0, 1), "1970-01-01T00:00:00.000000001Z"),
    ],
)
def test_other_typed_records_print_as_java_does(type_info: TypeInformation, value: Any, text: str) -> None:
    assert record_text(value, type_info) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (123456.789, "123456.789"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.012, "0.012"),
        (0.00099, "9.9E-4"),
        (-1.5e-10, "-1.5E-10"),
        (1e300, "1.0E300"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_print_as_java_prints_them(value: float, text: str) -> None:
    assert record_text(value, Types.DOUBLE()) == text


@pytest.mark.parametrize(("value", "text"), [(0.10000000149011612, "0.1"), (16777216.0, "1.6777216E7"), (0.5, "0.5")])
def test_floats_print_the_fewest_digits_that_32_bits_need(value: float, text: str) -> None:
    assert record_text(value, Types.FLOAT()) == text

"""What becomes of values in JSON: the same value, an error that names the field, or what the documents say."""

# ruff: noqa: DTZ001 - times without a zone, as SQL has them

from __future__ import annotations

import datetime
import enum
import json
import pickle
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.cells import cells
from tests.unit.common import typed_values
from tests.unit.common.typed_values import ODD, SINGLE, same

from penstock.common import Row, Types
from penstock.common._codecs.json_codec import JsonCodec
from penstock.errors import MessageFormatError

if TYPE_CHECKING:
    from penstock.common.typeinfo import RowTypeInfo, TypeInformation


@given(st.data())
def test_values_of_any_type_come_back_as_they_were(data: st.DataObject) -> None:
    type_info = data.draw(typed_values.types())
    rows = data.draw(st.lists(typed_values.values(type_info), max_size=3))
    codec = pickle.loads(pickle.dumps(JsonCodec(type_info)))
    messages = codec.encode_block(rows)
    assert messages == [codec.encode(row) for row in rows]
    assert all(json.loads(message) is not None and b"\n" not in message for message in messages)
    assert same(codec.decode_block(messages), rows)
    slow = [codec._slowly(message) for message in messages]
    assert same(slow, rows), "both ways of reading give one value"


#: What is written in blocks where the rows match it.
PLAIN = (
    *(Types.STRING(), Types.BOOLEAN(), Types.SHORT(), Types.LONG(), Types.BIG_INT(), Types.DOUBLE()),
    *(Types.LIST(Types.STRING()), Types.OBJECT_ARRAY(Types.BOOLEAN()), Types.PRIMITIVE_ARRAY(Types.INT())),
)


@given(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=4), st.booleans(), st.data())
def test_a_block_of_plain_rows_is_written_as_each_of_them(
    kinds: list[TypeInformation], is_spoilt: bool, data: st.DataObject
) -> None:
    type_info = Types.ROW_NAMED([f"field {place}" for place in range(len(kinds))], kinds)
    rows = data.draw(st.lists(typed_values.values(type_info), min_size=1, max_size=4))
    if is_spoilt:
        odd = st.sampled_from([None, "null", "\ud800", float("nan"), 1 << 80, "text", 1, [None], (1,), object()])
        rows.append(Row(**{name: data.draw(odd) for name in type_info.get_field_names()}))
        rows.append(data.draw(st.sampled_from([rows[0], None, tuple(rows[0]), dict(zip(kinds, kinds, strict=True))])))
    codec = JsonCodec(type_info)
    try:
        expected = [codec.encode(row) for row in rows]
    except MessageFormatError:
        with pytest.raises(MessageFormatError):
            codec.encode_block(rows)
    else:
        assert codec.encode_block(rows) == expected


def a_field(kind: TypeInformation) -> JsonCodec:
    return JsonCodec(Types.ROW_NAMED(["a"], [kind]))


@cells("kind", list(SINGLE))
def test_a_value_of_another_kind_is_the_same_value_or_refused_by_the_name_of_its_field(kind: TypeInformation) -> None:
    """One exception for each: a float of 32 bits is rounded, a time with a zone is in UTC."""
    codec = a_field(kind)
    for value in ODD:
        try:
            found = codec.decode(codec.encode(Row(a=value))).a
        except MessageFormatError as error:
            found = error
        if isinstance(found, MessageFormatError):
            assert "in its field a, " in found.reason
        elif kind == Types.FLOAT() and isinstance(value, float):
            assert found == value or np.float32(value) == found or value != value  # noqa: PLR0124
        elif kind == Types.SQL_TIMESTAMP() and value is not None and value.tzinfo is not None:
            assert found.replace(tzinfo=datetime.UTC) == value
        elif kind == Types.SQL_TIME() and value is not None:
            assert found == value.replace(tzinfo=None)
        else:
            assert found == value or (value != value and found != found)  # noqa: PLR0124
            assert isinstance(found, bool) == isinstance(value, bool)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(JSON)
def test_any_json_is_what_pythons_reader_makes_of_it(value: Any) -> None:
    """Texts with half of a surrogate pair as well, which msgspec does not read."""
    message = json.dumps(value).encode()
    assert same(JsonCodec().decode_block([message]), [json.loads(message)])
    assert same(JsonCodec(exact=True).decode(message), json.loads(message))


@given(typed_values.types(), JSON)
def test_any_json_is_read_alike_in_both_ways_or_refused(type_info: RowTypeInfo, value: Any) -> None:
    names = type_info.get_field_names()
    codec = JsonCodec(type_info)
    for given_value in (value, dict.fromkeys(names, value)):
        message = json.dumps(given_value).encode()
        try:
            quick = codec._make(codec._parse(message))  # type: ignore[misc]
        except Exception:  # noqa: BLE001 - the slow way decides
            continue
        assert same(quick, codec.decode(message))
        assert same(quick, codec._slowly(message))


def at(hours: int) -> datetime.timezone:
    return datetime.timezone(datetime.timedelta(hours=hours))


@cells(
    "kind, text, expected",
    [
        (Types.INT(), "1.0", 1),
        (Types.INT(), "1e2", 100),
        (Types.INT(), '"5"', 5),
        (Types.LONG(), "9007199254740993.0", 2**53 + 1),
        (Types.BIG_INT(), "9" * 40, int("9" * 40)),
        (Types.BIG_DEC(), "1e400", Decimal("1e400")),
        (Types.BIG_DEC(), "0.1234567890123456789012", Decimal("0.1234567890123456789012")),
        (Types.DOUBLE(), '"1.5"', 1.5),
        (Types.DOUBLE(), "9007199254740993", 2.0**53),
        (Types.DOUBLE(), '"-Infinity"', float("-inf")),
        (Types.FLOAT(), "0.1", float(np.float32(0.1))),
        (Types.STRING(), "1.50", "1.50"),
        (Types.STRING(), "true", "true"),
        (Types.STRING(), '{"x": [1.50, null]}', '{"x":[1.50,null]}'),
        (Types.STRING(), '"\\ud800"', "\ud800"),
        (Types.STRING(), '"a\\u0000b"', "a\0b"),
        (Types.BOOLEAN(), '"TRUE"', True),
        (Types.SQL_TIMESTAMP(), '"2026-01-01T00:00:00.123456000Z"', datetime.datetime(2026, 1, 1, 0, 0, 0, 123456)),
        (Types.SQL_TIMESTAMP(), '"2026-01-01T00:00:00+05:00"', datetime.datetime(2025, 12, 31, 19)),
        (Types.SQL_TIMESTAMP(), '"2026-01-01 00:00:00"', datetime.datetime(2026, 1, 1)),
        (Types.SQL_TIME(), '"01:02:03Z"', datetime.time(1, 2, 3)),
        (Types.PICKLED_BYTE_ARRAY(), '{"x": [1.5, "\\ud800"]}', {"x": [1.5, "\ud800"]}),
        (Types.ROW([Types.INT(), Types.INT()]), "[1]", Row(f0=1, f1=None)),  # a tuple of a JSON schema
        (Types.MAP(Types.STRING(), Types.INT()), '{"x": 1, "x": 2}', {"x": 2}),
    ],
)
def test_other_forms_are_read_as_flink_reads_them(kind: TypeInformation, text: str, expected: Any) -> None:
    for types in ([kind], [kind, Types.BIG_DEC()]):  # decimals make numbers exact
        found = JsonCodec(Types.ROW_NAMED(["a", "b"][: len(types)], types)).decode(b'{"a": %b}' % text.encode())
        assert same(found.a, expected)


@cells(
    "kind, text",
    [
        (Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.INT()]), "[1]"),
        (Types.INT(), "1.5"),
        (Types.INT(), "true"),
        (Types.INT(), '"1_0"'),
        (Types.INT(), "3000000000"),
        (Types.BYTE(), "128"),
        (Types.SHORT(), "-32769"),
        (Types.BIG_INT(), "1e999999999"),
        (Types.BIG_DEC(), '"NaN"'),
        (Types.BIG_DEC(), '"1_0"'),
        (Types.DOUBLE(), "1e400"),
        (Types.DOUBLE(), "true"),
        (Types.FLOAT(), "1e39"),
        (Types.BOOLEAN(), "1"),
        (Types.SQL_TIMESTAMP(), '"2026-01-01T00:00:00.123456789Z"'),
        (Types.SQL_TIMESTAMP(), '"0001-01-01T00:00:00+05:00"'),
        (Types.SQL_TIMESTAMP(), '"+10000-01-01T00:00:00Z"'),
        (Types.SQL_TIMESTAMP(), '"2026-01-01"'),
        (Types.SQL_TIMESTAMP(), "1700000000"),
        (Types.SQL_DATE(), '"2026-01-01T05:00:00"'),
        (Types.SQL_DATE(), '"20260101"'),
        (Types.SQL_TIME(), '"01:02:03+05:00"'),
        (Types.SQL_TIME(), '"01:02:03.0000001"'),
        (Types.INSTANT(), '"2026-01-01T00:00:00"'),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), '"!!"'),
        (Types.PRIMITIVE_ARRAY(Types.INT()), "[null]"),
        (Types.LIST(Types.INT()), "5"),
        (Types.ROW_NAMED(["x"], [Types.INT()]), "[1, 2]"),
        (Types.MAP(Types.INT(), Types.INT()), '{"x": 1}'),
    ],
)
def test_what_would_be_another_value_is_refused_with_its_field(kind: TypeInformation, text: str) -> None:
    message = b'{"a": %b}' % text.encode()
    with pytest.raises(MessageFormatError) as caught:
        a_field(kind).decode(message)
    assert caught.value.reason.startswith("in its field a")
    lenient = JsonCodec(Types.ROW_NAMED(["a"], [kind]), ignore_parse_errors=True).decode(message)
    assert lenient.a in (None, [None], {})


@cells("message", [b"", b"{", b'{"a":1}x', b'{"a":1}{"a":2}', b"NaN", b'"\xff"', b'"\xed\xa0\x80"', b"[" * 100_000])
def test_what_is_no_json_is_refused(message: bytes) -> None:
    for codec in (JsonCodec(), a_field(Types.INT())):
        for read in (codec.decode, lambda one, codec=codec: codec.decode_block([one])):
            with pytest.raises(MessageFormatError):
                read(message)


class Color(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: float
    y: Any = None


DAY = datetime.datetime(2026, 1, 2, 3, 4, 5, 6)


@cells(
    "value, text",
    [
        (float("nan"), '"NaN"'),
        ({"a": [float("-inf")], 1: None}, '{"a":["-Infinity"],"1":null}'),
        (Decimal("1.50"), "1.5"),
        (2**70, str(2**70)),
        (DAY, '"2026-01-02T03:04:05.000006"'),
        (DAY.replace(tzinfo=at(5)), '"2026-01-02T03:04:05.000006+05:00"'),
        (DAY.date(), '"2026-01-02"'),
        (datetime.timedelta(days=31), '"P31D"'),
        (b"\x00", '"AA=="'),
        (UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
        (Color.RED, '"red"'),
        (Point(float("inf"), Row(1, 2)), '{"x":"Infinity","y":[1,2]}'),
        (Row(a=Row(b=1)), '{"a":{"b":1}}'),
        ((1, {2}), "[1,[2]]"),
        (np.array([[1.5, 2.0]]), "[[1.5,2.0]]"),
        ({"a": np.int64(7), "b": np.bool_(True), "c": np.str_("x")}, '{"a":7,"b":true,"c":"x"}'),
        ({Color.RED: 1}, None),
        ({None: 1}, None),
        ({1: 2, "1": 3}, None),
        ({"a": {"b": [object()]}}, None),
        ({"a": "\ud800"}, None),
        ({"a": Decimal("NaN")}, None),
        ({"a": pd.Timestamp("2026-01-01T00:00:00.000000001")}, None),
        ({"a": pd.NaT}, None),
        ({"a": np.datetime64("2026-01-01")}, None),
        (DAY.replace(tzinfo=ZoneInfo("Europe/Berlin")), '"2026-01-02T03:04:05.000006+01:00"'),
        (DAY.replace(year=1800, tzinfo=ZoneInfo("Europe/Berlin")), None),
        (DAY.replace(tzinfo=datetime.timezone(datetime.timedelta(seconds=30))), None),
        (datetime.time(1, tzinfo=at(5)), '"01:00:00+05:00"'),
        (datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(seconds=-1))), None),
        (datetime.time(1, tzinfo=ZoneInfo("Europe/Berlin")), None),
    ],
)
def test_values_without_a_type_become_json_as_the_documents_say(value: Any, text: str | None) -> None:
    if text is None:
        with pytest.raises(MessageFormatError):
            JsonCodec().encode(value)
    else:
        assert JsonCodec().encode(value).decode() == text
        assert JsonCodec().encode_block([value, [value], {"a": value}, 1]) == [
            *(text.encode(), b"[%b]" % text.encode(), b'{"a":%b}' % text.encode(), b"1")
        ]
        assert (
            JsonCodec(Types.ROW_NAMED(["a"], [Types.PICKLED_BYTE_ARRAY()])).encode((value,)).decode()
            == f'{{"a":{text}}}'
        )


@cells(
    "value",
    [
        *(
            {"a": [None, True, "ü", 1.5, -0.0, 2**70, Decimal("0.1234567890123456789"), Decimal("1E+400")]},
            [],
            {},
            None,
        ),
        *(
            [float("nan")],
            {1: 2},
            DAY,
            b"x",
            {"a": Row(b=1)},
            {1},
            Color.RED,
            {"a": Decimal("NaN")},
            object(),
        ),
    ],
)
def test_an_exact_codec_gives_back_what_it_takes_and_refuses_all_else(value: Any) -> None:
    codec = JsonCodec(exact=True)
    try:
        found = codec.decode(codec.encode(value))
    except MessageFormatError:
        assert value not in ([], {}, None)
    else:
        assert same(found, value)


def test_an_integer_that_python_does_not_show_is_refused() -> None:
    for codec in (JsonCodec(), JsonCodec(exact=True), a_field(Types.BIG_INT())):
        with pytest.raises(MessageFormatError):
            codec.encode({"a": 10**5000})


def test_an_exact_codec_refuses_a_name_that_an_object_has_twice() -> None:
    assert JsonCodec(exact=True).decode(b"[0.1, 0.10000000000000000001]") == [0.1, Decimal("0.10000000000000000001")]
    with pytest.raises(MessageFormatError, match="a name twice"):
        JsonCodec(exact=True).decode(b'[{"a": 1, "a": 2}]')


def test_an_error_names_the_field_within_a_value() -> None:
    kind = Types.LIST(Types.MAP(Types.STRING(), Types.ROW_NAMED(["x"], [Types.BYTE()])))
    for codec, value in ((a_field(kind), Row(a=[{"k": Row(x=300)}])), (JsonCodec(), {"a": [{"k": {"x": 1j}}]})):
        with pytest.raises(MessageFormatError) as caught:
            codec.encode(value)
        assert caught.value.reason.split(",")[0] in ("in its field a[0]['k'].x", "in its field a[0].k.x")
    with pytest.raises(MessageFormatError, match=r"in its field a\[0\]\['k'\].x, 300 is not between -128 and 127"):
        a_field(kind).decode(b'{"a": [{"k": {"x": 300}}]}')


def test_floats_of_32_bits_have_as_few_digits_as_they_need() -> None:
    codec = a_field(Types.FLOAT())
    assert codec.encode(Row(a=float(np.float32(0.1)))) == b'{"a":0.1}'
    assert codec.encode(Row(a=np.float32(16777216))) == b'{"a":16777216.0}'
    with pytest.raises(MessageFormatError, match="more digits"):
        codec.encode(Row(a=16777217))


@pytest.mark.parametrize("kind", [Types.STRING(), Types.CHAR(), Types.LONG(), Types.LIST(Types.STRING())])
def test_null_alone_is_no_value_of_a_type(kind: TypeInformation) -> None:
    with pytest.raises(MessageFormatError, match="None"):
        JsonCodec(kind).decode_block([b"null"])

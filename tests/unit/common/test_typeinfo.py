from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import pytest
from tests.kit.cells import cells

from penstock.common.time import Instant
from penstock.common.typeinfo import LocalTimeTypeInfo, Types
from penstock.common.typeinfo import TypeInformation as TypeInfo
from penstock.common.types import Row, RowKind
from penstock.errors import UnsupportedOperationError

TEXTS: list[tuple[TypeInfo, str]] = [
    (Types.STRING(), "String"),
    (Types.BYTE(), "Byte"),
    (Types.BOOLEAN(), "Boolean"),
    (Types.SHORT(), "Short"),
    (Types.INT(), "Integer"),
    (Types.LONG(), "Long"),
    (Types.FLOAT(), "Float"),
    (Types.DOUBLE(), "Double"),
    (Types.CHAR(), "Char"),
    (Types.BIG_INT(), "BigInteger"),
    (Types.BIG_DEC(), "BigDecimal"),
    (Types.INSTANT(), "Instant"),
    (Types.SQL_DATE(), "DateTypeInfo"),
    (Types.SQL_TIME(), "TimeTypeInfo"),
    (Types.SQL_TIMESTAMP(), "TimestampTypeInfo"),
    (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo"),
    (Types.ROW([Types.INT(), Types.STRING()]), "RowTypeInfo(Integer, String)"),
    (Types.ROW_NAMED(["a"], [Types.LONG()]), "RowTypeInfo(a: Long)"),
    (Types.TUPLE([Types.INT(), Types.STRING()]), "TupleTypeInfo(Integer, String)"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), "PrimitiveArrayTypeInfo<Integer>"),
    (Types.BASIC_ARRAY(Types.STRING()), "BasicArrayTypeInfo<String>"),
    (Types.OBJECT_ARRAY(Types.ROW([Types.INT()])), "ObjectArrayTypeInfo<RowTypeInfo(Integer)>"),
    (Types.LIST(Types.INT()), "ListTypeInfo<Integer>"),
    (Types.MAP(Types.STRING(), Types.INT()), "MapTypeInfo<String, Integer>"),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), "LocalTimeTypeInfo<LOCAL_DATE>"),
]


@cells("type_info, text", TEXTS)
def test_types_print_as_in_pyflink(type_info: TypeInfo, text: str) -> None:
    assert repr(type_info) == str(type_info) == text


@cells("type_info, text", TEXTS)
def test_types_survive_pickling_under_their_public_module(type_info: TypeInfo, text: str) -> None:
    pickled = pickle.dumps(type_info)
    assert b"_typeinfo" not in pickled
    assert pickle.loads(pickled) == type_info
    assert repr(pickle.loads(pickled)) == text


def test_types_are_equal_and_hash_equal_exactly_when_their_parts_are() -> None:
    again = [pickle.loads(pickle.dumps(type_info)) for type_info, _ in TEXTS]
    for left, (right, _) in zip(again, TEXTS, strict=True):
        assert hash(left) == hash(right)
        assert [left == other for other, _ in TEXTS].count(True) == 1


def test_row_types_are_equal_whatever_their_names() -> None:
    assert Types.ROW([Types.INT()]) == Types.ROW_NAMED(["a"], [Types.INT()])


def test_row_types_know_their_fields() -> None:
    named = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    assert named.get_field_names() == ["a", "b"]
    assert named.get_field_types() == [Types.INT(), Types.STRING()]
    assert named.get_field_index("b") == 1
    with pytest.raises(ValueError, match="c"):
        named.get_field_index("c")
    nameless = Types.ROW([Types.INT(), Types.STRING()])
    assert nameless.get_field_names() == ["f0", "f1"]
    assert nameless.get_field_index("f0") == -1
    assert repr(nameless) == "RowTypeInfo(Integer, String)"


@pytest.mark.parametrize(
    "value",
    [
        Row(1, "x"),
        Row(b="x", a=1),
        {"b": "x", "a": 1},
        (1, "x"),
        [1, "x"],
        type("Record", (), {"__init__": lambda self: vars(self).update(a=1, b="x")})(),
    ],
)
def test_row_types_take_rows_dicts_sequences_and_objects(value: Any) -> None:
    type_info = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    internal = type_info.to_internal_type(value)
    assert internal == (0, 1, "x")
    assert type_info.from_internal_type(internal) == Row(a=1, b="x")


def test_row_kind_goes_through_the_internal_form() -> None:
    type_info = Types.ROW([Types.SQL_DATE()])
    row = Row.of_kind(RowKind.DELETE, datetime.date(1970, 1, 3))
    assert type_info.to_internal_type(row) == (3, 2)
    back = type_info.from_internal_type((3, 2))
    assert back.get_row_kind() is RowKind.DELETE
    assert back.f0 == datetime.date(1970, 1, 3)


@pytest.mark.parametrize("value", [7, "text", Row(x=1, y=2), (1,), (1, 2, 3)])
def test_row_types_refuse_other_shapes(value: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]).to_internal_type(value)


def test_tuple_types_take_sequences_and_rows_only() -> None:
    type_info = Types.TUPLE([Types.INT(), Types.SQL_DATE()])
    day = datetime.date(1970, 1, 2)
    for value in ((1, day), [1, day], Row(1, day)):
        assert type_info.to_internal_type(value) == (1, 1)
    assert type_info.from_internal_type((1, 1)) == (1, day)
    for wrong in ({"a": 1}, 5, (1,)):
        with pytest.raises(ValueError, match=r".+"):
            type_info.to_internal_type(wrong)


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.SQL_DATE(), datetime.date(2013, 1, 1)),
        (Types.SQL_TIME(), datetime.time(23, 59, 59, 999_999)),
        (Types.SQL_TIMESTAMP(), datetime.datetime.fromisoformat("1969-12-31T23:59:59.000001")),
        (
            Types.SQL_TIMESTAMP(),
            datetime.datetime.fromisoformat("2024-03-31T02:30"),
        ),  # does not exist on Central European clocks
        (Types.INSTANT(), Instant.of_epoch_milli(-1)),
        (Types.STRING(), "x"),
        (Types.BIG_DEC(), Decimal("1.50")),
        (Types.ROW([Types.ROW([Types.SQL_DATE()])]), Row(f0=Row(f0=datetime.date(2000, 2, 29)))),
    ],
)
def test_values_come_back_from_their_internal_form(type_info: TypeInfo, value: Any) -> None:
    assert type_info.from_internal_type(type_info.to_internal_type(value)) == value


@cells("type_info", [type_info for type_info, _ in TEXTS])
def test_none_has_no_internal_form(type_info: TypeInfo) -> None:
    assert type_info.to_internal_type(None) is None
    assert type_info.from_internal_type(None) is None


def test_timestamps_with_a_zone_come_back_in_utc() -> None:
    noon = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    type_info = Types.SQL_TIMESTAMP()
    back = type_info.from_internal_type(type_info.to_internal_type(noon))
    assert back == datetime.datetime.fromisoformat("2024-01-01T11:00")


def test_time_with_a_zone_counts_from_midnight_utc() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    assert Types.SQL_TIME().to_internal_type(datetime.time(3, tzinfo=zone)) == 3_600_000_000


def test_only_types_with_an_internal_form_need_conversion() -> None:
    assert Types.ROW([Types.INT()]).need_conversion()
    assert Types.SQL_TIME().need_conversion()
    assert not Types.LIST(Types.SQL_DATE()).need_conversion()
    assert not Types.STRING().need_conversion()


def test_a_type_method_that_was_not_called_is_explained() -> None:
    with pytest.raises(TypeError, match=r"Types\.INT\(\), not Types\.INT"):
        Types.ROW([Types.INT])  # pyright: ignore[reportArgumentType]


def test_row_types_need_one_name_per_field() -> None:
    with pytest.raises(ValueError, match="2 field types, but 1 names"):
        Types.ROW_NAMED(["a"], [Types.INT(), Types.INT()])
    with pytest.raises(ValueError, match="two fields of one name"):
        Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()])


def test_arrays_hold_what_java_arrays_hold() -> None:
    with pytest.raises(TypeError, match="OBJECT_ARRAY"):
        Types.PRIMITIVE_ARRAY(Types.STRING())
    with pytest.raises(TypeError, match="OBJECT_ARRAY"):
        Types.BASIC_ARRAY(Types.ROW([Types.INT()]))


def test_the_java_type_is_refused_with_the_reason() -> None:
    with pytest.raises(UnsupportedOperationError, match="JVM"):
        Types.INT().get_java_type_info()

"""Rows as messages: what JSON, CSV and Avro schemas write and read, and what they refuse."""

from __future__ import annotations

import datetime
import json
import pickle
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Row, Types
from penstock.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema, AvroSchema
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.errors import MessageFormatError, UnsupportedOperationError

if TYPE_CHECKING:
    from penstock.common.typeinfo import RowTypeInfo, TypeInformation

ALL = Types.ROW_NAMED(
    ["text", "truth", "number", "ratio", "exact", "day", "time", "moment", "raw", "list", "map", "inner"],
    [
        *(Types.STRING(), Types.BOOLEAN(), Types.LONG(), Types.DOUBLE(), Types.BIG_DEC(), Types.SQL_DATE()),
        *(Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.LIST(Types.INT())),
        *(Types.MAP(Types.STRING(), Types.INT()), Types.ROW_NAMED(["a"], [Types.STRING()])),
    ],
)
MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)  # noqa: DTZ001 - as SQL has them
VALUES = Row(
    *("für", True, 2**40, 0.5, Decimal(7), datetime.date(2026, 1, 2), datetime.time(3, 4, 5)),
    *(MOMENT, b"\x00\xff", [1, 2], {"k": 3}, Row("b")),
)


def json_both(row_type: TypeInformation) -> tuple[JsonRowSerializationSchema, JsonRowDeserializationSchema]:
    return (
        JsonRowSerializationSchema.builder().with_type_info(row_type).build(),
        JsonRowDeserializationSchema.builder().type_info(row_type).build(),
    )


def test_json_holds_all_types_and_gives_them_back() -> None:
    write, read = (pickle.loads(pickle.dumps(schema)) for schema in json_both(ALL))
    message = write.serialize(VALUES)
    assert json.loads(message)["moment"] == "2026-01-02T03:04:05.678Z"
    assert json.loads(message)["raw"] == "AP8="
    found = read.deserialize(message)
    assert list(found) == [*list(VALUES)[:-1], Row(a="b")]
    assert read.get_produced_type() == ALL


def test_json_of_none_and_of_rows_with_names_and_dicts() -> None:
    write, read = json_both(Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]))
    assert write.serialize(Row(a=None, b="x")) == b'{"a":null,"b":"x"}'
    assert write.serialize({"b": "x", "a": 1}) == b'{"a":1,"b":"x"}'
    assert read.deserialize(b'{"b": 5}') == Row(a=None, b="5")
    assert read.deserialize(b'{"a": "7", "b": true, "c": 1}') == Row(a=7, b="true")


@pytest.mark.parametrize("message", [b"{", b"[1]", b"null", b'{"a": "seven"}', b'{"a": 4294967296}', b"7", b"\xff"])
def test_json_that_does_not_fit_is_an_error_unless_errors_are_ignored(message: bytes) -> None:
    builder = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["a"], [Types.INT()]))
    with pytest.raises(MessageFormatError, match="as JSON"):
        builder.build().deserialize(message)
    assert builder.ignore_parse_errors().build().deserialize(message) in (None, Row(a=None))


def test_an_array_is_a_row_where_fields_have_no_names() -> None:
    inner = Types.ROW([Types.INT(), Types.STRING()])
    read = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["inner"], [inner])).build()
    assert read.deserialize(b'{"inner": [1, "x"]}') == Row(inner=Row(f0=1, f1="x"))
    with pytest.raises(MessageFormatError, match=r"inner.* is no object"):
        json_both(Types.ROW_NAMED(["inner"], [BOTH]))[1].deserialize(b'{"inner": ["x"]}')


def test_json_field_that_is_missing_is_an_error_where_it_is_asked_for() -> None:
    builder = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["a"], [Types.INT()]))
    assert builder.build().deserialize(b"{}") == Row(a=None)
    with pytest.raises(MessageFormatError, match="no field 'a'"):
        builder.fail_on_missing_field().build().deserialize(b"{}")
    with pytest.raises(ValueError, match="both enabled"):
        builder.ignore_parse_errors().build()
    with pytest.raises(TypeError, match="should be set"):
        JsonRowDeserializationSchema.builder().build()


def test_json_schema_gives_the_type() -> None:
    schema = {
        "definitions": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": ["number", "null"]},
            "day": {"type": "string", "format": "date"},
            "at": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
            "raw": {"type": "string", "contentEncoding": "base64"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "home": {"$ref": "#/definitions/place"},
        },
    }
    read = JsonRowDeserializationSchema.builder().json_schema(json.dumps(schema)).build()
    place = Types.ROW_NAMED(["city"], [Types.STRING()])
    types = [
        *(Types.BIG_INT(), Types.BIG_DEC(), Types.SQL_DATE(), Types.SQL_TIMESTAMP()),
        *(Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.OBJECT_ARRAY(Types.STRING()), place),
    ]
    assert read.get_produced_type() == Types.ROW_NAMED(list(schema["properties"]), types)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="refers to"):
        JsonRowDeserializationSchema.builder().json_schema('{"$ref": "#/x"}')


def csv_both(row_type: TypeInformation) -> tuple[CsvRowSerializationSchema, CsvRowDeserializationSchema]:
    return CsvRowSerializationSchema.Builder(row_type).build(), CsvRowDeserializationSchema.Builder(row_type).build()


PAIR = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("x", b"7,x\n"),
        ("", b"7,\n"),
        ("a b", b'7,"a b"\n'),
        ('say "x"', b'7,"say ""x"""\n'),
        ("x" * 25, b'7,"xxxxxxxxxxxxxxxxxxxxxxxxx"\n'),
        ("a\nb", b'7,"a\nb"\n'),
    ],
)
def test_csv_quotes_as_flinks_library_does(value: str, line: bytes) -> None:
    write, read = (pickle.loads(pickle.dumps(schema)) for schema in csv_both(PAIR))
    assert write.serialize(Row(7, value)) == line
    assert read.deserialize(line) == Row(a=7, b=value)


def test_csv_has_the_signs_that_are_set() -> None:
    types = Types.ROW_NAMED(["a", "b", "c"], [Types.STRING(), Types.LIST(Types.INT()), Types.BOOLEAN()])
    write = CsvRowSerializationSchema.Builder(types).set_field_delimiter("|").set_quote_character("'")
    write = write.set_array_element_delimiter(":").set_null_literal("n/a").set_line_delimiter("").build()
    read = CsvRowDeserializationSchema.Builder(types).set_field_delimiter("|").set_quote_character("'")
    read = read.set_array_element_delimiter(":").set_null_literal("n/a").set_allow_comments(True).build()
    assert write.serialize(Row("it's | x", [1, 2], None)) == b"'it''s | x'|'1:2'|n/a"
    assert read.deserialize(b"'it''s | x'|1:2|n/a") == Row(a="it's | x", b=[1, 2], c=None)
    assert read.deserialize(b"# no row") is None


def test_csv_that_does_not_fit_is_an_error_unless_errors_are_ignored() -> None:
    builder = CsvRowDeserializationSchema.Builder(PAIR)
    for line in (b"x,y", b"7", b"7,a,b", b'7,"a'):
        with pytest.raises(MessageFormatError, match="as CSV"):
            builder.build().deserialize(line)
    lenient = builder.set_ignore_parse_errors(True).build()
    assert [lenient.deserialize(line) for line in (b"x,y", b"7", b"7,a,b")] == [
        Row(a=None, b="y"),
        Row(a=7, b=None),
        None,
    ]
    with pytest.raises(MessageFormatError, match="3 fields"):
        csv_both(PAIR)[0].serialize(Row(1, 2, 3))


@given(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    )
)
def test_rows_come_back_out_of_json_and_csv(values: tuple[int, str]) -> None:
    for write, read in (json_both(PAIR), csv_both(PAIR)):
        assert tuple(read.deserialize(write.serialize(Row(*values)))) == values


BOTH = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.STRING()])


@pytest.mark.parametrize("pair", [json_both, csv_both])
@pytest.mark.parametrize(
    "row", [Row(b="y", a="x"), {"b": "y", "a": "x"}, Row("x", "y"), ("x", "y"), Row(f0="x", f1="y")]
)
def test_rows_are_read_by_the_names_of_the_type_or_by_position(pair: Any, row: Any) -> None:
    """Two fields of one type would change places silently."""
    write, read = pair(BOTH)
    assert read.deserialize(write.serialize(row)) == Row(a="x", b="y")
    write, read = pair(Types.ROW_NAMED(["inner"], [BOTH]))
    assert read.deserialize(write.serialize(Row(row))) == Row(inner=Row(a="x", b="y"))


def avro_both(row_type: RowTypeInfo) -> tuple[AvroRowSerializationSchema, AvroRowDeserializationSchema]:
    fields = [{"name": name, "type": "string"} for name in row_type.get_field_names()]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    return AvroRowSerializationSchema(None, text), AvroRowDeserializationSchema(None, text)


@pytest.mark.parametrize("pair", [json_both, csv_both, avro_both])
@pytest.mark.parametrize(
    "row",
    [
        *("xy", b"xy", bytearray(b"xy"), memoryview(b"xy"), 7, {"x", "y"}, iter("xy"), {"x": 1, "y": 2}.keys()),
        *({"a": "x", "c": "y"}, Row(a="x"), Row(c="x", d="y"), Row("x", "y", "z"), Row("x", "\ud800")),
    ],
)
def test_what_is_no_row_of_the_type_is_refused(pair: Any, row: Any) -> None:
    with pytest.raises(MessageFormatError):
        pair(BOTH)[0].serialize(row)


@pytest.mark.parametrize("pair", [json_both, csv_both])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.INT(), "x"),
        (Types.INT(), 1.5),
        (Types.INT(), 2**31),
        (Types.INT(), "1_000"),
        (Types.DOUBLE(), "x"),
        (Types.BOOLEAN(), "x"),
        (Types.BIG_DEC(), Decimal("NaN")),
        (Types.BIG_DEC(), "x"),
        (Types.LIST(Types.STRING()), "xy"),
        (Types.LIST(Types.INT()), ["x"]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), 3),
        (Types.SQL_DATE(), "2026-01-01"),
        (Types.SQL_TIME(), datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))),
        (Types.SQL_TIMESTAMP(), datetime.date(2026, 1, 1)),
    ],
)
def test_what_is_no_value_of_its_type_is_refused(pair: Any, kind: TypeInformation, value: Any) -> None:
    with pytest.raises(MessageFormatError):
        pair(Types.ROW_NAMED(["a"], [kind]))[0].serialize(Row(a=value))


IN_BERLIN = datetime.timezone(datetime.timedelta(hours=1))


@pytest.mark.parametrize("pair", [json_both, csv_both])
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Types.BIG_DEC(), Decimal("1.10000000000000000000000000001"), None),
        (Types.BIG_DEC(), Decimal("-1E+400"), None),
        (Types.BIG_DEC(), Decimal(10**30), None),
        (Types.BIG_INT(), -(2**100), None),
        (Types.DOUBLE(), float("inf"), None),
        (Types.DOUBLE(), -1e300, None),
        (Types.STRING(), "x" * 200_000, None),
        (Types.SQL_TIMESTAMP(), MOMENT.replace(tzinfo=IN_BERLIN), MOMENT - datetime.timedelta(hours=1)),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"\x01\x02"), b"\x01\x02"),
    ],
)
def test_values_come_back_with_all_their_digits(pair: Any, kind: TypeInformation, value: Any, expected: Any) -> None:
    write, read = pair(Types.ROW_NAMED(["a"], [kind]))
    assert read.deserialize(write.serialize(Row(a=value))).a == (value if expected is None else expected)


def test_json_is_json_where_numbers_are_not_finite() -> None:
    """Python reads NaN without quotes, and other programs do not."""
    write, read = json_both(Types.ROW_NAMED(["a", "any"], [Types.DOUBLE(), Types.PICKLED_BYTE_ARRAY()]))
    message = write.serialize(Row(a=float("nan"), any={"x": [float("-inf")], "row": Row(y=1)}))
    assert message == b'{"a":"NaN","any":{"x":["-Infinity"],"row":{"y":1}}}'
    assert str(read.deserialize(message).a) == "nan"
    with pytest.raises(MessageFormatError, match="as JSON"):
        read.deserialize(b'{"a": NaN}')


def test_json_has_keys_of_maps_as_text_and_gives_them_back_as_they_were() -> None:
    write, read = json_both(Types.ROW_NAMED(["a"], [Types.MAP(Types.INT(), Types.BIG_DEC())]))
    row = Row(a={1: Decimal("0.30"), -2: None})
    assert write.serialize(row) == b'{"a":{"1":0.3,"-2":null}}'
    assert read.deserialize(write.serialize(row)) == row


KEYS = [(Types.INT(), ["1", "01", "1.0"]), (Types.BOOLEAN(), ["true", "TRUE"]), (Types.BIG_DEC(), ["1.5", "15e-1"])]


@pytest.mark.parametrize(("kind", "texts"), KEYS)
def test_two_keys_of_json_that_are_one_key_of_the_type_are_refused(kind: TypeInformation, texts: list[str]) -> None:
    _, read = json_both(Types.ROW_NAMED(["m"], [Types.MAP(kind, Types.STRING())]))
    for text in texts:
        assert len(read.deserialize(json.dumps({"m": {text: "x"}}).encode())["m"]) == 1
    with pytest.raises(MessageFormatError, match="is there twice"):
        read.deserialize(json.dumps({"m": dict.fromkeys(texts, "x")}).encode())


@pytest.mark.parametrize("separator", ["aa", "aba", ";;"])
def test_elements_in_csv_come_back_one_by_one_or_are_refused_whatever_stands_between_them(separator: str) -> None:
    row_type = Types.ROW_NAMED(["l"], [Types.LIST(Types.STRING())])
    write = CsvRowSerializationSchema.Builder(row_type).set_array_element_delimiter(separator).build()
    read = CsvRowDeserializationSchema.Builder(row_type).set_array_element_delimiter(separator).build()
    texts = ["x", "a", "ab", "ba", ";", "", *separator]
    refused = 0
    for values in map(list, product(texts, repeat=3)):
        try:
            assert read.deserialize(write.serialize(Row(values))) == Row(l=values)
        except MessageFormatError:
            refused += 1
    assert 0 < refused < len(texts) ** 3


@pytest.mark.parametrize(
    "message", [b"[" * 100_000, b'{"a": "0001-01-01T00:00:00+05:00"}', b'{"a": ' + b"9" * 5_000 + b"}"]
)
def test_json_that_python_cannot_hold_is_an_error_like_any_other(message: bytes) -> None:
    builder = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["a"], [Types.SQL_TIMESTAMP()]))
    with pytest.raises(MessageFormatError, match="as JSON"):
        builder.build().deserialize(message)
    assert builder.ignore_parse_errors().build().deserialize(message) in (None, Row(a=None))


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "place", "type": {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}},
        {"name": "other", "type": ["null", "Place"]},
    ],
}
ORDER = (7, None, MOMENT, datetime.date(2026, 1, 2), ["x"], "B")


def test_avro_holds_rows_and_gives_them_back() -> None:
    text = json.dumps(AVRO)
    write: Any = pickle.loads(pickle.dumps(AvroRowSerializationSchema(avro_schema_string=text)))
    read: Any = pickle.loads(pickle.dumps(AvroRowDeserializationSchema(avro_schema_string=text)))
    expected = [*ORDER, Row(city="Bern"), Row(city="Genf")]
    names = [str(field["name"]) for field in AVRO["fields"]]  # type: ignore[index]
    for row in (Row(*ORDER, Row(city="Bern"), Row(city="Genf")), Row(**dict(zip(names, expected, strict=True)))):
        found = read.deserialize(write.serialize(row))
        assert list(found) == expected
        assert found.note is None
    assert str(read.get_produced_type()).startswith("RowTypeInfo(id: Long, note: String")


def test_avro_takes_the_names_of_a_type_without_names_for_positions_where_the_schema_has_others() -> None:
    for fields, expected in ((("id", "name"), [1, 2]), (("f1", "f0"), [2, 1])):
        schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": "int"} for name in fields]}
        text = json.dumps(schema)
        message = AvroRowSerializationSchema(avro_schema_string=text).serialize(Row(f0=1, f1=2))
        assert list(AvroRowDeserializationSchema(avro_schema_string=text).deserialize(message)) == expected


def avro_of(kind: Any) -> Any:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]})


INNER = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}]}


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 1.5),
        ("int", 2**31),
        ("long", -(2**63) - 1),
        ("int", "1"),
        ("float", 1e300),
        ("double", "1"),
        ("boolean", "false"),
        ("string", 5),
        ("bytes", 5),
        ({"type": "array", "items": "string"}, "xyz"),
        ({"type": "array", "items": "int"}, [1.5]),
        ({"type": "map", "values": "int"}, {"a": 1.5}),
        (INNER, (1, 2, 3)),
        (INNER, {"x": 1, "y": 2, "z": 3}),
        (INNER, "xy"),
    ],
)
def test_avro_writes_no_value_that_is_not_of_its_type(kind: Any, value: Any, optional: bool) -> None:
    write = AvroRowSerializationSchema(avro_schema_string=avro_of(["null", kind] if optional else kind))
    with pytest.raises(MessageFormatError, match="as Avro"):
        write.serialize(Row(a=value))


@pytest.mark.parametrize("value", [Row(y=2, x=1), Row(1, 2), (1, 2), [1, 2], {"y": 2, "x": 1}, Row(f0=1, f1=2)])
def test_avro_takes_rows_within_rows_as_it_takes_rows(value: Any) -> None:
    text = avro_of({"type": "array", "items": INNER})
    message = AvroRowSerializationSchema(avro_schema_string=text).serialize(Row([value, value]))
    assert AvroRowDeserializationSchema(avro_schema_string=text).deserialize(message) == Row(a=[Row(x=1, y=2)] * 2)


def test_avro_that_does_not_fit_is_an_error() -> None:
    text = json.dumps(AVRO)
    with pytest.raises(MessageFormatError, match="as Avro"):
        AvroRowDeserializationSchema(avro_schema_string=text).deserialize(b"\x02")
    with pytest.raises(MessageFormatError, match="as Avro"):
        AvroRowSerializationSchema(avro_schema_string=text).serialize(Row(1, 2))
    with pytest.raises(UnsupportedOperationError, match="avro_schema_string"):
        AvroRowSerializationSchema("org.example.Order")
    with pytest.raises(ValueError, match="no Avro schema"):
        AvroSchema.parse_string('{"type": "nothing"}')

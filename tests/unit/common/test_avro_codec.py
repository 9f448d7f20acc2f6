"""What becomes of values in Avro: the same value, an error that names the field, or what the documents say."""

# ruff: noqa: DTZ001 - times without a zone, as SQL has them

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from itertools import combinations, count, product
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.cells import cells
from tests.unit.common.typed_values import ODD, TEXT, same, whole

from penstock.common import Row, Types
from penstock.common._codecs.avro_codec import AvroCodec
from penstock.common._codecs.avro_reading import readers_schema, type_of
from penstock.common._codecs.avro_resolution import mismatch
from penstock.common._codecs.avro_schema import AvroSchema
from penstock.errors import MessageFormatError


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def in_millis(value: Any) -> Any:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


SINGLE: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", whole(32)),
    ("long", whole(64)),
    ("float", st.floats(width=32)),
    ("double", st.floats()),
    ("string", TEXT),
    ("bytes", st.binary(max_size=5)),
    (logical("int", "date"), st.dates()),
    (logical("int", "time-millis"), st.times().map(in_millis)),
    (logical("long", "time-micros"), st.times()),
    (logical("long", "timestamp-millis"), st.datetimes().map(in_millis)),
    (logical("long", "timestamp-micros"), st.datetimes()),
    (logical("long", "local-timestamp-millis"), st.datetimes().map(in_millis)),
    (logical("long", "local-timestamp-micros"), st.datetimes()),
    (logical("bytes", "decimal", precision=12, scale=3), st.decimals(-(10**8), 10**8, places=3)),
    (logical("string", "uuid"), st.uuids()),
    (logical("long", "timestamp-nanos"), whole(64)),  # not known here, so it is a long
]
NUMBERS = count()


@st.composite
def parts(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:  # noqa: PLR0911 - one for each kind
    """Draw a part of a schema and its values."""
    kind = draw(
        st.sampled_from(["single"] * 3 + (["array", "map", "record", "union", "enum", "fixed"] if depth else []))
    )
    name = f"N{next(NUMBERS)}"
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B"]}, st.sampled_from("AB")
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": 3}, st.binary(min_size=3, max_size=3)
    if kind == "single":
        return draw(st.sampled_from(SINGLE))
    if kind == "record":
        inner = draw(st.lists(parts(depth - 1), max_size=3))
        fields = [{"name": f"f{at}", "type": part} for at, (part, _) in enumerate(inner)]
        values = st.fixed_dictionaries({f"f{at}": value for at, (_, value) in enumerate(inner)})
        return {"type": "record", "name": name, "fields": fields}, values
    inner, values = draw(parts(depth - 1))
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    if kind == "map" or isinstance(inner, list):
        return {"type": "map", "values": inner}, st.dictionaries(TEXT, values, max_size=3)
    return draw(st.permutations(["null", inner])), st.none() | values


@given(st.data())
def test_values_of_any_schema_come_back_as_they_were(data: st.DataObject) -> None:
    definition, values = data.draw(parts())
    record = {"type": "record", "name": "Whole", "fields": [{"name": "a", "type": definition}]}
    schema, value = AvroSchema(record), data.draw(values)
    codec = AvroCodec(schema)
    [message] = codec.encode_block([{"a": value}])
    assert same(codec.decode_block([message]), [{"a": value}])
    rows = AvroCodec(schema, rows=True)
    [row] = rows.decode_block([codec.encode((value,))])
    assert isinstance(row, Row)
    assert rows.encode(row) == message


#: Unions of which each value fits one branch, by its kind and its range.
UNION = [
    *("null", "boolean", "int", "long", "float", "double", "string", "bytes"),
    {"type": "array", "items": logical("int", "date")},
    {"type": "map", "values": logical("long", "timestamp-micros")},
    {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]},
    {"type": "record", "name": "B", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "int"]}]},
    {"type": "fixed", "name": "D", "size": 4, **logical("fixed", "decimal", precision=9, scale=2)},
]
IN_UNION = st.one_of(
    *(st.none(), st.booleans(), whole(64), st.floats(), TEXT, st.binary(max_size=3)),
    *(st.lists(st.dates(), max_size=2), st.dictionaries(TEXT, st.datetimes(), max_size=2)),
    st.fixed_dictionaries({"x": whole(32)}),
    st.fixed_dictionaries({"x": whole(32), "y": st.none() | whole(32)}),
    st.decimals(-1000, 1000, places=2),
)


@given(st.permutations(UNION), IN_UNION)
def test_a_union_holds_each_value_as_it_is_whatever_the_order_of_its_branches(union: list[Any], value: Any) -> None:
    codec = AvroCodec(AvroSchema({"type": "record", "name": "Whole", "fields": [{"name": "a", "type": union}]}))
    assert same(codec.decode(codec.encode({"a": value})), {"a": value})


def a_field(kind: Any, *, rows: bool = False) -> AvroCodec:
    return AvroCodec(AvroSchema({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}), rows=rows)


def came_back(kind: Any, value: Any) -> bool:  # noqa: PLR0911 - one for each kind
    """Tell whether a value came back; an error that names the field is fine as well."""
    codec = a_field(kind)
    try:
        found = codec.decode(codec.encode({"a": value}))["a"]
    except MessageFormatError as error:
        return error.reason.startswith("in its field a")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return bool(found.replace(tzinfo=datetime.UTC) == value)
    if isinstance(value, datetime.time) and value.tzinfo is not None:
        return bool(found == value.replace(tzinfo=None) and value.tzinfo is datetime.UTC)
    if isinstance(value, float) and "float" in kind:
        return bool(found == np.float32(value)) or value != value  # noqa: PLR0124
    if isinstance(value, tuple):
        return bool(found == list(value))
    if isinstance(value, Row):
        return list(found.values()) == list(value)
    is_equal = found == value or (value != value and found != found)  # noqa: PLR0124
    return bool(is_equal) and isinstance(found, bool) == isinstance(value, bool)


@cells(
    "kind",
    [
        *(one for one, _ in SINGLE),
        *("null", ["null", "long"], ["int", "string"], ["float", "string"], ["long", "double", "bytes"]),
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
        ["null", {"type": "record", "name": "I", "fields": [{"name": "a", "type": "int"}]}],
        ["string", logical("long", "timestamp-micros"), logical("int", "date")],
        {"type": "fixed", "name": "F", "size": 2, **logical("fixed", "decimal", precision=4, scale=2)},
    ],
)
def test_a_value_of_another_kind_is_the_same_value_or_refused_by_the_name_of_its_field(kind: Any) -> None:
    assert [value for value in ODD if not came_back(kind, value)] == []


NOW = datetime.datetime(2026, 1, 1, 12, 0, 0, 123456)
FIVE = datetime.timezone(datetime.timedelta(hours=5))


@cells(
    "kind, value, place",
    [
        (logical("long", "timestamp-millis"), NOW, "a"),
        (["null", logical("long", "timestamp-millis")], NOW, "a"),
        (["null", "string", {"type": "array", "items": logical("long", "timestamp-millis")}], [NOW], "a[0]"),
        (logical("long", "local-timestamp-micros"), NOW.replace(tzinfo=FIVE), "a"),
        (logical("int", "date"), NOW, "a"),
        (logical("int", "date"), 5, "a"),
        (logical("long", "timestamp-micros"), pd.Timestamp("2026-01-01T00:00:00.000000001"), "a"),
        (logical("long", "timestamp-micros"), pd.NaT, "a"),
        (logical("bytes", "decimal", precision=5, scale=2), Decimal("1.005"), "a"),
        (logical("bytes", "decimal", precision=5, scale=2), Decimal("1000"), "a"),
        ("double", 2**53 + 1, "a"),
        ("float", 16777217, "a"),
        ("double", True, "a"),
        ("bytes", [1, 2], "a"),
        ("bytes", np.array([1, 2]), "a"),
        ("string", "\ud800", "a"),
        (logical("string", "uuid"), "nonsense", "a"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "a"),
        (["null", {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}], {"x": 1, "y": 2}, "a"),
        (["null", "string", {"type": "map", "values": "int"}], {"k": 1.5}, "a['k']"),
        ({"type": "map", "values": "int"}, {1: 1}, "a key 1"),
        ({"type": "array", "items": "int"}, {1}, "a"),
    ],
)
def test_what_would_be_cut_is_refused_with_its_field(kind: Any, value: Any, place: str) -> None:
    with pytest.raises(MessageFormatError) as caught:
        a_field(kind).encode({"a": value})
    assert caught.value.reason.startswith(f"in its field {place}, ")


def test_a_missing_field_has_its_default_and_may_else_only_be_null() -> None:
    fields = [
        {"name": "a", "type": "bytes", "default": "\u00ff"},
        {"name": "b", "type": ["string", "null"], "default": "x"},
        {"name": "c", "type": ["null", "int"]},
        {"name": "d", "type": logical("long", "timestamp-micros"), "default": 5},
        {"name": "e", "type": {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int", "default": 1}]}},
    ]
    fields[4]["default"] = {}
    codec = AvroCodec(AvroSchema({"type": "record", "name": "R", "fields": fields}))
    expected = {"a": b"\xff", "b": "x", "c": None, "d": datetime.datetime(1970, 1, 1, 0, 0, 0, 5), "e": {"x": 1}}
    assert codec.decode(codec.encode({})) == expected
    with pytest.raises(MessageFormatError, match="no field 'a', for which the schema has no default"):
        a_field("int").encode({})


def test_a_field_that_the_schema_does_not_have_is_refused_whichever_others_are_missing() -> None:
    """Its value would be lost; the record may have as many fields as the schema, or fewer."""
    fields = [{"name": name, "type": ["null", "long"], "default": None} for name in "abc"]
    codec = AvroCodec(AvroSchema({"type": "record", "name": "R", "fields": fields}))
    for size in range(4):
        for names in combinations("abc", size):
            record = dict.fromkeys(names, 1)
            assert codec.decode(codec.encode(record)) == dict.fromkeys("abc") | record
            for more in (record | {"x": 2}, Row(**record, x=2), {"x": 2} | record):
                with pytest.raises(MessageFormatError, match="field 'x'"):
                    codec.encode(more)


def test_a_field_that_a_file_does_not_have_is_read_as_the_default_of_the_schema_anew_for_each_record() -> None:
    kinds: dict[str, tuple[Any, Any, Any]] = {
        "a": ("bytes", "\u00ff", b"\xff"),
        "b": (logical("long", "timestamp-micros"), 5, datetime.datetime(1970, 1, 1, 0, 0, 0, 5)),
        "c": ({"type": "array", "items": logical("int", "date")}, [1], [datetime.date(1970, 1, 2)]),
        "d": ([logical("bytes", "decimal", precision=4, scale=2), "null"], "\u0001\u0000", Decimal("2.56")),
        "e": ({"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}, {"x": 1}, {"x": 1}),
        "f": (logical("int", "time-millis"), 1, datetime.time(0, 0, 0, 1000)),
        "g": (logical("string", "uuid"), str(UUID(int=1)), UUID(int=1)),
        "h": ("string", "x", "x"),
        "i": ("double", 0, 0.0),
        "j": ({"type": "array", "items": "float"}, [1], [1.0]),
    }
    fields = [{"name": name, "type": kind, "default": raw} for name, (kind, raw, _) in kinds.items()]
    wanted = AvroSchema({"type": "record", "name": "R", "fields": fields})
    written: Any = AvroSchema({"type": "record", "name": "R", "fields": []}).parsed
    read: Any = fastavro.schemaless_reader
    ours: Any = AvroCodec(wanted).ours
    one, other = (ours(read(io.BytesIO(b""), written, readers_schema(wanted))) for _ in range(2))
    assert same(one, other)
    assert same(one, {name: value for name, (_, _, value) in kinds.items()})
    assert one["c"] is not other["c"]
    assert one["e"] is not other["e"]
    codec = AvroCodec(wanted)
    assert same(codec.decode(codec.encode({})), one), "what is written for a missing field is the same"


INNER = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "bytes"}]}


def test_a_value_that_is_equal_to_a_default_in_the_schema_stays_what_it_is() -> None:
    kinds: list[tuple[Any, Any]] = [
        (["bytes", "string"], "x"),
        ([logical("int", "date"), "long"], 0),
        ([INNER, {"type": "map", "values": "string"}], {"x": "y"}),
        ({"type": "array", "items": ["bytes", "string"]}, ["x"]),
        ({"type": "map", "values": [logical("int", "date"), "long"]}, {"k": 0}),
    ]
    read: Any = fastavro.schemaless_reader
    for kind, value in kinds:
        schema = AvroSchema({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind, "default": value}]})
        codec = AvroCodec(schema)
        message = codec.encode({"a": value})
        assert same(codec.decode(message), {"a": value}), kind
        ours: Any = codec.ours
        assert same(ours(read(io.BytesIO(message), schema.parsed, readers_schema(schema))), {"a": value}), kind


def test_records_may_be_within_themselves_and_in_unions() -> None:
    tree = {"type": "record", "name": "T", "namespace": "n", "fields": [{"name": "at", "type": SINGLE[11][0]}]}
    tree["fields"] += [{"name": "left", "type": ["null", "T"]}, {"name": "any", "type": ["null", "string", "n.T"]}]  # type: ignore[operator]
    leaf = {"at": NOW, "left": None, "any": "x"}
    value = {"at": NOW, "left": leaf, "any": leaf}
    codec = AvroCodec(AvroSchema(tree))
    assert codec.decode(codec.encode(value)) == value
    rows = AvroCodec(AvroSchema(tree), rows=True)
    found = rows.decode(rows.encode(value))
    assert found == Row(at=NOW, left=Row(at=NOW, left=None, any="x"), any=leaf)
    assert str(type_of(AvroSchema(tree))).startswith("RowTypeInfo(at: TimestampTypeInfo, left: Pickled")


def test_uuids_are_python_objects_and_other_logical_types_are_what_they_are_based_on() -> None:
    assert type_of(a_field(logical("string", "uuid")).schema) == Types.ROW_NAMED(["a"], [Types.PICKLED_BYTE_ARRAY()])
    codec = a_field(logical("string", "uuid"))
    assert codec.decode(codec.encode({"a": UUID(int=5)})) == {"a": UUID(int=5)}


@cells("message", [b"", b"\x02", b"\x06ab", b"\x02a\x00"])
def test_a_message_that_is_cut_off_or_has_more_than_a_record_is_refused(message: bytes) -> None:
    with pytest.raises(MessageFormatError, match="as Avro"):
        a_field("string").decode(message)


def test_a_time_that_python_does_not_have_is_refused() -> None:
    written = io.BytesIO()
    schema: Any = a_field("long").schema.parsed
    fastavro.schemaless_writer(written, schema, {"a": 2**62})
    with pytest.raises(MessageFormatError, match="as Avro"):
        a_field(logical("long", "timestamp-micros")).decode(written.getvalue())


def record(kind: Any, **more: Any) -> AvroSchema:
    return AvroSchema({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind, **more}]})


@cells(
    "written, wanted, expected",
    [
        (record("string"), record("int"), "its field a is of type string, and the schema has int"),
        (record("long"), record("int"), "its field a is of type long, and the schema has int"),
        (record("int"), record("double"), None),
        (record("int"), record(["null", "long"]), None),
        (record(["null", "int"]), record("int"), None),  # it depends on the values
        (record("string"), record(["null", "int"]), "its field a is of type string, and the schema has null or int"),
        (
            record({"type": "array", "items": "string"}),
            record(["null", {"type": "array", "items": "int"}]),
            "its field a[] is of type string, and the schema has int",
        ),
        (
            record({"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}),
            record({"type": "record", "name": "I", "fields": [{"name": "y", "type": "string"}]}),
            "it has no field a.y, which the schema has as string without a default",
        ),
        (AvroSchema({"type": "record", "name": "R", "fields": []}), record("int", default=1), None),
    ],
)
def test_schemas_that_do_not_match_are_told_by_the_field_and_both_types(
    written: AvroSchema, wanted: AvroSchema, expected: str | None
) -> None:
    assert mismatch(written, wanted) == expected


LONGS: list[tuple[Any, Any]] = [
    ("long", 5),
    (logical("long", "time-micros"), datetime.time(1)),
    (logical("long", "timestamp-micros"), NOW),
    (logical("long", "timestamp-millis"), NOW.replace(microsecond=0)),
    (logical("long", "local-timestamp-micros"), NOW),
    (logical("long", "local-timestamp-millis"), NOW.replace(microsecond=0)),
]


def test_a_value_read_by_another_schema_is_of_its_type_or_the_schemas_do_not_match() -> None:
    """A number that the schema has as a time would be neither the one nor the other."""
    read: Any = fastavro.schemaless_reader
    matches = 0
    for (kind, value), (other, like) in product(LONGS, LONGS):
        written, wanted = AvroCodec(record(kind)), AvroCodec(record(["null", other]))
        if mismatch(written.schema, wanted.schema) is None:
            matches += 1
            found = read(io.BytesIO(written.encode({"a": value})), written.schema.parsed, wanted.schema.parsed)
            assert (found if wanted.ours is None else wanted.ours(found)) == {"a": value}
            assert type(value) is type(like)
    assert matches == len(LONGS) + 4, "units may differ"


@given(st.data())
def test_schemas_match_where_the_decoder_takes_them(data: st.DataObject) -> None:
    definition, values = data.draw(parts())
    other, _ = data.draw(parts())
    written, wanted = AvroCodec(record(definition)), record(other)
    message = written.encode({"a": data.draw(values)})
    read: Any = fastavro.schemaless_reader
    try:
        read(io.BytesIO(message), written.schema.parsed, wanted.parsed)
    except fastavro._read_common.SchemaResolutionError:
        if not any(isinstance(one, list) for one in (definition, other)) and "[" not in json.dumps(definition):
            assert mismatch(written.schema, wanted) is not None
    except Exception:  # noqa: BLE001 - bytes that are no text, and the like
        pass
    else:
        told = json.dumps([definition, other])  # arrays and maps may be empty, and the decoder ignores logical types
        if not any(one in told for one in ("array", "map", "logicalType")):
            assert mismatch(written.schema, wanted) is None


NODE = {
    "type": "record",
    "name": "node",
    "fields": [{"name": "number", "type": "long"}, {"name": "next", "type": ["null", "node"]}],
}


def chain_of(length: int) -> Any:
    found = None
    for number in range(length):
        found = {"number": number, "next": found}
    return found


def test_values_within_each_other_come_back_or_are_too_deep_to_be_written() -> None:
    codec = AvroCodec(AvroSchema(NODE))
    for length in (1, 90):
        assert codec.decode(codec.encode(chain_of(length))) == chain_of(length)
    for length in (110, 500, 5000):
        with pytest.raises(MessageFormatError, match="too many values within each other"):
            codec.encode(chain_of(length))


def test_a_message_that_is_too_deep_is_refused_and_ends_no_process() -> None:
    codec = AvroCodec(AvroSchema(NODE))
    with pytest.raises(MessageFormatError, match="recursion"):
        codec.decode(b"\x00\x02" * 50_000 + b"\x00\x00")
    assert codec.decode(codec.encode(chain_of(2))) == chain_of(2)

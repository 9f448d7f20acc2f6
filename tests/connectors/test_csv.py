"""CSV, compared with DuckDB where the two should agree."""

from __future__ import annotations

import csv
import datetime
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.connectors.staged import elsewhere, lose_staged

from penstock._formats import lines as line_blocks
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream.connectors.file_system import BucketAssigner, FileEnumeratorProvider, FileSink, FileSource
from penstock.datastream.formats.csv import CsvBulkWriters, CsvEncoder, CsvReaderFormat, CsvSchema
from penstock.datastream.formats.json import BadLine
from penstock.errors import RecordFieldError, RecordValueError, SourceFileError
from penstock.testing.connector_contexts import TestEnumeratorContext
from penstock.testing.sink_contract import SinkContract, SinkRun, SinkUnderTest
from penstock.testing.source_contract import SourceContract, SourceRun

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.common.typeinfo import RowTypeInfo

PEOPLE = CsvSchema.builder().add_string_column("name").add_number_column("age")
PEOPLE_WITH_COMMENTS = CsvSchema.builder().add_columns_from(PEOPLE.build()).set_allow_comments().build()


def read(path: Path, schema: CsvSchema | RowTypeInfo, parallelism: int = 1) -> list[Row]:
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(path)).build()
    return SourceRun(source, parallelism).run_to_end()


def values(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows]


TEXTS = st.text(st.sampled_from('ab,"\n ü;'), max_size=8)


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(st.tuples(TEXTS, st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=40))
def test_quoted_values_with_anything_in_them_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    assert values(read(path, PEOPLE.build())) == rows


def test_large_file_with_line_feeds_in_values_passes_the_contract(tmp_path: Path) -> None:
    rows = [(f'a\n{"x" * 200}\n"{number}"', number) for number in range(5000)]
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    make = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(PEOPLE.build()), str(path)).build
    SourceContract(make, [Row(name=name, age=age) for name, age in rows]).check_all()


def test_types_are_those_of_the_schema_as_in_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "i,f,t,b,d,ts,dec\n"
        "1,0.5,one,true,2024-02-29,2024-02-29 12:30:00.25,12.340\n"
        ',,"",,,,\n'
        '-3,1e3,"x,y",false,1999-12-31,1999-12-31 00:00:00,0.1\n'
    )
    builder = CsvSchema.builder().set_use_header().set_strict_headers()
    for name, type_info in {
        "i": Types.INT(),
        "f": Types.DOUBLE(),
        "t": Types.STRING(),
        "b": Types.BOOLEAN(),
        "d": Types.SQL_DATE(),
        "ts": Types.SQL_TIMESTAMP(),
    }.items():
        builder.add_column(name, type_info)
    rows = values(read(path, builder.add_number_column("dec", Types.BIG_DEC()).build()))
    query = (
        "select * from read_csv(?, header=true, columns={i:'INT',f:'DOUBLE',t:'VARCHAR',b:'BOOLEAN',d:'DATE',"
        "ts:'TIMESTAMP',dec:'DECIMAL(9,3)'})"
    )
    expected = duckdb.sql(query, params=[str(path)]).fetchall()
    assert [row[:2] + row[3:] for row in rows] == [row[:2] + row[3:] for row in expected]
    assert [row[2] for row in rows] == ["one", "", "x,y"]
    assert str(rows[0][6]) == "12.340"


def test_header_decides_the_order_where_it_is_asked_for_and_other_columns_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\ufeffage, other ,name\n36,x,ada\n", "utf-8")
    schema = CsvSchema.builder().add_columns_from(PEOPLE.build()).set_use_header().set_reorder_columns()
    assert values(read(path, schema.build())) == [("ada", 36)]


def test_header_is_passed_over_and_columns_are_those_of_the_schema_by_position(tmp_path: Path) -> None:
    """As in Flink, unless the header is to decide."""
    path = tmp_path / "a.csv"
    path.write_text("h1,h2\nada,36\n")
    schema = CsvSchema.builder().add_columns_from(PEOPLE.build()).set_use_header().build()
    assert values(read(path, schema)) == [("ada", 36)]


def test_header_with_a_column_twice_is_refused_where_it_decides_the_order(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b,a\n1,2,3\n")
    schema = CsvSchema.builder().add_number_column("a").set_use_header().set_reorder_columns().build()
    with pytest.raises(SourceFileError, match="its header is a, b, a"):
        read(path, schema)


@pytest.mark.parametrize("strict", [True, False])
def test_header_that_does_not_fit_is_named(tmp_path: Path, strict: bool) -> None:
    path = tmp_path / "a.csv"
    path.write_text("age,name\n36,ada\n" if strict else "name,years\nada,36\n")
    builder = CsvSchema.builder().add_columns_from(PEOPLE.build()).set_use_header().set_strict_headers(strict)
    builder.set_reorder_columns(not strict)
    with pytest.raises(SourceFileError, match=r"its header is .* columns are name, age"):
        read(path, builder.build())


def test_dialect_of_a_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("skipped\n# comment\n'a|b'|NA|x;y;z\nNA|7|\n")
    schema = (
        CsvSchema.builder()
        .add_string_column("s")
        .add_number_column("n")
        .add_array_column("l")
        .set_column_separator("|")
        .set_quote_char("'")
        .set_null_value("NA")
        .set_allow_comments()
        .set_skip_first_data_row()
        .build()
    )
    assert values(read(path, schema)) == [("a|b", None, ["x", "y", "z"]), (None, 7, [])]


def test_arrays_of_numbers_and_escape_signs(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"say \\"hi\\"\nthere",1;2\n')
    schema = CsvSchema.builder().add_string_column("s").add_array_column("n", ";", Types.LONG())
    assert values(read(path, schema.set_escape_char("\\").build())) == [('say "hi"\nthere', [1, 2])]


@pytest.mark.parametrize("null", ["NA", "-1", "", None])
def test_an_array_may_be_none_and_have_none_among_its_numbers(tmp_path: Path, null: str | None) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"1;{null or ''};3|{null or ''}\n-10;2|5\n")
    builder = CsvSchema.builder().set_column_separator("|").add_array_column("n", ";", Types.LONG())
    builder = builder.add_array_column("whole", ";", Types.LONG())
    schema = (builder if null is None else builder.set_null_value(null)).build()
    assert values(read(path, schema)) == [([1, None, 3], [] if null is None else None), ([-10, 2], [5])]


def test_row_type_is_a_schema_without_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ada,36\r\n")
    rows = read(path, Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()]))
    assert rows == [Row(name="ada", age=36)]


def test_file_without_multiline_values_is_read_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [(f"name {number} {'x' * 100}", number) for number in range(30_000)]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("name", "age"), *rows])
    builder = CsvSchema.builder().add_columns_from(PEOPLE.build()).set_use_header()
    for schema, parts in ((builder.build(), 1), (builder.set_multiline_values(False).build(), 4)):
        builder_of_source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(path))
        provider = FileEnumeratorProvider.default_splittable_file_enumerator()
        source = builder_of_source.set_file_enumerator(provider).build()
        assert len(source.create_enumerator(TestEnumeratorContext()).snapshot_state(1).splits) == parts
        assert sorted(values(SourceRun(source, 3).run_to_end()), key=lambda row: row[1]) == rows


@pytest.mark.parametrize(
    ("text", "said"),
    [("ada,many\n", "do not fit the schema"), ("ada,1,2\n", "do not fit the schema"), ('"ada,1\n', "never closes")],
)
def test_line_that_does_not_fit_is_an_error_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(SourceFileError, match=said):
        read(path, PEOPLE.build())


BAD = "name,age\nada,36\n# bob,many\nbob,many\n\neve,1,2\nkim,9\n"


def people(path: Path, bad_lines: Any, **options: Any) -> SourceRun:
    path.write_text(BAD)
    schema = CsvSchema.builder().add_columns_from(PEOPLE.build()).set_use_header().set_allow_comments()
    csv_format = CsvReaderFormat.for_schema(schema.set_multiline_values(False).build(), bad_lines)
    return SourceRun(FileSource.for_record_stream_format(csv_format, str(path)).build(), **options)


def test_bad_lines_are_left_out_and_counted_or_are_emitted(tmp_path: Path) -> None:
    good = [("ada", 36), ("kim", 9)]
    run = people(tmp_path / "a.csv", "skip")
    assert [tuple(row) for row in run.run_to_end()] == good
    [context] = run._reader_contexts
    assert context.metric_group.counter("skippedLines").get_count() == 2  # type: ignore[attr-defined]
    found = people(tmp_path / "a.csv", "emit", parallelism=2, keep_readers=False).run_to_end()
    bad = [record for record in found if isinstance(record, BadLine)]
    assert [tuple(row) for row in found if row not in bad] == good
    assert [(record.data, BAD.index(record.data.decode() + "\n", 20)) for record in bad] == [
        (b"bob,many", bad[0].offset),
        (b"eve,1,2", bad[1].offset),
    ]
    schema = CsvSchema.builder().add_columns_from(PEOPLE.build()).disable_quote_char().build()
    assert CsvReaderFormat.for_schema(schema, "emit").get_produced_type() is None
    with pytest.raises(SourceFileError, match="by bad_lines"):
        people(tmp_path / "a.csv", "fail").run_to_end()


@pytest.mark.parametrize("header", ["", "name,age\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_offset_of_a_bad_line_is_that_of_its_first_byte_in_the_file(tmp_path: Path, mark: str, header: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{mark}{header}bob,many\nada,36\neve,1,2\n", "utf-8")
    schema = CsvSchema.builder().add_columns_from(PEOPLE.build()).set_use_header(bool(header))
    csv_format = CsvReaderFormat.for_schema(schema.set_multiline_values(False).build(), "emit")
    first, good, second = SourceRun(FileSource.for_record_stream_format(csv_format, str(path)).build()).run_to_end()
    assert tuple(good) == ("ada", 36)
    for bad in (first, second):
        assert path.read_bytes()[bad.offset :].startswith(bad.data)
    assert (first.data, second.data) == (b"bob,many", b"eve,1,2")


def test_bad_lines_are_told_from_others_where_lines_are_records_alone() -> None:
    with pytest.raises(ValueError, match=r"set_multiline_values\(False\)"):
        CsvReaderFormat.for_schema(CsvSchema.for_row_type(PEOPLE.build().row_type), "skip")
    with pytest.raises(ValueError, match="not 'drop'"):
        CsvReaderFormat.for_schema(PEOPLE.build(), "drop")  # type: ignore[arg-type]


def test_schema_refuses_what_csv_cannot_hold() -> None:
    with pytest.raises(ValueError, match="different names"):
        CsvSchema.builder().build()
    with pytest.raises(ValueError, match="one ASCII sign"):
        CsvSchema.builder().set_quote_char("''")
    with pytest.raises(ValueError, match="'bad'"):
        CsvReaderFormat.for_schema(Types.ROW_NAMED(["bad"], [Types.INSTANT()]))


def csv_rows(folder: Path) -> list[Row]:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return [row for path in files for row in read(path, PEOPLE.build())]


def test_row_encoder_passes_the_sink_contract(tmp_path: Path) -> None:
    targets = 0

    def make() -> SinkUnderTest:
        nonlocal targets
        targets += 1
        folder = tmp_path / str(targets)
        sink = FileSink.for_row_format(str(folder), CsvEncoder(PEOPLE.build())).build()
        return SinkUnderTest(
            sink, lambda: csv_rows(folder), lambda: lose_staged(folder), unshared=lambda: elsewhere(folder)
        )

    SinkContract(make, [Row(name=f'a,"{number}"\n', age=number) for number in range(600)]).check_all()


def test_bulk_files_have_a_header_and_duckdb_reads_them(tmp_path: Path) -> None:
    schema = (
        CsvSchema.builder()
        .add_string_column("s")
        .add_column("d", Types.SQL_DATE())
        .add_number_column("n", Types.BIG_DEC())
        .add_boolean_column("b")
        .set_use_header()
        .build()
    )
    sink = FileSink.for_bulk_format(str(tmp_path), CsvBulkWriters.for_schema(schema)).with_bucket_assigner(
        BucketAssigner.base_path_bucket_assigner()
    )
    rows = [('a "b",\nc', datetime.date(2024, 1, 31), Decimal("1.50"), True), ("d", None, None, False)]
    run = SinkRun(sink.build())
    run.commit(run.epoch([rows[0], dict(zip("sdnb", rows[1], strict=True))]))
    found = duckdb.sql(
        "select * from read_csv(?, header=true, columns={s:'VARCHAR',d:'DATE',n:'DECIMAL(9,2)',b:'BOOLEAN'})",
        params=[f"{tmp_path}/part-*"],
    ).fetchall()
    assert found == rows


@pytest.mark.parametrize("record", [{"name": "a", "age": 1, "city": "b"}, Row(name="a", age=1, city="b")])
def test_a_field_that_is_no_column_is_told_with_its_record(record: Any) -> None:
    with pytest.raises(
        RecordFieldError, match=r"has a field 'city'.*it has name, age.*Add the column to the CsvSchema"
    ):
        CsvEncoder(PEOPLE.build()).encode(record, BytesIO())


MOMENT = datetime.datetime(2024, 1, 1, 5, 6, 7, 8)  # noqa: DTZ001
LOST = {
    "fraction": (Types.LONG(), 1.5),
    "whole-float": (Types.LONG(), 1.0),
    "text-in-numbers": (Types.LONG(), "5"),
    "truth-in-numbers": (Types.INT(), True),
    "int32": (Types.INT(), 2**31),
    "int8": (Types.BYTE(), 128),
    "int64": (Types.LONG(), 2**63),
    "decimal": (Types.BIG_DEC(), Decimal("NaN")),
    "float-in-decimals": (Types.BIG_DEC(), 1.5),
    "number-in-texts": (Types.STRING(), 5),
    "bytes-in-texts": (Types.STRING(), b"x"),
    "dict-in-texts": (Types.STRING(), {"k": 1}),
    "surrogate": (Types.STRING(), "\ud800"),
    "none-in-texts": (Types.LIST(Types.STRING()), ["a", None]),
    "one-empty-text": (Types.LIST(Types.STRING()), [""]),
    "list-of-none": (Types.LIST(Types.LONG()), [None]),
    "float-of-32-bits": (Types.FLOAT(), 1e39),
    "many-digits": (Types.DOUBLE(), 2**53 + 1),
    "time-in-dates": (Types.SQL_DATE(), MOMENT),
    "zone": (Types.SQL_TIME(), MOMENT.time().replace(tzinfo=datetime.timezone(datetime.timedelta(hours=1)))),
    "number-in-times": (Types.SQL_TIMESTAMP(), 5),
    "text-in-truths": (Types.BOOLEAN(), "yes"),
    "sign-in-elements": (Types.OBJECT_ARRAY(Types.STRING()), ["a;b"]),
    "no-list": (Types.OBJECT_ARRAY(Types.STRING()), 5),
}


@pytest.mark.parametrize(("type_info", "value"), LOST.values(), ids=LOST)
@pytest.mark.parametrize("kind", ["encoder", "bulk"])
def test_a_value_that_could_not_be_read_back_is_told_with_its_record(kind: str, type_info: Any, value: Any) -> None:
    schema = CsvSchema.builder().add_string_column("s").add_column("a", type_info).build()
    file = BytesIO()
    good, bad = {"s": "good", "a": None}, {"s": "bad", "a": value}
    bulk = CsvBulkWriters.for_schema(schema).create(file)
    write = bulk.add_elements if kind == "bulk" else lambda elements: CsvEncoder(schema).encode_all(elements, file)
    with pytest.raises(RecordValueError, match=r"field 'a' of the record .*'bad'.*lenient=True"):
        write([good, bad])
    assert file.getvalue() == b""


def test_text_that_stands_for_none_is_told() -> None:
    schema = CsvSchema.builder().add_string_column("s").set_null_value("NULL").build()
    with pytest.raises(RecordValueError, match="'NULL' stands for None"):
        CsvEncoder(schema).encode(("NULL",), BytesIO())


def test_lenient_writes_what_is_there_as_text_and_leaves_out_other_fields() -> None:
    file = BytesIO()
    CsvEncoder(PEOPLE.build(), lenient=True).encode_all([{"name": "a", "age": 1.5, "city": "b"}], file)
    writer = CsvBulkWriters.for_schema(PEOPLE.build(), lenient=True).create(file)
    writer.add_elements([Row(name="b", age="old", city="c")])
    writer.finish()
    assert file.getvalue().decode().split() == ["a,1.5", *(["name,age"] if b"name" in file.getvalue() else []), "b,old"]


# ------------------------------------------------------------------------------------------- signs where none is meant

QUOTED = st.text(st.sampled_from("a\",\n#' "), max_size=6)


def text_file(folder: Path, content: str) -> Path:
    path = folder / "a.csv"
    path.write_bytes(content.encode())
    return path


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(st.tuples(QUOTED, st.integers(0, 9)), min_size=1, max_size=30), chunk=st.integers(1, 40))
def test_signs_inside_of_quoted_values_mean_nothing_wherever_a_block_ends(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]], chunk: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    lines = [f'"{text.replace(chr(34), chr(34) * 2)}",{number}\n' for text, number in rows]
    path.write_text("# it's a 5\" thing\n".join(["", *lines]), newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "CHUNK_BYTES", chunk)
        assert values(read(path, PEOPLE_WITH_COMMENTS)) == rows


def test_a_comment_sign_inside_of_a_quoted_value_is_text(tmp_path: Path) -> None:
    path = text_file(tmp_path, '"line one\n# line two\nline three",1\n# a comment\nx,2\n')
    assert values(read(path, PEOPLE_WITH_COMMENTS)) == [("line one\n# line two\nline three", 1), ("x", 2)]


def test_comments_may_stand_before_the_header(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_columns_from(PEOPLE.build()).set_use_header().set_allow_comments().build()
    path = text_file(tmp_path, "# made by X\n  # and Y\nname,age\nx,1\n# end\ny,2\n")
    assert values(read(path, schema)) == [("x", 1), ("y", 2)]


@pytest.mark.parametrize("lines", [['5" pipe,1'], ['5" pipe,1', '7" pipe,2', "x,3"], ['a"b"c"d,1', 'q"x,2']])
def test_a_quote_in_the_midst_of_a_value_is_text(tmp_path: Path, lines: list[str]) -> None:
    path = text_file(tmp_path, "\n".join([*lines, "last,9", ""]))
    expected = [(line.rsplit(",", 1)[0], int(line[-1])) for line in lines]
    assert values(read(path, PEOPLE.build())) == [*expected, ("last", 9)]


@pytest.mark.parametrize("line", ['"q"x,2', '"q" ,"x"y', '"a,"x",2'])
@pytest.mark.parametrize("several_lines", [True, False])
def test_what_stands_behind_a_closing_quote_is_told_with_its_place(
    tmp_path: Path, line: str, several_lines: bool
) -> None:
    schema = CsvSchema.builder().add_columns_from(PEOPLE.build()).set_multiline_values(several_lines).build()
    with pytest.raises(SourceFileError, match="stands behind the closing one"):
        read(text_file(tmp_path, f'x,1\n{line}\n"y",3\n'), schema)


def test_a_quote_that_never_closes_is_told_with_its_record(tmp_path: Path) -> None:
    path = text_file(tmp_path, 'x,1\n"never closed,2\ny,3\n')
    with pytest.raises(SourceFileError, match=r"a\.csv cannot be read: a quote that opens after byte 4 never closes"):
        read(path, PEOPLE.build())


def test_blank_lines_of_one_column_are_empty_values(tmp_path: Path) -> None:
    text = CsvSchema.builder().add_string_column("a").build()
    assert values(read(text_file(tmp_path, "x\n\ny\n\n\nz\n\n"), text)) == [
        ("x",),
        ("",),
        ("y",),
        ("",),
        ("",),
        ("z",),
        ("",),
    ]
    numbers = CsvSchema.builder().add_number_column("n").build()
    assert values(read(text_file(tmp_path, "1\n\n2\n"), numbers)) == [(1,), (None,), (2,)]
    assert values(read(text_file(tmp_path, "\n"), text)) == [("",)]
    assert values(read(text_file(tmp_path, "a,1\n\nb,2\n"), PEOPLE.build())) == [("a", 1), ("b", 2)]


def test_what_is_written_to_one_column_is_read_back(tmp_path: Path) -> None:
    text = CsvSchema.builder().add_string_column("a").build()
    file = BytesIO()
    CsvEncoder(text).encode_all([("x",), ("",), ("y",)], file)
    assert values(read(text_file(tmp_path, file.getvalue().decode()), text)) == [("x",), ("",), ("y",)]

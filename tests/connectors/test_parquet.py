"""Parquet, compared with pyarrow and DuckDB."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.connectors.staged import elsewhere, lose_staged
from tests.kit.cells import cells

from penstock._formats import parquet
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, OutputFileConfig
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat, ParquetFormat
from penstock.errors import RecordFieldError, RecordValueError, SourceFileError
from penstock.testing.connector_contexts import TestEnumeratorContext
from penstock.testing.sink_contract import SinkContract, SinkRun, SinkUnderTest
from penstock.testing.source_contract import SourceContract, SourceRun

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.common.serialization import BulkWriterFactory
    from penstock.datastream.connectors.file_system import BulkFormat


SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def table(rows: int) -> pa.Table:
    return pa.table([list(range(rows)), [f"row {number}" for number in range(rows)]], schema=SCHEMA)


def read(path: Path, bulk_format: BulkFormat, parallelism: int = 1) -> list[Any]:
    return SourceRun(FileSource.for_bulk_file_format(bulk_format, str(path)).build(), parallelism).run_to_end()


def test_source_contract_over_files_with_several_row_groups(tmp_path: Path) -> None:
    for number, rows in enumerate((25_000, 1, 7000)):
        pq.write_table(table(rows), tmp_path / f"{number}.parquet", row_group_size=3000)
    expected = [row for rows in (25_000, 1, 7000) for row in table(rows).to_pylist()]
    make = FileSource.for_bulk_file_format(ParquetFormat(), str(tmp_path)).build
    SourceContract(make, expected).check_all()


def test_large_files_are_cut_at_row_groups(tmp_path: Path) -> None:
    data = pa.table({"noise": [f"{number * 7919 % 1_000_003}-{number}" for number in range(400_000)]})
    pq.write_table(data, tmp_path / "a.parquet", row_group_size=50_000, use_dictionary=False, compression="none")
    source = FileSource.for_bulk_file_format(ParquetFormat(), str(tmp_path)).build()
    splits = source.create_enumerator(TestEnumeratorContext(2)).snapshot_state(1).splits
    assert len(splits) > 2
    assert [split.part.start for split in splits[1:]] == [split.part.end for split in splits[:-1]]


def test_columns_are_picked_by_name(tmp_path: Path) -> None:
    pq.write_table(table(2), tmp_path / "a.parquet")
    assert read(tmp_path, ParquetFormat(["text"])) == [{"text": "row 0"}, {"text": "row 1"}]
    row_type = Types.ROW_NAMED(["text", "id"], [Types.STRING(), Types.LONG()])
    assert read(tmp_path, ParquetColumnarRowInputFormat(row_type)) == [Row(text="row 0", id=0), Row(text="row 1", id=1)]


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1 no footer PAR1"])
def test_damaged_file_is_named_at_enumeration(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.parquet").write_bytes(content)
    source = FileSource.for_bulk_file_format(ParquetFormat(), str(tmp_path)).build()
    with pytest.raises(SourceFileError, match=r"bad\.parquet.*no Parquet file"):
        source.create_enumerator(TestEnumeratorContext())


def test_damaged_row_group_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    pq.write_table(table(1000), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)
    with pytest.raises(SourceFileError, match=r"bad\.parquet.*row group 0 is damaged"):
        read(path, ParquetFormat())


@pytest.mark.parametrize(
    ("found", "declared", "fits"),
    [
        (pa.string(), Types.LONG(), False),
        (pa.float64(), Types.LONG(), False),
        (pa.int64(), Types.STRING(), False),
        (pa.list_(pa.int64()), Types.LONG(), False),
        (pa.int16(), Types.LONG(), True),
        (pa.int64(), Types.DOUBLE(), True),
        (pa.null(), Types.LONG(), True),
        (pa.dictionary(pa.int32(), pa.string()), Types.STRING(), True),
        (pa.timestamp("ms", "UTC"), Types.SQL_TIMESTAMP(), True),
    ],
)
def test_a_column_of_another_kind_than_the_row_type_says_is_named(
    tmp_path: Path, found: Any, declared: Any, fits: bool
) -> None:
    pq.write_table(pa.table({"n": pa.nulls(2, found)}), tmp_path / "changed.parquet")
    row_format = parquet.ParquetColumnarRowInputFormat(Types.ROW_NAMED(["n"], [declared]))
    run = FileSource.for_bulk_file_format(row_format, str(tmp_path)).build()
    if fits:
        run.create_enumerator(TestEnumeratorContext(1))
        return
    with pytest.raises(SourceFileError, match=r"changed\.parquet .*its column n is .*, and the source's row type"):
        run.create_enumerator(TestEnumeratorContext(1))


def test_missing_column_is_named_at_enumeration(tmp_path: Path) -> None:
    pq.write_table(table(1), tmp_path / "a.parquet")
    source = FileSource.for_bulk_file_format(ParquetFormat(["price"]), str(tmp_path)).build()
    with pytest.raises(SourceFileError, match=r"no column price; its columns are id, text"):
        source.create_enumerator(TestEnumeratorContext())


@pytest.mark.parametrize(
    "factory",
    [ParquetBulkWriters.for_schema(), ParquetBulkWriters.for_schema(SCHEMA)],
    ids=["inferred", "schema"],
)
def test_sink_contract(tmp_path: Path, factory: BulkWriterFactory) -> None:
    targets = 0

    def make() -> SinkUnderTest:
        nonlocal targets
        targets += 1
        folder = tmp_path / str(targets)
        folder.mkdir()
        sink = FileSink.for_bulk_format(str(folder), factory).build()
        return SinkUnderTest(
            sink,
            lambda: read(folder, ParquetFormat()),
            lambda: lose_staged(folder),
            unshared=lambda: elsewhere(folder),
        )

    SinkContract(make, table(900).to_pylist()).check_all()


def test_duckdb_never_reads_what_is_unfinished(tmp_path: Path) -> None:
    sink = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_schema(SCHEMA))
    # Its `*` takes hidden files, too.
    sink = sink.with_output_file_config(OutputFileConfig.builder().with_part_suffix(".parquet").build())
    run = SinkRun(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())

    def seen() -> int:
        try:
            [(rows,)] = duckdb.sql(
                "select count(*) from read_parquet(?)", params=[f"{tmp_path}/**/*.parquet"]
            ).fetchall()
        except duckdb.IOException as error:
            assert "No files found" in str(error)  # noqa: PT017 - DuckDB has no rows without files
            return 0
        return rows

    for epoch in range(3):
        staged = run.epoch(table(1000).to_pylist())
        assert seen() == epoch * 1000
        run.commit(staged)
        assert seen() == (epoch + 1) * 1000


def test_rows_of_a_type_are_read_back_as_they_were(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(
        ["i", "f", "t", "b", "d", "ts", "dec", "bytes", "list", "map"],
        [
            *(Types.INT(), Types.DOUBLE(), Types.STRING(), Types.BOOLEAN(), Types.SQL_DATE(), Types.SQL_TIMESTAMP()),
            *(Types.BIG_DEC(), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.LIST(Types.LONG())),
            Types.MAP(Types.STRING(), Types.INT()),
        ],
    )
    moment = datetime.datetime(2024, 2, 29, 1, 2, 3, 456)  # noqa: DTZ001 - a timestamp without zone
    values = [1, 0.5, "x", True, moment.date(), moment, Decimal("1.5"), b"\x00\xff", [1, 2], {"a": 1}]
    rows = [Row(*values), Row(*([None] * len(values)))]
    sink = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(row_type)).with_bucket_assigner(
        BucketAssigner.base_path_bucket_assigner()
    )
    run = SinkRun(sink.build())
    run.commit(run.epoch(rows))
    found = read(tmp_path, ParquetColumnarRowInputFormat(row_type))
    assert [list(row) for row in found] == [values, [None] * len(values)]
    summed = duckdb.sql("select sum(i), max(map['a']) from read_parquet(?)", params=[f"{tmp_path}/part-*"])
    assert summed.fetchall() == [(1, 1)]


def test_many_records_make_one_row_group(tmp_path: Path) -> None:
    sink = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_schema()).with_bucket_assigner(
        BucketAssigner.base_path_bucket_assigner()
    )
    run = SinkRun(sink.build())
    run.commit(run.epoch(table(30_000).to_pylist()))
    file = next(tmp_path.glob("part-*"))
    assert pq.read_metadata(file).num_row_groups == 1
    assert pq.read_table(file).equals(table(30_000))


def test_record_that_does_not_fit_the_columns_is_shown(tmp_path: Path) -> None:
    sink = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_schema(SCHEMA)).build()
    run = SinkRun(sink)
    with pytest.raises(ValueError, match=r"field 'id' of the record .*'many'.*int64"):
        run.epoch([{"id": "many", "text": "x"}])
    run.close()


# ------------------------------------------------------------------------------- what would be lost is told, or kept


def written(factory: BulkWriterFactory, *batches: list[Any]) -> list[Any]:
    file = BytesIO()
    writer = factory.create(file)
    for batch in batches:
        writer.add_elements(batch)
        writer.flush()
    writer.finish()
    return pq.read_table(BytesIO(file.getvalue())).to_pylist()


INFERRED = ParquetBulkWriters.for_schema()


def test_without_a_schema_the_columns_are_all_fields_of_a_row_group() -> None:
    assert written(INFERRED, [{"a": 1}, {"a": 2, "b": "keep me"}], [{"c": 0.5}]) == [
        {"a": 1, "b": None, "c": None},
        {"a": 2, "b": "keep me", "c": None},
        {"a": None, "b": None, "c": 0.5},
    ]


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("values", [[None, "text"], [1, 1.5], [None, [1]], [{"x": 1}, {"y": 2}]])
def test_without_a_schema_a_column_has_a_type_that_holds_all_values(values: list[Any], separate: bool) -> None:
    records = [{"a": value} for value in values]
    found = written(INFERRED, *([[one] for one in records] if separate else [records]))
    assert [_without_none(one["a"]) for one in found] == values


def _without_none(value: Any) -> Any:
    return {key: inner for key, inner in value.items() if inner is not None} if isinstance(value, dict) else value


MOMENT_IN_UTC = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
#: Values that no column holds beside each other without changing one, in either order and at any depth.
UNLIKE = [
    [1, "text"],
    [2**53 + 1, 1.5],
    [True, 1],
    ["text", b"bytes"],
    [1.5, Decimal("1.1")],
    [datetime.date(2026, 1, 1), MOMENT_IN_UTC.replace(tzinfo=None)],
    [MOMENT_IN_UTC.replace(tzinfo=None), MOMENT_IN_UTC],
    [-1, 2**63],
]
UNLIKE += [values[::-1] for values in UNLIKE] + [[[one], [other]] for one, other in UNLIKE]
UNLIKE += [[{"x": [one]}, {"x": [other]}] for one, other in UNLIKE]


@cells("values", UNLIKE)
def test_values_that_no_type_holds_are_told(values: list[Any]) -> None:
    told = r"^The field 'a' of the record \{'a': .*\} does not fit.* (beside|here and|time zone, and) .*for_schema\(\)"
    with pytest.raises(RecordValueError, match=told):
        written(INFERRED, *([{"a": value}] for value in values))
    with pytest.raises(RecordValueError, match=told):
        written(INFERRED, [{"a": value} for value in values])


def test_a_field_that_comes_after_the_columns_stand_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_ROW_GROUP_BYTES", 1)
    with pytest.raises(RecordFieldError, match=r"'b': 'lost'\} has a field 'b'.*it has a.*give one that has all"):
        written(INFERRED, [{"a": 1}], [{"a": 2, "b": "lost"}])


STRUCTS = pa.schema(
    [
        ("s", pa.struct([("a", pa.int64()), ("t", pa.struct([("a", pa.int64())]))])),
        ("l", pa.list_(pa.struct([("a", pa.int64())]))),
        ("n", pa.int64()),
    ]
)


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"n": 1, "typo": 2}, "typo"),
        (Row(s=None, l=None, n=1, typo=2), "typo"),
        ({"s": {"a": 1, "b": 2}}, "s.b"),
        ({"s": Row(a=1, b=2)}, "s.b"),
        ({"s": {"t": {"b": 2}}}, "s.t.b"),
        ({"l": [{"a": 1}, {"b": 2}]}, "l.b"),
    ],
)
def test_a_field_that_a_schema_lacks_is_told_with_its_record_and_the_way_out(record: Any, field: str) -> None:
    with pytest.raises(RecordFieldError, match="for_schema") as caught:
        written(ParquetBulkWriters.for_schema(STRUCTS), [record])
    assert caught.value.field == field
    assert repr(record)[:20] in str(caught.value)


MOMENT = datetime.datetime(2024, 1, 1, 5, 6, 7, 8)  # noqa: DTZ001
CUT = [
    (pa.int64(), 1.5),
    (pa.int64(), Decimal("1.5")),
    (pa.int64(), "5"),
    (pa.int8(), 300),
    (pa.int32(), 2**31),
    (pa.float32(), 1e300),
    (pa.float32(), 2**24 + 1),
    (pa.float64(), 2**53 + 1),
    (pa.decimal128(5, 2), Decimal("1.234")),
    (pa.decimal128(5, 2), Decimal("12345.1")),
    (pa.decimal128(5, 2), 1.234),
    (pa.date32(), MOMENT),
    (pa.timestamp("s"), MOMENT),
    (pa.timestamp("ms"), MOMENT),
    (pa.timestamp("us"), MOMENT.replace(tzinfo=datetime.UTC)),
    (pa.timestamp("us", "UTC"), MOMENT),
    (pa.timestamp("us"), 5),
    (pa.time32("s"), datetime.time(1, 2, 3, 4)),
    (pa.time64("us"), datetime.time(1, 2, 3, 4, tzinfo=datetime.UTC)),
    (pa.duration("s"), datetime.timedelta(microseconds=5)),
]


@cells("arrow_type, value", CUT)
def test_a_value_that_its_column_would_cut_is_told(arrow_type: Any, value: Any) -> None:
    factory = ParquetBulkWriters.for_schema(pa.schema([("n", pa.int64()), ("a", arrow_type)]))
    good = {"n": 7, "a": None}
    with pytest.raises(RecordValueError, match=r"lenient=True") as caught:
        written(factory, [good, {"n": 8, "a": value}, good])
    assert caught.value.field == "a"
    assert repr({"n": 8, "a": value})[:40] in str(caught.value)
    assert str(arrow_type) in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@cells("inside", ["list", "struct", "map", "list-of-structs"])
@cells("arrow_type, value", CUT)
def test_a_value_that_would_be_cut_inside_of_another_is_told(inside: str, arrow_type: Any, value: Any) -> None:
    outer, whole = {
        "list": (pa.list_(arrow_type), [value]),
        "struct": (pa.struct([("x", arrow_type)]), {"x": value}),
        "map": (pa.map_(pa.string(), arrow_type), {"k": value}),
        "list-of-structs": (pa.list_(pa.struct([("x", arrow_type)])), [Row(x=value)]),
    }[inside]
    with pytest.raises(RecordValueError, match="field 'a' of the record"):
        written(ParquetBulkWriters.for_schema(pa.schema([("a", outer)])), [{"a": None}, {"a": whole}])


@pytest.mark.parametrize(
    ("arrow_type", "value", "kept"),
    [
        (pa.int64(), 1.5, 1),
        (pa.int64(), Decimal("1.5"), 1),
        (pa.timestamp("s"), MOMENT, MOMENT.replace(microsecond=0)),
        (pa.timestamp("us"), MOMENT.replace(tzinfo=datetime.UTC), MOMENT),
        (pa.time32("s"), datetime.time(1, 2, 3, 4), datetime.time(1, 2, 3)),
        (pa.date32(), MOMENT, MOMENT.date()),
        (pa.list_(pa.int64()), [1.5], [1]),
    ],
)
def test_lenient_lets_a_value_be_cut(arrow_type: Any, value: Any, kept: Any) -> None:
    factory = ParquetBulkWriters.for_schema(pa.schema([("a", arrow_type)]), lenient=True)
    assert written(factory, [{"a": value}]) == [{"a": kept}]


@pytest.mark.parametrize("record", [{"amount": 1, "usr": "a"}, Row(amount=1, usr="a")])
def test_lenient_leaves_out_fields_that_are_no_column(record: Any) -> None:
    schema = pa.schema([("user", pa.string()), ("amount", pa.int64())])
    assert written(ParquetBulkWriters.for_schema(schema, lenient=True), [record]) == [{"user": None, "amount": 1}]
    row_type = Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.LONG()])
    with pytest.raises(RecordFieldError):
        written(ParquetBulkWriters.for_row_type(row_type), [record])
    assert written(ParquetBulkWriters.for_row_type(row_type, lenient=True), [record]) == [{"user": None, "amount": 1}]


def test_lenient_is_no_way_around_what_cannot_be() -> None:
    for arrow_type, value in ((pa.int32(), 2**31), (pa.int64(), "x"), (pa.decimal128(5, 2), Decimal("1.234"))):
        with pytest.raises(RecordValueError) as caught:
            written(ParquetBulkWriters.for_schema(pa.schema([("a", arrow_type)]), lenient=True), [{"a": value}])
        assert "lenient" not in str(caught.value)


@pytest.mark.parametrize("lenient", [False, True])
def test_null_in_a_column_that_takes_none_is_told_with_its_record(lenient: bool) -> None:
    schema = pa.schema([pa.field("user", pa.string(), nullable=False), ("n", pa.int64())])
    with pytest.raises(RecordValueError, match=r"'user' of the record \{'n': 2\}.*takes no nulls"):
        written(ParquetBulkWriters.for_schema(schema, lenient=lenient), [{"user": "a", "n": 1}, {"n": 2}])


def test_values_that_are_kept_as_they_are_fit() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    cases = [
        (pa.int64(), 1.0, 1),
        (pa.int64(), None, None),
        (pa.int8(), Decimal(7), 7),
        (pa.float32(), 0.5, 0.5),
        (pa.float32(), float("inf"), float("inf")),
        (pa.float64(), 3, 3.0),
        (pa.decimal128(5, 2), Decimal("1.2"), Decimal("1.20")),
        (pa.date32(), datetime.datetime(2024, 1, 1), datetime.date(2024, 1, 1)),  # noqa: DTZ001
        (pa.timestamp("us"), datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1)),  # noqa: DTZ001
        (pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=zone), MOMENT.replace(tzinfo=zone)),
        (pa.list_(pa.struct([("a", pa.int64())])), [Row(a=1)], [{"a": 1}]),
        (pa.map_(pa.string(), pa.int64()), {"a": 1}, [("a", 1)]),
    ]
    for arrow_type, value, kept in cases:
        factory = ParquetBulkWriters.for_schema(pa.schema([("a", arrow_type)]))
        assert written(factory, [{"a": value}, {"a": None}]) == [{"a": kept}, {"a": None}]

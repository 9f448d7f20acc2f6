"""Parquet in columns: from file to file without a record, and with the same content as by records."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.driving import Driven

from penstock._engine.operators import columns as engine_columns
from penstock.common.typeinfo import Types
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, OnCheckpointRollingPolicy
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat, ParquetFormat
from penstock.errors import RecordFieldError, RecordValueError
from penstock.testing.connector_contexts import columns_of
from penstock.testing.in_process import InProcessEpochRunner
from penstock.testing.sink_contract import SinkRun
from penstock.testing.source_contract import SourceContract, SourceRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ROWS = [
    {
        "id": number,
        "word": None if number % 7 == 0 else f"w{number % 5}",
        "price": Decimal(number).scaleb(-2),
        "at": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=number),
        "inner": {"x": [number, None], "y": None if number % 2 else "y"},
    }
    for number in range(600)
]


class ByWord(BucketAssigner):
    def get_bucket_id(self, element: Any, timestamp: int | None, processing_time_ms: int) -> str:
        return f"word={element['word']}"


def written(path: Path, *blocks: Any, sink: FileSink | None = None, **options: Any) -> list[Any]:
    """Write blocks of records and batches, and return what is in the file."""
    path.mkdir()
    sink = sink or FileSink.for_bulk_format(str(path), ParquetBulkWriters.for_schema(**options)).build()
    run = SinkRun(sink)
    try:
        run.commit(run.epoch([item for block in blocks for item in block], end_of_input=True))
    finally:
        run.close()
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


@pytest.mark.parametrize("reader", ["dicts", "rows"])
def test_a_source_of_columns_keeps_its_contract(tmp_path: Path, reader: str) -> None:
    few = ROWS[:300]
    pq.write_table(pa.Table.from_pylist(few), tmp_path / "a.parquet", row_group_size=70)
    types = [Types.LONG(), Types.STRING()]
    by_type = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["id", "word"], types), batch_size=64)
    make = FileSource.for_bulk_file_format(ParquetFormat() if reader == "dicts" else by_type, str(tmp_path)).build
    expected = SourceRun(make()).run_to_end()
    contract = SourceContract(make, expected)
    contract.check_batches_have_the_same_records()
    contract.check_each_record_once([2])


def test_a_restore_by_records_goes_on_where_columns_stopped_and_the_other_way_round(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet", row_group_size=250)
    source = FileSource.for_bulk_file_format(ParquetFormat(), str(tmp_path)).build()
    for first in (True, False):
        run = SourceRun(source, 1, takes_batches=first)
        checkpoint = None
        while not run.records:
            checkpoint = run.epoch(polls=1)
        run.close()
        after = SourceRun(source, 1, checkpoint, takes_batches=not first).run_to_end()
        assert [row["id"] for row in [*run.records, *after]] == list(range(600))


@pytest.mark.parametrize(
    ("schema", "lenient"),
    [
        (None, False),
        (pa.Table.from_pylist(ROWS).schema, False),
        (pa.schema([("more", pa.int8()), *pa.Table.from_pylist(ROWS).schema]), False),
        (pa.schema([("id", pa.int32()), ("word", pa.large_string())]), True),
        (pa.schema([("id", pa.float64())]), True),
        (pa.schema([("id", pa.int64()), ("inner", pa.struct([("x", pa.list_(pa.int32()))]))]), True),
    ],
    ids=["inferred", "same", "one more", "other widths", "another kind", "another struct"],
)
def test_columns_are_written_as_their_records_are(tmp_path: Path, schema: pa.Schema | None, lenient: bool) -> None:
    options: Any = {"schema": schema, "lenient": lenient}
    parts = [ROWS[:100], ROWS[100:101], ROWS[101:]]
    by_records = written(tmp_path / "records", *parts, **options)
    assert written(tmp_path / "columns", *([columns_of(part)] for part in parts), **options) == by_records
    mixed = [parts[0], [columns_of(parts[1])], parts[2]]
    assert written(tmp_path / "mixed", *mixed, **options) == by_records
    assert len(by_records) == len(ROWS)


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ([("id", pa.int64())], RecordFieldError),
        ([("id", pa.int64()), pa.field("word", pa.string(), nullable=False)], RecordValueError),
        ([("id", pa.int8()), ("word", pa.string())], RecordValueError),
        ([("id", pa.int64()), ("word", pa.int64())], RecordValueError),
        ([("id", pa.int64()), ("word", pa.string()), pa.field("more", pa.int8(), nullable=False)], RecordValueError),
    ],
    ids=["unknown field", "null", "too large", "another type", "missing"],
)
def test_columns_that_do_not_fit_the_declared_schema_are_the_errors_of_their_records(
    tmp_path: Path, schema: Any, error: type[Exception]
) -> None:
    two = [{"id": row["id"], "word": row["word"]} for row in ROWS]
    texts = []
    for block in (two, [columns_of(two)]):
        with pytest.raises(error) as raised:
            written(tmp_path / str(len(texts)), block, schema=pa.schema(schema))
        texts.append(str(raised.value))
    assert texts[0] == texts[1]


def test_records_of_columns_go_to_their_buckets_and_a_policy_sees_them(tmp_path: Path) -> None:
    asked: list[Any] = []

    class Policy(OnCheckpointRollingPolicy):
        def should_roll_on_event(self, part: Any, element: Any) -> bool:
            asked.append(element["id"])
            return False

    def sink(path: Path) -> FileSink:
        builder = FileSink.for_bulk_format(str(path), ParquetBulkWriters.for_schema())
        return builder.with_bucket_assigner(ByWord()).with_rolling_policy(Policy()).build()

    found = [
        written(tmp_path / name, block, block, sink=sink(tmp_path / name))
        for name, block in (("records", ROWS), ("columns", [columns_of(ROWS)]))
    ]
    assert sorted(map(repr, found[0])) == sorted(map(repr, found[1]))
    assert asked == [0, 1, 2, 3, 4, 5]  # of each bucket, the first record of the second batch


def run_in_process(env: StreamExecutionEnvironment, place: Path) -> None:
    """Run a job with the real driver and no Spark."""
    driven = Driven(env, place / "state", InProcessEpochRunner(seed=1))
    driven.run()
    driven.driver.result.result(0)


@pytest.mark.parametrize("between", ["chained", "rebalanced", "keyed"])
def test_a_job_from_parquet_to_parquet_makes_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    def no_records(*_: Any) -> Sequence[Any]:
        raise AssertionError("a record was made of columns")

    monkeypatch.setattr(engine_columns, "records_of", no_records)
    (tmp_path / "in").mkdir()
    for part in range(3):
        pq.write_table(pa.Table.from_pylist(ROWS[part::3]), tmp_path / "in" / f"{part}.parquet", row_group_size=70)
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    source = FileSource.for_bulk_file_format(ParquetFormat(), str(tmp_path / "in")).build()
    stream: Any = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    if between == "rebalanced":
        stream = stream.rebalance()
    elif between == "keyed":
        stream = stream.key_by("word")
    stream.sink_to(FileSink.for_bulk_format(str(tmp_path / "out"), ParquetBulkWriters.for_schema()).build())
    run_in_process(env, tmp_path)
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    rows = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
    assert sorted(rows, key=lambda row: row["id"]) == ROWS

"""Programs over columns give what plain Python makes of the same records, whatever stands before and between them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.without_spark import Cluster

from penstock.common import Types, WatermarkStrategy
from penstock.common.types import Row
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.formats.parquet import ParquetColumnarRowInputFormat, ParquetFormat
from penstock.testing.in_process import Chaos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.datastream import DataStream

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.int64())])
ROWS = Types.ROW_NAMED(["k", "v", "t"], [Types.STRING(), Types.LONG(), Types.LONG()])
STREAM_SETTINGS = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

Record = dict[str, Any]
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", "c", None]),
            "v": st.none() | st.integers(-100, 100) | st.sampled_from([2**62, -(2**62)]),
            "t": st.integers(0, 60),
        }
    ),
    max_size=40,
)


def stream_of(env: StreamExecutionEnvironment, records: list[Record], source: str, place: Path) -> DataStream[Any]:
    """Return records as a stream: of Python objects with or without a type, or of Parquet files."""
    if source == "records":
        return env.from_collection(records)
    if source == "rows":
        return env.from_collection([Row(**record) for record in records], ROWS)
    for number in range(2):
        rows = pa.Table.from_pylist(records[number::2], SCHEMA)
        pq.write_table(rows, place / f"{number}.parquet", row_group_size=7)
    form: Any = ParquetFormat() if source == "columns" else ParquetColumnarRowInputFormat(ROWS)
    files = FileSource.for_bulk_file_format(form, str(place / "*.parquet")).build()
    return env.from_source(files, WatermarkStrategy.no_watermarks(), "files")


SOURCES = ("records", "rows", "columns", "columns of rows")


def as_dict(record: Any) -> Record:
    return record.as_dict() if isinstance(record, Row) else record


def negated(batch: Any) -> Any:
    return batch.set_column(1, "v", pc.negate(batch["v"].cast(pa.int64())))


def positive(batch: Any) -> Iterator[Any]:
    """Keep some rows, in several batches."""
    kept = batch.filter(pc.greater(pc.fill_null(batch["v"].cast(pa.int64()), 0), 0))
    for start in range(0, kept.num_rows, 3):
        yield kept.slice(start, 3)


def by_pandas(frame: Any) -> Any:
    return frame.assign(t=frame["t"] + 1)


#: What a step does to a stream, and to records.
STEPS: dict[str, tuple[Callable[[Any], Any], Callable[[list[Record]], list[Record]]]] = {
    "negate": (
        lambda stream: stream.map_batches(negated, ROWS),
        lambda records: [record | {"v": None if record["v"] is None else -record["v"]} for record in records],
    ),
    "keep": (
        lambda stream: stream.map_batches(positive, ROWS),
        lambda records: [record for record in records if (record["v"] or 0) > 0],
    ),
    "pandas": (
        lambda stream: stream.map_batches(by_pandas, ROWS, "pandas"),
        lambda records: [record | {"t": record["t"] + 1} for record in records],
    ),
    "rows": (
        lambda stream: stream.map(lambda record: Row(k=record["k"], v=record["v"], t=record["t"] * 2), ROWS),
        lambda records: [record | {"t": record["t"] * 2} for record in records],
    ),
    "filter": (
        lambda stream: stream.filter(lambda record: record["k"] is not None),
        lambda records: [record for record in records if record["k"] is not None],
    ),
    "key": (lambda stream: stream.key_by("k").map_batches(lambda batch: batch, ROWS), lambda records: records),
}


@dataclass(frozen=True)
class Case:
    """The circumstances of a program."""

    records: list[Record]
    source: str
    mode: str
    parallelism: int
    retries: float
    seed: int


CASES = st.builds(
    Case,
    records=RECORDS,
    source=st.sampled_from(SOURCES),
    mode=st.sampled_from(["STREAMING", "BATCH"]),
    parallelism=st.integers(1, 3),
    retries=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 99),
)


def results(case: Case, program: Callable[[DataStream[Any]], DataStream[Any]]) -> list[Any]:
    """Return what a program makes of a case's records."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        Cluster(place, chaos=Chaos(retries=case.retries), seed=case.seed).patch(patch)
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(case.parallelism).set_runtime_mode(RuntimeExecutionMode[case.mode])
        stream = stream_of(env, case.records, case.source, place)
        return list(program(stream).execute_and_collect())


def in_order(records: list[Record]) -> list[str]:
    return sorted(repr(sorted(record.items())) for record in records)


@given(case=CASES, names=st.lists(st.sampled_from(sorted(STEPS)), max_size=4))
@STREAM_SETTINGS
def test_functions_over_batches_and_over_records_go_together(case: Case, names: list[str]) -> None:
    def program(stream: Any) -> Any:
        for name in names:
            stream = STEPS[name][0](stream)
        return stream

    expected = case.records
    for name in names:
        expected = STEPS[name][1](expected)
    assert in_order(list(map(as_dict, results(case, program)))) == in_order(expected)

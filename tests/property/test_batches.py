"""Random graphs give the same output for rows and for columns, whatever stands in them.

Graphs of nothing but what works on columns, from Parquet to Parquet, make no record at all.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.driving import Driven, Epochs
from tests.kit.epochs import Job
from tests.kit.program import Program

from penstock._engine.operators import columns
from penstock.common.time import Duration, Time
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream.connectors.file_system import FileSink, FileSource
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetFormat
from penstock.datastream.functions import KeyedProcessFunction, ProcessFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.in_process import Chaos, InProcessEpochRunner
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.datastream import DataStream

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("time", pa.int64()),
        ("word", pa.string()),
        ("inner", pa.struct([("x", pa.list_(pa.int64()))])),
        ("more", pa.map_(pa.string(), pa.int64())),
    ]
)
LATE, ODD = OutputTag("late"), OutputTag("odd")


class Own(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value["time"]


class Split(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        value["seen"] = ctx.timestamp()
        yield (ODD, value) if value["id"] % 2 else value


class Number(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield {"id": value["id"], "time": value["time"], "word": ctx.get_current_key(), "inner": None, "more": None}


def changed(record: dict[str, Any]) -> dict[str, Any]:
    """Change a record in place, which no other operator may see."""
    record["id"] += 1
    if record.get("inner") is not None and record["inner"]["x"] is not None:
        record["inner"]["x"].append(0)
    return record


def windowed(stream: DataStream) -> DataStream:
    windows = stream.key_by("word").window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
    late = windows.side_output_late_data(LATE).reduce(lambda left, right: {**left, "id": left["id"] + right["id"]})
    return late.union(late.get_side_output(LATE))


#: What a step makes of a stream; all of it is there for rows and for columns.
STEPS: dict[str, Callable[[DataStream], DataStream]] = {
    "map": lambda stream: stream.map(changed),
    "filter": lambda stream: stream.filter(lambda record: record["id"] % 3 != 0),
    "rebalance": lambda stream: stream.rebalance(),
    "broadcast": lambda stream: stream.broadcast(),
    "by field": lambda stream: stream.key_by("word").process(Number()),
    "by function": lambda stream: stream.key_by(lambda record: record["id"] % 4).process(Number()),
    "side output": lambda stream: (split := stream.process(Split())).union(split.get_side_output(ODD)),
    "twice": lambda stream: stream.union(stream.map(changed)),
    "stamped again": lambda stream: stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3)).with_timestamp_assigner(Own())
    ),
    "followed": lambda stream: stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(2))
    ),
}


def records() -> st.SearchStrategy[list[dict[str, Any]]]:
    inner = st.none() | st.fixed_dictionaries({"x": st.none() | st.lists(st.integers(0, 3), max_size=2)})
    more = st.none() | st.dictionaries(st.sampled_from("ab"), st.none() | st.integers(0, 3), max_size=2)
    one = {"id": st.integers(0, 30), "time": st.integers(0, 40), "word": st.none() | st.sampled_from("xyz")}
    return st.lists(st.fixed_dictionaries({**one, "inner": inner, "more": more}), max_size=15)


def outputs(
    lists: list[list[dict[str, Any]]],
    steps: list[tuple[str, int]],
    schema: pa.Schema | None,
    *,
    per_poll: int,
    sizes: list[int],
    seed: int,
    restart: int,
    is_windowed: bool,
) -> dict[str, Counter[str]]:
    """Run a program over rows or columns, and return what each of its steps gives."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        program = Program(place)
        events = tempfile.mkdtemp(dir=place)
        source = ListSource(*lists, happened_in=events, records_per_poll=per_poll, schema=schema)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Own())
        stream: Any = program.env.from_source(source, strategy, "lists").set_parallelism(len(lists))
        program.collect(stream, "source")
        for place_in, (kind, parallelism) in enumerate(steps):
            stream = STEPS[kind](stream)
            kept = stream.filter(lambda record: True).set_parallelism(parallelism)
            program.collect(kept, f"{place_in} {kind}")
        if is_windowed:
            program.collect(windowed(stream), "windows")
        runner = InProcessEpochRunner(workers=2, seed=seed, chaos=Chaos(retries=0.1))
        job = Job(program.graph(), place, runner)
        for turn in range(1000):
            if job.finished:
                break
            if turn == restart:
                job = job.restarted()
            job.epoch(sizes[turn % len(sizes)])
        assert job.finished
        runner.close()
        return {name: Counter(json.dumps(one, sort_keys=True) for one in found) for name, found in job.outputs.items()}


@settings(max_examples=settings().max_examples // 5, suppress_health_check=[HealthCheck.too_slow])
@given(
    lists=st.lists(records(), min_size=1, max_size=2),
    steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(1, 3)), max_size=4),
    per_poll=st.sampled_from([1, 4, 100]),
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    seed=st.integers(0, 1 << 16),
    restart=st.integers(1, 5),
)
def test_columns_give_what_rows_give(lists: list[Any], steps: list[Any], **more: Any) -> None:
    # What is late depends on the order in which senders' blocks come, and so with one sender alone is it the same.
    is_windowed = len(lists) == 1 and not {"rebalance", "broadcast", "by field", "by function"} & {k for k, _ in steps}
    as_rows, as_columns = (outputs(lists, steps, schema, is_windowed=is_windowed, **more) for schema in (None, SCHEMA))
    assert as_columns == as_rows


#: Steps that work on columns, or send them on.
COLUMN_STEPS: dict[str, Callable[[DataStream], DataStream]] = {
    "rebalance": lambda stream: stream.rebalance(),
    "broadcast": lambda stream: stream.broadcast(),
    "by field": lambda stream: STEPS["followed"](stream.key_by("word")),
    "twice": lambda stream: stream.union(stream.rebalance()),
    "followed": STEPS["followed"],
}


def written(
    lists: list[list[dict[str, Any]]],
    steps: list[tuple[str, int]],
    *,
    in_columns: bool,
    key: str | None,
    group: int,
    per_epoch: int,
    sinks: int,
    seed: int,
) -> Counter[str]:
    """Run a program from Parquet, or from rows, to Parquet, and return the rows that it publishes."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        program = Program(place, interval="10 ms", inline="0 b")
        stream: Any
        if in_columns:
            (place / "in").mkdir()
            for number, rows in enumerate(lists):
                table = pa.Table.from_pylist(rows, SCHEMA)
                pq.write_table(table, place / "in" / f"{number}.parquet", row_group_size=group)
            files = FileSource.for_bulk_file_format(ParquetFormat(), str(place / "in")).build()
            stream = program.env.from_source(files, WatermarkStrategy.no_watermarks(), "files")
        else:
            stream = program.source(*lists)
        for kind, parallelism in steps:
            stream = COLUMN_STEPS[kind](stream)
            if kind in {"followed", "by field"}:
                stream = stream.set_parallelism(parallelism)
        stream = stream if key is None else stream.key_by(key)
        sink = FileSink.for_bulk_format(str(place / "out"), ParquetBulkWriters.for_schema(schema=SCHEMA))
        stream.sink_to(sink.build()).set_parallelism(sinks)
        driven = Driven(program.env, place / "state", Epochs(per_epoch, workers=2, seed=seed, chaos=Chaos(retries=0.1)))
        driven.run()
        driven.driver.result.result(0)
        published = [path for path in (place / "out").rglob("part-*") if path.is_file()]
        rows = [row for path in published for row in pq.read_table(path, partitioning=None).to_pylist()]
        return Counter(json.dumps(row, sort_keys=True) for row in rows)


@settings(max_examples=settings().max_examples // 5, suppress_health_check=[HealthCheck.too_slow])
@given(
    lists=st.lists(records(), min_size=1, max_size=3),
    steps=st.lists(st.tuples(st.sampled_from(sorted(COLUMN_STEPS)), st.integers(1, 3)), max_size=4),
    key=st.sampled_from([None, "id", "word"]),
    group=st.integers(1, 20),
    per_epoch=st.sampled_from([1, 5, 100]),
    sinks=st.integers(1, 3),
    seed=st.integers(0, 1 << 16),
)
def test_parquet_to_parquet_makes_no_record_and_gives_what_rows_give(
    lists: list[Any], steps: list[Any], **more: Any
) -> None:
    as_rows = written(lists, steps, in_columns=False, **more)
    with patch.object(columns, "records_of", side_effect=AssertionError("a record was made of columns")):
        as_columns = written(lists, steps, in_columns=True, **more)
    assert as_columns == as_rows

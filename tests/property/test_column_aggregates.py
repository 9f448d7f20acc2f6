"""Aggregates of columns, in all and in windows, are those of plain Python and of windows of records."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.subtasks import Subtasks
from tests.property.test_column_functions import CASES, STREAM_SETTINGS, as_dict, results
from tests.unit.operators.starved import OperatorHarness, starved

from penstock._engine.operators.columnar.column_aggregates import PARTS, ColumnAggregates
from penstock._engine.protocol.keys import normal_key
from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import OutputTag
from penstock.datastream.functions import AggregateFunction, ProcessWindowFunction
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.testing import Watermark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.property.test_column_functions import Case

ALL = {"v": list(PARTS)}
AGGREGATES = [("v", function) for function in PARTS]


def of_values(values: list[Any]) -> tuple[Any, ...]:
    """Return the sum, minimum, maximum, count and mean of values as SQL and plain Python have them."""
    there = [value for value in values if value is not None]
    if not there:
        return None, None, None, 0, None
    numbers = [value for value in there if value == value]  # noqa: PLR0124
    least = min(numbers, default=math.nan)
    greatest = max(numbers) if len(numbers) == len(there) else math.nan
    return sum(there), least, greatest, len(there), float(sum(there) / len(there))


def plain(records: Iterable[tuple[Any, Any]]) -> dict[Any, tuple[Any, ...]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for key, value in records:
        groups[key].append(value)
    return {key: of_values(values) for key, values in groups.items()}


@given(case=CASES)
@STREAM_SETTINGS
def test_totals_of_columns_are_those_of_plain_python_in_both_modes(case: Case) -> None:
    records = [record | {"v": None if record["v"] is None else record["v"] % 1000} for record in case.records]
    case = replace(case, records=records)
    found = list(map(as_dict, results(case, lambda stream: stream.key_by("k").aggregate_batches(ALL))))
    expected = plain((record["k"], record["v"]) for record in records)
    if all(record["v"] is None for record in records) and case.source == "records":
        return  # a column of nothing but None has no type
    assert {record["k"]: tuple(record[f"v_{function}"] for function in PARTS) for record in found} == expected
    if case.mode == "BATCH":
        assert len(found) == len(expected)


VALUES = st.one_of(
    st.lists(st.none() | st.integers(-5, 5) | st.sampled_from([2**63 - 1, -(2**63), 2**62]), max_size=12).map(
        lambda values: pa.array(values, pa.int64())
    ),
    st.lists(st.none() | st.sampled_from([0.5, -1.25, math.nan, math.inf, -0.0]), max_size=12).map(
        lambda values: pa.array(values, pa.float64())
    ),
    st.lists(st.none() | st.booleans(), max_size=12).map(lambda values: pa.array(values, pa.bool_())),
    st.lists(st.none() | st.integers(0, 2**64 - 1), max_size=12).map(lambda values: pa.array(values, pa.uint64())),
)


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_partial_results_in_any_cuts_come_to_what_plain_python_has(data: st.DataObject) -> None:
    values: Any = data.draw(VALUES)
    keys = data.draw(st.lists(st.sampled_from([0.0, -0.0, 1.5, None]), min_size=len(values), max_size=len(values)))
    batch = pa.record_batch([pa.array(keys, pa.float64()), values], ["k", "v"])
    aggregates = ColumnAggregates("k", AGGREGATES)
    cuts = sorted({0, len(values), *data.draw(st.lists(st.integers(0, len(values)), max_size=3))})
    parts = [batch.slice(start, stop - start) for start, stop in pairwise(cuts)]
    tables = [aggregates.partials(aggregates.columns_of(part)) for part in parts]
    while len(tables) > 1 and tables[0].schema == tables[1].schema and data.draw(st.booleans()):
        tables[:2] = [aggregates.combined(tables[:2])]
    held: dict[Any, Any] = {}
    for table in tables:
        for row in aggregates.rows(table):
            held[row[0]] = aggregates.add(row, held.get(row[0], aggregates.create_accumulator()))
    found = {key: aggregates.get_result(accumulator) for key, accumulator in held.items()}
    expected = plain(zip(keys, values.to_pylist(), strict=True))
    assert found.keys() == expected.keys()
    for key, of_key in found.items():
        for one, other in zip(of_key, expected[key], strict=True):
            # Floats are added in another order.
            assert one == (pytest.approx(other, nan_ok=True) if isinstance(other, float) else other)


class Summed(AggregateFunction[Any, Any, Any]):
    """The same aggregates of records."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        return [*accumulator, value["v"]]

    def get_result(self, accumulator: Any) -> Any:
        return of_values(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Told(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        at = context.window()
        names = [f"v_{function}" for function in PARTS]
        return [
            {"k": key, "window_start": at.start, "window_end": at.end, **dict(zip(names, values, strict=True))}
            for values in elements
        ]


WINDOWS = [
    TumblingEventTimeWindows(10, 0),
    TumblingEventTimeWindows(7, -3),
    SlidingEventTimeWindows(10, 5, 0),
    SlidingEventTimeWindows(9, 4, 1),
    SlidingEventTimeWindows(3, 8, 2),
]
LATE = OutputTag("late")
EDGES = [-(2**63) + 1, 2**63 - 20, -(2**62)]
STAMPS = st.one_of(st.integers(-20, 60), st.integers(-20, 60), st.sampled_from(EDGES))
BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(-9, 9), STAMPS), max_size=8),
        STAMPS | st.sampled_from([3, 6, 9, 10, 12, 19, 20]),  # among them the last moments of windows
        st.sampled_from([None, None, 1, 2]),
    ),
    max_size=6,
)
AT = datetime(2026, 2, 3, tzinfo=UTC)
KEYS = [
    (pa.string(), ["a", "b", None]),
    (pa.int64(), [1, 2, None]),
    (pa.float64(), [0.0, -0.0, math.nan]),
    (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("2.00"), None]),
    (pa.timestamp("us", tz="UTC"), [AT, AT + timedelta(days=1), None]),
]


class Windows(Subtasks):
    """The subtasks of one operator in a store without room."""

    def __init__(self, directory: Path, program: Callable[[Any], Any]) -> None:
        super().__init__(partial(starved(OperatorHarness, directory).for_stream, program))

    def feed(self, index: int, batch: Any, stamps: list[int], place: int, watermark: int) -> Any:
        """Return what a subtask puts out for a batch with a watermark in it, and the late records it has dropped."""
        part = self.parts[index]
        part.process_batch(batch.slice(0, place), stamps[:place])
        part.process_watermark(watermark)
        part.process_batch(batch.slice(place), stamps[place:])
        told = part.output(), part.side_output(LATE)
        part.clear_output()
        return last_of_windows(*told), part.metrics.snapshot()["numLateRecordsDropped"]["count"]


def programs(assigner: Any, lateness: int, *, late: bool) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return windows of records and windows of columns."""

    def windows(keyed: Any) -> Any:
        windowed = keyed.window(assigner).allowed_lateness(lateness)
        return windowed.side_output_late_data(LATE) if late else windowed

    return (
        lambda stream: windows(stream.key_by(lambda record: record["k"])).aggregate(Summed(), Told()),
        lambda stream: windows(stream.key_by("k")).aggregate_batches(ALL),
    )


@pytest.mark.parametrize("behind", [-1, 0, 1])
def test_records_of_columns_in_no_window_are_late_as_those_of_records(tmp_path: Path, behind: int) -> None:
    of_rows, of_columns = programs(SlidingEventTimeWindows(3, 8, 2), 0, late=False)
    rows, columns = Windows(tmp_path / "rows", of_rows), Windows(tmp_path / "columns", of_columns)
    for at in range(20):
        batch = pa.RecordBatch.from_pylist([{"k": "a", "v": 1}])
        assert columns.feed(0, batch, [at], 0, at + behind) == rows.feed(0, batch, [at], 0, at + behind)


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_windows_of_columns_are_those_of_records_over_restores_and_rescalings(data: st.DataObject) -> None:
    assigner: Any = data.draw(st.sampled_from(WINDOWS))
    late = data.draw(st.booleans())
    batches = data.draw(BATCHES)
    lateness = data.draw(st.sampled_from([0, 0, 6]))
    kind, keys = data.draw(st.sampled_from(KEYS))

    of_rows, of_columns = programs(assigner, lateness, late=late)
    schema = pa.schema([("k", kind), ("v", pa.int64())])
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        rows, columns = Windows(Path(one), of_rows), Windows(Path(other), of_columns)
        watermark = -(2**63)
        for records, stamp, parallelism in batches:
            watermark = max(watermark, stamp)
            for index in range(len(rows.parts)):
                mine = [(keys[key], value, at) for key, value, at in records if rows.owner(keys[key]) == index]
                batch = pa.RecordBatch.from_pylist([{"k": key, "v": value} for key, value, _ in mine], schema)
                given = batch, [at for _, _, at in mine], data.draw(st.integers(0, len(mine))), watermark
                assert columns.feed(index, *given) == rows.feed(index, *given)
            if parallelism is not None:
                rows.restore(parallelism)
                columns.restore(parallelism)


def last_of_windows(output: list[Any], late: list[Any]) -> Any:
    """Return the last result of each key and window with the watermarks before it, the watermarks, the late records.

    How many results a window gives before its last one is open: windows of records give one for each late record.
    """
    last: dict[Any, Any] = {}
    marks: list[int] = []
    for one in output:
        if isinstance(one, Watermark):
            marks.append(one.timestamp)
        else:
            record = dict(one.value)
            last[normal_key(record.pop("k")), record["window_start"]] = record, one.timestamp, list(marks)
    return last, marks, [(normal_key(one.value["k"]), one.value["v"], one.timestamp) for one in late]


class Own(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value["t"]


@given(case=CASES)
@STREAM_SETTINGS
def test_jobs_of_windows_of_columns_give_what_plain_python_does_in_both_modes(case: Case) -> None:
    records = [record | {"v": len(record)} for record in case.records]
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1_000))
    strategy = bounded.with_timestamp_assigner("t" if case.seed % 2 else Own())

    def program(stream: Any) -> Any:
        stamped = stream.map_batches(lambda batch: batch).assign_timestamps_and_watermarks(strategy)
        return stamped.key_by("k").window(SlidingEventTimeWindows(20, 10, 0)).aggregate_batches(ALL)

    windows = [
        ((record["k"], start), record["v"])
        for record in records
        for start in (record["t"] // 10 * 10, record["t"] // 10 * 10 - 10)
    ]
    found = list(map(as_dict, results(replace(case, records=records), program)))
    told = {(one["k"], one["window_start"]): tuple(one[f"v_{function}"] for function in PARTS) for one in found}
    assert told == plain(windows)
    assert len(found) == len(told)

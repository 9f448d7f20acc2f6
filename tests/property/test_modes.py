"""The same random program in both modes gives the same final result, that of plain Python, in a tiny sort as well.

In batch mode there are no updates: the last one of a key in streaming mode is its only result. Late records and the
order of records without timestamps over several senders are what modes may differ in; programs here depend on neither.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.without_spark import Cluster

from penstock._engine.runtime import results
from penstock.common import Configuration, Duration, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.functions import (
    AggregateFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.testing.in_process import Chaos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: (key, timestamp, number)
Record = tuple[int, int, int]
WINDOW_MS = 10
SORT_BYTES = ("1 b", "2 kb", "128 mb")


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value: Record, record_timestamp: int) -> int:
        return value[1]


#: No record is late.
STAMPED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1_000)).with_timestamp_assigner(Stamp())


class LastOfKey(KeyedProcessFunction):
    """Keeps all numbers of a key, and gives them by a timer that sets another one."""

    def open(self, runtime_context: Any) -> None:
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.INT()))

    def process_element(self, value: Record, ctx: Any) -> Iterable[Any]:
        self.numbers.add(value[2])
        ctx.timer_service().register_event_time_timer(5_000)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        if timestamp == 5_000:
            ctx.timer_service().register_event_time_timer(6_000)
            return
        yield ctx.get_current_key(), sorted(self.numbers.get() or ())
        self.numbers.clear()


class Joined(KeyedCoProcessFunction):
    """Adds the numbers of both inputs of a key, and gives the sum at the end."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element1(self, value: Record, ctx: Any) -> Iterable[Any]:
        self.total.update((self.total.value() or 0) + value[2])
        ctx.timer_service().register_event_time_timer(9_000)
        return ()

    def process_element2(self, value: Record, ctx: Any) -> Iterable[Any]:
        return self.process_element1((value[0], value[1], 1_000 * value[2]), ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield ctx.get_current_key(), self.total.value()


def key(record: Any) -> Any:
    return record[0]


def summed(stream: Any) -> Any:
    return stream.map(lambda record: (record[0], record[2])).key_by(key).sum(1)


def reduced(stream: Any) -> Any:
    folded = (
        stream.map(lambda record: (record[0], [record[2]])).key_by(key).reduce(lambda a, b: (a[0], sorted(a[1] + b[1])))
    )
    return folded.map(lambda pair: (pair[0], pair[1]))


def windowed(stream: Any) -> Any:
    windows = stream.key_by(key).window(TumblingEventTimeWindows(WINDOW_MS, 0))
    return windows.reduce(lambda a, b: (a[0], a[1] - a[1] % WINDOW_MS, a[2] + b[2])).map(
        lambda record: ((record[0], record[1] - record[1] % WINDOW_MS), record[2])
    )


class Total(AggregateFunction):
    combinable = True

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Record, accumulator: int) -> int:
        return accumulator + value[2]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Started(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterable[Any]:
        yield (key, context.window().start), *elements


SLIDING = SlidingEventTimeWindows(WINDOW_MS, 4, 1)
GAP_MS = 4


def sliding(stream: Any) -> Any:
    return stream.key_by(key).window(SLIDING).aggregate(Total(), Started())


def of_sliding(records: list[Record]) -> dict[Any, int]:
    totals: dict[Any, int] = defaultdict(int)
    for record in records:
        for window in SLIDING.assign_windows(record, record[1], cast("Any", None)):
            totals[record[0], window.start] += record[2]
    return dict(totals)


def sessions(stream: Any) -> Any:
    return stream.key_by(key).window(EventTimeSessionWindows(GAP_MS)).aggregate(Total(), Started())


def of_sessions(records: list[Record]) -> dict[Any, int]:
    totals: dict[Any, int] = {}
    start, end = {}, {}
    for name, stamp, number in sorted(records):
        if name not in end or stamp > end[name]:
            start[name] = stamp
        end[name] = stamp + GAP_MS
        place = name, start[name]
        totals[place] = totals.get(place, 0) + number
    return totals


def timed(stream: Any) -> Any:
    return stream.key_by(key).process(LastOfKey())


def connected(stream: Any) -> Any:
    even, odd = stream.filter(lambda record: record[2] % 2 == 0), stream.filter(lambda record: record[2] % 2)
    return even.key_by(key).connect(odd.key_by(key)).process(Joined())


def by_key(
    records: Iterable[Record], of: Callable[[list[Record]], Any], name: Callable[[Record], Any] = key
) -> dict[Any, Any]:
    groups: dict[Any, list[Record]] = defaultdict(list)
    for record in records:
        groups[name(record)].append(record)
    return {group: of(found) for group, found in groups.items()}


def total(records: list[Record]) -> int:
    return sum(record[2] for record in records)


#: Each program with what plain Python makes of its input.
PROGRAMS: dict[str, tuple[Callable[[Any], Any], Callable[[list[Record]], dict[Any, Any]]]] = {
    "sum": (summed, lambda records: by_key(records, total)),
    "reduce": (reduced, lambda records: by_key(records, lambda found: sorted(record[2] for record in found))),
    "window": (
        windowed,
        lambda records: by_key(records, total, lambda record: (record[0], record[1] - record[1] % WINDOW_MS)),
    ),
    "slices, combined": (sliding, of_sliding),
    "sessions": (sessions, of_sessions),
    "timers": (timed, lambda records: by_key(records, lambda found: sorted(record[2] for record in found))),
    "two inputs": (
        connected,
        lambda records: by_key(
            records, lambda found: sum(record[2] * (1_000 if record[2] % 2 else 1) for record in found)
        ),
    ),
}


@dataclass(frozen=True)
class Case:
    """A program, its input, and the circumstances."""

    program: str
    records: list[Record]
    stamped: bool
    parallelism: int
    sort: str
    combine: bool
    #: The bytes of input for each subtask of a vertex that says nothing of its parallelism.
    volume: str
    file_bytes: int
    retries: float
    seed: int


RECORD = st.tuples(st.integers(0, 5), st.integers(0, 60), st.integers(0, 99))
CASES = st.builds(
    Case,
    program=st.sampled_from(sorted(PROGRAMS)),
    records=st.lists(RECORD, max_size=60),
    stamped=st.booleans(),
    parallelism=st.integers(1, 3),
    sort=st.sampled_from(SORT_BYTES),
    combine=st.booleans(),
    volume=st.sampled_from(["1 b", "150 b", "16 mb"]),
    file_bytes=st.sampled_from([1, 200, 1 << 20]),
    retries=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 99),
)


def run(case: Case, mode: str) -> list[Any]:
    configuration = Configuration.from_dict(
        {
            "execution.sorted-inputs.memory": case.sort,
            "penstock.batch.combine": str(case.combine).lower(),
            "execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task": case.volume,
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(case.parallelism).set_runtime_mode(RuntimeExecutionMode[mode])
    stream: Any = env.from_collection(case.records)
    if case.stamped or case.program in {"window", "slices, combined", "sessions", "timers", "two inputs"}:
        stream = stream.assign_timestamps_and_watermarks(STAMPED)
    return list(PROGRAMS[case.program][0](stream.rebalance()).execute_and_collect())


def final(results: list[Any]) -> dict[Any, Any]:
    """Return the last result of each key."""
    return {result[0]: result[1] for result in results}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=CASES)
@pytest.mark.behaviour(155)
def test_both_modes_give_the_final_result_of_plain_python(case: Case) -> None:
    place = Path(tempfile.mkdtemp())
    patch = pytest.MonkeyPatch()
    try:
        patch.setattr(results, "FILE_BYTES", case.file_bytes)
        Cluster(place, chaos=Chaos(retries=case.retries), seed=case.seed).patch(patch)
        expected = PROGRAMS[case.program][1](case.records)
        batch = run(case, "BATCH")
        assert final(batch) == expected
        assert len(batch) == len(expected)  # no updates
        assert final(run(case, "STREAMING")) == expected
    finally:
        patch.undo()
        shutil.rmtree(place)

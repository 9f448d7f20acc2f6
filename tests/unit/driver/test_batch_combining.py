"""What batch jobs combine before a shuffle: aggregates of windows that say so, in windows that a record tells."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from tests.kit.without_spark import Cluster, instructions

from penstock._engine.coordinator import instructions as do
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.functions import (
    AggregateFunction,
    CheckpointedFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    EndOfStreamWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: (key, timestamp, number)
RECORDS = [(number % 3, number * 7 % 50, number) for number in range(300)]
KEYS, SUBTASKS = 3, 2
TUMBLING, SLIDING = TumblingEventTimeWindows(10, 3), SlidingEventTimeWindows(10, 4, 1)


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


STAMPED = WatermarkStrategy.no_watermarks().with_timestamp_assigner(Stamp())


class Mean(AggregateFunction):
    """The mean and the number of the numbers; it changes its accumulator in place."""

    def create_accumulator(self) -> Any:
        return [0, 0]

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] += value[2]
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1], accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        pytest.fail("it has not said that its accumulators may be merged")


class Combinable(Mean):
    combinable = True

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        acc_a[0] += acc_b[0]
        acc_a[1] += acc_b[1]
        return acc_a


class Remembering(Combinable, CheckpointedFunction):
    def initialize_state(self, context: Any) -> None: ...

    def snapshot_state(self, context: Any) -> None: ...


class Told(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        [element] = elements
        yield key, context.window(), element


class ToldOfAll(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        [element] = elements
        yield None, context.window(), element


class Run:
    """What a program gives in batch mode, and how many records crossed its shuffle."""

    def __init__(
        self,
        cluster: Cluster,
        build: Callable[[Any], Any],
        *,
        stamped: bool = True,
        records: Any = RECORDS,
        **more: str,
    ) -> None:
        seen: list[Any] = []
        cluster.watch = lambda loop: seen.append(instructions(loop))  # type: ignore[method-assign]
        configuration = {"execution.batch.adaptive.auto-parallelism.enabled": "false", **more}
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration))
        env.set_parallelism(SUBTASKS).set_runtime_mode(RuntimeExecutionMode.BATCH)
        stream: Any = env.from_collection(records)
        if stamped:
            stream = stream.assign_timestamps_and_watermarks(STAMPED)
        self.results = list(build(stream.rebalance().map(lambda record: record)).execute_and_collect())
        acks = [ack for step in seen[0] if isinstance(step, do.PublishProgress) for ack in step.acks]
        self.crossed = sum(ack.io.records_out for ack in acks if ack.vertex == 1)


def by_key(record: Any) -> Any:
    return record[0]


def expected(assigner: Any, key: Callable[[Any], Any] = by_key) -> dict[Any, Any]:
    """Return what plain Python makes of the records."""
    held: dict[Any, list[Any]] = defaultdict(list)
    for record in RECORDS:
        for window in assigner.assign_windows(record, record[1], None):
            held[key(record), window].append(record[2])
    return {place: (sum(numbers) / len(numbers), len(numbers)) for place, numbers in held.items()}


@pytest.mark.behaviour(155)
@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING, EndOfStreamWindows.get()], ids=repr)
def test_an_aggregate_that_says_so_is_combined_by_key_and_window(cluster: Cluster, assigner: Any) -> None:
    plain = Run(cluster, lambda stream: stream.key_by(by_key).window(assigner).aggregate(Mean(), Told()))
    combined = Run(cluster, lambda stream: stream.key_by(by_key).window(assigner).aggregate(Combinable(), Told()))
    off = Run(
        cluster,
        lambda stream: stream.key_by(by_key).window(assigner).aggregate(Combinable(), Told()),
        **{"penstock.batch.combine": "false"},
    )
    whole = expected(assigner)
    for run in (plain, combined, off):
        assert {(key, window): result for key, window, result in run.results} == whole
        assert len(run.results) == len(whole)
    assert plain.crossed == off.crossed == len(RECORDS)
    assert combined.crossed <= SUBTASKS * KEYS * 26 < len(RECORDS)  # so many slices there are at most


def test_windows_of_all_records_are_combined_too_and_accumulators_have_their_type(cluster: Cluster) -> None:
    accumulators = Types.LIST(Types.LONG())
    run = Run(
        cluster,
        lambda stream: stream.window_all(TUMBLING).aggregate(Combinable(), ToldOfAll(), accumulator_type=accumulators),
    )
    assert {(key, window): result for key, window, result in run.results} == expected(TUMBLING, lambda _: None)
    assert run.crossed <= SUBTASKS * 7


class Joined(ReduceFunction):
    """Neither commutative, nor of records of its own."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], 0, [*value1[2], *value2[2]]


class Apart(Joined):
    combinable = False


LISTED = [(key, stamp, [number]) for key, stamp, number in RECORDS]


@pytest.mark.parametrize("assigner", [GlobalWindows.create_with_end_of_stream_trigger(), EndOfStreamWindows.get()])
def test_a_reduce_is_combined_in_windows_of_everything_without_timestamps(cluster: Cluster, assigner: Any) -> None:
    def build(function: Any) -> Callable[[Any], Any]:
        return lambda stream: stream.key_by(by_key).window(assigner).reduce(function)

    combined = Run(cluster, build(Joined()), stamped=False, records=LISTED)
    apart = Run(cluster, build(Apart()), stamped=False, records=LISTED)
    assert sorted(combined.results) == sorted(apart.results)
    assert (combined.crossed, apart.crossed) == (SUBTASKS * KEYS, len(RECORDS))
    # Timestamps order the records of a key.
    ordered = Run(cluster, build(Joined()), records=LISTED)
    assert {key: found for key, _, found in ordered.results} == {
        key: [number for _, number in sorted((stamp, number) for k, stamp, number in RECORDS if k == key)]
        for key in range(KEYS)
    }
    assert ordered.crossed == len(RECORDS)


NOT_COMBINED: dict[str, Callable[[Any], Any]] = {
    "sessions": lambda keyed: keyed.window(EventTimeSessionWindows(4)).aggregate(Combinable()),
    "counts": lambda keyed: keyed.count_window(5).aggregate(Combinable()),
    "a trigger": lambda keyed: keyed.window(TUMBLING).trigger(PurgingTrigger(CountTrigger(2))).aggregate(Combinable()),
    "an evictor": lambda keyed: keyed.window(TUMBLING).evictor(CountEvictor.of(1)).aggregate(Combinable()),
    "late records": lambda keyed: keyed.window(TUMBLING).side_output_late_data(OutputTag("l")).aggregate(Combinable()),
    "operator state": lambda keyed: keyed.window(TUMBLING).aggregate(Remembering()),
    "a reduce of time": lambda keyed: keyed.window(TUMBLING).reduce(lambda a, b: (a[0], a[1], a[2] + b[2])),
    "min_by": lambda keyed: keyed.min_by(2),
}


@pytest.mark.parametrize("what", NOT_COMBINED)
def test_what_depends_on_each_record_gets_each_record(cluster: Cluster, what: str) -> None:
    assert Run(cluster, lambda stream: NOT_COMBINED[what](stream.key_by(by_key))).crossed == len(RECORDS)


class Long(AggregateFunction):
    """Accumulators that grow with each record."""

    combinable: ClassVar[bool] = True

    def create_accumulator(self) -> Any:
        return ""

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + "-" * 100

    def get_result(self, accumulator: Any) -> Any:
        return len(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


def test_partial_results_that_grow_go_before_they_take_the_memory_of_the_sort(cluster: Cluster) -> None:
    many = [(0, 0, 0)] * 40_000
    everything = GlobalWindows.create_with_end_of_stream_trigger()
    run = Run(
        cluster,
        lambda stream: stream.key_by(by_key).window(everything).aggregate(Long()),
        records=many,
        **{"execution.sorted-inputs.memory": "2 mb"},
    )
    assert run.results == [100 * len(many)]
    assert 2 < run.crossed < 20


def test_partial_results_of_more_keys_than_a_sender_holds_are_sent_early_and_combined(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock._engine.operators.functions.combine._MOST_KEYS", 10)
    many = [(number % 40, 0, [number]) for number in range(20_000)]
    everything = GlobalWindows.create_with_end_of_stream_trigger()

    def build(stream: Any) -> Any:
        return stream.key_by(by_key).window(everything).reduce(Joined())

    run = Run(cluster, build, stamped=False, records=many)
    assert {key: sorted(found) for key, _, found in run.results} == {
        key: list(range(key, 20_000, 40)) for key in range(40)
    }
    assert len(run.results) == 40
    assert run.crossed > SUBTASKS * 40


def test_a_window_that_never_ends_takes_its_records_one_by_one(cluster: Cluster) -> None:
    many = [(0, (1 << 63) - 1, number) for number in range(10)] + [(0, 5, 1)]
    run = Run(
        cluster, lambda stream: stream.key_by(by_key).window(TUMBLING).aggregate(Combinable(), Told()), records=many
    )
    assert [(key, window.start, result) for key, window, result in run.results] == [(0, 3, (1.0, 1))]
    [driver] = cluster.drivers
    assert driver.result.result(10).get_late_records_dropped() == {"Window": 10}

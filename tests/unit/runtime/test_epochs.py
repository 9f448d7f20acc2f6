"""Whole epochs in this process: graphs of several levels, what travels through them, and what epochs leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.epochs import Job, in_order, run
from tests.kit.program import Program

from penstock.datastream.functions import AggregateFunction, KeyedProcessFunction, ProcessFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.in_process import Chaos, InProcessEpochRunner

if TYPE_CHECKING:
    from pathlib import Path

ODD = OutputTag("odd")
LATE = OutputTag("late")


class SplitOdd(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield (ODD, value) if value % 2 else value


def add(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_a_keyed_reduce_over_two_sources_sees_every_record_once(program: Program, tmp_path: Path) -> None:
    left = program.source([("a", 1), ("b", 2)], [("a", 3)], name="left").set_parallelism(2)
    right = program.source([("b", 4)], name="right")
    program.collect(left.union(right).key_by(lambda pair: pair[0]).reduce(add).set_parallelism(3))
    totals = dict(sorted(run(program, tmp_path)["out"], key=lambda pair: pair[1]))
    assert totals == {"a": 4, "b": 6}


@pytest.mark.behaviour(189)
def test_an_edge_that_skips_levels_brings_its_records_in_order(program: Program, tmp_path: Path) -> None:
    source = program.source(list(range(50)))
    deep = source.rebalance().map(lambda n: n + 1000).set_parallelism(3)
    deep = deep.rebalance().map(lambda n: n + 1000).set_parallelism(2)
    deep = deep.rebalance().map(lambda n: n + 1000).set_parallelism(3)
    program.collect(deep.union(source).rebalance().map(lambda n: n).set_parallelism(1))
    out = run(program, tmp_path, slots=3)["out"]
    assert [n for n in out if n < 1000] == list(range(50))
    assert sorted(n - 3000 for n in out if n >= 3000) == list(range(50))


def test_side_outputs_reach_other_vertices_and_the_same_chain(program: Program, tmp_path: Path) -> None:
    split = program.source(list(range(10))).process(SplitOdd())
    program.collect(split, "even")
    program.collect(split.get_side_output(ODD).map(lambda n: -n), "chained")
    program.collect(split.get_side_output(ODD).key_by(lambda n: n % 3).map(lambda n: n).set_parallelism(2), "other")
    out = run(program, tmp_path)
    assert out["even"] == [0, 2, 4, 6, 8]
    assert out["chained"] == [-1, -3, -5, -7, -9]
    assert sorted(out["other"]) == [1, 3, 5, 7, 9]


def test_broadcast_reaches_every_subtask(program: Program, tmp_path: Path) -> None:
    stream = program.source([1, 2, 3]).broadcast().map(lambda n: n).set_parallelism(3)
    program.collect(stream)
    assert sorted(run(program, tmp_path)["out"]) == sorted([1, 2, 3] * 3)


@pytest.mark.behaviour(183)
def test_a_result_leaves_in_the_epoch_whose_watermark_closes_its_window(program: Program, tmp_path: Path) -> None:
    times = [("a", time) for time in range(0, 40, 5)]
    windows = program.source(times, timestamps=in_order()).key_by(lambda record: record[0])
    counted = windows.window(TumblingEventTimeWindows(10, 0)).reduce(lambda a, b: (a[0], max(a[1], b[1])))
    program.collect(counted.key_by(lambda record: record[0]).map(lambda record: record))
    job = Job(program.graph(), tmp_path)
    assert [job.epoch(3).get("out") for _ in range(3)] == [[("a", 5)], [("a", 15)], [("a", 25), ("a", 35)]]
    assert job.finished


def test_no_record_is_late_because_channels_are_read_one_after_the_other(program: Program, tmp_path: Path) -> None:
    lists = [[("a", time) for time in range(start, 300, 7)] for start in range(3)]
    source = program.source(*lists, timestamps=in_order()).set_parallelism(3)
    relayed = source.rebalance().map(lambda record: record).set_parallelism(2)
    windows = relayed.key_by(lambda record: "all").window(TumblingEventTimeWindows(10, 0)).side_output_late_data(LATE)
    counted = windows.aggregate(Count())
    program.collect(counted)
    program.collect(counted.get_side_output(LATE), "late")
    out = run(program, tmp_path, slots=3, runner=InProcessEpochRunner(workers=2, seed=3))
    assert sum(out["out"]) == sum(map(len, lists))
    assert "late" not in out


@pytest.mark.behaviour(183)
def test_timers_fire_between_the_records_where_the_watermark_of_one_channel_stands(
    program: Program, tmp_path: Path
) -> None:
    source = program.source([("a", time) for time in (0, 10, 20, 30)], timestamps=in_order())
    program.collect(source.key_by(lambda record: record[0]).process(Echo()))
    out = Job(program.graph(), tmp_path).run()["out"]
    assert out == [0, 10, ("timer", 5), 20, ("timer", 15), 30, ("timer", 25), ("timer", 35)]


def test_outputs_too_large_for_an_ack_arrive_whole(program: Program, tmp_path: Path) -> None:
    program.collect(program.source(["x" * 1000] * 200))
    job = Job(program.graph(), tmp_path)
    job.epoch()
    [ack] = job.acks.values()
    assert any(part.outputs_path is not None for part in ack.operators.values())
    assert job.outputs["out"] == ["x" * 1000] * 200


def test_a_record_of_many_megabytes_passes_through_a_shuffle_and_a_carrier(program: Program, tmp_path: Path) -> None:
    source = program.source([("k", b"x" * (9 << 20))])
    around = source.rebalance().map(lambda record: ("k", b"short")).set_parallelism(2)
    around = around.rebalance().map(lambda record: record).set_parallelism(1)
    joined = around.union(source).key_by(lambda record: record[0]).map(lambda record: len(record[1])).set_parallelism(2)
    program.collect(joined)
    assert sorted(run(program, tmp_path)["out"]) == [5, 9 << 20]


def test_state_goes_on_after_a_restart_from_the_last_checkpoint(program: Program, tmp_path: Path) -> None:
    program.collect(program.source([("a", 1)] * 6).key_by(lambda pair: pair[0]).reduce(add))
    job = Job(program.graph(), tmp_path)
    assert job.epoch(2)["out"] == [("a", 1), ("a", 2)]
    job.try_epoch(2)  # fails before it is accepted
    assert job.restarted().epoch(2)["out"] == [("a", 3), ("a", 4)]


def test_an_epoch_that_was_not_accepted_never_happened_for_state_timers_and_sources(
    program: Program, tmp_path: Path
) -> None:
    source = program.source([("a", time) for time in range(8)], timestamps=in_order())
    program.collect(source.key_by(lambda record: record[0]).process(Numbered()))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(workers=2))
    seen: list[Any] = []
    while not job.finished:
        for _ in range(3):
            job.try_epoch(3)
        seen += job.epoch(3)["out"]
    assert seen == [1, 2, 3, 4, 5, 6, 7, 8, "timer"]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_task_that_runs_twice_in_one_worker_does_not_apply_its_records_twice(
    program: Program, tmp_path: Path, workers: int
) -> None:
    program.collect(program.source([("a", 1)] * 20).key_by(lambda pair: pair[0]).reduce(add))
    runner = InProcessEpochRunner(workers=workers, chaos=Chaos(retries=1.0))
    assert run(program, tmp_path, runner=runner)["out"] == [("a", n) for n in range(1, 21)]


def test_readers_of_different_attempts_void_the_epoch(program: Program, tmp_path: Path) -> None:
    program.collect(
        program.source([("a", 1), ("b", 1)] * 20).key_by(lambda pair: pair[0]).reduce(add).set_parallelism(4)
    )
    runner = InProcessEpochRunner(chaos=Chaos(mixtures=0.5), seed=1)
    job = Job(program.graph(), tmp_path, runner, slots=4)
    out = job.run(7)["out"]
    assert job.voids > 0
    assert sorted(out) == sorted((key, n) for key in "ab" for n in range(1, 21))


def test_metrics_of_operators_reach_the_driver_as_numbers(program: Program, tmp_path: Path) -> None:
    source = program.source([("a", 50), ("a", 1), ("a", 2)], timestamps=in_order()).key_by(lambda record: record[0])
    program.collect(source.window(TumblingEventTimeWindows(10, 0)).reduce(add))
    job = Job(program.graph(), tmp_path)
    job.epoch(1)
    job.epoch(2)
    metrics = [part.metrics for ack in job.acks.values() for part in ack.operators.values() if part.metrics]
    assert {"numLateRecordsDropped": 2} in metrics


@pytest.mark.behaviour(1)
def test_finished_subtasks_are_not_scheduled_again_while_others_go_on(program: Program, tmp_path: Path) -> None:
    source = program.source([1], [2, 3, 4, 5], name="uneven").set_parallelism(2)
    program.collect(source.rescale().map(lambda n: n).set_parallelism(2))
    program.collect(source.rebalance().map(lambda n: n).set_parallelism(1), "all")
    job = Job(program.graph(), tmp_path)
    job.epoch(1)
    job.epoch(1)
    before = {place: ack.checkpoint_id for place, ack in job.acks.items()}
    job.epoch(1)
    stopped = {place for place, ack in job.acks.items() if ack.checkpoint_id == before[place]}
    assert (0, 0) in stopped
    assert (0, 1) not in stopped
    assert sorted(job.run(1)["all"]) == [1, 2, 3, 4, 5]


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Echo(KeyedProcessFunction):
    """Emits the time of each record, and a timer 5 ms behind it."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value[1] + 5)
        yield value[1]

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "timer", timestamp


class Numbered(KeyedProcessFunction):
    """Numbers the records of a key; one timer at the end."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(100)
        yield self.count.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "timer"

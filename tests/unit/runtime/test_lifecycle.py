"""When functions are opened, told of the end, and closed; what workers keep of them between epochs."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.epochs import Job, in_order
from tests.kit.program import Program

from penstock._engine.protocol.control import HISTORY
from penstock._engine.runtime.worker_cache import WorkerCache
from penstock.datastream.connectors.base import Sink, SinkWriter
from penstock.datastream.functions import KeyedProcessFunction, KeySelector, MapFunction, Partitioner
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing.clock import ManualClock
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from pathlib import Path

#: What functions did, as (name, what); they are found by name, so this is the one list of this process.
CALLS: list[tuple[str, Any]] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


class Noted(MapFunction):
    """Notes its life."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, runtime_context: Any) -> None:
        CALLS.append((self.name, "open"))

    def map(self, value: Any) -> Any:
        CALLS.append((self.name, value))
        return value

    def close(self) -> None:
        CALLS.append((self.name, "close"))


class NotedTimers(KeyedProcessFunction):
    """Notes its life; each key has a timer far in the future."""

    def open(self, runtime_context: Any) -> None:
        CALLS.append(("timers", "open"))
        self.opened_with = runtime_context.get_state(ValueStateDescriptor("any"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        CALLS.append(("timers", value[1]))
        ctx.timer_service().register_event_time_timer(1_000_000)
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        CALLS.append(("timers", "timer"))
        yield ctx.get_current_key(), "from timer"

    def close(self) -> None:
        CALLS.append(("timers", "close"))


class NotedSink(Sink[Any]):
    def create_writer(self, context: Any) -> SinkWriter[Any]:
        return NotedWriter()


class NotedWriter(SinkWriter[Any]):
    def write(self, element: Any, context: Any = None) -> None:
        CALLS.append(("sink", element))

    def write_all(self, elements: Any, timestamps: Any = None) -> None:
        for element in elements:
            self.write(element)

    def flush(self, end_of_input: bool) -> None:
        CALLS.append(("sink", "end" if end_of_input else "flush"))

    def close(self) -> None:
        CALLS.append(("sink", "close"))


def test_open_comes_before_the_first_record_and_close_behind_the_last(program: Program, tmp_path: Path) -> None:
    program.collect(program.source([1, 2]).map(Noted("f")))
    Job(program.graph(), tmp_path).run(1)
    assert CALLS == [("f", "open"), ("f", 1), ("f", 2), ("f", "close")]


@pytest.mark.behaviour(38, 39)
def test_the_end_of_a_job_runs_from_head_to_tail(program: Program, tmp_path: Path) -> None:
    source = program.source([("a", 1)], timestamps=in_order())
    source.key_by(lambda record: record[0]).process(NotedTimers()).map(Noted("map")).sink_to(NotedSink())
    Job(program.graph(), tmp_path).run()
    by_name = {name: [what for other, what in CALLS if other == name] for name in ("timers", "map", "sink")}
    # The last watermark fires the timer, and its result goes all the way before the writer is told of the end.
    assert by_name == {
        "timers": ["open", 1, "timer", "close"],
        "map": ["open", ("a", 1), ("a", "from timer"), "close"],
        "sink": [("a", 1), ("a", "from timer"), "end", "close"],
    }
    assert CALLS.index(("sink", "end")) < CALLS.index(("timers", "close"))


@pytest.mark.behaviour(40)
def test_a_job_that_goes_on_is_told_of_no_end(program: Program, tmp_path: Path) -> None:
    source = program.source([("a", 1), ("a", 2)], timestamps=in_order())
    source.key_by(lambda record: record[0]).process(NotedTimers()).sink_to(NotedSink())
    Job(program.graph(), tmp_path).epoch(1)
    assert not {("timers", "timer"), ("sink", "end"), ("timers", "close")} & set(CALLS)
    assert ("sink", "flush") in CALLS


@pytest.mark.behaviour(26)
def test_the_end_comes_only_once_all_inputs_have_ended(program: Program, tmp_path: Path) -> None:
    short = program.source([("short", 1)], name="short")
    long = program.source([("long", n) for n in range(4)], name="long")
    short.union(long).key_by(lambda record: "all").map(lambda record: record).sink_to(NotedSink())
    job = Job(program.graph(), tmp_path)
    for _ in range(3):
        job.epoch(1)
    assert ("sink", "end") not in CALLS
    job.run(1)
    assert CALLS.count(("sink", "end")) == 1
    assert CALLS.index(("sink", ("long", 3))) < CALLS.index(("sink", "end"))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.behaviour(44)
def test_a_function_is_opened_no_more_often_than_there_are_subtasks_times_workers(
    program: Program, tmp_path: Path, workers: int
) -> None:
    keyed = program.source([("a", n) for n in range(50)]).key_by(lambda record: record[1])
    program.collect(keyed.process(NotedTimers()).set_parallelism(2).map(Noted("map")).set_parallelism(2))
    runner = InProcessEpochRunner(workers=workers, seed=5)
    job = Job(program.graph(), tmp_path, runner)
    for _ in range(50):
        job.epoch(1)
    opened = Counter(name for name, what in CALLS if what == "open")
    assert opened["map"] <= 2 * workers
    assert opened["timers"] <= 2 * workers
    assert len(job.outputs["out"]) >= 50


@pytest.mark.behaviour(45)
def test_a_job_that_ended_leaves_no_open_function(program: Program, tmp_path: Path) -> None:
    program.collect(program.source([("a", n) for n in range(9)]).map(Noted("f")).rebalance().map(Noted("g")))
    runner = InProcessEpochRunner(workers=2, seed=1)
    job = Job(program.graph(), tmp_path, runner)
    job.run(2)
    runner.close()
    for name in ("f", "g"):
        assert 0 < CALLS.count((name, "open")) == CALLS.count((name, "close"))


def test_an_entry_of_an_epoch_that_was_not_accepted_is_dropped_and_closed(program: Program, tmp_path: Path) -> None:
    program.collect(program.source([1, 2, 3]).map(Noted("f")))
    job = Job(program.graph(), tmp_path)
    job.epoch(1)
    job.try_epoch(1)
    CALLS.clear()
    job.epoch(1)
    assert CALLS == [("f", "close"), ("f", "open"), ("f", 2)]


class NotedSubtask(Noted):
    """Notes its life with its subtask's number."""

    def open(self, runtime_context: Any) -> None:
        self.name += str(runtime_context.get_index_of_this_subtask())
        super().open(runtime_context)


def open_now(name: str) -> int:
    return CALLS.count((name, "open")) - CALLS.count((name, "close"))


def test_a_subtask_that_has_finished_is_soon_closed_in_the_workers_that_had_it_before(
    program: Program, tmp_path: Path
) -> None:
    numbers = program.source([1] * 6, list(range(60)))
    program.collect(numbers.set_parallelism(2).map(NotedSubtask("f")).set_parallelism(2))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(workers=3, seed=5))
    for _ in range(6):
        job.epoch(1)
    assert job.acks[0, 0].finished
    assert open_now("f0") == 3, "nobody knows yet that its last epoch counts"
    for _ in range(10):
        job.epoch(1)
    assert (open_now("f0"), open_now("f1")) == (0, 3)


@pytest.mark.behaviour(38)
def test_a_level_that_has_finished_is_closed_when_its_last_epoch_counts_though_the_level_has_no_task_any_more(
    program: Program, tmp_path: Path
) -> None:
    program.collect(program.source([1]).rebalance().map(NotedSubtask("f")).set_parallelism(2), "short")
    program.collect(program.source(list(range(9))), "long")
    job = Job(program.graph(), tmp_path)
    job.epoch(1)
    assert (open_now("f0"), open_now("f1")) == (1, 1)
    job.epoch(1)
    assert (open_now("f0"), open_now("f1")) == (0, 0)


def test_a_subtask_of_a_void_epoch_is_closed_in_a_worker_that_does_not_run_it_again(
    program: Program, tmp_path: Path
) -> None:
    program.collect(program.source(list(range(9))).map(Noted("f")))
    job = Job(program.graph(), tmp_path)
    job.try_epoch(1)
    [first_worker] = job.runner.workers
    job.runner.workers = [WorkerCache()]
    job.epoch(1)
    assert open_now("f") == 2
    first_worker.turn_to(job.task())
    assert open_now("f") == 1


def test_what_another_slot_runs_is_closed_when_its_epoch_was_void_or_is_long_past(
    program: Program, tmp_path: Path
) -> None:
    program.collect(program.source(list(range(9))).rebalance().map(NotedSubtask("f")).set_parallelism(2))
    job = Job(program.graph(), tmp_path)
    job.try_epoch(2)
    [worker] = job.runner.workers
    own = job.task(level=1, slot=1)
    worker.turn_to(own)
    assert (open_now("f0"), open_now("f1")) == (1, 1), "it may be the epoch that runs"
    worker.turn_to(replace(own, level=replace(own.level, attempt=2)))
    assert (open_now("f0"), open_now("f1")) == (0, 0)
    job.epoch(2)
    own = job.task(level=1, slot=1)
    worker.turn_to(replace(own, level=replace(own.level, checkpoint_id=1 + HISTORY)))
    assert (open_now("f0"), open_now("f1")) == (1, 1)
    worker.turn_to(replace(own, level=replace(own.level, checkpoint_id=2 + HISTORY)))
    assert (open_now("f0"), open_now("f1")) == (0, 1), "its own dispatch still names it"


def test_a_subtask_that_the_driver_has_forgotten_in_a_worker_is_closed_there(program: Program, tmp_path: Path) -> None:
    program.collect(program.source(list(range(9))).map(Noted("f")))
    job = Job(program.graph(), tmp_path)
    job.epoch(1)
    [first_worker] = job.runner.workers
    job.runner.workers = [WorkerCache()]
    for _ in range(3):
        job.epoch(1)
    first_worker.turn_to(job.task())
    assert open_now("f") == 2
    job.history[0, 0] = job.history[0, 0][1:]
    first_worker.turn_to(job.task())
    assert open_now("f") == 1


def test_a_run_that_is_released_leaves_nothing_open_and_other_runs_alone(program: Program, tmp_path: Path) -> None:
    program.collect(program.source(list(range(9))).map(Noted("f")))
    job = Job(program.graph(), tmp_path)
    job.epoch(1)
    [worker] = job.runner.workers
    worker.release("another run")
    assert open_now("f") == 1
    worker.release(job.run_id)
    assert open_now("f") == 0
    assert job.epoch(1)["out"] == [1]


def test_a_function_that_fails_to_close_when_nothing_depends_on_it_is_logged(program: Program, tmp_path: Path) -> None:
    class Fails(Noted):
        def close(self) -> None:
            raise ValueError("no")

    program.collect(program.source([1, 2, 3]).map(Fails("f")).name("fails"))
    job = Job(program.graph(), tmp_path)
    job.epoch(1)
    job.try_epoch(1)
    assert job.epoch(1)["out"] == [2]
    assert "fails (0) failed to close" in next(line.message for line in job.log if "failed to close" in line.message)


def test_an_entry_of_an_accepted_epoch_goes_on_without_opening_again(program: Program, tmp_path: Path) -> None:
    program.collect(program.source([1, 2, 3]).map(Noted("f")))
    job = Job(program.graph(), tmp_path)
    job.epoch(1)
    CALLS.clear()
    job.epoch(1)
    assert CALLS == [("f", 2)]


def test_a_restarted_job_and_another_run_use_nothing_that_is_kept(program: Program, tmp_path: Path) -> None:
    program.collect(program.source([1, 2, 3, 4]).map(Noted("f")))
    job = Job(program.graph(), tmp_path)
    job.epoch(1)
    for later in (job.restarted(), Job(job.graph, tmp_path, job.runner, run_id="run-2")):
        CALLS.clear()
        later.epoch(1)
        assert CALLS[:2] == [("f", "close"), ("f", "open")]


class NotedKey(Noted, KeySelector):
    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        CALLS.append((runtime_context.get_task_name(), runtime_context.get_index_of_this_subtask()))
        self.opened_in = runtime_context.get_task_name()

    def get_key(self, value: Any) -> Any:
        assert self.opened_in
        return value


def test_a_key_selector_is_opened_before_it_is_asked_on_both_sides_of_the_edge(
    program: Program, tmp_path: Path
) -> None:
    records = program.source([1, 2, 3]).name("numbers")
    program.collect(records.key_by(NotedKey("key")).reduce(max).name("largest").set_parallelism(2))
    runner = InProcessEpochRunner()
    assert sorted(Job(program.graph(), tmp_path, runner).run(2)["out"]) == [1, 2, 3]
    runner.close()
    assert Counter(CALLS) == {
        ("key", "open"): 3,
        ("key", "close"): 3,
        ("numbers", 0): 1,
        ("largest", 0): 1,
        ("largest", 1): 1,
    }


class NotedPartitioner(Partitioner):
    def open(self, runtime_context: Any) -> None:
        CALLS.append(("partitioner", "open"))

    def partition(self, key: Any, num_partitions: int) -> int:
        CALLS.append(("partitioner", key))
        return key % num_partitions

    def close(self) -> None:
        CALLS.append(("partitioner", "close"))


def test_a_partitioner_is_opened_and_closed_by_the_sender(program: Program, tmp_path: Path) -> None:
    parted = program.source([1, 2]).partition_custom(NotedPartitioner(), lambda record: record)
    program.collect(parted.map(lambda record: record).set_parallelism(2))
    Job(program.graph(), tmp_path).run()
    assert [what for _, what in CALLS] == ["open", 1, 2, "close"]


def test_functions_of_an_edge_are_closed_once_after_a_failure(program: Program, tmp_path: Path) -> None:
    class Fails(Noted):
        def map(self, value: Any) -> Any:
            raise ValueError(value)

    class FailsToOpen(NotedPartitioner):
        def open(self, runtime_context: Any) -> None:
            super().open(runtime_context)
            raise ValueError("no key")

    parted = program.source([1, 2]).partition_custom(NotedPartitioner(), lambda record: record)
    program.collect(parted.map(Fails("f")).set_parallelism(2))
    failed = Job(program.graph(), tmp_path)
    assert failed.try_epoch().failures
    failed.runner.close()
    second = Program(tmp_path)
    second.collect(second.source([1]).partition_custom(FailsToOpen(), lambda record: record).map(Fails("g")))
    never_opened = Job(second.graph(), tmp_path)
    [failure] = never_opened.try_epoch().failures
    assert (failure.operator, failure.error) == ("Map", "ValueError: no key")
    for calls in (CALLS.count(("partitioner", what)) for what in ("open", "close")):
        assert calls == 2
    assert CALLS.count(("f", "open")) == CALLS.count(("f", "close")) == 2


@pytest.mark.behaviour(184)
def test_processing_time_timers_fire_in_the_first_epoch_that_runs_when_they_are_due(
    program: Program, tmp_path: Path
) -> None:
    class Later(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 1000)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield ctx.get_current_key(), timestamp

    clock = ManualClock(5_000)
    keyed = program.source(["a", "b", "c"]).key_by(lambda record: record)
    program.collect(keyed.process(Later()))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(workers=2, clock=clock.now_ms))
    assert job.epoch(1) == {}
    assert job.acks[1, 0].next_timer_ms == 6_000
    clock.advance(999)
    assert job.epoch(1) == {}
    clock.advance(1)
    assert job.epoch(1)["out"] == [("a", 6_000)]


def test_what_functions_log_reaches_the_driver_with_operator_and_subtask(program: Program, tmp_path: Path) -> None:
    class Logs(MapFunction):
        def __init__(self, text: str) -> None:
            self.text = text

        def open(self, runtime_context: Any) -> None:
            logging.getLogger("user.open").info("open")

        def map(self, value: Any) -> Any:
            logging.getLogger("user").warning("%s %s", self.text, value)
            return value

    stream = program.source([1]).map(Logs("first")).name("one").map(Logs("second")).name("two")
    program.collect(stream.rebalance().map(Logs("third")).name("three").set_parallelism(2))
    job = Job(program.graph(), tmp_path)
    job.run()
    lines = [(line.operator, line.subtask, line.level, line.message) for line in job.log if line.logger == "user"]
    assert lines == [
        ("one", 0, logging.WARNING, "first 1"),
        ("two", 0, logging.WARNING, "second 1"),
        ("three", 0, logging.WARNING, "third 1"),
    ]
    opens = [(line.operator, line.subtask) for line in job.log if line.logger == "user.open"]
    assert sorted(opens) == [("one", 0), ("three", 0), ("three", 1), ("two", 0)]


def test_a_flood_of_log_lines_is_cut_and_says_so(program: Program, tmp_path: Path) -> None:
    def chatter(record: int) -> int:
        logging.getLogger("user").info("line %d", record)
        return record

    program.collect(program.source(list(range(1500))).map(chatter))
    job = Job(program.graph(), tmp_path)
    job.run()
    assert len(job.log) == 1001
    assert "500 more lines" in job.log[-1].message


def test_a_log_line_that_does_not_fit_its_arguments_does_not_fail_the_job(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(record: int) -> int:
        logging.getLogger("user").warning("%d", "no number")
        return record

    monkeypatch.setattr(logging, "raiseExceptions", False)
    logging.getLogger("user").propagate = True
    program.collect(program.source([1]).map(wrong))
    root_handlers, logging.getLogger().handlers = logging.getLogger().handlers, []
    try:
        assert Job(program.graph(), tmp_path).run()["out"] == [1]
    finally:
        logging.getLogger().handlers = root_handlers

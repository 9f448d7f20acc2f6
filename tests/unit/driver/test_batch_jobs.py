"""Whole batch jobs without Spark: what they give, what they leave, and drivers that die at every step."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import Threads
from tests.kit.without_spark import Cluster, instructions

from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.graph.combining import with_combiners
from penstock._engine.runtime.subtask_state import TransientState
from penstock.common import Configuration, Encoder, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.functions import (
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import CheckpointStorageError, ExecutorLostError, JobExecutionError, SavepointError, SortSpillError
from penstock.testing.failing_storage import FailingStorage
from penstock.testing.in_process import Chaos, InProcessEpochRunner
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def environment(parallelism: int = 2, **settings: str) -> StreamExecutionEnvironment:
    settings = {"execution.batch.adaptive.auto-parallelism.enabled": "false"} | settings
    configuration = Configuration.from_dict({key.replace("__", "."): value for key, value in settings.items()})
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
    return env.set_runtime_mode(RuntimeExecutionMode.BATCH)


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())


class Watching(KeyedProcessFunction):
    """Emits what it sees of time and state, and sets timers of both kinds, also while timers fire."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        timers = ctx.timer_service()
        self.seen.update((self.seen.value() or 0) + 1)
        timers.register_event_time_timer(value[1] + 100)
        timers.register_processing_time_timer(timers.current_processing_time() + 3_600_000)
        yield value[0], "record", value[1], timers.current_watermark()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        timers = ctx.timer_service()
        if ctx.time_domain().name == "PROCESSING_TIME":
            timers.register_processing_time_timer(timers.current_processing_time() + 1)
            yield ctx.get_current_key(), "processing", 0, timers.current_watermark()
            return
        if timestamp < 300:
            timers.register_event_time_timer(timestamp + 100)
        yield ctx.get_current_key(), "event", timestamp, self.seen.value()


MAX, MIN = 2**63 - 1, -(2**63)


@pytest.mark.behaviour(156)
def test_a_key_sees_its_records_in_time_then_all_its_timers_and_no_watermark_before(cluster: Cluster) -> None:
    env = environment(1)
    stream = env.from_collection([("a", 20), ("b", 5), ("a", 10)]).assign_timestamps_and_watermarks(STAMPED)
    found = list(stream.key_by(lambda value: value[0]).process(Watching()).execute_and_collect())
    of_a = [row[1:] for row in found if row[0] == "a"]
    assert of_a == [
        *[("record", 10, MIN), ("record", 20, MIN)],
        *[("event", at, 2) for at in (110, 120, 210, 220, 310, 320)],
        ("processing", 0, MAX),
        *[("processing", 0, MAX)] * (len([row for row in of_a if row[0] == "processing"]) - 1),
    ]
    assert [row[0] for row in found] == sorted(row[0] for row in found)  # one key after the other
    assert ("b", "event", 105, 1) in found


@pytest.mark.behaviour(155)
@pytest.mark.parametrize("combine", ["true", "false"])
def test_aggregations_give_one_result_for_each_key(cluster: Cluster, combine: str) -> None:
    numbers = [(number % 3, number, f"{number}") for number in range(50)]
    for call, place, expected in (
        ("sum", 1, {key: (key, sum(range(key, 50, 3)), f"{key}") for key in range(3)}),
        ("min", 1, {key: (key, key, f"{key}") for key in range(3)}),
        ("max", 1, {key: (key, [48, 49, 47][key], f"{key}") for key in range(3)}),
        ("max_by", 1, {key: (key, [48, 49, 47][key], f"{[48, 49, 47][key]}") for key in range(3)}),
    ):
        env = environment(penstock__batch__combine=combine)
        stream = env.from_collection(numbers).rebalance().map(lambda value: value).key_by(lambda value: value[0])
        found = list(getattr(stream, call)(place).execute_and_collect())
        assert sorted(row[:2] for row in found) == [row[:2] for row in expected.values()], call
        assert len(found) == 3


def test_a_reduce_folds_in_the_order_of_arrival_and_its_key_may_change(cluster: Cluster) -> None:
    letters = [(number % 2, chr(97 + number)) for number in range(26)]
    stream = environment(1).from_collection(letters).key_by(lambda value: value[0])
    found = list(stream.reduce(lambda a, b: (a[0] + b[0] + 7, a[1] + b[1])).execute_and_collect())
    assert sorted(text for _, text in found) == ["acegikmoqsuwy", "bdfhjlnprtvxz"]


def test_records_with_timestamps_are_reduced_in_their_order_and_not_combined(cluster: Cluster) -> None:
    values = [("k", 9, "c"), ("k", 1, "a"), ("k", 5, "b")]
    stream = environment(1).from_collection(values).assign_timestamps_and_watermarks(STAMPED)
    reduced = stream.key_by(lambda value: value[0]).reduce(lambda a, b: (a[0], 0, a[2] + b[2]))
    assert list(reduced.execute_and_collect()) == [("k", 0, "abc")]


def test_the_combining_operator_sends_one_record_for_each_key(cluster: Cluster) -> None:
    seen: list[Any] = []
    cluster.watch = lambda loop: seen.append(instructions(loop))  # type: ignore[method-assign]
    stream = environment(1).from_collection([("a", 1)] * 500 + [("b", 1)] * 500).key_by(lambda value: value[0])
    assert sorted(stream.sum(1).execute_and_collect()) == [("a", 500), ("b", 500)]
    acks = [ack for step in seen[0] if isinstance(step, do.PublishProgress) for ack in step.acks]
    assert sum(ack.io.records_out for ack in acks if ack.vertex == 0) == 2


def test_no_state_of_a_key_is_left_after_it(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    stores: list[Any] = []
    make = TransientState.keyed_state

    def noted(state: TransientState, uid: str) -> Any:
        stores.append(make(state, uid))
        return stores[-1]

    monkeypatch.setattr(TransientState, "keyed_state", noted)
    stream = environment(1).from_collection([(f"{number}", number) for number in range(20)])
    assert len(list(stream.key_by(lambda value: value[0]).process(Watching()).execute_and_collect())) > 20
    [store] = stores
    assert [pane.hot for table in store.tables for pane in table.panes.values() if pane.hot] == []


@pytest.mark.behaviour(61)
@pytest.mark.behaviour(158)
def test_checkpoints_savepoints_and_a_stop_are_refused_by_name(cluster: Cluster, tmp_path: Path) -> None:
    env, asked = environment(1), tmp_path / "asked"
    env.from_collection([1]).map(lambda value: held(value, asked)).print()
    client = env.execute_async()
    with pytest.raises(SavepointError, match=r"job [0-9a-f]{32} is not a streaming job"):
        client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    with pytest.raises(SavepointError, match="is not a streaming job"):
        client.trigger_savepoint(str(tmp_path / "savepoints")).result()
    asked.touch()
    client.get_job_execution_result().result()


def held(value: Any, note: Path) -> Any:
    """Return a value once there is a note, which is soon, or never if the test has failed."""
    deadline = time.monotonic() + 60
    while not note.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return value


def test_a_sort_that_finds_no_disk_fails_the_job_and_names_the_operator(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no directory")
    stream = environment(1).from_collection([1]).key_by(lambda value: value).process(Watching()).name("watching")
    with pytest.raises(JobExecutionError, match="watching") as raised:
        list(stream.execute_and_collect())
    assert isinstance(raised.value.__cause__, SortSpillError)


class WhereFunction(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.place = runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks()

    def map(self, value: Any) -> Any:
        return self.place


@pytest.mark.behaviour(159)
@pytest.mark.parametrize(
    ("volume", "most", "own", "expected"),
    [("16 mb", "128", None, 1), ("1 b", "128", None, 4), ("1 b", "3", None, 3), ("16 mb", "128", 2, 2)],
)
def test_a_vertex_has_as_many_subtasks_as_its_input_needs_unless_it_says_how_many(
    cluster: Cluster, volume: str, most: str, own: int | None, expected: int
) -> None:
    auto = "execution.batch.adaptive.auto-parallelism"
    settings = {f"{auto}.avg-data-volume-per-task": volume, f"{auto}.max-parallelism": most}
    env = environment(4, **settings, **{f"{auto}.enabled": "true"})
    where = env.from_collection(list(range(40))).rebalance().map(WhereFunction())
    found = list((where if own is None else where.set_parallelism(own)).execute_and_collect())
    assert len(found) == 40
    assert set(found) == {(index, expected) for index in range(expected)}


class Called(ReduceFunction):
    """Adds up, and keeps in a state how many times it did for the key."""

    def open(self, runtime_context: Any) -> None:
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.INT()))

    def reduce(self, value1: Any, value2: Any) -> Any:
        self.calls.update((self.calls.value() or 0) + 1)
        return value1[0], value1[1] + value2[1], self.calls.value()


def test_a_reduce_function_with_state_sees_all_records_of_its_key_and_no_combined_ones(cluster: Cluster) -> None:
    stream = environment().from_collection([(number % 3, 1, 0) for number in range(30)]).rebalance().map(lambda r: r)
    found = stream.key_by(lambda record: record[0]).reduce(Called()).execute_and_collect()
    assert sorted(found) == [(key, 10, 9) for key in range(3)]


class Counting(KeyedProcessFunction):
    """Tells at the end of a key how many records it had, and in which subtask."""

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(0)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield ctx.get_current_key(), self.subtask, self.count.value()


@pytest.mark.behaviour(159)
@pytest.mark.parametrize("recovers", ["false", "true"])
def test_subtasks_of_a_vertex_with_few_large_receivers_read_about_as_many_bytes_each(
    cluster: Cluster, tmp_path: Path, recovers: str
) -> None:
    auto = "execution.batch.adaptive.auto-parallelism"
    settings = {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.batch.job-recovery.enabled": recovers,
        f"{auto}.avg-data-volume-per-task": "100 kb",
        f"{auto}.max-parallelism": "4",
    }

    def counted(records: list[tuple[int, str]], enabled: str) -> list[tuple[int, int, int]]:
        env = environment(8, **settings, **{f"{auto}.enabled": enabled})
        keyed = env.from_collection(records).key_by(lambda record: record[0])
        return sorted(keyed.process(Counting()).execute_and_collect())

    receiver_of = {key: receiver for key, receiver, _ in counted([(key, "") for key in range(80)], "false")}
    records = [(key, f"{number:01000}") for key in range(80) for number in range(60 if receiver_of[key] < 2 else 1)]
    of_receivers = Counter(receiver_of[key] for key, _ in records)
    found = counted(records, "true")
    assert [(key, count) for key, _, count in found] == sorted(Counter(key for key, _ in records).items())
    of_subtasks = Counter[int]()
    for _, subtask, count in found:
        of_subtasks[subtask] += count
    assert sorted(of_subtasks) == [0, 1, 2, 3]
    assert max(of_subtasks.values()) == max(of_receivers.values())  # by their number, two large ones would be in one


def test_a_result_has_no_more_files_than_its_bytes_ask_for_and_is_read_in_its_order(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_bytes = 20_000
    monkeypatch.setattr("penstock._engine.runtime.results.FILE_BYTES", file_bytes)
    seen: list[Any] = []
    cluster.watch = lambda loop: seen.append(instructions(loop))  # type: ignore[method-assign]
    numbers = environment(1).from_collection(list(range(100_000))).rebalance().map(int)
    assert list(numbers.execute_and_collect()) == list(range(100_000))
    acks = [ack for step in seen[0] if isinstance(step, do.PublishProgress) for ack in step.acks]
    [result] = [ack for ack in acks if ack.result_files]
    size = sum(sum(sizes.values()) for sizes in result.result_bytes.values())
    assert 10 < len(result.result_files) <= size / file_bytes + 1


FAILED: list[int] = []


def fails_once(value: Any) -> Any:
    if not FAILED:
        FAILED.append(value)
        raise ValueError("once")
    return value


def test_a_job_that_fails_starts_again_from_its_beginning(cluster: Cluster) -> None:
    FAILED.clear()
    seen: list[Any] = []
    cluster.watch = lambda loop: seen.append(instructions(loop))  # type: ignore[method-assign]
    restart = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    env = environment(2, **restart)
    summed = (
        env.from_collection([("a", 1)] * 10).rebalance().map(lambda value: value).key_by(lambda value: value[0]).sum(1)
    )
    assert list(summed.map(fails_once).execute_and_collect()) == [("a", 10)]
    stages = [
        (step.job_attempt, {vertex for vertex, _ in step.dispatches})
        for step in seen[0]
        if isinstance(step, do.RunEpoch)
    ]
    assert [attempt for attempt, _ in stages] == [0, 0, 0, 1, 1, 1]
    assert stages[0][1] == stages[3][1]


def test_a_source_runs_until_its_enumerator_has_no_more_splits_and_keeps_its_functions(cluster: Cluster) -> None:
    seen: list[Any] = []
    cluster.watch = lambda loop: seen.append(instructions(loop))  # type: ignore[method-assign]
    cluster.runner.workers[1:] = []
    env = environment(1)
    source = ListSource(*[[number] for number in range(9)])
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "lists").map(Opened())
    OPENINGS.clear()
    assert sorted(numbers.execute_and_collect()) == list(range(9))
    assert OPENINGS == [1]
    runs = [step for step in seen[0] if isinstance(step, do.RunEpoch)]
    assert len(runs) > 1
    assert {vertex for step in runs for vertex, _ in step.dispatches} == {0}


OPENINGS: list[int] = []


class Opened(MapFunction):
    """Counts how often it is opened."""

    def open(self, runtime_context: Any) -> None:
        OPENINGS.append(1)

    def map(self, value: Any) -> Any:
        return value


# ------------------------------------------------------------------------------------------- drivers that are killed


class Killed(KeyboardInterrupt):
    """The process is gone."""


def graph_of(place: Path, **settings: str) -> tuple[Any, Configuration]:
    """Return a job of three stages with a sink after each of the last two."""
    settings = {"execution.checkpointing.dir": str(place / "checkpoints"), **settings}
    settings["execution.state-recovery.path"] = "latest"
    env = environment(2, **settings)
    numbers = env.from_collection(list(range(20))).uid("numbers").rebalance().map(lambda value: (value % 4, value))
    sums = numbers.key_by(lambda value: value[0]).sum(1)
    for name, stream in (("all", numbers), ("sums", sums)):
        sink = FileSink.for_row_format(str(place / name), Encoder.simple_string_encoder()).build()
        stream.map(json.dumps).sink_to(sink).uid(name)
    graph = with_combiners(build_job_graph(env._stream_graph("killed")))
    return graph, Configuration(env._configuration)


def run(place: Path, *, kill_after: int = 0, runner: Any = None) -> int | None:
    """Run one driver; return the number of its instructions, None if it was killed after one of them."""
    graph, configuration = graph_of(place)
    threads, count = Threads(), 0
    world = RuntimeEnvironment(runner or InProcessEpochRunner(), 2, place / "state", (), threads, threads)
    driver, loop = assemble(graph, configuration, None, world)
    perform = loop.perform

    def counted(instruction: Any) -> None:
        nonlocal count
        count += 1
        perform(instruction)
        if count == kill_after:
            raise Killed

    loop.perform = counted  # type: ignore[method-assign]
    if not kill_after:
        driver.run(loop)
        assert driver.result.exception() is None
        return count
    try:
        outcome = loop.run()  # not driver.run: the killed process cleans nothing up
    except Killed:
        return None
    assert outcome.error is None
    return count


def published(place: Path, name: str) -> Counter[str]:
    files = [path for path in (place / name).rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Counter(line for path in files for line in path.read_text().splitlines())


def test_a_store_that_takes_no_entry_at_the_start_ends_the_job_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FailingStorage(str(tmp_path / "checkpoints"))
    storage.refuse("put_if_absent", paths="*/_metadata", times=None)
    monkeypatch.setattr("penstock._engine.driver.assembly.open_storage", lambda *_: storage)
    graph, configuration = graph_of(tmp_path)
    threads = Threads()
    world = RuntimeEnvironment(InProcessEpochRunner(), 2, tmp_path / "state", (), threads, threads)
    driver, loop = assemble(graph, configuration, None, world)
    driver.run(loop)
    with pytest.raises(CheckpointStorageError, match="the store is out of order"):
        driver.result.result(0)


ALL = Counter(json.dumps([number % 4, number]) for number in range(20))
SUMS = Counter(json.dumps([key, sum(range(key, 20, 4))]) for key in range(4))


def check(place: Path) -> None:
    assert (published(place, "all"), published(place, "sums")) == (ALL, SUMS)
    [job] = [path for path in (place / "checkpoints").iterdir() if path.is_dir() and not path.name.startswith(".")]
    assert [path for path in (job / "results").rglob("*") if path.is_file()] == []


@pytest.mark.behaviour(143)
@pytest.mark.behaviour(153)
def test_what_was_lost_before_the_end_of_a_job_stands_in_its_history_and_so_do_the_hosts_of_stages(
    tmp_path: Path,
) -> None:
    def lost(is_over: bool) -> list[Exception]:
        return [ExecutorLostError("1", "host-1", "Command exited with code 137")] if is_over else []

    graph, configuration = graph_of(tmp_path)
    threads = Threads()
    runner = InProcessEpochRunner()
    world = RuntimeEnvironment(runner, 2, tmp_path / "state", (), threads, threads, lost_executors=lost)
    driver, loop = assemble(graph, configuration, None, world)
    driver.run(loop)
    (failure,) = driver.view.failures
    assert failure.reason.startswith("ExecutorLostError: executor 1 on host-1 is lost")
    assert not failure.counted
    assert {one.host for vertex in driver.view.subtasks for one in vertex} == {socket.gethostname()}
    assert driver.view.returned_share == 1.0


def test_a_driver_that_dies_at_any_step_leaves_all_or_nothing_and_the_next_one_finishes(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    steps = run(tmp_path / "whole")
    assert steps is not None
    check(tmp_path / "whole")
    for step in range(1, steps + 1):
        place = tmp_path / f"{step}"
        place.mkdir()
        run(place, kill_after=step)
        assert published(place, "all") in (ALL, Counter()), step
        assert published(place, "sums") in (SUMS, Counter()), step
        run(place)
        check(place)


def test_tasks_that_run_twice_and_lost_stages_change_nothing(tmp_path: Path) -> None:
    for seed in range(3):
        place = tmp_path / f"{seed}"
        place.mkdir()
        run(place, runner=InProcessEpochRunner(workers=2, chaos=Chaos(retries=0.3, losses=0.1), seed=seed))
        check(place)


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_damaged_result_fails_the_job_and_is_never_read(tmp_path: Path, damage: str) -> None:
    graph, configuration = graph_of(tmp_path)
    threads, runs = Threads(), 0
    world = RuntimeEnvironment(InProcessEpochRunner(), 2, tmp_path / "state", (), threads, threads)
    driver, loop = assemble(graph, configuration, None, world)
    perform = loop.perform

    def damaging(instruction: Any) -> None:
        nonlocal runs
        if isinstance(instruction, do.RunEpoch):
            runs += 1
            for path in (tmp_path / "checkpoints").glob("*/results/*") if runs == 2 else ():
                if damage == "gone":
                    path.unlink()
                else:
                    data = bytearray(path.read_bytes())
                    data[3] ^= 1
                    path.write_bytes(data)
        perform(instruction)

    loop.perform = damaging  # type: ignore[method-assign]
    driver.run(loop)
    assert "it is gone" in str(driver.result.exception()) or "do not match" in str(driver.result.exception())
    assert (published(tmp_path, "all"), published(tmp_path, "sums")) == (Counter(), Counter())

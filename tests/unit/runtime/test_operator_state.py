"""Operator state and broadcast state in whole epochs: through processes, failures, finished subtasks and rescaling."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.epochs import Job, run
from tests.kit.program import Program
from tests.kit.subtasks import Subtasks

from penstock.datastream.functions import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    MapFunction,
)
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.testing import OperatorHarness, TwoInputHarness
from penstock.testing.in_process import Chaos, InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RULES = MapStateDescriptor("rules")

#: What functions did, as (what, subtask); they are found by name, so this is the one list of this process.
CALLS: list[tuple[Any, ...]] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


class Pairs(FlatMapFunction, CheckpointedFunction):
    """Pairs its records; the odd one waits in an attribute."""

    def initialize_state(self, context: Any) -> None:
        CALLS.append(("initialize", context.get_restored_checkpoint_id()))
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting"))
        self.waiting = list(self.state)

    def snapshot_state(self, context: Any) -> None:
        CALLS.append(("snapshot", context.get_checkpoint_id()))
        self.state.update(self.waiting)

    def open(self, runtime_context: Any) -> None:
        CALLS.append(("open",))

    def flat_map(self, value: Any) -> Any:
        self.waiting.append(value)
        if len(self.waiting) >= 2:
            yield tuple(self.waiting)
            self.waiting.clear()

    def close(self) -> None:
        CALLS.append(("close",))


class Shares(MapFunction, CheckpointedFunction):
    """Takes every n-th item of the union of all, as subtasks do that divide work among themselves anew at a start."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("items"))
        self.seen = list(self.state)
        self.items: list[Any] = []

    def open(self, runtime_context: Any) -> None:
        index, count = runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks()
        self.items = self.seen[index::count]

    def snapshot_state(self, context: Any) -> None:
        self.state.update(self.items)

    def map(self, value: Any) -> Any:
        self.items.append(value)
        return value


class Sees(MapFunction, CheckpointedFunction):
    """Gives all items of the union that it started from beside each record; adds the record to it."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("items"))
        self.seen = tuple(self.state)

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: Any) -> Any:
        self.state.add(value)
        return value, self.seen


class Rules(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, dict(ctx.get_broadcast_state(RULES).items())

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(*value)


class KeyedRules(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.total.update((self.total.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(10_000)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        state = ctx.get_broadcast_state(RULES)
        state.put("sum", (state.get("sum") or 0) + value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.total.value(), ctx.get_broadcast_state(RULES).get("sum")


class Functions(Subtasks):
    """All subtasks of a function."""

    def dealt(self, records: Iterable[Any]) -> list[Any]:
        """Give each subtask its share of records, in turn, and return what they put out."""
        for part in self.parts:
            part.clear_output()
        for part, record in zip(cycle(self.parts), records, strict=False):
            part.process_element(record)
        return [value for part in self.parts for value in part.values()]


def pairs(**subtask: Any) -> OperatorHarness:
    return OperatorHarness.for_flat_map(Pairs(), **subtask)


def shares(**subtask: Any) -> OperatorHarness:
    return OperatorHarness.for_map(Shares(), **subtask)


def sees(**subtask: Any) -> OperatorHarness:
    return OperatorHarness.for_map(Sees(), **subtask)


def rules(**subtask: Any) -> TwoInputHarness:
    return TwoInputHarness.for_broadcast_process(Rules(), RULES, **subtask)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("chaos", [None, Chaos(retries=0.5)])
@pytest.mark.behaviour(44)
def test_what_a_function_keeps_in_attributes_goes_through_processes_by_its_state(
    program: Program, tmp_path: Path, workers: int, chaos: Chaos | None
) -> None:
    program.collect(program.source(list(range(20))).flat_map(Pairs()))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(workers=workers, chaos=chaos, seed=workers))
    while not job.finished:
        job.try_epoch(3)  # one that does not count
        job.epoch(3)
    assert job.outputs["out"] == [(n, n + 1) for n in range(0, 20, 2)]


@pytest.mark.behaviour(37, 41)
def test_in_one_process_a_function_is_initialized_once_and_asked_at_each_checkpoint(
    program: Program, tmp_path: Path
) -> None:
    program.collect(program.source([1, 2, 3]).flat_map(Pairs()))
    Job(program.graph(), tmp_path).run(2)
    # The last snapshot is of the checkpoint behind the end of all input.
    assert CALLS == [("initialize", None), ("open",), ("snapshot", 1), ("snapshot", 2), ("close",)]


@pytest.mark.behaviour(37)
def test_a_function_behind_its_last_checkpoint_is_closed_and_another_one_starts_from_that(
    program: Program, tmp_path: Path
) -> None:
    program.collect(program.source(list(range(9))).flat_map(Pairs()))
    first, second = InProcessEpochRunner(), InProcessEpochRunner()
    job = Job(program.graph(), tmp_path, first)
    for job.runner in (first, second, first):
        job.epoch(1)
    assert [
        *[("initialize", None), ("open",), ("snapshot", 1)],
        *[("initialize", 1), ("open",), ("snapshot", 2)],
        *[("close",), ("initialize", 2), ("open",), ("snapshot", 3)],
    ] == CALLS


def test_an_error_of_one_that_is_closed_for_that_is_a_line_in_the_log(
    program: Program, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class FailsToClose(Sees):
        def close(self) -> None:
            raise ValueError("not closed")

    program.collect(program.source(["a", "b", "c"]).map(FailsToClose()))
    job = Job(program.graph(), tmp_path)
    job.epoch(1)
    assert job.epoch(1)["out"] == [("b", ("a",))]
    assert "Map (0) failed to close" in caplog.text


@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 2), (3, 2), (2, 5)])
def test_list_items_go_to_another_number_of_subtasks(before: int, after: int) -> None:
    functions = Functions(pairs, before)
    found = functions.dealt(range(3 * before))  # one record waits in each subtask
    assert len(found) == before
    functions.restore(after)
    found += functions.dealt(range(100, 100 + after))
    waited = [sum(map(len, part.values())) - len(part.values()) for part in functions.parts]
    assert sum(waited) == before
    assert max(waited) - min(waited) <= 1, "they are dealt out evenly"
    functions.restore(1)
    found += functions.dealt([-1])
    numbers = [n for pair in found for n in pair if n >= 0]
    assert sorted(numbers) == [*range(3 * before), *range(100, 100 + after)]


@pytest.mark.parametrize("after", [1, 2, 5])
def test_union_items_go_to_all_of_another_number_of_subtasks(after: int) -> None:
    functions = Functions(shares, 3)
    functions.dealt(range(9))
    functions.restore(after)
    functions.make = sees
    functions.restore(4)
    assert [(value, sorted(seen)) for value, seen in functions.dealt("wxyz")] == [(c, list(range(9))) for c in "wxyz"]


@pytest.mark.parametrize("workers", [1, 3])
def test_subtasks_that_divide_a_union_list_lose_nothing_between_epochs(
    program: Program, tmp_path: Path, workers: int
) -> None:
    stream = program.source(list(range(30))).rebalance().map(Shares()).set_parallelism(3)
    program.collect(stream)
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(workers=workers, seed=3))
    for _ in range(4):
        job.try_epoch(5)
        job.epoch(5)
    job.run(5)
    assert sorted(job.outputs["out"]) == list(range(30))


@pytest.mark.behaviour(12, 13)
def test_union_items_of_a_finished_subtask_stay_for_the_others(program: Program, tmp_path: Path) -> None:
    program.collect(program.source(["a"], ["b", "c", "d", "e"]).set_parallelism(2).map(Sees()).set_parallelism(2))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(workers=2))
    while not job.finished:
        job.epoch(1)
    by_value = dict(job.outputs["out"])
    assert by_value["d"] == ("a", "b", "c")
    assert by_value["e"] == ("a", "b", "c", "d")


@pytest.mark.parametrize("workers", [1, 3])
def test_broadcast_maps_go_through_epochs_and_processes(program: Program, tmp_path: Path, workers: int) -> None:
    rules = program.source([("a", 1), ("b", 2)], name="rules")
    stream = program.source(list(range(40)), name="records")
    program.collect(stream.rebalance().connect(rules.broadcast(RULES)).process(Rules()).set_parallelism(2))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(workers=workers, chaos=Chaos(retries=0.2), seed=1))
    out = job.run(4)["out"]
    assert sorted(n for n, _ in out) == list(range(40))
    assert all(found == {"a": 1, "b": 2} for n, found in out if n >= 4)  # the rules came in the first epoch


def test_a_new_subtask_gets_the_broadcast_map_of_an_old_one() -> None:
    functions = Functions(rules, 2)
    for part in functions.parts:
        part.process_element2(("a", 1))
    functions.restore(5)
    assert functions.dealt(range(5)) == [(n, {"a": 1}) for n in range(5)]


def test_keyed_broadcast_functions_have_state_timers_and_maps(program: Program, tmp_path: Path) -> None:
    numbers = program.source(list(range(1, 21)), name="numbers")
    extra = program.source([100, 200, 300], name="extra")
    keyed = numbers.key_by(lambda n: n % 3)
    program.collect(keyed.connect(extra.broadcast(RULES)).process(KeyedRules()).set_parallelism(2))
    runner = InProcessEpochRunner(workers=2, chaos=Chaos(retries=0.3), seed=2)
    out = run(program, tmp_path, runner=runner)["out"]
    assert sorted(out) == [(key, sum(n for n in range(1, 21) if n % 3 == key), 600) for key in range(3)]


def test_unchanged_state_is_one_file_for_many_checkpoints(program: Program, tmp_path: Path) -> None:
    rules = program.source([("a", "x" * 50_000)], name="rules")
    stream = program.source(list(range(5)), name="records")
    program.collect(stream.connect(rules.broadcast(RULES)).process(Rules()).map(lambda pair: pair[0]))
    job = Job(program.graph(), tmp_path)
    while not job.finished:
        job.epoch(1)
    files = [path for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()]
    assert job.checkpoint_id == len(job.outputs["out"]) == 5
    [size] = [path.stat().st_size for path in files if path.stat().st_size > 10_000]
    assert size > 50_000

"""Parts of a job finish before the rest: what runs then, what checkpoints say, and what a later run makes of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import CLOCK
from tests.kit.diaries import Ending, Run, finished_in
from tests.kit.driving import CrashError
from tests.lifecycle.jobs import RESTARTS, TRUTH, UNCHAINED, Jobs, crash_when
from tests.lifecycle.subjects import (
    GATE,
    GRIDS,
    NUMBERS,
    RECORDS,
    SHORT,
    WINDOW_MS,
    EventTimers,
    Place,
    Same,
    Subject,
    event_timers,
    partly_finished,
    three_sinks,
    two_inputs,
    windows,
)

from penstock._engine.cli.main import main
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.savepoints.inspection import inspect
from penstock.common.job_status import JobStatus
from penstock.datastream import CheckpointedFunction, FlatMapFunction, MapFunction
from penstock.datastream.state import ListStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.sampled(2)

HOUR_MS = 3_600_000


def two_pipelines(place: Place) -> None:
    """One has a few numbers, the other one all of them."""
    for name, numbers in (("short", SHORT), ("long", NUMBERS)):
        place.write(place.numbers(numbers, name=name).map(Same()).name(name), name)


BOTH = {"short": Counter(SHORT), "long": Counter(NUMBERS)}


# ------------------------------------------------------------------------------------------------------- what runs then


def behind_an_exchange(place: Place) -> None:
    lists = SHORT, range(len(SHORT), RECORDS)
    place.write(place.numbers(*lists).rebalance().map(Same()).set_parallelism(3).name("all"))


def run_in(run: Run, epoch: int) -> Counter[str]:
    """Return how many subtasks of which vertex an epoch ran."""
    return Counter(run.graph.vertices[vertex].name for vertex, _ in run.of(do.RunEpoch)[epoch].dispatches)


@pytest.mark.behaviour(1)
def test_one_live_source_keeps_all_receivers_of_an_exchange_at_work(jobs: Jobs) -> None:
    run = jobs.make(behind_an_exchange)
    run.to_its_end()
    everything = Counter({"Source: numbers": 2, "all": 3, "Sink: out": 1})
    assert run_in(run, 0) == everything
    assert run_in(run, -1) == everything - Counter({"Source: numbers": 1})


@pytest.mark.behaviour(2)
def test_on_a_one_to_one_edge_a_receiver_is_over_with_its_sender(jobs: Jobs) -> None:
    run = jobs.make(partly_finished, settings=UNCHAINED)
    run.to_its_end()
    both = Counter({"Source: numbers": 2, "same": 2, "Sink: out": 2})
    one_each = Counter(both.keys())
    assert [run_in(run, epoch) for epoch in (0, -1)] == [both, one_each]
    assert all(run_in(run, epoch) in (both, one_each) for epoch in range(len(run.of(do.RunEpoch))))
    first_over = next(done for snapshot in run.checkpoints if (done := finished_in(snapshot)))
    assert first_over == {("Source: numbers", 0), ("same", 0), ("Sink: out", 0)}


def four_readers(place: Place) -> None:
    lists = range(GATE), range(GATE, RECORDS)
    place.write(place.numbers(*lists).set_parallelism(4).map(Same()).set_parallelism(4).name("same"), writers=4)


@pytest.mark.behaviour(36)
def test_readers_without_a_split_finish_at_once_and_the_others_read_on(jobs: Jobs) -> None:
    run = jobs.make(four_readers)
    run.to_its_end()
    idle = {(name, index) for name in ("Source: numbers", "same", "Sink: out") for index in (2, 3)}
    with_end = [finished_in(snapshot) for snapshot in run.checkpoints]
    assert idle in with_end[:3]
    assert with_end[-2] == idle
    assert jobs.published == {"out": Counter(NUMBERS)}


# ------------------------------------------------------------------------------------------------ what checkpoints say


@pytest.mark.behaviour(5, 8, 10)
def test_checkpoint_of_the_epoch_in_which_a_subtask_finishes_is_the_first_to_say_so(jobs: Jobs) -> None:
    run = jobs.make(two_inputs)
    run.to_its_end()
    short = next(vertex.id for vertex in run.graph.vertices if vertex.name == "Source: short")
    last = [epoch.checkpoint_id for epoch in run.of(do.RunEpoch) if (short, 0) in epoch.dispatches][-1]
    said = {
        put.entry.checkpoint_id: ("Source: short", 0) in finished_in(put.entry.snapshot)
        for put in run.of(do.PutChainEntry)
        if put.entry.snapshot is not None
    }
    assert len(said) > 3
    assert said == {checkpoint_id: checkpoint_id >= last for checkpoint_id in said}


@pytest.mark.behaviour(8)
def test_checkpoint_has_the_state_of_the_rest_beside_the_marks(jobs: Jobs) -> None:
    run = jobs.make(partly_finished)
    run.to_its_end(Ending.SUSPEND, after=GATE)
    [numbers] = [one for one in run.checkpoints[-1].operators.values() if one.name == "Source: numbers"]
    assert [part.finished for part in numbers.subtasks] == [True, False]
    assert numbers.subtasks[1].state is not None


#: The numbers that the functions of each run found in their list.
HANDED_OUT: list[int] = []


class Keeping(MapFunction, CheckpointedFunction):
    """Keeps its numbers in a list."""

    def initialize_state(self, context: Any) -> None:
        self.own = context.get_operator_state_store().get_list_state(ListStateDescriptor("own"))
        HANDED_OUT.extend(self.own)

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: int) -> int:
        self.own.add(value)
        return value


def keeping(place: Place, parallelism: int = 2) -> None:
    numbers = place.numbers(SHORT, range(len(SHORT), RECORDS)).set_parallelism(parallelism)
    place.write(numbers.map(Keeping()).set_parallelism(parallelism).name("keeps"), writers=parallelism)


@pytest.mark.behaviour(10)
def test_list_items_of_finished_subtasks_are_counted_and_not_dealt_out_when_the_job_has_changed(
    jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    first = jobs.make(keeping)
    first.to_its_end(Ending.SUSPEND, after=GATE)
    [kept] = [state for one in inspect(first.goes_on_from).operators for state in one.operator_states]
    assert (kept.name, kept.finished_items) == ("own", len(SHORT))
    HANDED_OUT.clear()
    with caplog.at_level("INFO", logger="penstock"):
        jobs.make(lambda place: keeping(place, 3), first.goes_on_from).to_its_end()
    assert len(HANDED_OUT) == len(set(HANDED_OUT)) == kept.items - len(SHORT) > 0
    assert not set(HANDED_OUT) & set(SHORT)
    assert f"have left {len(SHORT)} list items, which nobody gets" in caplog.text


class Rest(FlatMapFunction, CheckpointedFunction):
    """Holds numbers back, and emits them at the end, without emptying its list."""

    def initialize_state(self, context: Any) -> None:
        self.own = context.get_operator_state_store().get_list_state(ListStateDescriptor("own"))

    def snapshot_state(self, context: Any) -> None:
        pass

    def flat_map(self, value: int) -> Iterator[int]:
        self.own.add(value)
        yield from ()

    def finish(self) -> Iterator[int]:
        yield from self.own


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.behaviour(15)
def test_what_finish_has_emitted_is_emitted_once_at_any_other_parallelism(jobs: Jobs, parallelism: int) -> None:
    def rests(place: Place, parallelism: int) -> None:
        numbers = place.numbers(SHORT, range(len(SHORT), RECORDS)).set_parallelism(parallelism)
        place.write(numbers.flat_map(Rest()).set_parallelism(parallelism).name("rest"), writers=parallelism)

    first = jobs.make(lambda place: rests(place, 2))
    first.to_its_end(Ending.SUSPEND, after=GATE)
    jobs.make(lambda place: rests(place, parallelism), first.goes_on_from).to_its_end()
    assert jobs.published == {"out": Counter(NUMBERS)}


@pytest.mark.behaviour(10)
def test_inspect_marks_items_of_an_operator_that_has_finished(jobs: Jobs, capfd: pytest.CaptureFixture[str]) -> None:
    def listening(place: Place) -> None:
        place.write(place.numbers(SHORT, name="short").uid("short").map(Keeping()).name("keeps"), "short")
        place.write(place.numbers(NUMBERS, name="long"), "long")

    named = {"penstock.restart-finished-sources": "short"}
    first = jobs.make(listening, settings=named)
    first.to_its_end(Ending.SUSPEND, after=GATE)
    [kept] = [state for one in inspect(first.goes_on_from).operators for state in one.operator_states]
    assert (kept.name, kept.items, kept.finished_items) == ("own", len(SHORT), len(SHORT))
    capfd.readouterr()
    assert main(("savepoint", "inspect", first.goes_on_from)) == 0
    printed = capfd.readouterr().out
    assert f"{kept.items} ({kept.items} left by finished subtasks)" in printed


@pytest.mark.behaviour(11, 16)
def test_what_has_finished_stays_so_in_the_checkpoints_of_a_run_in_which_it_never_ran(jobs: Jobs) -> None:
    first = jobs.make(two_inputs)
    first.to_its_end(Ending.SUSPEND, after=GATE)
    second = jobs.make(two_inputs, first.goes_on_from)
    second.to_its_end(Ending.SUSPEND, after=4)
    assert second.checkpoints
    assert all(("Source: short", 0) in finished_in(snapshot) for snapshot in second.checkpoints)
    third = jobs.make(two_inputs, second.goes_on_from)
    third.to_its_end()
    for run in (second, third):
        assert "Source: short" not in {entry.node.name for entry in run.diary.entries}
    assert jobs.published == TRUTH[two_inputs]


# ----------------------------------------------------------------------------------------------------- the end of a job


@pytest.mark.behaviour(7)
def test_job_that_died_behind_its_last_checkpoint_emits_nothing_again(jobs: Jobs) -> None:
    first = jobs.make(windows)
    crash_when(first, lambda step: isinstance(step, do.PutChainEntry) and step.entry.kind is ChainEntryKind.FINISHED)
    assert finished_in(first.checkpoints[-1]) == {(name, index) for (_, index), name in first.subtasks.items()}
    second = jobs.make(windows)
    assert second.to_its_end().status is JobStatus.FINISHED
    assert not second.diary.entries
    assert jobs.published == TRUTH[windows]


@pytest.mark.behaviour(24)
def test_bounded_job_ends_at_once_however_long_the_interval_is(jobs: Jobs) -> None:
    run = jobs.make(event_timers, settings={"execution.checkpointing.interval": "10 d"})
    start_ms = CLOCK.now_ms()
    run.to_its_end()
    assert CLOCK.now_ms() - start_ms < HOUR_MS
    assert all("s" in entry.calls for entry in run.diary.entries)
    assert jobs.published == TRUTH[event_timers]


@pytest.mark.behaviour(25)
def test_three_sinks_behind_each_other_end_with_one_checkpoint(jobs: Jobs) -> None:
    run = jobs.make(three_sinks)
    run.to_its_end()
    *before, last = map(finished_in, run.checkpoints)
    assert not any(before)
    assert last == {(name, index) for (_, index), name in run.subtasks.items()}
    assert jobs.published == TRUTH[three_sinks]


@pytest.mark.behaviour(27)
def test_pipeline_that_had_finished_emits_nothing_behind_a_savepoint(jobs: Jobs) -> None:
    first = jobs.make(two_pipelines)
    first.to_its_end(Ending.SUSPEND, after=GATE)
    assert jobs.published["short"] == BOTH["short"]
    second = jobs.make(two_pipelines, first.goes_on_from)
    assert second.to_its_end().status is JobStatus.FINISHED
    assert jobs.published == BOTH


@pytest.mark.behaviour(28)
def test_pipeline_that_finished_without_a_checkpoint_runs_again_after_a_crash(jobs: Jobs) -> None:
    first = jobs.make(two_pipelines)
    crash_when(
        first,
        lambda step: (
            isinstance(step, do.PutChainEntry)
            and step.entry.snapshot is not None
            and ("Source: short", 0) in finished_in(step.entry.snapshot)
        ),
    )
    assert "Source: short" in {first.subtasks[place] for place in first.diary.told("f")}
    second = jobs.make(two_pipelines)
    second.to_its_end()
    assert "Source: short" in {entry.node.name for entry in second.diary.entries}
    assert jobs.published == BOTH


@pytest.mark.behaviour(35)
def test_crash_long_after_one_source_ended_goes_back_to_the_last_checkpoint_only(jobs: Jobs) -> None:
    first = jobs.make(two_pipelines)
    with pytest.raises(CrashError):
        first.to_its_end(Ending.CRASH, after=GATE + 6)
    second = jobs.make(two_pipelines)
    second.to_its_end()
    assert second.driver.progress.records == RECORDS + len(SHORT) - first.driver.progress.records < 10
    assert jobs.published == BOTH


class FailsOnce(EventTimers):
    """Fails at its first timer, which is one of the end."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if timestamp == WINDOW_MS + 5 and not self.notes.exists():
            self.notes.touch()
            raise ValueError(timestamp)
        yield from super().on_timer(timestamp, ctx)


@pytest.mark.behaviour(29)
def test_failure_in_the_last_epoch_lets_the_job_reach_its_end_once_more(jobs: Jobs) -> None:
    def failing(place: Place) -> None:
        timers = FailsOnce(jobs.place / "notes")
        place.write(place.numbers(NUMBERS).key_by(lambda number: number % 3).process(timers).set_parallelism(2))

    run = jobs.make(failing, settings=RESTARTS)
    assert run.to_its_end().status is JobStatus.FINISHED
    assert run.driver.progress.restarts == 1
    assert jobs.published == TRUTH[event_timers]


@pytest.mark.behaviour(168)
def test_failure_of_one_pipeline_restarts_both_once_and_both_outputs_are_right(jobs: Jobs) -> None:
    notes = jobs.place / "notes"

    def fails_once(number: int) -> int:
        if number == GATE and not notes.exists():
            notes.touch()
            raise ValueError(number)
        return number

    def failing(place: Place) -> None:
        place.write(place.numbers(NUMBERS, name="left").map(fails_once), "left")
        place.write(place.numbers(NUMBERS, name="right").map(Same()), "right")

    run = jobs.make(failing, settings=RESTARTS)
    assert run.to_its_end().status is JobStatus.FINISHED
    assert run.driver.progress.restarts == 1
    assert max(run.diary.told("o").values()) == 2
    assert min(run.diary.told("o").values()) == 2
    assert jobs.published == {"left": Counter(NUMBERS), "right": Counter(NUMBERS)}


# --------------------------------------------------------------------------------------------------- many, side by side


@pytest.mark.parametrize("subject", GRIDS, ids=str)
@pytest.mark.parametrize("ending", [Ending.ENDS, Ending.SUSPEND, Ending.DRAIN], ids=lambda ending: ending.value)
def test_wide_and_deep_jobs_start_and_stop(jobs: Jobs, ending: Ending, subject: Subject) -> None:
    first = jobs.make(subject.build)
    assert first.to_its_end(ending, after=GATE).status is JobStatus.FINISHED
    if ending is not Ending.ENDS:
        assert jobs.make(subject.build, first.goes_on_from).to_its_end().status is JobStatus.FINISHED
    assert jobs.published == subject.truth
    assert len(first.graph.vertices) > 30

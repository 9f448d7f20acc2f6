"""Starts from checkpoints in which operators have finished, wholly or in part (FLIP-147)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Chapter, Sheet, Story

from penstock._engine.protocol.control import StopMode
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream import (
    CheckpointedFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
)
from penstock.datastream.connectors.base import Sink, StatefulSinkWriter, SupportsWriterState
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import FinishedOperatorError, MixedChainError, UnclaimedStateError

if TYPE_CHECKING:
    from pathlib import Path

SHORT, LONG = ["a", "b"], list(range(20))


class Counts(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value()


class Remembers(MapFunction, CheckpointedFunction):
    """Has all records that it saw, or that were given to it, in an operator list or a union list."""

    def __init__(self, union: bool = False) -> None:
        self.union = union

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        descriptor = ListStateDescriptor("seen")
        self.state = store.get_union_list_state(descriptor) if self.union else store.get_list_state(descriptor)
        self.before = list(self.state)

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: Any) -> Any:
        self.state.add(value)
        return value, tuple(sorted(map(str, self.before)))


class Hoarding(Sink[Any], SupportsWriterState[Any, Any]):
    """A sink whose writers keep all records that they saw or were given; each writes down what it begins with."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def create_writer(self, context: Any) -> Any:
        return HoardingWriter([])

    def restore_writer(self, context: Any, recovered_state: Any) -> Any:
        with self.file.open("a") as file:
            file.write(f"{context.subtask_id} {sorted(map(str, recovered_state))}\n")
        return HoardingWriter(list(recovered_state))


class HoardingWriter(StatefulSinkWriter[Any, Any]):
    def __init__(self, held: list[Any]) -> None:
        self.held = held

    def write(self, element: Any, context: Any) -> None:
        self.held.append(element)

    def flush(self, end_of_input: bool) -> None:
        pass

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return list(self.held)


class Opened(MapFunction):
    """Says which subtasks were opened, in a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def open(self, runtime_context: Any) -> None:
        with self.file.open("a") as file:
            file.write(f"{runtime_context.get_index_of_this_subtask()}\n")

    def map(self, value: Any) -> Any:
        return value


class Alarms(KeyedCoProcessFunction):
    """Sets a timer for each record of its second input, right behind it."""

    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(ctx.timestamp())
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "fired"


class Own(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value


def two_pipelines(opened: Path | None = None, *, short: int = 1, long: int = 1) -> Any:
    """A short and a long source, each with a function of its own, that meet in a keyed count."""

    def write(sheet: Sheet) -> None:
        first = sheet.source("short", SHORT).set_parallelism(short)
        if opened is not None:
            first = first.map(Opened(opened)).uid("opened").set_parallelism(short)
        second = sheet.source("long", LONG).set_parallelism(long)
        both = first.rebalance().union(second.rebalance())
        sheet.collect(both.key_by(str).process(Counts()).uid("counts").set_parallelism(long))

    return write


EXPECTED = sorted([(value, 1) for value in [*SHORT, *LONG]], key=str)


@pytest.mark.parametrize(("short", "long"), [(1, 1), (3, 1), (1, 3), (2, 5)])
@pytest.mark.behaviour(11, 16)
def test_finished_operators_stay_finished_at_any_parallelism(tmp_path: Path, short: int, long: int) -> None:
    story, opened = Story(tmp_path), tmp_path / "opened"
    stopped = story.run(two_pipelines(opened), asks={6: StopMode.SUSPEND})
    assert opened.read_text() == "0\n"
    again = story.run(two_pipelines(opened, short=short, long=long), recover=stopped.savepoint)
    assert again.status is JobStatus.FINISHED
    assert sorted(story.output(), key=str) == EXPECTED
    assert opened.read_text() == "0\n", "nothing of it is made again"
    subtasks = [part.vertex for plan in again.runner.plans for slot in plan.levels[0].slots for part in slot]
    assert set(subtasks) == {1}, "only the long source runs"


@pytest.mark.behaviour(11)
def test_finished_operator_is_finished_in_the_checkpoints_of_those_that_start_from_it(tmp_path: Path) -> None:
    story = Story(tmp_path)
    first = story.run(two_pipelines(), asks={4: StopMode.SUSPEND})
    second = story.run(two_pipelines(long=2), asks={2: StopMode.SUSPEND}, recover=first.savepoint)
    story.run(two_pipelines(short=2, long=1), recover=second.savepoint)
    assert sorted(story.output(), key=str) == EXPECTED


# --------------------------------------------------------------------------------------------------- partly finished


def partly(parallelism: int, function: Any = None, *, more: str = "") -> Any:
    """Two lists, one of which ends soon; the rest of the job is pointwise, so it finishes in part, too."""

    def write(sheet: Sheet) -> None:
        stream = sheet.source("lists", SHORT, LONG).set_parallelism(parallelism)
        if function is not None:
            stream = stream.map(function).uid("function").set_parallelism(parallelism)
        if more:
            added = stream.map(lambda value: value).uid("more").set_parallelism(parallelism).disable_chaining()
            sheet.collect(added, "added")
            stream = added if more == "before" else stream
        sheet.collect(stream)

    return write


def running_sources(chapter: Chapter) -> int:
    """Return the number of source subtasks in the last epoch."""
    return sum(len(slot) for slot in chapter.runner.plans[-1].levels[0].slots)


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
@pytest.mark.parametrize("more", ["", "behind"])
@pytest.mark.behaviour(15)
def test_splits_of_a_partly_finished_source_go_on_at_any_parallelism(
    tmp_path: Path, parallelism: int, more: str
) -> None:
    story = Story(tmp_path)
    stopped = story.run(partly(2), asks={4: StopMode.SUSPEND})
    assert running_sources(stopped) == 1, "one of the two subtasks has finished"
    again = story.run(partly(parallelism, more=more), recover=stopped.savepoint)
    assert again.status is JobStatus.FINISHED
    assert sorted(story.output(), key=str) == sorted([*SHORT, *LONG], key=str)
    assert story.output("added") == (again.outputs["out"] if more else [])


@pytest.mark.behaviour(19)
def test_running_operator_before_a_partly_finished_one_is_refused(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(partly(2), asks={4: StopMode.SUSPEND})
    again = story.run(partly(2, more="before"), recover=stopped.savepoint)
    assert isinstance(again.error, FinishedOperatorError)
    assert "'out') is partly finished" in str(again.error)
    assert "(uid 'more')" in str(again.error)


@pytest.mark.behaviour(15)
def test_list_items_of_a_finished_subtask_are_left_and_those_of_the_others_shared_out(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(partly(2, Remembers()), asks={4: StopMode.SUSPEND})
    unchanged = story.run(partly(2, Remembers()), asks={2: StopMode.SUSPEND}, recover=stopped.savepoint)
    assert all(set(before).isdisjoint(SHORT) for _, before in unchanged.outputs["out"]), "they stay with the finished"
    read = [str(value) for chapter in (stopped, unchanged) for value, _ in chapter.outputs["out"]]
    assert set(SHORT) < set(read)
    again = story.run(partly(1, Remembers()), recover=unchanged.savepoint)
    assert {before for _, before in again.outputs["out"]} == {tuple(sorted(set(read) - set(SHORT)))}


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.behaviour(15)
def test_states_of_finished_writers_are_left_and_those_of_the_others_shared_out(
    tmp_path: Path, parallelism: int
) -> None:
    def write(number: int) -> Any:
        def program(sheet: Sheet) -> None:
            stream = sheet.source("lists", SHORT, LONG).set_parallelism(number)
            stream.sink_to(Hoarding(tmp_path / f"begun-{number}")).uid("sink").set_parallelism(number)

        return program

    story = Story(tmp_path)
    stopped = story.run(write(2), asks={4: StopMode.SUSPEND})
    unchanged = story.run(
        write(2), asks={2: StopMode.SUSPEND}, recover=stopped.savepoint
    )  # through two more checkpoints
    story.run(write(parallelism), asks={1: StopMode.SUSPEND}, recover=unchanged.savepoint)
    lines = (tmp_path / f"begun-{parallelism}").read_text().splitlines()[:parallelism]
    begun = [line.split(" ", 1) for line in lines]
    assert sorted(int(subtask) for subtask, _ in begun) == list(range(parallelism))
    dealt = [item for _, items in begun for item in ast.literal_eval(items)]
    assert dealt
    assert sorted(dealt, key=int) == list(map(str, range(len(dealt))))


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.behaviour(13)
def test_union_items_of_finished_subtasks_are_seen_by_all_new_ones(tmp_path: Path, parallelism: int) -> None:
    story = Story(tmp_path)
    stopped = story.run(partly(2, Remembers(union=True)), asks={4: StopMode.SUSPEND})
    middle = story.run(
        partly(3, Remembers(union=True)), asks={2: StopMode.SUSPEND}, recover=stopped.savepoint
    )  # through two more checkpoints
    again = story.run(partly(parallelism, Remembers(union=True)), recover=middle.savepoint)
    read = {str(value) for chapter in (stopped, middle) for value, _ in chapter.outputs["out"]}
    assert read >= set(SHORT)
    assert all(set(before) >= read for _, before in again.outputs["out"])
    assert sorted((value for value, _ in story.output()), key=str) == sorted([*SHORT, *LONG], key=str)


# ------------------------------------------------------------------------------------------------- changes of the graph


@pytest.mark.behaviour(21)
def test_new_operators_behind_finished_ones_get_the_last_watermark_and_end(tmp_path: Path) -> None:
    def write(*, more: bool) -> Any:
        def program(sheet: Sheet) -> None:
            times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Own())
            short, long = sheet.source("short", SHORT), sheet.source("long", LONG, timestamps=times)
            sheet.collect(short.rebalance().union(long.rebalance()))
            if more:
                sheet.collect(short.rebalance().map(str).uid("map"), "ended")
                both = short.key_by(str).connect(long.key_by(str))
                sheet.collect(both.process(Alarms()).uid("alarms"), "alarms-out")

        return program

    story = Story(tmp_path)
    stopped = story.run(write(more=False), asks={4: StopMode.SUSPEND})
    again = story.run(write(more=True), recover=stopped.savepoint)
    assert again.status is JobStatus.FINISHED
    assert sorted(story.output(), key=str) == sorted([*SHORT, *LONG], key=str)
    assert "ended" not in again.outputs
    seen = again.outputs["alarms-out"]
    assert seen.count("fired") == len(again.outputs["out"])
    assert seen[-1] == "fired"
    assert seen.index("fired") < seen.index(LONG[-1]), "the input that had ended does not hold the watermark back"


@pytest.mark.behaviour(17)
def test_new_operator_before_a_finished_one_is_refused_with_both_uids(tmp_path: Path) -> None:
    def changed(sheet: Sheet) -> None:
        short = sheet.source("short", SHORT).union(sheet.source("new", ["x"]))
        middle = short.rebalance().map(str).uid("middle")
        both = middle.rebalance().union(sheet.source("long", LONG).rebalance())
        sheet.collect(both.key_by(str).process(Counts()).uid("counts"))

    def before(sheet: Sheet) -> None:
        middle = sheet.source("short", SHORT).rebalance().map(str).uid("middle")
        both = middle.rebalance().union(sheet.source("long", LONG).rebalance())
        sheet.collect(both.key_by(str).process(Counts()).uid("counts"))

    story = Story(tmp_path)
    stopped = story.run(before, asks={4: StopMode.SUSPEND})
    again = story.run(changed, recover=stopped.savepoint, restart="exponential-delay")
    assert again.status is JobStatus.FAILED
    assert isinstance(again.error, FinishedOperatorError)
    assert "'middle'" in str(again.error)
    assert "'new'" in str(again.error)
    assert not again.runner.plans, "no Spark job has run"


@pytest.mark.behaviour(20)
def test_new_operator_in_the_chain_of_a_finished_one_is_refused_and_the_way_out_works(tmp_path: Path) -> None:
    def changed(*, apart: bool) -> Any:
        def write(sheet: Sheet) -> None:
            short = sheet.source("short", SHORT).map(str).uid("new")
            if apart:
                short.start_new_chain()
            both = short.rebalance().union(sheet.source("long", LONG).rebalance())
            sheet.collect(both.key_by(str).process(Counts()).uid("counts"))

        return write

    story = Story(tmp_path)
    stopped = story.run(two_pipelines(), asks={4: StopMode.SUSPEND})
    refused = story.run(changed(apart=False), recover=stopped.savepoint)
    assert isinstance(refused.error, MixedChainError)
    assert "start_new_chain()" in str(refused.error)
    again = story.run(changed(apart=True), recover=stopped.savepoint)
    assert again.status is JobStatus.FINISHED
    assert sorted(story.output(), key=str) == EXPECTED


@pytest.mark.behaviour(9)
def test_finished_operator_is_known_in_another_chain(tmp_path: Path) -> None:
    def chained(*, apart: bool) -> Any:
        def write(sheet: Sheet) -> None:
            short = sheet.source("short", SHORT).map(str).uid("text")
            if apart:
                short.start_new_chain()
            sheet.collect(short)
            sheet.collect(sheet.source("long", LONG), "long-out")

        return write

    story = Story(tmp_path)
    stopped = story.run(chained(apart=False), asks={4: StopMode.SUSPEND})
    again = story.run(chained(apart=True), recover=stopped.savepoint)
    assert again.status is JobStatus.FINISHED
    assert story.output() == SHORT
    assert story.output("long-out") == LONG


@pytest.mark.behaviour(22)
def test_finished_operator_without_state_may_go(tmp_path: Path) -> None:
    def write(*, whole: bool) -> Any:
        def program(sheet: Sheet) -> None:
            short = sheet.source("short", SHORT)
            if whole:
                sheet.collect(short.rebalance().map(str).uid("gone"))
            else:
                sheet.collect(short)
            sheet.collect(sheet.source("long", LONG), "long-out")

        return program

    story = Story(tmp_path)
    stopped = story.run(write(whole=True), asks={4: StopMode.SUSPEND})
    again = story.run(write(whole=False), recover=stopped.savepoint)
    assert again.status is JobStatus.FINISHED
    assert story.output() == SHORT, "what had ended before is not read again"
    assert story.output("long-out") == LONG


def test_operator_with_state_may_go_only_where_that_is_allowed_and_is_named_then(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def smaller(sheet: Sheet) -> None:
        sheet.collect(sheet.source("long", LONG).rebalance().map(lambda value: (value, 1)).uid("pairs"))

    story = Story(tmp_path)
    stopped = story.run(two_pipelines(), asks={3: StopMode.SUSPEND})
    refused = story.run(smaller, recover=stopped.savepoint)
    assert isinstance(refused.error, UnclaimedStateError)
    with caplog.at_level("INFO", "penstock"):
        again = story.run(smaller, recover=stopped.savepoint, ignore="true")
    assert again.status is JobStatus.FINISHED
    assert [value for value, _ in story.output() if value not in SHORT] == LONG
    assert any("'counts'" in line and "dropped" in line for line in caplog.messages)


@pytest.mark.behaviour(63)
def test_start_from_a_drained_savepoint_warns_once_of_what_does_not_fire_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    story = Story(tmp_path)
    suspended = story.run(two_pipelines(), asks={4: StopMode.SUSPEND})
    drained = story.run(two_pipelines(), asks={2: StopMode.DRAIN}, recover=suspended.savepoint)
    assert warnings() == []
    again = story.run(two_pipelines(), asks={2: lambda driver: driver.cancel()}, recover=drained.savepoint)
    [warning] = warnings()
    assert drained.savepoint in warning
    assert "do not fire again" in warning
    story.run(two_pipelines(), recover=again.driver.checkpoint)
    assert warnings() == [warning], "a later checkpoint is one of a job that goes on"


@pytest.mark.behaviour(63)
def test_drained_job_with_a_source_that_had_ended_before_goes_on_with_the_others(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(two_pipelines(), asks={4: StopMode.DRAIN})
    again = story.run(two_pipelines(), recover=stopped.savepoint)
    assert again.status is JobStatus.FINISHED
    assert sorted(story.output(), key=str) == EXPECTED

"""`finish` of functions in whole jobs: what it yields is in the last checkpoint, once, however the job came there."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.diaries import Ending, Run
from tests.lifecycle.jobs import RESTARTS, UNCHAINED, Jobs, crash_when
from tests.lifecycle.subjects import GATE, NUMBERS, RECORDS, Place

from penstock._engine.coordinator import instructions as do
from penstock.datastream.functions import (
    CheckpointedFunction,
    CheckpointListener,
    CoFlatMapFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
)
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import ListStateDescriptor

if TYPE_CHECKING:
    from pathlib import Path

#: What happened in this process: which function heard of which end.
HEARD: list[Any] = []
TOTAL = OutputTag("total")


class Threes(FlatMapFunction, CheckpointedFunction):
    """Records by three, and those that are left at the end."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting"))
        self.waiting = list(self.state.get())

    def snapshot_state(self, context: Any) -> None:
        self.state.update(self.waiting)

    def flat_map(self, value: Any) -> Any:
        self.waiting.append(value)
        if len(self.waiting) == 3:
            yield from self.take()

    def finish(self) -> Any:
        HEARD.append("threes")
        if self.waiting:
            yield from self.take()

    def take(self) -> Any:
        yield tuple(self.waiting)
        self.waiting = []


class Last(ProcessFunction, CheckpointListener):
    """Each record, with whether it came behind the last watermark, and one more at the end.

    What listens is kept behind the end of its input.
    """

    finished = False

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        pass

    def process_element(self, value: Any, ctx: Any) -> Any:
        assert not self.finished
        yield value, ctx.timer_service().current_watermark() == (1 << 63) - 1

    def finish(self) -> Any:
        HEARD.append("last")
        self.finished = True
        yield "end"
        yield TOTAL, "side"


class Named(MapFunction):
    def map(self, value: Any) -> Any:
        return value

    def finish(self) -> None:
        HEARD.append("map")


class Alike(KeySelector):
    def get_key(self, value: Any) -> Any:
        return 1

    def finish(self) -> None:
        HEARD.append("key")


class First(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        return 0

    def finish(self) -> None:
        HEARD.append("partitioner")


class Ends(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        yield value

    def flat_map2(self, value: Any) -> Any:
        yield value

    def end_input(self, input_index: int) -> Any:
        yield "end", input_index


def threes(place: Place) -> None:
    stream = place.numbers(NUMBERS).flat_map(Threes()).uid("threes").process(Last()).uid("last").map(Named())
    place.write(stream)


def sides(place: Place) -> None:
    stream = place.numbers(NUMBERS).process(Last())
    place.write(stream.get_side_output(TOTAL), "side")
    place.write(stream.partition_custom(First(), Alike()).flat_map(Threes()), "main")


def ends(place: Place) -> None:
    short = place.numbers(NUMBERS[:3], name="short")
    place.write(place.numbers(NUMBERS, name="long").connect(short).flat_map(Ends()))


def by_three(numbers: Any, settings: dict[str, str]) -> Counter[Any]:
    """Return what the sink holds in the end.

    The rest leaves the flat map behind the last watermark. In another vertex that counts once its senders have ended.
    """
    groups = [tuple(numbers[start : start + 3]) for start in range(0, len(numbers), 3)]
    return Counter([(group, len(group) < 3 and settings == CHAINED) for group in groups] + ["end"])


CHAINED = {"pipeline.operator-chaining.enabled": "true"}


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    HEARD.clear()
    return Jobs(tmp_path, monkeypatch)


@pytest.fixture(params=[CHAINED, UNCHAINED], ids=["chained", "apart"])
def settings(request: pytest.FixtureRequest) -> dict[str, str]:
    return request.param


def test_what_functions_yield_at_the_end_is_committed_once_and_behind_the_last_watermark(
    jobs: Jobs, settings: dict[str, str]
) -> None:
    jobs.make(threes, settings=settings).to_its_end()
    assert jobs.published == {"out": by_three(NUMBERS, settings)}
    assert HEARD == ["threes", "last", "map"]


def test_side_outputs_of_finish_and_functions_that_say_where_records_go(jobs: Jobs) -> None:
    jobs.make(sides).to_its_end()
    out = jobs.published
    assert out["side"] == Counter(["side"])
    assert sum(map(len, out["main"].elements())) == RECORDS + 1
    assert HEARD[0] == "last"
    assert sorted(HEARD[1:3]) == ["key", "partitioner"]
    assert HEARD[3:] == ["threes"]


def test_each_of_two_inputs_ends_once(jobs: Jobs) -> None:
    jobs.make(ends).to_its_end()
    assert jobs.published["out"] == Counter([*NUMBERS, *NUMBERS[:3], ("end", 0), ("end", 1)])


@pytest.mark.parametrize("at", [do.PutChainEntry, do.PublishProgress, do.ChangeStatus])
def test_a_crash_between_finish_and_the_end_of_the_job_repeats_or_keeps_what_was_yielded(
    at: type[do.Instruction], jobs: Jobs, settings: dict[str, str]
) -> None:
    crash_when(jobs.make(threes, settings=settings), lambda step: isinstance(step, at) and "last" in HEARD)
    heard = len(HEARD)
    jobs.make(threes, settings=settings).to_its_end()
    assert jobs.published == {"out": by_three(NUMBERS, settings)}
    committed = at is not do.PutChainEntry
    assert len(HEARD) == heard if committed else HEARD[heard:] == ["threes", "last", "map"]


def test_an_epoch_that_is_lost_behind_finish_runs_again_with_functions_that_were_not_notified_of_an_end(
    jobs: Jobs, settings: dict[str, str]
) -> None:
    run = jobs.make(threes, settings=settings | RESTARTS)
    original, lost = run.runner.run, []

    def losing(plan: Any) -> Any:
        outcome = original(plan)
        if "last" in HEARD and not lost:
            lost.append(plan.checkpoint_id)
            return replace(outcome, acks=outcome.acks[1:])  # an answer is missing: the epoch is void
        return outcome

    run.runner.run = losing  # type: ignore[method-assign]
    run.to_its_end()
    assert lost
    assert jobs.published == {"out": by_three(NUMBERS, settings)}
    assert HEARD == ["threes", "last", "map"] * 2


def test_a_drain_finishes_functions(jobs: Jobs) -> None:
    jobs.make(threes).to_its_end(Ending.DRAIN, after=GATE)
    assert HEARD == ["threes", "last", "map"]
    read = sum(len(record[0]) for record in jobs.published["out"] if record != "end")
    assert GATE <= read < RECORDS
    assert jobs.published == {"out": by_three(NUMBERS[:read], CHAINED)}


def test_a_suspend_finishes_no_function_and_the_end_of_the_job_that_goes_on_does(jobs: Jobs) -> None:
    run = jobs.make(threes)
    run.to_its_end(Ending.SUSPEND, after=GATE)
    assert HEARD == []
    jobs.make(threes, run.goes_on_from).to_its_end()
    assert HEARD == ["threes", "last", "map"]
    assert jobs.published == {"out": by_three(NUMBERS, CHAINED)}


@pytest.mark.parametrize("ending", [Ending.CANCEL, Ending.CRASH])
def test_functions_of_a_job_that_is_cancelled_or_dies_are_not_finished(ending: Ending, jobs: Jobs) -> None:
    run: Run = jobs.make(threes)
    if ending is Ending.CRASH:
        with pytest.raises(BaseException):  # noqa: B017, PT011 - the crash of the harness
            run.to_its_end(ending, after=GATE)
    else:
        run.to_its_end(ending, after=GATE)
    assert HEARD == []

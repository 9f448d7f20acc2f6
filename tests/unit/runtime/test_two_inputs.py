"""Vertices with two inputs in whole epochs: what they read, their watermark, and the end of each input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.epochs import EpochFailedError, Job, in_order, run
from tests.kit.program import Program

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.factories.functions import CoProcessFactory
from penstock._engine.operators.functions.co_process import CoProcessOperator
from penstock.datastream.functions import CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing.in_process import Chaos, InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from penstock._engine.operators.base import Output


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


class Either(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return "first", value

    def map2(self, value: Any) -> Any:
        return "second", value


class Matching(KeyedCoProcessFunction):
    """The records of both sides by key, told by a timer at the end."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self._note(1, value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> None:
        self._note(2, value, ctx)

    def _note(self, side: int, value: Any, ctx: Any) -> None:
        self.seen.update([*(self.seen.value() or []), (side, value[1])])
        ctx.timer_service().register_event_time_timer(1_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), tuple(sorted(self.seen.value()))


class Late(CoProcessFunction):
    """Each record with the watermark that it finds."""

    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield 1, value[1], ctx.timer_service().current_watermark()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield 2, value[1], ctx.timer_service().current_watermark()


class TellsEnds(CoProcessOperator):
    """Emits what it is told of the end."""

    def end_input(self, input_index: int) -> Iterable[Output]:
        return ((None, RowBatch([("end", input_index, self.timers.watermark == (1 << 63) - 1)])),)

    def finish(self) -> Iterable[Output]:
        return ((None, RowBatch(["finish"])),)


def test_records_of_two_sources_reach_the_method_of_their_input(program: Program, tmp_path: Path) -> None:
    first, second = program.source([1, 2, 3], name="first"), program.source(["a", "b"], name="second")
    program.collect(first.connect(second).map(Either()))
    expected = [("first", 1), ("first", 2), ("first", 3), ("second", "a"), ("second", "b")]
    assert sorted(run(program, tmp_path)["out"], key=str) == expected


def test_a_stream_may_be_connected_with_itself(program: Program, tmp_path: Path) -> None:
    source = program.source([1, 2])
    program.collect(source.connect(source).map(Either()))
    expected = [("first", 1), ("first", 2), ("second", 1), ("second", 2)]
    assert sorted(run(program, tmp_path)["out"]) == expected


@pytest.mark.parametrize("chaos", [None, Chaos(retries=0.3)])
def test_the_records_of_a_key_meet_whatever_the_epochs_and_processes(
    program: Program, tmp_path: Path, chaos: Chaos | None
) -> None:
    letters = [(letter, number) for number, letter in enumerate("abcdefgh" * 3)]
    first = program.source(letters[:10], letters[10:], name="first", timestamps=in_order()).set_parallelism(2)
    second = program.source(letters[:8], name="second", timestamps=in_order())
    connected = first.connect(second).key_by(lambda record: record[0], lambda record: record[0])
    program.collect(connected.process(Matching()).set_parallelism(3))
    runner = InProcessEpochRunner(workers=3, chaos=chaos, seed=5)
    expected = {
        letter: tuple(
            sorted(
                [(1, n) for other, n in letters if other == letter]
                + [(2, n) for other, n in letters[:8] if other == letter]
            )
        )
        for letter in "abcdefgh"
    }
    assert dict(run(program, tmp_path, slots=3, runner=runner)["out"]) == expected


def test_the_watermark_waits_for_the_slower_input(program: Program, tmp_path: Path) -> None:
    fast = program.source([("a", 100), ("a", 200)], name="fast", timestamps=in_order())
    slow = program.source([("b", time) for time in range(10)], name="slow", timestamps=in_order())
    program.collect(fast.connect(slow).process(Late()))
    out = run(program, tmp_path)["out"]
    assert [time for side, time, _ in out if side == 2] == list(range(10))
    assert all(watermark < time for side, time, watermark in out)


@pytest.mark.behaviour(3, 26)
def test_each_input_ends_once_and_the_operator_finishes_behind_both(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CoProcessFactory, "create", lambda factory: TellsEnds(factory.function))
    short = program.source([("a", 1)], name="short", timestamps=in_order())
    long = program.source([("b", time) for time in range(5)], name="long", timestamps=in_order())
    program.collect(short.connect(long).process(Late()))
    job = Job(program.graph(), tmp_path, InProcessEpochRunner(workers=2))
    ends = []
    while not job.finished:
        job.try_epoch(1)  # one that does not count
        ends.append([item for item in job.epoch(1).get("out", []) if item == "finish" or item[0] == "end"])
    assert [epoch for epoch in ends if epoch] == [[("end", 0, False)], [("end", 1, True), "finish"]]


def test_an_input_of_several_streams_ends_with_the_last_of_them(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CoProcessFactory, "create", lambda factory: TellsEnds(factory.function))
    long, short = program.source([("a", time) for time in range(4)]), program.source([("b", 1)], name="short")
    program.collect(long.union(short).connect(short).process(Late()))
    out = Job(program.graph(), tmp_path).run(1)["out"]
    assert [item[:2] for item in out if item[0] == "end"] == [("end", 1), ("end", 0)]


def test_an_error_of_either_method_names_its_record(program: Program, tmp_path: Path) -> None:
    class Fails(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return value

        def map2(self, value: Any) -> Any:
            return 1 // value

    first, second = program.source([1], name="first"), program.source([5, 0], name="second")
    program.collect(first.connect(second).map(Fails()))
    with pytest.raises(EpochFailedError) as caught:
        Job(program.graph(), tmp_path).run()
    assert caught.value.failures[0].record == "0"
    assert caught.value.failures[0].operator == "Co-Map"

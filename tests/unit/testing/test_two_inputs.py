"""A harness of two inputs that goes back to a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.functions import KeyedCoProcessFunction, ProcessFunction
from penstock.testing import InProcessEpochRunner, ManualClock, OperatorHarness, TwoInputHarness

if TYPE_CHECKING:
    from collections.abc import Iterator


class Wakes(KeyedCoProcessFunction):
    """Sets a timer at each number of the first input."""

    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        """Nothing happens with it."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[int]:
        yield timestamp


class Tells(ProcessFunction):
    """Gives the time of the clock for each record."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[int]:
        yield ctx.timer_service().current_processing_time()


def test_a_restored_harness_is_at_the_watermark_of_the_snapshot() -> None:
    with TwoInputHarness.for_keyed_co_process(Wakes(), abs, abs) as harness:
        before = harness.snapshot()
        for _ in range(2):  # the second time after a restore
            harness.process_element(5)
            harness.process_watermark(7)
            harness.process_watermark2(7)
            assert harness.values() == [5]
            harness.clear_output()
            harness.restore(before)


def test_both_inputs_have_the_names_of_flinks_harness() -> None:
    with TwoInputHarness.for_keyed_co_process(Wakes(), abs, abs) as harness:
        harness.process_element1(5)
        harness.process_elements1([6])
        harness.process_watermark1(6)
        assert harness.values() == []
        harness.process_watermark2(7)
        assert harness.values() == [5, 6]


def test_harnesses_share_a_clock_that_they_are_given() -> None:
    clock = ManualClock(1_000)
    with OperatorHarness.for_map(abs, clock=clock) as one, OperatorHarness.for_process(Tells(), clock=clock) as other:
        one.set_processing_time(2_000)
        other.process_element("now")
        assert other.values() == [2_000]


def test_a_runner_takes_a_manual_clock_as_it_is() -> None:
    clock = ManualClock(1_000)
    runner = InProcessEpochRunner(clock=clock)
    tasks = runner.workers[0].clock
    tasks.sleep_ms(3)
    clock.jump(-60_000)
    assert (tasks.now_ms(), tasks.passed_ms()) == (-58_997, 1_003)
    runner.close()

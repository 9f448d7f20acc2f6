"""A harness of two inputs that goes back to a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.functions import KeyedCoProcessFunction
from penstock.testing import TwoInputHarness

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

"""Operators of two inputs: each has its method, both have one watermark and, where keyed, one state."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.datastream.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeySelector,
)
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.time_domain import TimeDomain
from penstock.errors import UnsupportedOperationError
from penstock.testing.harness import StreamRecord, Watermark
from penstock.testing.two_inputs import TwoInputHarness

ODD = OutputTag("odd")


class Either(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return None if value == 0 else ("first", value)

    def map2(self, value: Any) -> Any:
        return "second", value


class Spread(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return [value] * value

    def flat_map2(self, value: Any) -> Any:
        return None


class Stamp(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield "first", value, ctx.timestamp(), ctx.timer_service().current_watermark()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield (ODD, value) if value % 2 else value


class Total(KeyedCoProcessFunction):
    """The first input adds, the second asks and sets a timer."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.total.update((self.total.value() or 0) + value[1])

    def process_element2(self, value: Any, ctx: Any) -> Any:
        service = ctx.timer_service()
        (service.register_event_time_timer if value[1] == "event" else service.register_processing_time_timer)(50)
        yield ctx.get_current_key(), self.total.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        domain = "event" if ctx.time_domain() is TimeDomain.EVENT_TIME else "processing"
        yield domain, timestamp, ctx.get_current_key(), self.total.value()


def first(record: Any) -> Any:
    return record[0]


def keyed(**subtask: int) -> TwoInputHarness:
    return TwoInputHarness.for_keyed_co_process(Total(), first, lambda record: record[0].lower(), **subtask)


def test_map_calls_the_method_of_the_input_and_drops_none() -> None:
    with TwoInputHarness.for_co_map(Either()) as harness:
        harness.process_elements([1, 0, 2], timestamp=5)
        harness.process_element2(0)
        assert harness.output() == [
            StreamRecord(("first", 1), 5),
            StreamRecord(("first", 2), 5),
            StreamRecord(("second", 0)),
        ]


def test_flat_map_calls_the_method_of_the_input() -> None:
    with TwoInputHarness.for_co_flat_map(Spread()) as harness:
        harness.process_elements([1, 2])
        harness.process_elements2([3, 4])
        harness.process_element(1, timestamp=7)
        assert harness.values() == [1, 2, 2, 1]


@pytest.mark.behaviour(185)
def test_the_watermark_is_the_smaller_one_of_both_inputs() -> None:
    with TwoInputHarness.for_co_process(Stamp()) as harness:
        harness.process_watermark(10)
        harness.process_watermark2(7)
        harness.process_element("a", timestamp=20)
        assert harness.output() == [Watermark(7), StreamRecord(("first", "a", 20, 7), 20)]


def test_side_outputs_come_from_either_input() -> None:
    with TwoInputHarness.for_co_process(Stamp()) as harness:
        harness.process_elements2([1, 2, 3])
        assert harness.values() == [2]
        assert [record.value for record in harness.side_output(ODD)] == [1, 3]


def test_timers_need_keys() -> None:
    class Timed(Stamp):
        def process_element1(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(1)

    with TwoInputHarness.for_co_process(Timed()) as harness, pytest.raises(UnsupportedOperationError, match="key_by"):
        harness.process_element(1)


def test_both_inputs_work_on_the_state_of_the_key() -> None:
    with keyed() as harness:
        harness.process_elements([("a", 1), ("b", 5), ("a", 2)])
        harness.process_elements2([("A", "event"), ("C", "event")])
        assert harness.values() == [("a", 3), ("c", None)]


def test_timers_of_either_clock_fire_with_the_state_of_their_key() -> None:
    with keyed() as harness:
        harness.process_elements2([("A", "event"), ("B", "clock")])
        harness.process_elements([("a", 1), ("b", 2)])
        harness.clear_output()
        harness.process_watermark(60)
        assert harness.values() == []
        harness.process_watermark2(50)
        harness.set_processing_time(50)
        assert harness.output() == [
            StreamRecord(("event", 50, "a", 1), 50),
            Watermark(50),
            StreamRecord(("processing", 50, "b", 2)),
        ]


def test_the_end_of_both_inputs_fires_the_timers() -> None:
    with keyed() as harness:
        harness.process_element2(("A", "event"))
        harness.end_input()
        assert harness.values() == [("a", None), ("event", 50, "a", None)]


def test_state_goes_to_another_parallelism_with_its_keys() -> None:
    before = keyed()
    before.process_elements([(letter, 1) for letter in "abcdefgh"])
    snapshot = before.snapshot()
    values = []
    for index in range(3):
        after = keyed(subtask_index=index, parallelism=3)
        after.restore(snapshot)
        for letter in "ABCDEFGH":
            try:
                after.process_element2((letter, "event"))
            except ValueError:
                continue
        values += after.values()
    assert sorted(values) == [(letter, 1) for letter in "abcdefgh"]


def test_one_selector_for_both_inputs_is_opened_and_closed_once() -> None:
    calls = []

    class Noted(KeySelector):
        def open(self, runtime_context: Any) -> None:
            calls.append("open")

        def get_key(self, value: Any) -> Any:
            return value[0]

        def close(self) -> None:
            calls.append("close")

    selector = Noted()
    with TwoInputHarness.for_keyed_co_process(Total(), selector, selector) as harness:
        harness.process_element(("a", 1))
        harness.process_element2(("a", "event"))
    assert calls == ["open", "close"]

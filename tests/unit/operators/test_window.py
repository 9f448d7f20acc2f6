"""Tumbling event-time windows: what they hold, when they fire, what is late, and that they survive a restore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from penstock.common.types import Row
from penstock.datastream.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.harness import OperatorHarness, StreamRecord

TEN = TumblingEventTimeWindows(10, 0)


class Average(AggregateFunction):
    def create_accumulator(self) -> Any:
        return [0, 0]

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] += value[1]
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


class Listed(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        yield key, window.start, [record[1] for record in inputs]


def add(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1]


def windowed(**functions: Any) -> OperatorHarness:
    return OperatorHarness.for_window(lambda record: record[0], TEN, **functions)


def feed(harness: OperatorHarness, *records: tuple[Any, int, int]) -> None:
    """Let in records of (key, value, timestamp)."""
    for key, value, timestamp in records:
        harness.process_element((key, value), timestamp)


def windows_in_state(harness: OperatorHarness, table: str) -> set[Any]:
    """Return the windows that have rows in a table of the operator's state."""
    return {one for kept in harness._operator.store.tables if kept.name == table for one in kept.namespaces()}


@pytest.mark.behaviour(186)
def test_a_window_fires_when_the_watermark_reaches_its_last_millisecond() -> None:
    harness = windowed(reduce=add)
    feed(harness, ("a", 1, 0), ("a", 2, 9), ("a", 4, 10))
    harness.process_watermark(8)
    assert harness.values() == []
    harness.process_watermark(9)
    assert harness.output()[1] == StreamRecord(("a", 3), 9)
    harness.process_watermark(19)
    assert harness.values() == [("a", 3), ("a", 4)]


def test_windows_that_one_watermark_closes_fire_in_order_of_time_whatever_order_their_records_came_in() -> None:
    harness = windowed(reduce=add)
    feed(harness, ("a", 1, 25), ("a", 2, 5), ("a", 4, 15), ("a", 8, 3))
    harness.process_watermark(100)
    assert [(item.value, item.timestamp) for item in harness.output() if isinstance(item, StreamRecord)] == [
        (("a", 10), 9),
        (("a", 4), 19),
        (("a", 1), 29),
    ]


def test_negative_timestamps_and_offsets_have_windows_too() -> None:
    shifted = TumblingEventTimeWindows(10, 3)
    harness = OperatorHarness.for_window(lambda record: record[0], shifted, function=Listed())
    feed(harness, ("a", -8, -8), ("a", -7, -7), ("a", 2, 2), ("a", 3, 3))
    harness.end_input()
    assert harness.values() == [("a", -17, [-8]), ("a", -7, [-7, 2]), ("a", 3, [3])]


def test_aggregate_gives_the_result_of_the_accumulator() -> None:
    harness = windowed(aggregate=Average())
    feed(harness, ("a", 1, 0), ("b", 10, 1), ("a", 2, 2))
    harness.process_watermark(9)
    assert sorted(harness.values()) == [1.5, 10.0]


def test_apply_gets_all_records_in_the_order_of_their_arrival() -> None:
    harness = windowed(function=Listed())
    feed(harness, ("a", 3, 5), ("a", 1, 2), ("b", 9, 1), ("a", 2, 2))
    harness.process_watermark(9)
    assert sorted(harness.values()) == [("a", 0, [3, 1, 2]), ("b", 0, [9])]


@pytest.mark.parametrize(("functions", "expected"), [({"reduce": add}, ("a", 3)), ({"aggregate": Average()}, 1.5)])
def test_a_window_function_behind_reduce_or_aggregate_gets_one_result(functions: Any, expected: Any) -> None:
    class Only(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            yield key, context.window().end, list(elements)

    harness = windowed(function=Only(), **functions)
    feed(harness, ("a", 1, 0), ("a", 2, 2))
    harness.process_watermark(9)
    assert harness.values() == [("a", 10, [expected])]


@pytest.mark.behaviour(186)
def test_each_late_record_within_the_allowed_lateness_fires_its_window_again() -> None:
    harness = windowed(reduce=add, allowed_lateness_ms=5)
    feed(harness, ("a", 1, 0))
    harness.process_watermark(9)
    harness.process_elements([("a", 2), ("a", 4), ("b", 8)], timestamp=3)
    assert harness.values() == [("a", 1), ("a", 3), ("a", 7), ("b", 8)]


@pytest.mark.behaviour(186)
def test_a_record_behind_the_allowed_lateness_is_dropped_and_counted() -> None:
    harness = windowed(reduce=add, allowed_lateness_ms=5)
    feed(harness, ("a", 1, 0))
    harness.process_watermark(14)
    harness.process_elements([("a", 2), ("a", 2)], timestamp=9)
    feed(harness, ("a", 2, 9), ("a", 4, 10))
    harness.process_watermark(19)
    assert harness.values() == [("a", 1), ("a", 4)]
    assert harness.metrics.snapshot()["numLateRecordsDropped"]["count"] == 3


def test_records_that_are_too_late_go_to_the_side_output_with_their_timestamps() -> None:
    late = OutputTag("late")
    harness = windowed(reduce=add, side_output_late_data=late)
    harness.process_watermark(9)
    feed(harness, ("a", 1, 9), ("a", 2, 10))
    harness.process_watermark(19)
    assert harness.side_output(late) == [StreamRecord(("a", 1), 9)]
    assert harness.values() == [("a", 2)]


def test_a_result_that_was_emitted_does_not_change_with_a_late_record() -> None:
    def fold(a: Any, b: Any) -> Any:
        a[1].extend(b[1])
        return a

    harness = windowed(reduce=fold, allowed_lateness_ms=5)
    harness.process_element(("a", [1]), 0)
    harness.process_watermark(9)
    harness.process_elements([("a", [2])], 1)
    assert harness.values() == [("a", [1]), ("a", [1, 2])]


def test_the_records_of_a_fired_window_are_not_the_state_of_the_window() -> None:
    class Spoils(WindowFunction):
        def apply(self, key: Any, window: Any, inputs: Any) -> Any:
            yield len(inputs)
            inputs.clear()

    harness = windowed(function=Spoils(), allowed_lateness_ms=5)
    feed(harness, ("a", 1, 0))
    harness.process_watermark(9)
    feed(harness, ("a", 2, 0))
    assert harness.values() == [1, 2]


def test_a_function_that_folds_into_its_first_argument_changes_no_other_record() -> None:
    def fold(a: Any, b: Any) -> Any:
        a.extend(b)
        return a

    shared = [1]
    harness = OperatorHarness.for_window(lambda record: "a", TEN, reduce=fold)
    harness.process_elements([shared, shared, shared], timestamp=0)
    harness.process_watermark(9)
    assert harness.values() == [[1, 1, 1]]


@pytest.mark.parametrize("lateness", [0, 20])
def test_a_window_restored_in_the_middle_goes_on(lateness: int) -> None:
    before = windowed(function=Listed(), allowed_lateness_ms=lateness)
    feed(before, ("a", 1, 0), ("a", 2, 12))
    before.process_watermark(11)
    after = windowed(function=Listed(), allowed_lateness_ms=lateness)
    after.restore(before.snapshot())
    feed(after, ("a", 3, 13))
    after.process_watermark(19)
    assert after.values() == [("a", 10, [2, 3])]


def test_a_window_that_fired_before_a_restore_fires_again_only_for_late_records() -> None:
    before = windowed(reduce=add, allowed_lateness_ms=20)
    feed(before, ("a", 1, 0))
    before.process_watermark(9)
    after = windowed(reduce=add, allowed_lateness_ms=20)
    after.restore(before.snapshot())
    after.process_watermark(12)
    assert after.values() == []
    feed(after, ("a", 2, 5))
    assert after.values() == [("a", 3)]


def test_open_windows_follow_their_keys_to_another_parallelism() -> None:
    keys = [f"key-{number}" for number in range(30)]
    before = windowed(function=Listed())
    feed(before, *[(key, 1, 0) for key in keys])
    snapshot = before.snapshot()
    found: list[Any] = []
    for subtask in range(2):
        after = windowed(function=Listed(), subtask_index=subtask, parallelism=2)
        after.restore(snapshot)
        after.process_watermark(9)
        found += after.values()
    assert sorted(found) == sorted((key, 0, [1]) for key in keys)


@dataclass(frozen=True)
class Place:
    name: str
    number: int


@pytest.mark.parametrize("key", [("a", 1), Row("a", 1), Place("a", 1), 1.5, None, b"raw"])
@pytest.mark.parametrize("through_restore", [False, True])
def test_keys_come_back_as_they_were_given(key: Any, through_restore: bool) -> None:
    harness = windowed(function=Listed())
    harness.process_element((key, 7), 0)
    if through_restore:
        restored = windowed(function=Listed())
        restored.restore(harness.snapshot())
        harness = restored
    harness.process_watermark(9)
    [(came_back, _, values)] = harness.values()
    assert came_back == key
    assert type(came_back) is type(key)
    assert values == [7]


def test_window_state_is_of_one_window_and_global_state_of_all_windows_of_a_key() -> None:
    class Counts(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            here = context.window_state().get_state(ValueStateDescriptor("count"))
            everywhere = context.global_state().get_state(ValueStateDescriptor("count"))
            for state in (here, everywhere):
                state.update((state.value() or 0) + 1)
            yield context.window().start, here.value(), everywhere.value()

        def clear(self, context: Any) -> None:
            cleared.append(context.window_state().get_state(ValueStateDescriptor("count")).value())

    cleared: list[Any] = []
    harness = windowed(function=Counts(), allowed_lateness_ms=5)
    feed(harness, ("a", 1, 0), ("a", 1, 10))
    harness.process_watermark(9)
    feed(harness, ("a", 1, 1))
    harness.process_watermark(19)
    assert harness.values() == [(0, 1, 1), (0, 2, 2), (10, 1, 3)]
    assert cleared == [2]


@pytest.mark.behaviour(186)
def test_all_windows_fire_at_the_end_of_the_input() -> None:
    harness = windowed(reduce=add)
    feed(harness, ("a", 1, 0), ("a", 2, 1_000_000))
    harness.end_input()
    assert harness.values() == [("a", 1), ("a", 2)]


@pytest.mark.behaviour(186)
def test_nothing_is_left_in_the_state_once_all_windows_are_over() -> None:
    harness = windowed(reduce=add, allowed_lateness_ms=5)
    feed(harness, *[("a", 1, time) for time in range(0, 200, 5)])
    harness.process_watermark(10_000)
    [handle] = harness.snapshot().lineage
    assert handle.entries == 0


def test_a_record_without_a_timestamp_is_refused() -> None:
    harness = windowed(reduce=add)
    with pytest.raises(ValueError, match="timestamp"):
        harness.process_element(("a", 1))


# --------------------------------------------------------------------------------------- what has fired is state


class Total(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window().start, sum(value for _, value in elements)


def rescaled(snapshots: Any, parallelism: int = 2, **functions: Any) -> list[OperatorHarness]:
    harnesses = [windowed(subtask_index=index, parallelism=parallelism, **functions) for index in range(parallelism)]
    for harness in harnesses:
        harness.restore(*snapshots)
    return harnesses


def of_key(harnesses: list[OperatorHarness], key: Any) -> OperatorHarness:
    """Return the harness of the subtask that has a key."""
    for harness in harnesses:
        try:
            harness._check_key(key)
        except ValueError:
            continue
        return harness
    raise AssertionError


KEYS = [("k", number) for number in range(20)]


def fired_windows() -> OperatorHarness:
    """Return a harness in which one window has fired and another one is open."""
    before = windowed(function=Total(), allowed_lateness_ms=100)
    feed(before, *[(key, 1, 0) for key in KEYS], *[(key, 1, 10) for key in KEYS])
    before.process_watermark(9)
    before.clear_output()
    return before


@pytest.mark.behaviour(186)
@pytest.mark.parametrize("parallelism", [2, 3])
def test_windows_that_have_fired_do_not_fire_again_when_watermarks_start_fresh(parallelism: int) -> None:
    after = rescaled([fired_windows().snapshot()], parallelism, function=Total(), allowed_lateness_ms=100)
    for harness in after:
        harness.process_watermark(15)
    assert [harness.values() for harness in after] == [[]] * parallelism
    for harness in after:
        harness.process_watermark(19)
    assert sorted(value for harness in after for value in harness.values()) == sorted((key, 10, 1) for key in KEYS)


@pytest.mark.behaviour(186)
def test_a_record_before_the_new_watermark_has_its_key_alone_fire_again_and_once() -> None:
    after = rescaled([fired_windows().snapshot()], function=Total(), allowed_lateness_ms=100)
    feed(of_key(after, KEYS[3]), (KEYS[3], 5, 4), (KEYS[3], 7, 4))
    assert [value for harness in after for value in harness.values()] == []
    for harness in after:
        harness.process_watermark(9)
    assert [value for harness in after for value in harness.values()] == [(KEYS[3], 0, 13)]
    again = rescaled([harness.snapshot() for harness in after], 3, function=Total(), allowed_lateness_ms=100)
    for harness in again:
        harness.process_watermark(9)
    assert [harness.values() for harness in again] == [[], [], []]


@pytest.mark.behaviour(186)
def test_a_record_behind_the_new_watermark_fires_its_key_at_once() -> None:
    after = rescaled([fired_windows().snapshot()], function=Total(), allowed_lateness_ms=100)
    for harness in after:
        harness.process_watermark(9)
    new_key = ("k", 99)
    feed(of_key(after, KEYS[3]), (KEYS[3], 5, 4))
    feed(of_key(after, new_key), (new_key, 5, 4))
    assert sorted(value for harness in after for value in harness.values()) == [(KEYS[3], 0, 6), (new_key, 0, 5)]
    again = rescaled([harness.snapshot() for harness in after], 1, function=Total(), allowed_lateness_ms=100)
    again[0].process_watermark(9)
    assert again[0].values() == []


def test_the_end_of_the_lateness_takes_what_had_fired_along() -> None:
    after = rescaled([fired_windows().snapshot()], function=Total(), allowed_lateness_ms=100)
    for harness in after:
        harness.process_watermark(109)
        harness.snapshot()
        assert windows_in_state(harness, "window-fired") <= {(10, 20)}
        assert (0, 10) not in windows_in_state(harness, "window-contents")


def test_windows_that_had_fired_are_cleared_unseen_where_the_program_takes_no_late_records_any_more() -> None:
    after = rescaled([fired_windows().snapshot()], function=Total())
    for harness in after:
        harness.process_watermark(9)
        assert harness.values() == []
        assert (0, 10) not in windows_in_state(harness, "window-contents")

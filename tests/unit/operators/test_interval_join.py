"""The operator of interval joins: pairs, their timestamps, late records, and state that goes when it is over."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.datastream import OutputTag
from penstock.datastream.functions import ProcessJoinFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import MissingTimestampError
from penstock.testing.harness import StreamRecord
from penstock.testing.two_inputs import TwoInputHarness

LEFT, RIGHT, EARLY = OutputTag("left"), OutputTag("right"), OutputTag("early")


class Both(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left, right
        if ctx.get_right_timestamp() < ctx.get_left_timestamp():
            yield EARLY, ctx.get_timestamp()


def itself(record: Any) -> Any:
    return record[0]


def join(function: Any = None, *, lower: int = -2, upper: int = 3, **others: Any) -> TwoInputHarness:
    return TwoInputHarness.for_interval_join(
        function or Both(), itself, itself, lower_ms=lower, upper_ms=upper, **others
    )


def watermark(harness: TwoInputHarness, timestamp: int) -> None:
    harness.process_watermark(timestamp)
    harness.process_watermark2(timestamp)


def kept(harness: TwoInputHarness) -> list[list[int]]:
    """The timestamps that each side of the key "a" has in its state."""
    store: Any = harness._operator.store  # type: ignore[attr-defined]
    panes = [store.table(f"interval-join-{side}").panes.values() for side in ("left", "right")]
    return [[item[0] for pane in side for _, items in pane.items() for item in items] for side in panes]


def test_pairs_are_within_both_bounds_and_have_the_later_timestamp() -> None:
    with join() as harness:
        harness.process_element("a left", 10)
        for stamp in (7, 8, 10, 13, 14):
            harness.process_element2(f"a{stamp}", stamp)
        harness.process_element2("b", 10)
        assert harness.output() == [
            StreamRecord(("a left", "a8"), 10),
            StreamRecord(("a left", "a10"), 10),
            StreamRecord(("a left", "a13"), 13),
        ]
        assert harness.side_output(EARLY) == [StreamRecord(10, 10)]


def test_a_left_record_finds_the_right_ones_in_the_order_of_their_timestamps() -> None:
    with join() as harness:
        for name, stamp in (("a4", 13), ("a2", 10), ("a1", 8), ("a3", 10), ("a no", 14)):
            harness.process_element2(name, stamp)
        harness.process_element("a", 10)
        assert [right for _, right in harness.values()] == ["a1", "a2", "a3", "a4"]


def test_late_records_are_counted_or_go_to_the_output_of_their_side() -> None:
    for tags, counted in (((None, None), 2), ((LEFT, RIGHT), 0), ((LEFT, None), 1)):
        with join(late=tags) as harness:
            watermark(harness, 10)
            harness.process_element("a", 9)
            harness.process_element2("a2", 9)
            harness.process_element("a", 10)  # as old as the watermark: in time
            harness.process_element2("a1", 10)
            assert harness.values() == [("a", "a1")]
            assert harness.metrics.snapshot()["numLateRecordsDropped"]["count"] == counted
            assert [record.value for record in harness.side_output(LEFT)] == ["a"] * (tags[0] is LEFT)
            assert [record.value for record in harness.side_output(RIGHT)] == ["a2"] * (tags[1] is RIGHT)


def test_a_record_stays_until_the_last_one_that_it_joins_would_be_late() -> None:
    with join() as harness:
        harness.process_element("a left", 10)
        harness.process_element2("a right", 10)
        harness.clear_output()
        watermark(harness, 12)
        harness.process_element("a12", 12)
        watermark(harness, 13)
        harness.process_element2("a13", 13)
        assert harness.values() == [("a12", "a right"), ("a left", "a13"), ("a12", "a13")]


def test_a_slice_goes_when_all_that_its_last_record_could_join_would_be_late() -> None:
    with join() as harness:
        for stamp in (10, 240, 250):
            harness.process_element("a", stamp)
            harness.process_element2("a", stamp)
        watermark(harness, 251)
        assert kept(harness) == [[10, 240, 250], [10, 240, 250]]
        watermark(harness, 252)
        assert kept(harness) == [[10, 240, 250], [250]]
        watermark(harness, 253)
        assert kept(harness) == [[250], [250]]
        watermark(harness, 503)
        assert kept(harness) == [[], []]


@pytest.mark.parametrize("count", [15, 16, 17, 18, 128, 129, 400])
def test_many_records_of_a_key_at_close_times_come_in_the_order_of_their_times(count: int) -> None:
    stamps = [(place * 7) % 50 for place in range(count)]
    expected = sorted(range(count), key=lambda place: stamps[place])
    with join(lower=-100, upper=100) as harness:
        for place, stamp in enumerate(stamps):
            harness.process_element(("a", place), stamp)
        harness.process_element2("a", 20)
        snapshot = harness.snapshot()
        assert [left[1] for left, _ in harness.values() if left != EARLY] == expected
    restored = join(lower=-100, upper=100)
    restored.restore(snapshot)
    with restored as harness:
        harness.process_element(("a", count), 60)
        harness.process_element2("a", 20)
        pairs = [(left, right) for left, right in harness.values() if left != EARLY]
        assert [left[1] for left, _ in pairs[1:]] == [*expected, count]


@pytest.mark.parametrize("others", [{"lower": -3_000, "upper": 2_000}, {"lower": 0, "upper": 0}, {}])
def test_state_goes_on_under_other_bounds(others: dict[str, int]) -> None:
    stamps = [20, 1_000, 1_100, 1_240, *[1_300] * 200, 2_600, (1 << 63) - 2]
    with join(lower=-1_000, upper=1_000) as harness:
        for place, stamp in enumerate(stamps):
            harness.process_element(("a", place), stamp)
            harness.process_element((("b", 1), place), stamp)
        snapshot = harness.snapshot()
    restored = join(**others)
    restored.restore(snapshot)
    with restored as harness:
        harness.process_element2((("b", 1), 0), 1_240)
        lower, upper = others.get("lower", -2), others.get("upper", 3)
        expected = [place for place, stamp in enumerate(stamps) if stamp + lower <= 1_240 <= stamp + upper]
        assert [left[1] for left, _ in harness.values() if left != EARLY] == expected
        harness.snapshot()
        watermark(harness, 50_000)
        assert kept(harness)[0] == [(1 << 63) - 2] * 2


def test_a_record_without_a_timestamp_names_the_operator() -> None:
    with (
        join() as harness,
        pytest.raises(MissingTimestampError, match=r"'IntervalJoinOperator'.*'a'.*assign_timestamps"),
    ):
        harness.process_element2("a")


def test_what_a_function_changes_is_not_what_is_kept() -> None:
    class Emptying(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
            yield left[1].pop(), right[1].pop()

    with join(Emptying()) as harness:
        harness.process_element(["a", [1]], 10)
        harness.process_elements2([["a", [2]], ["a", [3]]], 10)
        harness.process_element(["a", [4]], 10)
        assert harness.values() == [(1, 2), (1, 3), (4, 2), (4, 3)]


def test_a_function_may_keep_state_of_the_key() -> None:
    class Counting(ProcessJoinFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count"))

        def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
            self.count.update((self.count.value() or 0) + 1)
            yield left, self.count.value()

    with join(Counting()) as harness:
        harness.process_elements(["a", "b", "a"], 10)
        harness.process_elements2(["a", "b"], 10)
        assert harness.values() == [("a", 1), ("a", 2), ("b", 1)]

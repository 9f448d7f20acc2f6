"""Times at the edge of 64 bits, and beyond: nothing is kept for ever in silence, and what is no time is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.operators.test_process import delete, keyed, register, register_processing
from tests.unit.operators.test_watermarks import Itself, marking

from penstock._engine.protocol.non_recoverable import is_non_recoverable
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock.common.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from penstock.datastream.functions import ProcessWindowFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import MergingWindowAssigner, TimeWindow, TumblingEventTimeWindows, WindowAssigner
from penstock.errors import TimestampError
from penstock.testing.harness import OperatorHarness, StreamRecord

SIZE = 10
#: No time of 64 bits, or no whole number.
NO_TIMES = [MAX_WATERMARK + 1, MIN_WATERMARK - 1, 10**30, 1.5, 1000.0, None, "5"]
#: Other ways to write the time 7, or 1.
ALIKE = [(np.int64(7), 7), (np.int32(7), 7), (True, 1)]


class Span(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield context.window().start, context.window().end, sorted(time for _, time in elements)


class Own(WindowAssigner):
    """Windows of ten milliseconds, of which each record is in one or more."""

    def __init__(self, each: int) -> None:
        self.each = each

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        last = timestamp - timestamp % self.each
        return [TimeWindow(start, start + SIZE) for start in range(last, timestamp - SIZE, -self.each)]

    def is_event_time(self) -> bool:
        return True


class Sessions(MergingWindowAssigner):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + SIZE)]

    def merge_windows(self, windows: Any, callback: Any) -> None:
        TimeWindow.merge_windows(windows, callback)

    def is_event_time(self) -> bool:
        return True


def windowed(offset: int = 0, windows: Any = None, **how: Any) -> OperatorHarness:
    assigner = windows or TumblingEventTimeWindows(SIZE, offset)
    return OperatorHarness.for_window(lambda record: record[0], assigner, function=Span(), **how)


def feed(harness: OperatorHarness, *times: int) -> None:
    for time in times:
        harness.process_element(("a", time), time)


def dropped(harness: OperatorHarness) -> int:
    return harness.metrics.snapshot()["numLateRecordsDropped"]["count"]


def stored(harness: OperatorHarness) -> list[bytes | None]:
    return [handle.inline for handle in harness.snapshot().lineage]


# -------------------------------------------------------------------------------------------------------------- windows


@pytest.mark.parametrize("watermark", [MIN_WATERMARK, 0, MAX_WATERMARK - 9], ids=["none", "0", "near the end"])
@pytest.mark.parametrize("lateness", [0, 5, MAX_WATERMARK], ids=["none", "5 ms", "endless"])
def test_records_of_a_window_that_would_end_after_all_times_are_late(lateness: int, watermark: int) -> None:
    harness = windowed(allowed_lateness_ms=lateness)
    if watermark != MIN_WATERMARK:
        harness.process_watermark(watermark)
    feed(harness, MAX_WATERMARK - 3, MAX_WATERMARK)
    harness.process_watermark(MAX_WATERMARK)
    assert harness.values() == []
    assert dropped(harness) == 2
    assert stored(harness) == stored(windowed(allowed_lateness_ms=lateness)), "nothing is kept"


@pytest.mark.parametrize("lateness", [0, MAX_WATERMARK], ids=["none", "endless"])
@pytest.mark.parametrize("windows", [Own(10), Own(5), Sessions()], ids=["tumbling", "sliding", "sessions"])
def test_they_are_late_with_an_assigner_of_ones_own_too_and_take_no_others_along(windows: Any, lateness: int) -> None:
    harness = windowed(windows=windows, allowed_lateness_ms=lateness)
    feed(harness, MAX_WATERMARK - 9, MAX_WATERMARK - 1, MAX_WATERMARK)
    harness.process_watermark(MAX_WATERMARK)
    assert {time for _, _, times in harness.values() for time in times} == {MAX_WATERMARK - 9}
    assert dropped(harness) == 2


class First(Own):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        return [TimeWindow(0, SIZE)]


def test_a_record_whose_windows_are_all_over_is_counted_whatever_its_own_time() -> None:
    harness = windowed(windows=First(SIZE))
    feed(harness, 30)
    harness.process_watermark(20)
    feed(harness, 40)
    assert harness.values() == [(0, SIZE, [30])]
    assert dropped(harness) == 1


@pytest.mark.parametrize("windows", [None, Own(5)], ids=["tumbling", "sliding"])
def test_they_go_to_the_side_output_for_late_records(windows: Any) -> None:
    late = OutputTag("late")
    harness = windowed(windows=windows, side_output_late_data=late)
    feed(harness, MAX_WATERMARK, 5)
    assert harness.side_output(late) == [StreamRecord(("a", MAX_WATERMARK), MAX_WATERMARK)]
    assert "numLateRecordsDropped" not in harness.metrics.snapshot() or dropped(harness) == 0


def test_window_that_ends_with_the_last_of_all_times_fires_with_the_last_watermark() -> None:
    offset = (MAX_WATERMARK + 1) % SIZE
    harness = windowed(offset)
    feed(harness, MAX_WATERMARK - 9, MAX_WATERMARK)
    harness.process_watermark(MAX_WATERMARK - 1)
    assert harness.values() == []
    restored = windowed(offset)
    restored.restore(harness.snapshot())
    restored.process_watermark(MAX_WATERMARK)
    assert restored.values() == [(MAX_WATERMARK - 9, MAX_WATERMARK + 1, [MAX_WATERMARK - 9, MAX_WATERMARK])]
    assert dropped(restored) == 0


def test_window_that_begins_before_all_times_fires_at_its_end() -> None:
    times = [MIN_WATERMARK + 1, MIN_WATERMARK + 2]
    harness = windowed()
    feed(harness, *times)
    restored = windowed()
    restored.restore(harness.snapshot())
    end = times[0] - times[0] % SIZE + SIZE
    restored.process_watermark(end - 2)
    assert restored.values() == []
    restored.process_watermark(end - 1)
    assert restored.values() == [(MIN_WATERMARK, end, times)]


def test_record_behind_the_last_watermark_is_late_with_any_lateness() -> None:
    harness = windowed(allowed_lateness_ms=MAX_WATERMARK)
    feed(harness, 5)
    harness.process_watermark(MAX_WATERMARK)
    feed(harness, 6)
    assert harness.values() == [(0, 10, [5])]
    assert dropped(harness) == 1


edge = st.one_of(
    st.integers(MIN_WATERMARK + 1, MIN_WATERMARK + 3 * SIZE),
    st.integers(MAX_WATERMARK - 3 * SIZE, MAX_WATERMARK),
    st.integers(-3 * SIZE, 3 * SIZE),
    st.integers(MIN_WATERMARK + 1, MAX_WATERMARK),
)


@example([MAX_WATERMARK], 0, 0)
@given(st.lists(edge, max_size=12), st.integers(1 - SIZE, SIZE - 1), st.sampled_from([0, 7, MAX_WATERMARK]))
def test_each_record_is_in_one_window_or_counted_as_late(times: list[int], offset: int, lateness: int) -> None:
    harness = windowed(offset, allowed_lateness_ms=lateness)
    feed(harness, *times)
    harness.process_watermark(MAX_WATERMARK)
    fired = harness.values()
    assert all(start <= time < end for start, end, inside in fired for time in inside)
    assert all((end - offset) % SIZE == 0 and start == max(end - SIZE, MIN_WATERMARK) for start, end, _ in fired)
    late = [time for time in times if time - (time - offset) % SIZE + SIZE - 1 > MAX_WATERMARK]
    assert sorted(time for _, _, inside in fired for time in inside) + sorted(late) == sorted(times)
    assert dropped(harness) == len(late)


# ------------------------------------------------------------------------------------------------ timestamps and timers


@pytest.mark.parametrize("time", NO_TIMES, ids=repr)
def test_timestamp_that_is_no_time_is_refused_with_its_record(time: Any) -> None:
    harness = marking(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself()))
    with pytest.raises(TimestampError) as caught:
        harness.process_elements([3, time])
    assert str(caught.value).startswith(f"The timestamp of {time!r} is {time!r}; ")
    assert is_non_recoverable(caught.value)


@pytest.mark.parametrize(("time", "plain"), ALIKE, ids=repr)
def test_timestamps_of_other_types_of_whole_numbers_are_plain_ints(time: Any, plain: int) -> None:
    harness = marking(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself()))
    harness.process_elements([time, MAX_WATERMARK])
    stamps = [item.timestamp for item in harness.output() if isinstance(item, StreamRecord)]
    assert list(map(repr, stamps)) == [repr(plain), repr(MAX_WATERMARK)]


class Emits(WatermarkGenerator):
    def __init__(self, watermark: Any) -> None:
        self.watermark = watermark

    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        output.emit_watermark(self.watermark)

    def on_periodic_emit(self, output: Any) -> None:
        pass


@pytest.mark.parametrize("time", NO_TIMES, ids=repr)
def test_watermark_that_is_no_time_is_refused(time: Any) -> None:
    harness = marking(WatermarkStrategy.for_generator(lambda _: Emits(time)))
    with pytest.raises(TimestampError, match=r"^A watermark is "):
        harness.process_element(1)


@pytest.mark.parametrize("time", NO_TIMES, ids=repr)
@pytest.mark.parametrize("step", [register, register_processing, delete])
def test_timer_at_what_is_no_time_is_refused(step: Any, time: Any) -> None:
    with pytest.raises(TimestampError, match=r"^The time of a timer is "):
        keyed().process_element(("a", step(time)))


@pytest.mark.parametrize(("time", "plain"), ALIKE, ids=repr)
def test_timer_at_another_type_of_whole_number_is_the_same_timer(time: Any, plain: int) -> None:
    harness = keyed()
    harness.process_element(("a", register(time, plain)))
    harness.process_watermark(100)
    assert list(map(repr, harness.values())) == [repr(("event", "a", plain))]


def test_timers_at_both_ends_of_time_fire_once() -> None:
    harness = keyed()
    ends = [MIN_WATERMARK, MIN_WATERMARK + 1, MAX_WATERMARK - 1, MAX_WATERMARK]
    harness.process_element(("a", register(*ends)), 0)
    restored = keyed()
    restored.restore(harness.snapshot())
    restored.process_watermark(MAX_WATERMARK - 1)
    assert [time for _, _, time in restored.values()] == ends[:-1]
    restored.process_watermark(MAX_WATERMARK)
    assert [time for _, _, time in restored.values()] == ends


# ------------------------------------------------------------------------------------------------------ numbers as keys


class Spans(Span):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield len(list(elements))


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ([0.0, -0.0, 0, False], 1),
        ([float("nan"), float("nan"), -float("nan"), np.float64("nan")], 1),
        ([2**63, 2**63 + 1, float(2**63)], 2),
        ([float("inf"), -float("inf")], 2),
    ],
    ids=["zeros", "NaN", "beyond 64 bits", "infinities"],
)
def test_numbers_that_are_one_key_have_one_window(keys: list[Any], count: int) -> None:
    windows = TumblingEventTimeWindows(SIZE, 0)
    harness = OperatorHarness.for_window(lambda record: record, windows, function=Spans())
    for key in keys:
        harness.process_element(key, 1)
    harness.process_watermark(MAX_WATERMARK)
    assert len(harness.values()) == count
    assert sum(harness.values()) == len(keys)

"""Windows of single keys: whatever assigner, trigger, evictor and merging make of them, in a store with no room."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.operators.starved import OperatorHarness, starved
from tests.unit.savepoints import jobs

from penstock._engine.protocol.key_groups import key_group, subtask_of_key_group
from penstock._engine.protocol.keys import normal_key
from penstock.common import WatermarkStrategy
from penstock.common.time import Time
from penstock.common.types import Row
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import OutputTag
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import AggregateFunction, ProcessWindowFunction
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor
from penstock.datastream.window import (
    CountWindow,
    EventTimeTrigger,
    Evictor,
    GlobalWindow,
    MergingWindowAssigner,
    ProcessingTimeTrigger,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    Window,
    WindowAssigner,
)
from penstock.errors import UnsupportedOperationError
from penstock.savepoint import KeyedEntry, Savepoint, SavepointWriter
from penstock.testing.harness import StreamRecord

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LATE = OutputTag("late")


class Sessions(MergingWindowAssigner):
    """Ten milliseconds from each record on; those that overlap are one."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + 10)]

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Any) -> None:
        TimeWindow.merge_windows(windows, callback)

    def is_event_time(self) -> bool:
        return True


class Sliding(WindowAssigner):
    """Windows of ten milliseconds, one of them every five."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        last = timestamp - timestamp % 5
        return [TimeWindow(last, last + 10), TimeWindow(last - 5, last + 5)]

    def is_event_time(self) -> bool:
        return True


class Everything(WindowAssigner):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Window]:
        return [GlobalWindow.get()]

    def is_event_time(self) -> bool:
        return True


class ByNumber(WindowAssigner):
    """Windows by the tens of a number, as counted ones are."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Window]:
        return [CountWindow(element[1] // 10)]

    def is_event_time(self) -> bool:
        return True


class ByClock(WindowAssigner):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        start = context.get_current_processing_time() // 100 * 100
        return [TimeWindow(start, start + 100)]

    def is_event_time(self) -> bool:
        return False


class EachThird(Trigger):
    """Fires and empties a window with each third record; the count is state that merges."""

    counted = ReducingStateDescriptor("counted", lambda a, b: a + b)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        count = ctx.get_partitioned_state(self.counted)
        count.add(1)
        if count.get() < 3:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.counted)

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.counted).clear()


class Gathered(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window(), [number for _, number in elements]


class Sum(AggregateFunction):
    def create_accumulator(self) -> Any:
        return [0]

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] += value[1]
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return [acc_a[0] + acc_b[0]]


def windows(directory: Path, assigner: Any, **how: Any) -> Any:
    if "reduce" not in how and "aggregate" not in how:
        how.setdefault("function", Gathered())
    return starved(OperatorHarness, directory).for_window(lambda pair: pair[0], assigner, **how)


def feed(harness: Any, *records: tuple[Any, int, int]) -> None:
    """Let records come: key, number, timestamp."""
    for key, number, timestamp in records:
        harness.process_element((key, number), timestamp)


def fired(harness: Any) -> list[Any]:
    """Return what came out, but for watermarks."""
    return [one for one in harness.output() if isinstance(one, StreamRecord)]


def again(directory: Path, harness: Any, assigner: Any, **how: Any) -> Any:
    """Return another harness that goes on from where one is."""
    after = windows(directory, assigner, **how)
    after.restore(harness.snapshot())
    return after


@pytest.mark.parametrize("key", ["a", ("a", 1), Row(name="a")], ids=["str", "tuple", "row"])
def test_sessions_merge_and_fire_whole_after_a_restore(tmp_path: Path, key: Any) -> None:
    before = windows(tmp_path, Sessions())
    feed(before, (key, 1, 0), (key, 2, 20), ("b", 3, 5))
    harness = again(tmp_path, before, Sessions())
    feed(harness, (key, 4, 8), (key, 5, 14))
    harness.process_watermark(40)
    (b, *_), (found, window, numbers) = harness.values()
    assert (b, found, type(found)) == ("b", key, type(key))
    assert (window, sorted(numbers)) == (TimeWindow(0, 30), [1, 2, 4, 5])
    rest = again(tmp_path, harness, Sessions())
    rest.process_watermark(1_000)
    assert rest.values() == []


def sessions_of(stamps: list[int]) -> list[tuple[int, int]]:
    """Return where sessions begin and end."""
    found: list[tuple[int, int]] = []
    for stamp in sorted(stamps):
        if found and stamp <= found[-1][1]:
            found[-1] = found[-1][0], stamp + 10
        else:
            found.append((stamp, stamp + 10))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_sessions_are_those_of_their_records_through_restores_at_any_parallelism(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    came: dict[Any, list[int]] = {}
    parts: list[Any] = []
    for parallelism in (1, 3, 2, 2):
        snapshots = [part.snapshot() for part in parts]
        parts = [
            windows(tmp_path, Sessions(), subtask_index=index, parallelism=parallelism) for index in range(parallelism)
        ]
        for part in parts if snapshots else ():
            part.restore(*snapshots)
        for _ in range(40):
            key, stamp = source.choice(["a", "b", ("c", 1), Row(d=1)]), source.randrange(300)
            came.setdefault(normal_key(key), []).append(stamp)
            owner = subtask_of_key_group(key_group(normal_key(key), 128), parallelism, 128)
            feed(parts[owner], (key, stamp, stamp))
    for part in parts:
        part.process_watermark(1_000)
    found: dict[Any, list[Any]] = {}
    for key, window, stamps in (value for part in parts for value in part.values()):
        found.setdefault(normal_key(key), []).append((window.start, window.end, sorted(stamps)))
    assert {key: sorted(windows) for key, windows in found.items()} == {
        key: [(start, end, sorted(s for s in stamps if start <= s < end)) for start, end in sessions_of(stamps)]
        for key, stamps in came.items()
    }


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"reduce": lambda a, b: (a[0], a[1] + b[1])}, ("a", 7)),
        ({"aggregate": Sum()}, 7),
    ],
    ids=["reduce", "aggregate"],
)
def test_what_merging_windows_hold_is_merged(tmp_path: Path, how: Any, expected: Any) -> None:
    harness = windows(tmp_path, Sessions(), **how)
    feed(harness, ("a", 1, 0), ("a", 2, 18), ("a", 4, 9))
    harness.process_watermark(100)
    assert fired(harness) == [StreamRecord(expected, 27)]


def test_windows_that_overlap_have_each_their_own_contents(tmp_path: Path) -> None:
    harness = windows(tmp_path, Sliding(), reduce=lambda a, b: (a[0], a[1] + b[1]))
    feed(harness, ("a", 1, 3), ("a", 2, 7))
    harness.process_watermark(20)
    assert fired(harness) == [
        StreamRecord(("a", 1), 4), StreamRecord(("a", 3), 9), StreamRecord(("a", 2), 14),
    ]  # fmt: skip


def test_trigger_of_ones_own_counts_in_state_of_its_window(tmp_path: Path) -> None:
    before = windows(tmp_path, Everything(), trigger=EachThird())
    feed(before, ("a", 1, 0), ("b", 2, 0), ("a", 3, 0))
    harness = again(tmp_path, before, Everything(), trigger=EachThird())
    feed(harness, ("a", 4, 0), ("a", 5, 0), ("b", 6, 0))
    harness.process_watermark((1 << 63) - 1)
    assert harness.values() == [("a", GlobalWindow.get(), [1, 3, 4])]


def test_state_of_a_trigger_merges_with_its_windows(tmp_path: Path) -> None:
    harness = windows(tmp_path, Sessions(), trigger=EachThird())
    feed(harness, ("a", 1, 0), ("a", 2, 18))
    assert harness.values() == []
    feed(harness, ("a", 4, 9))
    ((key, window, numbers),) = harness.values()
    assert (key, window, sorted(numbers)) == ("a", TimeWindow(0, 28), [1, 2, 4])


def test_counted_windows_are_told_apart_by_their_number(tmp_path: Path) -> None:
    harness = windows(tmp_path, ByNumber(), trigger=EachThird())
    feed(harness, *(("a", number, 0) for number in (1, 11, 2, 12, 3, 13)))
    assert harness.values() == [("a", CountWindow(0), [1, 2, 3]), ("a", CountWindow(1), [11, 12, 13])]


def test_windows_by_the_clock(tmp_path: Path) -> None:
    harness = windows(tmp_path, ByClock())
    harness.set_processing_time(1_050)
    feed(harness, ("a", 1, 0))
    harness.set_processing_time(1_098)
    feed(harness, ("a", 2, 0))
    assert harness.values() == []
    harness.set_processing_time(1_099)
    assert harness.values() == [("a", TimeWindow(1_000, 1_100), [1, 2])]


def test_late_records_fire_again_until_lateness_has_passed_then_they_are_set_aside(tmp_path: Path) -> None:
    harness = windows(tmp_path, Sessions(), allowed_lateness_ms=20, side_output_late_data=LATE)
    feed(harness, ("a", 1, 0))
    harness.process_watermark(15)
    feed(harness, ("a", 2, 5))
    assert [values for *_, values in harness.values()] == [[1], [1, 2]]
    harness.process_watermark(34)
    feed(harness, ("a", 3, 0))
    assert harness.side_output(LATE) == [StreamRecord(("a", 3), 0)]
    assert len(harness.values()) == 2


def test_tumbling_windows_with_a_trigger_are_windows_of_their_keys(tmp_path: Path) -> None:
    tumbling = TumblingEventTimeWindows.of(Time.milliseconds(10))
    harness = windows(tmp_path, tumbling, trigger=EachThird())
    feed(harness, *(("a", number, number) for number in range(8)))
    assert harness.values() == [("a", TimeWindow(0, 10), [0, 1, 2]), ("a", TimeWindow(0, 10), [3, 4, 5])]


class LastTwo(Evictor):
    """The function sees the last two; of them the last one stays."""

    def evict_before(self, elements: list[Any], size: int, window: Any, ctx: Any) -> list[Any]:
        found = list(elements)
        assert len(found) == size
        return found[-2:]

    def evict_after(self, elements: list[Any], size: int, window: Any, ctx: Any) -> list[Any]:
        return list(elements)[-1:]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, [[2, 3], [5, 6]]),
        ({"reduce": lambda a, b: (a[0], a[1] + b[1])}, [("a", 5), ("a", 11)]),
        ({"aggregate": Sum()}, [5, 11]),
    ],
    ids=["process", "reduce", "aggregate"],
)
def test_evictor_takes_records_out_before_and_after_the_function(tmp_path: Path, how: Any, expected: Any) -> None:
    class Firing(EachThird):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
            fires = super().on_element(element, timestamp, window, ctx).is_fire()
            return TriggerResult.FIRE if fires else TriggerResult.CONTINUE

    harness = windows(tmp_path, Everything(), trigger=Firing(), evictor=LastTwo(), **how)
    feed(harness, *(("a", number, number) for number in range(1, 7)))
    found = harness.values()
    assert (found if how else [numbers for *_, numbers in found]) == expected


class Remembers(ProcessWindowFunction):
    """State of a window, state of its key, and what is left of the first at the end."""

    seen = MapStateDescriptor("seen")
    ends: list[Any] = []  # noqa: RUF012 - of this test

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        here, all_windows = context.window_state().get_map_state(self.seen), context.global_state()
        for _, number in elements:
            here.put(number, True)
        total = all_windows.get_list_state(ListStateDescriptor("seen"))
        total.add(context.window().start)
        yield key, sorted(here), list(total)

    def clear(self, context: Any) -> None:
        here = context.window_state().get_map_state(self.seen)
        self.ends.append((context.window().start, sorted(here)))
        here.clear()


def test_window_function_has_state_of_its_window_and_of_its_key(tmp_path: Path) -> None:
    Remembers.ends.clear()
    harness = windows(tmp_path, Sliding(), function=Remembers(), allowed_lateness_ms=3)
    feed(harness, ("a", 1, 7))
    harness.process_watermark(9)
    feed(harness, ("a", 2, 7))
    harness.process_watermark(100)
    assert harness.values() == [("a", [1], [0]), ("a", [1, 2], [0, 0]), ("a", [1, 2], [0, 0, 5])]
    assert Remembers.ends == [(0, [1, 2]), (5, [1, 2])]


def test_windows_that_merge_have_no_state_of_their_own(tmp_path: Path) -> None:
    harness = windows(tmp_path, Sessions(), function=Remembers())
    feed(harness, ("a", 1, 0))
    with pytest.raises(UnsupportedOperationError, match="windows that merge have no state of their own"):
        harness.process_watermark(100)


def test_default_triggers_know_how_to_merge() -> None:
    assert EventTimeTrigger.create().can_merge()
    assert ProcessingTimeTrigger.create().can_merge()
    assert [result.is_fire() for result in TriggerResult] == [False, True, True, False]
    assert [result.is_purge() for result in TriggerResult] == [False, True, False, True]


def test_sessions_of_a_job_that_stops_and_goes_on_at_another_parallelism(tmp_path: Path) -> None:
    """The windows of a program of one's own, from the environment to its savepoint and back."""

    def program(env: Any) -> None:
        stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(jobs.OwnValue())
        numbers = env.from_source(NumberSequenceSource(0, 4_999), stamps, "numbers").uid("numbers").set_parallelism(1)
        thirds = numbers.filter(lambda number: number % 700 < 600).key_by(lambda number: number % 3)
        thirds.window(Sessions()).reduce(lambda a, b: a + b, Told()).uid("sessions").print()

    before = jobs.environment(2, checkpoints=str(tmp_path / "before"))
    program(before)
    path = jobs.run(before, tmp_path, stop_in=1)[1]
    assert path is not None
    told = list(jobs.SEEN)
    windows = Savepoint.open(path).windows("sessions")
    assert {(type(entry.window[0]), entry.value is None) for entry in windows} == {(int, False)}
    assert windows.to_pandas().columns.tolist() == ["key", "window_start", "window_end", "value"]
    path = (
        SavepointWriter.from_existing(path)
        .set_keyed_state("sessions", "window-contents", windows)
        .write(str(tmp_path / "written"))
    )
    after = jobs.environment(3, recover=path, checkpoints=str(tmp_path / "after"))
    program(after)
    jobs.run(after, tmp_path)
    expected: dict[Any, int] = {}
    for number in (number for number in range(5_000) if number % 700 < 600):
        place = number // 700, number % 3
        expected[place] = expected.get(place, 0) + number
    assert {(window.start // 700, key): total for key, window, total in (*told, *jobs.SEEN)} == expected
    assert len(told) + len(jobs.SEEN) == len(expected)


class Told(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        jobs.SEEN.append((key, context.window(), *elements))
        yield key


class Counted(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        jobs.SEEN.append((key, context.window().start, sorted(number for _, number in elements)))
        yield key


class Second(TimestampAssigner):
    def extract_timestamp(self, value: tuple[Any, int], record_timestamp: int) -> int:
        return value[1]


@pytest.mark.parametrize("rewritten", [0, 1, 2])
def test_none_as_the_only_key_of_a_window_is_kept_through_savepoints_that_are_written_again(
    tmp_path: Path, rewritten: int
) -> None:
    held = [KeyedEntry(None, [(None, 5)], (0, 10)), KeyedEntry(None, [(None, 95), (None, 96)], (90, 100))]
    writer = SavepointWriter.new().set_keyed_state("w", "window-contents", held, kind="window-elements")
    path = writer.write(str(tmp_path / "0"))
    for number in range(rewritten):
        writer = SavepointWriter.from_existing(path)
        transformed = writer.transform_keyed_state("w", "window-contents", lambda key, elements: elements)
        path = transformed.write(str(tmp_path / str(number + 1)))
    read = {
        (entry.key, entry.window): entry.value for entry in Savepoint.open(path).keyed_state("w", "window-contents")
    }
    assert read == {(None, (0, 10)): [(None, 5)], (None, (90, 100)): [(None, 95), (None, 96)]}
    env = jobs.environment(2, recover=path, checkpoints=str(tmp_path / "after"))
    stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    records = env.from_collection([("y", 6), (None, 7)]).assign_timestamps_and_watermarks(stamps)
    windows = records.key_by(lambda record: record[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    windows.process(Counted()).uid("w").print()
    jobs.run(env, tmp_path)
    assert sorted(jobs.SEEN, key=repr) == [("y", 0, [6]), (None, 0, [5, 7]), (None, 90, [95, 96])]

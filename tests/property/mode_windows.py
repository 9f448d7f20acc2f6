"""Programs of windows whose final result is the same in both modes, with what plain Python makes of their input."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, cast

from penstock.common import Duration, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream.functions import (
    AggregateFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import (
    ValueStateDescriptor,
)
from penstock.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: (key, timestamp, number)
Record = tuple[int, int, int]
WINDOW_MS, GAP_MS = 10, 4
SLIDING = SlidingEventTimeWindows(WINDOW_MS, 4, 1)


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value: Record, record_timestamp: int) -> int:
        return value[1]


#: No record is late.
STAMPED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1_000)).with_timestamp_assigner(Stamp())


def key(record: Any) -> Any:
    return record[0]


def windowed(stream: Any) -> Any:
    windows = stream.key_by(key).window(TumblingEventTimeWindows(WINDOW_MS, 0))
    return windows.reduce(lambda a, b: (a[0], a[1] - a[1] % WINDOW_MS, a[2] + b[2])).map(
        lambda record: ((record[0], record[1] - record[1] % WINDOW_MS), record[2])
    )


class Total(AggregateFunction):
    combinable = True

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Record, accumulator: int) -> int:
        return accumulator + value[2]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Started(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterable[Any]:
        yield (key, context.window().start), *elements


def sliding(stream: Any) -> Any:
    return stream.key_by(key).window(SLIDING).aggregate(Total(), Started())


def of_sliding(records: list[Record]) -> dict[Any, int]:
    totals: dict[Any, int] = defaultdict(int)
    for record in records:
        for window in SLIDING.assign_windows(record, record[1], cast("Any", None)):
            totals[record[0], window.start] += record[2]
    return dict(totals)


def sessions(stream: Any) -> Any:
    return stream.key_by(key).window(EventTimeSessionWindows(GAP_MS)).aggregate(Total(), Started())


def of_sessions(records: list[Record]) -> dict[Any, int]:
    totals: dict[Any, int] = {}
    start, end = {}, {}
    for name, stamp, number in sorted(records):
        if name not in end or stamp > end[name]:
            start[name] = stamp
        end[name] = stamp + GAP_MS
        place = name, start[name]
        totals[place] = totals.get(place, 0) + number
    return totals


class AllTold(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Any) -> Iterable[Any]:
        yield context.window().start, sorted(elements)


def of_all(stream: Any) -> Any:
    return stream.window_all(SLIDING).process(AllTold())


def in_windows(records: list[Record]) -> dict[Any, Any]:
    found: dict[Any, list[Record]] = defaultdict(list)
    for record in sorted(records):
        for window in SLIDING.assign_windows(record, record[1], cast("Any", None)):
            found[window.start].append(record)
    return dict(found)


def start_of(record: Record) -> int:
    return record[1] - record[1] % WINDOW_MS


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: Record) -> int:
        return 1 + element[2] % 7


class Whole(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterable[Any]:
        window = context.window()
        yield (key, window.start, window.end), sorted(elements)


def dynamic_sessions(stream: Any) -> Any:
    return stream.key_by(key).window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(Whole())


def of_dynamic_sessions(records: list[Record]) -> dict[Any, Any]:
    found: dict[Any, list[Record]] = {}
    for record in records:
        start, end, parts = record[1], record[1] + 1 + record[2] % 7, [record]
        for other in [place for place in found if place[0] == record[0]]:
            if other[1] <= end and start <= other[2]:
                start, end = min(start, other[1]), max(end, other[2])
                parts += found.pop(other)
        found[record[0], start, end] = sorted(parts)
    return found


def evicted(stream: Any) -> Any:
    windows = stream.key_by(key).window(TumblingEventTimeWindows(WINDOW_MS, 0))
    return windows.evictor(TimeEvictor(2)).process(Whole())


def of_evicted(records: list[Record]) -> dict[Any, Any]:
    def newest(found: list[Record]) -> list[Record]:
        return sorted(record for record in found if record[1] > max(one[1] for one in found) - 2)

    return by_key(records, newest, lambda record: (record[0], start_of(record), start_of(record) + WINDOW_MS))


class Sizes(ProcessWindowFunction):
    """How many elements have fired of a key; its last result is the number of all that came in threes."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterable[Any]:
        fired = context.global_state().get_state(ValueStateDescriptor("fired", Types.INT()))
        fired.update((fired.value() or 0) + len(list(elements)))
        yield key, fired.value()


def by_threes(stream: Any) -> Any:
    windows = stream.key_by(key).window(GlobalWindows.create()).trigger(PurgingTrigger(CountTrigger(3)))
    return windows.process(Sizes()).key_by(key).reduce(max)


def of_threes(records: list[Record]) -> dict[Any, Any]:
    counts = by_key(records, lambda found: len(found) // 3 * 3)
    return {name: count for name, count in counts.items() if count}


def by_key(
    records: Iterable[Record], of: Callable[[list[Record]], Any], name: Callable[[Record], Any] = key
) -> dict[Any, Any]:
    groups: dict[Any, list[Record]] = defaultdict(list)
    for record in records:
        groups[name(record)].append(record)
    return {group: of(found) for group, found in groups.items()}


def total(records: list[Record]) -> int:
    return sum(record[2] for record in records)

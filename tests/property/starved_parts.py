"""Parts of the job that is starved, each with an operator that keeps much, and what it puts out in a life of any kind.

A record is (number of the key, its place in the stream), and its place is its timestamp. No record is late.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.lifecycle.sink import write

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import AsyncDataStream, AsyncFunction
from penstock.datastream.functions import (
    CoGroupFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import CountTrigger, GlobalWindows, PurgingTrigger, TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Prime to all numbers of keys: neighbours are far from each other.
STRIDE = 7_919
#: Longer than all records take.
_LONG_MS = 10**9
#: In every life the clock stays within it.
_YEARS = StateTtlConfig.new_builder(Time.days(10_000)).update_ttl_on_read_and_write().build()


@dataclass(frozen=True)
class Place:
    name: str
    number: int


def key_of(record: tuple[int, Any]) -> Any:
    """Return the key of a record: of one type or another, by its number."""
    number = record[0]
    return [number, f"key {number}", ("key", number), Place("key", number)][number % 4]


class _OwnTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


class _Living(KeyedProcessFunction):
    """Counts in states of three kinds that have a time to live."""

    def open(self, runtime_context: Any) -> None:
        descriptors = [ValueStateDescriptor("count"), ListStateDescriptor("places"), MapStateDescriptor("by place")]
        for descriptor in descriptors:
            descriptor.enable_time_to_live(_YEARS)
        self.count = runtime_context.get_state(descriptors[0])
        self.places = runtime_context.get_list_state(descriptors[1])
        self.by_place = runtime_context.get_map_state(descriptors[2])

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.places.add(value[1])
        self.by_place.put(value[1], value[0])
        seen = self.count.value()
        assert len(list(self.places.get())) == len(list(self.by_place.keys())) == seen
        assert set(self.by_place.values()) == {value[0]}
        yield value[0], seen


class _Timed(KeyedProcessFunction):
    """Sets three timers for each record, and deletes one of them."""

    def process_element(self, value: Any, ctx: Any) -> None:
        for late in (1, 2, 3):
            ctx.timer_service().register_event_time_timer(late * _LONG_MS + value[1])
        ctx.timer_service().delete_event_time_timer(2 * _LONG_MS + value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp // _LONG_MS, timestamp % _LONG_MS


class _Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left[0], left[1], right[1]


class _Groups(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Any:
        yield first[0][0], tuple(sorted(place for _, place in first)), tuple(sorted(place for _, place in second))


class _Pairs(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        found = list(elements)
        yield found[0][0], len(found)


class _Doubled(AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        await asyncio.sleep(value[1] % 5 / 2_000)
        return [(value[0], 2 * value[1])]


def _keyed(records: Any) -> Any:
    return records.key_by(key_of)


def _joined(records: Any, keys: int) -> Any:
    bounds = Time.milliseconds(0), Time.milliseconds(keys)
    return _keyed(records).interval_join(_keyed(records)).between(*bounds).process(_Pair())


def _of_windows(streams: Any, keys: int) -> Any:
    return streams.where(key_of).equal_to(key_of).window(TumblingEventTimeWindows(2 * keys, 0))


def _triggered(records: Any, keys: int) -> Any:
    windows = _keyed(records).window(GlobalWindows.create()).trigger(PurgingTrigger(CountTrigger(2)))
    return windows.process(_Pairs())


def _all(keys: int, rounds: int) -> list[tuple[int, int]]:
    return [(place * STRIDE % keys, place) for place in range(keys * rounds)]


def _in_windows(keys: int, rounds: int) -> dict[tuple[int, int], tuple[int, ...]]:
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    for number, place in _all(keys, rounds):
        at = number, place // (2 * keys)
        found[at] = (*found.get(at, ()), place)
    return found


@dataclass(frozen=True)
class Part:
    """A part: what it makes of the records and the number of keys, and what it puts out, by keys and rounds."""

    build: Callable[[Any, int], Any]
    expected: Callable[[int, int], Counter[Any]]

    def add(self, numbers: Any, out: Path, keys: int) -> None:
        """Add it to a job whose source gives the places."""
        times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(_LONG_MS))
        records = numbers.map(lambda place: (place * STRIDE % keys, place)).uid(f"{out.name} records")
        stamped = records.assign_timestamps_and_watermarks(times.with_timestamp_assigner(_OwnTime()))
        write(self.build(stamped.uid(f"{out.name} times"), keys).uid(out.name), out).disable_chaining()


PARTS = {
    "living": Part(
        lambda records, _: _keyed(records).process(_Living()),
        lambda keys, rounds: Counter((number, count) for number in range(keys) for count in range(1, rounds + 1)),
    ),
    "timed": Part(
        lambda records, _: _keyed(records).process(_Timed()),
        lambda keys, rounds: Counter((late, place) for _, place in _all(keys, rounds) for late in (1, 3)),
    ),
    "interval join": Part(
        _joined,
        lambda keys, rounds: Counter(
            (number, place, other)
            for number, place in _all(keys, rounds)
            for other in (place, place + keys)
            if other < keys * rounds
        ),
    ),
    "window join": Part(
        lambda records, keys: _of_windows(records.join(records), keys).apply(
            lambda one, other: (one[0], one[1], other[1])
        ),
        lambda keys, rounds: Counter(
            (at[0], one, other)
            for at, places in _in_windows(keys, rounds).items()
            for one in places
            for other in places
        ),
    ),
    "co-group": Part(
        lambda records, keys: _of_windows(records.co_group(records), keys).apply(_Groups()),
        lambda keys, rounds: Counter((at[0], both, both) for at, both in _in_windows(keys, rounds).items()),
    ),
    "trigger": Part(
        _triggered,
        lambda keys, rounds: Counter((number, 2) for number in range(keys) for _ in range(rounds // 2)),
    ),
    "async": Part(
        lambda records, _: AsyncDataStream.unordered_wait(records, _Doubled(), Time.seconds(600), 5),
        lambda keys, rounds: Counter((number, 2 * place) for number, place in _all(keys, rounds)),
    ),
}

"""Programs whose final result is the same in both modes, each with what plain Python makes of its input."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.property.mode_windows import (
    STAMPED,
    WINDOW_MS,
    Record,
    Sizes,
    Total,
    by_key,
    by_threes,
    dynamic_sessions,
    evicted,
    in_windows,
    key,
    of_all,
    of_dynamic_sessions,
    of_evicted,
    of_sessions,
    of_sliding,
    of_threes,
    sessions,
    sliding,
    start_of,
    total,
    windowed,
)

from penstock.common import Time, Types
from penstock.datastream import AsyncDataStream, AsyncFunction
from penstock.datastream.functions import (
    BroadcastProcessFunction,
    CoGroupFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import (
    TumblingEventTimeWindows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class LastOfKey(KeyedProcessFunction):
    """Keeps all numbers of a key, and gives them by a timer that sets another one."""

    def open(self, runtime_context: Any) -> None:
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.INT()))

    def process_element(self, value: Record, ctx: Any) -> Iterable[Any]:
        self.numbers.add(value[2])
        ctx.timer_service().register_event_time_timer(5_000)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        if timestamp == 5_000:
            ctx.timer_service().register_event_time_timer(6_000)
            return
        yield ctx.get_current_key(), sorted(self.numbers.get() or ())
        self.numbers.clear()


class Joined(KeyedCoProcessFunction):
    """Adds the numbers of both inputs of a key, and gives the sum at the end."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element1(self, value: Record, ctx: Any) -> Iterable[Any]:
        self.total.update((self.total.value() or 0) + value[2])
        ctx.timer_service().register_event_time_timer(9_000)
        return ()

    def process_element2(self, value: Record, ctx: Any) -> Iterable[Any]:
        return self.process_element1((value[0], value[1], 1_000 * value[2]), ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield ctx.get_current_key(), self.total.value()


def summed(stream: Any) -> Any:
    return stream.map(lambda record: (record[0], record[2])).key_by(key).sum(1)


def reduced(stream: Any) -> Any:
    folded = (
        stream.map(lambda record: (record[0], [record[2]])).key_by(key).reduce(lambda a, b: (a[0], sorted(a[1] + b[1])))
    )
    return folded.map(lambda pair: (pair[0], pair[1]))


def timed(stream: Any) -> Any:
    return stream.key_by(key).process(LastOfKey())


def connected(stream: Any) -> Any:
    even, odd = stream.filter(lambda record: record[2] % 2 == 0), stream.filter(lambda record: record[2] % 2)
    return even.key_by(key).connect(odd.key_by(key)).process(Joined())


HOUR = StateTtlConfig.new_builder(Time.hours(1)).set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite).build()


class Living(KeyedProcessFunction):
    """Keeps all numbers of a key in states with a time to live that is longer than the job."""

    def open(self, runtime_context: Any) -> None:
        numbers = ListStateDescriptor("numbers", Types.INT())
        times = MapStateDescriptor("times", Types.INT(), Types.INT())
        for descriptor in (numbers, times):
            descriptor.enable_time_to_live(HOUR)
        self.numbers, self.times = runtime_context.get_list_state(numbers), runtime_context.get_map_state(times)

    def process_element(self, value: Record, ctx: Any) -> Iterable[Any]:
        self.numbers.add(value[2])
        self.times.put(value[1], (self.times.get(value[1]) or 0) + 1)
        ctx.timer_service().register_event_time_timer(5_000)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield ctx.get_current_key(), (sorted(self.numbers.get() or ()), sorted(self.times.items()))


def living(stream: Any) -> Any:
    return stream.key_by(key).process(Living())


def of_living(records: list[Record]) -> Any:
    times: dict[int, int] = defaultdict(int)
    for record in records:
        times[record[1]] += 1
    return sorted(record[2] for record in records), sorted(times.items())


class Kinds(KeyedProcessFunction):
    """Keeps the numbers of a key in states of all kinds, and gives what they hold by a timer."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.INT()))
        self.times = runtime_context.get_map_state(MapStateDescriptor("times", Types.INT(), Types.INT()))
        self.greatest = runtime_context.get_reducing_state(ReducingStateDescriptor("greatest", max, Types.INT()))
        self.total = runtime_context.get_aggregating_state(AggregatingStateDescriptor("total", Total(), Types.INT()))

    def process_element(self, value: Record, ctx: Any) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.numbers.add(value[2])
        self.times.put(value[1], value[1])
        self.greatest.add(value[2])
        self.total.add(value)
        ctx.timer_service().register_event_time_timer(5_000)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        folded = self.count.value(), self.greatest.get(), self.total.get()
        yield ctx.get_current_key(), (*folded, sorted(self.numbers.get()), sorted(self.times.keys()))


def of_kinds(records: list[Record]) -> Any:
    numbers = sorted(record[2] for record in records)
    return len(records), numbers[-1], sum(numbers), numbers, sorted({record[1] for record in records})


def extremes(stream: Any) -> Any:
    keyed = stream.map(lambda record: (record[0], record[2])).key_by(key)
    found = [keyed.min(1), keyed.max(1), keyed.min_by(1), keyed.max_by(1)]
    named = [one.map(lambda pair, name=name: ((name, pair[0]), pair[1])) for name, one in enumerate(found)]
    return named[0].union(*named[1:])


def of_extremes(records: list[Record]) -> dict[Any, Any]:
    return {
        (name, group): of(record[2] for record in records if record[0] == group)
        for name, of in enumerate((min, max, min, max))
        for group in {record[0] for record in records}
    }


def halves(stream: Any) -> tuple[Any, Any]:
    """Return the records with an even and those with an odd number."""
    return stream.filter(lambda record: record[2] % 2 == 0), stream.filter(lambda record: record[2] % 2)


def pairs(records: list[Record], meet: Callable[[Record, Record], Any]) -> dict[Any, Any]:
    """Return the pairs of an even and an odd number of one key that meet, sorted, by what `meet` returns."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for left in records:
        for right in records:
            place = left[2] % 2 == 0 and right[2] % 2 and left[0] == right[0] and meet(left, right)
            if place:
                found[place].append((left, right))
    return {place: sorted(both) for place, both in found.items()}


def together(stream: Any) -> Any:
    """Collect pairs by what is first in them; each result is the last one with all of them."""
    return stream.map(lambda one: (one[0], [one[1]])).key_by(key).reduce(lambda a, b: (a[0], sorted(a[1] + b[1])))


class Pair(ProcessJoinFunction):
    def process_element(self, left: Record, right: Record, ctx: Any) -> Iterable[Any]:
        assert (left[1], right[1]) == (ctx.get_left_timestamp(), ctx.get_right_timestamp())
        yield left[0], (left, right)


def interval_joined(stream: Any) -> Any:
    left, right = halves(stream)
    bounds = Time.milliseconds(-3), Time.milliseconds(WINDOW_MS)
    return together(left.key_by(key).interval_join(right.key_by(key)).between(*bounds).process(Pair()))


def of_interval_join(records: list[Record]) -> dict[Any, Any]:
    found = pairs(records, lambda left, right: -3 <= right[1] - left[1] <= WINDOW_MS and (left[0],))
    return {place[0]: both for place, both in found.items()}


def window_joined(stream: Any) -> Any:
    left, right = halves(stream)
    windows = left.join(right).where(key).equal_to(key).window(TumblingEventTimeWindows(WINDOW_MS, 0))
    return together(windows.apply(lambda one, other: ((one[0], start_of(one)), (one, other))))


def of_window_join(records: list[Record]) -> dict[Any, Any]:
    return pairs(records, lambda left, right: start_of(left) == start_of(right) and (left[0], start_of(left)))


class Groups(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Iterable[Any]:
        [place] = {(record[0], start_of(record)) for record in (*first, *second)}
        yield place, (sorted(first), sorted(second))


def co_grouped(stream: Any) -> Any:
    left, right = halves(stream)
    windows = left.co_group(right).where(key).equal_to(key).window(TumblingEventTimeWindows(WINDOW_MS, 0))
    return windows.apply(Groups())


def of_co_group(records: list[Record]) -> dict[Any, Any]:
    return by_key(
        records,
        lambda found: tuple(sorted(record for record in found if record[2] % 2 == side) for side in (0, 1)),
        lambda record: (record[0], start_of(record)),
    )


class Doubled(AsyncFunction):
    async def async_invoke(self, value: Record) -> Any:
        await asyncio.sleep(value[2] % 3 / 1_000)
        return [(value[0], 2 * value[2])] * (value[2] % 3)


def asked(stream: Any) -> Any:
    return AsyncDataStream.unordered_wait(stream, Doubled(), Time.seconds(60), 7).key_by(key).sum(1)


def of_asked(records: list[Record]) -> dict[Any, Any]:
    answers = [(record[0], record[1], 2 * record[2]) for record in records for _ in range(record[2] % 3)]
    return by_key(answers, total)


RULES = MapStateDescriptor("rules", Types.INT(), Types.INT())


class Factor(BroadcastProcessFunction):
    """Multiplies with what was broadcast: a batch job reads that first, a stream in any order."""

    def __init__(self, mode: str) -> None:
        self.is_stream = mode == "STREAMING"

    def process_element(self, value: Record, ctx: Any) -> Iterable[Any]:
        factor = ctx.get_broadcast_state(RULES).get(value[0])
        yield value[0], value[0], value[2] * (value[0] + 2 if self.is_stream and factor is None else factor)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        ctx.get_broadcast_state(RULES).put(*value)
        return ()


class KeyedFactor(KeyedBroadcastProcessFunction):
    """The same at the end of a key, when all was broadcast in a stream, too."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element(self, value: Record, ctx: Any) -> Iterable[Any]:
        self.total.update((self.total.value() or 0) + value[2])
        ctx.timer_service().register_event_time_timer(5_000)
        return ()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        ctx.get_broadcast_state(RULES).put(*value)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield ctx.get_current_key(), self.total.value() * ctx.get_broadcast_state(RULES).get(ctx.get_current_key())


def factors(stream: Any) -> Any:
    rules = stream.get_execution_environment().from_collection([(number, number + 2) for number in range(6)])
    return rules.assign_timestamps_and_watermarks(STAMPED).broadcast(RULES)


def beside_broadcast(stream: Any) -> Any:
    mode = stream.get_execution_environment()._configuration.get_string("execution.runtime-mode", "")
    return summed(stream.connect(factors(stream)).process(Factor(mode)))


def keyed_beside_broadcast(stream: Any) -> Any:
    return stream.key_by(key).connect(factors(stream)).process(KeyedFactor())


def of_factors(records: list[Record]) -> dict[Any, Any]:
    return by_key(records, lambda found: total(found) * (found[0][0] + 2))


#: Each program with what plain Python makes of its input.
PROGRAMS: dict[str, tuple[Callable[[Any], Any], Callable[[list[Record]], dict[Any, Any]]]] = {
    "sum": (summed, lambda records: by_key(records, total)),
    "reduce": (reduced, lambda records: by_key(records, lambda found: sorted(record[2] for record in found))),
    "window": (
        windowed,
        lambda records: by_key(records, total, lambda record: (record[0], record[1] - record[1] % WINDOW_MS)),
    ),
    "slices, combined": (sliding, of_sliding),
    "sessions": (sessions, of_sessions),
    "timers": (timed, lambda records: by_key(records, lambda found: sorted(record[2] for record in found))),
    "time to live": (living, lambda records: by_key(records, of_living)),
    "interval join": (interval_joined, of_interval_join),
    "window join": (window_joined, of_window_join),
    "co-group": (co_grouped, of_co_group),
    "async": (asked, of_asked),
    "broadcast": (beside_broadcast, of_factors),
    "keyed broadcast": (keyed_beside_broadcast, of_factors),
    "dynamic sessions": (dynamic_sessions, of_dynamic_sessions),
    "evictor": (evicted, of_evicted),
    "trigger": (by_threes, of_threes),
    "states of all kinds": (
        lambda stream: stream.key_by(key).process(Kinds()),
        lambda records: by_key(records, of_kinds),
    ),
    "extremes": (extremes, of_extremes),
    "windows of all": (of_all, in_windows),
    "count windows": (
        lambda stream: stream.key_by(key).count_window(3).process(Sizes()).key_by(key).reduce(max),
        of_threes,
    ),
    "two inputs": (
        connected,
        lambda records: by_key(
            records, lambda found: sum(record[2] * (1_000 if record[2] % 2 else 1) for record in found)
        ),
    ),
}

#: Programs that do not need timestamps.
UNSTAMPED = {"sum", "reduce", "async", "trigger", "broadcast", "extremes", "count windows"}

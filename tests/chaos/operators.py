"""The operators of random jobs; what they give depends on which records they get, and never on their order.

A record is (key, stamp, number, value), and its stamp is its timestamp. `model` has the same operators in plain Python.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import AsyncDataStream, AsyncFunction, OutputTag
from penstock.datastream.functions import (
    AggregateFunction,
    CheckpointedFunction,
    CoGroupFunction,
    CoMapFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable

BUCKET_MS, SLIDE_MS, SLIDING_MS, GAP_MS, REACH_MS = 20, 10, 30, 5, 5
#: Later than all stamps, and so late that a watermark gets there at the end alone.
END_MS = 1 << 40
#: State lives so long, and jumps of the clock are shorter or longer.
LIFE_MS = 60_000
ODD = OutputTag("odd", Types.PICKLED_BYTE_ARRAY())
RULES = MapStateDescriptor("rules")


class OwnStamp(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


def in_order() -> WatermarkStrategy:
    """Watermarks rise with the records."""
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnStamp())


def at_the_end() -> WatermarkStrategy:
    """No record is late, in whatever order they come: all fires at the end."""
    days = Duration.of_days(9)
    return WatermarkStrategy.for_bounded_out_of_orderness(days).with_timestamp_assigner(OwnStamp())


def key_of(record: Any) -> Any:
    return record[0]


def bucket_end(stamp: int) -> int:
    return stamp - stamp % BUCKET_MS + BUCKET_MS - 1


# ------------------------------------------------------------------------------------------------- one record at a time


def plus_one(record: Any) -> Any:
    return record[0], record[1], record[2] + 1, record[3]


def not_by_three(record: Any) -> bool:
    return record[2] % 3 != 0


def one_or_two(record: Any) -> Any:
    yield record
    if record[2] % 2:
        yield record[0], record[1], record[2] + 1_000, None


def other_key(record: Any) -> Any:
    return f"k{record[2] % 3}", record[1], record[2], record[3]


class Doubled(AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        await asyncio.sleep(0)
        return [(value[0], value[1], 2 * value[2], value[3])] * (1 + value[2] % 2)


class Split(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield (ODD, value) if value[2] % 2 else value


class Tagged(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value[0], value[1], value[2], ("left", value[3])

    def map2(self, value: Any) -> Any:
        return value[0], value[1], value[2], ("right", value[3])


class HeldBack(FlatMapFunction, CheckpointedFunction):
    """Keeps records in operator state, and gives them in threes, and the rest at the end."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("held"))
        self.held = list(self.state)

    def snapshot_state(self, context: Any) -> None:
        self.state.update(self.held)

    def flat_map(self, value: Any) -> Any:
        self.held.append(value)
        if len(self.held) == 3:
            yield from self.held
            self.held.clear()

    def finish(self) -> Any:
        yield from self.held
        self.held.clear()


# ------------------------------------------------------------------------------------------------------------- by key


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        yield ctx.get_current_key(), number, number, None


class Living(KeyedProcessFunction):
    """Counts in state that lives on, and looks whether state with a time to live is there exactly as long as it lives.

    The last count and its time are in both, so that what is there can be told from what is to be there.
    """

    def open(self, runtime_context: Any) -> None:
        life = StateTtlConfig.new_builder(Time.milliseconds(LIFE_MS)).build()
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))
        value, listed, mapped = (
            ValueStateDescriptor("value"), ListStateDescriptor("listed"), MapStateDescriptor("mapped"),
        )  # fmt: skip
        for descriptor in (value, listed, mapped):
            descriptor.enable_time_to_live(life)
        self.value = runtime_context.get_state(value)
        self.listed, self.mapped = runtime_context.get_list_state(listed), runtime_context.get_map_state(mapped)

    def process_element(self, value: Any, ctx: Any) -> Any:
        now = ctx.timer_service().current_processing_time()
        count, written = self.last.value() or (0, None)
        wanted = count if written is not None and now < written + LIFE_MS else None
        found = self.value.value(), next(iter(self.listed.get() or ()), None), self.mapped.get("count")
        assert found == (wanted,) * 3, f"{found} after {now - (written or 0)} ms in place of {wanted}"
        self.last.update((count + 1, now))
        self.value.update(count + 1)
        self.listed.update([count + 1])
        self.mapped.put("count", count + 1)
        yield ctx.get_current_key(), count + 1, count + 1, None


class Sum(AggregateFunction):
    combinable = True

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value[2]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Gathered(KeyedProcessFunction):
    """Keeps what comes in each bucket in states of all kinds, and gives it by a timer at the bucket's end."""

    def open(self, runtime_context: Any) -> None:
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums"))
        self.items = runtime_context.get_list_state(ListStateDescriptor("items"))
        self.total = runtime_context.get_aggregating_state(AggregatingStateDescriptor("total", Sum()))
        self.most = runtime_context.get_reducing_state(ReducingStateDescriptor("most", max))
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        end = bucket_end(value[1])
        self.sums.put(end, (self.sums.get(end) or 0) + value[2])
        self.items.add((end, value[2]))
        self.total.add(value)
        self.most.add(value[2])
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(end)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        items = list(self.items.get())
        mine = sorted(number for end, number in items if end == timestamp)
        assert self.sums.get(timestamp) == sum(mine)
        assert self.count.value() == len(items)
        assert self.total.get() == sum(number for _, number in items)
        assert self.most.get() >= max(mine)
        self.sums.remove(timestamp)
        rest = [(end, number) for end, number in items if end != timestamp]
        for state in (self.items, self.total, self.most, self.count):
            state.clear()
        self.items.update(rest)
        for _, number in rest:
            self.total.add((None, None, number))
            self.most.add(number)
        if rest:
            self.count.update(len(rest))
        yield ctx.get_current_key(), timestamp, sum(mine), tuple(mine)


class Met(KeyedCoProcessFunction):
    """Keeps the numbers of both inputs of a key and bucket, and gives them by a timer."""

    def open(self, runtime_context: Any) -> None:
        self.numbers = runtime_context.get_map_state(MapStateDescriptor("numbers"))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self.keep(0, value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self.keep(1, value, ctx)

    def keep(self, side: int, value: Any, ctx: Any) -> Any:
        end = bucket_end(value[1])
        self.numbers.put((end, side), (*(self.numbers.get((end, side)) or ()), value[2]))
        ctx.timer_service().register_event_time_timer(end)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        left, right = (tuple(sorted(self.numbers.get((timestamp, side)) or ())) for side in (0, 1))
        for side in (0, 1):
            self.numbers.remove((timestamp, side))
        yield ctx.get_current_key(), timestamp, sum(left) + sum(right), (left, right)


class Ruled(KeyedBroadcastProcessFunction):
    """Keeps the numbers of a key to the end, when all rules are there, and gives them with the largest of all rules."""

    def open(self, runtime_context: Any) -> None:
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.numbers.add(value[2])
        ctx.timer_service().register_event_time_timer(END_MS)
        return ()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        rules = ctx.get_broadcast_state(RULES)
        rules.put(value[2] % 3, max(rules.get(value[2] % 3) or 0, value[2]))
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        rules = ctx.get_broadcast_state(RULES)
        for number in self.numbers.get():
            yield ctx.get_current_key(), timestamp, number, rules.get(number % 3)


# ----------------------------------------------------------------------------------------------------------- in windows


class Numbers(AggregateFunction):
    def create_accumulator(self) -> Any:
        return ()

    def add(self, value: Any, accumulator: Any) -> Any:
        return (*accumulator, value[2])

    def get_result(self, accumulator: Any) -> Any:
        return tuple(sorted(accumulator))

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Closed(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        [numbers] = elements
        yield key, context.window().end - 1, sum(numbers), (context.window().start, numbers)


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left[0], max(left[1], right[1]), left[2] + right[2], (left[2], right[2])


def pair_of_window(left: Any, right: Any) -> Any:
    return left[0], bucket_end(left[1]), left[2] + right[2], (left[2], right[2])


class Groups(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Any:
        left, right = list(first), list(second)
        one = (left or right)[0]
        numbers = tuple(sorted(record[2] for record in left)), tuple(sorted(record[2] for record in right))
        yield one[0], bucket_end(one[1]), sum(map(sum, numbers)), numbers


def windowed(windows: Any) -> Callable[[Any], Any]:
    return lambda stream: stream.key_by(key_of).window(windows).aggregate(Numbers(), Closed())


def of_both(how: str, left: Any, right: Any) -> Any:
    """Join or co-group two streams by key and bucket."""
    streams = getattr(left, how)(right).where(key_of).equal_to(key_of)
    return streams.window(TumblingEventTimeWindows.of(Time.milliseconds(BUCKET_MS)))


def interval_joined(left: Any, right: Any) -> Any:
    bounds = Time.milliseconds(-REACH_MS), Time.milliseconds(REACH_MS)
    return left.key_by(key_of).interval_join(right.key_by(key_of)).between(*bounds).process(Pair())


def reduced(stream: Any) -> Any:
    ones = stream.map(lambda record: (record[0], 1, 1, None))
    return ones.key_by(key_of).reduce(lambda one, other: (one[0], one[1] + other[1], one[2] + other[2], None))


#: What makes a stream of one or two.
BUILD: dict[str, Callable[..., Any]] = {
    "map": lambda stream: stream.map(plus_one),
    "filter": lambda stream: stream.filter(not_by_three),
    "flat map": lambda stream: stream.flat_map(one_or_two),
    "other key": lambda stream: stream.map(other_key),
    "async": lambda stream: AsyncDataStream.unordered_wait(stream, Doubled(), Time.seconds(60), 3),
    "async in order": lambda stream: AsyncDataStream.ordered_wait(stream, Doubled(), Time.seconds(60), 3),
    "side output": lambda stream: stream.process(Split()),
    "held back": lambda stream: stream.flat_map(HeldBack()),
    "count": lambda stream: stream.key_by(key_of).process(Count()),
    "time to live": lambda stream: stream.key_by(key_of).process(Living()),
    "reduce": reduced,
    "timers": lambda stream: stream.key_by(key_of).process(Gathered()),
    "tumbling": windowed(TumblingEventTimeWindows.of(Time.milliseconds(BUCKET_MS))),
    "sliding": windowed(SlidingEventTimeWindows.of(Time.milliseconds(SLIDING_MS), Time.milliseconds(SLIDE_MS))),
    "sessions": windowed(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS))),
    "union": lambda left, right: left.union(right),
    "connect": lambda left, right: left.connect(right).map(Tagged()),
    "connect by key": lambda left, right: left.key_by(key_of).connect(right.key_by(key_of)).process(Met()),
    "broadcast": lambda left, right: left.key_by(key_of).connect(right.broadcast(RULES)).process(Ruled()),
    "window join": lambda left, right: of_both("join", left, right).apply(pair_of_window),
    "co-group": lambda left, right: of_both("co_group", left, right).apply(Groups()),
    "interval join": interval_joined,
}
TWO_INPUTS = {"union", "connect", "connect by key", "broadcast", "window join", "co-group", "interval join"}
#: What comes out of them has no timestamp of its own: it gets its stamp, and fires at the end.
UNTIMED = {"held back", "count", "time to live", "reduce"}
#: Operators that keep their state by key.
KEYED = {
    *("count", "time to live", "reduce", "timers", "tumbling", "sliding", "sessions"),
    *("connect by key", "broadcast", "window join", "co-group", "interval join"),
}
STATEFUL = {*KEYED, "held back", "async", "async in order"}
#: Operators that fire by event time.
FIRED = KEYED - UNTIMED

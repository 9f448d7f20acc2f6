"""Kinds of state, with all their methods, and where functions may have them."""

from penstock.common import Row, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
PAIRS = [("a", 3), ("b", 7), ("a", 5), ("a", 1), ("b", 2), ("c", 9)]


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


BY_SECOND = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())


def reducing(env):
    class Greatest(KeyedProcessFunction):
        def open(self, runtime_context):
            descriptor = ReducingStateDescriptor("max", lambda a, b: max(a, b), Types.INT())
            self.state = runtime_context.get_reducing_state(descriptor)

        def process_element(self, value, ctx):
            before = self.state.get()
            self.state.add(value[1])
            yield value[0], before, self.state.get()
            if value[1] == 5:
                self.state.clear()

    return env.from_collection(PAIRS, PAIR).key_by(lambda p: p[0], Types.STRING()).process(Greatest())


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


def aggregating(env):
    class Means(KeyedProcessFunction):
        def open(self, runtime_context):
            kind = Types.PICKLED_BYTE_ARRAY()
            self.state = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), kind))

        def process_element(self, value, ctx):
            self.state.add(value[1])
            yield value[0], self.state.get()

    return env.from_collection(PAIRS, PAIR).key_by(lambda p: p[0], Types.STRING()).process(Means())


def lists(env):
    class Lists(KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_list_state(ListStateDescriptor("list", Types.INT()))

        def process_element(self, value, ctx):
            if value[1] == 1:
                self.state.update([10, 20])
            elif value[1] == 2:
                self.state.clear()
            else:
                self.state.add(value[1])
                self.state.add_all([value[1] + 1, value[1] + 2])
            yield value[0], list(self.state.get() or [])

    return env.from_collection(PAIRS, PAIR).key_by(lambda p: p[0], Types.STRING()).process(Lists())


def maps(env):
    class Maps(KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.INT()))

        def process_element(self, value, ctx):
            yield value, "empty", self.state.is_empty()
            self.state.put(f"n{value[1]}", value[1])
            self.state.put_all([("x", 1), ("y", 2)])
            yield value, self.state.get("x"), self.state.get("none"), self.state.contains("y"), "z" in self.state
            self.state.remove("x")
            self.state.remove("none")
            yield value, sorted(self.state.keys()), sorted(self.state.values()), sorted(self.state.items())
            yield value, sorted(self.state), self.state["y"]
            if value[1] == 5:
                self.state.clear()
                yield value, list(self.state.items()), self.state.is_empty()

    return env.from_collection(PAIRS[:3], PAIR).key_by(lambda p: p[0], Types.STRING()).process(Maps())


def values_of_rows(env):
    kind = Types.ROW_NAMED(["seen", "last"], [Types.INT(), Types.INT()])

    class Rows(KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(ValueStateDescriptor("row", kind))

        def process_element(self, value, ctx):
            seen, last = self.state.value() or (0, -1)
            self.state.update(Row(seen + 1, value[1]))
            yield value[0], seen + 1, last

    return env.from_collection(PAIRS, PAIR).key_by(lambda p: p[0], Types.STRING()).process(Rows())


def several_states_with_ttl(env):
    ttl = (
        StateTtlConfig.new_builder(Time.hours(1))
        .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
        .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
        .cleanup_full_snapshot()
        .build()
    )

    class Several(KeyedProcessFunction):
        def open(self, runtime_context):
            value = ValueStateDescriptor("value", Types.INT())
            value.enable_time_to_live(ttl)
            entries = MapStateDescriptor("map", Types.INT(), Types.STRING())
            entries.enable_time_to_live(ttl)
            self.value, self.map = runtime_context.get_state(value), runtime_context.get_map_state(entries)

        def process_element(self, value, ctx):
            self.value.update((self.value.value() or 0) + value[1])
            self.map.put(value[1], value[0] * 2)
            yield ctx.get_current_key(), self.value.value(), sorted(self.map.items())

    return env.from_collection(PAIRS, PAIR).key_by(lambda p: p[0], Types.STRING()).process(Several())


def in_map_flat_map_and_filter(env):
    class Numbered(MapFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.INT()))

        def map(self, value):
            self.seen.update((self.seen.value() or 0) + 1)
            return value[0], value[1], self.seen.value()

    class Repeated(FlatMapFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

        def flat_map(self, value):
            self.seen.add(value[1])
            for number in self.seen.get():
                yield value[0], number

    class First(FilterFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

        def filter(self, value):
            first = not self.seen.value()
            self.seen.update(True)
            return first

    def key(value):
        return value[0]

    keyed = env.from_collection(PAIRS, PAIR).key_by(key, Types.STRING())
    numbered = keyed.map(Numbered()).map(lambda v: ("map", *v))
    repeated = keyed.flat_map(Repeated()).map(lambda v: ("flat_map", *v))
    first = keyed.filter(First()).map(lambda v: ("filter", *v))
    return numbered.union(repeated, first)


def co_map_with_keys(env):
    class Sides(CoMapFunction):
        def open(self, runtime_context):
            self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.INT()))
            self.right = runtime_context.get_state(ValueStateDescriptor("right", Types.INT()))

        def map1(self, value):
            self.left.update((self.left.value() or 0) + value[1])
            return "left", value[0], self.left.value()

        def map2(self, value):
            self.right.update((self.right.value() or 0) + value[1])
            return "right", value[0], self.right.value()

    left, right = env.from_collection(PAIRS, PAIR), env.from_collection([("a", 100), ("a", 200), ("d", 300)], PAIR)
    return left.connect(right).key_by(lambda v: v[0], lambda v: v[0], Types.STRING()).map(Sides())


def co_flat_map(env):
    class Sides(CoFlatMapFunction):
        def flat_map1(self, value):
            yield from range(value)

        def flat_map2(self, value):
            return [value, value.upper()] if value != "skip" else None

    numbers = env.from_collection([0, 1, 3], Types.INT())
    return numbers.connect(env.from_collection(["x", "skip", "y"], Types.STRING())).flat_map(Sides())


def co_process(env):
    class Sides(CoProcessFunction):
        def process_element1(self, value, ctx):
            yield "one", value, ctx.timestamp()

        def process_element2(self, value, ctx):
            if value[1] > 10:
                yield "two", value, ctx.timestamp()

    one = env.from_collection(PAIRS, PAIR).assign_timestamps_and_watermarks(BY_SECOND)
    two = env.from_collection([("x", 5), ("y", 50)], PAIR).assign_timestamps_and_watermarks(BY_SECOND)
    return one.connect(two).process(Sides())


def keyed_co_process_with_timers(env):
    class Joined(KeyedCoProcessFunction):
        def open(self, runtime_context):
            self.left = runtime_context.get_list_state(ListStateDescriptor("left", Types.INT()))
            self.right = runtime_context.get_list_state(ListStateDescriptor("right", Types.INT()))

        def process_element1(self, value, ctx):
            self.left.add(value[1])
            ctx.timer_service().register_event_time_timer(1_000)

        def process_element2(self, value, ctx):
            self.right.add(value[1])
            ctx.timer_service().register_event_time_timer(2_000)
            ctx.timer_service().delete_event_time_timer(3_000)

        def on_timer(self, timestamp, ctx):
            yield timestamp, ctx.get_current_key(), sorted(self.left.get()), sorted(self.right.get())

    one = env.from_collection(PAIRS, PAIR).assign_timestamps_and_watermarks(BY_SECOND)
    two = env.from_collection([("a", 5), ("d", 50)], PAIR).assign_timestamps_and_watermarks(BY_SECOND)
    return one.connect(two).key_by(lambda v: v[0], lambda v: v[0], Types.STRING()).process(Joined())


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


def broadcast_without_keys(env):
    class Known(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            ctx.get_broadcast_state(RULES).get("a")
            yield "element", value

        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(RULES)
            state.put(value[0], (state.get(value[0]) or 0) + value[1])
            yield "rules", sorted(state.items())

    rules = env.from_collection([("a", 1), ("b", 2), ("a", 4)], PAIR).broadcast(RULES)
    return env.from_collection(PAIRS, PAIR).connect(rules).process(Known())


def broadcast_with_keys_and_timers(env):
    class Applied(KeyedBroadcastProcessFunction):
        def open(self, runtime_context):
            self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", Add(), Types.INT()))

        def process_element(self, value, ctx):
            self.sum.add(value[1])
            ctx.timer_service().register_event_time_timer(10_000)

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(RULES).put(value[0], value[1])

        def on_timer(self, timestamp, ctx):
            rules = ctx.get_broadcast_state(RULES)
            yield ctx.get_current_key(), self.sum.get() * (rules.get(ctx.get_current_key()) or 1), timestamp

    rules = env.from_collection([("a", 10), ("b", 100)], PAIR).assign_timestamps_and_watermarks(BY_SECOND)
    pairs = env.from_collection(PAIRS, PAIR).assign_timestamps_and_watermarks(BY_SECOND)
    return pairs.key_by(lambda v: v[0], Types.STRING()).connect(rules.broadcast(RULES)).process(Applied())


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


def timers_that_set_timers(env):
    class Every(KeyedProcessFunction):
        def open(self, runtime_context):
            self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.INT()))

        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1] + 10)

        def on_timer(self, timestamp, ctx):
            fired = (self.fired.value() or 0) + 1
            self.fired.update(fired)
            yield ctx.get_current_key(), timestamp, fired
            if fired < 4:
                ctx.timer_service().register_event_time_timer(timestamp + 100)

    pairs = env.from_collection(PAIRS, PAIR).assign_timestamps_and_watermarks(BY_SECOND)
    return pairs.key_by(lambda v: v[0], Types.STRING()).process(Every())


PROGRAMS = [
    reducing,
    aggregating,
    lists,
    maps,
    values_of_rows,
    several_states_with_ttl,
    in_map_flat_map_and_filter,
    co_map_with_keys,
    co_flat_map,
    co_process,
    keyed_co_process_with_timers,
    broadcast_without_keys,
    broadcast_with_keys_and_timers,
    timers_that_set_timers,
]

"""Kinds of windows, triggers, and the functions of windows."""

from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from penstock.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
#: A key, and the time, which is the value, too.
EVENTS = [("a", 1), ("b", 2), ("a", 4), ("a", 11), ("b", 13), ("a", 14), ("b", 27), ("a", 38), ("a", 39), ("a", 12)]


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


#: All records are in time: the watermark is far behind until the end.
UNHURRIED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(1)).with_timestamp_assigner(Second())


def events(env):
    return env.from_collection(EVENTS, PAIR).assign_timestamps_and_watermarks(UNHURRIED)


def keyed(env):
    return events(env).key_by(lambda e: e[0], Types.STRING())


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, window.max_timestamp(), sorted(element[1] for element in elements)


class Total(ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0], value1[1] + value2[1]


class Spread(AggregateFunction):
    def create_accumulator(self):
        return None

    def add(self, value, accumulator):
        low, high = accumulator or (value[1], value[1])
        return min(low, value[1]), max(high, value[1])

    def get_result(self, accumulator):
        return accumulator[1] - accumulator[0]

    def merge(self, acc_a, acc_b):
        return min(acc_a[0], acc_b[0]), max(acc_a[1], acc_b[1])


class WithWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        for element in elements:
            yield key, context.window().start, element


def sliding_with_offset(env):
    windows = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5), Time.milliseconds(2))
    return keyed(env).window(windows).process(Contents())


def tumbling_with_negative_offset(env):
    return keyed(env).window(TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(-3))).process(Contents())


def sessions_with_dynamic_gap(env):
    class Gap(SessionWindowTimeGapExtractor):
        def extract(self, element):
            return 4 if element[0] == "a" else 12

    return keyed(env).window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(Contents())


def sessions_with_aggregate(env):
    windows = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
    return keyed(env).window(windows).aggregate(Spread(), window_function=WithWindow())


def reduce_with_function(env):
    windows = TumblingEventTimeWindows.of(Time.milliseconds(20))
    return keyed(env).window(windows).reduce(Total(), window_function=WithWindow())


def reduce_with_lambda(env):
    windows = TumblingEventTimeWindows.of(Time.milliseconds(20))
    return keyed(env).window(windows).reduce(lambda one, other: (one[0], max(one[1], other[1])))


def apply_of_windows(env):
    class Sizes(WindowFunction):
        def apply(self, key, window, inputs):
            return [(key, window.start, len(list(inputs)))]

    return keyed(env).window(TumblingEventTimeWindows.of(Time.milliseconds(20))).apply(Sizes())


def all_reduce(env):
    windows = TumblingEventTimeWindows.of(Time.milliseconds(20))
    return events(env).window_all(windows).reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]))


def all_process(env):
    class All(ProcessAllWindowFunction):
        def process(self, context, elements):
            yield context.window().start, context.window().end, sorted(elements)

    return events(env).window_all(TumblingEventTimeWindows.of(Time.milliseconds(20))).process(All())


def all_apply(env):
    class All(AllWindowFunction):
        def apply(self, window, inputs):
            yield window.start, len(list(inputs))

    return events(env).window_all(SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10))).apply(All())


def all_aggregate(env):
    class All(ProcessAllWindowFunction):
        def process(self, context, elements):
            yield context.window().start, list(elements)

    windows = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
    return events(env).window_all(windows).aggregate(Spread(), window_function=All())


def count_windows(env):
    return keyed(env).count_window(2).reduce(lambda one, other: (one[0], one[1] + other[1]))


def count_windows_that_slide(env):
    return keyed(env).count_window(3, 2).reduce(lambda one, other: (one[0], one[1] + other[1]))


def global_windows_that_purge(env):
    windows = keyed(env).window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    return windows.reduce(lambda one, other: (one[0], one[1] + other[1]))


def early_counts(env):
    windows = TumblingEventTimeWindows.of(Time.milliseconds(20))
    return keyed(env).window(windows).trigger(CountTrigger.of(2)).reduce(lambda one, other: (one[0], one[1] + other[1]))


def continuous(env):
    windows = TumblingEventTimeWindows.of(Time.milliseconds(40))
    trigger = ContinuousEventTimeTrigger.of(Time.milliseconds(10))
    return keyed(env).window(windows).trigger(trigger).reduce(lambda one, other: (one[0], one[1] + other[1]))


class AtOdd(Trigger):
    """Fires with every second odd number of a window, and at its end."""

    def __init__(self):
        self.odd = ReducingStateDescriptor("odd", lambda one, other: one + other, Types.INT())

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())
        if element[1] % 2 == 0:
            return TriggerResult.CONTINUE
        odd = ctx.get_partitioned_state(self.odd)
        odd.add(1)
        return TriggerResult.FIRE_AND_PURGE if odd.get() % 2 == 0 else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        ctx.delete_event_time_timer(window.max_timestamp())
        ctx.get_partitioned_state(self.odd).clear()


def custom_trigger(env):
    return keyed(env).window(TumblingEventTimeWindows.of(Time.milliseconds(20))).trigger(AtOdd()).process(Contents())


def state_of_windows(env):
    class Counted(ProcessWindowFunction):
        def process(self, key, context, elements):
            total = context.global_state().get_state(ValueStateDescriptor("total", Types.INT()))
            fired = context.window_state().get_state(ValueStateDescriptor("fired", Types.INT()))
            total.update((total.value() or 0) + len(list(elements)))
            fired.update((fired.value() or 0) + 1)
            yield key, context.window().start, fired.value(), total.value()

        def clear(self, context):
            context.window_state().get_state(ValueStateDescriptor("fired", Types.INT())).clear()

    windows = TumblingEventTimeWindows.of(Time.milliseconds(20))
    return keyed(env).window(windows).trigger(CountTrigger.of(2)).process(Counted())


def windows_of_windows(env):
    first = keyed(env).window(TumblingEventTimeWindows.of(Time.milliseconds(10))).reduce(Total())
    both = TumblingEventTimeWindows.of(Time.milliseconds(20))
    return first.key_by(lambda e: e[0], Types.STRING()).window(both).process(Contents())


def processing_time_that_never_comes(env):
    return keyed(env).window(TumblingProcessingTimeWindows.of(Time.days(1))).process(Contents())


PROGRAMS = [
    sliding_with_offset,
    tumbling_with_negative_offset,
    sessions_with_dynamic_gap,
    sessions_with_aggregate,
    reduce_with_function,
    reduce_with_lambda,
    apply_of_windows,
    all_reduce,
    all_process,
    all_apply,
    all_aggregate,
    count_windows,
    count_windows_that_slide,
    global_windows_that_purge,
    early_counts,
    continuous,
    custom_trigger,
    state_of_windows,
    windows_of_windows,
    processing_time_that_never_comes,
]

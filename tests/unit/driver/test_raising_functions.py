"""Functions of every kind that raise, in both modes: the error names operator, uid and the user's own line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells
from tests.kit.without_spark import Cluster

from penstock.common import Configuration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from penstock.datastream import AsyncDataStream, AsyncFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream import functions as f
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
)
from penstock.datastream.window import (
    DeltaEvictor,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TimeWindowSerializer,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from penstock.errors import JobExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Keys and times; the last record of each key comes between two others, so sessions merge.
RECORDS = [("a", 0), ("b", 1), ("a", 9), ("b", 30), ("a", 5)]
MODES = ("STREAMING", "BATCH")
TUMBLING, SLIDING = TumblingEventTimeWindows(10, 0), SlidingEventTimeWindows(10, 5, 0)
SESSIONS = EventTimeSessionWindows(5)
RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class OwnError(Exception):
    """What the functions raise."""


def raises(*_: Any) -> Any:
    raise OwnError


LINE = f"{__file__}:{raises.__code__.co_firstlineno + 1}"


def raising(base: type[Any], method: str, **others: Any) -> Any:
    """Return a function of a kind, one method of which raises."""

    def fail(self: Any, *_: Any) -> Any:
        raises()

    return type(f"Raising{base.__name__}", (base,), {**others, method: fail})()


# ------------------------------------------------------------------------------------------ functions that do not raise


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


class Generator(WatermarkGenerator):
    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None: ...

    def on_periodic_emit(self, output: Any) -> None: ...


class Total(f.AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value[1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Combinable(Total):
    combinable = True


class OwnTrigger(Trigger):
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> Any:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> Any:
        return TriggerResult.FIRE

    def on_merge(self, window: Any, ctx: Any) -> None: ...

    def can_merge(self) -> bool:
        return True

    def clear(self, window: Any, ctx: Any) -> None: ...


class Counting(OwnTrigger):
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        ctx.get_partitioned_state(ReducingStateDescriptor("count", raises)).add(1)
        return TriggerResult.CONTINUE


class OwnEvictor(Evictor):
    def evict_before(self, elements: Any, size: int, window: Any, evictor_context: Any) -> Any:
        return elements

    def evict_after(self, elements: Any, size: int, window: Any, evictor_context: Any) -> Any:
        return elements


class OwnWindows(WindowAssigner):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return [TimeWindow(timestamp, timestamp + 5)]

    def get_default_trigger(self, env: Any) -> Any:
        return EventTimeTrigger()

    def get_window_serializer(self) -> Any:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


def processing(self: Any, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
    ctx.register_processing_time_timer(1)
    return TriggerResult.CONTINUE


def nothing(self: Any, *_: Any) -> Any:
    return ()


def timed(self: Any, value: Any, ctx: Any) -> None:
    ctx.timer_service().register_event_time_timer(5)


def timed_by_clock(self: Any, value: Any, ctx: Any) -> None:
    ctx.timer_service().register_processing_time_timer(5)


class Keeps(f.KeyedProcessFunction):
    """Adds to a state with a function of its own."""

    def __init__(self, descriptor: Any) -> None:
        self.descriptor = descriptor

    def open(self, runtime_context: Any) -> None:
        is_reducing = isinstance(self.descriptor, ReducingStateDescriptor)
        get = runtime_context.get_reducing_state if is_reducing else runtime_context.get_aggregating_state
        self.state = get(self.descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.add(value)


class AtTheEnd(f.ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None: ...

    def finish(self) -> None:
        raises()


class AtTheEndOfKeys(f.KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None: ...

    def finish(self) -> None:
        raises()


class Asks(AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        raises()


class Waits(AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        await asyncio.Event().wait()

    def timeout(self, value: Any) -> Any:
        raises()


# ------------------------------------------------------------------------------------------------------------ the table

BY_KEY: Any = lambda record: record[0]  # noqa: E731
FIRST: Any = lambda one, other: one  # noqa: E731
STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())


def stamped(stream: Any) -> Any:
    return stream.assign_timestamps_and_watermarks(STAMPED)


def keyed(stream: Any) -> Any:
    return stamped(stream).key_by(BY_KEY)


def by_strategy(strategy: Any) -> Any:
    return lambda stream: stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Stamp()))


def generated(method: str) -> Any:
    return by_strategy(WatermarkStrategy.for_generator(lambda _: raising(Generator, method)))


def co_processed(method: str) -> Any:
    others = {"process_element1": timed, "process_element2": nothing}
    return lambda stream: (
        keyed(stream).connect(keyed(stream)).process(raising(f.KeyedCoProcessFunction, method, **others))
    )


def broadcast(kind: Any, method: str) -> Any:
    first, other = (keyed, timed) if kind is f.KeyedBroadcastProcessFunction else (stamped, nothing)
    others = {"process_element": other, "process_broadcast_element": nothing}
    return lambda stream: first(stream).connect(stream.broadcast(RULES)).process(raising(kind, method, **others))


def windowed(use: Any, windows: Any = TUMBLING) -> Any:
    return lambda stream: use(keyed(stream).window(windows))


def aggregated(kind: type[Any], method: str, windows: Any = TUMBLING) -> Any:
    return windowed(lambda window: window.aggregate(raising(kind, method)), windows)


def triggered(method: str, windows: Any = TUMBLING, **others: Any) -> Any:
    return windowed(lambda window: window.trigger(raising(OwnTrigger, method, **others)).reduce(FIRST), windows)


def evicted(evictor: Any) -> Any:
    return windowed(lambda window: window.evictor(evictor).reduce(FIRST))


def met(call: str, function: Any, key: Any = BY_KEY) -> Any:
    def both(stream: Any) -> Any:
        pair = getattr(stamped(stream), call)(stamped(stream)).where(key).equal_to(BY_KEY)
        return pair.window(TUMBLING).apply(function)

    return both


def interval_joined(stream: Any) -> Any:
    joined = keyed(stream).interval_join(keyed(stream)).between(Time.milliseconds(0), Time.milliseconds(5))
    return joined.process(raising(f.ProcessJoinFunction, "process_element"))


def kept(descriptor: Any) -> Any:
    return lambda stream: stream.key_by(BY_KEY).process(Keeps(descriptor))


def keyed_process(method: str, **others: Any) -> Any:
    others = {"process_element": nothing, **others}
    return lambda stream: keyed(stream).process(raising(f.KeyedProcessFunction, method, **others))


KINDS: dict[str, Callable[[Any], Any]] = {
    "map": lambda stream: stream.map(raises),
    "flat map": lambda stream: stream.flat_map(raises),
    "a generator of results": lambda stream: stream.flat_map(lambda record: (raises() for _ in [record])),
    "filter": lambda stream: stream.filter(raises),
    "map, keyed": lambda stream: stream.key_by(BY_KEY).map(raises),
    "map_batches": lambda stream: stream.map_batches(raises),
    "process": lambda stream: stream.process(raising(f.ProcessFunction, "process_element")),
    "open": lambda stream: stream.map(raising(f.MapFunction, "open", map=nothing)),
    "finish": lambda stream: stream.process(AtTheEnd()),
    "finish, keyed": lambda stream: stream.key_by(BY_KEY).process(AtTheEndOfKeys()),
    "keyed process": keyed_process("process_element"),
    "open, keyed": keyed_process("open"),
    "event-time timer": keyed_process("on_timer", process_element=timed),
    "processing-time timer": keyed_process("on_timer", process_element=timed_by_clock),
    "reducing state": kept(ReducingStateDescriptor("state", raises)),
    "aggregating state": kept(AggregatingStateDescriptor("state", raising(Total, "add"))),
    "key of a reduce": lambda stream: stream.key_by(raises).reduce(FIRST),
    "key of a process function": lambda stream: stream.key_by(raises).process(AtTheEndOfKeys()),
    "key selector's open": lambda stream: stream.key_by(
        raising(f.KeySelector, "open", get_key=staticmethod(BY_KEY))
    ).reduce(FIRST),
    "key of a window": lambda stream: stamped(stream).key_by(raises).window(TUMBLING).aggregate(Combinable()),
    "key of a window join": met("join", FIRST, raises),
    "partitioner": lambda stream: stream.partition_custom(raises, BY_KEY).map(BY_KEY),
    "reduce": lambda stream: stream.key_by(BY_KEY).reduce(raises),
    "reduce of records with timestamps": lambda stream: keyed(stream).reduce(raises),
    "timestamp assigner": lambda stream: stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(raising(TimestampAssigner, "extract_timestamp"))
    ),
    "watermarks by event": generated("on_event"),
    "watermarks by period": generated("on_periodic_emit"),
    "watermark supplier": by_strategy(WatermarkStrategy.for_generator(raises)),
    "accumulator": aggregated(Total, "create_accumulator"),
    "combinable accumulator": aggregated(Combinable, "create_accumulator"),
    "add": aggregated(Total, "add"),
    "combinable add": aggregated(Combinable, "add"),
    "result": aggregated(Total, "get_result"),
    "combinable result": aggregated(Combinable, "get_result"),
    "merge of sessions": aggregated(Total, "merge", SESSIONS),
    "merge of slices or senders": aggregated(Combinable, "merge", SLIDING),
    "reduce of a window": windowed(lambda window: window.reduce(raises)),
    "reduce of slices": windowed(lambda window: window.reduce(raises), SLIDING),
    "reduce of a session": windowed(lambda window: window.reduce(raises), SESSIONS),
    "window function": windowed(lambda window: window.apply(raising(f.WindowFunction, "apply"))),
    "process window": windowed(lambda window: window.process(raising(f.ProcessWindowFunction, "process"))),
    "process session": windowed(lambda window: window.process(raising(f.ProcessWindowFunction, "process")), SESSIONS),
    "process the aggregate": windowed(
        lambda window: window.aggregate(Combinable(), raising(f.ProcessWindowFunction, "process"))
    ),
    "clear of a window": windowed(
        lambda window: window.process(raising(f.ProcessWindowFunction, "clear", process=nothing))
    ),
    "process all": lambda stream: (
        stamped(stream).window_all(SLIDING).process(raising(f.ProcessAllWindowFunction, "process"))
    ),
    "count window": lambda stream: stream.key_by(BY_KEY).count_window(2).apply(raising(f.WindowFunction, "apply")),
    "gap of sessions": windowed(
        lambda window: window.reduce(FIRST),
        EventTimeSessionWindows.with_dynamic_gap(raising(SessionWindowTimeGapExtractor, "extract")),
    ),
    "window assigner": windowed(lambda window: window.reduce(FIRST), raising(OwnWindows, "assign_windows")),
    "trigger's element": triggered("on_element"),
    "trigger's event time": triggered("on_event_time"),
    "trigger's processing time": triggered("on_processing_time", on_element=processing),
    "trigger's merge": triggered("on_merge", SESSIONS),
    "trigger's clear": triggered("clear"),
    "trigger's state": windowed(lambda window: window.trigger(Counting()).reduce(FIRST)),
    "evict before": evicted(raising(OwnEvictor, "evict_before")),
    "evict after": evicted(raising(OwnEvictor, "evict_after")),
    "delta": evicted(DeltaEvictor.of(1, raises)),
    "co-map": lambda stream: stream.connect(stream).map(raising(f.CoMapFunction, "map1", map2=nothing)),
    "co-flat-map": lambda stream: stream.connect(stream).flat_map(
        raising(f.CoFlatMapFunction, "flat_map2", flat_map1=nothing)
    ),
    "co-process": lambda stream: stream.connect(stream).process(
        raising(f.CoProcessFunction, "process_element1", process_element2=nothing)
    ),
    "first of two": co_processed("process_element1"),
    "second of two": co_processed("process_element2"),
    "timer of two": co_processed("on_timer"),
    "broadcast": broadcast(f.BroadcastProcessFunction, "process_broadcast_element"),
    "beside a broadcast": broadcast(f.BroadcastProcessFunction, "process_element"),
    "broadcast to keys": broadcast(f.KeyedBroadcastProcessFunction, "process_broadcast_element"),
    "keys beside a broadcast": broadcast(f.KeyedBroadcastProcessFunction, "process_element"),
    "timer beside a broadcast": broadcast(f.KeyedBroadcastProcessFunction, "on_timer"),
    "interval join": interval_joined,
    "window join": met("join", raises),
    "flat window join": met("join", raising(f.FlatJoinFunction, "join")),
    "co-group": met("co_group", raising(f.CoGroupFunction, "co_group")),
    "async, unordered": lambda stream: AsyncDataStream.unordered_wait(stream, Asks(), Time.seconds(60)),
    "async, ordered": lambda stream: AsyncDataStream.ordered_wait(stream, Asks(), Time.seconds(60)),
    "async timeout": lambda stream: AsyncDataStream.unordered_wait(stream, Waits(), Time.milliseconds(1)),
}
#: A batch job has no watermarks before its end, and its sessions get their records in the order of time.
ONLY_IN_STREAMS = {"watermarks by event", "watermarks by period", "watermark supplier", "merge of sessions"}
#: What no record leads to.
WITHOUT_RECORD = {
    *("open", "open, keyed", "finish", "finish, keyed", "key selector's open", "watermarks by period"),
    *("watermark supplier", "event-time timer", "processing-time timer", "timer of two", "timer beside a broadcast"),
    *("trigger's event time", "trigger's processing time", "trigger's clear", "evict before", "evict after", "delta"),
    *("result", "combinable result", "window function", "process window", "process session", "process the aggregate"),
    *("clear of a window", "process all", "window join", "flat window join", "co-group", "map_batches"),
    "merge of slices or senders",
}
AT = f"raises at {__file__.rpartition('/')[2]}:{raises.__code__.co_firstlineno}"
#: What chooses the operator's records, and raises. Windows and reduces that
#: combine before the shuffle of a batch job compute keys as one function with that.
CHOOSERS = {
    "key of a process function": f"key function {AT}",
    "key of a window": f"key function {AT}",
    "key of a window join": "key function",
    "partitioner": f"partitioner {AT} or key function ",
}
CELLS = {
    f"{kind} in {mode}": (kind, mode)
    for kind in KINDS
    for mode in MODES
    if mode == "STREAMING" or kind not in ONLY_IN_STREAMS
}


def failure(build: Callable[[Any], Any], mode: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> JobExecutionError:
    """Run a job, and return the error that ends it."""
    Cluster(place, workers=1).patch(monkeypatch)
    configuration = Configuration.from_dict({"restart-strategy.type": "none"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2).set_runtime_mode(RuntimeExecutionMode[mode])
    records = env.from_collection(RECORDS).name("records").uid("records").rebalance().map(lambda record: record)
    stream = build(records.name("before").uid("before")).name("raising").uid("own uid")
    with pytest.raises(JobExecutionError) as raised:
        list(stream.execute_and_collect())
    return raised.value


@cells("kind, mode", CELLS)
def test_a_function_that_raises_is_named_with_its_operator_and_line(
    kind: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = failure(KINDS[kind], mode, tmp_path, monkeypatch)
    assert isinstance(error.__cause__, OwnError), error
    place = error.place
    assert place is not None
    assert (place.operator_name, place.operator_uid, place.location) == ("raising", "own uid", LINE)
    if kind in CHOOSERS and (kind, mode) != ("key of a window", "BATCH"):
        assert str(place.chooser).startswith(CHOOSERS[kind])
        assert f"  in {place.chooser} of operator 'raising' (uid 'own uid')" in str(error)
    if kind not in WITHOUT_RECORD:
        assert place.record is not None
        assert "('a', " in place.record or "('b', " in place.record

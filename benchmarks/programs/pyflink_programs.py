"""The workloads for PyFlink 2.3: ``python pyflink_programs.py WORKLOAD RECORDS process|thread``.

PyFlink has no interval join; a KeyedCoProcessFunction does what Flink's operator does.
"""

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from pyflink.common import Configuration, Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    DataStream,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import MapState, MapStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

Event = tuple[str, int, int]
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
WORD = Types.TUPLE([Types.STRING(), Types.LONG()])
BOUND_MS = 100
PRICES = MapStateDescriptor("prices", Types.LONG(), Types.LONG())
LIST_PRICES = {item: (item + 1) * 10 for item in range(1_000)}


class Tally(FlatMapFunction):
    """The cheapest sink that can be checked: count, sum and sum of squares, left in a file when the task closes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = self.total = self.squares = 0

    def flat_map(self, value: int) -> tuple[()]:
        self.count += 1
        self.total += value
        self.squares += value * value
        return ()

    def close(self) -> None:
        with tempfile.NamedTemporaryFile("w", dir=self.folder, delete=False) as file:
            file.write(f"{self.count} {self.total} {self.squares}")


class Counter(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[tuple[int, int]]:
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        yield value, seen


class MapCounter(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[tuple[int, int]]:
        item = value % 10
        seen = (self.seen.get(item) or 0) + 1
        self.seen.put(item, seen)
        yield value, seen


class Amount(BroadcastProcessFunction):
    """An amount is what was bought at the price of the item: the broadcast one once it is there, else that of the list.

    They are the same, so the result does not depend on which record is first.
    """

    def process_element(self, value: tuple[int, int], ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[int]:
        price = ctx.get_broadcast_state(PRICES).get(value[0])
        yield value[1] * (LIST_PRICES[value[0]] if price is None else price)

    def process_broadcast_element(self, value: tuple[int, int], ctx: BroadcastProcessFunction.Context) -> Iterable[int]:
        ctx.get_broadcast_state(PRICES).put(*value)
        yield value[1]


class Joined(KeyedCoProcessFunction):
    """Keeps the records of each side by their timestamp, until no later one of the other side can meet them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        event = Types.TUPLE(
            [Types.STRING(), Types.LONG(), Types.LONG()]
        )  # EVENT has met the JVM, and cannot be pickled
        self.left, self.right = (
            runtime_context.get_map_state(MapStateDescriptor(side, Types.LONG(), Types.LIST(event)))
            for side in ("left", "right")
        )

    def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterable[int]:
        for other in self.meet(value, ctx, self.left, self.right):
            yield value[2] * 3 + other[2]

    def process_element2(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterable[int]:
        for other in self.meet(value, ctx, self.right, self.left):
            yield other[2] * 3 + value[2]

    def meet(
        self, value: Event, ctx: KeyedCoProcessFunction.Context, own: MapState, others: MapState
    ) -> Iterable[Event]:
        at = ctx.timestamp()
        ctx.timer_service().register_event_time_timer(at + BOUND_MS + 1)
        own.put(at, [*(own.get(at) or ()), value])
        return [other for stamp, values in others.items() if abs(stamp - at) <= BOUND_MS for other in values]

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[int]:
        for side in (self.left, self.right):
            side.remove(timestamp - BOUND_MS - 1)
        return ()


class EventTime(TimestampAssigner):
    def extract_timestamp(self, value: Event, record_timestamp: int) -> int:
        return value[1]


class CountAndSum(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Event, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value[2]

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def one_second_behind() -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(EventTime())


def map_filter(numbers: DataStream, records: int) -> DataStream:
    return numbers.map(lambda i: i * 3 + 1, Types.LONG()).filter(lambda x: x % 10 == 0)


def keyed_reduce(numbers: DataStream, records: int) -> DataStream:
    keys = [f"key-{k}" for k in range(1_000)]
    last = records // 1_000
    return (
        numbers.map(lambda i: (keys[i * 7919 % 1_000], 1, i), EVENT)
        .key_by(lambda r: r[0], Types.STRING())
        .reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2]))
        .filter(lambda r: r[1] == last)
        .map(lambda r: r[2])
    )


def keyed_state(numbers: DataStream, records: int) -> DataStream:
    last = max(1, records // 1_000_000)
    return (
        numbers.map(lambda i: i * 2654435761 % 1_000_000, Types.LONG())
        .key_by(lambda key: key, Types.LONG())
        .process(Counter(), PAIR)
        .filter(lambda r: r[1] == last)
        .map(lambda r: r[0])
    )


def windows(numbers: DataStream, records: int) -> DataStream:
    keys = [f"key-{k}" for k in range(10_000)]
    half = records // 2  # each source subtask reads one half; both halves cover the same event time
    return (
        numbers.map(lambda i: (keys[i % half * 7919 % 10_000], i % half // 50, i), EVENT)
        .assign_timestamps_and_watermarks(one_second_behind())
        .key_by(lambda r: r[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .aggregate(CountAndSum(), accumulator_type=PAIR, output_type=PAIR)
        .map(lambda r: r[1] * 100 + r[0])
    )


def sliding_windows(numbers: DataStream, records: int) -> DataStream:
    keys = [f"key-{k}" for k in range(1_000)]
    half = records // 2
    return (
        numbers.map(lambda i: (keys[i % half * 7919 % 1_000], i % half // 5, i), EVENT)
        .assign_timestamps_and_watermarks(one_second_behind())
        .key_by(lambda r: r[0], Types.STRING())
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(1)))
        .aggregate(CountAndSum(), accumulator_type=PAIR, output_type=PAIR)
        .map(lambda r: r[1] * 100 + r[0])
    )


def session_windows(numbers: DataStream, records: int) -> DataStream:
    keys = [f"key-{k}" for k in range(10_000)]
    half = records // 2
    return (
        numbers.map(
            lambda i: (keys[i % half // 5_000 % 10 * 1_000 + i % half * 7919 % 1_000], i % half // 20, i), EVENT
        )
        .assign_timestamps_and_watermarks(one_second_behind())
        .key_by(lambda r: r[0], Types.STRING())
        .window(EventTimeSessionWindows.with_gap(Time.seconds(1)))
        .aggregate(CountAndSum(), accumulator_type=PAIR, output_type=PAIR)
        .map(lambda r: r[1] * 100 + r[0])
    )


def interval_join(numbers: DataStream, records: int) -> DataStream:
    keys = [f"key-{k}" for k in range(10_000)]
    half = records // 2
    keyed = (
        numbers.map(lambda i: (keys[i % half * 7919 % 10_000], i % half // 50, i), EVENT)
        .assign_timestamps_and_watermarks(one_second_behind())
        .key_by(lambda r: r[0], Types.STRING())
    )
    return keyed.connect(keyed).process(Joined(), Types.LONG())


def broadcast_join(numbers: DataStream, records: int) -> DataStream:
    env = numbers.get_execution_environment()
    prices = env.from_collection(list(LIST_PRICES.items()), PAIR).broadcast(PRICES)
    return (
        numbers.map(lambda i: (i * 7919 % 1_000, i), PAIR)
        .connect(prices)
        .process(Amount(), Types.LONG())
        .filter(lambda x: x % 3 == 0)
    )


def map_state(numbers: DataStream, records: int) -> DataStream:
    last = max(1, records // 100_000)
    return (
        numbers.map(lambda i: i * 2654435761 % 100_000, Types.LONG())
        .key_by(lambda x: x // 10, Types.LONG())
        .process(MapCounter(), PAIR)
        .filter(lambda r: r[1] == last)
        .map(lambda r: r[0])
    )


def word_count(numbers: DataStream, records: int) -> DataStream:
    numbers.get_execution_environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    words = [f"word-{k}" for k in range(10_000)]
    return (
        numbers.map(lambda i: (words[i * 7919 % 10_000], 1), WORD)
        .key_by(lambda r: r[0], Types.STRING())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .map(lambda r: int(r[0][5:]) * r[1])
    )


JOBS: dict[str, Callable[[DataStream, int], DataStream]] = {
    each.__name__: each
    for each in (
        map_filter,
        keyed_reduce,
        keyed_state,
        windows,
        sliding_windows,
        session_windows,
        interval_join,
        broadcast_join,
        map_state,
        word_count,
    )
}


def main(workload: str, records: int, mode: str) -> None:
    configuration = Configuration()
    configuration.set_string("python.execution-mode", mode)
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("python.client.executable", sys.executable)
    configuration.set_integer("python.fn-execution.bundle.size", 100_000)
    configuration.set_integer("python.state.cache-size", 100_000)
    configuration.set_integer("python.map-state.read-cache-size", 100_000)
    configuration.set_integer("python.map-state.write-cache-size", 100_000)
    configuration.set_boolean("pipeline.object-reuse", True)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    numbers = env.from_source(
        NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    with tempfile.TemporaryDirectory() as folder:
        JOBS[workload](numbers, records).flat_map(Tally(folder))
        env.execute(workload)
        parts = [tuple(map(int, part.read_text().split())) for part in Path(folder).iterdir()]
    print("RESULT", *(sum(column) for column in zip(*parts, strict=True)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])

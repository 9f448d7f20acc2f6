"""The workloads for Penstock: ``python penstock_programs.py WORKLOAD RECORDS``, for keyed_state also ``KEYS``.

The jobs of pyflink_programs.py with the imports changed. What differs: no types are declared (Penstock needs none),
and the tally is a real two-phase sink, because here a sink can be written in Python.
"""

import sys
import tempfile
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Duration, Time, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    DataStream,
    KeyedProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.base import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    CommittingSinkWriter,
    Sink,
    SinkWriterContext,
    SupportsCommitter,
    WriterInitContext,
)
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import ProcessJoinFunction, RuntimeContext
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

Event = tuple[str, int, int]
PRICES = MapStateDescriptor("prices")
LIST_PRICES = {item: (item + 1) * 10 for item in range(1_000)}

Part = tuple[str, tuple[int, int, int]]


class Tally(Sink[int], SupportsCommitter[Part]):
    """The cheapest sink that can be checked: count, sum and sum of squares, published exactly once as small files."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def create_writer(self, context: WriterInitContext) -> "TallyWriter":
        return TallyWriter(context)

    def create_committer(self, context: CommitterInitContext) -> "TallyCommitter":
        return TallyCommitter(Path(self.folder))


class TallyWriter(CommittingSinkWriter[int, Part]):
    def __init__(self, context: WriterInitContext) -> None:
        self.context = context
        self.count = self.total = self.squares = 0

    def write(self, element: int, context: SinkWriterContext) -> None:
        self.write_all([element])

    def write_all(self, elements: list[int], timestamps: Any = None) -> None:
        self.count += len(elements)
        self.total += sum(elements)
        self.squares += sum([x * x for x in elements])

    def flush(self, end_of_input: bool) -> None:
        pass

    def prepare_commit(self) -> list[Part]:
        name = f"{self.context.checkpoint_id}-{self.context.subtask_id}-{self.context.attempt_token}"
        tally = (self.count, self.total, self.squares)
        self.count = self.total = self.squares = 0
        return [(name, tally)]


class TallyCommitter(Committer[Part]):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def commit(self, requests: Collection[CommitRequest[Part]]) -> None:
        for request in requests:
            name, tally = request.get_committable()
            (self.folder / name).write_text(" ".join(map(str, tally)))


class Counter(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[tuple[int, int]]:
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        yield value, seen


class MapCounter(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen"))

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


class Pair(ProcessJoinFunction):
    def process_element(self, left: Event, right: Event, ctx: ProcessJoinFunction.Context) -> Iterable[int]:
        yield left[2] * 3 + right[2]


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
    return numbers.map(lambda i: i * 3 + 1).filter(lambda x: x % 10 == 0)


def keyed_reduce(numbers: DataStream, records: int) -> DataStream:
    keys = [f"key-{k}" for k in range(1_000)]
    last = records // 1_000
    return (
        numbers.map(lambda i: (keys[i * 7919 % 1_000], 1, i))
        .key_by(lambda r: r[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2]))
        .filter(lambda r: r[1] == last)
        .map(lambda r: r[2])
    )


def keyed_state(numbers: DataStream, records: int, keys: int = 1_000_000) -> DataStream:
    last = max(1, records // keys)
    return (
        numbers.map(lambda i: i * 2654435761 % keys)
        .key_by(lambda key: key)
        .process(Counter())
        .filter(lambda r: r[1] == last)
        .map(lambda r: r[0])
    )


def windows(numbers: DataStream, records: int) -> DataStream:
    keys = [f"key-{k}" for k in range(10_000)]
    half = records // 2  # each source subtask reads one half; both halves cover the same event time
    return (
        numbers.map(lambda i: (keys[i % half * 7919 % 10_000], i % half // 50, i))
        .assign_timestamps_and_watermarks(one_second_behind())
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .aggregate(CountAndSum())
        .map(lambda r: r[1] * 100 + r[0])
    )


def sliding_windows(numbers: DataStream, records: int) -> DataStream:
    keys = [f"key-{k}" for k in range(1_000)]
    half = records // 2
    return (
        numbers.map(lambda i: (keys[i % half * 7919 % 1_000], i % half // 5, i))
        .assign_timestamps_and_watermarks(one_second_behind())
        .key_by(lambda r: r[0])
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(1)))
        .aggregate(CountAndSum())
        .map(lambda r: r[1] * 100 + r[0])
    )


def session_windows(numbers: DataStream, records: int) -> DataStream:
    keys = [f"key-{k}" for k in range(10_000)]
    half = records // 2
    return (
        numbers.map(lambda i: (keys[i % half // 5_000 % 10 * 1_000 + i % half * 7919 % 1_000], i % half // 20, i))
        .assign_timestamps_and_watermarks(one_second_behind())
        .key_by(lambda r: r[0])
        .window(EventTimeSessionWindows.with_gap(Time.seconds(1)))
        .aggregate(CountAndSum())
        .map(lambda r: r[1] * 100 + r[0])
    )


def interval_join(numbers: DataStream, records: int) -> DataStream:
    keys = [f"key-{k}" for k in range(10_000)]
    half = records // 2
    keyed = (
        numbers.map(lambda i: (keys[i % half * 7919 % 10_000], i % half // 50, i))
        .assign_timestamps_and_watermarks(one_second_behind())
        .key_by(lambda r: r[0])
    )
    return keyed.interval_join(keyed).between(Time.milliseconds(-100), Time.milliseconds(100)).process(Pair())


def broadcast_join(numbers: DataStream, records: int) -> DataStream:
    prices = numbers.get_execution_environment().from_collection(list(LIST_PRICES.items())).broadcast(PRICES)
    return numbers.map(lambda i: (i * 7919 % 1_000, i)).connect(prices).process(Amount()).filter(lambda x: x % 3 == 0)


def map_state(numbers: DataStream, records: int) -> DataStream:
    last = max(1, records // 100_000)
    return (
        numbers.map(lambda i: i * 2654435761 % 100_000)
        .key_by(lambda x: x // 10)
        .process(MapCounter())
        .filter(lambda r: r[1] == last)
        .map(lambda r: r[0])
    )


def word_count(numbers: DataStream, records: int) -> DataStream:
    numbers.get_execution_environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    words = [f"word-{k}" for k in range(10_000)]
    return (
        numbers.map(lambda i: (words[i * 7919 % 10_000], 1))
        .key_by(lambda r: r[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .map(lambda r: int(r[0][5:]) * r[1])
    )


JOBS: dict[str, Callable[..., DataStream]] = {
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


def main(workload: str, records: int, *options: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_parallelism(2)
    numbers = env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers")
    with tempfile.TemporaryDirectory() as folder:
        JOBS[workload](numbers, records, *options).sink_to(Tally(folder))
        env.execute(workload)
        parts = [tuple(map(int, part.read_text().split())) for part in Path(folder).iterdir()]
    print("RESULT", *(sum(column) for column in zip(*parts, strict=True)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

"""The four workloads for PyFlink 2.3: ``python pyflink_programs.py WORKLOAD RECORDS process|thread``."""

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from pyflink.common import Configuration, Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    DataStream,
    FlatMapFunction,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows

EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


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


class EventTime(TimestampAssigner):
    def extract_timestamp(self, value: tuple[str, int, int], record_timestamp: int) -> int:
        return value[1]


class CountAndSum(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: tuple[str, int, int], accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value[2]

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


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
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(EventTime())
        )
        .key_by(lambda r: r[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .aggregate(CountAndSum(), accumulator_type=PAIR, output_type=PAIR)
        .map(lambda r: r[1] * 100 + r[0])
    )


JOBS: dict[str, Callable[[DataStream, int], DataStream]] = {
    each.__name__: each for each in (map_filter, keyed_reduce, keyed_state, windows)
}


def main(workload: str, records: int, mode: str) -> None:
    configuration = Configuration()
    configuration.set_string("python.execution-mode", mode)
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("python.client.executable", sys.executable)
    configuration.set_integer("python.fn-execution.bundle.size", 100_000)
    configuration.set_integer("python.state.cache-size", 100_000)
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

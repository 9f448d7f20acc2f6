"""A user's program, as a type checker sees it: each stream knows the type of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from penstock.common.time import Time
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import (
    AggregateFunction,
    CoMapFunction,
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
    TimeWindow,
)
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.data_stream import CloseableIterator
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Iterable


class Length(MapFunction[str, int]):
    def map(self, value: str) -> int:
        return len(value)


class Words(ProcessFunction[str, str]):
    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterable[str]:
        return value.split()


class Count(KeyedProcessFunction[str, int, float]):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[float]:
        yield value / 2


class Mean(AggregateFunction[int, tuple[int, int], float]):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Larger(ReduceFunction[int]):
    def reduce(self, value1: int, value2: int) -> int:
        return max(value1, value2)


class Shown(ProcessWindowFunction[float, str, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]
    ) -> Iterable[str]:
        yield f"{key} {context.window().end} {list(elements)}"


class Either(CoMapFunction[str, int, bytes]):
    def map1(self, value: str) -> bytes:
        return value.encode()

    def map2(self, value: int) -> bytes:
        return bytes(value)


env = StreamExecutionEnvironment.get_execution_environment()
lines = env.from_collection(["to be", "or not"])
assert_type(lines, DataStream[str])
assert_type(
    env.from_source(NumberSequenceSource(1, 2), WatermarkStrategy.no_watermarks(), "numbers"),
    DataStream[int],
)
assert_type(env.read_text_file("in.txt"), DataStream[str])
assert_type(lines.map(len), DataStream[int])
assert_type(lines.map(Length()), DataStream[int])
assert_type(lines.map(lambda line: (line, len(line))), DataStream[tuple[str, int]])
assert_type(lines.flat_map(lambda line: line.split()), DataStream[str])
assert_type(lines.filter(lambda line: line > "b"), DataStream[str])
assert_type(lines.process(Words()), DataStream[str])
assert_type(lines.union(lines), DataStream[str])
assert_type(lines.connect(lines.map(len)).map(Either()), DataStream[bytes])
assert_type(lines.rebalance().name("spread"), DataStream[str])
assert_type(lines.execute_and_collect(), CloseableIterator[str])
assert_type(lines.execute_and_collect(limit=2), list[str])

numbers = lines.map(len).key_by(str)
assert_type(numbers, KeyedStream[int, str])
assert_type(numbers.map(float), DataStream[float])
assert_type(numbers.process(Count()), DataStream[float])
assert_type(numbers.reduce(Larger()), DataStream[int])
assert_type(numbers.reduce(lambda one, other: one + other), DataStream[int])
assert_type(numbers.sum(), DataStream[int])

windows = numbers.window(TumblingEventTimeWindows.of(Time.seconds(1)))
assert_type(windows.reduce(Larger()), DataStream[int])
assert_type(windows.aggregate(Mean()), DataStream[float])
assert_type(windows.aggregate(Mean(), Shown()), DataStream[str])

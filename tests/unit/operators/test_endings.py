"""`finish`, `end_input` and `close` of functions: which methods count, what they may yield, and what is refused."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import UnsupportedOperationError
from penstock.testing.harness import OperatorHarness, StreamRecord, Watermark
from penstock.testing.two_inputs import TwoInputHarness

SIDE = OutputTag("side")
RULES = MapStateDescriptor("rules")
TEN = TumblingEventTimeWindows(10, 0)
LAST = Watermark((1 << 63) - 1)


class Yielding(Function):
    """Tells of all ends, on both outputs."""

    def finish(self) -> Any:
        yield "finish"
        yield SIDE, "finish"


class YieldingTwice(Yielding):
    def end_input(self, input_index: int) -> Any:
        yield "end", input_index


class Counting(Function):
    """Counts its ends; it is of a kind that yields nothing."""

    def __init__(self) -> None:
        self.ends: list[Any] = []

    def finish(self) -> Any:
        self.ends.append("finish")

    def end_input(self, input_index: int) -> Any:
        self.ends.append(input_index)


class Flat(Yielding, FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        yield value


class Process(Yielding, ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class KeyedProcess(Yielding, KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(50)
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "timer", ctx.get_current_key()


class CoFlat(YieldingTwice, CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        yield value

    def flat_map2(self, value: Any) -> Any:
        yield value


class CoProcess(YieldingTwice, CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value


class KeyedCoProcess(YieldingTwice, KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value


class Broadcast(YieldingTwice, BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        yield value


class KeyedBroadcast(YieldingTwice, KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Windows(Yielding, WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        yield key, len(list(inputs))


class ProcessWindows(Yielding, ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, len(list(elements))


def itself(record: Any) -> Any:
    return record


ONE_INPUT = {
    "process": (lambda: OperatorHarness.for_process(Process()), ["a"]),
    "keyed process": (lambda: OperatorHarness.for_keyed_process(KeyedProcess(), itself), ["a", ("timer", "a")]),
    "window": (lambda: OperatorHarness.for_window(itself, TEN, function=Windows()), [("a", 1)]),
    "process window": (lambda: OperatorHarness.for_window(itself, TEN, function=ProcessWindows()), [("a", 1)]),
}
TWO_INPUTS = {
    "co process": lambda: TwoInputHarness.for_co_process(CoProcess()),
    "keyed co process": lambda: TwoInputHarness.for_keyed_co_process(KeyedCoProcess(), itself, itself),
    "broadcast": lambda: TwoInputHarness.for_broadcast_process(Broadcast(), RULES),
    "keyed broadcast": lambda: TwoInputHarness.for_keyed_broadcast_process(KeyedBroadcast(), itself, RULES),
}


@pytest.mark.parametrize("kind", ONE_INPUT)
def test_finish_yields_behind_the_last_watermark_without_a_timestamp(kind: str) -> None:
    make, before = ONE_INPUT[kind]
    with make() as harness:
        harness.process_element("a", 5)
        harness.end_input()
        *earlier, mark, last = harness.output()
        assert [item.value for item in earlier if isinstance(item, StreamRecord)] == before
        assert (mark, last) == (LAST, StreamRecord("finish", None))
        assert harness.side_output(SIDE) == [StreamRecord("finish", None)]


@pytest.mark.parametrize("kind", TWO_INPUTS)
def test_each_input_ends_before_finish(kind: str) -> None:
    with TWO_INPUTS[kind]() as harness:
        harness.process_element("a", 5)
        harness.process_element2("b", 5)
        harness.end_input()
        ends = [StreamRecord(("end", 0)), StreamRecord(("end", 1)), StreamRecord("finish")]
        assert harness.output() == [StreamRecord("a", 5), StreamRecord("b", 5), LAST, *ends]
        assert harness.side_output(SIDE) == [StreamRecord("finish")]


def test_functions_that_give_any_number_of_records_yield_from_their_ends() -> None:
    with OperatorHarness.for_flat_map(Flat()) as harness:
        harness.end_input()
        assert harness.values() == ["finish", (SIDE, "finish")]  # a pair, as long as no side output is asked for
    with TwoInputHarness.for_co_flat_map(CoFlat()) as harness:
        harness.end_input()
        assert harness.values()[:3] == [("end", 0), ("end", 1), "finish"]


class Mapping(Counting, MapFunction):
    def map(self, value: Any) -> Any:
        return value


class Filtering(Counting, FilterFunction):
    def filter(self, value: Any) -> bool:
        return True


class Reducing(Counting, ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1


class Selecting(Counting, KeySelector):
    def get_key(self, value: Any) -> Any:
        return value


class Adding(Counting, AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class CoMapping(Counting, CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


def test_functions_that_return_one_value_are_notified_of_the_end_and_give_nothing() -> None:
    functions = [Mapping(), Filtering(), Reducing(), Adding(), Selecting(), CoMapping()]
    mapping, filtering, reducing, adding, selecting, co_mapping = functions
    harnesses = [
        OperatorHarness.for_map(mapping),
        OperatorHarness.for_filter(filtering),
        OperatorHarness.for_reduce(reducing, selecting),
        OperatorHarness.for_window(itself, TEN, aggregate=adding),
        TwoInputHarness.for_co_map(co_mapping),
    ]
    for harness in harnesses:
        with harness:
            harness.end_input()
            assert harness.values() == []
    assert [function.ends for function in functions] == [["finish"]] * 5 + [[0, 1, "finish"]]


class Iterating(Mapping):
    def finish(self) -> Any:
        return iter(["lost"])


class Telling(Mapping):
    def finish(self) -> Any:
        return {"closed": True}


def test_records_that_finish_of_a_map_would_lose_are_an_error_and_another_answer_is_none() -> None:
    with (
        OperatorHarness.for_map(Iterating()) as harness,
        pytest.raises(UnsupportedOperationError, match=r"finish\(\) of Iterating that yields"),
    ):
        harness.end_input()
    with OperatorHarness.for_map(Telling()) as harness:
        harness.end_input()
        assert harness.values() == []


class Keyed(KeyedProcess):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def finish(self) -> Any:
        self.seen.value()


class Setting(KeyedProcess):
    def process_element(self, value: Any, ctx: Any) -> Any:
        self.timers = ctx.timer_service()

    def finish(self) -> Any:
        self.timers.register_event_time_timer(5)


@pytest.mark.parametrize("function", [Keyed(), Setting()])
def test_no_key_is_at_hand_in_finish(function: Any) -> None:
    with OperatorHarness.for_keyed_process(function, itself) as harness:
        harness.process_element("a", 1)
        with pytest.raises(UnsupportedOperationError, match=r"finish\(\), end_input\(\) and close\(\) have none"):
            harness.end_input()


# --------------------------------------------------------------------------------------------- what counts, and is said


class WithParameter(Mapping):
    def finish(self, record: Any) -> Any:  # type: ignore[override]
        raise AssertionError(record)


class WithDefault(Mapping):
    def finish(self, record: Any = None) -> Any:  # type: ignore[override]
        raise AssertionError(record)


class WithFlag(Mapping):
    def __init__(self) -> None:
        self.finish = False  # type: ignore[assignment,method-assign]
        self.ends = []


class WithoutIndex(CoMapping):
    def end_input(self) -> Any:  # type: ignore[override]
        raise AssertionError


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.mark.parametrize("kind", [WithParameter, WithDefault, WithFlag])
def test_a_helper_of_the_name_finish_is_not_called_and_warned_about_once(
    kind: Any, env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            env.from_collection([1]).map(kind())
    assert [record.getMessage() for record in caplog.records] == [
        f"finish of {kind.__qualname__} is not called at the end of the input: only a method without parameters is. "
        "Give a helper another name."
    ]
    with OperatorHarness.for_map(kind()) as harness:
        harness.end_input()


def test_a_helper_of_the_name_end_input_is_warned_about_where_there_are_two_inputs(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        env.from_collection([1]).map(Mapping())  # its end_input is a matter of its own
        env.from_collection([1]).connect(env.from_collection([1])).map(WithoutIndex())
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "end_input of WithoutIndex is not called at the end of the input"
    ]
    with TwoInputHarness.for_co_map(WithoutIndex()) as harness:
        harness.end_input()


def test_functions_without_such_methods_are_not_warned_about(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    class Plain(MapFunction):
        def map(self, value: Any) -> Any:
            return value

    with caplog.at_level(logging.WARNING):
        env.from_collection([1]).map(Plain()).key_by(itself).sum().map(Row)
    assert not caplog.records


class LosingMap(Mapping):
    def finish(self) -> Any:
        yield "lost"


class LosingFilter(Filtering):
    def finish(self) -> Any:
        yield "lost"


class LosingReduce(Reducing):
    def finish(self) -> Any:
        yield "lost"


class LosingSelector(Selecting):
    def finish(self) -> Any:
        yield "lost"


class LosingPartitioner(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        return 0

    def finish(self) -> Any:
        yield "lost"


class LosingCoMap(CoMapping):
    def end_input(self, input_index: int) -> Any:
        yield "lost"


class ClosingFlatMap(Flat):
    def close(self) -> Any:
        yield "lost"


class ClosingMap(Mapping):
    def close(self) -> Any:
        yield "lost"


class Waiting(Process):
    async def finish(self) -> Any:  # type: ignore[override]
        raise AssertionError


@pytest.mark.parametrize(
    ("add", "what"),
    [
        (lambda stream: stream.map(LosingMap()), "finish() of LosingMap that yields"),
        (lambda stream: stream.key_by(itself).map(LosingMap()), "finish() of LosingMap that yields"),
        (lambda stream: stream.filter(LosingFilter()), "finish() of LosingFilter that yields"),
        (lambda stream: stream.key_by(itself).reduce(LosingReduce()), "finish() of LosingReduce that yields"),
        (lambda stream: stream.key_by(LosingSelector()), "finish() of LosingSelector that yields"),
        (
            lambda stream: stream.partition_custom(LosingPartitioner(), itself),
            "finish() of LosingPartitioner that yields",
        ),
        (lambda stream: stream.connect(stream).map(LosingCoMap()), "end_input() of LosingCoMap that yields"),
        (lambda stream: stream.flat_map(ClosingFlatMap()), "close() of ClosingFlatMap that yields"),
        (lambda stream: stream.key_by(itself).flat_map(ClosingFlatMap()), "close() of ClosingFlatMap that yields"),
        (lambda stream: stream.map(ClosingMap()), "close() of ClosingMap that yields"),
        (lambda stream: stream.process(Waiting()), "finish() of Waiting as a coroutine"),
    ],
)
def test_records_that_would_go_nowhere_are_refused_where_the_function_is_added(
    add: Any, what: str, env: StreamExecutionEnvironment
) -> None:
    with pytest.raises(UnsupportedOperationError) as refused:
        add(env.from_collection([1]))
    assert refused.value.operation == what

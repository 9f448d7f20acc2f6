"""WindowedStream: what each way to work on windows adds to the job."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.graph.graphs import environment, job_graph, operator

from penstock._engine.operators.windows.window_strategy import AggregatePanes, ElementPanes, ReducePanes
from penstock.common import Time, Types
from penstock.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowedStream,
    WindowFunction,
)
from penstock.datastream.window import (
    EventTimeTrigger,
    Evictor,
    MergingWindowAssigner,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.operators.windows.window_strategy import PaneStrategy


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Apply(WindowFunction[Any, Any, Any, TimeWindow]):
    def apply(self, key: Any, window: TimeWindow, inputs: Any) -> Any:
        return inputs


class Process(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return elements


class Own(WindowAssigner[Any, TimeWindow]):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        return []

    def is_event_time(self) -> bool:
        return True


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return environment(1)


@pytest.fixture
def windows(env: StreamExecutionEnvironment) -> WindowedStream:
    return env.from_collection([1], Types.DOUBLE()).key_by(abs).window(TumblingEventTimeWindows.of(Time.seconds(5)))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda w: w.reduce(max), (ReducePanes, "HeldReduce", "NoneType")),
        (lambda w: w.reduce(max, Apply()), (ReducePanes, "HeldReduce", "Apply")),
        (lambda w: w.aggregate(Count()), (AggregatePanes, "Count", "NoneType")),
        (lambda w: w.aggregate(Count(), window_function=Process()), (AggregatePanes, "Count", "Process")),
        (lambda w: w.apply(Apply()), (ElementPanes, "NoneType", "Apply")),
        (lambda w: w.process(Process()), (ElementPanes, "NoneType", "Process")),
    ],
)
def test_payload(
    env: StreamExecutionEnvironment,
    windows: WindowedStream,
    build: Callable[[WindowedStream], Any],
    expected: tuple[type[PaneStrategy], str, str],
) -> None:
    build(windows.allowed_lateness(2000).side_output_late_data(OutputTag("late"))).name("window")
    members = pickle.loads(operator(job_graph(env), "window").payload)
    assert members["key_selector"](-3) == 3
    assert repr(members["assigner"]) == "TumblingEventTimeWindows(5000, 0)"
    assert (members["allowed_lateness_ms"], members["late_tag"]) == (2000, "late")
    functions = [type(members[name]).__name__ for name in ("function", "window_function")]
    assert (members["strategy"], *functions) == expected
    assert len(members) == 9


def test_no_lateness_and_no_late_output_by_default(env: StreamExecutionEnvironment, windows: WindowedStream) -> None:
    windows.reduce(max)
    members = pickle.loads(operator(job_graph(env), "Window").payload)
    assert (members["allowed_lateness_ms"], members["late_tag"]) == (0, None)


def test_late_records_are_a_side_output_of_the_result(env: StreamExecutionEnvironment, windows: WindowedStream) -> None:
    tag = OutputTag("late")
    windows.side_output_late_data(tag).aggregate(Count()).get_side_output(tag).map(abs).name("late map")
    assert operator(job_graph(env), "late map").input_tag == "late"


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda w: w.reduce(max), Types.DOUBLE()),
        (lambda w: w.reduce(max, Apply()), Types.PICKLED_BYTE_ARRAY()),
        (lambda w: w.reduce(max, Apply(), Types.INT()), Types.INT()),
        (lambda w: w.aggregate(Count(), accumulator_type=Types.INT(), output_type=Types.LONG()), Types.LONG()),
        (lambda w: w.apply(Apply()), Types.PICKLED_BYTE_ARRAY()),
        (lambda w: w.process(Process(), Types.STRING()), Types.STRING()),
    ],
)
def test_type_of_the_result(windows: WindowedStream, build: Callable[[WindowedStream], Any], expected: object) -> None:
    assert build(windows).get_type() == expected


def test_getters(env: StreamExecutionEnvironment, windows: WindowedStream) -> None:
    assert windows.get_execution_environment() is env
    assert windows.get_input_type() == Types.DOUBLE()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.reduce(5), "reduce_function must be a ReduceFunction or a callable"),
        (
            lambda w: w.reduce(max, lambda *args: args),
            "window_function must be a WindowFunction or ProcessWindowFunction",
        ),
        (lambda w: w.aggregate(max), "aggregate_function must be a AggregateFunction"),
        (lambda w: w.apply(Process()), "window_function must be a WindowFunction"),
        (lambda w: w.process(Apply()), "process_window_function must be a ProcessWindowFunction"),
        (lambda w: w.side_output_late_data("late"), "output_tag must be an OutputTag"),
    ],
)
def test_wrong_arguments_fail_at_the_call(
    windows: WindowedStream, call: Callable[[WindowedStream], Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        call(windows)


def test_lateness_is_not_negative(windows: WindowedStream) -> None:
    with pytest.raises(ValueError, match="-1 ms"):
        windows.allowed_lateness(-1)


class NeverMerges(EventTimeTrigger):
    def can_merge(self) -> bool:
        return False


class Merging(Own, MergingWindowAssigner):
    def merge_windows(self, windows: Any, callback: Any) -> None: ...


def test_windows_triggers_and_evictors_of_ones_own_are_taken_and_others_are_not(
    env: StreamExecutionEnvironment,
) -> None:
    keyed = env.from_collection([1]).key_by(abs)
    assert keyed.window(Own()).trigger(NeverMerges()).evictor(Evictor()).reduce(max)
    assert keyed.window(Merging()).trigger(EventTimeTrigger()).reduce(max)
    with pytest.raises(UnsupportedOperationError, match="its can_merge"):
        keyed.window(Merging()).trigger(NeverMerges())
    with pytest.raises(TypeError, match="must be a WindowAssigner"):
        keyed.window(5)  # type: ignore[arg-type] - what is tested
    with pytest.raises(TypeError, match="must be a Trigger"):
        keyed.window(Own()).trigger(5)  # type: ignore[arg-type] - what is tested
    with pytest.raises(TypeError, match="must be an Evictor"):
        keyed.window(Own()).evictor(5)  # type: ignore[arg-type] - what is tested

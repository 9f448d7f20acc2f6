"""Side outputs of every kind of function, in whole epochs: what PyFlink gives for the same functions.

PyFlink runs every function as a process function: where the program asks an operator for a side output, a pair of a tag
and a value goes there, whatever kind the function is of; else the pair is a record of the main output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.epochs import in_order, run, same
from tests.kit.program import Program

from penstock.common.typeinfo import Types
from penstock.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import MapStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.datastream import DataStream

SIDE = OutputTag("side")
RULES = MapStateDescriptor("rules")
RECORDS = [("a", 1), ("b", 5), ("a", 12)]
OTHERS = [("c", 2), ("b", 15)]


def both(*value: Any) -> Any:
    """Yield a record to each of the two outputs."""
    yield ("main", *value)
    yield SIDE, ("side", *value)


class Process(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return both(*value)


class KeyedProcess(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(100)
        return both(*value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return both("timer", ctx.get_current_key())


class Flat(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return both(*value)


class CoFlat(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return both(1, *value)

    def flat_map2(self, value: Any) -> Any:
        return both(2, *value)


class CoProcess(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return both(1, *value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return both(2, *value)


class KeyedCoProcess(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(100)
        return both(1, *value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return both(2, *value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return both("timer", ctx.get_current_key())


class Broadcast(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return both(1, *value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return both(2, *value)


class KeyedBroadcast(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(100)
        return both(1, *value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return both(2, *value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return both("timer", ctx.get_current_key())


class Windows(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return both(key, window.start, [value for _, value in inputs])


class ProcessWindows(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return both(key, context.window().start, [value for _, value in elements])


class Counting(AggregateFunction):
    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        return [*accumulator, value]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


def first(record: Any) -> Any:
    return record[0]


def windows(stream: DataStream) -> Any:
    return stream.key_by(first).window(TumblingEventTimeWindows(10, 0))


ALONE = [("a", 1), ("b", 5), ("a", 12)]
BOTH = [(1, *record) for record in RECORDS] + [(2, *record) for record in OTHERS]
PANES = [("a", 0, [1]), ("b", 0, [5]), ("a", 10, [12])]
TIMERS = [("timer", "a"), ("timer", "b")]
KINDS: dict[str, tuple[Callable[[DataStream, DataStream], DataStream], list[Any]]] = {
    "process": (lambda one, _: one.process(Process()), ALONE),
    "keyed process": (lambda one, _: one.key_by(first).process(KeyedProcess()), ALONE + TIMERS),
    "flat map": (lambda one, _: one.flat_map(Flat()), ALONE),
    "keyed flat map": (lambda one, _: one.key_by(first).flat_map(Flat()), ALONE),
    "co flat map": (lambda one, two: one.connect(two).flat_map(CoFlat()), BOTH),
    "keyed co flat map": (lambda one, two: one.connect(two).key_by(first, first).flat_map(CoFlat()), BOTH),
    "co process": (lambda one, two: one.connect(two).process(CoProcess()), BOTH),
    "co process with keys": (lambda one, two: one.connect(two).key_by(first, first).process(CoProcess()), BOTH),
    "keyed co process": (
        lambda one, two: one.connect(two).key_by(first, first).process(KeyedCoProcess()),
        BOTH + TIMERS,
    ),
    "broadcast": (lambda one, two: one.connect(two.broadcast(RULES)).process(Broadcast()), BOTH),
    "keyed broadcast": (
        lambda one, two: one.key_by(first).connect(two.broadcast(RULES)).process(KeyedBroadcast()),
        BOTH + TIMERS,
    ),
    "window": (lambda one, _: windows(one).apply(Windows()), PANES),
    "process window": (lambda one, _: windows(one).process(ProcessWindows()), PANES),
    "window after reduce": (lambda one, _: windows(one).reduce(max, window_function=ProcessWindows()), PANES),
    "window after aggregate": (lambda one, _: windows(one).aggregate(Counting(), window_function=Windows()), PANES),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_pair_of_tag_and_value_goes_to_that_side_output(kind: str, parallelism: int, tmp_path: Path) -> None:
    program = Program(tmp_path, parallelism)
    build, expected = KINDS[kind]
    one, two = (program.source(records, timestamps=in_order()) for records in (RECORDS, OTHERS))
    result = build(one, two)
    program.collect(result, "main")
    program.collect(result.get_side_output(SIDE), "side")
    outputs = run(program, tmp_path)
    times = parallelism if "broadcast" in kind else 1
    repeated = [value for value in expected for _ in range(times if value[0] == 2 else 1)]
    assert same(outputs["main"], [("main", *value) for value in repeated])
    assert same(outputs["side"], [("side", *value) for value in repeated])


def tagged_if_even(record: Any) -> Any:
    return (SIDE, record) if record[1] % 2 == 0 else record


class Tagging(MapFunction):
    def map(self, value: Any) -> Any:
        return tagged_if_even(value)


class CoTagging(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return tagged_if_even(value)

    def map2(self, value: Any) -> Any:
        return tagged_if_even(value)


SINGLE: dict[str, tuple[Callable[[DataStream, DataStream], DataStream], list[Any]]] = {
    "map": (lambda one, _: one.map(tagged_if_even), RECORDS),
    "keyed map": (lambda one, _: one.key_by(first).map(Tagging()), RECORDS),
    "filter": (lambda one, _: one.map(tagged_if_even).filter(lambda record: True), RECORDS),
    "reduce": (
        lambda one, _: one.key_by(lambda record: record[1]).reduce(max).map(tagged_if_even).filter(bool),
        RECORDS,
    ),
    "co map": (lambda one, two: one.connect(two).map(CoTagging()), [*RECORDS, *OTHERS]),
}


@pytest.mark.parametrize("kind", SINGLE)
def test_a_pair_with_a_tag_that_a_function_without_side_outputs_returns_goes_there_if_the_program_asks(
    kind: str, tmp_path: Path
) -> None:
    program = Program(tmp_path)
    build, expected = SINGLE[kind]
    one, two = (program.source(records, timestamps=in_order()) for records in (RECORDS, OTHERS))
    result = build(one, two)
    program.collect(result, "main")
    program.collect(result.get_side_output(SIDE), "side")
    outputs = run(program, tmp_path)
    assert same(outputs["main"], [record for record in expected if record[1] % 2])
    assert same(outputs["side"], [record for record in expected if not record[1] % 2])


def test_a_pair_with_a_tag_is_a_record_where_the_program_asks_for_no_side_output(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.collect(program.source(RECORDS).map(tagged_if_even).map(len), "main")
    program.collect(program.source(RECORDS).map(tagged_if_even), "pairs")
    outputs = run(program, tmp_path)
    assert outputs["main"] == [2, 2, 2]
    assert outputs["pairs"] == [("a", 1), ("b", 5), (SIDE, ("a", 12))]


def test_what_is_put_out_under_a_tag_takes_the_shape_of_the_type_of_the_tag_alone(tmp_path: Path) -> None:
    class Typed(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            yield OutputTag("typed"), 1
            yield len(list(elements))

    program = Program(tmp_path)
    result = windows(program.source(RECORDS, timestamps=in_order())).process(Typed(), Types.INT())
    program.collect(result, "main")
    program.collect(result.get_side_output(OutputTag("typed", Types.DOUBLE())), "side")
    outputs = run(program, tmp_path)
    assert [repr(value) for value in outputs["side"]] == ["1.0"] * 3
    assert outputs["main"] == [1, 1, 1]


def test_side_outputs_of_a_window_stand_beside_its_late_records(tmp_path: Path) -> None:
    late = OutputTag("late")
    program = Program(tmp_path)
    source = program.source([("a", 1), ("a", 25), ("a", 3)], timestamps=in_order())
    result = windows(source).side_output_late_data(late).process(ProcessWindows())
    program.collect(result.get_side_output(late), "late")
    program.collect(result.get_side_output(SIDE), "side")
    outputs = run(program, tmp_path)
    assert outputs == {"late": [("a", 3)], "side": [("side", "a", 0, [1]), ("side", "a", 20, [25])]}

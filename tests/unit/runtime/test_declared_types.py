"""Every place where a program may declare a type holds values to it: the good, those that PyFlink converts, the bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.kit.epochs import EpochFailedError, run
from tests.kit.program import Program

from penstock.common.typeinfo import Types
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
)
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import DeclaredTypeError, StateDescriptorError
from penstock.testing.sources import ListSource
from penstock.testing.two_inputs import TwoInputHarness

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.datastream import DataStream

INT = Types.INT()


class Timed(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 1


STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Timed())


def itself(value: Any) -> Any:
    return value


def one(value: Any) -> int:
    return 1


def newer(before: Any, value: Any) -> Any:
    return value


class Process(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Side(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield OutputTag("side"), value


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Valued(KeyedProcessFunction):
    """Each value as a ValueState gives it back."""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("held", INT))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.state.update(value)
        yield self.state.value()


class Listed(KeyedProcessFunction):
    method = "add"

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_list_state(ListStateDescriptor("held", INT))

    def process_element(self, value: Any, ctx: Any) -> Any:
        getattr(self.state, self.method)(value if self.method == "add" else [value])
        yield list(self.state.get())[-1]
        self.state.clear()


class AllAdded(Listed):
    method = "add_all"


class Updated(Listed):
    method = "update"


class OperatorListed(MapFunction, CheckpointedFunction):
    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("held", INT))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: Any) -> Any:
        self.state.update([value])
        return next(iter(self.state))


class UnionListed(OperatorListed):
    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("held", INT))


class Rules(BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return None

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        state = ctx.get_broadcast_state(MapStateDescriptor("rules"))
        state.put(value, 1)
        yield next(iter(state.keys()))


class RuleValues(Rules):
    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        state = ctx.get_broadcast_state(MapStateDescriptor("rules", INT, INT))
        state.put_all({1: value})
        yield state[1]


class CoMap(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return None


class CoFlat(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        yield value

    def flat_map2(self, value: Any) -> Any:
        return None


class CoProcess(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return None


class Last(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_b


class Windowed(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield from elements


class WindowState(Windowed):
    state = "window_state"

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        state = getattr(context, self.state)().get_state(ValueStateDescriptor("held", INT))
        state.update(next(iter(elements)))
        yield state.value()


class GlobalState(WindowState):
    state = "global_state"


class TypedSource(ListSource):
    def get_produced_type(self) -> Any:
        return INT


class KeyOf(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.get_current_key()


def windows(stream: DataStream) -> Any:
    stamped = stream.assign_timestamps_and_watermarks(STAMPED)
    return stamped.key_by(one).window(TumblingEventTimeWindows(10, 0))


def broadcast(stream: DataStream, function: Any, *types: Any) -> DataStream:
    return stream.connect(stream.broadcast(MapStateDescriptor("rules", *types))).process(function)


#: By place: what is made of a stream of values, and the name of the operator that the error has.
PLACES: dict[str, tuple[Callable[[DataStream], DataStream], str]] = {
    "map": (lambda s: s.map(itself, INT), "Map"),
    "flat map": (lambda s: s.flat_map(lambda value: [value], INT), "FlatMap"),
    "process": (lambda s: s.process(Process(), INT), "Process"),
    "side output": (lambda s: s.process(Side()).get_side_output(OutputTag("side", INT)), "Process"),
    "keyed process": (lambda s: s.key_by(one).process(Keyed(), INT), "KeyedProcess"),
    "key": (lambda s: s.key_by(itself, INT).process(KeyOf()), "Source: list"),
    "keys of two streams": (lambda s: s.connect(s).key_by(itself, one, INT).flat_map(CoFlat()), "Source: list"),
    "co map": (lambda s: s.connect(s).map(CoMap(), INT), "Co-Map"),
    "co flat map": (lambda s: s.connect(s).flat_map(CoFlat(), INT), "Co-Flat Map"),
    "co process": (lambda s: s.connect(s).process(CoProcess(), INT), "Co-Process"),
    "keyed co map": (lambda s: s.connect(s).key_by(one, one).map(CoMap(), INT), "Co-Map"),
    "window": (lambda s: windows(s).process(Windowed(), INT), "Window"),
    "window reduce": (lambda s: windows(s).reduce(newer, output_type=INT), "Window"),
    "window aggregate": (lambda s: windows(s).aggregate(Last(), output_type=INT), "Window"),
    "accumulator": (lambda s: windows(s).aggregate(Last(), accumulator_type=INT), "Window"),
    "state of a window": (lambda s: windows(s).process(WindowState()), "Window"),
    "state of a key's windows": (lambda s: windows(s).process(GlobalState()), "Window"),
    "value state": (lambda s: s.key_by(one).process(Valued()), "KeyedProcess"),
    "list state, add": (lambda s: s.key_by(one).process(Listed()), "KeyedProcess"),
    "list state, add_all": (lambda s: s.key_by(one).process(AllAdded()), "KeyedProcess"),
    "list state, update": (lambda s: s.key_by(one).process(Updated()), "KeyedProcess"),
    "operator list": (lambda s: s.map(OperatorListed()), "Map"),
    "union list": (lambda s: s.map(UnionListed()), "Map"),
    "broadcast keys": (lambda s: broadcast(s, Rules(), INT, INT), "Co-Process-Broadcast"),
    "broadcast values": (lambda s: broadcast(s, RuleValues(), INT, INT), "Co-Process-Broadcast"),
}


def outcome(build: Any, value: Any, place: Path) -> list[str]:
    program = Program(place)
    program.collect(build(program.source([value])))
    return [repr(record) for record in run(program, place)["out"]]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("value", "expected"), [(7, "7"), (np.int64(1), "1")])
def test_values_of_the_type_pass_and_an_equal_number_becomes_one_of_the_type(
    place: str, value: Any, expected: str, tmp_path: Path
) -> None:
    outputs = outcome(PLACES[place][0], value, tmp_path)
    assert outputs == [expected if place != "keys of two streams" else repr(value)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", ["text", 1 << 31])
def test_a_value_that_does_not_fit_fails_the_job_and_names_operator_and_value(
    place: str, value: Any, tmp_path: Path
) -> None:
    build, operator = PLACES[place]
    with pytest.raises(EpochFailedError) as failed:
        outcome(build, value, tmp_path)
    (failure,) = failed.value.failures
    # The operator after it chooses the key.
    assert failure.operator == {"key": "KeyedProcess", "keys of two streams": "Co-Flat Map"}.get(place, operator)
    assert failure.non_recoverable  # it would be the same after a restart
    assert repr(value) in failure.error
    assert repr(operator) in failure.error
    assert "is declared as Integer" in failure.error


def typed(program: Program, value: Any) -> DataStream:
    return program.env.from_source(
        TypedSource([value], happened_in=str(program._place)), WatermarkStrategy.no_watermarks(), "typed"
    )


def given(program: Program, value: Any) -> DataStream:
    source = ListSource([value], happened_in=str(program._place))
    return program.env.from_source(source, WatermarkStrategy.no_watermarks(), "typed", INT)


@pytest.mark.parametrize("make", [typed, given])
def test_a_source_is_held_to_its_type(make: Any, tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.collect(make(program, np.int64(1)))
    assert [repr(record) for record in run(program, tmp_path)["out"]] == ["1"]
    program = Program(tmp_path)
    program.collect(make(program, "text"))
    with pytest.raises(EpochFailedError, match="'Source: typed' is declared as Integer, and 'text' is no int"):
        run(program, tmp_path / "second")


def test_a_collection_is_held_to_its_type_when_it_is_given(tmp_path: Path) -> None:
    program = Program(tmp_path)
    assert program.env.from_collection([1, np.int64(1), None], INT).get_type() == INT
    with pytest.raises(
        DeclaredTypeError, match=r"from_collection\(\) is declared as Integer, and 'text' is no integer"
    ):
        program.env.from_collection([1, "text"], INT)


def test_a_reduce_is_held_to_the_type_of_its_stream_also_where_it_meets_its_own_result(tmp_path: Path) -> None:
    seen: list[Any] = []
    kind = Types.ROW_NAMED(["n", "total"], [INT, Types.DOUBLE()])

    def total(before: Any, value: Any) -> Any:
        seen.append(before)
        return {"n": before.n + value.n, "total": before.total + value.total}

    program = Program(tmp_path)
    stream = program.source([(1, 2), (1, 3), (1, 4)]).map(itself, kind).key_by(one)
    program.collect(stream.reduce(total))
    assert [repr(row) for row in run(program, tmp_path)["out"]] == [
        "Row(n=1, total=2.0)",
        "Row(n=2, total=5.0)",
        "Row(n=3, total=9.0)",
    ]


@pytest.mark.parametrize("add", [lambda s: s.reduce(lambda a, b: a + b), lambda s: s.sum()])
def test_a_sum_beyond_the_range_of_its_type_is_an_error(add: Any, tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.collect(add(program.source([1 << 30, 1 << 30]).map(itself, INT).key_by(one)))
    with pytest.raises(EpochFailedError, match="and 2147483648 is not between"):
        run(program, tmp_path)


def test_a_window_reduce_is_held_to_the_type_of_its_stream_before_a_window_function_sees_it(tmp_path: Path) -> None:
    program = Program(tmp_path)
    stream = windows(program.source([1, 2]).map(itself, Types.DOUBLE()))
    program.collect(stream.reduce(lambda a, b: int(a + b), window_function=Windowed()))
    assert [repr(record) for record in run(program, tmp_path)["out"]] == ["3.0"]


def test_the_operator_of_an_error_is_called_as_the_program_calls_it(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.collect(program.source(["5"]).map(itself, INT).name("parse").uid("parser"))
    with pytest.raises(EpochFailedError, match="The output of 'parse' is declared as Integer") as failed:
        run(program, tmp_path)
    (failure,) = failed.value.failures
    assert (failure.operator, failure.uid, failure.record) == ("parse", "parser", "'5'")


def test_a_broadcast_map_has_one_type_wherever_it_is_asked_for() -> None:
    class Other(Rules):
        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            ctx.get_broadcast_state(MapStateDescriptor("rules", INT, Types.STRING())).put(1, "a")

    with (
        TwoInputHarness.for_broadcast_process(Other(), MapStateDescriptor("rules", INT, INT)) as harness,
        pytest.raises(StateDescriptorError, match="MapTypeInfo<Integer, String>"),
    ):
        harness.process_element2(1)

"""DataStream: types, checks at the call, settings of operators, and what each call adds to the job."""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.graph.graphs import environment, job_graph, operator

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import (
    CoMapFunction,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.base import Sink, SinkWriter, WriterInitContext
from penstock.errors import ConfigurationError, UnpicklableFunctionError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
ANY = Types.PICKLED_BYTE_ARRAY()


class Double(MapFunction):
    def map(self, value: Any) -> Any:
        return 2 * value


class Twice(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return [value, value]


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


class Positive(FilterFunction):
    def filter(self, value: Any) -> bool:
        return value > 0


class Pass(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value


class KeyedPass(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        yield value


class ListSink(Sink[Any]):
    def __init__(self, type_name: str = "") -> None:
        self.type_name = type_name

    def for_type(self, type_info: Any) -> ListSink:
        return ListSink(repr(type_info))

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        raise AssertionError


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return environment(1)


@pytest.fixture
def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1], Types.INT())


def members(env: StreamExecutionEnvironment, name: str) -> dict[str, Any]:
    return pickle.loads(operator(job_graph(env), name).payload)


# -------------------------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (lambda s: s.map(str), ANY),
        (lambda s: s.map(lambda n: ("a", n), output_type=PAIR), PAIR),
        (lambda s: s.flat_map(lambda n: [("a", n)], output_type=PAIR), PAIR),
        (lambda s: s.process(Pass(), output_type=PAIR), PAIR),
        (lambda s: s.process(Pass()), ANY),
        (lambda s: s.filter(bool), Types.INT()),
        (lambda s: s.rebalance(), Types.INT()),
        (lambda s: s.key_by(abs), Types.INT()),
        (lambda s: s.key_by(abs).reduce(max), Types.INT()),
        (lambda s: s.key_by(abs).sum(), Types.INT()),
        (lambda s: s.union(s), Types.INT()),
        (lambda s: s.union(s.map(str)), ANY),
        (lambda s: s.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()), Types.INT()),
        (lambda s: s.process(Pass()).get_side_output(OutputTag("x", PAIR)), PAIR),
        (
            lambda s: s.map(lambda n: ("a", n), output_type=PAIR).project(1, 0, 1),
            Types.TUPLE([Types.INT(), Types.STRING(), Types.INT()]),
        ),
    ],
)
def test_type_of_the_result(
    numbers: DataStream, transform: Callable[[DataStream], DataStream], expected: object
) -> None:
    assert transform(numbers).get_type() == expected


def test_a_stream_knows_its_environment(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    assert numbers.map(abs).get_execution_environment() is env
    assert numbers.get_execution_config().get_parallelism() == 1


# ------------------------------------------------------------------------------------------------------------- checks


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.map(5), "func must be a MapFunction or a callable, not 5"),
        (lambda s: s.map(Positive()), "func must be a MapFunction or a callable"),
        (lambda s: s.map(Double), r"did you mean Double\(\)\?"),
        (lambda s: s.map(abs, Types.INT), r"output_type must be a type .*; did you mean Types\.INT\(\)\?"),
        (lambda s: s.key_by(abs).map(abs, int), "output_type must be a type such as"),
        (lambda s: s.connect(s).map(Both(), "int"), "output_type must be a type such as"),
        (lambda s: s.map_batches(abs, "pandas"), "output_type must be a type .* not 'pandas'"),
        (lambda s: s.get_execution_environment().from_collection([1], Types.INT), r"type_info .*Types\.INT\(\)\?"),
        (lambda s: s.flat_map("text"), "func must be a FlatMapFunction"),
        (lambda s: s.filter(None), "func must be a FilterFunction"),
        (lambda s: s.process(abs), "func must be a ProcessFunction"),
        (lambda s: s.process(KeyedPass()), "func must be a ProcessFunction"),
        (lambda s: s.key_by(0), "key_selector must be a KeySelector"),
        (lambda s: s.partition_custom(0, abs), "partitioner must be a Partitioner"),
        (lambda s: s.partition_custom(max, 0), "key_selector must be a KeySelector"),
        (lambda s: s.sink_to(print), "sink must be a Sink.*; Sink.from_function"),
        (lambda s: s.union([s]), r"union\(\) takes streams"),
        (lambda s: s.get_side_output("tag"), "output_tag must be an OutputTag"),
        (lambda s: s.assign_timestamps_and_watermarks(None), "watermark_strategy must be a WatermarkStrategy"),
        (lambda s: s.project(0), "Only a stream declared as tuples"),
        (lambda s: s.map(lambda n: ("a", n), output_type=PAIR).project("a"), "are indexes, not 'a'"),
        (lambda s: s.key_by(abs).reduce(1), "func must be a ReduceFunction"),
        (lambda s: s.key_by(abs).process(Pass()), "func must be a KeyedProcessFunction"),
        (lambda s: s.key_by(abs).sum(1.5), "field of Sum must be an index or a name"),
    ],
)
def test_wrong_arguments_fail_at_the_call(
    numbers: DataStream, call: Callable[[DataStream], object], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        call(numbers)


@pytest.mark.parametrize("function", [str, abs, Double(), lambda value: value, str.upper, {1: 2}.get])
def test_every_callable_is_a_function(numbers: DataStream, function: Any) -> None:
    assert numbers.map(function).get_name() == "Map"


def test_what_cannot_be_pickled_fails_at_the_call(numbers: DataStream) -> None:
    lock = threading.Lock()
    for call in (
        lambda: numbers.map(lambda value: (lock, value)),
        lambda: numbers.key_by(lambda value: (lock, value)),
        lambda: numbers.partition_custom(lambda key, n: (lock, 0)[1], abs),
    ):
        with pytest.raises(UnpicklableFunctionError, match="closure variable 'lock'"):
            call()


def test_a_function_is_taken_as_it_is_at_the_call(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    factor = 2
    numbers.map(lambda value: value * factor).name("times")
    factor = 3
    assert members(env, "times")["function"](10) == 20


def test_streams_of_two_environments_cannot_be_united(numbers: DataStream) -> None:
    other = environment().from_collection([1])
    with pytest.raises(UnsupportedOperationError, match="another environment"):
        numbers.union(other)


@pytest.mark.parametrize(
    "stream_of",
    [
        lambda s: s.union(s),
        lambda s: s.rebalance(),
        lambda s: s.process(Pass()).get_side_output(OutputTag("x")),
    ],
)
def test_settings_need_an_operator(numbers: DataStream, stream_of: Callable[[DataStream], DataStream]) -> None:
    with pytest.raises(UnsupportedOperationError, match="no operator made"):
        stream_of(numbers).name("x")
    with pytest.raises(UnsupportedOperationError, match="no operator made"):
        stream_of(numbers).get_side_output(OutputTag("y"))


def test_a_side_output_has_one_type(numbers: DataStream) -> None:
    split = numbers.process(Pass())
    split.get_side_output(OutputTag("x", Types.INT()))
    with pytest.raises(UnsupportedOperationError, match=r"'x' of 'Process' at .* already asked for with .*Integer"):
        split.get_side_output(OutputTag("x", Types.STRING()))


def swapped() -> tuple[TypeInformation, TypeInformation]:
    """Return two types that are equal, of rows whose fields have each other's names."""
    one, other = (Types.ROW_NAMED(names, [Types.INT(), Types.INT()]) for names in (["x", "y"], ["y", "x"]))
    assert one == other
    return one, other


def test_a_side_output_has_the_names_of_one_type(numbers: DataStream) -> None:
    split = numbers.process(Pass())
    one, other = swapped()
    split.get_side_output(OutputTag("x", one))
    with pytest.raises(UnsupportedOperationError, match=r"already asked for with .*x: Integer, y: Integer"):
        split.get_side_output(OutputTag("x", other))


def test_a_union_of_rows_with_other_names_has_no_type(numbers: DataStream) -> None:
    one, other = swapped()
    xs, ys = (numbers.map(lambda n: (n, -n), kind) for kind in (one, other))
    assert xs.union(xs).get_type() is one
    assert xs.union(ys).get_type() == ANY


def test_what_needs_the_jvm_says_so(numbers: DataStream) -> None:
    with pytest.raises(UnsupportedOperationError, match="use sink_to"):
        numbers.add_sink(object())
    with pytest.raises(UnsupportedOperationError, match="uid"):
        numbers.set_uid_hash("abc")


# ----------------------------------------------------------------------------------------------------------- settings


def test_settings_return_the_stream_and_take_effect(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    stream = numbers.map(abs)
    returned = stream.name("n").uid("u").set_parallelism(3).set_max_parallelism(30).set_description("d")
    assert returned is stream.set_buffer_timeout(10)
    assert stream.get_name() == "n"
    vertex = job_graph(env).vertices[1]
    assert (vertex.operators[0].uid, vertex.parallelism, vertex.max_parallelism) == ("u", 3, 30)


def test_settings_of_a_sink(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    sink = numbers.print().name("out").uid("out uid").set_parallelism(2).disable_chaining().slot_sharing_group("g")
    assert sink.set_description("d") is sink
    vertex = job_graph(env).vertices[1]
    assert (vertex.operators[0].name, vertex.operators[0].uid, vertex.parallelism) == ("out", "out uid", 2)


@pytest.mark.parametrize("parallelism", [0, -1, 1.5])
def test_parallelism_is_a_positive_number(numbers: DataStream, parallelism: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot be '{parallelism}'"):
        numbers.map(abs).set_parallelism(parallelism)


@pytest.mark.parametrize("maximum", [0, 32769])
def test_max_parallelism_is_limited(numbers: DataStream, maximum: int) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot be '{maximum}'"):
        numbers.map(abs).set_max_parallelism(maximum)


def test_force_non_parallel(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    stream = numbers.rebalance().map(abs).set_parallelism(4).force_non_parallel()
    assert job_graph(env).vertices[1].parallelism == 1
    with pytest.raises(UnsupportedOperationError, match="always has one subtask"):
        stream.set_parallelism(4)


# -------------------------------------------------------------------------------------------------------------- sinks


def test_print_keeps_its_identifier_and_the_type(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    numbers.print("id").name("out")
    assert members(env, "out") == {"type_info": Types.INT(), "as_text": True, "prefix": "id"}


def test_print_of_a_keyed_stream_keeps_its_identifier(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    numbers.map(str).key_by(str).print("id").name("out")
    assert members(env, "out") == {"type_info": None, "as_text": True, "prefix": "id"}


def test_a_sink_is_told_the_type(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    numbers.sink_to(ListSink()).name("typed")
    numbers.map(str).sink_to(ListSink()).name("untyped")
    assert members(env, "typed")["sink"].type_name == "Integer"
    assert members(env, "untyped")["sink"].type_name == "None"


def test_projection_picks_fields(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    numbers.map(lambda n: ("a", n), output_type=PAIR).project(1, 0)
    assert members(env, "Projection")["function"](("a", 1)) == (1, "a")


def test_a_projection_takes_fields_that_the_tuples_have(env: StreamExecutionEnvironment) -> None:
    pairs = env.from_collection([], PAIR)
    for field in (2, -1):
        with pytest.raises(IndexError, match=f"of the field {field}: the tuples have 2 fields, counted from 0"):
            pairs.project(0, field)
    with pytest.raises(ValueError, match="one field or more"):
        pairs.project()

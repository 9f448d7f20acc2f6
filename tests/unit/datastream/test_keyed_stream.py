"""KeyedStream: keyed functions, aggregations, and what it refuses."""

from __future__ import annotations

import pickle
from collections import namedtuple
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.graph.graphs import environment, job_graph, operator

from penstock._builders.aggregations import Max, MaxBy, Min, MinBy, Sum
from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.operators.factories.functions import FilterFactory, FlatMapFactory, MapFactory
from penstock._engine.operators.factories.keyed import KeyedProcessFactory, ReduceFactory
from penstock.common import Row, RowKind, Types
from penstock.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeyedStream,
    MapFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.operators.operator_factory import OperatorFactory

Reading = namedtuple("Reading", "name value")


class Recording:
    """Notes what is called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls.append("open")

    def close(self) -> None:
        self.calls.append("close")


class Double(Recording, MapFunction):
    def map(self, value: Any) -> Any:
        return 2 * value


class Both(Recording, FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return None if value == 0 else [value, value]


class Positive(Recording, FilterFunction):
    def filter(self, value: Any) -> bool:
        return value > 0


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return environment(1)


@pytest.fixture
def keyed(env: StreamExecutionEnvironment) -> KeyedStream:
    return env.from_collection([1]).key_by(abs)


def members(env: StreamExecutionEnvironment, name: str) -> dict[str, Any]:
    return pickle.loads(operator(job_graph(env), name).payload)


# ---------------------------------------------------------------------------------------------------- keyed functions


@pytest.mark.parametrize(
    ("build", "value", "expected"),
    [
        (lambda keyed: keyed.map(Double()), 3, [6]),
        (lambda keyed: keyed.map(Double()), None, TypeError),
        (lambda keyed: keyed.flat_map(Both()), 3, [3, 3]),
        (lambda keyed: keyed.flat_map(Both()), 0, []),
        (lambda keyed: keyed.filter(Positive()), 3, [3]),
        (lambda keyed: keyed.filter(Positive()), -3, []),
    ],
)
def test_a_function_object_runs_with_keyed_state(
    env: StreamExecutionEnvironment, keyed: KeyedStream, build: Callable[[KeyedStream], Any], value: Any, expected: Any
) -> None:
    build(keyed).name("keyed")
    node = operator(job_graph(env), "keyed")
    assert node.factory is KeyedProcessFactory
    function: KeyedProcessFunction = pickle.loads(node.payload)["function"]
    context: Any = None
    if isinstance(expected, type):
        with pytest.raises(expected):
            function.process_element(value, context)
    else:
        assert list(function.process_element(value, context) or ()) == expected


def test_open_and_close_reach_the_function() -> None:
    from penstock._builders.keyed_functions import KeyedMap

    inner, context = Double(), None
    adapter = KeyedMap(inner)
    adapter.open(context)  # type: ignore[arg-type] - handed on unread
    adapter.close()
    assert inner.calls == ["open", "close"]


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (lambda keyed: keyed.map(abs), MapFactory),
        (lambda keyed: keyed.flat_map(lambda value: [value]), FlatMapFactory),
        (lambda keyed: keyed.filter(bool), FilterFactory),
    ],
)
def test_a_lambda_runs_plainly_behind_the_exchange_by_key(
    env: StreamExecutionEnvironment,
    keyed: KeyedStream,
    build: Callable[[KeyedStream], Any],
    kind: type[OperatorFactory],
) -> None:
    build(keyed)
    graph = job_graph(env)
    assert graph.vertices[1].operators[0].factory is kind
    assert graph.edges[0].partitioner is PartitionerKind.HASH


def test_key_by_of_a_keyed_stream_replaces_the_key(env: StreamExecutionEnvironment, keyed: KeyedStream) -> None:
    keyed.key_by(lambda value: ("other", value)).reduce(max).name("end")
    graph = job_graph(env)
    assert [pickle.loads(edge.payload)["key_selector"](1) for edge in graph.edges] == [("other", 1)]
    assert members(env, "end")["key_selector"](1) == ("other", 1)


def test_other_operators_work_on_the_values(env: StreamExecutionEnvironment, keyed: KeyedStream) -> None:
    keyed.union(keyed).map(abs)
    assert [edge.partitioner for edge in job_graph(env).edges] == [PartitionerKind.HASH, PartitionerKind.HASH]


# ----------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "call",
    [
        lambda keyed: keyed.shuffle(),
        lambda keyed: keyed.rebalance(),
        lambda keyed: keyed.rescale(),
        lambda keyed: keyed.forward(),
        lambda keyed: keyed.broadcast(),
        lambda keyed: keyed.partition_custom(lambda key, n: 0, abs),
    ],
)
def test_partitioning_cannot_be_overridden(keyed: KeyedStream, call: Callable[[KeyedStream], Any]) -> None:
    with pytest.raises(UnsupportedOperationError, match=r"Cannot override partitioning for KeyedStream\."):
        call(keyed)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda keyed: keyed.name("x"), "Set name"),
        (lambda keyed: keyed.get_name(), "Get name"),
        (lambda keyed: keyed.uid("x"), "Set uid"),
        (lambda keyed: keyed.set_parallelism(1), "Set parallelism"),
        (lambda keyed: keyed.set_max_parallelism(1), "Set max parallelism"),
        (lambda keyed: keyed.force_non_parallel(), "Set force non-parallel"),
        (lambda keyed: keyed.set_buffer_timeout(1), "Set buffer timeout"),
        (lambda keyed: keyed.start_new_chain(), "Start new chain"),
        (lambda keyed: keyed.disable_chaining(), "Disable chaining"),
        (lambda keyed: keyed.slot_sharing_group("x"), "Setting slot sharing group"),
        (lambda keyed: keyed.set_description("x"), "Set description"),
        (lambda keyed: keyed.get_side_output(OutputTag("x")), "Get side output"),
    ],
)
def test_a_keyed_stream_has_no_operator_of_its_own(
    keyed: KeyedStream, call: Callable[[KeyedStream], Any], text: str
) -> None:
    with pytest.raises(UnsupportedOperationError, match=f"^{text} for KeyedStream is not supported"):
        call(keyed)


# -------------------------------------------------------------------------------------------------------- aggregation


@pytest.mark.parametrize(
    ("aggregate", "position", "values", "expected"),
    [
        (Sum, 1, [("a", 1, "x"), ("a", 2, "y")], ("a", 3, "x")),
        (Sum, 0, [1, 2.5], 3.5),
        (Sum, 1, [["a", 1], ["b", 2]], ["a", 3]),
        (Sum, "n", [Row(k="a", n=1), Row(k="b", n=2)], Row(k="a", n=3)),
        (Sum, 1, [Row("a", 1), Row("b", 2)], Row("a", 3)),
        (Sum, -1, [("a", 1), ("b", 2)], ("a", 3)),
        (Min, 1, [("a", 5, "x"), ("a", 2, "y"), ("a", 3, "z")], ("a", 2, "x")),
        (Max, 1, [("a", 5, "x"), ("a", 7, "y"), ("a", 3, "z")], ("a", 7, "x")),
        (Max, 0, ["b", "a"], "b"),
        (MinBy, 1, [("a", 5, "x"), ("a", 2, "y"), ("a", 2, "z")], ("a", 2, "y")),
        (MaxBy, 1, [("a", 5, "x"), ("a", 7, "y"), ("a", 7, "z")], ("a", 7, "y")),
        (MaxBy, "n", [Row(k="a", n=1), Row(k="b", n=2)], Row(k="b", n=2)),
    ],
)
def test_aggregations(aggregate: Any, position: int | str, values: list[Any], expected: Any) -> None:
    result = values[0]
    before = pickle.dumps(values)
    for value in values[1:]:
        result = aggregate(position).reduce(result, value)
    assert result == expected
    assert type(result) is type(expected)
    assert pickle.dumps(values) == before


@pytest.mark.parametrize("call", ["sum", "min", "max", "min_by", "max_by"])
@pytest.mark.parametrize(
    ("declared", "there", "missing"),
    [
        (Types.TUPLE([Types.STRING(), Types.INT()]), [1, -2], [2, -3, "f1"]),
        (Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.INT()]), [1, "n"], [2, "m"]),
        (Types.INT(), [0], [1, -1, "n"]),
    ],
)
def test_a_field_that_the_declared_type_lacks_is_refused_at_the_call(
    env: StreamExecutionEnvironment, call: str, declared: Any, there: list[Any], missing: list[Any]
) -> None:
    """Else a key with one record goes through as it is, and the job runs for a while."""
    keyed = env.from_collection([], declared).key_by(lambda record: 1)
    for field in there:
        getattr(keyed, call)(field)
    for field in missing:
        with pytest.raises(UnsupportedOperationError, match="which has no such field"):
            getattr(keyed, call)(field)


def test_a_named_tuple_stays_one() -> None:
    assert repr(Sum(1).reduce(Reading("a", 1), Reading("b", 2))) == "Reading(name='a', value=3)"


def test_a_row_keeps_its_kind() -> None:
    first = Row(k="a", n=1)
    first.set_row_kind(RowKind.DELETE)
    assert Sum("n").reduce(first, Row(k="b", n=2)).get_row_kind() is RowKind.DELETE


@pytest.mark.parametrize(("position", "value"), [(1, 5), ("n", 5), ("n", (1, 2))])
def test_a_record_without_the_field_is_named(position: int | str, value: Any) -> None:
    with pytest.raises(TypeError, match="no such field"):
        Sum(position).reduce(value, value)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda keyed: keyed.sum(0), "Sum"),
        (lambda keyed: keyed.min(0), "Min"),
        (lambda keyed: keyed.max(), "Max"),
        (lambda keyed: keyed.min_by(0), "MinBy"),
        (lambda keyed: keyed.max_by(), "MaxBy"),
        (lambda keyed: keyed.reduce(max), "Reduce"),
    ],
)
def test_aggregations_are_reduce_operators(
    env: StreamExecutionEnvironment, keyed: KeyedStream, build: Callable[[KeyedStream], Any], name: str
) -> None:
    build(keyed)
    node = operator(job_graph(env), name)
    assert node.factory is ReduceFactory
    assert sorted(pickle.loads(node.payload)) == ["function", "key_selector"]


def test_the_result_of_a_reduce_is_held_to_its_type_before_it_is_kept(env: StreamExecutionEnvironment) -> None:
    pair = Types.TUPLE([Types.INT(), Types.INT()])
    keyed = env.from_collection([(1, 2)], pair).key_by(lambda value: value[0])
    keyed.reduce(lambda a, b: [a[0], b[1]]).print()
    keyed.sum(1).print()
    vertices = job_graph(env).vertices
    assert [[node.name for node in vertex.operators] for vertex in vertices[1:]] == [
        ["Reduce", "Print to Std. Out"],
        ["Sum", "Print to Std. Out"],
    ]
    functions = [pickle.loads(vertex.operators[0].payload)["function"] for vertex in vertices[1:]]
    assert [type(function).__name__ for function in functions] == ["HeldReduce", "HeldReduce"]

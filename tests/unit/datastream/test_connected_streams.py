"""ConnectedStreams: what it adds to the job, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.graph.graphs import environment, job_graph, operator

from penstock._engine.graph.explain import explain
from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.operators.factories.functions import CoFlatMapFactory, CoMapFactory, CoProcessFactory
from penstock._engine.operators.factories.keyed import KeyedCoProcessFactory
from penstock.common import Types
from penstock.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedCoProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._engine.operators.operator_factory import OperatorFactory


class Map(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


class FlatMap(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return ()

    def flat_map2(self, value: Any) -> Any:
        return ()


class Process(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return ()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return ()


class KeyedProcess(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return ()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return ()


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return environment(1)


@pytest.fixture
def left(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1])


@pytest.fixture
def right(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection(["a"])


def test_the_operator_is_the_head_of_its_chain_and_knows_its_inputs(
    env: StreamExecutionEnvironment, left: DataStream, right: DataStream
) -> None:
    left.connect(right).map(Map()).map(str).print()
    graph = job_graph(env)
    assert [[node.name for node in vertex.operators] for vertex in graph.vertices][2][0] == "Co-Map"
    assert [(edge.source, edge.input_index, edge.partitioner) for edge in graph.inputs(2)] == [
        (0, 0, PartitionerKind.FORWARD),
        (1, 1, PartitionerKind.FORWARD),
    ]
    assert "<- input 2, forward from vertex 1" in explain(graph)


@pytest.mark.parametrize(
    ("method", "function", "kind"),
    [
        ("map", Map(), CoMapFactory),
        ("flat_map", FlatMap(), CoFlatMapFactory),
        ("process", Process(), CoProcessFactory),
    ],
)
def test_keys_on_both_sides_give_keyed_state(
    left: DataStream, right: DataStream, method: str, function: Any, kind: type[OperatorFactory]
) -> None:
    connected = left.connect(right)
    getattr(connected, method)(function).name("plain").print()
    getattr(connected.key_by(abs, len), method)(function).name("keyed").print()
    getattr(left.key_by(abs).connect(right), method)(function).name("half keyed").print()
    graph = job_graph(left.get_execution_environment())
    kinds = [operator(graph, name).factory for name in ("plain", "keyed", "half keyed")]
    assert kinds == [kind, KeyedCoProcessFactory, kind]


def test_keys_are_exchanged_on_both_inputs(
    env: StreamExecutionEnvironment, left: DataStream, right: DataStream
) -> None:
    left.key_by(abs).connect(right.key_by(len)).process(KeyedProcess()).print()
    assert [edge.partitioner for edge in job_graph(env).inputs(2)] == [PartitionerKind.HASH] * 2


def test_key_by_takes_the_place_of_earlier_keys(
    env: StreamExecutionEnvironment, left: DataStream, right: DataStream
) -> None:
    left.key_by(abs).connect(right).key_by(str, len).process(KeyedProcess()).print()
    assert [edge.partitioner for edge in job_graph(env).inputs(2)] == [PartitionerKind.HASH] * 2


def test_the_output_has_the_declared_type(left: DataStream, right: DataStream) -> None:
    connected = left.connect(right)
    assert connected.map(Map(), Types.LONG()).get_type() == Types.LONG()
    assert connected.flat_map(FlatMap()).get_type() == Types.PICKLED_BYTE_ARRAY()


@pytest.mark.parametrize("method", ["map", "flat_map", "process"])
def test_a_function_of_another_kind_is_refused_at_the_call(left: DataStream, right: DataStream, method: str) -> None:
    with pytest.raises(TypeError, match="func must be a Co"):
        getattr(left.connect(right), method)(abs)


def test_a_keyed_function_needs_keys_on_both_sides(left: DataStream, right: DataStream) -> None:
    with pytest.raises(TypeError, match=r"KeyedProcess needs a key on both streams: call key_by"):
        left.key_by(abs).connect(right).process(KeyedProcess())


def test_only_streams_of_this_environment_can_be_connected(left: DataStream) -> None:
    with pytest.raises(TypeError, match=r"connect\(\) takes streams, not \[1\]"):
        left.connect([1])  # type: ignore[arg-type]
    with pytest.raises(UnsupportedOperationError, match="another environment"):
        left.connect(environment(1).from_collection([1]))

"""Broadcast streams: what they add to the job, and what they refuse."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from tests.unit.graph.graphs import environment, job_graph, operator

from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.operators.factories.functions import BroadcastProcessFactory
from penstock._engine.operators.factories.keyed import KeyedBroadcastProcessFactory
from penstock.common import Types
from penstock.datastream import (
    BroadcastProcessFunction,
    BroadcastStream,
    DataStream,
    KeyedBroadcastProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.errors import UnsupportedOperationError

RULES, LIMITS = MapStateDescriptor("rules"), MapStateDescriptor("limits", Types.STRING(), Types.LONG())


class Plain(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return ()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return ()


class Keyed(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return ()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return ()


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return environment(2)


@pytest.fixture
def stream(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1])


@pytest.fixture
def rules(env: StreamExecutionEnvironment) -> BroadcastStream:
    return env.from_collection(["a"]).broadcast(RULES, LIMITS)


def test_the_second_input_is_broadcast_and_the_first_stays_as_it_is(
    env: StreamExecutionEnvironment, stream: DataStream, rules: BroadcastStream
) -> None:
    stream.connect(rules).process(Plain()).name("plain").print()
    graph = job_graph(env)
    node = operator(graph, "plain")
    assert node.factory is BroadcastProcessFactory
    assert [one.get_name() for one in pickle.loads(node.payload)["descriptors"]] == ["rules", "limits"]
    assert [(edge.input_index, edge.partitioner) for edge in graph.inputs(2)] == [
        (0, PartitionerKind.REBALANCE),
        (1, PartitionerKind.BROADCAST),
    ]


def test_a_keyed_stream_brings_its_keys(
    env: StreamExecutionEnvironment, stream: DataStream, rules: BroadcastStream
) -> None:
    stream.key_by(abs).connect(rules).process(Keyed()).name("keyed").print()
    graph = job_graph(env)
    assert operator(graph, "keyed").factory is KeyedBroadcastProcessFactory
    assert [edge.partitioner for edge in graph.inputs(2)] == [PartitionerKind.HASH, PartitionerKind.BROADCAST]


def test_the_function_has_to_fit_the_stream(stream: DataStream, rules: BroadcastStream) -> None:
    with pytest.raises(TypeError, match="func must be a KeyedBroadcastProcessFunction"):
        stream.key_by(abs).connect(rules).process(Plain())
    with pytest.raises(TypeError, match="func must be a BroadcastProcessFunction"):
        stream.connect(rules).process(Keyed())


def test_the_output_has_the_declared_type(stream: DataStream, rules: BroadcastStream) -> None:
    assert stream.connect(rules).process(Plain(), Types.STRING()).get_type() == Types.STRING()


def test_without_a_map_it_is_a_stream_of_records(stream: DataStream) -> None:
    assert isinstance(stream.broadcast(), DataStream)


def test_maps_are_described_by_map_descriptors_of_different_names(stream: DataStream) -> None:
    with pytest.raises(TypeError, match=r"broadcast\(\) takes MapStateDescriptors, not ValueStateDescriptor"):
        stream.broadcast(ValueStateDescriptor("rules"))  # type: ignore[call-overload]
    with pytest.raises(UnsupportedOperationError, match="two descriptors named 'rules'"):
        stream.broadcast(RULES, LIMITS, MapStateDescriptor("rules"))


def test_a_keyed_stream_cannot_be_broadcast(stream: DataStream) -> None:
    with pytest.raises(UnsupportedOperationError, match="Cannot override partitioning"):
        stream.key_by(abs).broadcast(RULES)


def test_only_a_broadcast_stream_of_this_environment_can_be_connected(stream: DataStream) -> None:
    other = environment(1).from_collection([1]).broadcast(RULES)
    with pytest.raises(UnsupportedOperationError, match="another environment"):
        stream.connect(other)

"""Programs and their job graphs for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.graph.chaining import build_job_graph
from penstock.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import JobGraph, OperatorNode


def environment(parallelism: int = 2) -> StreamExecutionEnvironment:
    """An environment with nothing in it."""
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


def job_graph(env: StreamExecutionEnvironment) -> JobGraph:
    """What the environment would submit."""
    return build_job_graph(env._stream_graph(None))


def chains(graph: JobGraph) -> list[list[str]]:
    """The names of the operators of each vertex."""
    return [[operator.name for operator in vertex.operators] for vertex in graph.vertices]


def operator(graph: JobGraph, name: str) -> OperatorNode:
    """The only operator of a name."""
    [found] = [node for vertex in graph.vertices for node in vertex.operators if node.name == name]
    return found


def uids(graph: JobGraph) -> dict[str, str]:
    """The uid of each operator by its name."""
    return {node.name: node.uid for vertex in graph.vertices for node in vertex.operators}

"""A job graph as text: for people (`explain`) and as Flink's JSON plan (`plan_json`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock._engine.graph.job_graph import JobEdge, JobGraph, JobType, JobVertex, OperatorNode
from penstock._engine.operators.operator_factory import OperatorRole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SINKS = (OperatorRole.SINK_WRITER, OperatorRole.COMMITTABLES, OperatorRole.COLLECT)


def explain(graph: JobGraph) -> str:
    """Return a job graph as indented text: levels, their vertices, the operators of each, and the edges between."""
    levels = graph.levels()
    sizes = _count(len(graph.vertices), "vertex", "vertices"), _count(len(graph.edges), "edge", "edges")
    mode = ", in batch mode" if graph.job_type is JobType.BATCH else ""
    lines = [f"Job {graph.name!r}{mode}: {', '.join(sizes)}"]
    for level in sorted(set(levels)):
        lines.append(f"Level {level}")
        for vertex in graph.vertices:
            if levels[vertex.id] == level:
                lines.extend(_explain_vertex(graph, vertex))
    return "\n".join(lines)


def _explain_vertex(graph: JobGraph, vertex: JobVertex) -> Iterable[str]:
    yield f"  Vertex {vertex.id}, parallelism {vertex.parallelism} (at most {vertex.max_parallelism})"
    edges = graph.inputs(vertex.id)
    several = any(edge.input_index for edge in edges)
    for edge in edges:
        which = f"input {edge.input_index + 1}, " if several else ""
        yield f"    <- {which}{edge.partitioner.value} from vertex {edge.source}: {_origin(graph, edge)}"
    depths: list[int] = []
    for operator in vertex.operators:
        depth = 0 if operator.parent is None else depths[operator.parent] + (not operator.is_part)
        depths.append(depth)
        if operator.is_part:
            continue
        side = "" if operator.input_tag is None else f" of side output {operator.input_tag!r}"
        uid = f"uid {operator.uid}" + ("" if operator.explicit_uid else ", generated")
        place = f", {operator.created_at}" if operator.created_at else ""
        yield f"    {'  ' * depth}{operator.name}{side} ({operator.factory.kind}, {uid}{place})"


def _origin(graph: JobGraph, edge: JobEdge) -> str:
    name = graph.vertices[edge.source].operators[edge.source_operator].name
    return name if edge.output_tag is None else f"{name}, side output {edge.output_tag!r}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def plan_json(graph: JobGraph, descriptions: Mapping[str, str]) -> str:
    """Return a job graph as Flink's JSON execution plan, in which each node also has its uid and vertex.

    Args:
        graph: The job graph.
        descriptions: By uid: the user's description of an operator.
    """
    ids = {
        (vertex.id, position): number
        for number, (vertex, position) in enumerate(
            ((vertex, position) for vertex in graph.vertices for position, _ in _shown(vertex)), 1
        )
    }

    def id_of(vertex: JobVertex, position: int) -> int:
        return ids[vertex.id, vertex.shown_at(position)]

    nodes: list[dict[str, object]] = []
    for vertex in graph.vertices:
        for position, operator in _shown(vertex):
            node: dict[str, object] = {
                "id": ids[vertex.id, position],
                "type": operator.name,
                "pact": _pact(operator),
                "contents": descriptions.get(operator.uid, operator.name),
                "parallelism": vertex.parallelism,
                "uid": operator.uid,
                "vertex": vertex.id,
            }
            if operator.parent is not None:
                node["predecessors"] = [{"id": id_of(vertex, operator.parent), "ship_strategy": "FORWARD"}]
            elif inputs := graph.inputs(vertex.id):
                node["predecessors"] = [
                    {
                        "id": id_of(graph.vertices[edge.source], edge.source_operator),
                        "ship_strategy": edge.partitioner.name,
                    }
                    for edge in inputs
                ]
            nodes.append(node)
    return json.dumps({"nodes": nodes}, indent=2)


def _shown(vertex: JobVertex) -> Iterable[tuple[int, OperatorNode]]:
    return ((position, node) for position, node in enumerate(vertex.operators) if not node.is_part)


def _pact(operator: OperatorNode) -> str:
    if operator.factory.role in {OperatorRole.SOURCE, OperatorRole.COMMITTED}:
        return "Data Source"
    return "Data Sink" if operator.factory.role in _SINKS else "Operator"

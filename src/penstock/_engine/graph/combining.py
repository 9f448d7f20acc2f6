"""Inserts combining operators before the shuffles of a batch job; see `operators.combine`.

A reduce of a keyed stream or a window operator then gets one partial result, with its key, for many records of a
sender.
"""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from penstock._engine.graph.job_graph import OperatorNode, PartitionerKind
from penstock._engine.graph.pickling import dumps_members

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import JobEdge, JobGraph, JobVertex
    from penstock._engine.operators.operator_factory import OperatorFactory

#: A partial result is a pair of its key and its value.
_KEY: Final = itemgetter(0)


def with_combiners(graph: JobGraph) -> JobGraph:
    """Return the graph of a batch job with a combining operator before each shuffle whose receiver allows it."""
    vertices, edges = list(graph.vertices), list(graph.edges)
    for vertex in graph.vertices:
        head = vertex.operators[0]
        inputs, combined = graph.inputs(vertex.id), head.factory.combined() if head.combinable else None
        if combined is None or any(edge.partitioner is not PartitionerKind.HASH for edge in inputs):
            continue
        combining, receiving = combined
        vertices[vertex.id] = _with_head(vertices[vertex.id], replace(head, factory=receiving))
        for edge in inputs:
            vertices[edge.source], edges[edge.id] = _combined(vertices[edge.source], edge, head, combining)
    return replace(graph, vertices=tuple(vertices), edges=tuple(edges))


def _with_head(vertex: JobVertex, head: OperatorNode) -> JobVertex:
    return replace(vertex, operators=(head, *vertex.operators[1:]))


def _combined(
    sender: JobVertex, edge: JobEdge, head: OperatorNode, combining: type[OperatorFactory]
) -> tuple[JobVertex, JobEdge]:
    """Return the sender with the combining operator, and the edge that begins at it."""
    combine = OperatorNode(
        uid=f"{head.uid}-combine-{edge.id}",
        name=f"{head.name} (combining)",
        factory=combining,
        payload=head.payload,
        parent=edge.source_operator,
        input_tag=edge.output_tag,
        created_at=head.created_at,
    )
    grown = replace(sender, operators=(*sender.operators, combine))
    place, payload = len(sender.operators), dumps_members(head.name, {"key_selector": _KEY})
    return grown, replace(edge, source_operator=place, output_tag=None, payload=payload)

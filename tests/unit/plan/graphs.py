"""Job graphs by hand, for tests of the plan: only shapes count, operators are empty."""

from __future__ import annotations

from penstock._engine.graph.job_graph import JobEdge, JobGraph, JobVertex, OperatorNode, PartitionerKind
from penstock._engine.operators.factories.functions import MapFactory
from penstock._engine.operators.factories.sources_and_sinks import SourceFactory

HASH, FORWARD, RESCALE = PartitionerKind.HASH, PartitionerKind.FORWARD, PartitionerKind.RESCALE


def graph(parallelisms: list[int], edges: list[tuple[int, int] | tuple[int, int, PartitionerKind]]) -> JobGraph:
    """Return a graph of vertices with these parallelisms, joined by (source, target) or (source, target, kind)."""
    fed = {edge[1] for edge in edges}
    vertices = tuple(
        JobVertex(
            number,
            f"v{number}",
            (OperatorNode(f"op-{number}", f"v{number}", MapFactory if number in fed else SourceFactory, b""),),
            parallelism,
            128,
        )
        for number, parallelism in enumerate(parallelisms)
    )
    return JobGraph(
        "test",
        vertices,
        tuple(
            JobEdge(number, edge[0], 0, None, edge[1], 0, edge[2] if len(edge) > 2 else HASH)
            for number, edge in enumerate(edges)
        ),
    )

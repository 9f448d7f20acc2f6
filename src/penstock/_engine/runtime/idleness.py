"""Finds how long an epoch waits for a source without records: the longest idleness downstream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.graph.job_graph import JobType
from penstock._engine.operators.factories.functions import WatermarksFactory

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import JobGraph


def longest_idleness(graph: JobGraph, vertex: int) -> int:
    """Return the longest `with_idleness` in a vertex and downstream of it, in milliseconds; 0 without any.

    Args:
        graph: The job.
        vertex: The vertex; the idleness of its head itself does not count.
    """
    reached, waiting, longest = {vertex}, [vertex], 0
    if graph.job_type is JobType.BATCH:  # no watermark before the end waits for an idle source
        return 0
    while waiting:
        sender = waiting.pop()
        for node in graph.vertices[sender].operators:
            if issubclass(node.factory, WatermarksFactory):
                factory = node.make_factory()
                assert isinstance(factory, WatermarksFactory)
                longest = max(longest, factory.watermark_strategy.idleness_ms or 0)
        found = {edge.target for edge in graph.edges if edge.source == sender} - reached
        reached |= found
        waiting += found
    return longest

"""Keeps the number of key groups of keyed state when a job starts from a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import MaxParallelismError, ParallelismLimitError

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import JobGraph, JobVertex
    from penstock._engine.protocol.metadata import JobSnapshot


def take_over_max_parallelism(stored: JobSnapshot, graph: JobGraph, path: str) -> JobGraph:
    """Return the job graph with the max parallelism of its state, wherever the program has not set one.

    Args:
        stored: The state of the checkpoint.
        graph: The job.
        path: The checkpoint, for messages.

    Raises:
        MaxParallelismError: The program has set another max parallelism than keyed state was written with.
        ParallelismLimitError: The job wants more subtasks than its keyed state has key groups.
    """
    return replace(graph, vertices=tuple(_settled(vertex, stored, path) for vertex in graph.vertices))


def _settled(vertex: JobVertex, stored: JobSnapshot, path: str) -> JobVertex:
    for node in vertex.operators:
        found = stored.operators.get(node.uid)
        if found is None or found.max_parallelism == vertex.max_parallelism:
            continue
        keyed = any(subtask.lineage for subtask in found.subtasks)
        if vertex.max_parallelism_is_set:
            if keyed:
                raise MaxParallelismError(path, node.name, node.uid, found.max_parallelism, vertex.max_parallelism)
        elif vertex.parallelism > found.max_parallelism:
            if keyed:
                raise ParallelismLimitError(path, node.name, node.uid, vertex.parallelism, found.max_parallelism)
        else:
            return replace(vertex, max_parallelism=found.max_parallelism)
    return vertex

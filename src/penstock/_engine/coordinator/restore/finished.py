"""Checks a job that starts from a checkpoint in which operators have finished (FLIP-147).

The rules are Flink's (VertexFinishedStateChecker): a finished operator gets no records again, so no operator before it
may still send any.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from penstock._engine.graph.job_graph import PartitionerKind
from penstock.errors import FinishedOperatorError, MixedChainError

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import JobEdge, JobGraph, JobVertex
    from penstock._engine.protocol.metadata import JobSnapshot, OperatorMetadata

_POINTWISE: Final = frozenset({PartitionerKind.FORWARD, PartitionerKind.RESCALE})


class Extent(StrEnum):
    """How much of an operator, or of a vertex, has finished."""

    RUNNING = "running"
    PARTLY = "partly finished"
    FINISHED = "finished"


def extents(stored: JobSnapshot, graph: JobGraph, path: str) -> list[Extent]:
    """Return how much of each vertex of a job has finished.

    Args:
        stored: The state of the checkpoint.
        graph: The job.
        path: The checkpoint, for messages.

    Raises:
        MixedChainError: Operators of one vertex have finished to different extents.
        FinishedOperatorError: An operator before a finished one may still send records.
    """
    found = [_of_vertex(vertex, stored, path) for vertex in graph.vertices]
    for edge in graph.edges:
        reason = _objection(edge, found[edge.source], found[edge.target])
        if reason is not None:
            before = graph.vertices[edge.source].operators[edge.source_operator]
            behind = graph.vertices[edge.target].operators[0]
            extent = str(found[edge.target])
            raise FinishedOperatorError(path, (behind.name, behind.uid), extent, (before.name, before.uid), reason)
    for fed, senders in graph.feeds.items():
        sender = next((sender for sender in senders if found[sender] is not Extent.FINISHED), None)
        if sender is not None and found[fed] is not Extent.RUNNING:
            before, behind = graph.vertices[sender].operators[-1], graph.vertices[fed].operators[0]
            reason = "what it commits would not be passed on, so all of it has to have finished, too"
            raise FinishedOperatorError(
                path, (behind.name, behind.uid), str(found[fed]), (before.name, before.uid), reason
            )
    return found


def _of_vertex(vertex: JobVertex, stored: JobSnapshot, path: str) -> Extent:
    by_uid = {operator.uid: _of_operator(stored.operators.get(operator.uid)) for operator in vertex.operators}
    if len(set(by_uid.values())) > 1:
        states = tuple((uid, str(extent)) for uid, extent in by_uid.items())
        raise MixedChainError(path, vertex.name, states)
    return by_uid[vertex.operators[0].uid]


def _of_operator(operator: OperatorMetadata | None) -> Extent:
    if operator is None or not any(subtask.finished for subtask in operator.subtasks):
        return Extent.RUNNING
    return Extent.FINISHED if operator.finished else Extent.PARTLY


def _objection(edge: JobEdge, before: Extent, behind: Extent) -> str | None:
    """Say why an edge is not allowed; return None if it is."""
    if behind is Extent.FINISHED and before is not Extent.FINISHED:
        return "all of it has to have finished, too"
    if behind is Extent.PARTLY and before is not Extent.FINISHED:
        if edge.partitioner not in _POINTWISE:
            return "it sends to all subtasks, so all of it has to have finished, too"
        if before is Extent.RUNNING:
            return "subtasks of it have to have finished, too"
    return None

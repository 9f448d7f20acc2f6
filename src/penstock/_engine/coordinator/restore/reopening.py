"""Lets finished sources read new input (``penstock.restart-finished-sources``).

No operator before a finished one may run, so everything downstream of such a source runs again. As long as the option
names the source, its downstream operators keep their state when they finish, so that aggregates continue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock._engine.coordinator.checkpoints.subtask_state import splits_of
from penstock._engine.protocol.metadata import OperatorSubtaskState, VertexSubtaskState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.protocol.metadata import JobSnapshot, OperatorMetadata, ReturnedSplits, SourceCoordinatorState


@dataclass(frozen=True, slots=True)
class ReopenedSources:
    """A checkpoint's state in which finished sources continue."""

    snapshot: JobSnapshot
    #: The uids of these sources, and below of the sources that were named but had not finished.
    sources: tuple[str, ...]
    unfinished: tuple[str, ...]


def at_and_behind(graph: JobGraph, sources: Iterable[str]) -> frozenset[str]:
    """Return the uids of these sources, of all operators downstream, and of the operators chained to them.

    What a sink has committed goes downstream, too, to the operators behind its committer.
    """
    wanted = set(sources)
    reached = {vertex.id for vertex in graph.vertices if wanted & {operator.uid for operator in vertex.operators}}
    waiting = list(reached)
    while waiting:
        sender = waiting.pop()
        found = {edge.target for edge in graph.edges if edge.source == sender}
        found |= {fed for fed, senders in graph.feeds.items() if sender in senders}
        found -= reached
        reached |= found
        waiting += found
    return frozenset(operator.uid for id_ in reached for operator in graph.vertices[id_].operators)


def reopen(stored: JobSnapshot, graph: JobGraph, sources: Iterable[str]) -> ReopenedSources:
    """Return a checkpoint's state in which finished sources and all operators downstream continue with new watermarks.

    Args:
        stored: The state of the checkpoint.
        graph: The job.
        sources: The uids of sources that continue if they have finished.
    """
    named = tuple(sources)
    finished = tuple(uid for uid in named if uid in stored.operators and stored.operators[uid].finished)
    left = tuple(uid for uid in named if uid not in finished)
    if not finished:
        return ReopenedSources(stored, (), left)
    again = at_and_behind(graph, finished)
    operators = {uid: _going_on(one) if uid in again else one for uid, one in stored.operators.items()}
    operators.update((uid, _reading_on(operators[uid])) for uid in finished)
    vertices = tuple(
        replace(vertex, subtasks=(VertexSubtaskState(),) * len(vertex.subtasks))
        if again.intersection(vertex.operators)
        else vertex
        for vertex in stored.vertices
    )
    return ReopenedSources(replace(stored, vertices=vertices, operators=operators), finished, left)


def _going_on(operator: OperatorMetadata) -> OperatorMetadata:
    return replace(operator, subtasks=tuple(replace(part, finished=False) for part in operator.subtasks))


def _reading_on(source: OperatorMetadata) -> OperatorMetadata:
    """Begin with new readers, because the old readers were notified that no more splits follow.

    Their unread splits are assigned again.
    """
    enumerator = source.enumerator and _looking(source.enumerator, splits_of(source))
    return replace(source, subtasks=(OperatorSubtaskState(),) * source.parallelism, enumerator=enumerator)


def _looking(state: SourceCoordinatorState, unread: tuple[ReturnedSplits, ...]) -> SourceCoordinatorState:
    events = tuple(replace(messages, split_requests=0) for messages in state.unseen if messages.events)
    returned = (*state.returned, *unread)
    return replace(state, undelivered={}, unseen=events, returned=returned, reopened=True)

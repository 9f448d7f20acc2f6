"""Decides whether the acks of an epoch are accepted.

Spark may run a task twice, and the second attempt need not produce the same records. Each attempt stamps its rows with
its own token. Senders and receivers report sums over their rows (`protocol.row_sums`), which show whether all subtasks
read the same attempts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from penstock._engine.protocol.row_sums import are_read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock._engine.graph.job_graph import JobEdge
    from penstock._engine.protocol.control import SubtaskAck

#: A subtask: position of its vertex, and its index.
Subtask: TypeAlias = tuple[int, int]


def void_reason(
    checkpoint_id: int,
    acks: Iterable[SubtaskAck],
    expected: Collection[Subtask],
    edges: Iterable[JobEdge],
    earlier: Collection[SubtaskAck] = (),
) -> str | None:
    """Say why an epoch or a stage is void; return None if it counts.

    Args:
        checkpoint_id: The checkpoint of the epoch.
        acks: The answers of the tasks.
        expected: The subtasks of the dispatch.
        edges: All edges of the job; for a stage, those into it.
        earlier: For a stage: the answers of earlier stages, whose results it reads.
    """
    answered: dict[Subtask, SubtaskAck] = {}
    for ack in acks:
        subtask = (ack.vertex, ack.subtask)
        if subtask not in expected:
            return f"{_name(subtask)} answered without being asked"
        if subtask in answered:
            return f"{_name(subtask)} answered twice"
        if ack.checkpoint_id != checkpoint_id:
            return f"{_name(subtask)} answered for checkpoint {ack.checkpoint_id}"
        answered[subtask] = ack
    missing = [subtask for subtask in expected if subtask not in answered]
    if missing:
        return f"{_name(missing[0])} did not answer" + (f", nor did {len(missing) - 1} others" if missing[1:] else "")
    together = [*earlier, *answered.values()]
    return next(filter(None, (_misread(edge, together) for edge in edges)), None)


def _misread(edge: JobEdge, acks: Collection[SubtaskAck]) -> str | None:
    """Name an edge whose rows were not all read once from the attempts that answered; return None where they were."""
    sent = ((ack.token, ack.rows_sent.get(edge.id, 0)) for ack in acks if ack.vertex == edge.source)
    read = (ack.rows_read.get(edge.id, 0) for ack in acks if ack.vertex == edge.target)
    if are_read(sent, read):
        return None
    return f"vertex {edge.target} read other rows of vertex {edge.source} than those of the attempts that answered"


def _name(subtask: Subtask) -> str:
    return f"subtask {subtask[1]} of vertex {subtask[0]}"

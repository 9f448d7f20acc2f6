"""The chain entry of a checkpoint with the keyed state of one operator, as several benchmarks write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.protocol.metadata import (
    ChainEntry,
    ChainEntryKind,
    JobSnapshot,
    OperatorMetadata,
    OperatorSubtaskState,
    VertexMetadata,
    VertexSubtaskState,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._engine.protocol.state_handle import Lineage

JOB, UID, MAX_PARALLELISM = "0" * 32, "op", 128


def entry_of(kind: ChainEntryKind, checkpoint_id: int, lineages: Sequence[Lineage]) -> ChainEntry:
    """Return an entry.

    Args:
        kind: Of the entry.
        checkpoint_id: Its id.
        lineages: The files of keyed state of each subtask.
    """
    states = tuple(OperatorSubtaskState(lineage=lineage) for lineage in lineages)
    operator = OperatorMetadata(UID, 0, len(states), MAX_PARALLELISM, states)
    vertex = VertexMetadata(UID, (UID,), (VertexSubtaskState(),) * len(states))
    snapshot = JobSnapshot((vertex,), {UID: operator})
    return ChainEntry(kind, JOB, "benchmark", checkpoint_id, "run", "nonce", 0, "", snapshot=snapshot)

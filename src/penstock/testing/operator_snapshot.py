"""The state of one subtask outside of a job, and its redistribution at another parallelism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._engine.coordinator.checkpoints.snapshots import VisibleState
from penstock._engine.coordinator.checkpoints.subtask_state import redistribute
from penstock._engine.protocol.metadata import OperatorSubtaskState
from penstock._engine.protocol.rows import MIN_WATERMARK
from penstock._engine.protocol.state_handle import rescale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._engine.protocol.state_handle import Lineage

__all__ = ["OperatorSnapshot"]


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """The state of one subtask, as a checkpoint would hold it; made by :meth:`OperatorHarness.snapshot`."""

    parallelism: int
    watermark: int
    lineage: Lineage
    state: bytes | None
    operator_state: Lineage = ()
    checkpoint_id: int = 0


def restored_subtask(
    snapshots: Sequence[OperatorSnapshot], subtask: int, parallelism: int, key_groups: range
) -> OperatorSnapshot:
    """Return the state that a subtask starts from, given the snapshots of all old subtasks, or only its own.

    Args:
        snapshots: At least one.
        subtask: The subtask, counted from 0.
        parallelism: How many subtasks there are now.
        key_groups: The key groups of the subtask.
    """
    same_parallelism = all(snapshot.parallelism == parallelism for snapshot in snapshots)
    own = snapshots[0] if same_parallelism and len(snapshots) == 1 else None
    lineage = rescale((snapshot.lineage for snapshot in snapshots), key_groups)
    checkpoint_id = max(snapshot.checkpoint_id for snapshot in snapshots)
    if own is not None:
        return OperatorSnapshot(parallelism, own.watermark, lineage, own.state, own.operator_state, checkpoint_id)
    subtasks = [OperatorSubtaskState(operator_state=snapshot.operator_state) for snapshot in snapshots]
    if not same_parallelism:
        subtasks = [OperatorSubtaskState(operator_state=share) for share in redistribute(subtasks, parallelism)]
    return OperatorSnapshot(
        parallelism, MIN_WATERMARK, lineage, None, VisibleState(subtasks).of(subtask), checkpoint_id
    )

"""The epoch context of one operator of a subtask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.operators.base import EpochContext
from penstock._engine.protocol.control import OperatorRestore

if TYPE_CHECKING:
    from penstock._engine.protocol.control import LevelDispatch, SubtaskDispatch, TaskDispatch


def epoch_context(dispatch: SubtaskDispatch, task: TaskDispatch, uid: str, token: int) -> EpochContext:
    """Return the epoch context of one operator, in a process without its state."""
    return EpochContext(
        checkpoint_id=task.level.checkpoint_id,
        token=token,
        restore=dispatch.operators.get(uid, OperatorRestore()),
        current=False,
        starts=not dispatch.history,
        completed_checkpoint=dispatch.completed_checkpoint,
        full_snapshot=dispatch.full_snapshot,
        write_all=dispatch.write_all,
        for_savepoint=dispatch.for_savepoint,
        group_watermark=dispatch.group_watermark,
        inline_bytes=task.level.inline_bytes,
        # Without a history the job has just started from that checkpoint: it did not complete in this run.
        notify_complete=dispatch.completed_checkpoint if dispatch.history else 0,
        notify_aborted=task.level.checkpoint_id if _runs_again(task.level) and not dispatch.is_notification else 0,
    )


def _runs_again(level: LevelDispatch) -> bool:
    """Return whether an attempt at the checkpoint was aborted; stages make no checkpoint."""
    return level.attempt > 1 and level.results is None

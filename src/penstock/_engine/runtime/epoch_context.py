"""The epoch context of one operator of a subtask, and its metrics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock._engine.operators.base import EpochContext
from penstock._engine.protocol.control import OperatorRestore
from penstock.common.user_values import in_64_bits

if TYPE_CHECKING:
    from penstock._engine.protocol.control import LevelDispatch, SubtaskDispatch, TaskDispatch
    from penstock.metrics.in_memory import InMemoryMetricGroup


_log = logging.getLogger(__name__)


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


def figures(metrics: InMemoryMetricGroup) -> dict[str, float]:
    """Return a subtask's metrics by name; if a metric has several figures, each has its own suffix.

    Integers beyond 64 bits, which Flink's counters cannot have, become the nearest ones within; the log says so once.
    """
    found: dict[str, float] = {}
    for name, metric in metrics.snapshot().items():
        for figure, value in metric.items():
            shown_name = name if figure in {"count", "value"} else f"{name}.{figure}"
            if isinstance(value, float):
                found[shown_name] = float.__float__(value)
            elif isinstance(value, int):
                found[shown_name] = shown = in_64_bits(value)
                if shown != value and metrics.is_first_beyond(name):
                    _log.warning("The metric %s is beyond 64 bits, and shown as %d.", name, shown)
    return found

"""What Spark says about tasks that it has run again, for the log and the failure history of a job."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from penstock.errors import TaskRetriedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.protocol.control import SubtaskAck

_logger = logging.getLogger("penstock")

#: What Spark calls a task whose end it did not wait for: another attempt was faster.
_BEATEN: Final = "another attempt succeeded"
_ENDED: Final = ("FAILED", "KILLED")


def retries_of(
    context: Any, group: str, acks: Iterable[SubtaskAck], *, may_repeat_stages: bool = False
) -> tuple[TaskRetriedError, ...]:
    """Return the tasks of an epoch that Spark ran more than once.

    Spark is asked where an ack says so, and where it may have repeated a stage, of which no ack tells: the tasks of an
    executor that others did not reach run again as first attempts.

    Args:
        context: The session's context.
        group: The job group of the epoch.
        acks: Of its subtasks.
        may_repeat_stages: Whether the tasks run on several machines.
    """
    is_told = any(ack.task_attempt is not UNSET for ack in acks)
    if not is_told and not may_repeat_stages:
        return ()
    try:
        found = _found(context, group) if is_told or _has_failed_stages(context, group) else ()
    except Exception:  # py4j raises what the JVM does
        _logger.debug("Spark did not say why it ran tasks again", exc_info=True)
        return ()
    for error in found:
        _logger.warning("%s", error)
    return found


def _has_failed_stages(context: Any, group: str) -> bool:
    store = context._jsc.sc().statusStore()
    return any(store.job(job).numFailedStages() for job in context.statusTracker().getJobIdsForGroup(group))


def _found(context: Any, group: str) -> tuple[TaskRetriedError, ...]:
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    jobs = [info for job in tracker.getJobIdsForGroup(group) if (info := tracker.getJobInfo(job)) is not None]
    errors: list[TaskRetriedError] = []
    for level, stage in enumerate(sorted({stage for job in jobs for stage in job.stageIds})):
        info = tracker.getStageInfo(stage)
        if info is None:
            continue
        for attempt in range(info.currentAttemptId + 1):
            tasks = store.taskList(stage, attempt, 2**31 - 1)
            for task in map(tasks.apply, range(tasks.size())):
                if task.status() in _ENDED:
                    said = str(task.errorMessage().get()) if task.errorMessage().isDefined() else ""
                    errors.append(TaskRetriedError(level, int(task.partitionId()), str(task.host()), _words(said)))
    return tuple(errors)


def _words(said: str) -> str:
    """Return what Spark says in one line, without a stack."""
    if _BEATEN in said:
        return "a speculative copy of it was faster"
    return said.partition("\n")[0].strip()

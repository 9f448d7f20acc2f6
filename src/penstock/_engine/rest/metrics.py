"""Metrics with Flink's names: of the process, of jobs, of subtasks, and of user functions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock._engine.rest.figures import idle_ms, time_shares
from penstock._engine.rest.paths import as_uri
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.gateway.executor_view import ExecutorView
    from penstock._engine.gateway.job_control import JobControl
    from penstock._engine.gateway.job_view import JobView, SubtaskView
    from penstock._engine.protocol.clocks import Moment

Value = int | float | str

_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def process_metrics(jobs: Iterable[JobControl], slots: int, executors: int) -> dict[str, Value]:
    """Return the metrics of the process, which acts as Flink's job manager."""
    running = sum(not control.view.is_over for control in jobs)
    return {
        "numRunningJobs": running,
        "numRegisteredTaskManagers": executors,
        "taskSlotsTotal": slots,
        "taskSlotsAvailable": 0 if running else slots,
    }


def executor_metrics(executor: ExecutorView) -> dict[str, Value]:
    """Return the metrics of an executor: its memory."""
    return {
        "Status.JVM.Memory.Heap.Used": executor.used_memory,
        "Status.JVM.Memory.Heap.Committed": executor.memory,
        "Status.JVM.Memory.Heap.Max": executor.memory,
        "taskSlotsTotal": executor.slots,
        "taskSlotsAvailable": max(0, executor.slots - executor.running_tasks),
    }


def job_metrics(job: JobView, now: Moment) -> dict[str, Value]:
    """Return the metrics of a job.

    Source: org.apache.flink.runtime.scheduler.metrics and org.apache.flink.runtime.checkpoint.CheckpointStatsTracker.
    """
    end = job.ended or now
    since_ms = max(0, end.since(job.status_times[job.status]))
    running = job.status is JobStatus.RUNNING
    known = job.checkpoints
    last, restored = known.last_completed, known.last_restored
    return {
        "uptime": since_ms if running else 0,
        "downtime": 0 if running or job.is_over else since_ms,
        "runningTime": job.running_ms,
        "restartingTime": since_ms if job.status is JobStatus.RESTARTING else 0,
        "numRestarts": job.progress.restarts,
        "totalNumberOfCheckpoints": known.completed + known.failed + known.in_progress,
        "numberOfCompletedCheckpoints": known.completed,
        "numberOfFailedCheckpoints": known.failed,
        "numberOfInProgressCheckpoints": known.in_progress,
        "lastCompletedCheckpointId": last.id if last else 0,
        "lastCheckpointDuration": -1 if last is None or last.duration_ms is None else last.duration_ms,
        "lastCheckpointSize": last.written_bytes if last else -1,
        "lastCheckpointFullSize": last.state_bytes if last else -1,
        "lastCheckpointExternalPath": as_uri(last.path) if last and last.path else "n/a",
        "lastCheckpointCompletedTimestamp": last.ended.now_ms if last and last.ended else -1,
        "lastCheckpointRestoreTimestamp": restored.restored_ms if restored else -1,
        "numberOfPendingCommittables": sum(job.pending_commits.values()),
        "numberOfFailedCommittables": job.progress.given_up,
        "returnedSubtasksRatio": job.returned_share,
        "numRestoredBytes": job.restored_bytes,
    }


def subtask_metrics(job: JobView, subtask: SubtaskView) -> dict[str, Value]:
    """Return the metrics of a subtask; rates are those of the last epoch."""
    shares = time_shares(job, subtask)
    busy, waiting = round(shares.busy * 1000), round(shares.waiting * 1000)
    return {
        "numRecordsIn": subtask.io.records_in,
        "numRecordsInPerSecond": _rate(job, subtask.last_io.records_in),
        "numRecordsOut": subtask.io.records_out,
        "numRecordsOutPerSecond": _rate(job, subtask.last_io.records_out),
        "numBytesIn": subtask.io.bytes_in,
        "numBytesInPerSecond": _rate(job, subtask.last_io.bytes_in),
        "numBytesOut": subtask.io.bytes_out,
        "numBytesOutPerSecond": _rate(job, subtask.last_io.bytes_out),
        "currentInputWatermark": subtask.input_watermark,
        "currentOutputWatermark": subtask.output_watermark,
        "busyTimeMsPerSecond": busy,
        "idleTimeMsPerSecond": 1000 - busy - waiting,
        "backPressuredTimeMsPerSecond": waiting,
        "accumulateBusyTimeMs": subtask.io.busy_ms,
        "accumulateIdleTimeMs": idle_ms(job, subtask),
        "accumulateBackPressuredTimeMs": subtask.waited_ms,
        "numEpochsOnSameHost": subtask.returns,
        "numEpochsOnOtherHost": subtask.moves,
        "numRestoredBytes": subtask.io.restored_bytes,
    }


def _rate(job: JobView, count: int) -> float:
    return count * 1000 / job.last_interval_ms if job.last_interval_ms > 0 and not job.is_over else 0.0


def operator_metrics(job: JobView, vertex: int, index: int) -> dict[tuple[str, str], Value]:
    """Return the metrics of the user functions of a subtask, by operator uid and name.

    Those of a source's enumerator and of a sink's committers, which run on the driver, are with its first subtask.
    """
    found: dict[tuple[str, str], Value] = {}
    for operator in job.plan.vertices[vertex].operators:
        uid = operator.uid
        found |= {(uid, name): value for name, value in job.subtasks[vertex][index].metrics.get(uid, {}).items()}
        if index != 0:
            continue
        found |= {(uid, name): value for name, value in enumerator_metrics(job, uid).items()}
        if (committed := job.commit_metrics.get(uid)) is not None:
            found |= {(uid, name): value for name, value in committed.items()}
            found[uid, "pendingCommittables"] = job.pending_commits.get(uid, 0)
    return found


def enumerator_metrics(job: JobView, uid: str) -> dict[str, Value]:
    """Return the metrics of the enumerator of a source, none for another operator.

    Source: org.apache.flink.runtime.metrics.groups.InternalSplitEnumeratorMetricGroup, for the scope in the names.
    """
    figures = job.enumerator_metrics.get(uid, {})
    return {f"coordinator.enumerator.{name}": value for name, value in figures.items()}


def vertex_metrics(job: JobView, vertex: int) -> dict[str, Value]:
    """Return the metrics of all subtasks of a vertex; names begin with the index of the subtask."""
    names = {operator.uid: flat(operator.name) for operator in job.plan.vertices[vertex].operators}
    found: dict[str, Value] = {}
    for index, subtask in enumerate(job.subtasks[vertex]):
        found |= {f"{index}.{name}": value for name, value in subtask_metrics(job, subtask).items()}
        for (uid, name), value in operator_metrics(job, vertex, index).items():
            found[f"{index}.{names[uid]}.{name}"] = value
    return found


def value_text(value: Value) -> str:
    """Return a value as Java writes it.

    Example:
        >>> value_text(3), value_text(float("nan")), value_text(float("-inf"))
        ('3', 'NaN', '-Infinity')
    """
    return _NOT_FINITE.get(text := str(value), text) if isinstance(value, float) else str(value)


def flat(name: str) -> str:
    """Return an operator's name as a part of a metric's name.

    Example:
        >>> flat("Keyed Reduce: 1")
        'Keyed_Reduce__1'
    """
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)

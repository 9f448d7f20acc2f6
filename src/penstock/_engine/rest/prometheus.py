"""All metrics in the text format of Prometheus, with the names and labels of Flink's reporter.

Source: org.apache.flink.metrics.prometheus.PrometheusReporter. All of ours are gauges, as Flink's counters and meters
are there.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Final

from penstock._engine.gateway.executor_view import SPARK
from penstock._engine.gateway.job_view import vertex_id
from penstock._engine.rest.metrics import job_metrics, operator_metrics, process_metrics, subtask_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.rest.context import RestContext
    from penstock._engine.rest.metrics import Value

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9:_]")
_ESCAPES: Final = {ord("\\"): "\\\\", **{code: f"\\\\x{code:02x}" for code in (*range(32), 127)}, 10: "\\n"}


class _Exposition:
    """Collects samples by metric, because all samples of a metric must be adjacent."""

    def __init__(self) -> None:
        #: The head lines of each metric, and its samples by their labels.
        self._metrics: dict[str, tuple[str, dict[str, str]]] = {}

    def add(self, scope: str, labels: Mapping[str, str], metrics: Mapping[str, Value]) -> None:
        """Add the metrics of one thing; values that are not numbers are left out, as in Flink.

        If several names become one name in this format, only the first is taken, because Prometheus would refuse a
        duplicate.
        """
        shown = ",".join(f'{name}="{_NO_NAME.sub("_", value)}"' for name, value in labels.items())
        for name, value in metrics.items():
            if isinstance(value, int | float):
                metric = f"flink_{scope}_{_NO_NAME.sub('_', name)}"
                head = f"# HELP {metric} {_one_line(name)} (scope: {scope})\n# TYPE {metric} gauge\n"
                self._metrics.setdefault(metric, (head, {}))[1].setdefault(shown, _number(value))

    def text(self) -> str:
        """Return all samples, each metric below its type."""
        parts: list[str] = []
        for metric, (head, samples) in self._metrics.items():
            parts.append(head)
            parts += [f"{metric}{{{labels}}} {value}\n" for labels, value in samples.items()]
        return "".join(parts)


def _one_line(name: str) -> str:
    """Return a name as the text of a HELP line; line ends and characters that cannot be encoded are escaped."""
    return name.encode("ascii", "backslashreplace").decode().translate(_ESCAPES)


def _number(value: float) -> str:
    """Return a number as Go writes it."""
    text = str(float(value))
    return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(text, text)


def exposition(context: RestContext) -> str:
    """Return the metrics of a process and its jobs."""
    host, jobs, found = socket.gethostname(), context.jobs.all(), _Exposition()
    found.add("jobmanager", {"host": host}, process_metrics(jobs, context.slots, len(context.executors())))
    for control in jobs:
        job = control.view
        of_job = {"host": host, "job_id": job.job_id, "job_name": job.name}
        found.add("jobmanager_job", of_job, job_metrics(job, context.clock()))
        _add_tasks(found, job, of_job)
    return found.text()


def _add_tasks(found: _Exposition, job: JobView, of_job: Mapping[str, str]) -> None:
    for place, vertex in enumerate(job.plan.vertices):
        names = {operator.uid: operator.name for operator in vertex.operators}
        for index, subtask in enumerate(job.subtasks[place]):
            labels = {
                **of_job,
                "task_id": vertex.id,
                "task_name": vertex.name,
                "task_attempt_id": f"{vertex.id}_{index}_{job.progress.restarts}",
                "task_attempt_num": str(job.progress.restarts),
                "subtask_index": str(index),
                "tm_id": SPARK,
            }
            found.add("taskmanager_job_task", labels, subtask_metrics(job, subtask))
            for (uid, name), value in operator_metrics(job, place, index).items():
                of_operator = {**labels, "operator_id": vertex_id(uid), "operator_name": names[uid]}
                found.add("taskmanager_job_task_operator", of_operator, {name: value})

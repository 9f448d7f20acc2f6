"""The last lines of the log of a job: its driver's, and those of functions in its tasks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from penstock._engine.rest.log_lines import last_lines
from penstock._engine.rest.routing import Route

if TYPE_CHECKING:
    from penstock._engine.rest.routing import HandlerRequest


class LoggedLine(msgspec.Struct):
    """A line of the log."""

    #: In epoch milliseconds.
    time: int
    level: str
    text: str
    #: Of a line from a task: the operator that ran, and its subtask.
    operator: str | None = None
    subtask: int | None = None


class LogLinesInfo(msgspec.Struct):
    """The last lines of the log, oldest first."""

    lines: list[LoggedLine]


def log(request: HandlerRequest) -> LogLinesInfo:
    """The last lines of Penstock in the driver's process, which may run other jobs, too, and of functions in tasks."""
    of_tasks = [
        LoggedLine(
            int(line.created * 1000), logging.getLevelName(line.level), line.message, line.operator, line.subtask
        )
        for line in request.job.task_log
    ]
    of_driver = [LoggedLine(*line) for line in last_lines()]
    return LogLinesInfo(sorted(of_driver + of_tasks, key=lambda line: line.time))


ROUTES = (Route("GET", "/jobs/{jobid}/penstock/log", log, LogLinesInfo, errors={404: "There is no such job."}),)

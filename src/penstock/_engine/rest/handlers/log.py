"""The last lines of the log of a job's driver."""

from __future__ import annotations

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


class LogLinesInfo(msgspec.Struct):
    """The last lines of the driver's log, oldest first."""

    lines: list[LoggedLine]


def log(request: HandlerRequest) -> LogLinesInfo:
    """The last lines that Penstock has logged in the driver's process, which may run other jobs as well."""
    assert request.job.job_id
    return LogLinesInfo([LoggedLine(*line) for line in last_lines()])


ROUTES = (Route("GET", "/jobs/{jobid}/penstock/log", log, LogLinesInfo, errors={404: "There is no such job."}),)

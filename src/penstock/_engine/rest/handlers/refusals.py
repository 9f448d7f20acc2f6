"""Flink's paths that Penstock does not have: each answers with the reason and the alternative."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock._engine.rest.http_error import ErrorResponseBody, HttpError
from penstock._engine.rest.routing import HandlerRequest, Route

if TYPE_CHECKING:
    from collections.abc import Callable

JARS: Final = (
    "Penstock runs no jars: a job is a Python program. Start it with `python PROGRAM` or `penstock run PROGRAM`, and "
    "it appears here."
)
_LOGS: Final = (
    "The log goes where the program sends it, standard error by default; this server has no files of it, and its last "
    "lines at /jobs/:jobid/penstock/log."
)
_SPARK_LOGS: Final = "Spark keeps the output of its executors; see its own page, or the cluster's."
_PROFILER: Final = "There is no profiler here; py-spy, for one, looks into a running Python process."
_RESCALES: Final = (
    "A running job keeps its parallelism. Stop it with a savepoint, and start it from there with another one."
)
_APPLICATIONS: Final = "A program is no application of its own here; its jobs are at /jobs."
_FLAMES: Final = "There are no flame graphs; /jobs/:jobid/vertices/:vertexid says how busy each subtask is."
_LOG_URL: Final = "No URL of a log is configured; the log goes where the program sends it."
_YARN_STOP: Final = 'The termination mode "stop" has been removed. Please use "jobs/:jobid/stop" instead.'
_JOB: Final = "/jobs/{jobid}"
_TASK_MANAGER: Final = "/taskmanagers/{taskmanagerid}"

#: By path: the methods, and the reason.
_REFUSED: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "/jobs": (("POST",), JARS),
    "/jars": (("GET", "POST"), JARS),
    "/jars/upload": (("POST",), JARS),
    "/jars/{jarid}": (("DELETE",), JARS),
    "/jars/{jarid}/plan": (("GET", "POST"), JARS),
    "/jars/{jarid}/run": (("POST",), JARS),
    "/jobmanager/log": (("GET",), _LOGS),
    "/jobmanager/stdout": (("GET",), _LOGS),
    "/jobmanager/logs/{filename}": (("GET",), _LOGS),
    "/jobmanager/profiler": (("GET", "POST"), _PROFILER),
    "/jobmanager/profiler/{filename}": (("GET",), _PROFILER),
    f"{_TASK_MANAGER}/log": (("GET",), _SPARK_LOGS),
    f"{_TASK_MANAGER}/stdout": (("GET",), _SPARK_LOGS),
    f"{_TASK_MANAGER}/logs/{{filename}}": (("GET",), _SPARK_LOGS),
    f"{_TASK_MANAGER}/profiler": (("GET", "POST"), _PROFILER),
    f"{_TASK_MANAGER}/profiler/{{filename}}": (("GET",), _PROFILER),
    "/applications/overview": (("GET",), _APPLICATIONS),
    "/applications/{applicationid}": (("GET",), _APPLICATIONS),
    f"{_JOB}/jobmanager/log-url": (("GET",), _LOG_URL),
    f"{_JOB}/taskmanagers/{{taskmanagerid}}/log-url": (("GET",), _LOG_URL),
    f"{_JOB}/rescaling/{{triggerid}}": (("GET",), _RESCALES),
    f"{_JOB}/rescales/config": (("GET",), _RESCALES),
    f"{_JOB}/rescales/history": (("GET",), _RESCALES),
    f"{_JOB}/rescales/overview": (("GET",), _RESCALES),
    f"{_JOB}/rescales/summary": (("GET",), _RESCALES),
    f"{_JOB}/yarn-stop": (("GET",), _YARN_STOP),
    f"{_JOB}/vertices/{{vertexid}}/flamegraph": (("GET",), _FLAMES),
}


def _refusing(reason: str) -> Callable[[HandlerRequest], Any]:
    def refuse(_: HandlerRequest) -> Any:
        raise HttpError(404, reason)

    refuse.__doc__ = reason
    refuse.__module__ = __name__
    return refuse


ROUTES = tuple(
    Route(method, path, _refusing(reason), ErrorResponseBody, errors={404: reason})
    for path, (methods, reason) in _REFUSED.items()
    for method in methods
)

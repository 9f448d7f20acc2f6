"""The process as Flink's clients know a cluster: versions, counts, configuration, threads."""

from __future__ import annotations

import platform
import sys
import threading
import time
import traceback
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import __version__
from penstock._engine.rest.access import Role
from penstock._engine.rest.routing import Route
from penstock.common.job_status import JobStatus
from penstock.common.redaction import shown_text

if TYPE_CHECKING:
    from penstock._engine.rest.routing import HandlerRequest

#: The version of Flink whose API this is; clients and operators compare it.
FLINK_VERSION: Final = "2.3.0"
_FLINK_COMMIT: Final = "c0f8d1a"
_REFRESH_MS: Final = 3000


class EmptyResponseBody(msgspec.Struct):
    """An empty answer: the operation was done."""


class DashboardFeatures(msgspec.Struct, rename="kebab"):
    """The features of the web page."""

    web_submit: bool = False
    web_cancel: bool = True
    web_rescale: bool = False
    web_history: bool = False


class PenstockVersion(msgspec.Struct):
    """Penstock's own members."""

    version: str


class DashboardConfiguration(msgspec.Struct, rename="kebab"):
    """The settings of the web page."""

    refresh_interval: int
    timezone_name: str
    timezone_offset: int
    flink_version: str
    flink_revision: str
    features: DashboardFeatures
    penstock: PenstockVersion


class ClusterProgress(PenstockVersion):
    """Penstock's own members of the cluster."""

    #: In epoch milliseconds; None while there are executors.
    no_executors_since: int | None = None


class ClusterOverview(msgspec.Struct, rename="kebab"):
    """Counts of jobs and slots."""

    taskmanagers: int
    slots_total: int
    slots_available: int
    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    flink_version: str
    flink_commit: str
    penstock: ClusterProgress


class ConfigurationEntry(msgspec.Struct):
    """A key with its value."""

    key: str
    value: str


class JvmInfo(msgspec.Struct):
    """The interpreter, where Flink has its virtual machine."""

    version: str
    arch: str
    options: list[str]


class EnvironmentInfo(msgspec.Struct):
    """Where the process runs."""

    jvm: JvmInfo
    classpath: list[str]


class LogInfo(msgspec.Struct):
    """A log file."""

    name: str
    size: int
    mtime: int


class LogListInfo(msgspec.Struct):
    """Log files; there are none, because logging belongs to the program."""

    logs: list[LogInfo]


class ThreadInfo(msgspec.Struct, rename="camel"):
    """One thread, and where it is."""

    thread_name: str
    stringified_thread_info: str


class ThreadDumpInfo(msgspec.Struct, rename="camel"):
    """All threads of the process."""

    thread_infos: list[ThreadInfo]


class ClusterDataSetEntry(msgspec.Struct):
    """A cached result of a batch job."""

    id: str


class ClusterDataSetListResponseBody(msgspec.Struct, rename="camel"):
    """The cached results of batch jobs."""

    data_sets: list[ClusterDataSetEntry]


def dashboard(_: HandlerRequest) -> DashboardConfiguration:
    """The settings of the web page: versions, and the refresh interval."""
    offset = datetime.now().astimezone().utcoffset()
    return DashboardConfiguration(
        refresh_interval=_REFRESH_MS,
        timezone_name=time.tzname[0],
        timezone_offset=0 if offset is None else int(offset.total_seconds() * 1000),
        flink_version=FLINK_VERSION,
        flink_revision=f"{_FLINK_COMMIT} @ 2026-06-14T16:29:03+02:00",
        features=DashboardFeatures(),
        penstock=PenstockVersion(__version__),
    )


def overview(request: HandlerRequest) -> ClusterOverview:
    """The numbers of jobs by state, and of tasks that can run at once."""
    statuses = [control.view.status for control in request.context.jobs.all()]
    running = sum(not status.is_terminal_state() for status in statuses)
    executors = request.context.executors()  # once, so that all figures are of the same moment
    slots = sum(one.slots for one in executors)
    return ClusterOverview(
        taskmanagers=len(executors),
        slots_total=slots,
        slots_available=0 if running else slots,
        jobs_running=running,
        jobs_finished=statuses.count(JobStatus.FINISHED),
        jobs_cancelled=statuses.count(JobStatus.CANCELED),
        jobs_failed=statuses.count(JobStatus.FAILED),
        flink_version=FLINK_VERSION,
        flink_commit=_FLINK_COMMIT,
        penstock=ClusterProgress(__version__, request.context.no_executors_since()),
    )


def configuration(request: HandlerRequest) -> list[ConfigurationEntry]:
    """The configuration of the process; values that are secret are hidden."""
    return [ConfigurationEntry(key, value) for key, value in sorted(request.context.configuration.items())]


def job_configuration(request: HandlerRequest) -> list[ConfigurationEntry]:
    """The effective configuration of a job; values that are secret are hidden."""
    return [ConfigurationEntry(key, value) for key, value in sorted(request.job.configuration.items())]


def environment(_: HandlerRequest) -> EnvironmentInfo:
    """The interpreter that the driver runs in."""
    version = f"{platform.python_implementation()} {platform.python_version()}"
    return EnvironmentInfo(JvmInfo(version, platform.machine(), []), list(sys.path))


def job_environment(request: HandlerRequest) -> EnvironmentInfo:
    """The interpreter that the driver of a job runs in."""
    assert request.job.job_id
    return environment(request)


def logs(_: HandlerRequest) -> LogListInfo:
    """The log files: none, because the program says where its log goes."""
    return LogListInfo([])


def thread_dump(_: HandlerRequest) -> ThreadDumpInfo:
    """Where each thread of the driver's process is."""
    frames = sys._current_frames()
    threads = [(thread.name, frames[thread.ident]) for thread in threading.enumerate() if thread.ident in frames]
    return ThreadDumpInfo(
        [
            ThreadInfo(shown_text(name), shown_text(f'"{name}"\n{"".join(traceback.format_stack(frame))}'))
            for name, frame in threads
        ]
    )


def data_sets(_: HandlerRequest) -> ClusterDataSetListResponseBody:
    """Cached results of batch jobs: there are none."""
    return ClusterDataSetListResponseBody([])


def shut_down(request: HandlerRequest) -> EmptyResponseBody:
    """Cancel all jobs; the process ends when its program does."""
    for control in request.context.jobs.all():
        if not control.view.is_over:
            control.cancel()
    request.context.shut_down()
    return EmptyResponseBody()


_UNKNOWN_JOB = {404: "There is no such job."}

ROUTES = (
    Route("GET", "/config", dashboard, DashboardConfiguration),
    Route("GET", "/overview", overview, ClusterOverview),
    Route("GET", "/jobmanager/config", configuration, list[ConfigurationEntry]),
    Route("GET", "/jobmanager/environment", environment, EnvironmentInfo, role=Role.OPERATOR),
    Route("GET", "/jobmanager/logs", logs, LogListInfo),
    # It contains lines of the program and their text.
    Route("GET", "/jobmanager/thread-dump", thread_dump, ThreadDumpInfo, role=Role.OPERATOR),
    Route("GET", "/jobs/{jobid}/jobmanager/config", job_configuration, list[ConfigurationEntry], errors=_UNKNOWN_JOB),
    Route(
        *("GET", "/jobs/{jobid}/jobmanager/environment", job_environment, EnvironmentInfo),
        role=Role.OPERATOR,
        errors=_UNKNOWN_JOB,
    ),
    Route("GET", "/datasets", data_sets, ClusterDataSetListResponseBody),
    Route("DELETE", "/cluster", shut_down, EmptyResponseBody),
)

"""Flink's task managers: one for each executor of Spark; where Spark is local, one for the driver's process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock._engine.gateway.executor_view import SPARK
from penstock._engine.rest.access import Role
from penstock._engine.rest.handlers.cluster import LogListInfo, ThreadDumpInfo, thread_dump
from penstock._engine.rest.handlers.metrics import AGGREGATED, NAMED, AggregatedMetric, MetricValue, aggregated, chosen
from penstock._engine.rest.http_error import HttpError
from penstock._engine.rest.metrics import executor_metrics
from penstock._engine.rest.routing import HandlerRequest, QueryParameter, Route

if TYPE_CHECKING:
    from penstock._engine.gateway.executor_view import ExecutorView

_MIB = 1 << 20


class ResourceProfileInfo(msgspec.Struct, rename="camel"):
    """The resources of a task manager, with memory in MiB."""

    cpu_cores: float
    task_heap_memory: int
    task_off_heap_memory: int = 0
    managed_memory: int = 0
    network_memory: int = 0
    extended_resources: dict[str, float] = {}


class HardwareDescription(msgspec.Struct, rename="camel"):
    """The machine; memory in bytes."""

    cpu_cores: int
    physical_memory: int
    free_memory: int
    managed_memory: int = 0


class TaskExecutorMemoryConfiguration(msgspec.Struct, rename="camel"):
    """The memory of a task manager by Flink's parts, in bytes; Spark has one part."""

    framework_heap: int
    task_heap: int
    framework_off_heap: int
    task_off_heap: int
    network_memory: int
    managed_memory: int
    jvm_metaspace: int
    jvm_overhead: int
    total_flink_memory: int
    total_process_memory: int


class TaskManagerInfo(msgspec.Struct, rename="camel"):
    """A process that runs tasks."""

    id: str
    path: str
    data_port: int
    jmx_port: int
    time_since_last_heartbeat: int
    slots_number: int
    free_slots: int
    assigned_tasks: int
    total_resource: ResourceProfileInfo
    free_resource: ResourceProfileInfo
    hardware: HardwareDescription
    memory_configuration: TaskExecutorMemoryConfiguration
    blocked: bool = False


class GarbageCollectorInfo(msgspec.Struct):
    """One garbage collector of Java; none are reported."""

    name: str
    count: int
    time: int


class TaskManagerMetricsInfo(msgspec.Struct, rename="camel"):
    """Memory in bytes; only heap memory is known."""

    heap_used: int
    heap_committed: int
    heap_max: int
    non_heap_used: int = 0
    non_heap_committed: int = 0
    non_heap_max: int = -1
    direct_count: int = 0
    direct_used: int = 0
    direct_max: int = 0
    mapped_count: int = 0
    mapped_used: int = 0
    mapped_max: int = 0
    netty_shuffle_memory_segments_available: int = 0
    netty_shuffle_memory_segments_used: int = 0
    netty_shuffle_memory_segments_total: int = 0
    netty_shuffle_memory_available: int = 0
    netty_shuffle_memory_used: int = 0
    netty_shuffle_memory_total: int = 0
    garbage_collectors: list[GarbageCollectorInfo] = []


class SlotInfo(msgspec.Struct, rename="camel"):
    """A slot that a job holds; Spark hands its own out anew for each task."""

    job_id: str
    resource: ResourceProfileInfo
    assigned_tasks: int


class TaskManagerDetailsInfo(TaskManagerInfo, kw_only=True):
    """A process that runs tasks, with its memory."""

    metrics: TaskManagerMetricsInfo
    allocated_slots: list[SlotInfo] = []


class TaskManagersInfo(msgspec.Struct):
    """The task managers."""

    taskmanagers: list[TaskManagerInfo]


def task_managers(request: HandlerRequest) -> TaskManagersInfo:
    """The executors of Spark; the driver's process where Spark is local."""
    return TaskManagersInfo([TaskManagerInfo(**_info(one)) for one in request.context.executors()])


def task_manager(request: HandlerRequest) -> TaskManagerDetailsInfo:
    """One executor of Spark."""
    found = _find(request)
    metrics = TaskManagerMetricsInfo(found.used_memory, found.memory, found.memory)
    return TaskManagerDetailsInfo(**_info(found), metrics=metrics)


def _find(request: HandlerRequest) -> ExecutorView:
    name = request.id("taskmanagerid")
    found = next((one for one in request.context.executors() if one.id == name), None)
    if found is None:
        hint = " Spark chooses an executor anew for each task." if name == SPARK else ""
        raise HttpError(404, f"Could not find TaskExecutor with id {name}.{hint}")
    return found


def _info(one: ExecutorView) -> dict[str, Any]:
    free = max(0, one.slots - one.running_tasks)
    spare = max(0, one.memory - one.used_memory)
    return {
        "id": one.id,
        "path": f"{one.host}:{one.port}",
        "data_port": one.port,
        "jmx_port": -1,
        "time_since_last_heartbeat": 0,
        "slots_number": one.slots,
        "free_slots": free,
        "assigned_tasks": one.running_tasks,
        "total_resource": ResourceProfileInfo(float(one.slots), one.memory // _MIB),
        "free_resource": ResourceProfileInfo(float(free), spare // _MIB),
        "hardware": HardwareDescription(one.slots, one.memory, spare),
        "memory_configuration": TaskExecutorMemoryConfiguration(
            0, one.memory, 0, 0, 0, 0, 0, 0, total_flink_memory=one.memory, total_process_memory=one.memory
        ),
    }


def metrics(request: HandlerRequest) -> list[MetricValue]:
    """Metrics of one executor."""
    return chosen(request, executor_metrics(_find(request)))


def all_metrics(request: HandlerRequest) -> list[AggregatedMetric]:
    """Metrics over several executors, all when none is named."""
    wanted = request.names("taskmanagers")
    known = request.context.executors()
    return aggregated(request, [executor_metrics(one) for one in known if wanted is None or one.id in wanted])


def logs(request: HandlerRequest) -> LogListInfo:
    """The log files of an executor: none, Spark keeps them."""
    assert _find(request)
    return LogListInfo([])


def threads(request: HandlerRequest) -> ThreadDumpInfo:
    """Where each thread is, where the executor is the driver's own process; Spark's page shows those of others."""
    if _find(request).id != SPARK:
        raise HttpError(404, "The threads of an executor are on Spark's own page.")
    return thread_dump(request)


_UNKNOWN = {404: "There is no such executor."}
_AT = "/taskmanagers/{taskmanagerid}"

ROUTES = (
    Route("GET", "/taskmanagers", task_managers, TaskManagersInfo),
    Route(
        *("GET", "/taskmanagers/metrics", all_metrics, list[AggregatedMetric]),
        query=(*AGGREGATED, QueryParameter("taskmanagers", "ids of task managers")),
    ),
    Route("GET", _AT, task_manager, TaskManagerDetailsInfo, errors=_UNKNOWN),
    Route("GET", f"{_AT}/metrics", metrics, list[MetricValue], query=(NAMED,), errors=_UNKNOWN),
    Route("GET", f"{_AT}/logs", logs, LogListInfo, errors=_UNKNOWN),
    Route("GET", f"{_AT}/thread-dump", threads, ThreadDumpInfo, role=Role.OPERATOR, errors=_UNKNOWN),
)

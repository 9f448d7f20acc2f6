"""The executors of a cluster, as Spark lists them; a thread of its own asks Spark, because the JVM may be slow."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.gateway.executor_view import SPARK, ExecutorView
from penstock._engine.plan.homes import ANYWHERE, in_turn
from penstock._engine.protocol.clocks import Moment
from penstock._engine.spark.forgotten import watch_of
from penstock.common.task_options import EXECUTORS_TIMEOUT
from penstock.errors import ExecutorLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.spark.session import SparkHandle
    from penstock.common.configuration import Configuration

_log = logging.getLogger("penstock")

#: The age in seconds after which the list is read again.
_FRESH_S: Final = 5.0
#: After this time in seconds without executors the master of a standalone cluster is asked whether it knows the job.
_WITHOUT_S: Final = 10.0
#: The longest wait for a last look at the end of a job.
_LAST_LOOK_S: Final = 2.0
#: The longest wait for an executor that has cost an epoch to be listed as lost, and the time between two looks.
_LATE_S: Final = 1.0
_PAUSE_S: Final = 0.1
#: Between two looks at what comes while a job waits to begin.
_COMING_S: Final = 0.1
#: So many lost executors are kept until they are asked for.
_LOST_KEPT: Final = 100
#: In what Spark says about executors that it ends itself: idle ones, and those of hosts that go away.
_ON_PURPOSE: Final = ("killed by driver", "decommission")
#: Spark's own name for the driver, which runs no tasks in a cluster.
_DRIVER: Final = "driver"


class SparkExecutors:
    """The executors of a session, as of some seconds ago.

    Args:
        list_them: Reads the list from Spark; see `listed`.
        why_gone: Returns what Spark says about the end of an executor, by its id; see `end_of`.
        ask_master: Called with each look that finds none since a while; see `forgotten`.
        clock: Returns this moment.
    """

    def __init__(
        self,
        list_them: Callable[[], tuple[ExecutorView, ...]],
        why_gone: Callable[[str], str] = lambda _: "",
        ask_master: Callable[[], None] | None = None,
        clock: Callable[[], Moment] = Moment.now,
    ) -> None:
        self._list_them = list_them
        self._lock = threading.Lock()
        #: Held by the thread that reads the list, so that no older list follows a newer one.
        self._looking = threading.Lock()
        self._known: tuple[ExecutorView, ...] = ()
        self._looked: float | None = None
        self._why_gone, self._ask_master, self._clock = why_gone, ask_master, clock
        #: The first look that found none; None while there are some.
        self._none_since: Moment | None = None
        self._is_over = threading.Event()
        self._lost: deque[ExecutorLostError] = deque(maxlen=_LOST_KEPT)
        #: The same with their moments, of which none is taken away.
        self._losses: deque[tuple[Moment, ExecutorLostError]] = deque(maxlen=_LOST_KEPT)

    def __call__(self) -> tuple[ExecutorView, ...]:
        """Return the known executors; an old list is read again in the background."""
        now = time.monotonic()
        with self._lock:
            is_old = self._looked is None or now - self._looked >= _FRESH_S
            if is_old:
                self._looked = now
        if is_old and not self._looking.locked():  # Spark may be too slow to be asked again
            threading.Thread(target=self.look, name="penstock-executors", daemon=True).start()
        return self._known

    def watch(self) -> None:
        """Read the list every few seconds until the job has ended: a job that hangs asks for nothing."""
        threading.Thread(target=self._watch, name="penstock-executors-watch", daemon=True).start()

    def _watch(self) -> None:
        while not self._is_over.wait(_FRESH_S):
            self()

    def none_since(self) -> int | None:
        """Return since when there are no executors, in epoch milliseconds; None while there are some."""
        since = self._none_since
        return None if since is None else since.now_ms

    def look(self) -> None:
        """Read the list; the known one stays where Spark has ended, or does not answer."""
        with self._looking, contextlib.suppress(Exception):  # py4j raises what the JVM does
            before, now = self._known, self._list_them()
            self._known = now
            self._note_none()
            still = {one.id for one in now}
            for one in before:
                if one.id not in still:
                    self._note_end(one)

    def _note_none(self) -> None:
        """Note whether there are no executors; if so since a while, let the master be asked."""
        if self._known:
            self._none_since = None
            return
        now = self._clock()
        self._none_since = self._none_since or now
        if self._ask_master is not None and now.since(self._none_since) >= _WITHOUT_S * 1000:
            self._ask_master()

    def take_lost(self, is_over: bool) -> list[ExecutorLostError]:
        """Return the executors that were lost since the last call, as of some seconds ago.

        Args:
            is_over: Whether the job has ended: then the list is read once more, as no later call will tell.
        """
        if is_over:
            self._is_over.set()
            last = threading.Thread(target=self.look, name="penstock-executors", daemon=True)
            last.start()
            last.join(_LAST_LOOK_S)
        else:
            self()
        return [self._lost.popleft() for _ in range(len(self._lost))]

    def lost_since(self, begun: Moment) -> tuple[ExecutorLostError, ...]:
        """Return the executors that were lost since a moment, as of now; Spark may list a loss a little late."""
        end = time.monotonic() + _LATE_S
        while True:
            self.look()
            found = tuple(error for moment, error in list(self._losses) if moment.since(begun) >= 0)
            if found or time.monotonic() > end or self._is_over.wait(_PAUSE_S):
                return found

    def _note_end(self, executor: ExecutorView) -> None:
        name, reason = executor.id.removeprefix(f"{SPARK}-"), ""
        with contextlib.suppress(Exception):  # what is lost is told, even if Spark does not say why
            reason = self._why_gone(executor.id)
        if any(word in reason.lower() for word in _ON_PURPOSE):
            _log.info("Executor %s on %s has ended: %s", name, executor.host, reason)
            return
        error = ExecutorLostError(name, executor.host, reason)
        _log.warning("%s", error)
        self._lost.append(error)
        self._losses.append((self._clock(), error))


class ClusterSlots:
    """Tells the hosts of the tasks that a cluster runs at the same time, which may change from epoch to epoch.

    Args:
        executors: The executors.
        fixed: The number that the configuration says; None to follow the executors.
        task_cpus: The cores that a task takes.
        wanted: The least number of slots. Where Spark adds executors for waiting tasks, an epoch has as many tasks as
            the job can use, and not as many as run now.
    """

    def __init__(self, executors: SparkExecutors, fixed: int | None, *, task_cpus: int = 1, wanted: int = 1) -> None:
        self._executors, self._fixed = executors, fixed
        self._task_cpus, self._wanted = task_cpus, wanted

    def __call__(self) -> tuple[str, ...]:
        """Return the host of each task of the next epoch; ANYWHERE for tasks that wait for an executor."""
        slots: Counter[str] = Counter()
        for one in self._executors():
            slots[one.host] += one.slots // self._task_cpus
        hosts = in_turn(slots)  # for a fixed number of tasks
        count = max(self._wanted, len(hosts)) if self._fixed is None else self._fixed
        return (*hosts[:count], *[ANYWHERE] * (count - len(hosts)))


def slots_of(spark: SparkHandle, executors: SparkExecutors, fixed: int | None, parallelism: int) -> ClusterSlots:
    """Return what tells the slots of a session on a cluster.

    Args:
        spark: The session.
        executors: Its executors.
        fixed: The number that the configuration says.
        parallelism: The subtasks of the widest level of the job.
    """
    conf = spark.session.sparkContext.getConf()
    task_cpus, wanted = int(conf.get("spark.task.cpus", "1")), 1
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        cores, most = int(conf.get("spark.executor.cores", "1")), conf.get("spark.dynamicAllocation.maxExecutors")
        wanted = parallelism if most is None else min(parallelism, int(most) * (cores // task_cpus))
    return ClusterSlots(executors, fixed, task_cpus=task_cpus, wanted=max(1, wanted))


def wait_for(what: str, count: Callable[[], int], wanted: int, configuration: Configuration) -> int:
    """Return how many of something a cluster has, once it has as many as are wanted or the time for them is over.

    Args:
        what: Its name in the log, in the plural.
        count: Asks Spark.
        wanted: So many are wanted.
        configuration: Says how long a job waits for them.
    """
    found, patience = count(), configuration.get(EXECUTORS_TIMEOUT)
    end = time.monotonic() + patience.to_millis() / 1000
    if found < wanted:
        text = "Waiting for %s: %d of %d are there (%s = %s)."
        _log.info(text, what, found, wanted, EXECUTORS_TIMEOUT.key, patience)
    while found < wanted and time.monotonic() < end:
        time.sleep(_COMING_S)
        found = count()
    return found


def executors_of(spark: SparkHandle) -> SparkExecutors:
    """Return the executors of a session on a cluster; their list is read at once."""
    context = spark.session.sparkContext
    executors = SparkExecutors(lambda: listed(context), lambda executor: end_of(context, executor), watch_of(context))
    executors.look()
    return executors


def listed(spark_context: Any) -> tuple[ExecutorView, ...]:
    """Return the executors that Spark knows."""
    rows = spark_context._jsc.sc().statusStore().executorList(True)
    found = [rows.apply(index) for index in range(rows.size())]
    return tuple(_view(row) for row in found if row.id() != _DRIVER)


def end_of(spark_context: Any, executor: str) -> str:
    """Return what Spark says about the end of an executor; "" where it says nothing.

    Args:
        spark_context: The context.
        executor: The id of its view.
    """
    rows = spark_context._jsc.sc().statusStore().executorList(False)
    ended = [row for row in map(rows.apply, range(rows.size())) if f"{SPARK}-{row.id()}" == executor]
    return "".join(str(row.removeReason().get()) for row in ended if row.removeReason().isDefined())


def failing_hosts(spark_context: Any) -> list[str]:
    """Return the hosts of the executors, also of lost ones, on which tasks have failed; none where Spark has ended."""
    with contextlib.suppress(Exception):  # py4j raises what the JVM does
        rows = spark_context._jsc.sc().statusStore().executorList(False)
        return sorted({_view(row).host for row in map(rows.apply, range(rows.size())) if row.failedTasks()})
    return []


def _view(row: Any) -> ExecutorView:
    host, _, port = str(row.hostPort()).rpartition(":")
    return ExecutorView(
        id=f"{SPARK}-{row.id()}",
        host=host,
        port=int(port) if port.isdecimal() else 0,
        slots=int(row.totalCores()),
        running_tasks=int(row.activeTasks()),
        memory=int(row.maxMemory()),
        used_memory=int(row.memoryUsed()),
    )

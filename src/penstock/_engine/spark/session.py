"""The Spark session that runs jobs: the program's own session, or else a local one of ours.

Called by ``launch`` for each execution. A session of the program is never stopped and its settings are not changed:
jobs run in a sibling that shares its SparkContext. A session of ours stays for the next job and ends with the process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from pyspark import __version__ as pyspark_version
from pyspark.core.context import SparkContext
from pyspark.sql import SparkSession

from penstock._engine.spark import installation
from penstock._engine.spark.java import find_java
from penstock._engine.spark.jvm import Jvm, launch_environment
from penstock._engine.spark.words import cause_of_spark
from penstock.common.interrupts import holding_interrupts
from penstock.common.process import at_exit, available_cores
from penstock.common.task_options import LOCAL_SLOTS
from penstock.errors import (
    UnsuitableClusterError,
    UnsupportedOperationError,
)

log = logging.getLogger(__name__)

#: The settings that every session needs, also set on a running session.
SESSION_CONF = {
    # Penstock plans the levels; replanning between them costs 150 ms an epoch.
    "spark.sql.adaptive.enabled": "false",
    # A row holds a block of up to 4 MB, so batches are cut by bytes, and the number of rows hardly matters.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1024",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
    # The shuffle files of an epoch are deleted when it ends, not when the JVM collects garbage.
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
}

_LOCAL_CONF = {
    "spark.app.name": "penstock",
    "spark.submit.deployMode": "client",
    "spark.driver.host": installation.LOOPBACK,
    "spark.driver.bindAddress": installation.LOOPBACK,
    # Else every user of the machine may fetch blocks, closures among them. Spark makes the secret itself, in the JVM.
    "spark.authenticate": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark keeps the history of 1,000 jobs for a page that is not served; an epoch is a job.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "2000",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.python.worker.reuse": "true",
    # It looks up the caller's line for each step of a plan; our plans have no lines of the user.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

#: What the session of a pipelined job needs from its start on: Python's workers take rows as they come, and Spark's
#: servers send them at once.
PIPELINED_CONF = {
    "spark.python.udf.pipelined.enabled": "true",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
}

#: Only what the configuration of Spark (SPARK_CONF_DIR) would hardly say.
_CLUSTER_CONF = {
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

#: With the first a program asks for Spark Connect; Spark sets the second where the program makes such a session.
_CONNECT_VARIABLES = frozenset({"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"})
_CLASSIC = (
    "unset SPARK_REMOTE and make no session with builder.remote(); SPARK_MASTER or a classic session names the cluster"
)

#: Names the cluster for programs that make no session.
MASTER_VARIABLE = "SPARK_MASTER"

#: The number of attempts of a Spark task; only lost workers fail a task.
_TASK_ATTEMPTS = 4

#: The longest wait for the end of the accumulators' thread.
_ACCUMULATORS_END_S = 2

#: What Spark says of a session that has ended while it was made.
_STOPPED: Final = "stopped SparkContext"

_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class SparkHandle:
    """A session to run epochs in.

    Attributes:
        session: The session; only Penstock's own plans use it.
        slots: The number of tasks that run at the same time; on a cluster that was so when the session was made.
        log_file: Spark's log file; None for a session of the program, which configures the log itself.
        jvm: The JVM of a session of ours.
    """

    session: SparkSession
    slots: int
    log_file: Path | None = None
    jvm: Jvm | None = None

    @property
    def owned(self) -> bool:
        """Whether Penstock made the session."""
        return self.jvm is not None

    @property
    def is_alive(self) -> bool:
        """Whether the SparkContext still runs."""
        return self.session.sparkContext._jsc is not None

    def stop(self) -> None:
        """End the session with its JVM if they are ours; leave a session of the program alone."""
        global _own  # noqa: PLW0603 - a process has one Spark, and so has this module
        if self.jvm is None:
            return
        with _lock:
            if self.is_alive:
                with contextlib.suppress(Exception):  # a signal to all our processes has ended the JVM already
                    _end_accumulators(self.session.sparkContext)
                with contextlib.suppress(Exception):
                    self.session.stop()
            self.jvm.end()
            if _own is self:
                _own = None


_own: SparkHandle | None = None
#: The applications whose session was looked at: what is wrong with it is said once, and not for each job.
_looked_at: set[str] = set()
#: The session of `users_session`, by the handle of ours that it is beside.
_users: dict[int, SparkSession] = {}


def get_session(
    slots: int | None = None,
    *,
    log_level: str = "WARN",
    local_dir: Path | None = None,
    archived: bool = True,
    python: str | None = None,
    name: str = "penstock",
    pipelined: bool = False,
) -> SparkHandle:
    """Return the session for jobs: the program's, or one on the cluster that SPARK_MASTER names, or else ours.

    Args:
        slots: The number of tasks that a session of ours runs at the same time; by default the number of cores. An
            existing session keeps its slots.
        log_level: The level of Spark's own log in a session of ours.
        local_dir: The directory for temporary files of a session of ours; None for ``SPARK_LOCAL_DIRS``, else the
            temporary directory.
        python: The interpreter of the workers of a session of ours; by default the driver's.
        archived: Whether the JVM of a session of ours may use a class data archive, and make one.
        name: The name of the application on a cluster that is joined now.
        pipelined: Whether jobs of a session of ours pass records on while their epochs run.

    Raises:
        SparkSetupError: Spark cannot start on this machine; the subclass names the reason.
        UnsupportedOperationError: The program uses Spark Connect.
    """
    global _own  # noqa: PLW0603 - a process has one Spark, and so has this module
    with _lock:
        if _own is not None and _own.is_alive:
            return _own
        if _own is not None and _own.jvm is not None:  # the program stopped the session
            _own.jvm.end()
            _own = None
        if not _CONNECT_VARIABLES.isdisjoint(os.environ):
            raise UnsupportedOperationError("Spark Connect", _CLASSIC)
        _forget_stopped()
        if SparkContext._active_spark_context is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
            return _new_session_of_program()
        if (master := os.environ.get(MASTER_VARIABLE, "")) and not _is_ignored(master):
            join_cluster(master, python, name)
            return _new_session_of_program()
        _own = _start(
            slots or available_cores(), log_level, local_dir, archived=archived, python=python, pipelined=pipelined
        )
        return _own


def _forget_stopped() -> None:
    """Let go of a session whose application its cluster has dropped, so that another one can be made.

    Raises:
        UnsuitableClusterError: Only the program can make it, and a job here would run elsewhere than the program says.
    """
    context = SparkContext._active_spark_context
    if context is None or not has_stopped(context):
        return
    master = context.master or ""
    with contextlib.suppress(Exception):  # py4j raises many types
        context.stop()
    if not os.environ.get(MASTER_VARIABLE):
        raise UnsuitableClusterError(master, ("the program's session there has ended: make another one",))
    log.warning("The session on %s has ended; Penstock joins the cluster anew.", master)


def _is_ignored(master: str) -> bool:
    """Return whether a master is this machine, where sessions are ours; say so."""
    if is_ours := master == "local" or master.startswith("local["):
        key = LOCAL_SLOTS.key
        log.warning(
            "%s=%s is ignored: Penstock starts Spark on this machine itself, and %s says how many tasks run at "
            "the same time.",
            *(MASTER_VARIABLE, master, key),
        )
    return is_ours


def join_cluster(master: str, python: str | None = None, name: str = "penstock") -> SparkSession:
    """Make a session on a cluster as a program would: with Spark's own configuration, and this process as its driver.

    Args:
        master: The cluster.
        python: The interpreter of the tasks; by default what PYSPARK_PYTHON says, else the driver's.
        name: The name of the application.

    Raises:
        UnsuitableClusterError: Spark does not get there.
    """
    java = find_java(pyspark_version)
    variables = {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": python or os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
    os.environ.update(variables)  # Spark reads them later, too
    log.info("Joining the cluster %s.", master)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in (_CLUSTER_CONF | SESSION_CONF).items():
        builder.config(key, value)
    reason = "its master does not answer, or has refused the application (the log of Spark has more)"
    try:
        session = builder.getOrCreate()
        if not has_stopped(session.sparkContext):  # as it has by itself where no master answers
            at_exit(partial(_leave, session))
            return session
    except Exception as error:  # noqa: BLE001 - py4j and PySpark raise many types
        said = cause_of_spark(str(error))
        reason = reason if _STOPPED in said else said
    raise UnsuitableClusterError(master, (f"Spark could not join it: {reason}",))


def _leave(session: SparkSession) -> None:
    """Stop a session on a cluster before this process ends: a container ends with it, and its JVM has no time then."""
    with contextlib.suppress(Exception):  # py4j raises many types; the program may have stopped it
        session.stop()


def users_session() -> SparkSession:
    """Return the session for DataFrames that the program gets: its own, or else one beside that of our jobs."""
    handle = get_session()
    if not handle.owned:
        return SparkSession.builder.getOrCreate()
    with _lock:
        session = _users.get(id(handle))
        if session is None:
            session = handle.session.newSession()
            for key in SESSION_CONF:
                session.conf.unset(key)
            session.conf.set("spark.sql.adaptive.enabled", "true")
            _users.clear()
            _users[id(handle)] = session
    return session


def driver_memory_mb(total_bytes: int) -> int:
    """Return the JVM's heap in MiB: a quarter of the memory, between 1 and 4 GiB; blocks only pass through it."""
    return max(1024, min(4096, (total_bytes >> 20) // 4))


def _start(
    slots: int, log_level: str, local_dir: Path | None, *, archived: bool, python: str | None, pipelined: bool
) -> SparkHandle:
    """Start a JVM and a session of our own."""
    bridge = logging.getLogger("py4j")
    if bridge.level == logging.NOTSET:  # it reports each connection that it closes
        bridge.setLevel(logging.WARNING)
    conf = {
        **_LOCAL_CONF,
        **SESSION_CONF,
        **(PIPELINED_CONF if pipelined else {}),
        "spark.master": f"local[{slots},{_TASK_ATTEMPTS}]",
        "spark.default.parallelism": str(slots),
        "spark.driver.memory": f"{driver_memory_mb(_total_memory())}m",
    }
    if SparkContext._gateway is not None:  # left from a session that the program stopped; it cannot be set up again
        SparkContext._gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
    jvm = Jvm(conf, log_level, local_dir, archived=archived)
    try:
        # The context notes the Python of its workers now.
        with launch_environment({} if python is None else {"PYSPARK_PYTHON": python}):
            with holding_interrupts():  # Ctrl-C breaks a call of the JVM; and the context sets a handler that makes one
                context = SparkContext(conf=jvm.conf, gateway=jvm.gateway)
            with holding_interrupts():
                session = SparkSession(context)
    except BaseException:
        jvm.end()
        raise
    handle = SparkHandle(session, slots, jvm.log_file, jvm)
    at_exit(handle.stop)
    return handle


def _end_accumulators(context: Any) -> None:
    """End the thread of PySpark's accumulators, which by itself checks for its end only once a second."""
    server, accumulator = context._accumulatorServer, context._javaAccumulator
    ending = threading.Thread(target=server.shutdown, daemon=True)
    ending.start()
    # It waits for data from the JVM, so the JVM sends some; the JVM only notices that the connection has ended.
    with contextlib.suppress(Exception):
        accumulator.merge(accumulator.copyAndReset())
    ending.join(_ACCUMULATORS_END_S)
    context._accumulatorServer = None


def _new_session_of_program() -> SparkHandle:
    """Return a sibling of the program's session, with settings of its own."""
    theirs = SparkSession.builder.getOrCreate()
    ours = theirs.newSession()
    changed: list[str] = []
    for key, value in SESSION_CONF.items():
        before = theirs.conf.get(key, None)
        ours.conf.set(key, value)  # a new session has nothing of what the program has set on its own since the start
        if before != value:
            changed.append(f"{key}={value} (not {before})")
    context = theirs.sparkContext
    log.info("Running in the Spark session %s on %s.", context.applicationId, context.master)
    if changed:
        log.info("Set for Penstock's own plans only: %s.", ", ".join(changed))
    if context.applicationId not in _looked_at:
        _looked_at.add(context.applicationId)
        _warn(context)
    return SparkHandle(ours, slot_count(context))


def _warn(context: SparkContext) -> None:
    """Log what is wrong with the program's session, or with the one that was made for it on a cluster."""
    master = context.master or ""
    problems = unsuitable(dict(context.getConf().getAll()), master, context.pythonExec)
    if _shares_process_group(context):
        problems.append(
            "runs in the program's process group: a signal to that group (a closed terminal, `timeout`, many "
            "supervisors) ends Spark before a job can stop with a savepoint. Signal the program alone"
            f"{', or leave the session to Penstock' if master.startswith('local') else ''}."
        )
    for problem in problems:
        log.warning("The Spark session on %s %s", master, problem)


def _shares_process_group(context: SparkContext) -> bool:
    """Return whether a signal to this process's group reaches the JVM of the program's session."""
    started: Any = getattr(context._gateway, "proc", None)
    jvm = os.getppid() if started is None else started.pid  # else spark-submit has started both
    try:
        return os.getpgid(jvm) == os.getpgrp()
    except ProcessLookupError:
        return False


def unsuitable(conf: dict[str, str], master: str, python: str) -> list[str]:
    """Return the unsuitable settings of a running session that can no longer be changed, each as a predicate.

    Args:
        conf: The settings of its SparkContext.
        master: Its master.
        python: The interpreter that its workers run.
    """
    problems: list[str] = []
    if conf.get("spark.python.worker.reuse", "true").lower() == "false":
        problems.append("starts a Python process for each task (spark.python.worker.reuse=false): expect slow epochs.")
    if master.startswith("local") and "," not in master:
        problems.append(f"does not try tasks again (master {master}): local[N,{_TASK_ATTEMPTS}] would.")
    if master.startswith("local") and not _is_ours(python):
        problems.append(f"runs its tasks with {python}, not {sys.executable}: both need Penstock and its dependencies.")
    if conf.get("spark.authenticate", "false").lower() != "true":
        problems.append(
            "lets anyone who reaches its ports read blocks, in which functions and records are: "
            "spark.authenticate=true closes them."
        )
    return problems


def _is_ours(python: str) -> bool:
    """Return whether a name of an interpreter on this machine is that of this process, or of its environment."""
    found = shutil.which(python)  # a bare name is looked up in PATH, as Spark does
    return found is not None and Path(found).parent == Path(sys.executable).parent


def has_stopped(context: SparkContext) -> bool:
    """Return whether a context has ended while its JVM may live: by the program, or by the cluster that dropped it."""
    try:
        return context._jsc is None or bool(cast("Any", context)._jsc.sc().isStopped())
    except Exception:  # noqa: BLE001 - py4j raises many types
        return False


def slot_count(spark_context: Any) -> int:
    """Return the number of tasks that run at the same time now, as Spark counts them; 0 without executors."""
    context = spark_context._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def _total_memory() -> int:
    """Return the memory of this machine or container in bytes; 4 GiB where it is unknown."""
    total = 4 << 30
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        total = min(total, int(text))
    return total

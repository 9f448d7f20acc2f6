"""Runs the levels of an epoch at the same time, through the pipelined shuffle that Spark has made for its own streams.

There is no public way to it: the exchanges of a physical plan are copied with a flag, and the plan runs without the
layers of Spark SQL above it. So the settings that these layers would hand to the tasks are properties of the job here.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.spark.executors import wait_for
from penstock._engine.spark.session import PIPELINED_CONF, slot_count
from penstock._engine.spark.shipping import is_local
from penstock.common.libraries import major_and_minor
from penstock.common.task_options import EXCHANGE, PIPELINED_SINCE, SPARK_SLOTS
from penstock.errors import UnsuitableClusterError

if TYPE_CHECKING:
    import threading
    from collections.abc import Generator

    from pyspark.sql import DataFrame

    from penstock._engine.spark.session import SparkHandle
    from penstock.common.configuration import Configuration

#: What Spark says of a job whose tasks cannot all begin now, as others hold slots or hosts are gone; no task of it ran.
_NO_SLOTS: Final = "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"
#: Seconds for which such a job is tried again, and between two looks at slots.
_SLOTS_S: Final = 60.0
_AGAIN_S: Final = 0.5
#: Spark would take executors away, or run tasks twice.
_REFUSED: Final = ("spark.dynamicAllocation.enabled", "spark.speculation")
_FEWER_LEVELS: Final = (
    "give it more cores, or exchange records less often: each `key_by`, `rebalance` and the like begins a level"
)
#: What helps where a session of ours is too small, or lacks settings: it keeps those that it has begun with.
_ANOTHER: Final = (
    "this process had started it before: end it while no job runs in it, with `SparkSession.active().stop()`, and the "
    "job starts another"
)
_EXCHANGE: Final = "org.apache.spark.sql.execution.exchange.ShuffleExchangeExec"
#: Each row leaves Python, and reaches it, at once.
_PROPERTIES: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.pandas.udf.buffer.size": "256",
}

_log = logging.getLogger("penstock")


def check_session(spark: SparkHandle, levels: int, configuration: Configuration) -> None:
    """Refuse a session in which the levels of a job cannot run at the same time.

    Args:
        spark: The session.
        levels: The levels of the job.
        configuration: Its configuration.

    Raises:
        UnsuitableClusterError: Spark is too old, too small, or changes its executors or tasks by itself.
    """
    context = spark.session.sparkContext
    version, get = context.version, context.getConf().get
    problems: list[str] = []
    if major_and_minor(version) < major_and_minor(PIPELINED_SINCE):
        problems.append(f"Spark {version} has no pipelined shuffle, which came with {PIPELINED_SINCE}")
    problems += [f"{key} is on; switch it off" for key in _REFUSED if get(key, "").lower() == "true"]
    if not problems:
        problems += _too_few_slots(spark, levels, configuration)
    if problems:
        clauses = (f"{EXCHANGE.key} = pipelined does not work there: {problem}" for problem in problems)
        raise UnsuitableClusterError(context.master or "", tuple(clauses))
    unset = [f"{key}={value}" for key, value in PIPELINED_CONF.items() if get(key, "") != value]
    if unset:
        way = _ANOTHER if spark.owned else f"start it with {', '.join(unset)}"
        _log.warning("Records wait longer than they need in this session of Spark: %s", way)


def _too_few_slots(spark: SparkHandle, levels: int, configuration: Configuration) -> list[str]:
    """Return what is wrong with the number of slots, once the executors of a cluster have had their time to come."""
    context, here = spark.session.sparkContext, is_local(spark)
    fixed = 0 if here else configuration.get(SPARK_SLOTS) or 0
    wanted = 0 if here else max(levels, fixed)
    slots = wait_for("slots", lambda: slot_count(context), wanted, configuration)
    if slots < levels:
        more = _ANOTHER if spark.owned else _FEWER_LEVELS
        return [
            f"the job needs a slot for each of its {levels} levels, which run at the same time, and Spark has {slots}; "
            f"{more}"
        ]
    if slots < fixed:
        return [
            f"{SPARK_SLOTS.key} is {fixed}, and all tasks of an epoch run at the same time, but Spark has {slots} "
            "slots; leave it out"
        ]
    return []


@contextlib.contextmanager
def row_by_row(spark: SparkHandle) -> Generator[None]:
    """Let the tasks of jobs in the block pass on each row at once, in Python workers of their own.

    Spark gives a task a worker that has these settings, so the workers of pipelined epochs serve no other jobs.
    """
    context: Any = spark.session.sparkContext
    before = {key: context.getLocalProperty(key) for key in _PROPERTIES}
    try:
        for key, value in _PROPERTIES.items():
            context.setLocalProperty(key, value)
        yield
    finally:
        for key, value in before.items():
            context.setLocalProperty(key, value)


class PipelinedPlan:
    """The plan of an epoch with pipelined exchanges; each run is of a copy of it.

    Args:
        spark: The session.
        frame: The plan with Spark's usual exchanges.
    """

    def __init__(self, spark: SparkHandle, frame: DataFrame) -> None:
        self._spark = spark
        self._activate()
        jdf: Any = frame._jdf
        self._plan = self._marked(jdf.queryExecution().executedPlan())

    def collect(self, cancelled: threading.Event) -> list[str]:
        """Run it, and return the rows of its last level as text; where others hold slots, wait for these for a minute.

        Args:
            cancelled: Ends the wait.
        """
        until_s = time.monotonic() + _SLOTS_S
        while True:
            try:
                return self._collect()
            except Exception as error:
                if cancelled.is_set() or time.monotonic() > until_s or _NO_SLOTS not in str(error):
                    raise
            cancelled.wait(_AGAIN_S)

    def _collect(self) -> list[str]:
        self._activate()
        with row_by_row(self._spark):
            return [row.getString(0) for row in self._plan.clone().executeCollectPublic()]

    def _activate(self) -> None:
        """Make the session that of this thread: a plan notes whose it is when it is made."""
        session: Any = self._spark.session
        session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)

    def _marked(self, plan: Any) -> Any:
        """Return a copy of a plan whose exchanges are pipelined."""
        children = plan.children()
        marked = [self._marked(children.apply(place)) for place in range(children.length())]
        if plan.getClass().getName() == _EXCHANGE:
            size = plan.advisoryPartitionSize()
            return plan.copy(plan.outputPartitioning(), marked[0], plan.shuffleOrigin(), size, True)
        if not marked:
            return plan
        jvm: Any = self._spark.session.sparkContext._jvm
        return plan.withNewChildren(jvm.org.apache.spark.api.python.PythonUtils.toSeq(marked))

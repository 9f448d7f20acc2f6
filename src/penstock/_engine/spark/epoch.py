"""One epoch as one Spark job: a linear plan of `mapInArrow` levels with `repartitionById` between them."""

from __future__ import annotations

import logging
import threading
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.errors import PythonException
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from penstock._engine.plan.epoch_plan import EpochOutcome, EpochProgress
from penstock._engine.protocol.control import encode
from penstock._engine.spark.workers import close_at_exit, release
from penstock.errors import EpochCancelledError, EpochInfrastructureError, InternalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock._engine.plan.epoch_plan import EpochPlan
    from penstock._engine.protocol.control import LogLine
    from penstock._engine.spark.session import SparkHandle

_logger = logging.getLogger("penstock")

# A schema object is parsed once; the same as DDL text costs a call to the JVM for each level and epoch.
_SCHEMA: Final = StructType(
    [StructField(name, IntegerType()) for name in ("slot", "target", "channel")]
    + [StructField(name, LongType()) for name in ("seq", "token")]
    + [StructField("kind", IntegerType()), StructField("payload", BinaryType())]
)


def _task(dispatch: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run in a Spark task; imports the runtime there, so that the driver never loads it."""
    from penstock._engine.runtime.level import run_level

    close_at_exit()
    context = TaskContext.get()
    yield from run_level(dispatch, 0 if context is None else context.partitionId(), batches)
    for _ in batches:  # Spark keeps a Python worker for the next epoch only if its input was read to the end
        pass


class SparkEpochRunner:
    """Runs epochs in a Spark session, see `plan.epoch_plan.EpochRunner`."""

    def __init__(self, spark: SparkHandle) -> None:
        self._spark = spark
        self._cancelled = threading.Event()
        self._runs = count(1)
        #: The job group of the epoch at hand, and the epoch.
        self._running: tuple[str, EpochPlan] | None = None
        #: Whether workers may keep something of the job.
        self._kept = False

    def run(self, plan: EpochPlan) -> EpochOutcome:
        """Run one epoch to its end and return what its subtasks acknowledged."""
        kept, self._kept = self._kept, True
        # A group of its own, and named before the look at the flag: then `cancel` meets one of the two.
        group = f"penstock-{id(self):x}-{next(self._runs)}"
        self._running = group, plan
        if self._cancelled.is_set():
            self._cancelled.clear()  # a cancellation is for one epoch: after a restart the job goes on
            raise EpochCancelledError(plan.checkpoint_id)
        context = self._spark.session.sparkContext
        context.setJobGroup(group, f"epoch {plan.checkpoint_id}, attempt {plan.attempt}", interruptOnCancel=False)
        try:
            rows = self._frame(plan).collect()
        except Exception as error:
            if self._cancelled.is_set():
                self._cancelled.clear()
                raise EpochCancelledError(plan.checkpoint_id) from error
            if isinstance(error, PythonException):  # users' errors never get here: theirs are rows of the epoch
                raise InternalError(str(error)) from error
            raise EpochInfrastructureError(str(error)) from error
        outcome = EpochOutcome.of_rows(rows)
        _log(outcome.log)
        # Of a job that ends in its first epoch nothing was ever kept.
        self._kept = kept or not all(ack.finished for ack in outcome.acks)
        return outcome

    def cancel(self) -> None:
        """Interrupt the running epoch; without one, the next `run` raises at once."""
        self._cancelled.set()
        # Future jobs too: the epoch may be on its way to Spark without having a job there yet.
        context: Any = self._spark.session.sparkContext
        context._jsc.sc().cancelJobGroupAndFutureJobs(self._running[0] if self._running else "")

    def release(self, run_id: str) -> None:
        """Close what is still open of a run, after its last epoch; never raises."""
        if not self._kept:
            return
        try:
            release(self._spark, run_id)
        except Exception:
            _logger.debug("Functions stay open until their workers end", exc_info=True)

    def progress(self) -> EpochProgress:
        """Look at the running epoch from another thread; never raises."""
        if self._running is None:
            return EpochProgress()
        try:
            return _progress(self._spark.session.sparkContext, *self._running)
        except Exception:
            _logger.debug("Spark did not say how far the epoch is", exc_info=True)
            return EpochProgress()

    def _frame(self, plan: EpochPlan) -> DataFrame:
        width = plan.levels[0].widths[0]
        frame = self._spark.session.range(width, numPartitions=width).mapInArrow(self._level(plan, 0), _SCHEMA)
        for level in range(1, len(plan.levels)):
            frame = frame.repartitionById(plan.levels[level].widths[level], "slot")
            frame = frame.mapInArrow(self._level(plan, level), _SCHEMA)
        return frame.select("kind", "payload")

    @staticmethod
    def _level(plan: EpochPlan, level: int) -> Any:
        return partial(_task, encode(plan.levels[level]))


def _progress(context: Any, group: str, plan: EpochPlan) -> EpochProgress:
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    jobs = [info for job in tracker.getJobIdsForGroup(group) if (info := tracker.getJobInfo(job)) is not None]
    done, running = 0, list[tuple[int, int]]()
    # Spark numbers the stages of a job as they follow from each other, so they stand in the order of the levels.
    for level, stage in enumerate(sorted({stage for job in jobs for stage in job.stageIds})):
        info = tracker.getStageInfo(stage)
        done += info.numCompletedTasks if info else 0
        if info and info.numActiveTasks:
            tasks = store.taskList(stage, info.currentAttemptId, 2**31 - 1)
            listed = [tasks.apply(place) for place in range(tasks.size())]
            slots = [task.partitionId() for task in listed if task.status() == "RUNNING"]
            running += [subtask for slot in slots for subtask in plan.subtasks(level, slot)]
    return EpochProgress(done, tuple(running))


def _log(lines: tuple[LogLine, ...]) -> None:
    """Put what tasks logged into the program's log."""
    for line in lines:
        logger = logging.getLogger(line.logger)
        if logger.isEnabledFor(line.level):
            logger.log(line.level, "[%s (%d)] %s", line.operator, line.subtask, line.message)

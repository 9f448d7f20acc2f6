"""One epoch as one Spark job: a linear plan of `mapInArrow` levels with `repartitionById` between them."""

from __future__ import annotations

import logging
import threading
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from penstock._engine.plan.epoch_plan import EpochOutcome
from penstock._engine.protocol.control import encode
from penstock.errors import EpochCancelledError, EpochInfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock._engine.plan.epoch_plan import EpochPlan
    from penstock._engine.protocol.control import LogLine
    from penstock._engine.spark.session import SparkHandle

# A schema object is parsed once; the same as DDL text costs a call to the JVM for each level and epoch.
_SCHEMA: Final = StructType(
    [StructField(name, IntegerType()) for name in ("slot", "target", "channel")]
    + [StructField(name, LongType()) for name in ("seq", "token")]
    + [StructField("kind", IntegerType()), StructField("payload", BinaryType())]
)


def _task(dispatch: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run in a Spark task; imports the runtime there, so that the driver never loads it."""
    from penstock._engine.runtime.level import run_level

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
        self._group = ""

    def run(self, plan: EpochPlan) -> EpochOutcome:
        """Run one epoch to its end and return what its subtasks acknowledged."""
        # A group of its own, and named before the look at the flag: then `cancel` meets one of the two.
        self._group = f"penstock-{id(self):x}-{next(self._runs)}"
        if self._cancelled.is_set():
            self._cancelled.clear()  # a cancellation is for one epoch: after a restart the job goes on
            raise EpochCancelledError(plan.checkpoint_id)
        context = self._spark.session.sparkContext
        context.setJobGroup(self._group, f"epoch {plan.checkpoint_id}, attempt {plan.attempt}", interruptOnCancel=False)
        try:
            rows = self._frame(plan).collect()
        except Exception as error:
            if self._cancelled.is_set():
                self._cancelled.clear()
                raise EpochCancelledError(plan.checkpoint_id) from error
            raise EpochInfrastructureError(str(error)) from error
        outcome = EpochOutcome.of_rows(rows)
        _log(outcome.log)
        return outcome

    def cancel(self) -> None:
        """Interrupt the running epoch; without one, the next `run` raises at once."""
        self._cancelled.set()
        # Future jobs too: the epoch may be on its way to Spark without having a job there yet.
        context: Any = self._spark.session.sparkContext
        context._jsc.sc().cancelJobGroupAndFutureJobs(self._group)

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


def _log(lines: tuple[LogLine, ...]) -> None:
    """Put what tasks logged into the program's log."""
    for line in lines:
        logger = logging.getLogger(line.logger)
        if logger.isEnabledFor(line.level):
            logger.log(line.level, "[%s (%d)] %s", line.operator, line.subtask, line.message)

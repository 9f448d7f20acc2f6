"""One epoch as one Spark job: a linear plan of `mapInArrow` levels with `repartitionById` between them.

All epochs of one shape share a plan, which is built once: building it takes some dozen calls to the JVM. The plan
contains the data that all tasks of a run share. The dispatches of an epoch are a property of the Spark job, or a file
that this property names (`plan.dispatches`).
"""

from __future__ import annotations

import base64
import contextlib
import logging
import socket
import sys
import threading
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark import TaskContext
from pyspark.errors import PythonException
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from penstock import __version__
from penstock._engine.plan.dispatches import pack
from penstock._engine.plan.epoch_plan import EpochOutcome, EpochProgress
from penstock._engine.plan.homes import ANYWHERE
from penstock._engine.protocol.clocks import Moment
from penstock._engine.protocol.control import encode
from penstock._engine.spark.pipelined import PipelinedPlan, row_by_row
from penstock._engine.spark.places import first_level, next_level, numbers, towards
from penstock._engine.spark.retries import retries_of
from penstock._engine.spark.session import has_stopped
from penstock._engine.spark.shipping import in_workers_of, is_local
from penstock._engine.spark.words import words_of_spark, worker_error
from penstock._engine.spark.workers import close_at_exit, closing_tasks, patience, spare_modules, with_others
from penstock.errors import (
    EpochCancelledError,
    EpochInfrastructureError,
    ExecutorLostError,
    InternalError,
    SparkGoneError,
    SparkStoppedError,
    UnsuitableHostError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock._engine.plan.epoch_plan import EpochPlan
    from penstock._engine.protocol.control import LogLine
    from penstock._engine.spark.session import SparkHandle

_logger = logging.getLogger("penstock")

_SCHEMA: Final = StructType([StructField("slot", IntegerType()), StructField("row", BinaryType())])

#: The output of the last level, which the driver collects: each row's kind and payload as text.
ANSWERS: Final = StructType([StructField("text", StringType())])
#: The number of answers that the driver reads at a time; an answer has at most 64 KB.
_ANSWERS_AT_ONCE: Final = 64

_EVENT_LOG: Final = "spark.eventLog.enabled"
#: The property of a Spark job from which its tasks read their dispatch.
_DISPATCHES: Final = "penstock.dispatches"


def checked_dispatches(dispatches: str | None) -> str:
    """Return the property with the dispatches, checked to be present.

    Raises:
        InternalError: It is missing: the program's session does not pass properties to its jobs.
    """
    if dispatches is None:
        msg = "the Spark job came without its dispatch (does the program set PYSPARK_PIN_THREAD=false?)"
        raise InternalError(msg)
    return dispatches


def answers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert the rows of the last level, in their task, to the text that `collect` reads."""
    from penstock._engine.runtime.row_buffer import rows_of, text_batch

    for batch in batches:
        yield text_batch([f"{row.kind} {base64.b64encode(row.payload).decode()}" for row in rows_of((batch,))])


def collect(frame: DataFrame) -> Iterator[tuple[int, bytes]]:
    """Run a frame whose last tasks return answers, and yield them as (kind, payload).

    Answers are text on the connection that calls the JVM. A frame's own `collect` opens a socket for each call, and the
    JVM keeps the path of each Unix domain socket until it ends.
    """
    rows = cast("Any", frame)._jdf.collectAsList()
    for first in range(0, size := rows.size(), _ANSWERS_AT_ONCE):
        yield from answers_in(rows.subList(first, min(size, first + _ANSWERS_AT_ONCE)).toString())


def answers_in(text: str) -> Iterator[tuple[int, bytes]]:
    """Yield the answers in the JVM's text of a list of rows.

    Example:
        >>> list(answers_in("[[1 eA==], [2 eQ==]]"))
        [(1, b'x'), (2, b'y')]
    """
    yield from map(_answer, text.strip("[]").split("], ["))


def _answer(text: str) -> tuple[int, bytes]:
    kind, _, payload = text.partition(" ")
    return int(kind), base64.b64decode(payload)


@dataclass(frozen=True, slots=True)
class _Run:
    """The part of the plan that all tasks of a run share: the job, and the options of the checkpoint storage."""

    #: The encoded JobDispatch.
    job: bytes
    storage_options: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    #: That of the driver.
    penstock: str = __version__


def check_version(of_driver: str) -> None:
    """Check, in a task, that this host has the driver's Penstock; a host may have come after the job began.

    Raises:
        UnsuitableHostError: It has another one.
    """
    if __version__ != of_driver:
        problem = other_penstock(__version__, sys.executable, of_driver)
        raise UnsuitableHostError("", (f"host {socket.gethostname()} {problem}",))


def other_penstock(found: str, python: str, of_driver: str) -> str:
    """Return what is wrong with a host, as a clause behind its name."""
    return f"has Penstock {found} for {python}, and the driver {of_driver}; install that one there"


def _run(plan: EpochPlan) -> _Run:
    return _Run(encode(plan.job), plan.storage_options)


def _task(level: int, run: _Run, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run in a Spark task; imports the runtime there, so that the driver never loads it."""
    check_version(run.penstock)
    from penstock._engine.runtime.level import run_level

    close_at_exit()
    context = TaskContext.get()
    assert context is not None
    dispatches = checked_dispatches(context.getLocalProperty(_DISPATCHES))
    place, attempt = (level, context.partitionId()), context.attemptNumber()
    yield from run_level(run.job, dispatches, place, batches, storage_options=run.storage_options, attempt=attempt)
    spare_modules()
    for _ in batches:  # Spark keeps a Python worker for the next epoch only if its input was read to the end
        pass


def _task_of_last_level(level: int, run: _Run, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run in a Spark task whose rows go to the driver."""
    return answers(_task(level, run, batches))


def _last_task(run_id: str, run: _Run, slots: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run in the last Spark job of a run: notify checkpoint listeners, then close all functions in this worker."""
    return answers(_closing_rows(run_id, run, slots, batches))


def _closing_rows(run_id: str, run: _Run, slots: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from penstock._engine.runtime.level import announcement_directory, close_all, run_level

    close_at_exit()
    context = TaskContext.get()
    assert context is not None
    with with_others(announcement_directory(run_id), context.partitionId(), slots):
        dispatches = context.getLocalProperty(_DISPATCHES)
        if dispatches:
            place = 0, context.partitionId()
            yield from run_level(run.job, dispatches, place, (), storage_options=run.storage_options)
        with patience():
            closed = close_all(run_id)
        yield closed
    for _ in batches:  # else Spark does not keep the worker
        pass


def writes_events(spark: SparkHandle) -> bool:
    """Tell whether properties of jobs may get into an event log, which is kept and read by others.

    That of a cluster may also be switched on by what listens to Spark there, so its session is not asked.
    """
    return not is_local(spark) or spark.session.sparkContext.getConf().get(_EVENT_LOG, "").lower() == "true"


class SparkEpochRunner:
    """Runs epochs in a Spark session, see `plan.epoch_plan.EpochRunner`.

    Args:
        spark: The session.
        hosts: Tells the hosts of the tasks that run at the same time now; by default as many as when the session was
            made, anywhere.
        python_path: The entries of sys.path that tasks get.
        check_hosts: Gets the hosts that have answered, and raises what is wrong with one that nobody has looked at.
        lost_since: Returns the executors that were lost since a moment, which explains a lost epoch.
    """

    def __init__(
        self,
        spark: SparkHandle,
        hosts: Callable[[], tuple[str, ...]] | None = None,
        python_path: Sequence[str] = (),
        check_hosts: Callable[[Collection[str]], None] = lambda _: None,
        lost_since: Callable[[Moment], Sequence[ExecutorLostError]] = lambda _: (),
    ) -> None:
        self._spark, self._python_path = spark, python_path
        self._check_hosts, self._lost_since = check_hosts, lost_since
        self._hosts = hosts or (lambda: (ANYWHERE,) * spark.slots)
        self._inlines = not writes_events(spark)
        self._cancelled = threading.Event()
        self._runs = count(1)
        #: The job group of the running epoch, and the epoch.
        self._running: tuple[str, EpochPlan] | None = None
        #: The plan of the last epoch, by the slots of its levels, their hosts, and its job.
        self._plans: dict[tuple[tuple[int, ...], tuple[tuple[str, ...], ...], bytes], DataFrame | PipelinedPlan] = {}
        #: Whether workers may hold open functions of the job.
        self._keeps = False

    def run(self, plan: EpochPlan) -> EpochOutcome:
        """Run one epoch to its end and return the acks of its subtasks."""
        self._keeps = True
        # Each run has its own group, set before the flag is read: so `cancel` reaches either the flag or the group.
        group = f"penstock-{id(self):x}-{next(self._runs)}"
        self._running = group, plan
        if self._cancelled.is_set():
            self._cancelled.clear()  # a cancellation is for one epoch: after a restart the job continues
            raise EpochCancelledError(plan.checkpoint_id)
        context, begun = self._spark.session.sparkContext, Moment.now()
        dispatches = pack(plan, inline=self._inlines)
        try:
            context.setJobGroup(group, f"epoch {plan.checkpoint_id}, attempt {plan.attempt}", interruptOnCancel=False)
            context.setLocalProperty(_DISPATCHES, dispatches)
            rows = self._last_rows(plan) if plan.releases else self._rows(plan)
        except Exception as error:
            if self._cancelled.is_set():
                self._cancelled.clear()
                raise EpochCancelledError(plan.checkpoint_id) from error
            if isinstance(error, PythonException):  # never a user's error: those are rows of the epoch
                raise worker_error(error, context.pythonExec) from error
            _logger.debug("Spark lost an epoch", exc_info=True)
            loss = _loss(error, context)
            if isinstance(loss, EpochInfrastructureError) and (lost := self._lost_since(begun)):
                _logger.info("What Spark says about the loss: %s", loss.reason)
                raise EpochInfrastructureError("; ".join(map(str, lost))) from None
            raise loss from None
        outcome = EpochOutcome.of_rows(rows)
        retries = retries_of(context, group, outcome.acks, may_repeat_stages=not is_local(self._spark))
        outcome = replace(outcome, retries=retries)
        _log(outcome.log)
        self._keeps = not plan.releases or bool(outcome.failures)
        if not outcome.failures:
            self._check(plan, outcome)
        return outcome

    def _check(self, plan: EpochPlan, outcome: EpochOutcome) -> None:
        """Check the hosts on which an epoch ran, before it counts."""
        try:
            self._check_hosts({ack.host for ack in outcome.acks})
        except Exception as error:
            if self._cancelled.is_set():  # which interrupts the look at hosts, too
                self._cancelled.clear()
                raise EpochCancelledError(plan.checkpoint_id) from error
            raise

    def cancel(self) -> None:
        """Interrupt the running epoch; without a running epoch, the next `run` raises at once."""
        self._cancelled.set()
        # Future jobs too: the epoch may not have its Spark job yet.
        context: Any = self._spark.session.sparkContext
        context._jsc.sc().cancelJobGroupAndFutureJobs(self._running[0] if self._running else "")

    def release(self, run_id: str) -> None:
        """Close the functions of a run that its last epoch has left open; never raises."""
        if not self._keeps:
            return
        context = self._spark.session.sparkContext
        try:
            context.setLocalProperty(_DISPATCHES, "")
            with closing_tasks(context, run_id):
                _log(EpochOutcome.of_rows(self._close(run_id, _Run(b""), len(self._hosts()))).log)
        except Exception:
            _logger.debug("Functions stay open until their workers end", exc_info=True)

    def _rows(self, plan: EpochPlan) -> list[tuple[int, bytes]]:
        prepared = self._prepared(plan)
        if isinstance(prepared, PipelinedPlan):
            return [_answer(text) for text in prepared.collect(self._cancelled)]
        # The same frame would reuse its old shuffle files and skip half of its tasks; an alias is a new frame.
        return list(collect(prepared.alias("epoch")))

    def _last_rows(self, plan: EpochPlan) -> list[tuple[int, bytes]]:
        return self._close(plan.job.run_id, _run(plan), len(plan.levels[0].slots))

    def _close(self, run_id: str, run: _Run, slots: int) -> list[tuple[int, bytes]]:
        """Run one task in each slot, all at the same time, so that Spark gives each another of the idle workers."""
        task = partial(_last_task, run_id, run, slots)
        with in_workers_of(self._spark, self._python_path):
            frame = self._spark.session.range(slots, numPartitions=slots).mapInArrow(task, ANSWERS)
        is_pipelined = any(isinstance(prepared, PipelinedPlan) for prepared in self._plans.values())
        with row_by_row(self._spark) if is_pipelined else contextlib.nullcontext():
            return list(collect(frame))

    def progress(self) -> EpochProgress:
        """Look at the running epoch from another thread; never raises."""
        if self._running is None:
            return EpochProgress()
        try:
            return _progress(self._spark.session.sparkContext, *self._running)
        except Exception:
            _logger.debug("Spark did not report the progress of the epoch", exc_info=True)
            return EpochProgress()

    def _prepared(self, plan: EpochPlan) -> DataFrame | PipelinedPlan:
        """Return the plan of an epoch; epochs with the same slots in each level share it."""
        widths, hosts = plan.levels[0].widths, tuple(level.hosts for level in plan.levels)
        shape = widths, hosts, encode(plan.job)
        if shape not in self._plans:  # it is the first epoch, subtasks have finished, or executors have changed
            with in_workers_of(self._spark, self._python_path):
                frame = self._build(widths, hosts, _run(plan))
                self._plans = {shape: PipelinedPlan(self._spark, frame) if plan.levels[0].pipelined else frame}
        return self._plans[shape]

    def _build(self, widths: tuple[int, ...], hosts: tuple[tuple[str, ...], ...], run: _Run) -> DataFrame:
        session, last, is_placed = self._spark.session, len(widths) - 1, any(hosts)
        frame = first_level(session, hosts[0]) if is_placed else session.range(widths[0], numPartitions=widths[0])
        for level, width in enumerate(widths):
            if level > 0:
                frame = next_level(frame, hosts[level]) if is_placed else frame.repartitionById(width, "slot")
            task = partial(_task if level < last else _task_of_last_level, level, run)
            if is_placed and level < last:
                task = towards(numbers(widths[level + 1]), task)
            frame = frame.mapInArrow(task, _SCHEMA if level < last else ANSWERS)
        return frame


def _loss(error: Exception, context: Any) -> EpochInfrastructureError | SparkGoneError:
    """Return the error of the job for an error of Spark."""
    try:
        said = str(error)  # a Java exception asks the JVM for its words
    except Exception as unsaid:  # noqa: BLE001 - py4j raises many types on a JVM that is gone
        return SparkGoneError(str(unsaid))
    if isinstance(error, ConnectionRefusedError):  # no process listens at the JVM's port any more
        return SparkGoneError(said)
    if has_stopped(context):
        return SparkStoppedError(words_of_spark(said))
    return EpochInfrastructureError(words_of_spark(said))


def _progress(context: Any, group: str, plan: EpochPlan) -> EpochProgress:
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    jobs = [info for job in tracker.getJobIdsForGroup(group) if (info := tracker.getJobInfo(job)) is not None]
    done, running = 0, list[tuple[int, int]]()
    # Spark numbers the stages of a job as they follow from each other, so they are in the order of the levels.
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
    """Write the log lines of tasks to the program's log."""
    for line in lines:
        logger = logging.getLogger(line.logger)
        if logger.isEnabledFor(line.level):
            logger.log(line.level, "[%s (%d)] %s", line.operator, line.subtask, line.message)

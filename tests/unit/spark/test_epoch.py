"""What goes to the tasks of an epoch, and what comes back."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock._engine.plan.epoch_plan import EpochPlan
from penstock._engine.protocol.control import JobDispatch, LevelDispatch, SubtaskDispatch
from penstock._engine.runtime.row_buffer import ExchangeRow, record_batch
from penstock._engine.spark.epoch import (
    SparkEpochRunner,
    answers,
    checked_dispatches,
    collect,
    words_of_spark,
    writes_events,
)
from penstock._engine.spark.session import SparkHandle
from penstock.errors import InternalError, SparkGoneError

JOB = JobDispatch("0" * 32, "job", "run", b"\x00\xff", None, "checkpoints", b"key")
PLAN = EpochPlan(7, 1, JOB, (LevelDispatch(0, 7, 0, ((SubtaskDispatch(0, 0),),), (1,)),))


def test_a_task_without_its_dispatch_says_what_hinders_it() -> None:
    with pytest.raises(InternalError, match="PYSPARK_PIN_THREAD"):
        checked_dispatches(None)


def test_words_of_spark_have_what_a_python_worker_said_and_no_stack_of_the_jvm() -> None:
    worker = "Error from python worker:\n  Traceback (most recent call last):\n  ImportError: no _getattribute"
    text = (
        f"An error occurred while calling o86.collectToPython.\n: org.apache.spark.SparkException: Aborted: {worker}"
        f"\n\tat org.apache.spark.A.b(A.scala:55)\nDriver stacktrace:\n\tat c.D.e(D.scala:1)\nCaused by: {worker}\n"
    )
    assert words_of_spark(text) == f"org.apache.spark.SparkException: Aborted: {worker}"
    assert words_of_spark("the context has stopped") == "the context has stopped"


class Listed(list[str]):
    """A list of Java's, as py4j shows it: what is in it comes as text."""

    def size(self) -> int:
        return len(self)

    def subList(self, first: int, end: int) -> Listed:
        return Listed(self[first:end])

    def toString(self) -> str:
        return f"[{', '.join(self)}]"


class Frame:
    """A frame whose tasks gave some rows."""

    def __init__(self, rows: list[ExchangeRow]) -> None:
        self._rows = rows

    @property
    def _jdf(self) -> Frame:
        return self

    def collectAsList(self) -> Listed:
        batches = answers([record_batch(self._rows[:1]), record_batch(self._rows[1:])])
        return Listed(f"[{text}]" for batch in batches for text in batch.column("text").to_pylist())


def test_answers_come_as_the_tasks_gave_them() -> None:
    payloads = [b"", b"], [7 ", *(bytes([number]) * number for number in range(200))]
    rows = [ExchangeRow(0, -1, 0, 0, 0, number % 4, payload) for number, payload in enumerate(payloads)]
    for few in ([], rows[:1], rows):
        assert list(collect(cast("Any", Frame(few)))) == [(row.kind, row.payload) for row in few]


class Speechless(Exception):
    """As a Java exception, whose words the JVM has."""

    def __str__(self) -> str:
        raise OSError("nobody answers")


class GoneSession:
    """A session whose JVM has ended."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    master = "local[2,4]"

    @property
    def sparkContext(self) -> GoneSession:
        return self

    def getConf(self) -> dict[str, str]:
        return {}

    def setJobGroup(self, *_: object, **__: object) -> None:
        raise self._error


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "Connection refused"), Speechless()])
def test_jvm_that_has_ended_is_told_as_such(error: Exception) -> None:
    runner = SparkEpochRunner(SparkHandle(cast("Any", GoneSession(error)), 1))
    with pytest.raises(SparkGoneError, match="latest"):
        runner.run(PLAN)


class Session:
    """A session with a master and settings."""

    def __init__(self, master: str, conf: dict[str, str]) -> None:
        self.master, self._conf = master, conf

    @property
    def sparkContext(self) -> Session:
        return self

    def getConf(self) -> dict[str, str]:
        return self._conf


@pytest.mark.parametrize(
    ("master", "conf", "expected"),
    [
        ("local[2,4]", {}, False),
        ("local[*]", {"spark.eventLog.enabled": "TRUE"}, True),
        ("spark://host:7077", {}, True),
        ("yarn", {"spark.eventLog.enabled": "false"}, True),
    ],
)
def test_dispatches_are_no_properties_where_an_event_log_may_keep_them(
    master: str, conf: dict[str, str], expected: bool
) -> None:
    assert writes_events(SparkHandle(cast("Any", Session(master, conf)), 1)) is expected

"""What goes to the tasks of an epoch, and what comes back."""

from __future__ import annotations

import socket
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PythonException
from tests.unit.coordinator.acks import ack

from penstock import __version__
from penstock._engine.plan.epoch_plan import EpochPlan
from penstock._engine.processes.exit_codes import ExitCode, exit_code_of
from penstock._engine.protocol.control import JobDispatch, LevelDispatch, SubtaskDispatch, encode
from penstock._engine.protocol.non_recoverable import is_non_recoverable
from penstock._engine.protocol.rows import PayloadKind
from penstock._engine.runtime.row_buffer import ExchangeRow, record_batch
from penstock._engine.spark.epoch import (
    SparkEpochRunner,
    answers,
    check_version,
    checked_dispatches,
    collect,
    writes_events,
)
from penstock._engine.spark.session import SparkHandle
from penstock._engine.spark.words import words_of_spark, worker_error
from penstock.errors import (
    EpochCancelledError,
    EpochInfrastructureError,
    ExecutorLostError,
    InternalError,
    SparkGoneError,
    SparkStoppedError,
    UnsuitableHostError,
    WorkerPythonError,
)

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


class StoppedSession(GoneSession):
    """A session whose JVM lives, and whose application has ended."""

    @property
    def _jsc(self) -> Any:
        return SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True))


class ClosedSession(GoneSession):
    """A session that the program has stopped."""

    _jsc = None


@pytest.mark.parametrize("session", [StoppedSession, ClosedSession])
def test_application_that_has_ended_under_a_job_is_told_as_such_and_no_restart_is_tried(
    session: type[GoneSession],
) -> None:
    error = RuntimeError("Job aborted due to stage failure: Master removed our application: FAILED")
    runner = SparkEpochRunner(SparkHandle(cast("Any", session(error)), 1))
    with pytest.raises(SparkStoppedError, match="Master removed our application") as caught:
        runner.run(PLAN)
    assert is_non_recoverable(caught.value)
    assert exit_code_of(caught.value) is ExitCode.TEMPORARY


class BusySession(GoneSession):
    """A session whose application goes on."""

    _jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))


def test_lost_executor_is_named_as_the_reason_and_the_words_of_spark_stay_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    advice = RuntimeError("A shuffle map stage with indeterminate output was failed and retried.")
    lost = [ExecutorLostError("1", "host-2", "Command exited with code 137")]
    spark = SparkHandle(cast("Any", BusySession(advice)), 1)
    with pytest.raises(EpochInfrastructureError) as caught:
        SparkEpochRunner(spark, lost_since=lambda _: lost).run(PLAN)
    assert str(caught.value) == f"Spark lost an epoch: {lost[0]}"
    assert "executor 1 on host-2 is lost (Command exited with code 137)" in str(caught.value)
    assert "indeterminate output" in caplog.text
    with pytest.raises(EpochInfrastructureError, match="indeterminate output"):
        SparkEpochRunner(spark).run(PLAN)


def test_task_on_a_host_with_another_penstock_ends_before_it_has_done_anything() -> None:
    check_version(__version__)
    with pytest.raises(UnsuitableHostError) as caught:
        check_version("0.0.1")
    for told in (socket.gethostname(), f"Penstock {__version__}", sys.executable, "the driver 0.0.1"):
        assert told in str(caught.value)


@pytest.mark.parametrize(
    ("last", "kind", "words"),
    [
        (
            "penstock.errors.CheckpointStorageError: s3://b/c cannot be used: it is away.",
            EpochInfrastructureError,
            "away",
        ),
        ("penstock.errors.UnsuitableHostError: host b has Penstock 0.0.1", EpochInfrastructureError, "0.0.1"),
        ("penstock.errors.InternalError: the Spark job came without its dispatch", InternalError, "dispatch"),
        ("ModuleNotFoundError: No module named 'penstock'", WorkerPythonError, "python3.12"),
        ("ValueError: no idea", InternalError, "no idea"),
    ],
)
def test_task_that_could_not_begin_costs_the_epoch_and_is_no_bug_of_ours(
    last: str, kind: type[Exception], words: str
) -> None:
    said = (
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\nTraceback (most recent "
        f'call last):\n  File "/opt/penstock/_engine/spark/epoch.py", line 1, in _task\n{last}\n'
    )
    error = worker_error(PythonException(said), "python3.12")
    assert type(error) is kind
    assert words in str(error)
    if kind is EpochInfrastructureError:
        assert "Traceback" not in str(error)


class AnsweringSession(GoneSession):
    """A session that runs whatever it is given."""

    def __init__(self) -> None:
        super().__init__(RuntimeError("never raised"))

    def setJobGroup(self, *_: object, **__: object) -> None:
        pass

    def setLocalProperty(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("cancelled", [False, True])
def test_epoch_counts_only_after_its_hosts_were_checked(monkeypatch: pytest.MonkeyPatch, *, cancelled: bool) -> None:
    def refuse(hosts: object) -> None:
        assert hosts == {"late"}
        if cancelled:
            runner._cancelled.set()
        raise UnsuitableHostError("spark://master:7077", ("host late has no disk",))

    runner = SparkEpochRunner(SparkHandle(cast("Any", AnsweringSession()), 1), check_hosts=refuse)
    rows = [(PayloadKind.ACK, encode(ack(0, 0, host="late")))]
    monkeypatch.setattr(runner, "_rows", lambda _: rows)
    with pytest.raises(EpochCancelledError if cancelled else UnsuitableHostError):
        runner.run(PLAN)
    assert not runner._cancelled.is_set()


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

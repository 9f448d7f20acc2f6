"""Which sessions of Spark are refused by a job whose levels run at the same time, and how an epoch waits for slots."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from penstock._engine.spark import executors, pipelined
from penstock._engine.spark.pipelined import PipelinedPlan, check_session
from penstock._engine.spark.session import PIPELINED_CONF, SparkHandle
from penstock.common import Configuration
from penstock.errors import UnsuitableClusterError

HERE, CLUSTER = "local[4,4]", "spark://master:7077"


class Session:
    """A session of Spark, and its context.

    Args:
        slots: How many tasks run at the same time, at one look after the other; the last number stays.
        master: Its master.
        version: That of Spark.
        conf: Its settings, beside those that a pipelined job asks for.
    """

    def __init__(
        self, *slots: int, master: str = HERE, version: str = "4.3.0", conf: dict[str, str] | None = None
    ) -> None:
        self.master, self.version, self._slots = master, version, list(slots)
        self._conf = {**PIPELINED_CONF, **(conf or {})}
        self.sparkContext = self._jsc = self

    def getConf(self) -> dict[str, str]:
        return self._conf

    def sc(self) -> Session:
        return self

    def resourceProfileManager(self) -> Session:
        return self

    def defaultResourceProfile(self) -> str:
        return "default"

    def maxNumConcurrentTasks(self, profile: str) -> int:
        assert profile == "default"
        return self._slots.pop(0) if len(self._slots) > 1 else self._slots[0]


def check(session: Session, levels: int = 3, parallelism: int = 200, /, **settings: str) -> None:
    """Check a session for a job with some settings; Spark's default parallelism says nothing of its slots."""
    keys = {f"penstock.spark.{key.replace('_', '-')}": value for key, value in settings.items()}
    handle = SparkHandle(cast("Any", session), parallelism)
    check_session(handle, levels, Configuration.from_dict({"penstock.spark.executors-timeout": "0 s", **keys}))


def refused(session: Session, levels: int = 3, **settings: str) -> tuple[str, ...]:
    with pytest.raises(UnsuitableClusterError) as caught:
        check(session, levels, **settings)
    assert caught.value.master == session.master
    assert all(problem.startswith("penstock.exchange = pipelined") for problem in caught.value.problems)
    return caught.value.problems


def test_suitable_sessions_are_taken_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    check(Session(3))
    check(Session(3, master=CLUSTER))
    assert not caplog.records


def test_older_spark_is_refused() -> None:
    (problem,) = refused(Session(8, version="4.2.1"))
    assert problem.endswith("Spark 4.2.1 has no pipelined shuffle, which came with 4.3")


@pytest.mark.parametrize("key", ["spark.dynamicAllocation.enabled", "spark.speculation"])
def test_spark_that_changes_executors_or_tasks_by_itself_is_refused(key: str) -> None:
    (problem,) = refused(Session(8, master=CLUSTER, conf={key: "true"}))
    assert problem.endswith(f"{key} is on; switch it off")
    check(Session(8, conf={key: "false"}))


def test_all_that_is_wrong_is_told_at_once() -> None:
    conf = {"spark.dynamicAllocation.enabled": "true", "spark.speculation": "true"}
    assert len(refused(Session(0, version="4.1.0", conf=conf))) == 3


@pytest.mark.parametrize("master", [HERE, CLUSTER])
def test_fewer_slots_than_levels_are_refused_with_both_numbers(master: str) -> None:
    (problem,) = refused(Session(2, master=master))  # whatever spark.default.parallelism says
    assert "a slot for each of its 3 levels" in problem
    assert "Spark has 2;" in problem


def test_executors_that_come_late_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_COMING_S", 0)
    late = Session(0, 1, 2, 100, master=CLUSTER)
    check(late, 3, 2, executors_timeout="1 h")
    assert late.maxNumConcurrentTasks("default") == 100


def test_more_slots_than_spark_has_are_refused_on_a_cluster() -> None:
    (problem,) = refused(Session(4, master=CLUSTER), slots="8")
    assert problem.endswith(
        "penstock.spark.slots is 8, and all tasks of an epoch run at the same time, but Spark has 4 slots; leave it out"
    )
    check(Session(4, master=CLUSTER), slots="4")
    check(Session(4), slots="8")  # which counts on clusters only


def test_session_without_what_makes_records_fast_is_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    check(Session(3, conf=dict.fromkeys(PIPELINED_CONF, "")))
    (record,) = caplog.records
    assert all(f"{key}={value}" in record.getMessage() for key, value in PIPELINED_CONF.items())


def test_session_of_an_earlier_job_of_the_process_is_to_be_ended(caplog: pytest.LogCaptureFixture) -> None:
    configuration = Configuration()
    started = SparkHandle(cast("Any", Session(2, conf=dict.fromkeys(PIPELINED_CONF, ""))), 2, jvm=cast("Any", object()))
    with pytest.raises(UnsuitableClusterError, match=r"Spark has 2; .* with `SparkSession\.active\(\)\.stop\(\)`"):
        check_session(started, 3, configuration)
    check_session(started, 2, configuration)
    (record,) = caplog.records
    assert "`SparkSession.active().stop()`, and the job starts another" in record.getMessage()


# -------------------------------------------------------------------------------------------------- epochs that wait


class Refusing(PipelinedPlan):
    """The plan of an epoch that Spark refuses some times."""

    def __init__(self, times: int, said: str = "[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT] it needs 3, only 2") -> None:
        self.left, self._said = times, said

    def _collect(self) -> list[str]:
        if self.left:
            self.left -= 1
            raise RuntimeError(self._said)
        return ["1 eA=="]


def test_epoch_waits_until_spark_has_a_slot_for_each_of_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined, "_AGAIN_S", 0)
    assert Refusing(20).collect(threading.Event()) == ["1 eA=="]


def test_epoch_is_lost_with_the_words_of_spark_after_a_time_without_slots_and_at_once_for_anything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(RuntimeError, match="a host is gone"):
        Refusing(1, "a host is gone").collect(threading.Event())
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(RuntimeError, match="needs 3, only 2"):
        Refusing(1).collect(cancelled)
    monkeypatch.setattr(pipelined, "_SLOTS_S", -1)
    with pytest.raises(RuntimeError, match="needs 3, only 2"):
        Refusing(1).collect(threading.Event())

"""How many tasks a cluster runs at the same time, as its executors come and go."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock._engine.gateway.executor_view import ExecutorView
from penstock._engine.plan.homes import ANYWHERE
from penstock._engine.protocol.clocks import Moment
from penstock._engine.spark.executors import SparkExecutors, slots_of

if TYPE_CHECKING:
    import pytest


def executor(number: int, cores: int) -> ExecutorView:
    return ExecutorView(f"spark-{number}", f"host-{number}", 0, cores, 0, 0, 0)


def cluster(**conf: str) -> Any:
    named = {key.replace("_", "."): value for key, value in conf.items()}
    return SimpleNamespace(session=SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: named)))


class Listed:
    """The executors that Spark lists."""

    def __init__(self, *cores: int) -> None:
        self.cores = cores

    def look(self) -> SparkExecutors:
        executors = SparkExecutors(lambda: tuple(executor(number, cores) for number, cores in enumerate(self.cores)))
        executors.look()
        executors._looked = float("inf")  # it is not looked again in the background
        return executors


def test_slots_are_the_cores_of_the_executors_and_change_with_them() -> None:
    listed = Listed(2, 4)
    executors = listed.look()
    slots = slots_of(cluster(), executors, None, parallelism=100)
    assert slots() == ("host-0", "host-1", "host-0", "host-1", "host-1", "host-1")
    listed.cores = (2, 4, 8)
    executors.look()
    assert len(slots()) == 14
    listed.cores = ()
    executors.look()
    assert slots() == (ANYWHERE,)  # a task that waits for a new executor


def test_a_task_of_several_cores_takes_them_on_one_executor() -> None:
    assert len(slots_of(cluster(spark_task_cpus="2"), Listed(3, 4).look(), None, parallelism=100)()) == 3


def test_fixed_slots_do_not_follow() -> None:
    assert len(slots_of(cluster(), Listed(2, 4).look(), 5, parallelism=100)()) == 5


def test_with_dynamic_allocation_tasks_wait_so_that_spark_adds_executors() -> None:
    conf = {"spark_dynamicAllocation_enabled": "true", "spark_executor_cores": "4"}
    assert len(slots_of(cluster(**conf), Listed(4).look(), None, parallelism=100)()) == 100
    assert len(slots_of(cluster(**conf, spark_dynamicAllocation_maxExecutors="3"), Listed().look(), None, 100)()) == 12
    assert len(slots_of(cluster(**conf), Listed(4, 4, 4).look(), None, parallelism=2)()) == 12


def test_lost_executors_are_told_once_with_the_reason_and_those_that_spark_ends_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    there = [0, 1, 2, 3]
    reasons = {"spark-1": "Command exited with code 137", "spark-2": "Executor killed by driver."}
    executors = SparkExecutors(
        lambda: tuple(executor(number, 2) for number in there), lambda name: reasons.get(name, "")
    )
    executors.look()
    executors._looked = float("inf")  # it is not looked again in the background
    assert executors.take_lost(False) == []
    there[:] = [0]
    executors.look()
    executors.look()
    lost = executors.take_lost(False)
    assert [(one.executor, one.host, one.reason) for one in lost] == [
        ("1", "host-1", "Command exited with code 137"),
        ("3", "host-3", ""),
    ]
    assert executors.take_lost(False) == []
    assert "executor 1 on host-1 is lost (Command exited with code 137)" in caplog.text
    assert "executor 2" not in caplog.text


class SlowList:
    """Spark's list of executors, which comes when it is let go, as it was when it was asked for."""

    def __init__(self) -> None:
        self.there = [0, 1]
        self.asked, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self) -> tuple[ExecutorView, ...]:
        now = tuple(executor(number, 2) for number in self.there)
        self.asked.release()
        assert self.go.acquire(timeout=10)
        return now


def test_an_executor_is_lost_once_and_a_living_one_never_though_spark_answers_slowly() -> None:
    listed = SlowList()
    executors = SparkExecutors(listed)
    listed.go.release()
    executors.look()
    executors._looked = float("inf")
    assert listed.asked.acquire(timeout=10)
    looks = [threading.Thread(target=executors.look) for _ in range(2)]
    listed.there = [0]
    looks[0].start()
    assert listed.asked.acquire(timeout=10)
    listed.there = [0, 2]  # a new one has come before the second look
    looks[1].start()
    listed.go.release(2)
    for look in looks:
        look.join(10)
    assert [one.executor for one in executors.take_lost(False)] == ["1"]
    assert [one.id for one in executors()] == ["spark-0", "spark-2"]


def test_an_executor_that_is_lost_before_the_end_of_a_job_is_told_and_one_without_a_reason_too() -> None:
    there = [0, 1]

    def silent(_: str) -> str:
        msg = "the JVM does not answer"
        raise ConnectionError(msg)

    executors = SparkExecutors(lambda: tuple(executor(number, 2) for number in there), silent)
    executors.look()
    executors._looked = float("inf")  # no epoch looks again
    there[:] = [1]
    assert executors.take_lost(False) == []
    assert [(one.executor, one.reason) for one in executors.take_lost(True)] == [("0", "")]


def test_an_executor_that_is_lost_in_a_long_epoch_is_told_while_it_runs() -> None:
    there = [0, 1]
    looked = threading.Event()

    def list_them() -> tuple[ExecutorView, ...]:
        found = tuple(executor(number, 2) for number in there)
        if len(found) < 2:
            looked.set()
        return found

    executors = SparkExecutors(list_them)
    executors.look()
    there[:] = [1]
    lost = executors.take_lost(False)  # no list was read in the background yet, so this one is old
    assert looked.wait(10)
    executors.look()
    assert [one.executor for one in lost + executors.take_lost(False)] == ["0"]


def test_executors_are_lost_since_a_moment_even_if_spark_lists_the_loss_late() -> None:
    there, passed = [0, 1, 2], [0]
    executors = SparkExecutors(
        lambda: tuple(executor(number, 2) for number in there), clock=lambda: Moment(0, passed[0])
    )
    executors.look()
    there[:] = [1, 2]
    executors.look()
    passed[0] = 10
    begun = Moment(0, 10)
    threading.Timer(0.2, there.pop).start()  # while it is looked for
    assert [one.executor for one in executors.lost_since(begun)] == ["2"]
    assert [one.executor for one in executors.lost_since(Moment(0, 0))] == ["0", "2"]


def test_list_is_read_until_the_job_has_ended_though_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock._engine.spark.executors._FRESH_S", 0.001)
    looks = threading.Semaphore(0)

    def list_them() -> tuple[ExecutorView, ...]:
        looks.release()
        return ()

    executors = SparkExecutors(list_them)
    executors.watch()
    for _ in range(3):
        assert looks.acquire(timeout=10)
    executors.take_lost(True)
    watches = [one for one in threading.enumerate() if one.name == "penstock-executors-watch"]
    for watch in watches:
        watch.join(10)
    assert not any(watch.is_alive() for watch in watches)

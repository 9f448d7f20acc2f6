"""How many tasks a cluster runs at the same time, as its executors come and go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock._engine.gateway.executor_view import ExecutorView
from penstock._engine.plan.homes import ANYWHERE
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
    assert executors.take_lost() == []
    there[:] = [0]
    executors.look()
    executors.look()
    lost = executors.take_lost()
    assert [(one.executor, one.host, one.reason) for one in lost] == [
        ("1", "host-1", "Command exited with code 137"),
        ("3", "host-3", ""),
    ]
    assert executors.take_lost() == []
    assert "executor 1 on host-1 is lost (Command exited with code 137)" in caplog.text
    assert "executor 2" not in caplog.text

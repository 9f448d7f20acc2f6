"""What happens to clusters, one thing after the other, each in a job of its own: it is exact, and says what it saw."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.cluster.life import Life
from tests.cluster.standalone import Standalone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.services.s3 import S3Server

pytestmark = [
    *(pytest.mark.spark, pytest.mark.s3, pytest.mark.fault),
    pytest.mark.skipif("PENSTOCK_TEST_CHURN" not in os.environ, reason="a minute a case: for the campaign"),
]

TOTAL = 8_000
#: For how long the driver is cut off.
SILENCE_S = 60
#: The longest time until a job learns that a master which was started again does not know it.
FORGOTTEN_S = 120
#: Executors are given up when nothing was heard of them for this time.
IMPATIENT = {
    "spark.network.timeout": "20s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "2s",
}
SPECULATING = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "50ms",
}
MIGRATING = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
}


@pytest.fixture(scope="module")
def churning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A cluster whose workers can be decommissioned, and whose master remembers applications."""
    notes = str(tmp_path_factory.mktemp("master"))
    recovery = {"spark.deploy.recoveryMode": "FILESYSTEM", "spark.deploy.recoveryDirectory": notes}
    with Standalone(settings=MIGRATING | recovery) as cluster:
        yield cluster


@pytest.fixture
def hosts(churning: Standalone) -> Standalone:
    """The cluster, with two hosts."""
    while len(churning.hosts) < 2:
        churning.add_host()
    churning.wait_for(len(churning.hosts))
    return churning


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def test_killed_executor_leaves_an_entry_in_the_failure_history(hosts: Standalone, server: S3Server) -> None:
    with Life(hosts, server, "killed-executor", TOTAL) as life:
        life.passes(1000)
        send(hosts.hosts[0].executors(), signal.SIGKILL)
        life.wait_for("the loss", lambda: "ExecutorLost" in life.log or "is lost" in life.log)
        life.run_without_pauses()
        failures = life.end()["failures"]
        again = [line for line in life.log.splitlines() if "runs again" in line]
    assert all("is lost" in line for line in again), again  # an epoch that it has cost names it, and no advice of Spark
    (lost,) = {reason for reason, _ in failures if reason.startswith("ExecutorLostError")}
    assert "137" in lost
    assert not any(counted for _, counted in failures)


def test_with_one_failure_allowed_for_a_task_the_epoch_runs_again_and_no_restart_is_counted(
    hosts: Standalone, server: S3Server
) -> None:
    with Life(hosts, server, "max-failures", TOTAL, {"spark.task.maxFailures": "1"}) as life:
        life.passes(1000)
        life.lose_a_worker()
        life.wait_for("the loss of an epoch", lambda: "runs again" in life.log)
        life.run_without_pauses()
        failures = life.end()["failures"]
    assert failures
    assert not any(counted for _, counted in failures)


def test_task_that_spark_runs_again_stands_in_the_failure_history(hosts: Standalone, server: S3Server) -> None:
    with Life(hosts, server, "retried", TOTAL) as life:
        life.passes(1000)
        life.lose_a_worker()
        life.wait_for("a task that runs again", lambda: "Spark ran the task of slot" in life.log)
        life.run_without_pauses()
        failures = life.end()["failures"]
    assert any(reason.startswith("TaskRetriedError") for reason, _ in failures)
    assert not any(counted for _, counted in failures)


def test_speculative_copies_of_tasks_double_nothing(hosts: Standalone, server: S3Server) -> None:
    with Life(hosts, server, "speculation", TOTAL, SPECULATING) as life:
        life.passes(1000)
        for _ in range(3):  # what stands still is slow enough
            stopped = hosts.hosts[0].python_workers()
            send(stopped, signal.SIGSTOP)
            time.sleep(3)
            send(stopped, signal.SIGCONT)
            time.sleep(1)
        life.run_without_pauses()
        assert not any(counted for _, counted in life.end()["failures"])


def test_executor_that_is_slow_but_alive_costs_time_and_nothing_else(hosts: Standalone, server: S3Server) -> None:
    with Life(hosts, server, "slow", TOTAL) as life:
        life.passes(1000)
        slow = [*hosts.hosts[0].executors(), *hosts.hosts[0].python_workers()]
        send(slow, signal.SIGSTOP)
        time.sleep(15)
        send(slow, signal.SIGCONT)
        life.run_without_pauses()
        assert not any(counted for _, counted in life.end()["failures"])


def test_executor_that_was_given_up_and_lives_on_changes_nothing(hosts: Standalone, server: S3Server) -> None:
    with Life(hosts, server, "given-up", TOTAL, IMPATIENT) as life:
        life.passes(1000)
        slow = [*hosts.hosts[0].executors(), *hosts.hosts[0].python_workers()]
        send(slow, signal.SIGSTOP)
        life.wait_for("the loss", lambda: "is lost" in life.log)
        send(slow, signal.SIGCONT)
        life.run_without_pauses()
        failures = life.end()["failures"]
    assert any(reason.startswith("ExecutorLostError") for reason, _ in failures)
    assert not any(counted for _, counted in failures)


def test_decommissioned_host_hands_its_work_over_and_is_no_failure(hosts: Standalone, server: S3Server) -> None:
    with Life(hosts, server, "decommissioned", TOTAL, MIGRATING) as life:
        life.passes(1000)
        leaving = hosts.hosts[0]
        hosts.add_host()
        hosts.wait_for(3)
        hosts.decommission(leaving)
        life.wait_for("the end of its executor", lambda: not leaving.executors())
        hosts.lose_host(leaving)
        life.run_without_pauses()
        failures = life.end()["failures"]
    assert not any(reason.startswith("ExecutorLostError") for reason, _ in failures), failures
    assert not any(counted for _, counted in failures)


def test_master_that_is_started_again_is_no_failure(hosts: Standalone, server: S3Server) -> None:
    with Life(hosts, server, "master", TOTAL) as life:
        life.passes(1000)
        hosts.lose_master()
        life.passes(2000)  # executors and driver do without it
        hosts.start_master()
        hosts.wait_for(len(hosts.hosts))
        life.run_without_pauses()
        assert life.end()["failures"] == []


def test_application_that_its_master_has_forgotten_ends_its_process_and_the_next_one_goes_on(server: S3Server) -> None:
    with Standalone() as forgetful, Life(forgetful, server, "forgotten", TOTAL, supervised=True) as life:
        life.passes(1000)
        forgetful.lose_master()
        lost = time.monotonic()
        forgetful.start_master()
        life.wait_for("the end of the first process", lambda: "ended with code 75" in life.log)
        assert time.monotonic() - lost < FORGOTTEN_S
        assert "SparkStoppedError" in life.log
        assert "does not know the application" in life.log
        life.run_without_pauses()
        life.end()


def test_driver_that_was_cut_off_for_a_minute_goes_on(hosts: Standalone, server: S3Server) -> None:
    with Life(hosts, server, "cut-off", TOTAL) as life:
        life.passes(1000)
        life.signal_driver(signal.SIGSTOP)  # nothing comes from it, and what is sent to it has no answer
        time.sleep(SILENCE_S)
        life.signal_driver(signal.SIGCONT)
        life.run_without_pauses()
        assert not any(counted for _, counted in life.end()["failures"])

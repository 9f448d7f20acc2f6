"""Jobs on YARN: what happens to its hosts, containers and applications, each in a job of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest
from tests.cluster.conftest import driving
from tests.cluster.life import Life
from tests.cluster.test_cluster import CHECKS
from tests.cluster.yarn import Yarn
from tests.services import yarn as service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.conftest import Driver
    from tests.services.s3 import S3Server

pytestmark = [
    *(pytest.mark.spark, pytest.mark.s3, pytest.mark.fault),
    pytest.mark.skipif("PENSTOCK_TEST_YARN" not in os.environ, reason="a minute a case: for the campaign"),
]

TOTAL = 8_000
#: Until YARN has started an executor, or the whole application again.
PATIENCE_S = 180


@pytest.fixture(scope="module")
def yarn() -> Iterator[Yarn]:
    """A cluster of two hosts; where it cannot run, a test is skipped, and in continuous integration it fails."""
    reason = service.why_missing()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with Yarn() as cluster:
        yield cluster


@pytest.fixture
def cluster(yarn: Yarn) -> Yarn:
    """The cluster, with two hosts."""
    while len(yarn.hosts) < 2:
        yarn.add_host()
    while len(yarn.hosts) > 2:
        yarn.lose_host(yarn.hosts[-1])
    yarn.wait_for(2)
    return yarn


@pytest.fixture  # of each test: while one has an application, those of the others get no executors
def driver(yarn: Yarn) -> Iterator[Driver]:
    with driving(yarn) as driver:
        yield driver


def kill(pids: list[int]) -> None:
    assert pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def two_executors(life: Life) -> None:
    life.wait_for("an executor on each host", lambda: all(host.executors() for host in life.cluster.hosts))


def lost(failures: list[tuple[str, bool]]) -> list[str]:
    """Return the entries about lost executors; nothing has counted as a restart."""
    assert not any(counted for _, counted in failures), failures
    return [reason for reason, _ in failures if reason.startswith("ExecutorLostError")]


def test_application_has_the_jobs_name_and_its_state_lies_where_its_containers_may_write(
    cluster: Yarn, server: S3Server
) -> None:
    with Life(cluster, server, "named", TOTAL) as life:
        two_executors(life)
        life.passes(2000)
        application = cluster.manager.applications()[0]
        files = [str(file.relative_to(cluster.own)) for host in cluster.hosts for file in host.files()]
        life.run_without_pauses()
        result = life.end()
    assert (application["name"], application["applicationType"]) == ("count", "SPARK")
    ours = [file for file in files if "penstock-" in file]
    assert ours
    assert all(file.startswith("yarn/usercache/") and f"/{application['id']}/" in file for file in ours), ours
    assert lost(result["failures"]) == []


def test_killed_executor_costs_no_restart_and_gets_a_successor(cluster: Yarn, server: S3Server) -> None:
    with Life(cluster, server, "executor", TOTAL) as life:
        two_executors(life)
        life.passes(1000)
        kill(cluster.hosts[0].executors())
        life.wait_for("the loss", lambda: "is lost" in life.log)
        two_executors(life)
        life.run_without_pauses()
        assert lost(life.end()["failures"])


@pytest.mark.parametrize("with_master", [False, True], ids=["alone", "with-the-application-master"])
def test_lost_host_costs_no_restart_and_a_new_one_takes_its_place(
    cluster: Yarn, server: S3Server, with_master: bool
) -> None:
    with Life(cluster, server, f"host-{with_master}".lower(), TOTAL) as life:
        two_executors(life)
        life.passes(1000)
        cluster.lose_host(next(host for host in cluster.hosts if bool(cluster.masters_on(host)) is with_master))
        life.wait_for("the loss", lambda: "is lost" in life.log)
        cluster.add_host()
        two_executors(life)
        life.run_without_pauses()
        assert lost(life.end()["failures"])


def test_node_manager_that_is_killed_alone_leaves_containers_that_change_nothing(
    cluster: Yarn, server: S3Server
) -> None:
    with Life(cluster, server, "node-manager", TOTAL) as life:
        two_executors(life)
        life.passes(1000)
        left = next(host for host in cluster.hosts if not cluster.masters_on(host))
        kill(left.javas("NodeManager"))
        cluster.add_host()
        cluster.wait_for(2)  # YARN has given the host up, and the executor there
        new = cluster.hosts[-1]
        life.wait_for("an executor on the new host", lambda: bool(new.executors()))
        cluster.lose_host(left)
        life.run_without_pauses()
        lost(life.end()["failures"])


def test_killed_application_master_gets_a_successor_and_costs_no_restart(cluster: Yarn, server: S3Server) -> None:
    with Life(cluster, server, "master", TOTAL) as life:
        two_executors(life)
        life.passes(1000)
        first = cluster.application_masters()
        kill(first)
        life.wait_for("another ApplicationMaster", lambda: bool(set(cluster.application_masters()) - set(first)))
        two_executors(life)
        life.run_without_pauses()
        lost(life.end()["failures"])


def test_application_that_yarn_has_ended_ends_its_process_and_the_next_one_goes_on(
    cluster: Yarn, server: S3Server
) -> None:
    with Life(cluster, server, "ended", TOTAL, supervised=True) as life:
        two_executors(life)
        life.passes(1000)
        cluster.manager.kill(cluster.manager.applications()[0]["id"])
        life.wait_for("the end of the first process", lambda: "ended with code 75" in life.log)
        assert "SparkStoppedError" in life.log
        life.run_without_pauses()
        life.end()


def test_killed_driver_is_started_again_and_another_application_goes_on(cluster: Yarn, server: S3Server) -> None:
    before = len(cluster.manager.applications())
    with Life(cluster, server, "driver", TOTAL) as life:
        life.passes(1000)
        life.close()
        life.start()
        life.goes_on()
        life.run_without_pauses()
        life.end()
    assert len(cluster.manager.applications()) == before + 2


def test_job_that_is_started_again_with_more_subtasks_and_executors_is_exact(cluster: Yarn, server: S3Server) -> None:
    with Life(cluster, server, "rescaled", TOTAL) as life:
        two_executors(life)
        life.passes(1000)
        life.close()
        cluster.add_host()
        life.start(parallelism=5, executors=3)
        two_executors(life)  # on all three
        life.goes_on()
        life.run_without_pauses()
        assert set(life.end()["subtasks"]) == {5}


def test_error_names_host_and_interpreter_where_the_environment_is_a_link_to_what_hosts_lack(
    cluster: Yarn, tmp_path: Path
) -> None:
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to("/nowhere/bin/python3")
    with tarfile.open(cluster.shared / "env.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "env", ".")
    variables = {
        **cluster.environment(),
        "PYSPARK_PYTHON": "./env/bin/python",
        "PYSPARK_SUBMIT_ARGS": f"--archives {cluster.shared}/env.tar.gz#env pyspark-shell",
    }
    command = [sys.executable, "-m", "penstock", "doctor", "--master", cluster.url]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1, done.stderr
    assert "executors on host 127.0.0." in done.stdout
    assert "'./env/bin/python'" in done.stdout


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_hosts_have_what_a_job_needs_or_the_start_says_what_they_lack(
    check: Callable[[Yarn, Driver, S3Server], None], cluster: Yarn, driver: Driver, server: S3Server
) -> None:
    check(cluster, driver, server)

"""flink-rest-client, the Python client of Flink's REST API from PyPI, in all its calls but those for jars."""

from __future__ import annotations

import importlib
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.compat.flink_cli.live_job import Cluster
from tests.services.tools import FLINK_CLIENT

sys.path.append(str(FLINK_CLIENT))
try:
    flink_rest_client: Any = pytest.importorskip("flink_rest_client", reason="not here: make tools gets it")
    RestException: Any = importlib.import_module("flink_rest_client.common").RestException
finally:
    sys.path.remove(str(FLINK_CLIENT))

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNKNOWN = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A process with a job that runs for ever, and without a token: the client can send none."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    made.job()
    yield made
    made.close()


@pytest.fixture
def client(cluster: Cluster) -> Any:
    host, port = cluster.at.split(":")
    return flink_rest_client.FlinkRestClient.get(host=host, port=port)


def ended(trigger: Any) -> Any:
    """Wait for an operation, and return what came of it."""
    end = time.monotonic() + 30
    while (answer := trigger.status)["status"]["id"] != "COMPLETED":
        assert time.monotonic() < end
        time.sleep(0.02)
    return answer["operation"]


def test_the_process(client: Any) -> None:
    assert client.overview()["jobs-running"] == 1
    assert client.config()["flink-version"]
    assert client.datasets() == []
    assert ended(client.delete_dataset(UNKNOWN)) == {}
    manager = client.jobmanager
    assert manager.config()["rest.port"] == "0"
    assert manager.logs() == []
    assert "numRunningJobs" in manager.metric_names()
    assert manager.metrics()["numRunningJobs"] == "1"
    with pytest.raises(RestException, match="where the program sends it"):
        manager.get_log("jobmanager.log")


def test_task_managers(client: Any) -> None:
    managers = client.taskmanagers
    (name,) = managers.taskmanager_ids()
    assert managers.get(name)["slotsNumber"] == 2
    assert managers.get_logs(name) == []
    assert managers.get_thread_dump(name)
    assert managers.metrics()["taskSlotsTotal"]["max"] == 2
    assert managers.get_metrics(name)["taskSlotsTotal"] == "2"


@pytest.mark.behaviour(183)
def test_jobs_and_their_checkpoints(client: Any, cluster: Cluster) -> None:
    jobs, job_id = client.jobs, cluster.jobs[0].job_id
    assert job_id in jobs.job_ids()
    assert {row["state"] for row in jobs.overview() if row["jid"] == job_id} == {"RUNNING"}
    assert jobs.metrics()["uptime"]["max"] > 0
    assert int(jobs.get_metrics(job_id)["uptime"]) > 0
    assert jobs.get(job_id)["jid"] == jobs.get_config(job_id)["jid"] == job_id
    assert jobs.get_exceptions(job_id)["exceptionHistory"]["entries"] == []
    assert jobs.get_execution_result(job_id) == {"status": {"id": "IN_PROGRESS"}}
    assert jobs.get_plan(job_id)["jid"] == job_id
    assert jobs.get_accumulators(job_id, include_serialized_value=True)["job-accumulators"] == []
    assert jobs.get_checkpointing_configuration(job_id)["interval"] == 300
    assert jobs.get_checkpoints(job_id)["counts"]["completed"] > 0
    ids = jobs.get_checkpoint_ids(job_id)
    assert len(set(ids)) == len(ids)
    newest = jobs.get_checkpoints(job_id)["latest"]["completed"]["id"]
    assert jobs.get_checkpoint_details(job_id, newest, show_subtasks=True)["subtasks"]
    with pytest.raises(RestException, match="keeps its parallelism"):
        jobs.rescale(job_id, 4)


@pytest.mark.behaviour(183)
def test_vertices(client: Any, cluster: Cluster) -> None:
    jobs, job_id = client.jobs, cluster.jobs[0].job_id
    for vertex_id in jobs.get_vertex_ids(job_id):
        vertex = jobs.get_vertex(job_id, vertex_id)
        assert vertex.details()["id"] == vertex_id
        assert vertex.backpressure()["status"] == "ok"
        assert vertex.metrics()[vertex.metric_names()[0]] is not None
        assert vertex.subtasktimes()["subtasks"]
        assert vertex.taskmanagers()["taskmanagers"]
        assert vertex.watermarks()
        subtasks = vertex.subtasks
        assert subtasks.subtask_ids() == [row["subtask"] for row in vertex.details()["subtasks"]]
        assert subtasks.accumulators()["id"] == vertex_id
        assert subtasks.metrics()["numRecordsIn"]["sum"] >= 0
        attempt = subtasks.get(0)["attempt"]
        assert subtasks.get_attempt(0)["subtask"] == subtasks.get_attempt(0, attempt)["subtask"] == 0
        assert subtasks.get_attempt_accumulators(0)["attempt"] == attempt


@pytest.mark.behaviour(183)
def test_savepoints_stops_and_ends(client: Any, cluster: Cluster, tmp_path: Path) -> None:
    jobs = client.jobs
    first, second = cluster.job(), cluster.job()
    made = ended(jobs.create_savepoint(first.job_id, str(tmp_path)))["location"]
    assert made.startswith(f"file:{tmp_path}/savepoint-")
    assert ended(jobs.stop(first.job_id, str(tmp_path), drain=True))["location"] != made
    assert first.result.result(30)
    assert jobs.terminate(second.job_id)
    assert second.result.exception(30) is not None
    assert client.jobs.get(second.job_id)["state"] == "CANCELED"


def test_a_cluster_that_is_shut_down(tmp_path: Path) -> None:
    made = Cluster(tmp_path)
    job = made.job()
    host, port = made.at.split(":")
    assert flink_rest_client.FlinkRestClient.get(host=host, port=port).delete_cluster() == {}
    assert job.result.exception(30) is not None
    made.close()


def test_jars_are_refused_with_what_to_do(client: Any) -> None:
    with pytest.raises(RestException, match="penstock run PROGRAM"):
        client.jars.all()

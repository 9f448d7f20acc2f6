"""Flink's own history server reads what Penstock archives, and answers as Penstock did while the jobs were there."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.compat.flink_cli.command_line import JARS, SHORT, flink_is_here, java
from tests.compat.flink_cli.live_job import Cluster, numbers
from tests.services.process import free_port

from penstock._engine.rest.archiving import Archivist

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.datastream import StreamExecutionEnvironment

pytestmark = [
    pytest.mark.flink,
    pytest.mark.skipif(not flink_is_here(), reason="Flink's jars are not here: make tools gets them"),
]

_MAIN = "org.apache.flink.runtime.webmonitor.history.HistoryServer"
LIMIT_S = 60
#: What it answers of a job; the other paths of the API ask for what is going on.
OF_A_JOB = ("", "/exceptions", "/checkpoints", "/checkpoints/config", "/config", "/plan", "/accumulators")


def succeeds(env: StreamExecutionEnvironment) -> None:
    numbers(env, 50, 200).key_by(lambda number: number % 5).reduce(max).print()


def fails(env: StreamExecutionEnvironment) -> None:
    numbers(env, 200, 200).map(lambda number: 1 // (100 - number)).print()


@contextmanager
def history_server(place: Path, archives: Path) -> Iterator[str]:
    """Flink's history server over a directory, in a process of its own; yields its address."""
    port = free_port()
    settings = {
        "historyserver.archive.fs.dir": archives.as_uri(),
        "historyserver.web.tmpdir": str(place / "web"),
        "historyserver.web.address": "127.0.0.1",
        "historyserver.web.port": port,
    }
    (place / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
    command = [java(), *SHORT, "-classpath", f"{JARS}/*", _MAIN, "--configDir", place]
    with (
        (place / "log").open("w+") as log,
        subprocess.Popen(command, env={**os.environ, "FLINK_CONF_DIR": str(place)}, stdout=log, stderr=log) as process,
    ):
        try:
            address, end = f"http://127.0.0.1:{port}", time.monotonic() + LIMIT_S
            while not _listens(port):
                assert process.poll() is None, (place / "log").read_text()
                assert time.monotonic() < end, (place / "log").read_text()
                time.sleep(0.1)
            yield address
        finally:
            process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def asked(address: str) -> Any:
    """Return the answer of a path, without the parts that depend on the time of the request."""
    answer = httpx.get(address)
    assert answer.status_code == 200, (address, answer.text)
    found = answer.json()
    if isinstance(found, dict):
        found.pop("now", None)
    return found


def lines(address: str) -> dict[str, dict[str, Any]]:
    """Return the list of jobs by id, without our own member, because of which Flink's server would list no job."""
    found = asked(address + "/jobs/overview")["jobs"]
    return {line["jid"]: {name: value for name, value in line.items() if name != "penstock"} for line in found}


@pytest.mark.behaviour(177)
def test_flinks_history_server_lists_archived_jobs_and_answers_as_we_did(tmp_path: Path) -> None:
    archives, place = tmp_path / "archives", tmp_path / "flink"
    archives.mkdir()
    place.mkdir()
    cluster = Cluster(tmp_path / "cluster", **{"restart-strategy.type": "none"})
    jobs = [cluster.job(build) for build in (succeeds, fails)]
    for job in jobs:
        job.result.exception(LIMIT_S)
        Archivist(str(archives), {}, None).job_ended(job.view)
    assert {job.status.name for job in jobs} == {"FINISHED", "FAILED"}

    paths = [f"/jobs/{job.job_id}{below}" for job in jobs for below in OF_A_JOB]
    for job in jobs:
        at = f"/jobs/{job.job_id}/vertices"
        paths += [f"{at}/{vertex.id}{below}" for vertex in job.view.plan.vertices for below in ("", "/subtasktimes")]
    ours = {path: asked(cluster.server.address + path) for path in paths}
    listed = lines(cluster.server.address)
    assert "ZeroDivisionError" in json.dumps(ours[f"/jobs/{jobs[1].job_id}/exceptions"])
    cluster.close()

    with history_server(place, archives) as address:
        theirs = {path: asked(address + path) for path in paths}
        listed_there = lines(address)
    assert theirs == ours
    # They leave out what stands for nothing, and may add what is new.
    assert {job_id: listed_there[job_id] | line for job_id, line in listed.items()} == listed_there

"""Flink's own command line against a running job, and what it sends where it is not installed.

The tests marked ``flink`` need Flink's jars, which ``make tools`` gets where it can. With ``PENSTOCK_RECORD_FLINK=1``
they write down what the client sends: the requests that the other test sends always.
"""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.compat.flink_cli.cases import CASES, RECORDED, Case, general
from tests.compat.flink_cli.command_line import flink, flink_is_here
from tests.compat.flink_cli.live_job import Cluster, numbers, recorder
from tests.fault.job import count, is_truth, published  # pyright: ignore[reportUnknownVariableType]

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver
    from penstock.datastream import StreamExecutionEnvironment

NEEDS_FLINK = pytest.mark.skipif(not flink_is_here(), reason="Flink's jars are not here: make tools gets them")
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))


class Setting:
    """A job for one case, of its own where it has to end, and what the case's arguments stand for."""

    def __init__(self, case: Case, place: Path, cluster: Cluster) -> None:
        self.case = case
        self.cluster = cluster
        self.job: JobDriver = cluster.jobs[0] if case.leaves == "RUNNING" else cluster.job()
        directory = place / "directory"
        directory.mkdir()
        (place / "file").touch()
        self.known = {"job": self.job.job_id, "directory": str(directory), "file": str(place / "file")}
        if "{savepoint}" in case.arguments:
            self.known["savepoint"] = self.cluster.savepoint(self.job)

    def filled(self, text: str) -> str:
        for name, value in self.known.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def check_end(self) -> None:
        if self.case.leaves != "RUNNING":
            self.job.result.exception(30)
        assert self.job.status.name == self.case.leaves


@contextmanager
def running(place: Path, **settings: str) -> Generator[Cluster]:
    """A process with a job that runs for ever."""
    made = Cluster(place, **settings)
    try:
        made.job()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(case: Case, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if not case.settings:
        yield request.getfixturevalue("shared_cluster")
        return
    with running(tmp_path / "cluster", **dict(case.settings)) as cluster:
        yield cluster


@NEEDS_FLINK
@pytest.mark.flink
@pytest.mark.sampled(3)
@EVERY_CASE
def test_flinks_own_command_line(case: Case, tmp_path: Path, cluster: Cluster) -> None:
    setting, requests = Setting(case, tmp_path, cluster), list[dict[str, Any]]()
    with recorder(cluster.server.address, requests) as address:
        arguments = [setting.filled(argument) for argument in case.arguments]
        exit_code, printed = flink(address, *arguments, place=tmp_path)
    assert exit_code == case.exit_code, printed
    assert re.search(setting.filled(case.says), printed), printed
    setting.check_end()
    if os.environ.get("PENSTOCK_RECORD_FLINK"):
        _record(case, general(requests, setting.known))


def _record(case: Case, requests: list[dict[str, Any]]) -> None:
    known: dict[str, Any] = json.loads(RECORDED.read_text()) if RECORDED.is_file() else {}
    RECORDED.write_text(json.dumps({**known, case.name: requests}, indent=1) + "\n")


@pytest.mark.behaviour(177)
@pytest.mark.sampled(3)
@EVERY_CASE
def test_what_flinks_command_line_sends_gets_the_same_answers(case: Case, tmp_path: Path, cluster: Cluster) -> None:
    setting = Setting(case, tmp_path, cluster)
    answers: list[str] = []
    for request in json.loads(RECORDED.read_text())[case.name]:
        trigger = json.loads(answers[0]).get("request-id", "") if answers else ""
        path, body = setting.filled(request["path"]).replace("{trigger}", trigger), setting.filled(request["body"])
        asked = cluster.server.address + path
        answer = httpx.request(request["method"], asked, content=body.encode(), headers=request["headers"])
        while '"IN_PROGRESS"' in answer.text:
            time.sleep(0.01)
            answer = httpx.request(request["method"], asked, content=body.encode(), headers=request["headers"])
        assert answer.status_code == request["status"], answer.text
        answers.append(answer.text)
    failed = "failure-cause" in answers[-1] or '"errors"' in answers[-1]
    assert failed == (case.exit_code != 0), answers
    setting.check_end()


@NEEDS_FLINK
@pytest.mark.flink
def test_flinks_headers_variable_carries_the_token(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", **{"penstock.rest.token": "operate-0123456789"}) as cluster:
        more = {"FLINK_REST_CLIENT_HEADERS": "Authorization:Bearer operate-0123456789"}
        exit_code, printed = flink(cluster.at, "list", place=tmp_path, more=more)
        assert exit_code == 0, printed
        assert cluster.jobs[0].job_id in printed
        exit_code, printed = flink(cluster.at, "list", place=tmp_path)
        assert exit_code == 1
        assert "A token is needed" in printed


@NEEDS_FLINK
@pytest.mark.flink
@pytest.mark.behaviour(177)
def test_job_goes_on_at_another_parallelism_from_the_savepoint_that_flinks_stop_made(
    shared_cluster: Cluster, tmp_path: Path
) -> None:
    total = 2_000

    def counting(env: StreamExecutionEnvironment, parallelism: int, per_second: int) -> None:
        count(numbers(env.set_parallelism(parallelism), total, per_second), tmp_path)

    first = shared_cluster.job(partial(counting, parallelism=2, per_second=100))
    exit_code, printed = flink(shared_cluster.at, "stop", "-p", str(tmp_path / "sp"), first.job_id, place=tmp_path)
    assert exit_code == 0, printed
    stopped = re.search(r"Path: (file:\S+)", printed)
    assert stopped
    assert 0 < len(published(tmp_path)) < total

    recover = {"execution.state-recovery.path": stopped.group(1)}
    second = shared_cluster.job(partial(counting, parallelism=3, per_second=10_000), **recover)
    second.result.result(60)
    assert {vertex.parallelism for vertex in second.view.plan.vertices} == {3}
    assert is_truth(tmp_path, total)

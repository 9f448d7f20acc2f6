"""Flink's own command line against a running job, and what it sends where it is not installed.

The tests marked ``flink`` need the `apache-flink` package somewhere; ``python -m tests.compat.flink_cli.command_line``
installs it. With ``PENSTOCK_RECORD_FLINK=1`` they write down what the client sends: the requests that the other test
sends always.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.compat.flink_cli.cases import CASES, RECORDED, Case, general
from tests.compat.flink_cli.command_line import flink, flink_home
from tests.compat.flink_cli.live_job import Cluster, recorder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver

HOME = flink_home()
NEEDS_FLINK = pytest.mark.skipif(HOME is None, reason="apache-flink is not installed")
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))


class Setting:
    """A job for one case, and what its arguments stand for."""

    def __init__(self, case: Case, place: Path, cluster: Cluster) -> None:
        self.case = case
        self.cluster = cluster
        self.job: JobDriver = cluster.job()
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


@pytest.fixture
def cluster(case: Case, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster", **dict(case.settings))
    yield made
    made.close()


@NEEDS_FLINK
@pytest.mark.flink
@EVERY_CASE
def test_flinks_own_command_line(case: Case, tmp_path: Path, cluster: Cluster) -> None:
    assert HOME is not None
    setting, requests = Setting(case, tmp_path, cluster), list[dict[str, Any]]()
    with recorder(cluster.server.address, requests) as address:
        arguments = [setting.filled(argument) for argument in case.arguments]
        exit_code, printed = flink(HOME, address, *arguments, place=tmp_path)
    assert exit_code == case.exit_code, printed
    assert re.search(setting.filled(case.says), printed), printed
    setting.check_end()
    if os.environ.get("PENSTOCK_RECORD_FLINK"):
        _record(case, general(requests, setting.known))


def _record(case: Case, requests: list[dict[str, Any]]) -> None:
    known = json.loads(RECORDED.read_text()) if RECORDED.is_file() else {}
    RECORDED.write_text(json.dumps({**known, case.name: requests}, indent=1) + "\n")


@pytest.mark.behaviour(177)
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
@pytest.mark.parametrize("case", [CASES[0]], ids=["with-token"])
def test_flinks_headers_variable_carries_the_token(case: Case, tmp_path: Path) -> None:
    assert HOME is not None
    made = Cluster(tmp_path / "cluster", **{"penstock.rest.token": "s3cret"})
    try:
        setting = Setting(case, tmp_path, made)
        address = made.server.address.removeprefix("http://")
        more = {"FLINK_REST_CLIENT_HEADERS": "Authorization:Bearer s3cret"}
        exit_code, printed = flink(HOME, address, *case.arguments, place=tmp_path, more=more)
        assert exit_code == 0, printed
        assert setting.job.job_id in printed
        exit_code, printed = flink(HOME, address, *case.arguments, place=tmp_path)
        assert exit_code == 1
        assert "A token is needed" in printed
    finally:
        made.close()

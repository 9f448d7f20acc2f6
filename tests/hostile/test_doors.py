"""The doors of REST, tried by another user of the host and by what one may have planted: all of them are shut.

What another user does runs as one (65534), which takes root; elsewhere those tests are skipped and say so.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.compat.flink_cli.live_job import Cluster

from penstock._engine.processes.registry import JobRegistry, RegistryEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534
AS_ANOTHER_USER = pytest.mark.skipif(
    getattr(os, "geteuid", lambda: 1)() != 0, reason="needs root, to run as another user of the host"
)
#: A client of another user; prints the result of each request, and of the search for the token.
INTRUDER = """
import encodings.idna, json, os, sys, urllib.error, urllib.request
user, address, job, registry, own, token = sys.argv[1:]
os.setgroups([]), os.setgid(int(user)), os.setuid(int(user))
asked = {}
def ask(method, path, body=None):
    headers = {"Content-Type": "application/json", **({"Authorization": "Bearer " + token} if token else {})}
    request = urllib.request.Request(address + path, body and json.dumps(body).encode(), headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            asked[method + " " + path] = answer.status
    except urllib.error.HTTPError as error:
        asked[method + " " + path] = error.code
at = "/jobs/" + job
for path in ("/jobs",) if token else ("/jobs", "/v1/jobs/overview", "/metrics", at, at + "/yarn-cancel"):
    ask("GET", path)
ask("POST", f"/jobs/{job}/stop", {"targetDirectory": own})
if not token:  # each wrong one takes longer
    ask("POST", f"/jobs/{job}/savepoints", {"target-directory": own, "cancel-job": True})
    ask("POST", "/savepoint-disposal", {"savepoint-path": own})
    ask("POST", "/penstock/code", {})
    ask("POST", "/penstock/token", {"code": "0123456789abcdef"})
    ask("PATCH", f"/jobs/{job}")
    ask("DELETE", "/cluster")
try:
    found = os.listdir(registry)
except PermissionError:
    found = "denied"
print(json.dumps({"asked": asked, "registry": found, "user": os.geteuid()}))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user of the host can enter, as a home often is."""
    made = Path(tempfile.mkdtemp(prefix="penstock-doors-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def cluster(place: Path) -> Iterator[Cluster]:
    """A process with a job and with what configuration says by default: no token is set."""
    made = Cluster(place, **{"penstock.rest.token": ""})
    made.job()
    yield made
    made.close()


def intrude(cluster: Cluster, own: Path, token: str = "") -> dict[str, Any]:
    """Try all doors as another user."""
    arguments = (cluster.server.address, cluster.jobs[0].job_id, str(cluster.place / "registry"), str(own), token)
    command = [sys.executable, "-I", "-c", INTRUDER, str(NOBODY), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd="/", check=True, timeout=60)
    return json.loads(done.stdout)


@AS_ANOTHER_USER
@pytest.mark.behaviour(180)
def test_another_user_of_the_host_steers_reads_and_finds_nothing(cluster: Cluster, place: Path) -> None:
    own = place / "own"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    for token in ("", "guess-0123456789"):
        seen = intrude(cluster, own, token)
        assert seen["user"] == NOBODY
        assert set(seen["asked"].values()) == {401}
        assert seen["registry"] == "denied"
    assert list(own.iterdir()) == []
    assert cluster.jobs[0].status.name == "RUNNING"


@AS_ANOTHER_USER
def test_entry_that_another_user_has_planted_gets_no_command_to_call(place: Path) -> None:
    registry = place / "registry"
    registry.mkdir()
    registry.chmod(0o777)
    own = JobRegistry(registry)
    own.add(RegistryEntry.of_this_process("ab" * 16, "bait", "http://127.0.0.1:1", 1))
    assert JobRegistry(registry).entries()
    (planted,) = registry.iterdir()
    os.chown(planted, NOBODY, NOBODY)
    assert JobRegistry(registry).entries() == []
    own.clear()


def trigger(cluster: Cluster, path: str, body: dict[str, str]) -> dict[str, Any]:
    """Begin an operation as the operator, and return what came of it."""
    address = f"{cluster.server.address}/v1"
    asked = httpx.post(f"{address}{path}", json=body, headers=cluster.headers)
    at = path.replace("/stop", "/savepoints")
    while True:
        answer = httpx.get(f"{address}{at}/{asked.json()['request-id']}", headers=cluster.headers).json()
        if answer["status"]["id"] == "COMPLETED":
            return answer["operation"]


def tree(place: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_size) for path in place.rglob("*") if not path.is_dir())


@pytest.mark.behaviour(181)
def test_planted_link_leads_no_savepoint_and_no_deletion_elsewhere(cluster: Cluster, place: Path) -> None:
    job = cluster.jobs[0]
    home, drop = place / "home", place / "drop"
    for each in (home, drop):
        each.mkdir()
    (home / "diary.txt").write_text("dear diary")
    theirs = Path(cluster.savepoint(job))
    shutil.copytree(theirs, home / "savepoint")  # a whole one, which no job of this process knows
    (drop / "link").symlink_to(home)
    before = tree(home)
    for directory in (drop / "link", drop / "link" / "below"):
        outcome = trigger(cluster, f"/jobs/{job.job_id}/stop", {"targetDirectory": str(directory)})
        assert "leads through a link" in outcome["failure-cause"]["stack-trace"]
    for path in (home / "savepoint", drop / "link" / "savepoint", home, home / "none", theirs.parent):
        outcome = trigger(cluster, "/savepoint-disposal", {"savepoint-path": str(path)})
        cause = outcome["failure-cause"]["stack-trace"]
        assert "SavepointChangeError" in cause
        assert "diary" not in cause
    assert tree(home) == before
    assert [path.name for path in drop.iterdir()] == ["link"]
    assert job.status.name == "RUNNING"
    assert trigger(cluster, "/savepoint-disposal", {"savepoint-path": str(theirs)}) == {}
    assert not theirs.exists()


@pytest.mark.behaviour(180)
def test_token_is_in_no_place_that_others_read(cluster: Cluster, place: Path) -> None:
    token, job = cluster.token, cluster.jobs[0]
    assert token is not None
    assert len(token) >= 40
    holding = [path for path in place.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    assert [path.parent.name for path in holding] == ["registry"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in holding] == [0o600]
    at = f"/jobs/{job.job_id}"
    for path in ("/jobmanager/config", f"{at}/jobmanager/config", f"{at}/config", "/metrics"):
        assert token not in httpx.get(f"{cluster.server.address}{path}", headers=cluster.headers).text

"""Secrets are planted in each place that takes text, and everything that comes out of the process is searched."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
import yaml
from tests.hostile.planted import Planted
from tests.spark.programs import java_environment

from penstock._engine.cli.main import main
from penstock._engine.plan.dispatches import _BETWEEN
from penstock._engine.processes.registry import JobRegistry
from penstock._engine.rest.app import ROUTES

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.spark

PROGRAM: Final = Path(__file__).with_name("planted_job.py")
LIMIT_S: Final = 240
SECRETS: Final = 40
#: The name of the job, which has one of them.
SHOWN_NAME: Final = "smtp://******@host"


def config_file(planted: Planted, place: Path) -> dict[str, Any]:
    return {
        "execution.checkpointing.dir": str(place / "checkpoints"),
        "execution.checkpointing.interval": "500 ms",
        "jobmanager.archive.fs.dir": str(place / "archive"),
        "penstock.log.format": "text",
        "penstock.sensitive-words": "license number",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "10 ms",
        "rest.port": "0",
        "penstock.rest.read-only-token": planted("read-only-token"),
        "penstock.state.signing-key": f"{planted('signing-key')} {planted('signing-key-before')}",
        "s3.secret-key": planted("s3-secret"),
        "s3.session-token": planted("s3-session"),
        "security.ssl.rest.key-password": planted("tls"),
        "fs.azure.account.key.store.blob": planted("azure"),
        "db.password": planted("known"),
        "db.credentials": planted("credentials"),
        "db.url": f"jdbc:postgresql://joe:{planted('config-url')}@db/sales?sslpassword={planted('config-query')}",
        "kafka.sasl.jaas.config": f"Login required username=joe password={planted('jaas')};",
        "env.java.opts.all": f"-Djavax.net.ssl.keyStorePassword={planted('java-options')} -Dx=1",
        "tls": {"private-key": f"-----BEGIN PRIVATE KEY-----\n{planted('pem-at-key')}\n-----END PRIVATE KEY-----"},
        "tls.chain": f"-----BEGIN EC PRIVATE KEY-----\n{planted('pem')}\n-----END EC PRIVATE KEY-----",
        "pipeline.global-job-parameters": {
            "db.pwd": planted("map"),
            "http": f"{{Authorization: Bearer {planted('map-in-map')}}}",
            "mirror": f"redis://:{planted('map-url')}@cache",
            "arguments": f"--db-passphrase {planted('map-arguments')}",
        },
    }


def get(address: str, path: str, token: str) -> httpx.Response:
    return httpx.get(address + path, headers={"Authorization": f"Bearer {token}"}, timeout=30)


def wait_for(look: Callable[[], bool], pid: int | None, log: Path) -> None:
    """Wait for something that a process does; its end is the end of waiting, if that is not what is waited for."""
    end = time.monotonic() + LIMIT_S
    while not look():
        assert time.monotonic() < end, log.read_text()
        assert pid is None or _runs(pid), log.read_text()
        time.sleep(0.1)


def answers(address: str, job: str, token: str) -> dict[str, str]:
    """Return what each route shows, and the pages."""
    vertices = [each["id"] for each in get(address, f"/jobs/{job}", token).json()["vertices"]]
    known = {"jobid": [job], "vertexid": vertices, "checkpointid": ["1", "2"], "subtaskindex": ["0"], "attempt": ["0"]}
    known["taskmanagerid"] = [each["id"] for each in get(address, "/taskmanagers", token).json()["taskmanagers"]]
    paths = ["/", "/metrics", f"/jobs/{job}/metrics?get=records"]
    for route in ROUTES:
        if route.method == "GET" and "cancel" not in route.path and "stop" not in route.path:
            names = re.findall(r"{(\w+)}", route.path)
            for number in range(max(len(known.get(name, ())) for name in ("jobid", *names))):
                values = {name: known.get(name, ["0"])[number % len(known.get(name, ["0"]))] for name in names}
                paths.append(route.path.format(**values))
    texts = {path: get(address, path, token) for path in paths}
    assert sum(answer.status_code == 200 for answer in texts.values()) > 40
    return {f"GET {path}": answer.text for path, answer in texts.items()}


def arguments() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found[str(file)] = file.read_text(errors="replace")
    return found


def files(*places: Path) -> dict[str, str]:
    return {
        str(path): path.read_bytes().decode("latin-1")
        for place in places
        for path in place.rglob("*")
        if path.is_file()
    }


def commands(
    env: dict[str, str], place: Path, job_id: str, program: Path, capfd: pytest.CaptureFixture[str]
) -> dict[str, str]:
    """Return what the commands print that are given in the folder of the program."""
    outputs: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name, value in env.items():
            patch.setenv(name, value)
        for words in (["list"], ["list", "--json"], ["info", job_id], ["config", "--set", "--script", str(program)]):
            assert main(words) == 0, capfd.readouterr()
            outputs[" ".join(words)] = "".join(capfd.readouterr())
    return outputs


def test_none_of_forty_planted_secrets_comes_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    planted = Planted()
    (tmp_path / "events").mkdir()
    program = tmp_path / "job.py"
    program.write_text(re.sub("@@([a-z0-9-]+)@@", lambda mark: planted(mark[1]), PROGRAM.read_text()))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config_file(planted, tmp_path)))
    token = planted("token")
    env = java_environment(tmp_path) | {
        "PYSPARK_PYTHON": sys.executable,
        "PENSTOCK_REST__REGISTRY_DIR": str(tmp_path / "registry"),
        "PENSTOCK_VAULT__TOKEN": planted("environment"),
        "PENSTOCK_VAULT__MAP": f"{{a: 1, secret: {planted('environment-map')}}}",
        "PENSTOCK_PROXY__URL": f"http://joe:{planted('environment-url')}@proxy:3128",
    }
    given = {
        "penstock.rest.token": token,
        "cli.apikey": planted("argument"),
        "cli.map": f"client_secret:{planted('argument-map')},x:1",
        "cli.url": f"sftp://joe:{planted('argument-url')}@host/x",
        "cli.text": f"a -Dkeystore.password={planted('argument-text')}",
    }
    options = [word for key, value in given.items() for word in ("-D", f"{key}={value}")]
    command = [sys.executable, "-P", "-m", "penstock"]
    started = subprocess.run(
        [*command, "run", "-d", "--json", "--log-file", str(tmp_path / "log"), *options, str(program)],
        env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    assert started.returncode == 0, started.stderr
    pid = json.loads(started.stdout)["pid"]
    registry = JobRegistry(tmp_path / "registry")
    wait_for(lambda: bool(registry.entries()), pid, tmp_path / "log")
    job = registry.entries()[0]
    address, job_id = job.address, job.job_id

    def has_recovered() -> bool:
        seen = get(address, f"/jobs/{job_id}/exceptions", token).json()["exceptionHistory"]["entries"]
        return bool(seen) and get(address, f"/jobs/{job_id}/checkpoints", token).json()["counts"]["restored"] > 0

    wait_for(has_recovered, pid, tmp_path / "log")
    body = {"target-directory": f"s3://joe:{planted('request')}@bucket/x"}
    headers = {"Authorization": f"Bearer {token}"}
    refused = httpx.post(f"{address}/jobs/{job_id}/savepoints", json=body, headers=headers, timeout=30)
    query = {"get": f"password={planted('query')}", "agg": f"http://joe:{planted('query-url')}@host"}
    asked = httpx.get(f"{address}/jobs/{job_id}/vertices/x/subtasks/metrics", params=query, headers=headers, timeout=30)
    outputs = {"run -d": started.stdout + started.stderr, "refusal": refused.text, "query": asked.text}
    outputs |= answers(address, job_id, token) | arguments()
    outputs |= commands(env, tmp_path, job_id, program, capfd)
    assert SHOWN_NAME in outputs["list"]
    assert "******" in outputs[f"GET /jobs/{job_id}/exceptions"]
    httpx.patch(f"{address}/jobs/{job_id}", headers=headers, timeout=30)
    wait_for(lambda: not _runs(pid), None, tmp_path / "log")
    outputs |= files(tmp_path / "archive") | files(tmp_path / "events")
    outputs |= {str(path): path.read_text() for path in tmp_path.glob("checkpoints/**/_metadata")}
    outputs |= {name: (tmp_path / name).read_text() for name in ("log", "conf.json")}
    assert "ConnectionError" in outputs["log"]
    assert any("archive" in name for name in outputs)
    assert len(planted.by_place) >= SECRETS
    in_data = {"state", "record"}  # checkpoints have the data of users, and their source
    found = [
        (place, name) for place, name in planted.found_in(outputs) if place not in in_data or "_metadata" not in name
    ]
    assert found == []
    for log in (tmp_path / "events").iterdir():
        dispatches = set(re.findall(r'"penstock\.dispatches":"([^"]+)"', log.read_text()))
        assert dispatches
        assert [text for text in dispatches if text.partition(_BETWEEN)[2]] == []  # they say where the state lies


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

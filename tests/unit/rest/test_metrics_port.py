"""The port that shows metrics alone, configured as Flink's reporter for Prometheus is."""

from __future__ import annotations

import logging
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.unit.rest.fakes import FakeControl

from penstock._engine import launch
from penstock._engine.rest.server import RestServer
from penstock._engine.rest.settings import RestSettings
from penstock.common.configuration import Configuration
from penstock.common.job_status import JobStatus
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

FACTORY = {"metrics.reporter.prom.factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"}
PORT = "metrics.reporter.prom.port"
HOST = "metrics.reporter.prom.host"
TOKEN, READING = "operate-0123456789", "read-0123456789-read"


def settings(place: Path, more: dict[str, str]) -> RestSettings:
    keys = {"penstock.rest.registry-dir": str(place / "registry"), "rest.port": "0", "penstock.rest.token": "none"}
    return RestSettings.read(Configuration.from_dict(keys | more))


@contextmanager
def served(place: Path, more: dict[str, str]) -> Generator[tuple[RestServer, str]]:
    """A server with a job, and where its metrics are: empty where they have no port."""
    server = RestServer(settings(place, more), dispose=lambda _1, _2, _3: None)
    server.add(FakeControl())
    server.start(2)
    server.on_status(JobStatus.CREATED)
    metrics = server._metrics_socket
    try:
        yield server, "" if metrics is None else f"http://127.0.0.1:{metrics.getsockname()[1]}"
    finally:
        server.close()


def test_the_port_shows_the_metrics_of_the_rest_server_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path, {**FACTORY, PORT: "0"}) as (server, metrics):
        assert f"Metrics for Prometheus: {metrics}/metrics" in capsys.readouterr().err
        first = httpx.get(f"{metrics}/metrics")  # the first client of all comes by this port
        assert first.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "flink_jobmanager_job_numRestarts" in first.text
        assert httpx.get(f"{metrics}/").text.count("\n") == first.text.count("\n")
        assert httpx.get(f"{server.address}/metrics").text.count("\n") == first.text.count("\n")
        for path in ("/v1/jobs", "/jobs/overview", "/assets/main.js", "/v1/metrics"):
            assert httpx.get(metrics + path).status_code == 404
        assert httpx.delete(f"{metrics}/cluster").status_code == 404
        assert httpx.post(f"{metrics}/metrics").status_code == 405
        assert httpx.get(f"{server.address}/v1/jobs").status_code == 200


def test_the_port_has_the_guards_of_the_rest_server(tmp_path: Path) -> None:
    tokens = {"penstock.rest.token": TOKEN, "penstock.rest.read-only-token": READING}
    with served(tmp_path, {PORT: "0", **tokens}) as (_, metrics):
        for path in ("/", "/metrics"):
            assert httpx.get(metrics + path).status_code == 401
            for token in (TOKEN, READING):
                assert httpx.get(metrics + path, headers={"Authorization": f"Bearer {token}"}).status_code == 200
        foreign = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}
        assert httpx.get(f"{metrics}/metrics", headers=foreign).status_code == 403


@pytest.mark.parametrize(
    ("more", "ports"),
    [
        ({}, None),
        (FACTORY, (9249,)),
        ({PORT: "9249-9251"}, (9249, 9250, 9251)),
        ({**FACTORY, "metrics.reporters": "jmx, prom"}, (9249,)),
        ({**FACTORY, "metrics.reporters": "jmx"}, None),
        ({PORT: "9249", "metrics.reporter.prom.factory.class": "org.example.Other"}, None),
    ],
)
def test_there_is_a_port_where_flink_would_have_one(
    tmp_path: Path, more: dict[str, str], ports: tuple[int, ...] | None
) -> None:
    bind_address = settings(tmp_path, more).metrics_bind_address
    assert (None if bind_address is None else bind_address.ports) == ports


def test_the_class_of_another_reporter_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings(tmp_path, {"metrics.reporter.prom.factory.class": "org.example.Other"})
    assert "org.example.Other has no effect: there is org.apache.flink.metrics.prometheus" in caplog.text


def test_it_listens_where_rest_does_unless_it_is_told_where(tmp_path: Path) -> None:
    def address(**more: str) -> str | None:
        usual = {PORT: "9249", "penstock.rest.token": TOKEN, "penstock.rest.behind-proxy": "true"}
        bind_address = settings(tmp_path, {**usual, **more}).metrics_bind_address
        return bind_address and bind_address.address

    assert address() == "127.0.0.1"
    assert address(**{"rest.bind-address": "0.0.0.0"}) == "0.0.0.0"
    assert address(**{HOST: "10.0.0.1"}) == "10.0.0.1"
    with pytest.raises(ConfigurationError, match=r"metrics\.reporter\.prom\.host cannot be '10\.0\.0\.1'.*token"):
        settings(tmp_path, {PORT: "9249", HOST: "10.0.0.1"})
    with pytest.raises(ConfigurationError, match=r"metrics\.reporter\.prom\.port"):
        settings(tmp_path, {PORT: "70000"})


def test_a_job_does_without_a_port_that_others_have(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with served(tmp_path, {PORT: str(port)}) as (server, metrics):
            assert metrics == ""
            assert f"metrics.reporter.prom.port cannot be '{port}'" in caplog.text
            assert httpx.get(f"{server.address}/metrics").status_code == 200


def test_without_a_rest_server_there_is_no_port_which_is_told(caplog: pytest.LogCaptureFixture) -> None:
    off = Configuration.from_dict({**FACTORY, "penstock.rest.enabled": "false"})
    with caplog.at_level(logging.WARNING):
        assert launch._rest_server(off) is None
    assert "no port for metrics: penstock.rest.enabled is false" in caplog.text

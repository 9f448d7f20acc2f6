"""The server on a real socket: where it listens, how it starts and ends, clients that are slow or odd."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from dataclasses import replace
from http.client import HTTPResponse
from statistics import median
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.unit.rest.fakes import JOB, FakeControl

from penstock._engine.processes.registry import JobRegistry, RegistryEntry
from penstock._engine.rest import http
from penstock._engine.rest.server import RestServer
from penstock._engine.rest.settings import RestSettings
from penstock.common import option_table
from penstock.common.configuration import Configuration
from penstock.common.job_status import JobStatus
from penstock.errors import ConfigurationError, SavepointError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


#: What lets a server listen to other machines.
PROXIED = {"penstock.rest.token": "operate-0123456789", "penstock.rest.behind-proxy": "true"}


def settings(place: Path, **more: str | None) -> RestSettings:
    """Settings over any free port and without a token; None leaves a key out."""
    keys = {
        "penstock.rest.registry-dir": str(place / "registry"), "rest.port": "0", "penstock.rest.token": "none", **more
    }  # fmt: skip
    return RestSettings.read(Configuration.from_dict({key: text for key, text in keys.items() if text is not None}))


def dispose(path: str, directories: Iterable[str], options: Mapping[str, str]) -> None:
    if path != "/sp/1":
        raise SavepointError(path, "there is none")


def make(place: Path, **more: str | None) -> RestServer:
    return RestServer(settings(place, **{"penstock.rest.allowed-directories": "/sp", **more}), dispose=dispose)


@pytest.fixture
def control() -> FakeControl:
    return FakeControl()


@pytest.fixture
def server(tmp_path: Path, control: FakeControl) -> Iterator[RestServer]:
    made = make(tmp_path)
    made.add(control)
    made.start(2)
    yield made
    made.close()


def raw(server: RestServer) -> socket.socket:
    host, port = server.address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.settimeout(10)
    return connection


def asked(connection: socket.socket) -> HTTPResponse:
    """Ask over a connection that stays open, and read the answer."""
    connection.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer


def received(connection: socket.socket) -> bytes:
    """Read until the other side closes."""
    parts: list[bytes] = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def test_it_serves_and_says_where(server: RestServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert httpx.get(f"{server.address}/v1/jobs").json() == {"jobs": [{"id": JOB, "status": "RUNNING"}]}
    headers = httpx.get(f"{server.address}/v1/jobs").headers
    assert headers["content-type"] == "application/json; charset=UTF-8"
    assert "content-length" in headers
    assert "server" not in headers


def test_the_address_is_printed_where_it_mixes_with_no_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make(tmp_path)
    made.start(2)
    for status in (JobStatus.INITIALIZING, JobStatus.FAILED):  # of a job that cannot start there is the error alone
        made.on_status(status)
    assert capsys.readouterr() == ("", "")
    for status in (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.CREATED):
        made.on_status(status)
    made.close()
    assert capsys.readouterr() == ("", f"Penstock dashboard and REST API: {made.address}\n")


def test_it_costs_next_to_nothing_until_somebody_asks(tmp_path: Path) -> None:
    begin = time.perf_counter()
    made = make(tmp_path)
    made.start(2)
    started = time.perf_counter()
    made.close()
    assert started - begin < 0.1
    assert time.perf_counter() - started < 0.1


def test_no_part_of_an_answer_waits_for_the_acknowledgement_of_another(server: RestServer) -> None:
    took: list[float] = []
    with httpx.Client(base_url=server.address) as client:
        for _ in range(60):  # a client that has just connected acknowledges at once, later after 40 ms
            begin = time.perf_counter()
            client.get("/v1/jobs")
            took.append(time.perf_counter() - begin)
    assert median(took[30:]) < 0.03


def test_a_get_with_a_body_leaves_the_connection_in_step(server: RestServer) -> None:
    request = b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
    with raw(server) as connection:
        connection.sendall(request + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert received(connection).count(b"HTTP/1.1 200") == 2


def test_a_request_with_two_ends_is_refused_and_its_connection_closed(server: RestServer) -> None:
    with raw(server) as connection:
        head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"0\r\n\r\nGET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"not both" in answer
    assert answer.count(b"HTTP/1.1") == 1


def test_a_client_that_does_not_finish_its_request_is_cut_off(
    server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http.LimitedProtocol, "request_timeout_s", 0.2)
    for part in (b"", b"GET /v1/jobs HT", b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"):
        with raw(server) as connection:
            connection.sendall(part)
            assert received(connection) == b""


def test_a_body_that_breaks_off_asks_for_nothing(server: RestServer, control: FakeControl) -> None:
    head = f"POST /v1/jobs/{JOB}/stop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with raw(server) as connection:
        connection.sendall(head.encode() + b"no chunk\r\n")
        assert received(connection).startswith(b"HTTP/1.1 400")
    httpx.get(f"{server.address}/v1/jobs")
    assert control.asked == []


def test_of_too_many_connections_the_one_that_was_served_longest_ago_is_closed(
    server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 3)
    with raw(server) as first, raw(server) as second, raw(server) as third:
        for connection in (first, second, third, first):
            assert asked(connection).status == 200
        assert httpx.get(f"{server.address}/v1/jobs").status_code == 200
        assert received(second) == b""
        assert asked(first).status == asked(third).status == 200


def test_a_client_that_takes_none_of_the_answers_to_its_many_requests_is_cut_off(
    server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_ANSWER_TIMEOUT_S", 0.2)
    with raw(server) as connection:
        connection.sendall(500 * b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(9) == b"HTTP/1.1 "
        assert server._server is not None
        connections = server._server.server_state.connections
        end = time.monotonic() + 20
        while connections and time.monotonic() < end:
            time.sleep(0.01)
        assert not connections
        assert received(connection).count(b"HTTP/1.1 200") < 500


def test_what_is_no_http_is_a_bad_request(server: RestServer) -> None:
    for request in (b"hello\r\n\r\n", b"GET /v1/jobs HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nA: " + b"x" * 70_000):
        with raw(server) as connection:
            connection.sendall(request)
            answer = received(connection)
            assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403", b"HTTP/1.1 431")), answer


def test_a_request_of_very_many_lines_is_refused_before_it_is_parsed_and_a_long_row_of_requests_is_not(
    server: RestServer,
) -> None:
    begin, lines = b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n", b"".join(b"X-%d: x\r\n" % n for n in range(1_500))
    with raw(server) as connection:
        connection.sendall(begin + lines + b"\r\n")
        answer = received(connection)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"at most 100 lines" in answer
    with raw(server) as connection:  # the same in two parts, behind an ordinary one
        connection.sendall(begin + b"\r\n" + begin)
        connection.sendall(lines)
        assert received(connection).count(b"HTTP/1.1 400 ") == 1
    with raw(server) as connection:
        connection.sendall((begin + b"\r\n") * 99 + begin + b"Connection: close\r\n\r\n")
        assert received(connection).count(b"HTTP/1.1 200 ") == 100


def test_a_port_that_was_set_and_is_taken_is_told_with_the_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"^rest\.port cannot be '{port}': .* in use\); free it, .*leave"):
            make(tmp_path, **{"rest.port": str(port)})


def test_without_a_port_the_next_free_one_from_8081_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings(tmp_path, **{"rest.port": None}).bind_address.ports[:3] == (8081, 8082, 8083)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(option_table, "REST_PORT", replace(option_table.REST_PORT, default=port))
        made = make(tmp_path, **{"rest.port": None})
        made.close()
    assert made.address != f"http://127.0.0.1:{port}"


def test_ports_that_are_all_taken_are_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(ConfigurationError, match=rf"rest\.bind-port cannot be '{port}'.*it cannot be listened on"):
            make(tmp_path, **{"rest.bind-port": port})
        with pytest.raises(ConfigurationError, match=rf"'{port}-{port}'.*none of them can be listened on"):
            make(tmp_path, **{"rest.bind-port": f"{port}, {port}"})


def test_an_address_of_another_machine_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"listened on at 192\.0\.2\.1"):
        make(tmp_path, **{"rest.bind-address": "192.0.2.1", **PROXIED})


def test_ports_are_tried_in_the_order_of_the_setting(tmp_path: Path) -> None:
    assert settings(tmp_path, **{"rest.bind-port": "9000-9002, 8000"}).bind_address.ports == (9000, 9001, 9002, 8000)
    assert settings(tmp_path, **{"rest.port": "65535"}).bind_address.ports == (65535,)
    with pytest.raises(ConfigurationError, match="up to 65535"):
        settings(tmp_path, **{"rest.bind-port": "65536"})


def test_rest_address_is_what_clients_use(tmp_path: Path) -> None:
    found = settings(tmp_path, **{"rest.address": "Jobs.Example"})
    assert found.url(8081) == "http://Jobs.Example:8081"
    assert "jobs.example" in found.access.hosts
    assert settings(tmp_path, **{"rest.bind-address": "::1"}).url(1) == "http://[::1]:1"


@pytest.mark.behaviour(174)
def test_it_stays_until_the_outcome_of_each_operation_was_read(tmp_path: Path) -> None:
    control, made = FakeControl(), make(tmp_path)
    made.add(control)
    made.start(2)
    trigger = httpx.post(f"{made.address}/v1/jobs/{JOB}/stop", json={}).json()["request-id"]
    control.answers[0].set_result("/sp/1")
    closing = threading.Thread(target=made.close)
    closing.start()
    poll = f"{made.address}/v1/jobs/{JOB}/savepoints/{trigger}"
    assert httpx.get(poll).json()["operation"] == {"location": "file:/sp/1"}
    closing.join(10)
    assert not closing.is_alive()
    with pytest.raises(httpx.ConnectError):
        httpx.get(poll)


def test_a_cluster_that_was_shut_down_waits_for_nobody(tmp_path: Path) -> None:
    control, made = FakeControl(), make(tmp_path)
    made.add(control)
    made.start(2)
    httpx.post(f"{made.address}/v1/jobs/{JOB}/stop", json={})
    assert httpx.delete(f"{made.address}/v1/cluster").json() == {}
    made.close()
    assert control.asked[-1] == ("cancel",)


def test_a_disposal_runs_beside_and_tells_what_went_wrong(server: RestServer) -> None:
    def outcome(path: str) -> Any:
        trigger = httpx.post(f"{server.address}/v1/savepoint-disposal", json={"savepoint-path": path}).json()
        poll = f"{server.address}/v1/savepoint-disposal/{trigger['request-id']}"
        while (answer := httpx.get(poll).json())["operation"] is None:
            pass
        return answer["operation"]

    assert outcome("/sp/1") == {}
    assert "there is none" in outcome("/sp/2")["failure-cause"]["stack-trace"]


def test_a_job_is_listed_while_it_runs(server: RestServer, tmp_path: Path) -> None:
    registry, job = JobRegistry(tmp_path / "registry"), FakeControl().view
    server.job_named(job)
    (entry,) = registry.entries()
    assert (entry.job_id, entry.name, entry.address, entry.pid) == (JOB, job.name, server.address, os.getpid())
    server.job_ended(job)
    assert registry.entries() == []


def test_runs_of_one_job_are_listed_each_until_it_ends(server: RestServer, tmp_path: Path) -> None:
    registry, older = JobRegistry(tmp_path / "registry"), FakeControl().view
    younger = replace(older, run_id="88" * 16)
    for run in (older, younger):
        server.job_named(run)
    assert {entry.run_id for entry in registry.entries()} == {older.run_id, younger.run_id}
    server.job_ended(older)
    assert [entry.run_id for entry in registry.entries()] == [younger.run_id]
    server.job_ended(younger)
    assert registry.entries() == []


def test_a_server_that_ends_leaves_no_entry(tmp_path: Path) -> None:
    made = make(tmp_path)
    made.job_named(FakeControl().view)
    made.close()
    assert list((tmp_path / "registry").iterdir()) == []


def test_entries_of_processes_that_are_gone_are_removed(tmp_path: Path) -> None:
    gone = RegistryEntry("a" * 32, "gone", "http://127.0.0.1:1", 2**22 + 1, socket.gethostname(), 1)
    elsewhere = RegistryEntry("b" * 32, "elsewhere", "http://other:1", 2**22 + 1, "another machine", 2)
    here = RegistryEntry.of_this_process("c" * 32, "here", "http://127.0.0.1:2", 3)
    own = JobRegistry(tmp_path)
    for entry in (gone, elsewhere, here):
        own.add(entry)
    (tmp_path / "broken.json").write_text("{")
    assert JobRegistry(tmp_path).entries() == [elsewhere, here]
    assert not list(tmp_path.glob(f"{gone.job_id}*"))
    own.clear()


def test_a_directory_that_cannot_be_written_to_harms_no_job(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    registry = JobRegistry(tmp_path / "file" / "below")
    registry.add(RegistryEntry.of_this_process(JOB, "job", "http://127.0.0.1:1", 1))
    registry.clear()
    assert registry.entries() == []


def test_the_registry_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_REST__REGISTRY_DIR", str(tmp_path))
    assert RestSettings.read(Configuration()).registry_directory == tmp_path
    monkeypatch.delenv("PENSTOCK_REST__REGISTRY_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert RestSettings.read(Configuration()).registry_directory.name == "jobs"


def test_an_entry_is_plain_json(tmp_path: Path) -> None:
    own = JobRegistry(tmp_path)
    own.add(RegistryEntry(JOB, "job", "http://127.0.0.1:1", 7, "here", 1))
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text()) == {
        "job_id": JOB,
        "name": "job",
        "address": "http://127.0.0.1:1",
        "pid": 7,
        "host": "here",
        "started_ms": 1,
    }
    own.clear()

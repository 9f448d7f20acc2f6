"""How the files of the dashboard are served; what they do is tested in tests/dashboard, in a browser."""

from __future__ import annotations

import socket
from http.client import HTTPResponse
from typing import TYPE_CHECKING

import pytest
from tests.unit.rest.fakes import Api

from penstock._engine.rest.access import AccessPolicy
from penstock._engine.rest.server import RestServer
from penstock._engine.rest.settings import RestSettings
from penstock.common.configuration import Configuration

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/assets/main.js", "text/javascript"),
        ("/assets/style.css", "text/css"),
        ("/assets/penstock.svg", "image/svg+xml"),
    ],
)
def test_files_come_without_a_token_with_their_kind(path: str, kind: str) -> None:
    answer = Api(access=AccessPolicy(token="secret")).ask("GET", path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == kind


HOST = "Host: localhost"
TOKEN = "operate-0123456789"
TRUSTED = f"Authorization: Bearer {TOKEN}"
#: The lines of a request's head, and the code of its answer.
ANSWERS: list[tuple[tuple[str, ...], int]] = [
    *((("GET " + path, HOST, TRUSTED), code) for path, code in [
        ("/", 200), ("/api", 200), ("/assets/main.js", 200), ("/assets/none.js", 404), ("/openapi.json", 200),
        ("/v1/jobs", 200), ("/metrics", 200), ("/v1/jobs/zzz", 400), ("/nowhere", 404),
    ]),
    (("DELETE /v1/overview", HOST, TRUSTED), 405),
    (("HEAD /v1/jobs", HOST, TRUSTED), 200),
    (("GET /", HOST), 200),
    (("GET /v1/jobs", HOST), 401),
    (("GET /v1/jobs", HOST, "Authorization: Bearer guess"), 401),
    (("GET /", "Host: evil.example"), 403),
    (("GET /", HOST, "Origin: http://evil.example"), 403),
    (("POST /v1/jobs", HOST, TRUSTED, "Content-Length: 999999"), 413),
    (("GET /", HOST, "no header"), 400),
    (("GET /", HOST, *(f"X-{number}: x" for number in range(200))), 400),
]  # fmt: skip


def test_every_answer_of_each_port_has_the_policy_and_is_stored_nowhere(tmp_path: Path) -> None:
    keys = {"penstock.rest.registry-dir": str(tmp_path), "rest.port": "0", "penstock.rest.token": TOKEN}
    settings = RestSettings.read(Configuration.from_dict({**keys, "metrics.reporter.prom.port": "0"}))
    server = RestServer(settings, dispose=lambda _1, _2, _3: None)
    server.start(2)
    main, metrics = (one.getsockname() for one in server._sockets)
    try:
        for address, (lines, code) in [
            *((main, answer) for answer in ANSWERS),
            *((metrics, ((path, HOST, TRUSTED), code)) for path, code in (("GET /", 200), ("GET /v1/jobs", 404))),
        ]:
            with socket.create_connection(address, timeout=10) as connection:
                first, *more = lines
                connection.sendall("\r\n".join([f"{first} HTTP/1.1", *more, "", ""]).encode())
                answer = HTTPResponse(connection, method=first.partition(" ")[0])
                answer.begin()
                answer.read()
            assert answer.status == code, lines
            assert answer.headers.get_all("x-content-type-options") == ["nosniff"], lines
            assert answer.headers.get_all("cache-control") == ["no-store"], lines
            assert answer.headers.get_all("referrer-policy") == ["no-referrer"], lines
            (policy,) = answer.headers.get_all("content-security-policy", [])
            assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy.split("; "))
            assert "unsafe" not in policy
    finally:
        server.close()


def test_page_about_the_api_has_no_script_of_its_own_which_the_policy_would_stop() -> None:
    page = Api().ask("GET", "/api").text
    assert "<style" not in page
    assert "></script>" in page


@pytest.mark.parametrize("path", ["/assets/none.js", "/assets/../app.py", "/assets/%2e%2e/app.py", "/main.js"])
def test_nothing_but_the_files_is_served(path: str) -> None:
    assert Api().ask("GET", path).status_code == 404


def test_path_that_is_no_page_is_answered_as_before() -> None:
    assert Api().error("POST", "/nowhere", 404) == "Not found: /nowhere"
    assert Api().error("GET", "/nowhere", 404) == "Unable to load requested file /nowhere."

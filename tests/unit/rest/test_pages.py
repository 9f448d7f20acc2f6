"""How the files of the dashboard are served; what they do is tested in tests/dashboard, in a browser."""

from __future__ import annotations

import pytest
from tests.unit.rest.fakes import Api

from penstock._engine.rest.access import AccessPolicy
from penstock._engine.rest.headers import POLICY


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/assets/main.js", "text/javascript"),
        ("/assets/style.css", "text/css"),
        ("/assets/penstock.svg", "image/svg+xml"),
    ],
)
def test_files_come_without_a_token_with_their_kind_and_the_policy(path: str, kind: str) -> None:
    answer = Api(access=AccessPolicy(token="secret")).ask("GET", path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == kind
    policy = answer.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/", 200), ("GET", "/api", 200), ("GET", "/assets/main.js", 200), ("GET", "/assets/none.js", 404),
        ("GET", "/openapi.json", 200), ("GET", "/v1/jobs", 200), ("GET", "/metrics", 200), ("GET", "/v1/jobs/zzz", 400),
        ("GET", "/nowhere", 404), ("DELETE", "/v1/overview", 405), ("HEAD", "/v1/jobs", 200),
    ],
)  # fmt: skip
def test_every_answer_has_the_policy_and_is_stored_nowhere(method: str, path: str, code: int) -> None:
    answer = Api().ask(method, path)
    assert answer.status_code == code
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers.get_list("cache-control") == ["no-store"]


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

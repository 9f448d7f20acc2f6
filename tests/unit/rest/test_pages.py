"""How the files of the dashboard are served; what they do is tested in tests/dashboard, in a browser."""

from __future__ import annotations

import pytest
from tests.unit.rest.fakes import Api

from penstock._engine.rest.settings import AccessPolicy


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


def test_files_that_have_not_changed_are_not_sent_again_but_asked_for_each_time() -> None:
    api = Api()
    first = api.ask("GET", "/assets/main.js")
    assert first.headers["cache-control"] == "no-cache"
    again = api.ask("GET", "/assets/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/assets/none.js", "/assets/../app.py", "/assets/%2e%2e/app.py", "/main.js"])
def test_nothing_but_the_files_is_served(path: str) -> None:
    assert Api().ask("GET", path).status_code == 404


def test_path_that_is_no_page_is_answered_as_before() -> None:
    assert Api().error("POST", "/nowhere", 404) == "Not found: /nowhere"
    assert Api().error("GET", "/nowhere", 404) == "Unable to load requested file /nowhere."

"""Who may ask: names of this machine, no pages of other sites, a token where there is one, bodies of a size."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.rest.fakes import JOB, Api, FakeControl

from penstock._engine.rest.guard import MAX_BODY
from penstock._engine.rest.settings import AccessPolicy


@pytest.fixture
def control() -> FakeControl:
    return FakeControl()


@pytest.fixture
def api(control: FakeControl) -> Api:
    return Api(control)


@pytest.mark.parametrize("host", ["127.0.0.1:8081", "localhost", "localhost:9", "[::1]:8081", "10.0.0.7", "box:8081"])
def test_names_of_this_machine_and_numbers_are_known(control: FakeControl, host: str) -> None:
    Api(control, access=AccessPolicy(frozenset({"box"}))).get("/v1/jobs", headers={"host": host})


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8081", "localhost.evil.example", "", "a b", "x:port"])
def test_other_names_are_refused_because_a_page_may_have_made_them_point_here(api: Api, host: str) -> None:
    assert "is not a name of this server" in api.error("GET", "/v1/jobs", 403, headers={"host": host})


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://[", ""])
def test_scripts_of_other_pages_are_refused(api: Api, control: FakeControl, origin: str) -> None:
    api.error("PATCH", f"/v1/jobs/{JOB}", 403, headers={"origin": origin})
    assert control.asked == []


def test_scripts_of_our_own_pages_are_welcome(api: Api) -> None:
    api.send("PATCH", f"/v1/jobs/{JOB}", 202, headers={"origin": "http://127.0.0.1:8081"})


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_an_image_of_another_page_cancels_nothing(api: Api, control: FakeControl, site: str) -> None:
    for mode in ("no-cors", "navigate"):
        headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": "document"}
        api.error("GET", f"/v1/jobs/{JOB}/yarn-cancel", 403, headers=headers)
    assert control.asked == []


def test_a_link_of_another_page_may_lead_to_ours(api: Api) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert api.ask("GET", "/api", headers=headers).status_code == 200


def test_no_answer_allows_other_pages_to_read_it(api: Api) -> None:
    assert "access-control-allow-origin" not in api.ask("GET", "/v1/jobs").headers


def test_a_form_is_no_json(api: Api, control: FakeControl) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert "application/json" in api.error("POST", f"/v1/jobs/{JOB}/stop", 415, content=b"a=b", headers=headers)
    assert control.asked == []
    api.send("POST", f"/v1/jobs/{JOB}/stop", 202, headers=headers)  # nothing in it


def test_a_body_beyond_the_limit_is_refused_unread(api: Api) -> None:
    headers = {"content-type": "application/json"}
    for content in (b"x" * (MAX_BODY + 1), iter([b"x" * MAX_BODY, b"x"])):
        answer = Api(FakeControl()).ask("POST", f"/v1/jobs/{JOB}/stop", content=_stream(content), headers=headers)
        assert (answer.status_code, answer.headers["connection"]) == (413, "close")


def test_a_client_that_goes_away_before_the_end_of_its_body_has_asked_for_nothing(
    api: Api, control: FakeControl
) -> None:
    answers: list[Any] = []
    parts = [{"type": "http.request", "body": b"", "more_body": True}, {"type": "http.disconnect"}]

    async def receive() -> Any:
        return parts.pop(0)

    async def send(message: Any) -> None:
        answers.append(message)

    path = f"/v1/jobs/{JOB}/stop"
    scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"host", b"localhost")], "query_string": b""}
    asyncio.run(api.app(scope, receive, send))
    assert control.asked == []
    assert answers[0]["status"] == 400


def _stream(content: object) -> object:
    if isinstance(content, bytes):
        return content

    async def parts() -> object:  # type: ignore[misc]
        for part in content:  # type: ignore[attr-defined]
            yield part

    return parts()


def test_with_a_token_nobody_is_heard_without_it(control: FakeControl) -> None:
    api = Api(control, access=AccessPolicy(token="s3cret"))
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic s3cret"}, {"authorization": "ü"}):
        answer = api.ask("GET", "/v1/jobs", headers={name: value.encode() for name, value in headers.items()})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "s3cret" not in answer.text
    assert api.get("/v1/jobs", headers={"authorization": "Bearer s3cret"})["jobs"]
    assert api.get("/v1/jobs", headers={"authorization": "bearer s3cret"})["jobs"]


def test_pages_without_figures_need_no_token(control: FakeControl) -> None:
    api = Api(control, access=AccessPolicy(token="s3cret"))
    assert api.ask("GET", "/api").status_code == api.ask("GET", "/openapi.json").status_code == 200

"""Who may ask: names of this machine, no pages of other sites, a token where there is one, bodies of a size."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.unit.rest.fakes import JOB, OTHER, READ, Api, FakeControl

from penstock._engine.protocol.clocks import Moment
from penstock._engine.rest.access import AccessPolicy, OneTimeCodes
from penstock._engine.rest.app import ROUTES
from penstock._engine.rest.guard import MAX_BODY, FailureDelays
from penstock._engine.rest.handlers.tokens import TOKEN_PATH


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


TOKEN, READING = "operate-0123456789", "read-0123456789-read"
ACCESS = AccessPolicy(token=TOKEN, read_only_token=READING)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that answers were held back, which pass at once."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("penstock._engine.rest.guard.asyncio.sleep", sleep)
    return waited


@pytest.mark.behaviour(180)
def test_a_server_with_a_token_refuses_requests_without_it(control: FakeControl, waits: list[float]) -> None:
    api = Api(control, access=ACCESS)
    for headers in ({}, bearer("wrong"), {"authorization": f"Basic {TOKEN}"}, {"authorization": "ü"}, bearer("")):
        for path in ("/v1/jobs", "/metrics", "/nowhere", f"/v1/jobs/{JOB}/yarn-cancel"):
            answer = api.ask("GET", path, headers={name: value.encode() for name, value in headers.items()})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert TOKEN not in answer.text
    assert api.get("/v1/jobs", headers=bearer(TOKEN))["jobs"]
    assert api.get("/v1/jobs", headers={"authorization": f"bearer {TOKEN}"})["jobs"]
    assert control.asked == []


@pytest.mark.behaviour(180)
def test_read_only_token_opens_what_shows_jobs_and_nothing_that_steers_or_tells_of_the_program(
    control: FakeControl,
) -> None:
    api = Api(control, access=ACCESS)
    for route in ROUTES:
        path = route.path.replace("{jobid}", JOB).replace("{vertexid}", READ)
        path = path.replace("{checkpointid}", "4").replace("{subtaskindex}", "0").replace("{triggerid}", OTHER)
        refused = api.ask(route.method, path, headers=bearer(READING)).status_code == 403
        steers = (
            "yarn-cancel",
            "environment",
            "thread-dump",
            f"points/{OTHER}",
            f"disposal/{OTHER}",
            f"delete/{OTHER}",
        )
        shows = route.method == "GET" and not path.endswith(steers)
        open_to_all = path == TOKEN_PATH or path.startswith("/jars")  # where there is nothing to be had
        assert refused == (not shows and not open_to_all), (route.method, path)
    assert control.asked == []


def test_wrong_tokens_are_answered_ever_later_and_right_ones_at_once(control: FakeControl, waits: list[float]) -> None:
    api = Api(control, access=ACCESS)
    for _ in range(7):
        api.error("GET", "/v1/jobs", 401, headers=bearer("guess"))
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    api.get("/v1/jobs", headers=bearer(TOKEN))
    api.error("GET", "/v1/jobs", 401)  # a page before it has a token guesses nothing
    assert len(waits) == 7
    api.seconds += 61
    api.error("POST", TOKEN_PATH, 401, json={"code": "guess"})
    assert waits[7:] == [0.1]


def test_others_are_answered_while_a_wrong_token_waits(control: FakeControl) -> None:
    api = Api(control, access=ACCESS)
    order: list[int] = []

    async def ask(token: str) -> None:
        transport = httpx.ASGITransport(api.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081") as client:
            order.append((await client.get("/v1/jobs", headers=bearer(token))).status_code)

    async def both() -> None:
        await asyncio.gather(ask("guess"), ask(TOKEN))

    asyncio.run(both())
    assert order == [200, 401]


def test_failures_of_very_many_addresses_take_no_memory() -> None:
    delays = FailureDelays(lambda: 0.0)
    for number in range(3_000):
        delays.after_failure(str(number))
    assert len(delays._failures) == 1_000
    assert delays.after_failure("2999") == 0.2


def test_code_of_a_link_gives_the_token_once_and_within_an_hour(waits: list[float]) -> None:
    api = Api(access=ACCESS)

    def code() -> str:
        return api.send("POST", "/v1/penstock/code", 200, headers=bearer(TOKEN))["code"]

    first = code()
    assert api.send("POST", f"/v1{TOKEN_PATH}", 200, json={"code": first}) == {"token": TOKEN}
    assert "was used already" in api.error("POST", TOKEN_PATH, 401, json={"code": first})
    old = code()
    api.now_ms += 3_600_001
    api.error("POST", TOKEN_PATH, 401, json={"code": old})
    many = [code() for _ in range(17)]
    api.error("POST", TOKEN_PATH, 401, json={"code": many[0]})
    api.send("POST", TOKEN_PATH, 200, json={"code": many[1]})
    assert code() not in (TOKEN, READING)


def test_page_of_another_site_gets_no_token_for_a_code_that_it_has_seen() -> None:
    api = Api(access=ACCESS)
    code = api.send("POST", "/penstock/code", 200, headers=bearer(TOKEN))["code"]
    api.error("POST", TOKEN_PATH, 403, json={"code": code}, headers={"origin": "http://evil.example"})
    api.error("POST", TOKEN_PATH, 403, json={"code": code}, headers={"host": "evil.example"})
    api.error("POST", TOKEN_PATH, 415, content=b"code=" + code.encode(), headers={"content-type": "text/plain"})
    api.send("POST", TOKEN_PATH, 200, json={"code": code}, headers={"origin": "http://127.0.0.1:8081"})


def test_server_without_a_token_gives_none() -> None:
    for path, body in (("/penstock/code", {}), (TOKEN_PATH, {"code": "x"})):
        assert Api().send("POST", path, 404 if not body else 401, json=body)


def test_pages_without_figures_need_no_token(control: FakeControl) -> None:
    api = Api(control, access=ACCESS)
    assert api.ask("GET", "/api").status_code == api.ask("GET", "/openapi.json").status_code == 200


def test_of_more_links_than_are_kept_the_newest_give_the_token() -> None:
    codes = OneTimeCodes(lambda: Moment(0, 0))
    made = [codes.new() for _ in range(20)]
    assert [codes.redeem(code) for code in made] == [False] * 4 + [True] * 16

"""The history of jobs whose processes are gone, by Flink's paths."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.unit.rest.past import Runs, past_of_all_kinds

from penstock._engine.protocol.clocks import Moment
from penstock._engine.rest.access import AccessPolicy, OneTimeCodes
from penstock._engine.rest.guard import Guard
from penstock._engine.rest.history import History
from penstock._engine.rest.history_server import history_app

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.rest.past import Past


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Past]]:
    return past_of_all_kinds(tmp_path_factory.mktemp("past"))


class Server:
    """The history server over a directory, without a socket."""

    def __init__(self, archives: Path, access: AccessPolicy | None = None) -> None:
        access = access or AccessPolicy()
        self._app = Guard(history_app(History(str(archives), {}), access.token, OneTimeCodes(Moment.now)), access)

    def ask(self, path: str, method: str = "GET") -> httpx.Response:
        async def go() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(self._app), base_url="http://127.0.0.1:8082"
            ) as client:
                return await client.request(method, path)

        return asyncio.run(go())

    def get(self, path: str) -> Any:
        answer = self.ask(path)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()


def test_history_has_every_run_by_flinks_paths_right_after_its_process_is_gone(past: tuple[Path, list[Past]]) -> None:
    archives, made = past
    server = Server(archives)
    lines = {line["penstock"]["run_id"]: line for line in server.get("/jobs/overview")["jobs"]}
    assert lines.keys() == {run.run_id for run in made}
    newest = {run.job_id: run.run_id for run in made if run.name != "taken over"}
    for run in made:
        line = lines[run.run_id]
        is_newest = newest[run.job_id] == run.run_id
        assert line["jid"] == (run.job_id if is_newest else run.run_id), run
        assert (line["name"], line["state"], line["end-time"] > 0) == (run.name, run.state, True), run
        assert ("lost" in line["penstock"]) == run.is_lost, run
        at = f"/jobs/{line['jid']}"
        details = server.get(at)
        assert (details["jid"], details["state"]) == (line["jid"], run.state), run
        assert server.get(f"/v1{at}")["name"] == line["name"]
        failures = server.get(f"{at}/exceptions")["exceptionHistory"]["entries"]
        assert bool(failures) == (run.is_lost or run.name in {"failed", "lost an executor's host"}), run
        checkpoints = server.get(f"{at}/checkpoints")
        assert checkpoints["counts"]["in_progress"] == 0, run
        for vertex in details["vertices"]:
            assert vertex["status"] != "RUNNING", run
            assert server.get(f"{at}/vertices/{vertex['id']}/subtasktimes")["name"] == vertex["name"]


def test_lost_run_says_since_when_and_how_it_is_resumed(past: tuple[Path, list[Past]]) -> None:
    archives, made = past
    server, told = Server(archives), dict[str, Any]()
    for run in made:
        if run.is_lost:
            jid = run.run_id if run.name == "killed and resumed" else run.job_id
            told[run.name] = server.get(f"/jobs/{jid}")["penstock"]["lost"]
            [entry] = server.get(f"/jobs/{jid}/exceptions")["exceptionHistory"]["entries"]
            assert entry["exceptionName"] == "DriverLostError"
            assert entry["timestamp"] == told[run.name]["since"]
    assert told["killed and resumed"]["was_resumed"]
    assert told["killed and resumed"]["checkpoint"] is None
    assert told["killed before its first checkpoint"]["checkpoint"] is None
    for name in ("killed", "killed with its host"):
        assert not told[name]["was_resumed"]
        assert (archives.parent / name / told[name]["checkpoint"].partition(f"/{name}/")[2] / "_metadata").is_file()
    assert told["killed with its host"]["host"] == "another-host"
    assert {name for name, lost in told.items() if not lost["is_gone"]} == {"killed with its host"}


def test_page_of_a_killed_job_has_the_vertices_of_its_last_checkpoint(past: tuple[Path, list[Past]]) -> None:
    archives, made = past
    killed = next(run for run in made if run.name == "killed")
    details = Server(archives).get(f"/jobs/{killed.job_id}")
    assert [(one["name"], one["parallelism"]) for one in details["vertices"]] == [
        ("Source: numbers", 2),
        ("Sink: target", 2),
    ]
    first, second = reversed(details["plan"]["nodes"])
    assert [(edge["id"], edge["ship_strategy"]) for edge in second["inputs"]] == [(first["id"], "HASH")]


def test_history_tells_nothing_of_its_own_process_as_that_of_a_lost_driver(past: tuple[Path, list[Past]]) -> None:
    archives, made = past
    server = Server(archives)
    for run in made:
        is_known = run.name not in {"killed behind its last record"} and not run.is_lost
        jid = run.run_id if run.name in {"taken over", "killed and resumed"} else run.job_id
        for what in ("log", "configuration"):
            assert server.ask(f"/jobs/{jid}/penstock/{what}").status_code == (200 if is_known else 404), run


def test_driver_on_another_host_counts_as_lost_after_ten_minutes_of_silence(
    past: tuple[Path, list[Past]], monkeypatch: pytest.MonkeyPatch
) -> None:
    archives, made = past
    silent = next(run for run in made if run.name == "killed with its host")
    since = Server(archives).get(f"/jobs/{silent.job_id}")["penstock"]["lost"]["since"]
    for passed_ms, code in ((599_999, 404), (600_000, 200)):
        monkeypatch.setattr("penstock._engine.rest.history.now_ms", lambda now=since + passed_ms: now)
        assert Server(archives).ask(f"/jobs/{silent.job_id}").status_code == code


def test_run_that_goes_on_is_in_no_history(tmp_path: Path) -> None:
    runs, seen = Runs(tmp_path), list[Any]()
    runs.run("alive", lambda _: seen.append(Server(runs.archives).get("/jobs/overview")["jobs"]))
    assert seen == [[]]
    assert [line["name"] for line in Server(runs.archives).get("/jobs/overview")["jobs"]] == ["alive"]


def test_what_is_no_archive_is_passed_over(tmp_path: Path) -> None:
    contents = {"0" * 32: b"{", "1" * 32: b'{"archive": []}', "README": b"text", ".running/a.json": b"[]"}
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    server = Server(tmp_path)
    assert server.get("/jobs/overview") == {"jobs": []}
    assert server.ask(f"/jobs/{'0' * 32}").status_code == 404


def test_history_can_only_be_read_and_asks_for_the_token(past: tuple[Path, list[Past]]) -> None:
    archives, made = past
    server = Server(archives)
    assert server.get("/config")["features"] == {
        "web-submit": False,
        "web-cancel": False,
        "web-rescale": False,
        "web-history": True,
    }
    at = f"/jobs/{made[0].job_id}"
    assert server.ask(at, "PATCH").status_code == 405
    assert server.ask(f"{at}/yarn-cancel").status_code == 404
    assert Server(archives, AccessPolicy(token="a-long-enough-token")).ask(at).status_code == 401


def test_metrics_of_an_archive_are_asked_for_by_name(past: tuple[Path, list[Past]]) -> None:
    archives, made = past
    server, at = Server(archives), f"/jobs/{made[0].job_id}"
    vertex = server.get(at)["vertices"][0]["id"]
    [found] = server.get(f"{at}/vertices/{vertex}/subtasks/metrics?get=numRecordsIn&agg=sum")
    assert (found["id"], found["sum"]) == ("numRecordsIn", 40)
    assert server.get(f"{at}/metrics?get=numRestarts,nothing") == [{"id": "numRestarts", "value": "0"}]

"""A real driver, in a world without Spark, seen and steered through the API."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.world import World, numbers_job, published
from tests.unit.rest.fakes import Api

from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.client.job_client import DriverJobClient
from penstock._engine.rest.archive import archive
from penstock._engine.rest.metrics import flat
from penstock._engine.savepoints.disposal import dispose
from penstock.common.job_status import JobStatus
from penstock.errors import (
    CheckpointRequestError,
    CorruptCheckpointError,
    EpochInfrastructureError,
    SavepointChangeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_names = itertools.count()
ALL = dict.fromkeys(range(40), 1)


class Steered:
    """A run in which a test asks something whenever an epoch begins."""

    def __init__(self, directory: Path, world: World | None = None, **settings: str) -> None:
        self.name = f"rest-{next(_names)}"
        self.world = world or World(numbers_job(self.name), patience=3)
        settings = {"interval": "1 s", "savepoints": str(directory / "savepoints"), **settings}
        self.driver, self.loop = self.world.driver(str(directory / "checkpoints"), **settings)
        self.api = Api(self.driver)  # type: ignore[arg-type]
        self.api.now_ms = self.world.time_ms
        self.epochs = 0
        self._perform = self.loop.perform
        self.loop.perform = self._watched  # type: ignore[method-assign]
        self._asks: dict[int, Callable[[], Any]] = {}
        self.answers: dict[int, Any] = {}

    @property
    def at(self) -> str:
        return f"/v1/jobs/{self.driver.view.job_id}"

    def _watched(self, instruction: do.Instruction) -> None:
        self._perform(instruction)
        if isinstance(instruction, do.RunEpoch):
            self.epochs += 1
            if self.epochs in self._asks:
                self.answers[self.epochs] = self._asks[self.epochs]()

    def run(self, asks: dict[int, Callable[[], Any]]) -> Steered:
        """Run the job; a test asks when the epochs of those numbers have begun."""
        self._asks = asks
        self.driver.run(self.loop)
        self.api.now_ms = self.world.time_ms
        return self

    def post(self, what: str, **body: Any) -> str:
        return self.api.send("POST", f"{self.at}/{what}", 202, json=body)["request-id"]

    def outcome(self, trigger: str, kind: str = "savepoints") -> Any:
        answer = self.api.get(f"{self.at}/{kind}/{trigger}")
        assert answer["status"] == {"id": "COMPLETED"}
        return answer["operation"]


@pytest.mark.behaviour(48, 173)
@pytest.mark.parametrize("drain", [False, True])
def test_stop_ends_the_job_finished_with_its_savepoint(tmp_path: Path, *, drain: bool) -> None:
    run = Steered(tmp_path)
    run.run({2: lambda: run.post("stop", drain=drain)})
    location = run.outcome(run.answers[2])["location"]
    assert location.startswith(f"file:{tmp_path}/savepoints/savepoint-{run.driver.view.job_id[:6]}-")
    assert run.api.get(f"{run.at}/status") == {"status": "FINISHED"}
    assert run.api.get(f"{run.at}/execution-result")["job-execution-result"]["application-status"] == "SUCCEEDED"
    last = run.api.get(f"{run.at}/checkpoints")["latest"]["savepoint"]
    assert (last["checkpoint_type"], last["external_path"]) == ("SYNC_SAVEPOINT", location)


def test_a_job_goes_on_from_the_location_that_a_stop_answered(tmp_path: Path) -> None:
    run = Steered(tmp_path)
    run.run({2: lambda: run.post("stop")})
    location = run.outcome(run.answers[2])["location"]
    world = World(run.world.graph, patience=3)
    second = Steered(tmp_path, world, recover=location)
    second.run({})
    assert published(run.name) == ALL
    restored = second.api.get(f"{second.at}/checkpoints")["latest"]["restored"]
    assert (restored["is_savepoint"], restored["external_path"]) == (True, location)


def test_a_savepoint_leaves_the_job_running_and_is_in_the_history(tmp_path: Path) -> None:
    run = Steered(tmp_path)
    target = f"file:{tmp_path}/elsewhere"
    run.run({2: lambda: run.post("savepoints", **{"target-directory": target})})
    location = run.outcome(run.answers[2])["location"]
    assert location.startswith(f"{target}/savepoint-")
    assert published(run.name) == ALL
    checkpoints = run.api.get(f"{run.at}/checkpoints")
    assert checkpoints["latest"]["savepoint"]["external_path"] == location
    assert checkpoints["latest"]["savepoint"]["is_savepoint"] is True
    assert checkpoints["latest"]["completed"]["is_savepoint"] is False
    ids = [entry["id"] for entry in checkpoints["history"]]
    assert len(set(ids)) == len(ids)
    copied = checkpoints["latest"]["savepoint"]
    assert copied["id"] == 1_000_000_000 + copied["penstock"]["checkpoint_id"]


def test_cancel_with_a_savepoint_ends_the_job_cancelled(tmp_path: Path) -> None:
    run = Steered(tmp_path)
    run.run({2: lambda: run.post("savepoints", **{"cancel-job": True})})
    assert "location" in run.outcome(run.answers[2])
    assert run.api.get(f"{run.at}/status") == {"status": "CANCELED"}


def test_cancel_ends_the_job_cancelled_and_once_more_changes_nothing(tmp_path: Path) -> None:
    run = Steered(tmp_path)
    run.run({2: lambda: run.api.send("PATCH", run.at, 202)})
    result = run.api.get(f"{run.at}/execution-result")["job-execution-result"]
    assert (result["application-status"], run.api.get(f"{run.at}/status")["status"]) == ("CANCELED", "CANCELED")
    run.api.send("PATCH", run.at, 202)
    assert run.api.get(f"{run.at}/checkpoints")["counts"]["in_progress"] == 0


@pytest.mark.behaviour(53)
def test_a_savepoint_that_cannot_be_written_says_why_and_the_job_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = Steered(tmp_path)
    run.run({2: lambda: run.post("stop", targetDirectory=str(tmp_path / "file"))})
    assert "There is no savepoint" in run.outcome(run.answers[2])["failure-cause"]["stack-trace"]
    assert published(run.name) == ALL


def test_savepoints_that_cannot_be_leave_no_directory_and_pass_no_link(tmp_path: Path) -> None:
    place = tmp_path / "place"
    (place / "home").mkdir(parents=True)
    (place / "file").write_text("")
    (place / "link").symlink_to(place / "home")
    (place / "dangling").symlink_to(place / "none")
    before = sorted(place.rglob("*"))
    names = (
        *("new/below/" + "x" * 300, "file/below", "link", "link/new", "dangling/new", "new/" + "a/" * 50 + "x" * 300),
        *("new/x\0y", "new/" + "é" * 200, "new/./../new/" + "y" * 256),
    )
    run = Steered(tmp_path)
    asked = lambda: [run.post("savepoints", **{"target-directory": f"{place}/{name}"}) for name in names]  # noqa: E731
    run.run({2: asked})
    outcomes = [run.outcome(trigger) for trigger in run.answers[2]]
    assert ["failure-cause" in outcome for outcome in outcomes] == [True] * len(names)
    assert sorted(place.rglob("*")) == before
    assert run.driver.savepoints == frozenset()
    assert published(run.name) == ALL


def test_a_savepoint_at_what_cannot_be_a_url_says_so_and_the_job_goes_on(tmp_path: Path) -> None:
    run = Steered(tmp_path)
    run.run({2: lambda: run.post("stop", targetDirectory="http://[")})
    assert "Invalid IPv6 URL" in run.outcome(run.answers[2])["failure-cause"]["stack-trace"]
    assert published(run.name) == ALL


@pytest.mark.behaviour(61)
def test_a_stop_of_a_job_that_is_over_answers_through_the_outcome(tmp_path: Path) -> None:
    run = Steered(tmp_path).run({})
    cause = run.outcome(run.post("stop"))["failure-cause"]
    assert "is not running: FINISHED" in cause["stack-trace"]
    assert run.api.error("PATCH", run.at, 409).endswith("another terminal state (FINISHED).")


def test_a_checkpoint_that_is_asked_for_is_the_one_of_the_running_epoch(tmp_path: Path) -> None:
    run = Steered(tmp_path)
    run.run({2: lambda: run.post("checkpoints")})
    assert run.outcome(run.answers[2], "checkpoints") == {"checkpointId": 3}  # 1 is the driver's claim


def test_a_checkpoint_that_is_asked_for_in_a_pause_begins_an_epoch_now(tmp_path: Path) -> None:
    run = Steered(tmp_path)
    run.loop.coordinator.state.pause_ms = lambda now: 10_000  # type: ignore[method-assign]
    begun: list[int] = []
    perform = run.loop.perform

    def ask_in_the_second_pause(instruction: do.Instruction) -> None:
        perform(instruction)
        if isinstance(instruction, do.RunEpoch):
            begun.append(run.world.time_ms)
        if isinstance(instruction, do.SetAlarm) and instruction.delay_ms == 10_000 and len(begun) == 2:
            run.answers[0] = run.post("checkpoints")

    run.loop.perform = ask_in_the_second_pause  # type: ignore[method-assign]
    run.run({})
    waits = [later - earlier for earlier, later in itertools.pairwise(begun)]
    assert waits[0] > 10_000 > waits[1]
    assert run.outcome(run.answers[0], "checkpoints") == {"checkpointId": 4}  # 1 is the driver's claim


def test_a_checkpoint_that_is_asked_for_between_epoch_and_pause_begins_an_epoch_now(tmp_path: Path) -> None:
    run = Steered(tmp_path)
    run.loop.coordinator.state.pause_ms = lambda now: 10_000  # type: ignore[method-assign]
    begun: list[int] = []
    perform = run.loop.perform

    def ask_behind_the_second_epoch(instruction: do.Instruction) -> None:
        perform(instruction)
        if isinstance(instruction, do.RunEpoch):
            begun.append(run.world.time_ms)
        if isinstance(instruction, do.SnapshotEnumerators) and len(begun) == 2:
            run.answers[0] = run.post("checkpoints")

    run.loop.perform = ask_behind_the_second_epoch  # type: ignore[method-assign]
    run.run({})
    waits = [later - earlier for earlier, later in itertools.pairwise(begun)]
    assert waits[0] > 10_000 > waits[1]
    assert run.outcome(run.answers[0], "checkpoints") == {"checkpointId": 4}


def test_a_checkpoint_of_a_job_that_is_cancelled_meanwhile_says_so(tmp_path: Path) -> None:
    run = Steered(tmp_path)
    run.run({2: lambda: (run.post("checkpoints"), run.driver.cancel())[0]})
    cause = run.outcome(run.answers[2], "checkpoints")["failure-cause"]
    assert "the job was cancelled" in cause["stack-trace"]
    again = DriverJobClient(run.driver).trigger_checkpoint()
    with pytest.raises(CheckpointRequestError, match="the job is CANCELED"):
        again.result(0)


def test_a_checkpoint_of_a_job_that_restarts_is_given_up(tmp_path: Path) -> None:
    run = Steered(tmp_path, restart="fixed-delay", attempts="1")
    run.world.trouble[2] = ValueError("once")
    run.run({2: lambda: run.post("checkpoints")})
    assert "once" in run.outcome(run.answers[2], "checkpoints")["failure-cause"]["stack-trace"]


@pytest.mark.behaviour(175)
def test_what_is_shown_while_an_epoch_runs(tmp_path: Path) -> None:
    run = Steered(tmp_path)
    run.run({4: lambda: (run.api.get(f"{run.at}/checkpoints"), run.api.get(run.at))})
    checkpoints, details = run.answers[4]
    assert checkpoints["counts"] == {"restored": 0, "total": 4, "in_progress": 1, "completed": 3, "failed": 0}
    assert [entry["status"] for entry in checkpoints["history"]] == ["IN_PROGRESS"] + ["COMPLETED"] * 3
    # The two newest are kept.
    assert [entry.get("discarded") for entry in checkpoints["history"]] == [None, False, False, True]
    assert details["state"] == "RUNNING"
    read = details["vertices"][0]["metrics"]
    assert read["read-records"] == read["write-records"] == details["penstock"]["records"] > 0
    assert read["write-bytes"] == 8 * read["write-records"]


def test_figures_of_a_job_that_has_finished(tmp_path: Path) -> None:
    run = Steered(tmp_path).run({})
    details = run.api.get(run.at)
    assert details["state"] == "FINISHED"
    assert details["timestamps"]["FINISHED"] >= details["timestamps"]["RUNNING"] > 0
    assert details["end-time"] - details["start-time"] == details["duration"]
    assert [vertex["status"] for vertex in details["vertices"]] == ["FINISHED", "FINISHED"]
    assert details["vertices"][0]["metrics"]["read-records"] == 40
    assert details["penstock"]["pending_commits"] == {}
    history = run.api.get(f"{run.at}/checkpoints")["history"]
    assert {entry["discarded"] for entry in history} == {True}  # a job that has finished keeps none
    details = run.api.get(f"{run.at}/checkpoints/details/{history[0]['id']}")
    assert sum(task["num_acknowledged_subtasks"] for task in details["tasks"].values()) == details["num_subtasks"]


def test_figures_of_an_enumerator_are_with_its_source(tmp_path: Path) -> None:
    run = Steered(tmp_path).run({})
    source = run.api.get(run.at)["vertices"][0]
    below, operator = f"{run.at}/vertices/{source['id']}", flat(source["name"].partition(" -> ")[0])
    name = f"{operator}.coordinator.enumerator.unassignedSplits"
    assert {"id": name} in run.api.get(f"{below}/jm-operator-metrics")
    assert run.api.get(f"{below}/jm-operator-metrics?get={name}") == [{"id": name, "value": "0"}]
    assert run.api.get(f"{below}/metrics?get=0.{name},1.{name}") == [{"id": f"0.{name}", "value": "0"}]
    sink = run.api.get(run.at)["vertices"][1]
    assert run.api.get(f"{run.at}/vertices/{sink['id']}/jm-operator-metrics") == []


def test_an_epoch_that_was_lost_is_a_failed_checkpoint_and_an_exception(tmp_path: Path) -> None:
    run = Steered(tmp_path)
    run.world.trouble[2] = EpochInfrastructureError("an executor died")
    run.run({})
    checkpoints = run.api.get(f"{run.at}/checkpoints")
    assert checkpoints["counts"]["failed"] == 1
    assert "an executor died" in checkpoints["latest"]["failed"]["failure_message"]
    (entry,) = run.api.get(f"{run.at}/exceptions")["exceptionHistory"]["entries"]
    assert (entry["taskName"], entry["penstock"]["counted"]) == (None, False)


def test_a_restart_counts_as_restored_from_the_last_checkpoint(tmp_path: Path) -> None:
    run = Steered(tmp_path, restart="fixed-delay", attempts="1")
    run.world.trouble[3] = ValueError("once")
    run.run({})
    checkpoints = run.api.get(f"{run.at}/checkpoints")
    assert (checkpoints["counts"]["restored"], checkpoints["latest"]["restored"]["is_savepoint"]) == (1, False)
    entries = checkpoints["history"]
    assert len({entry["id"] for entry in entries}) == len(entries)
    (tried,) = [entry for entry in entries if entry["className"] == "failed"]
    assert tried["id"] == 1_000_000_000 + tried["penstock"]["checkpoint_id"]
    assert checkpoints["latest"]["failed"]["id"] == tried["id"]
    found = run.api.get(f"{run.at}/metrics?get=numRestarts,restartingTime")
    assert {one["id"]: one["value"] for one in found} == {"numRestarts": "1", "restartingTime": "0"}
    assert run.api.get(run.at)["timestamps"]["RESTARTING"] > 0


@pytest.mark.behaviour(176)
def test_a_job_that_failed_shows_why(tmp_path: Path) -> None:
    run = Steered(tmp_path, restart="none")
    run.world.trouble[2] = ValueError("for good")
    run.run({})
    result = run.api.get(f"{run.at}/execution-result")["job-execution-result"]
    assert result["application-status"] == "FAILED"
    assert result["failure-cause"]["class"] == "ValueError"
    assert "for good" in result["failure-cause"]["stack-trace"]


def test_a_disposed_savepoint_is_gone_and_nothing_else_is_ever_deleted(tmp_path: Path) -> None:
    run = Steered(tmp_path)
    run.run({2: lambda: run.post("savepoints")})
    location = run.outcome(run.answers[2])["location"]
    path = tmp_path / "savepoints" / location.rpartition("/")[2]
    checkpoint = next((tmp_path / "checkpoints").glob("*/chk-*"))
    with pytest.raises(SavepointChangeError, match="no savepoint"):
        dispose(str(checkpoint))
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "_metadata").write_text("{")
    with pytest.raises(CorruptCheckpointError):
        dispose(f"{damaged}/_metadata")
    dispose(f"{location}/_metadata")
    assert not any(file.is_file() for file in path.rglob("*"))
    assert (checkpoint / "_metadata").is_file()
    assert (damaged / "_metadata").is_file()


def test_the_archive_has_the_answers_of_the_job_with_their_paths(tmp_path: Path) -> None:
    run = Steered(tmp_path).run({})
    content = json.loads(archive(run.driver.view))
    assert list(content) == ["archive"]
    answers = {entry["path"]: json.loads(entry["json"]) for entry in content["archive"]}
    at, job_id = run.at.removeprefix("/v1"), run.driver.view.job_id
    (line,) = answers["/jobs/overview"]["jobs"]
    assert line["jid"] == job_id
    assert "penstock" not in line  # Flink's history server would list no job at all
    for path in (at, f"{at}/plan", f"{at}/config", f"{at}/exceptions", f"{at}/checkpoints", f"{at}/checkpoints/config"):
        live = run.api.get(path)
        assert {**answers[path], "now": 0} == {**live, "now": 0}
    for vertex in answers[at]["vertices"]:
        assert answers[f"{at}/vertices/{vertex['id']}"]["name"] == vertex["name"]


def test_the_archive_of_a_job_without_checkpoints_says_so(tmp_path: Path) -> None:
    world = World(numbers_job(f"rest-{next(_names)}"))
    driver, loop = world.driver(None)
    driver.run(loop)
    content = json.loads(archive(driver.view))
    answers = {entry["path"]: json.loads(entry["json"]) for entry in content["archive"]}
    (text,) = answers[f"/jobs/{driver.view.job_id}/checkpoints"]["errors"]
    assert "Checkpointing has not been enabled" in text
    assert driver.status is JobStatus.FINISHED

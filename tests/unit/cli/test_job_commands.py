"""The commands about running jobs, against a driver that answers as Flink's does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.unit.cli.fake_driver import IN_PROGRESS, TRIGGER, FakeDriver, completed, serving
from tests.unit.rest.certificates import made
from tests.unit.rest.fakes import JOB, FakeControl
from tests.unit.rest.test_server import make

from penstock._engine.cli.rest_client import Poller, RestClient
from penstock._engine.processes.registry import JobRegistry, RegistryEntry, default_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.cli.conftest import Command

SAVEPOINT = "/savepoints/savepoint-ababab-0123456789ab"


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    with serving(FakeDriver()) as fake:
        yield fake


def test_list_shows_the_running_jobs_of_the_registry(penstock: Command, driver: FakeDriver) -> None:
    done = penstock("list")
    assert done.code == 0
    header, row = done.out.splitlines()
    assert header.split()[:3] == ["NAME", "ID", "STATE"]
    assert row.split()[:3] == ["prices", driver.job_id, "RUNNING"]
    assert "1 m 1 s" in row


def test_list_shows_a_job_that_waits_for_its_cluster_and_a_probe_does_not_count_it(penstock: Command) -> None:
    registry = JobRegistry(default_directory())
    starting = RegistryEntry.of_this_process("", "orders", "http://127.0.0.1:8081", 1_000, run_id="a")
    registry.add(starting)
    _, row = penstock("list").out.splitlines()
    assert row.split()[:3] == ["orders", "-", "STARTING"]
    assert penstock("list", "--check").code == 5
    registry.remove(starting)
    assert penstock("list").out == ""


def test_list_leaves_ended_jobs_out_unless_asked(penstock: Command, driver: FakeDriver) -> None:
    driver.state = "FINISHED"
    assert json.loads(penstock("list", "--json").out) == []
    assert [row["state"] for row in json.loads(penstock("list", "--all", "--json").out)] == ["FINISHED"]


def test_list_without_jobs_says_where_others_may_be(penstock: Command) -> None:
    done = penstock("list")
    assert (done.code, done.out) == (0, "")
    assert "--address" in done.err


def test_list_as_a_probe_ends_with_the_code_of_what_it_sees(penstock: Command, driver: FakeDriver) -> None:
    assert penstock("list", "--check").code == 0
    driver.token = "changed"
    assert (penstock("list", "--check").code, penstock("list").code) == (6, 0)
    driver.token, driver.state = None, "FINISHED"
    assert penstock("list", "--check").code == 5


def test_list_shows_a_registered_job_that_does_not_answer(penstock: Command, driver: FakeDriver) -> None:
    driver.token = "changed"
    (row,) = json.loads(penstock("list", "--json").out)
    assert (row["jid"], row["state"]) == (driver.job_id, "UNREACHABLE")


@pytest.mark.parametrize(
    ("words", "said"), [((), "The server wants a token"), (("--token", "another"), "This is not the server's token")]
)
def test_list_without_the_token_says_where_it_is(
    penstock: Command, home: Path, words: tuple[str, ...], said: str
) -> None:
    with serving(FakeDriver(token="0123456789abcdef"), registered=False) as other:
        done = penstock("list", "--address", other.address, *words)
    assert done.code != 0
    assert f"{said}: give it with --token or PENSTOCK_TOKEN." in done.err
    assert f"{home}/.local/state/penstock/jobs/<job's id>-….json" in done.err


@pytest.mark.parametrize("wanted", ["ab" * 16, "abab", "prices", "ABAB"])
def test_job_is_found_by_id_prefix_or_name(penstock: Command, driver: FakeDriver, wanted: str) -> None:
    found = json.loads(penstock("info", wanted, "--json").out)
    assert found["job"]["jid"] == driver.job_id
    assert found["checkpoints"]["counts"]["completed"] == 4


def test_job_that_is_not_there_is_told_with_those_that_are(penstock: Command, driver: FakeDriver) -> None:
    done = penstock("info", "orders")
    assert done.code == 5
    assert len(done.err.splitlines()) == 1
    assert f"prices ({driver.job_id})" in done.err


def test_name_of_two_jobs_is_refused_and_both_are_told(penstock: Command, driver: FakeDriver) -> None:
    with serving(FakeDriver(job_id="cd" * 16)):
        done = penstock("stop", "prices")
    assert done.code == 5
    assert driver.job_id in done.err
    assert "cd" * 16 in done.err
    assert driver.asked == []


def test_running_job_goes_before_an_ended_one_of_its_name(penstock: Command, driver: FakeDriver) -> None:
    with serving(FakeDriver(job_id="cd" * 16, state="FINISHED")):
        assert json.loads(penstock("info", "prices", "--json").out)["job"]["jid"] == driver.job_id


def test_info_shows_operators_checkpoints_and_the_last_failure(penstock: Command, driver: FakeDriver) -> None:
    shown = penstock("info", driver.name).out
    for part in ("Source: numbers -> Map", "12,345", "/checkpoints/chk-4", "4 completed, 1 failed", "ValueError: bad"):
        assert part in shown


def test_info_shows_a_job_that_keeps_no_checkpoints(penstock: Command, driver: FakeDriver) -> None:
    driver.keeps_checkpoints = False
    done = penstock("info", "prices")
    assert done.code == 0
    assert "execution.checkpointing.dir is not set" in done.out
    assert "Source: numbers -> Map" in done.out
    assert json.loads(penstock("info", "prices", "--json").out)["checkpoints"] is None


def test_info_shows_accumulators_of_a_job_that_has_some(penstock: Command, driver: FakeDriver) -> None:
    assert "ACCUMULATORS" not in penstock("info", driver.name).out
    driver.accumulators = [{"name": "bad-lines", "type": "IntCounter", "value": "17"}]
    shown = penstock("info", driver.name).out
    assert "ACCUMULATORS" in shown
    assert ["bad-lines", "IntCounter", "17"] in [line.split() for line in shown.splitlines()]
    assert json.loads(penstock("info", driver.name, "--json").out)["accumulators"] == driver.accumulators


def test_info_shows_what_committers_gave_up(penstock: Command, driver: FakeDriver) -> None:
    lost = {"operator": "Sink: out", "uid": "out", "first_checkpoint_id": 3, "last_checkpoint_id": 3, "count": 2}
    driver.given_up = [{**lost, "reason": "TimeoutError('expired')"}]
    said = penstock("info", "prices").out
    assert "Sink: out (uid out), 2 committables of checkpoint 3: TimeoutError('expired')" in said
    driver.given_up = []
    assert "Given up" not in penstock("info", "prices").out


def test_info_shows_what_a_batch_job_has_recovered_and_what_ran_again(penstock: Command, driver: FakeDriver) -> None:
    assert "Recovered" not in penstock("info", "prices").out
    [vertex] = json.loads(penstock("info", "prices", "--json").out)["job"]["vertices"]
    driver.recovery = {"recorded": 3, "recovered": {vertex["id"]: 2}, "ran_again": {vertex["id"]: 1}, "damage": "cut"}
    lines = [line.split(maxsplit=1) for line in penstock("info", "prices").out.splitlines()]
    assert ["Recovered", f"2 finished subtasks: {vertex['name']} (2)"] in lines
    assert ["Ran", f"again        1 finished subtask: {vertex['name']} (1)"] in lines
    assert ["Damaged", "events   cut"] in lines


def test_stop_waits_and_prints_the_savepoint_alone_on_standard_output(penstock: Command, driver: FakeDriver) -> None:
    driver.answers = [IN_PROGRESS, completed({"location": SAVEPOINT})]
    done = penstock("stop", "prices", "--drain", "--savepoint-path", "sp")
    assert (done.code, done.out) == (0, f"{SAVEPOINT}\n")
    assert driver.asked == [("POST", "/stop", {"drain": True, "targetDirectory": str(Path.cwd() / "sp")})]
    assert f"penstock run -s {SAVEPOINT}" in done.err


def test_stop_leaves_the_directory_to_the_job(penstock: Command, driver: FakeDriver) -> None:
    driver.answers = [completed({"location": SAVEPOINT})]
    done = penstock("stop", "prices", "--json")
    assert json.loads(done.out) == {"job": driver.job_id, "savepoint": SAVEPOINT}
    assert driver.asked == [("POST", "/stop", {"drain": False})]


def test_failed_stop_is_one_line_without_a_trace(penstock: Command, driver: FakeDriver) -> None:
    cause = {
        "class": "penstock.errors.SavepointError",
        "stack-trace": "SavepointError: There is none: the disk is full.\n  at Java.java:1",
    }
    driver.answers = [completed({"failure-cause": cause})]
    done = penstock("stop", "prices")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"penstock: There is none: the disk is full. ({driver.address})\n"


def test_stop_that_takes_too_long_is_told_with_the_way_out(penstock: Command, driver: FakeDriver) -> None:
    driver.answers = [IN_PROGRESS]
    done = penstock("stop", "prices", "--timeout", "0 s")
    assert done.code == 7
    assert f"penstock cancel {driver.job_id}" in done.err


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("stop", "prices"), "/savepoints"),
        (("savepoint", "take", "prices"), "/savepoints"),
        (("cancel", "prices", "--with-savepoint"), "/savepoints"),
        (("checkpoint", "prices"), "/checkpoints"),
    ],
)
def test_command_that_waits_no_longer_says_so(
    penstock: Command, driver: FakeDriver, words: tuple[str, ...], place: str
) -> None:
    driver.answers = [IN_PROGRESS]
    assert penstock(*words, "--timeout", "0 s").code == 7
    assert driver.asked[-1] == ("DELETE", f"{place}/{TRIGGER}", None)


def test_interrupted_command_waits_no_longer_and_says_so(driver: FakeDriver) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    driver.answers = [IN_PROGRESS]
    with RestClient(driver.address) as client, pytest.raises(KeyboardInterrupt):
        client.operate(driver.job_id, "stop", {}, Poller("The stop", None, "", sleep=interrupted))
    assert driver.asked[-1] == ("DELETE", f"/savepoints/{TRIGGER}", None)


def test_command_that_gives_up_on_a_job_which_has_gone_meanwhile_tells_the_time_alone(
    penstock: Command, driver: FakeDriver
) -> None:
    driver.answers, driver.forgets = [IN_PROGRESS], True
    done = penstock("stop", "prices", "--timeout", "0 s")
    assert (done.code, len(done.err.splitlines())) == (7, 1)


def test_savepoint_of_a_job_that_goes_on(penstock: Command, driver: FakeDriver) -> None:
    driver.answers = [completed({"location": SAVEPOINT})]
    done = penstock("savepoint", "take", "prices", "--savepoint-path", "s3://bucket/sp")
    assert (done.code, done.out) == (0, f"{SAVEPOINT}\n")
    assert driver.asked == [("POST", "/savepoints", {"target-directory": "s3://bucket/sp"})]


def test_checkpoint_prints_its_number(penstock: Command, driver: FakeDriver) -> None:
    driver.answers = [completed({"checkpointId": 6})]
    assert penstock("checkpoint", "prices").out == "6\n"
    assert driver.asked == [("POST", "/checkpoints", {})]


def test_cancel_waits_for_the_end(penstock: Command, driver: FakeDriver) -> None:
    done = penstock("cancel", "prices", "--json")
    assert json.loads(done.out) == {"job": driver.job_id, "status": "CANCELED"}
    assert driver.asked == [("PATCH", "", None)]


def test_cancel_with_savepoint_is_one_request(penstock: Command, driver: FakeDriver) -> None:
    driver.answers = [completed({"location": SAVEPOINT})]
    driver.state = "CANCELED"
    assert penstock("cancel", "prices", "--with-savepoint").out == f"{SAVEPOINT}\n"
    assert driver.asked == [("POST", "/savepoints", {"cancel-job": True})]


def test_savepoint_path_without_a_savepoint_is_refused(penstock: Command, driver: FakeDriver) -> None:
    assert penstock("cancel", "prices", "--savepoint-path", "sp").code == 2
    assert driver.asked == []


def test_job_elsewhere_is_found_by_address_and_token(penstock: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(FakeDriver(token="secret"), registered=False) as driver:
        without_scheme = driver.address.removeprefix("http://")
        assert penstock("info", "prices", "--address", without_scheme, "--token", "secret").code == 0
        refused = penstock("info", "prices", "--address", without_scheme)
        assert (refused.code, "wants a token" in refused.err) == (1, True)
        monkeypatch.setenv("PENSTOCK_ADDRESS", driver.address)
        monkeypatch.setenv("PENSTOCK_TOKEN", "secret")
        assert penstock("info", "prices").code == 0


def test_driver_at_an_address_is_known_by_the_authority_that_is_given(
    penstock: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = made(tmp_path)
    keys = {"security.ssl.rest.enabled": "true", "security.ssl.rest.keystore": str(files.both)}
    server = make(tmp_path, **{"penstock.rest.token": "operate-0123456789", **keys})
    server.add(FakeControl())
    server.start(2)
    given = ("--address", server.address, "--token", "operate-0123456789")
    refused = penstock("list", *given)
    assert (refused.code, "--cacert or PENSTOCK_CACERT" in refused.err) == (6, True)
    assert JOB in penstock("list", *given, "--cacert", str(files.authority)).out
    assert penstock("list", *given, "--cacert", str(files.other)).code == 6
    monkeypatch.setenv("PENSTOCK_CACERT", str(files.authority))
    assert penstock("info", JOB, *given).code == 0
    server.close()


def test_token_of_the_registry_is_shown_to_the_driver(penstock: Command) -> None:
    with serving(FakeDriver(token="secret")):
        assert penstock("info", "prices").code == 0


def test_address_that_is_none_is_one_line(penstock: Command) -> None:
    done = penstock("list", "--address", "localhost:8081x")
    assert done.code == 6
    assert len(done.err.splitlines()) == 1
    assert "localhost:8081x" in done.err


def test_address_where_nothing_listens_is_one_line(penstock: Command) -> None:
    with serving(FakeDriver(), registered=False) as driver:
        address = driver.address
    done = penstock("list", "--address", address)
    assert done.code == 6
    assert len(done.err.splitlines()) == 1
    assert address in done.err

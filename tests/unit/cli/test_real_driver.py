"""The command against the REST server of a real driver, whose epochs run in this process."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fault.job import NAME, SteadyRunner, assembled, counting_graph

from penstock._engine.cli import rest_client
from penstock._engine.cli.rest_client import Credentials, Poller, RestClient
from penstock._engine.rest.server import RestServer
from penstock._engine.rest.settings import RestSettings
from penstock.common.configuration import Configuration
from penstock.common.job_status import JobStatus
from penstock.errors import JobCancelledError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.cli.conftest import Command

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.plan.epoch_plan import EpochOutcome, EpochPlan

TOKEN = "operate-0123456789"


class PatientRunner(SteadyRunner):
    """Runs two epochs, a third one when something was asked for, and others only for a stop."""

    driver: JobDriver
    server: RestServer

    def run(self, plan: EpochPlan) -> EpochOutcome:
        while self._is_to_wait and self.driver.status is JobStatus.RUNNING:
            time.sleep(0.01)
        return super().run(plan)

    @property
    def _is_to_wait(self) -> bool:
        if self.driver.stopping is not None:
            return False
        return len(self.plans) > 2 or (len(self.plans) == 2 and not self.server.operations.unread)


@pytest.fixture
def server() -> Iterator[RestServer]:
    """A server that wants a token; it is listed in the home of these tests."""
    keys = {"rest.port": "0", "penstock.rest.token": TOKEN}
    server = RestServer(RestSettings.read(Configuration.from_dict(keys)), dispose=lambda _1, _2, _3: None)
    server.start(2)
    yield server
    server.close()


@pytest.fixture
def driver(tmp_path: Path, penstock: Command, server: RestServer) -> Iterator[JobDriver]:
    """A job that has two checkpoints and goes on when it is asked for something."""
    runner = PatientRunner()
    runner.server = server
    runner.driver, loop = assembled(counting_graph(tmp_path), tmp_path, runner, retained="2")
    server.add(runner.driver)
    loop.add_listener(server)
    runner.driver.watch.on_named.append(server.job_named)
    runner.driver.watch.on_end.append(server.job_ended)
    runner.driver.start(loop)
    while runner.driver.progress.epochs < 2:
        time.sleep(0.01)
    penstock("list")  # takes what was printed until now
    yield runner.driver
    runner.driver.cancel()
    runner.driver.result.exception(60)


def test_job_is_listed_and_shown_without_a_word_about_address_or_token(penstock: Command, driver: JobDriver) -> None:
    (row,) = json.loads(penstock("list", "--json").out)
    assert (row["name"], row["jid"], row["state"]) == (NAME, driver.job_id, "RUNNING")
    shown = penstock("info", NAME)
    assert shown.code == 0, shown.err
    assert "2 completed" in shown.out
    assert len(json.loads(penstock("info", driver.job_id[:8], "--json").out)["job"]["vertices"]) > 1


def test_job_whose_entry_was_cleaned_away_is_listed_again_after_its_next_epoch(
    penstock: Command, driver: JobDriver, server: RestServer, home: Path
) -> None:
    shutil.rmtree(home / ".local")
    assert json.loads(penstock("list", "--json").out) == []
    assert penstock("checkpoint", NAME, "--address", server.address, "--token", TOKEN).code == 0
    deadline = time.monotonic() + 60
    while driver.job_id not in penstock("list").out:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_stopped_job_leaves_its_savepoint(penstock: Command, driver: JobDriver, tmp_path: Path) -> None:
    done = penstock("stop", NAME, "--savepoint-path", str(tmp_path / "sp"), "--json", "--timeout", "60 s")
    assert done.code == 0, done.err
    answer = json.loads(done.out[done.out.index("{") :])  # behind what the job prints
    assert (Path(answer["savepoint"]) / "_metadata").is_file()
    driver.result.result(60)
    assert driver.status is JobStatus.FINISHED


def test_stop_whose_command_has_given_up_ends_the_job_and_holds_no_program_back(
    penstock: Command, driver: JobDriver, server: RestServer, tmp_path: Path
) -> None:
    assert penstock("stop", NAME, "--savepoint-path", str(tmp_path / "sp"), "--timeout", "0 s").code == 7
    driver.result.result(60)
    assert driver.status is JobStatus.FINISHED
    assert len(list(tmp_path.glob("sp/*/_metadata"))) == 1
    assert server.operations.wait_until_read(0)


class KilledError(BaseException):
    """Stands for SIGKILL: nothing may catch it."""


def test_stop_whose_command_was_killed_ends_the_job_and_holds_no_program_back(
    driver: JobDriver, server: RestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: float) -> None:
        raise KilledError

    monkeypatch.setattr(rest_client, "_LEASE_MS", 100)
    with RestClient(server.address, Credentials(TOKEN)) as client, pytest.raises(KilledError):
        client.operate(
            driver.job_id, "stop", {"targetDirectory": str(tmp_path / "sp")}, Poller("The stop", None, "", sleep=killed)
        )
    driver.result.result(60)
    assert len(list(tmp_path.glob("sp/*/_metadata"))) == 1
    assert server.operations.wait_until_read(30)


def test_savepoint_without_a_directory_is_refused_with_the_key_to_set(penstock: Command, driver: JobDriver) -> None:
    done = penstock("savepoint", "take", NAME)
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert "execution.checkpointing.savepoint-dir" in done.err
    assert driver.status is JobStatus.RUNNING


def test_checkpoint_on_request_has_a_number(penstock: Command, driver: JobDriver) -> None:
    done = penstock("checkpoint", NAME, "--timeout", "60 s")
    assert done.code == 0, done.err
    assert int(done.out.splitlines()[-1]) > 2
    assert driver.job_name == NAME


def test_cancelled_job_has_ended_when_the_command_returns(penstock: Command, driver: JobDriver) -> None:
    done = penstock("cancel", NAME, "--json", "--timeout", "60 s")
    assert done.code == 0, done.err
    assert json.loads(done.out[done.out.index("{") :])["status"] == "CANCELED"
    with pytest.raises(JobCancelledError):
        driver.result.result(60)

"""``penstock savepoint inspect``: what it shows of what a job has written."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.fault.job import NAME, SteadyRunner, assembled, counting_graph

from penstock._engine.protocol.control import StopMode
from penstock._engine.savepoints.counting import KeyedStateCounter

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from tests.unit.cli.conftest import Command

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.plan.epoch_plan import EpochOutcome, EpochPlan


class StoppingRunner(SteadyRunner):
    """Stops its job with a savepoint while the third epoch runs."""

    driver: JobDriver
    directory: str
    asked: Future[str]

    def run(self, plan: EpochPlan) -> EpochOutcome:
        if len(self.plans) == 2:
            self.asked = self.driver.savepoint(self.directory, StopMode.SUSPEND)
            while self.driver._requests._line:  # its directory is looked at on another thread, which may be slow
                time.sleep(0.001)
        return super().run(plan)


@pytest.fixture
def savepoint(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    """The savepoint into which a job stopped."""
    runner = StoppingRunner()
    runner.driver, loop = assembled(counting_graph(tmp_path), tmp_path, runner)
    runner.directory = str(tmp_path / "savepoints")
    runner.driver.run(loop)
    capfd.readouterr()
    return Path(runner.asked.result())


def inspected(penstock: Command, path: Path, *words: str) -> dict[str, Any]:
    done = penstock("savepoint", "inspect", str(path), "--json", *words)
    assert done.code == 0, done.err
    content: dict[str, Any] = json.loads(done.out)
    return content


def test_operators_and_states_are_shown_as_data(penstock: Command, savepoint: Path) -> None:
    found = inspected(penstock, savepoint, "--verify", "--count-keys")
    assert (found["kind"], found["job_name"], found["verified"]) == ("savepoint", NAME, True)
    keys = [part["keys"] for operator in found["operators"] for part in operator["keyed_states"]]
    assert keys
    assert all(keys)


def test_table_names_each_operator_and_state(penstock: Command, savepoint: Path) -> None:
    data = inspected(penstock, savepoint)
    shown = penstock("savepoint", "inspect", str(savepoint)).out
    assert f"{NAME} ({data['job_id']})" in shown
    assert any(operator["keyed_states"] for operator in data["operators"])
    for operator in data["operators"]:
        assert operator["uid"] in shown
        assert all(part["name"] in shown for part in operator["keyed_states"])


def test_entries_of_files_are_not_called_keys(
    penstock: Command, savepoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exactly = penstock("savepoint", "inspect", str(savepoint), "--count-keys")
    assert "ENTRIES IN FILES" in exactly.out
    assert "not counted" not in exactly.out
    assert "--count-keys" not in exactly.err
    assert "TO COMMIT" in exactly.out
    assert "commits those that are not committed yet" in exactly.err
    monkeypatch.setattr(KeyedStateCounter, "count", _without_keys(KeyedStateCounter.count))
    quickly = penstock("savepoint", "inspect", str(savepoint))
    assert "not counted" in quickly.out
    assert "a key may have several. --count-keys" in quickly.err


def _without_keys(count: Callable[..., Any]) -> Callable[..., Any]:
    """Return what stands for files with deltas, whose keys are known only when all are read."""
    return lambda self, **how: tuple(replace(state, keys=None) for state in count(self, **how))


def test_damaged_file_is_named_in_one_line(penstock: Command, savepoint: Path) -> None:
    (savepoint / "_metadata").write_bytes(b"nothing")
    done = penstock("savepoint", "inspect", str(savepoint))
    assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
    assert str(savepoint) in done.err


def test_path_without_a_savepoint_is_told_with_what_is_there(penstock: Command) -> None:
    Path("elsewhere").mkdir()
    done = penstock("savepoint", "inspect", "elsewhere")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert str(Path("elsewhere").absolute()) in done.err


def test_disposed_savepoint_is_gone(penstock: Command, savepoint: Path) -> None:
    shutil.rmtree(savepoint.parents[1] / "checkpoints")
    assert penstock("savepoint", "dispose", str(savepoint)).code == 1
    done = penstock("savepoint", "dispose", str(savepoint), "--json", "--no-job-waits")
    assert done.code == 0, done.err
    assert json.loads(done.out)["path"] == str(savepoint)
    assert not any(path.is_file() for path in savepoint.rglob("*"))


def test_savepoint_that_a_job_goes_on_from_is_not_disposed(penstock: Command, savepoint: Path, tmp_path: Path) -> None:
    refused = penstock("savepoint", "dispose", str(savepoint), "--checkpoint-dir", str(tmp_path / "checkpoints"))
    assert (refused.code, len(refused.err.splitlines())) == (1, 1)
    configured = penstock(
        "savepoint", "dispose", str(savepoint), "-D", f"execution.checkpointing.dir={tmp_path / 'checkpoints'}"
    )
    assert configured.code == 1
    assert (savepoint / "_metadata").exists()

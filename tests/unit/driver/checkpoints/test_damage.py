"""A task finds a damaged state file: the job ends with the file's name and what can be restored in its place."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.kit.world import World, numbers_job

from penstock._engine.protocol.control import TaskFailure
from penstock._engine.protocol.paths import checkpoint_ids
from penstock._engine.storage.opening import open_storage
from penstock.common.job_status import JobStatus
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.plan.epoch_plan import EpochOutcome

JOB_ID = "0123456789abcdef" * 2


def finding(path: str) -> Callable[[EpochOutcome], EpochOutcome]:
    """Return an epoch in which a task finds a damaged file; another one fails before it for a reason of its own."""

    def failed(outcome: EpochOutcome) -> EpochOutcome:
        errors = ValueError("bad"), CorruptCheckpointError(path, "it is damaged")
        failures = [
            TaskFailure("sum", "sum-1", 1, 0, "", None, repr(error), "", pickle.dumps(error)) for error in errors
        ]
        return replace(outcome, acks=(), failures=tuple(failures))

    return failed


def run(name: str, path: str) -> JobDriver:
    world = World(numbers_job(name), patience=3, trouble={5: finding(path)})
    driver, loop = world.driver(f"memory://{name}", interval="1 s", job_id=JOB_ID, retained="9")
    driver.run(loop)
    return driver


@pytest.mark.parametrize("root", ["", "memory://{name}/"])
def test_damaged_state_file_ends_the_job_at_once_whatever_its_restart_strategy(name: str, root: str) -> None:
    path = f"{JOB_ID}/shared/sum-0-5-00000000000000ff"
    driver = run(name, root.format(name=name) + path)
    error = driver.result.exception()
    assert isinstance(error, CorruptCheckpointError)
    assert error.path == f"memory://{name}/{path}"
    assert (driver.status, driver.progress.restarts) == (JobStatus.FAILED, 0)


def test_newest_checkpoint_that_does_without_the_file_is_offered(name: str) -> None:
    error = run(name, f"{JOB_ID}/shared/sum-0-5-00000000000000ff").result.exception()
    assert isinstance(error, CorruptCheckpointError)
    newest = checkpoint_ids(open_storage(f"memory://{name}").names(JOB_ID))[-2]  # the last one tells of the end
    assert error.reason == f"it is damaged; the one before it is memory://{name}/{JOB_ID}/chk-{newest}"

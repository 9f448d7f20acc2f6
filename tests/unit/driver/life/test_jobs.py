"""The life of a job: failures and restarts, cancelling, commits, what is kept, what the program sees."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from tests.kit.world import World, numbers_job, published
from tests.unit.driver.life.runs import ALL, JOB_ID, cancel_at, failing, of, run, start

from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.client.job_client import JobHandle
from penstock._engine.driver.mailbox import SystemClock
from penstock._engine.protocol.paths import is_job_directory
from penstock._engine.storage.opening import open_storage
from penstock.common.job_status import JobStatus
from penstock.errors import (
    JobCancelledError,
    JobExecutionError,
    SavepointError,
)

if TYPE_CHECKING:
    from pathlib import Path

# --------------------------------------------------------------------------------------------------------- what is kept


def files(name: str) -> list[str]:
    found = (file.path.partition("/") for file in open_storage(f"memory://{name}").files(""))
    return [path for job_id, _, path in found if is_job_directory(job_id)]


@pytest.mark.behaviour(165)
def test_running_job_keeps_the_newest_checkpoints_and_all_claims(name: str) -> None:
    world = World(numbers_job(name), patience=3)
    driver, loop, seen = start(name, world, interval="1 s", retained="3", job_id=JOB_ID)
    cancel_at(loop, 60)
    driver.run(loop)
    newest = of(do.PutChainEntry, seen)[-1].entry.checkpoint_id
    kept = {f"chk-{number}/_metadata" for number in (1, newest - 3, newest - 2, newest - 1, newest)}
    assert set(files(name)) == kept


@pytest.mark.behaviour(165)
def test_finished_job_leaves_its_first_and_its_last_record_alone(name: str) -> None:
    _, seen = run(name, World(numbers_job(name), patience=3), interval="1 s")
    last = of(do.PutChainEntry, seen)[-1].entry.checkpoint_id
    assert files(name) == sorted(["chk-1/_metadata", f"chk-{last}/_metadata"])


@pytest.mark.parametrize(
    ("retention", "kept"),
    [("RETAIN_ON_CANCELLATION", True), ("DELETE_ON_CANCELLATION", True), ("NO_EXTERNALIZED_CHECKPOINTS", False)],
)
@pytest.mark.behaviour(165)
def test_failed_job_keeps_its_checkpoints_as_the_setting_says(name: str, retention: str, *, kept: bool) -> None:
    world = World(numbers_job(name), patience=3, trouble={6: failing})
    driver, _ = run(name, world, retention=retention)
    assert driver.status is JobStatus.FAILED
    assert (driver.checkpoint is not None) == kept
    assert (len(files(name)) > 2) == kept


# ------------------------------------------------------------------------------------------------ what the program sees


def test_collected_records_come_once_each_although_epochs_fail(name: str) -> None:
    world = World(numbers_job(name, collects=True), patience=3, trouble={3: failing, 6: failing})
    driver, _ = run(name, world, interval="1 s")
    assert sorted(JobHandle(driver).results("seen")) == list(range(40))


def test_outputs_are_handed_over_only_after_their_checkpoint(name: str) -> None:
    _, seen = run(name, World(numbers_job(name), patience=3), interval="1 s")
    epoch, handed_over = 0, 0
    for instruction, following in itertools.pairwise(seen):
        if isinstance(instruction, do.RunEpoch):
            epoch = instruction.checkpoint_id
        if isinstance(following, do.DeliverOutputs):
            puts = of(do.PutChainEntry, seen[: seen.index(following)])
            assert puts[-1].entry.checkpoint_id == epoch
            handed_over += 1
    assert handed_over > 3


def test_results_of_a_failed_job_end_with_its_error(name: str) -> None:
    driver, _ = run(name, World(numbers_job(name, collects=True), trouble={3: failing}, patience=3))
    records: list[int] = []
    with pytest.raises(JobExecutionError):
        records.extend(JobHandle(driver).results("seen"))
    assert set(records) < set(ALL)


def test_ten_thousand_splits_on_four_readers_take_few_epochs(name: str) -> None:
    world = World(numbers_job(name, limit=10_000, split_size=1, readers=4))
    driver, _ = run(name, world, interval="1 s")
    assert driver.status is JobStatus.FINISHED
    assert published(name) == dict.fromkeys(range(10_000), 1)
    assert world.runs < 40


@pytest.mark.behaviour(34, 160)
def test_job_without_a_checkpoint_directory_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    world = World(numbers_job(name), patience=3)
    driver, loop = world.driver(None)
    driver.run(loop)
    assert driver.status is JobStatus.FINISHED
    assert published(name) == ALL
    assert list(tmp_path.iterdir()) == []
    assert driver.checkpoint is None


def test_job_whose_results_nobody_takes_waits_and_can_still_be_cancelled(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock._engine.driver.client.results._ROOM", 1)
    driver, loop = World(numbers_job(name, limit=200, collects=True), patience=3).driver(None, SystemClock())
    driver.start(loop)
    handle = JobHandle(driver)
    first = next(handle.results("seen"))  # from here on the job has results that nobody takes
    handle.client.cancel().result(timeout=30)
    assert driver.status is JobStatus.CANCELED  # the answer comes when the job has ended
    with pytest.raises(JobCancelledError):
        handle.client.get_job_execution_result().result(timeout=0)
    assert first in range(200)
    assert driver.progress.records < 200


@pytest.mark.behaviour(61, 178)
def test_client_answers_what_it_is_asked(name: str) -> None:
    driver, _ = run(name, World(numbers_job(name)), job_id=JOB_ID)
    client = JobHandle(driver).client
    assert str(client.get_job_id()) == JOB_ID
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert client.get_accumulators().result() == {}
    assert client.cancel().result(timeout=0) is None
    result = client.get_job_execution_result().result()
    assert (str(result.get_job_id()), result.get_all_accumulator_results()) == (JOB_ID, {})
    assert result.get_net_runtime() > 0
    for answer in (client.stop_with_savepoint(True, "/savepoints"), client.trigger_savepoint("/savepoints")):
        with pytest.raises(SavepointError, match="FINISHED"):
            answer.result()

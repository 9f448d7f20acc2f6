"""A job that is cancelled, at any step."""

from __future__ import annotations

import itertools
import pickle

import pytest
from tests.kit.world import TARGETS, World, numbers_job, published
from tests.unit.driver.life.runs import JOB_ID, cancel_at, failing, moody, of, run, start, statuses

from penstock._engine.coordinator import instructions as do
from penstock.common.job_status import JobStatus
from penstock.errors import (
    JobCancelledError,
)


def promised(seen: list[do.Instruction]) -> set[str]:
    """Return the committables of all checkpoints that completed."""
    snapshots = [put.entry.snapshot for put in of(do.PutChainEntry, seen) if put.entry.snapshot is not None]
    commits = [commit for snapshot in snapshots for commit in snapshot.outstanding]
    return {pickle.loads(item.payload[4:])[0] for commit in commits for item in commit.committables}


@pytest.mark.behaviour(48, 171)
def test_cancel_at_any_step_ends_canceled_and_publishes_all_that_completed(name: str) -> None:
    for position in itertools.count():
        target = f"{name}-{position}"
        world = World(numbers_job(target, limit=12, split_size=4), patience=3)
        driver, loop, seen = start(target, world, interval="1 s", job_id=JOB_ID)
        cancel_at(loop, position)
        driver.run(loop)
        if driver.status is JobStatus.FINISHED:
            break
        assert isinstance(driver.result.exception(), JobCancelledError)
        assert statuses(seen)[-1] == "CANCELED"
        assert promised(seen) == TARGETS.get(target, {}).keys()
        again, loop, _ = start(
            target, World(numbers_job(target, limit=12, split_size=4)), recover="latest", job_id=JOB_ID
        )
        again.run(loop)
        if driver.checkpoint is not None:
            assert published(target) == dict.fromkeys(range(12), 1)
    assert position > 40


@pytest.mark.behaviour(171)
def test_cancel_while_waiting_for_a_restart_starts_nothing_again(name: str) -> None:
    world = World(numbers_job(name), trouble={2: failing})
    driver, loop, seen = start(name, world, interval="1 s")
    perform = loop.perform

    def watched(instruction: do.Instruction) -> None:
        perform(instruction)
        if isinstance(instruction, do.ChangeStatus) and instruction.status is JobStatus.RESTARTING:
            driver.cancel()

    loop.perform = watched
    driver.run(loop)
    assert driver.status is JobStatus.CANCELED
    assert world.runs == 2
    assert statuses(seen)[-3:] == ["RESTARTING", "CANCELLING", "CANCELED"]


@pytest.mark.behaviour(48, 171)
def test_cancel_while_waiting_for_a_restart_publishes_what_could_not_be_published_before(name: str) -> None:
    driver, loop, seen = start(name, moody(name, "raise before"), interval="1 s")
    perform = loop.perform

    def watched(instruction: do.Instruction) -> None:
        perform(instruction)
        if isinstance(instruction, do.ChangeStatus) and instruction.status is JobStatus.RESTARTING:
            assert promised(seen)
            assert not published(name)
            driver.cancel()

    loop.perform = watched
    driver.run(loop)
    assert driver.status is JobStatus.CANCELED
    assert promised(seen) == TARGETS[name].keys()


@pytest.mark.behaviour(171)
def test_cancel_of_an_ended_job_changes_nothing(name: str) -> None:
    driver, _ = run(name, World(numbers_job(name)))
    driver.cancel()
    assert driver.status is JobStatus.FINISHED

"""Commits that are put off, fail, or are given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.world import TARGETS, published
from tests.unit.driver.life.runs import ALL, failing, moody, of, run

from penstock._engine.coordinator import instructions as do
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    import pytest


def test_committables_that_are_put_off_are_committed_later_and_in_order(name: str) -> None:
    driver, seen = run(name, moody(name, "later", "well", "later", "later"), interval="1 s")
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.restarts == 0
    assert published(name) == ALL
    ids = [int(committable.split("-")[1]) for committable in TARGETS[name]]
    assert ids == sorted(ids)
    retries = [commit.commit.committables[0].retries for commit in of(do.Commit, seen)]
    assert retries[:2] == [0, 1]


def test_third_checkpoint_waits_for_the_commit_of_the_first(name: str) -> None:
    driver, seen = run(name, moody(name, "later", "later", "later"), interval="1 s")
    assert driver.status is JobStatus.FINISHED
    outstanding = [
        len(put.entry.snapshot.outstanding) for put in of(do.PutChainEntry, seen) if put.entry.snapshot is not None
    ]
    assert max(outstanding) == 2


def test_committable_that_is_put_off_too_often_fails_the_job_with_the_count(name: str) -> None:
    driver, _ = run(name, moody(name, *["later"] * 9), retries="2")
    assert driver.status is JobStatus.FAILED
    assert "1 committables" in str(driver.result.exception())
    assert "sink.committer.retries" in str(driver.result.exception())


def test_commit_that_raised_is_done_again_after_the_restart(name: str) -> None:
    driver, seen = run(name, moody(name, "raise", "well", "unknown"), interval="1 s")
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.restarts == 2
    assert published(name) == ALL
    assert any("the committer of 'Sink: target'" in str(log.error) for log in of(do.LogMessage, seen))


def test_commit_whose_next_try_was_due_while_the_job_waited_for_its_restart_is_done_after_it(name: str) -> None:
    world = moody(name, "later")
    world.trouble[3] = failing
    driver, seen = run(name, world, interval="1 s", restart="fixed-delay", delay="1 min")
    assert driver.status is JobStatus.FINISHED
    assert published(name) == ALL
    restart = seen.index(do.ChangeStatus(JobStatus.RESTARTING))
    assert [step.commit.checkpoint_id for step in of(do.Commit, seen[:restart])] == [3]
    assert of(do.Commit, seen[restart:])[0].commit.checkpoint_id == 3


def test_committable_given_up_for_a_known_reason_is_dropped_and_the_job_goes_on(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    driver, _ = run(name, moody(name, "known"), interval="1 s")
    assert driver.status is JobStatus.FINISHED
    assert published(name).keys() < ALL.keys()
    assert "too old" in caplog.text

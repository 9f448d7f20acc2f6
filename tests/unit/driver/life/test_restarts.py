"""What fails, what runs again, and what ends the job."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.kit.world import World, numbers_job, published
from tests.unit.driver.life.runs import ALL, failing, of, run, start, statuses

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.scheduler import MAX_ATTEMPTS
from penstock.common.job_status import JobStatus
from penstock.errors import (
    CheckpointExpiredError,
    CheckpointStorageError,
    EpochInfrastructureError,
    InternalError,
    JobExecutionError,
    SparkGoneError,
)


@pytest.mark.behaviour(176)
def test_failure_of_a_user_function_without_restarts_says_where_and_why(name: str) -> None:
    driver, seen = run(name, World(numbers_job(name), trouble={2: failing}))
    error = driver.result.exception()
    assert isinstance(error, JobExecutionError)
    assert isinstance(error.__cause__, ZeroDivisionError)
    for part in ("'ratio'", "'ratio-1'", "subtask 0", "prices.py:12", "(7, 0)"):
        assert part in str(error)
    assert statuses(seen) == ["INITIALIZING", "CREATED", "RUNNING", "FAILING", "FAILED"]


def test_failure_restarts_from_the_last_checkpoint_and_nothing_is_twice(name: str) -> None:
    world = World(numbers_job(name), patience=3, trouble={3: failing, 5: failing})
    driver, seen = run(name, world, interval="1 s")
    assert driver.result.result()
    assert published(name) == ALL
    assert statuses(seen) == [
        *("INITIALIZING", "CREATED", "RUNNING"),
        *("RESTARTING", "RUNNING") * 2,
        "FINISHED",
    ]
    assert driver.progress.restarts == 2
    assert {run.job_attempt for run in of(do.RunEpoch, seen)} == {0, 1, 2}


def test_records_of_a_job_count_once_however_often_it_restarts(name: str) -> None:
    world = World(
        numbers_job(name),
        patience=3,
        trouble={3: failing, 5: failing, 6: EpochInfrastructureError("executor 3 is gone")},
    )
    driver, seen = run(name, world, interval="1 s")
    counted = [one.progress.records for one in of(do.PublishProgress, seen)]
    assert counted == sorted(counted)
    assert counted[-1] == driver.progress.records == len(ALL)
    assert sum(one.progress.epoch_records for one in of(do.PublishProgress, seen)) == len(ALL)


def test_restart_drops_the_cache_entries_of_the_attempt_before(name: str) -> None:
    world = World(numbers_job(name), patience=3, trouble={4: failing})
    _, seen = run(name, world, interval="1 s")
    failed, again = [one for one in of(do.RunEpoch, seen) if one.rotation in {4, 5}]
    assert all(dispatch.history for dispatch in failed.dispatches.values())
    assert not any(dispatch.history for dispatch in again.dispatches.values())


@pytest.mark.parametrize("trouble", [{}, {2: failing}])
@pytest.mark.behaviour(45)
def test_workers_are_released_once_when_the_job_has_ended_and_before_its_result_is_there(
    name: str, trouble: dict[int, Any]
) -> None:
    world = World(numbers_job(name), patience=3, trouble=trouble)
    driver, loop, seen = start(name, world)
    heard_before: list[bool] = []
    world.release = lambda run_id: heard_before.append(driver.result.done())
    driver.run(loop)
    assert of(do.RunEpoch, seen)
    assert heard_before == [False]


@pytest.mark.behaviour(166)
def test_fixed_delay_gives_up_after_its_attempts_with_the_last_error(name: str) -> None:
    trouble = {number: partial(failing, error=ValueError(f"error of run {number}")) for number in range(2, 9)}
    world = World(numbers_job(name), trouble=trouble)
    driver, seen = run(name, world, restart="fixed-delay", attempts="3")
    assert driver.status is JobStatus.FAILED
    assert world.runs == 5
    assert "error of run 5" in str(driver.result.exception())
    assert any("fixed delay, 3 restarts" in log.text for log in of(do.LogMessage, seen))


@pytest.mark.behaviour(4, 169)
def test_lost_epoch_runs_again_at_once_without_a_restart(name: str, caplog: pytest.LogCaptureFixture) -> None:
    lost = EpochInfrastructureError("executor 3 is gone")
    world = World(numbers_job(name), trouble={1: lost, 2: lost})
    driver, seen = run(name, world)
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.restarts == 0
    assert [(one.checkpoint_id, one.attempt) for one in of(do.RunEpoch, seen)[:3]] == [(2, 1), (2, 2), (2, 3)]
    assert "RESTARTING" not in statuses(seen)
    assert "runs again, attempt 2" in caplog.text
    assert "Traceback" not in caplog.text  # where our code learnt of the loss says nothing


def test_storage_that_is_away_when_dispatches_are_stored_costs_the_epoch_and_no_restart(name: str) -> None:
    """As of a driver whose host is cut off: the next attempt finds the storage again."""
    away = CheckpointStorageError("s3://bucket/job/dispatch", "it does not answer")
    driver, seen = run(name, World(numbers_job(name), trouble={1: away, 2: away}))
    assert driver.status is JobStatus.FINISHED
    assert "RESTARTING" not in statuses(seen)
    assert [(failure.counted, "does not answer" in failure.reason) for failure in driver.failures] == [
        (False, True)
    ] * 2


@pytest.mark.behaviour(169)
def test_each_epoch_may_be_lost_a_few_times(name: str) -> None:
    lost = EpochInfrastructureError("executor 3 is gone")
    world = World(numbers_job(name), patience=3, trouble={run: lost for run in range(1, 99) if run % 3})
    driver, seen = run(name, world)
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.restarts == 0
    assert published(name) == ALL
    attempts = [one.attempt for one in of(do.RunEpoch, seen)]
    assert max(attempts) == 3
    assert len(attempts) - attempts.count(1) > MAX_ATTEMPTS


def test_epoch_that_is_lost_again_and_again_fails_the_job(name: str) -> None:
    lost = EpochInfrastructureError("no executor")
    world = World(numbers_job(name), trouble=dict.fromkeys(range(1, 99), lost))
    driver, _ = run(name, world)
    assert driver.status is JobStatus.FAILED
    assert world.runs == MAX_ATTEMPTS
    assert "no executor" in str(driver.result.exception())


@pytest.mark.behaviour(176)
def test_failures_are_kept_with_their_time_place_and_whether_they_counted(name: str) -> None:
    world = World(numbers_job(name), patience=5, trouble={2: EpochInfrastructureError("no executor"), 3: failing})
    driver, _ = run(name, world, restart="fixed-delay", attempts="3")
    assert driver.status is JobStatus.FINISHED
    lost, failed = driver.failures
    assert (lost.counted, lost.place, lost.job_attempt) == (False, None, 0)
    assert "no executor" in lost.reason
    assert (failed.counted, failed.checkpoint_id, failed.reason) == (
        True,
        lost.checkpoint_id,
        repr(ZeroDivisionError("division by zero")),
    )
    assert failed.place is not None
    assert failed.place.operator_name == "ratio"
    assert lost.time.passed_ms <= failed.time.passed_ms


@pytest.mark.behaviour(176)
def test_only_the_last_failures_are_kept(name: str) -> None:
    world = World(numbers_job(name), trouble=dict.fromkeys(range(1, 99), EpochInfrastructureError("no executor")))
    driver, _ = run(name, world, restart="fixed-delay", attempts="3", failures="4")
    assert len(driver.failures) == 4
    assert driver.failures[-1].job_attempt == 3


def test_bug_of_the_engine_fails_the_job_without_a_restart(name: str) -> None:
    world = World(numbers_job(name), trouble={2: InternalError("no such module")})
    driver, seen = run(name, world, restart="fixed-delay", attempts="5")
    assert driver.status is JobStatus.FAILED
    assert "no such module" in str(driver.result.exception())
    assert "RESTARTING" not in statuses(seen)


def test_job_whose_spark_is_gone_fails_without_a_restart_for_the_next_start_to_go_on(name: str) -> None:
    world = World(numbers_job(name), trouble={2: SparkGoneError("connection refused")})
    driver, seen = run(name, world, restart="fixed-delay", attempts="5")
    assert driver.status is JobStatus.FAILED
    assert "Start the program again" in str(driver.result.exception())
    assert "RESTARTING" not in statuses(seen)


@pytest.mark.behaviour(163)
def test_epoch_without_progress_expires_and_names_the_subtask_at_work(name: str) -> None:
    world = World(numbers_job(name), stuck=frozenset({2}))
    driver, _ = run(name, world, timeout="1 min")
    assert driver.status is JobStatus.FAILED
    assert isinstance(driver.result.exception().__cause__, CheckpointExpiredError)
    assert "60000 ms" in str(driver.result.exception())
    assert "Source: numbers (1)" in str(driver.result.exception())


@pytest.mark.behaviour(163)
def test_subtasks_are_named_with_the_uids_that_users_gave_to_their_operators(name: str) -> None:
    source, sink = numbers_job(name).vertices
    assert source.name_of(0) == "Source: numbers (0)"
    named = replace(sink, operators=tuple(replace(node, explicit_uid=True) for node in sink.operators))
    assert named.name_of(1) == "Sink: target (1; uid target, seen)"


@pytest.mark.behaviour(163, 164)
def test_expired_epochs_within_the_tolerance_run_again_and_repeat_nothing(name: str) -> None:
    world = World(numbers_job(name), patience=5, stuck=frozenset({2, 3, 6, 7}))
    driver, seen = run(name, world, timeout="1 min", tolerable="2")
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.restarts == 0
    assert "RESTARTING" not in statuses(seen)
    assert published(name) == ALL


@pytest.mark.behaviour(164)
def test_one_expired_epoch_more_than_tolerable_restarts_the_job(name: str) -> None:
    world = World(numbers_job(name), patience=5, stuck=frozenset({2, 3, 4}))
    driver, _ = run(name, world, timeout="1 min", tolerable="2", restart="fixed-delay", attempts="1")
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.restarts == 1
    assert published(name) == ALL


@pytest.mark.behaviour(30)
def test_job_whose_last_epoch_expired_ends_with_another_one(name: str) -> None:
    first = World(numbers_job(f"{name}-a"), patience=5)
    run(f"{name}-a", first, interval="1 s")
    world = World(numbers_job(name), patience=5, stuck=frozenset({first.runs}))
    driver, seen = run(name, world, interval="1 s", timeout="1 min", tolerable="1")
    assert driver.status is JobStatus.FINISHED
    assert [one.attempt for one in of(do.RunEpoch, seen)][-2:] == [1, 2]
    assert published(name) == ALL


def test_next_epoch_reads_less_after_one_that_expired(name: str) -> None:
    _, seen = run(name, World(numbers_job(name), stuck=frozenset({1})), timeout="1 min", tolerable="1")
    first, second, *_ = [one.dispatches[0, 0].max_records for one in of(do.RunEpoch, seen)]
    assert second == first // 2

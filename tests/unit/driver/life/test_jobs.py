"""The life of a job: failures and restarts, cancelling, commits, what is kept, what the program sees."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from tests.kit.world import TARGETS, TargetCommitter, TargetSink, World, numbers_job, published

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.epochs.epoch_scheduler import MAX_EPOCH_ATTEMPTS
from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.driver.client.job_client import JobHandle
from penstock._engine.protocol.control import TaskFailure
from penstock._engine.protocol.paths import is_job_directory
from penstock._engine.storage.opening import open_storage
from penstock.common.configuration import Configuration
from penstock.common.job_status import JobStatus
from penstock.errors import (
    CheckpointExpiredError,
    EpochInfrastructureError,
    InternalError,
    JobCancelledError,
    JobExecutionError,
    SavepointError,
    SparkGoneError,
)

if TYPE_CHECKING:
    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.driver.loop import JobLoop
    from penstock._engine.plan.epoch_plan import EpochOutcome

InstructionT = TypeVar("InstructionT")

_names = itertools.count()
JOB_ID = "0123456789abcdef" * 2
ALL = dict.fromkeys(range(40), 1)


@pytest.fixture
def name() -> str:
    return f"jobs-{next(_names)}"


def start(name: str, world: World, **settings: str) -> tuple[JobDriver, JobLoop, list[do.Instruction]]:
    """Return a driver, its loop, and the list that its instructions go to."""
    driver, loop = world.driver(f"memory://{name}", **settings)
    seen: list[do.Instruction] = []
    perform = loop.perform

    def watched(instruction: do.Instruction) -> None:
        seen.append(instruction)
        perform(instruction)

    loop.perform = watched
    return driver, loop, seen


def run(name: str, world: World, **settings: str) -> tuple[JobDriver, list[do.Instruction]]:
    driver, loop, seen = start(name, world, **settings)
    driver.run(loop)
    return driver, seen


def of(kind: type[InstructionT], seen: list[do.Instruction]) -> list[InstructionT]:
    return [instruction for instruction in seen if isinstance(instruction, kind)]


def failure(error: Exception) -> TaskFailure:
    return TaskFailure(
        "ratio", "ratio-1", 1, 0, "prices.py:12", "(7, 0)", repr(error), "Traceback…", pickle.dumps(error)
    )


def failing(outcome: EpochOutcome, error: Exception | None = None) -> EpochOutcome:
    return replace(outcome, acks=(), failures=(failure(error or ZeroDivisionError("division by zero")),))


def statuses(seen: list[do.Instruction]) -> list[str]:
    return [instruction.status.name for instruction in of(do.ChangeStatus, seen)]


# ------------------------------------------------------------------------------------------------ failures and restarts


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
def test_lost_epoch_runs_again_at_once_without_a_restart(name: str) -> None:
    lost = EpochInfrastructureError("executor 3 is gone")
    world = World(numbers_job(name), trouble={1: lost, 2: lost})
    driver, seen = run(name, world)
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.restarts == 0
    assert [(one.checkpoint_id, one.attempt) for one in of(do.RunEpoch, seen)[:3]] == [(2, 1), (2, 2), (2, 3)]
    assert "RESTARTING" not in statuses(seen)


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
    assert len(attempts) - attempts.count(1) > MAX_EPOCH_ATTEMPTS


def test_epoch_that_is_lost_again_and_again_fails_the_job(name: str) -> None:
    lost = EpochInfrastructureError("no executor")
    world = World(numbers_job(name), trouble=dict.fromkeys(range(1, 99), lost))
    driver, _ = run(name, world)
    assert driver.status is JobStatus.FAILED
    assert world.runs == MAX_EPOCH_ATTEMPTS
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


# ----------------------------------------------------------------------------------------------------------- cancelling


def cancel_at(loop: JobLoop, position: int, *, before: bool = False) -> None:
    perform, steps = loop.perform, itertools.count()

    def watched(instruction: do.Instruction) -> None:
        perform(instruction)
        if next(steps) == position:
            loop._mailbox.post(ev.CancelRequested())

    loop.perform = watched


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


# -------------------------------------------------------------------------------------------------------------- commits


class Moody(TargetSink):
    """A sink whose committer does what a list says, call by call, and then what is right."""

    def __init__(self, target: str, moods: list[str]) -> None:
        super().__init__(target)
        self.moods = moods

    def create_committer(self, context: Any) -> TargetCommitter:
        return MoodyCommitter(TARGETS.setdefault(self.target, {}), list(self.moods))


class MoodyCommitter(TargetCommitter):
    def __init__(self, published: dict[str, tuple[int, ...]], moods: list[str]) -> None:
        super().__init__(published)
        self.moods = moods

    def commit(self, requests: Any) -> None:
        mood = self.moods.pop(0) if self.moods else "well"
        if mood == "raise before":
            raise OSError("the target is gone")
        for request in requests:
            if mood == "later":
                request.retry_later()
            elif mood == "known":
                request.signal_failed_with_known_reason(ValueError("too old"))
            elif mood == "unknown":
                request.signal_failed_with_unknown_reason(ValueError("why"))
            else:
                super().commit([request])
        if mood == "raise":
            raise OSError("the target is gone")


def moody(name: str, *moods: str) -> World:
    return World(numbers_job(name, sink=Moody(name, list(moods)), writers=1), patience=3)


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
    world = World(numbers_job(name), patience=3, trouble={3: failing, 6: failing})
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
    driver, _ = run(name, World(numbers_job(name), trouble={3: failing}, patience=3))
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
    graph = numbers_job(name, limit=200)
    environment = RuntimeEnvironment(World(graph, patience=3), 2, Path("/nonexistent"))
    driver, loop = assemble(graph, Configuration(), None, environment)
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

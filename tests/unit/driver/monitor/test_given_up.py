"""Committables that a committer gives up for good: a loss, told wherever a job is looked at, exactly, in each life."""

from __future__ import annotations

import logging
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import CrashError
from tests.kit.world import TARGETS, TargetCommitter, TargetSink, World, numbers_job, published
from tests.unit.driver.life.test_crashes import step_in

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.commits.commits import MAX_GIVEN_UP
from penstock._engine.driver.monitor.progress_bar import figures
from penstock._engine.processes.given_up import take_given_up
from penstock._engine.protocol.control import StopMode
from penstock._engine.rest.job_progress import job_progress
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver
    from penstock.common.job_execution_result import JobExecutionResult

LIMIT = 12
#: What committers have given up, by name of the target: committable -> its numbers.
LOST: dict[str, dict[str, tuple[int, ...]]] = {}

_names = count()


class Choosy(TargetSink):
    """A sink whose committer gives up what holds a number that a divisor divides, at each try."""

    def __init__(self, target: str, divisor: int, put_off: int) -> None:
        super().__init__(target)
        self.divisor, self.put_off = divisor, put_off

    def create_committer(self, context: Any) -> ChoosyCommitter:
        lost = LOST.setdefault(self.target, {})
        return ChoosyCommitter(TARGETS.setdefault(self.target, {}), lost, self.divisor, self.put_off)


class ChoosyCommitter(TargetCommitter):
    def __init__(self, published: Any, lost: dict[str, tuple[int, ...]], divisor: int, put_off: int) -> None:
        super().__init__(published)
        self.lost, self.divisor, self.put_off = lost, divisor, put_off

    def commit(self, requests: Any) -> None:
        for request in requests:
            name, numbers = request.get_committable()
            if any(number % self.divisor == 0 for number in numbers):
                self.lost[name] = numbers
                request.signal_failed_with_known_reason(TimeoutError("the transaction has expired"))
            elif request.get_number_of_retries() < self.put_off:
                request.retry_later()
            else:
                super().commit([request])


def job(name: str, *, divisor: int = 4, put_off: int = 0, limit: int = LIMIT, **trouble: Any) -> World:
    return World(
        numbers_job(name, limit=limit, split_size=4, sink=Choosy(name, divisor, put_off)), patience=3, **trouble
    )


def run(name: str, world: World, **settings: str) -> JobDriver:
    driver, loop = world.driver(f"memory://{name}", **{"interval": "1 s", "recover": "latest", **settings})
    driver.run(loop)
    return driver


def told(driver: JobDriver) -> int:
    result: JobExecutionResult = driver.result.result(0)
    return sum(entry.count for entry in result.get_given_up_committables())


def is_true(name: str, driver: JobDriver, limit: int = LIMIT) -> bool:
    """Whether the result tells of all that was lost, and each number is either published or in what was lost."""
    lost = {number for numbers in LOST[name].values() for number in numbers}
    there = {number for number, often in published(name).items() if often == 1}
    return told(driver) == len(LOST[name]) > 0 and lost.isdisjoint(there) and lost | there == set(range(limit))


def test_job_tells_what_was_given_up_with_sink_checkpoint_number_and_reason(name: str) -> None:
    take_given_up()
    driver = run(name, job(name))
    assert driver.status is JobStatus.FINISHED
    assert is_true(name, driver)
    result = driver.result.result(0)
    first = result.get_given_up_committables()[0]
    assert (first.operator_name, first.operator_uid) == ("Sink: target", "target")
    assert first.first_checkpoint_id == first.last_checkpoint_id == int(next(iter(LOST[name])).split("-")[1])
    assert first.reason == "TimeoutError('the transaction has expired')"
    assert str(first) in str(result)
    assert take_given_up() == [f"Job 'numbers': {entry}" for entry in result.get_given_up_committables()]
    shown = job_progress(driver.view).given_up_committables
    assert [(one.operator, one.uid, one.last_checkpoint_id, one.count) for one in shown] == [
        ("Sink: target", "target", one.last_checkpoint_id, one.count) for one in result.given_up_committables
    ]
    assert f"{told(driver)} given up" in figures(driver.progress)


def test_what_the_last_commit_gives_up_is_shown_without_another_epoch(name: str) -> None:
    driver, loop = job(name, divisor=LIMIT - 1).driver(f"memory://{name}", interval="1 s")
    shown: list[str] = []
    perform = loop.perform

    def watched(instruction: do.Instruction) -> None:
        perform(instruction)
        if isinstance(instruction, do.PublishGivenUp):
            shown.append(figures(driver.progress))
            assert driver.status is JobStatus.RUNNING
            assert len(driver.view.given_up) == len(shown)

    loop.perform = watched  # type: ignore[method-assign]
    driver.run(loop)
    assert [line.count("given up") for line in shown] == [1] * len(shown)
    assert told(driver) == len(LOST[name])


def test_it_is_logged_with_its_sink(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="penstock"):
        run(name, job(name))
    assert "(uid 'target') gave up 1 of 2 committables of checkpoint" in caplog.text


def test_driver_that_dies_at_any_step_leaves_the_truth_to_the_next_one() -> None:
    crashes = 0
    for position in count():
        name = f"given-up-crash-{next(_names)}"
        driver, loop = job(name, put_off=1).driver(f"memory://{name}", interval="1 s", recover="latest")
        seen = step_in(loop, position, _crash)
        try:
            driver.run(loop)
        except CrashError:
            crashes += 1
            driver = run(name, job(name, put_off=1))
        assert driver.status is JobStatus.FINISHED
        assert is_true(name, driver), position
        if len(seen) <= position:
            break
    assert crashes > 40


def _crash() -> None:
    raise CrashError


def test_restart_of_the_job_counts_nothing_twice(name: str) -> None:
    def failing(_: Any) -> Any:
        raise OSError("the disk is slow")

    driver = run(name, job(name, put_off=1, trouble={3: failing, 5: failing}), restart="fixed-delay", attempts="5")
    assert driver.progress.restarts > 0
    assert is_true(name, driver)


def test_job_that_has_finished_tells_it_again_when_it_is_started_again(name: str) -> None:
    told_first = run(name, job(name)).result.result(0).get_given_up_committables()
    world = job(name)
    again = run(name, world)
    assert world.runs == 0
    assert again.result.result(0).get_given_up_committables() == told_first != ()


@pytest.mark.parametrize("stop", [StopMode.NO, StopMode.SUSPEND], ids=["savepoint", "stop"])
def test_start_from_a_savepoint_tells_what_was_lost_before_it(name: str, stop: StopMode, tmp_path: Path) -> None:
    world = job(name, limit=40)
    driver, loop = world.driver(f"memory://{name}", interval="1 s", savepoints=str(tmp_path))
    perform = loop.perform
    answers: list[Any] = []

    def watched(instruction: do.Instruction) -> None:
        if isinstance(instruction, do.RunEpoch) and driver.view.given_up and not answers:
            answers.append(driver.savepoint(None, stop))
        perform(instruction)

    loop.perform = watched  # type: ignore[method-assign]
    driver.run(loop)
    copy = run(f"{name}-copy", job(name, limit=40), recover=answers[0].result(0))
    first, second = (one.result.result(0).get_given_up_committables() for one in (driver, copy))
    assert first[0] == second[0]
    if stop is StopMode.SUSPEND:
        assert second[: len(first)] == first
        assert is_true(name, copy, 40)


def test_many_of_them_take_little_room_and_stay_exact(name: str) -> None:
    driver = run(name, job(name, divisor=1, limit=100))
    entries = driver.result.result(0).get_given_up_committables()
    assert len(LOST[name]) > 2 * MAX_GIVEN_UP
    assert told(driver) == len(LOST[name])
    assert len(entries) <= MAX_GIVEN_UP
    assert entries[0].first_checkpoint_id < entries[0].last_checkpoint_id < entries[1].first_checkpoint_id
    assert "of checkpoints" in str(entries[0])


def test_job_that_loses_nothing_writes_and_tells_nothing_of_it(name: str) -> None:
    driver, loop = job(name, divisor=1000).driver(f"memory://{name}", interval="1 s")
    TARGETS.setdefault(name, {})["0"] = ()
    seen = step_in(loop, -1, _crash)
    driver.run(loop)
    assert told(driver) == len(LOST[name])
    records = [step.entry for step in seen if isinstance(step, do.PutChainEntry)]
    assert any(record.snapshot is not None and not record.snapshot.given_up for record in records)

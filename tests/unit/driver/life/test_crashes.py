"""The driver dies before any one of its steps, or is stopped there while another one runs; the output stays right."""

from __future__ import annotations

import contextlib
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import CrashError
from tests.kit.world import World, numbers_job, published

from penstock._engine.coordinator import instructions as do
from penstock.common.job_status import JobStatus
from penstock.errors import FencedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.loop import JobLoop

LIMIT = 12
TRUTH = Counter(range(LIMIT))
_names = count()


def fresh() -> tuple[str, str]:
    """Return a target and a checkpoint directory that no other run has used."""
    name = f"crashes-{next(_names)}"
    return name, f"memory://{name}"


def job(target: str) -> World:
    return World(numbers_job(target, limit=LIMIT, split_size=4), patience=3)


def step_in(loop: JobLoop, position: int, act: Callable[[], None]) -> list[do.Instruction]:
    """Do something before the instruction at a position; returns the list that all instructions go to."""
    seen: list[do.Instruction] = []
    perform = loop.perform

    def watched(instruction: do.Instruction) -> None:
        if len(seen) == position:
            seen.append(instruction)
            act()
        else:
            seen.append(instruction)
        perform(instruction)

    loop.perform = watched  # type: ignore[method-assign]
    return seen


def crash() -> None:
    raise CrashError


def run_until(world: World, directory: str, position: int, act: Callable[[], None]) -> tuple[Any, bool]:
    """Run a job with something in its way, and tell whether its steps went that far."""
    driver, loop = world.driver(directory, interval="1 s", recover="latest")
    seen = step_in(loop, position, act)
    driver.run(loop)
    return driver, len(seen) > position


@pytest.mark.behaviour(29)
def test_crash_before_any_step_leaves_the_right_output_to_the_next_driver() -> None:
    crashes = 0
    for position in count():
        target, directory = fresh()
        try:
            _, reached = run_until(job(target), directory, position, crash)
        except CrashError:
            crashes += 1
            driver, loop = job(target).driver(directory, interval="1 s", recover="latest")
            driver.run(loop)
            assert driver.status is JobStatus.FINISHED, position
        else:
            assert not reached
            break
        assert published(target) == TRUTH, position
    assert crashes > 40


def test_commit_under_way_at_the_crash_is_done_once_more_without_effect() -> None:
    for position in count():
        target, directory = fresh()
        world = job(target)

        def finish_commits_and_crash(world: World = world) -> None:
            for work in world.pending:
                work()
            raise CrashError

        try:
            _, reached = run_until(world, directory, position, finish_commits_and_crash)
        except CrashError:
            driver, loop = job(target).driver(directory, interval="1 s", recover="latest")
            driver.run(loop)
        else:
            assert not reached
            break
        assert published(target) == TRUTH, position


@pytest.mark.behaviour(170)
def test_driver_that_was_stopped_while_another_ran_the_job_is_fenced() -> None:
    fenced = 0
    for position in count():
        target, directory = fresh()

        def run_another(target: str = target, directory: str = directory) -> None:
            driver, loop = job(target).driver(directory, interval="1 s", recover="latest")
            driver.run(loop)

        driver, reached = run_until(job(target), directory, position, run_another)
        if not reached:
            break
        assert published(target) == TRUTH, position
        if driver.status is JobStatus.SUSPENDED:
            fenced += 1
            assert isinstance(driver.result.exception(), FencedError)
        else:
            assert driver.status is JobStatus.FINISHED
    assert fenced > 30


def test_driver_that_was_stopped_as_it_started_does_not_begin_the_job_again_behind_another() -> None:
    """The other one begins the job anew, because neither asks for latest."""
    fenced = 0
    for position in count():
        target, directory = fresh()
        driver, loop = job(target).driver(directory, interval="1 s", job_id="d" * 32)

        def run_another(target: str = target, directory: str = directory) -> None:
            other, its_loop = job(target).driver(directory, interval="1 s", job_id="d" * 32)
            other.run(its_loop)

        seen = step_in(loop, position, run_another)
        driver.run(loop)
        before = [type(instruction) for instruction in seen[:position]]
        if do.RunEpoch in before:
            break
        if do.PutChainEntry in before:
            fenced += 1
            assert published(target) == TRUTH, position
            assert isinstance(driver.result.exception(), FencedError)
    assert fenced > 3


def test_job_that_crashed_after_its_terminal_record_has_nothing_left_to_run() -> None:
    target, directory = fresh()
    driver, loop = job(target).driver(directory, interval="1 s", recover="latest")
    seen = step_in(loop, -1, crash)
    driver.run(loop)
    position = max(index for index, instruction in enumerate(seen) if isinstance(instruction, do.PutChainEntry)) + 1

    target, directory = fresh()
    with contextlib.suppress(CrashError):
        run_until(job(target), directory, position, crash)
    world = job(target)
    driver, loop = world.driver(directory, interval="1 s", recover="latest")
    driver.run(loop)
    assert driver.status is JobStatus.FINISHED
    assert world.runs == 0

"""Something comes between a savepoint and its end: a crash, a cancel, another stop, the end of the job."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import CrashError
from tests.kit.world import World, numbers_job, published
from tests.unit.driver.asked import ALL, STOPS, Asked, resumed

from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock.common.job_status import JobStatus
from penstock.errors import SavepointError, StopIncompleteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


FEW = dict.fromkeys(range(12), 1)


def few(name: str, place: Path, restore: str = "latest") -> Asked:
    """Return a run of a job that takes few epochs."""
    world = World(numbers_job(name, limit=len(FEW), split_size=4), patience=3)
    return Asked(name, place, world, checkpoints=f"memory://{name}", recover=restore)


def go_on(name: str, place: Path) -> None:
    """Start the job from its savepoint where there is one, and else from its last checkpoint."""
    savepoint = next((place / "savepoints").glob("*/_metadata"), None)
    restore = "latest" if savepoint is None else str(savepoint.parent)
    few(name, place, restore).run({})


def at_step_after_the_stop(asked: Asked, position: int, act: Callable[[], None]) -> list[int]:
    """Do something before a step, counted from the one that follows the request; returns the steps so far."""
    perform, steps = asked.loop.perform, list[int]()

    def watched(instruction: do.Instruction) -> None:
        if asked.answers:
            steps.append(len(steps))
            if len(steps) == position + 1:
                act()
        perform(instruction)

    asked.loop.perform = watched  # type: ignore[method-assign]
    return steps


@STOPS
def test_crash_at_any_step_of_a_stop_leaves_the_job_or_the_savepoint_to_go_on_from(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    def crash() -> None:
        raise CrashError

    stopped = 0
    for position in itertools.count():
        target, place = f"{name}-{position}", tmp_path / str(position)
        asked = few(target, place)
        at_step_after_the_stop(asked, position, crash)
        try:
            asked.run({2: [stop]})
        except CrashError:
            again = few(target, place).run({})
            assert again.driver.status is JobStatus.FINISHED
            if published(target) != FEW:  # it was past its commit point, and this run brought it to its end
                stopped += 1
                go_on(target, place)
            assert published(target) == FEW, position
        else:
            break
    assert position > 10
    assert 0 < stopped < position


@STOPS
@pytest.mark.behaviour(58)
def test_cancel_at_any_step_of_a_stop_wins_unless_the_stop_is_done(name: str, tmp_path: Path, stop: StopMode) -> None:
    cancelled = 0
    for position in itertools.count():
        target, place = f"{name}-{position}", tmp_path / str(position)
        asked = few(target, place)
        steps = at_step_after_the_stop(asked, position, asked.driver.cancel)
        asked.run({2: [stop]})
        if len(steps) <= position:
            break
        if asked.driver.status is JobStatus.CANCELED:
            cancelled += 1
            assert isinstance(asked.answers[0].exception(0), SavepointError)
        else:
            assert asked.driver.status is JobStatus.FINISHED
            assert Path(asked.path, "_metadata").is_file()
        go_on(target, place)
        assert published(target) == FEW, position
    assert cancelled > 5


def asked_at_step(asked: Asked, position: int, stop: StopMode) -> Asked:
    """Run a job and ask it to stop before a step, counted from the first of its last epochs."""
    perform, steps = asked.loop.perform, itertools.count()

    def watched(instruction: do.Instruction) -> None:
        if len(asked.epochs) > 2 and next(steps) == position:
            asked.answers.append(asked.driver.savepoint(None, stop))
        perform(instruction)

    asked.loop.perform = watched  # type: ignore[method-assign]
    return asked.run({})


@STOPS
@pytest.mark.behaviour(31, 61)
def test_stop_at_any_step_of_a_job_that_comes_to_its_end_is_answered(name: str, tmp_path: Path, stop: StopMode) -> None:
    outcomes: list[bool] = []
    for position in itertools.count():
        target, place = f"{name}-{position}", tmp_path / str(position)
        asked = asked_at_step(few(target, place), position, stop)
        assert asked.driver.status is JobStatus.FINISHED
        if not asked.answers:
            break
        outcomes.append(asked.answers[0].exception(0) is None)
        if outcomes[-1]:
            assert Path(asked.path, "_metadata").is_file()
        else:
            assert any(reason in str(asked.error) for reason in ("the job is FINISHED", "the job is ending"))
        go_on(target, place)
        assert published(target) == FEW, position
    assert outcomes[0]
    assert not outcomes[-1]
    late = asked.driver.savepoint(None, stop)
    assert "the job is FINISHED" in str(late.exception(0))


@pytest.mark.parametrize("first", [StopMode.SUSPEND, StopMode.DRAIN, StopMode.CANCEL])
@pytest.mark.behaviour(60)
def test_error_of_any_stop_behind_one_that_succeeds_names_its_savepoint(
    name: str, tmp_path: Path, first: StopMode
) -> None:
    """The first is asked for at any step of a job that comes to its end, the others at all steps behind it."""
    succeeded = 0
    for position in itertools.count():
        asked = few(f"{name}-{position}", tmp_path / str(position))
        perform, steps = asked.loop.perform, itertools.count()

        def watched(
            instruction: do.Instruction,
            asked: Asked = asked,
            perform: Callable[[do.Instruction], None] = perform,
            steps: Iterator[int] = steps,
            position: int = position,
        ) -> None:
            if len(asked.epochs) > 2 and next(steps) >= position:
                stop = StopMode.SUSPEND if asked.answers else first
                asked.answers.append(asked.driver.savepoint(None, stop))
            perform(instruction)

        asked.loop.perform = watched  # type: ignore[method-assign]
        asked.run({})
        if not asked.answers:
            break
        asked.answers.append(asked.driver.savepoint(None, StopMode.DRAIN))
        if asked.answers[0].exception(0) is None:
            succeeded += 1
            for other in asked.answers[1:]:
                assert asked.path in str(other.exception(0)), position
    assert succeeded > 3


def test_cancel_with_savepoint_of_a_job_that_comes_to_its_end_is_done_or_refused(name: str, tmp_path: Path) -> None:
    seen: set[bool] = set()
    for position in itertools.count():
        target, place = f"{name}-{position}", tmp_path / str(position)
        asked = asked_at_step(few(target, place), position, StopMode.CANCEL)
        if not asked.answers:
            break
        done = asked.answers[0].exception(0) is None
        assert asked.driver.status is (JobStatus.CANCELED if done else JobStatus.FINISHED)
        seen.add(done)
    assert seen == {True, False}


@pytest.mark.behaviour(61)
@pytest.mark.parametrize("stop", list(StopMode))
def test_job_that_waits_for_its_restart_refuses_savepoints_with_its_status(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("bad snapshot")

    asked = Asked(name, tmp_path, World(numbers_job(name), patience=3, trouble={2: broken}))
    perform = asked.loop.perform

    def watched(instruction: do.Instruction) -> None:
        perform(instruction)
        if isinstance(instruction, do.ChangeStatus) and instruction.status is JobStatus.RESTARTING:
            asked.answers.append(asked.driver.savepoint(None, stop))

    asked.loop.perform = watched  # type: ignore[method-assign]
    asked.run({})
    assert "RESTARTING" in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert published(name) == ALL


@pytest.mark.behaviour(51)
def test_failure_behind_a_savepoint_goes_back_to_the_last_checkpoint_and_not_to_the_savepoint(
    name: str, tmp_path: Path
) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("bad snapshot")

    world = World(numbers_job(name), patience=3, trouble={6: broken})
    asked = Asked(name, tmp_path, world).run({2: [StopMode.NO]})
    assert Path(asked.path, "_metadata").is_file()
    failed, again = asked.epochs[5:7]
    assert (again.checkpoint_id, again.job_attempt) == (failed.checkpoint_id, 1)
    starts = [{part.completed_checkpoint for part in epoch.dispatches.values()} for epoch in (failed, again)]
    assert starts == [{failed.checkpoint_id - 1}] * 2
    assert published(name) == ALL


@STOPS
@pytest.mark.behaviour(59)
def test_job_that_stops_is_running_until_it_is_finished(name: str, tmp_path: Path, stop: StopMode) -> None:
    asked = Asked(name, tmp_path).run({3: [stop]})
    statuses = [step.status.name for step in asked.steps if isinstance(step, do.ChangeStatus)]
    assert statuses == ["INITIALIZING", "CREATED", "RUNNING", "FINISHED"]


@STOPS
@pytest.mark.behaviour(62)
def test_savepoints_need_neither_an_interval_nor_a_checkpoint_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: StopMode
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    asked = Asked(name, tmp_path, checkpoints=None).run({3: [stop]})
    assert asked.driver.status is JobStatus.FINISHED
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["savepoints", "tmp"]
    assert list((tmp_path / "tmp").iterdir()) == []
    assert resumed(name, tmp_path, asked.path).status is JobStatus.FINISHED
    assert published(name) == ALL


@pytest.mark.behaviour(56)
def test_error_behind_the_savepoint_says_that_it_is_complete() -> None:
    assert "complete and consistent" in str(StopIncompleteError("/s/savepoint-1", "the target is gone"))

"""The epoch that tells of the last checkpoint: what may come in its way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.world import World, numbers_job, published
from tests.unit.driver.asked import ALL, STOPS, Asked, new_name, resumed

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.phases import Phase
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointRequestError, StopIncompleteError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def listening(name: str, **trouble: Any) -> World:
    return World(numbers_job(name), patience=3, wants_notification=True, **trouble)


def at_the_notices(asked: Asked, act: Callable[[], object]) -> None:
    """Do something as soon as the driver is to tell of the last checkpoint."""
    perform = asked.loop.perform

    def watched(instruction: do.Instruction) -> None:
        if isinstance(instruction, do.NotifyListeners):
            act()
        perform(instruction)

    asked.loop.perform = watched  # type: ignore[method-assign]


def notifications(asked: Asked) -> list[do.NotifyListeners]:
    return [step for step in asked.steps if isinstance(step, do.NotifyListeners)]


@STOPS
@pytest.mark.behaviour(42)
def test_stop_tells_all_that_listen_once_its_savepoint_is_complete(name: str, tmp_path: Path, stop: StopMode) -> None:
    asked = Asked(name, tmp_path, listening(name))
    complete: list[bool] = []
    at_the_notices(asked, lambda: complete.extend(path.is_file() for path in tmp_path.glob("savepoints/*/_metadata")))
    asked.run({3: [stop]})
    assert complete == [True]
    [told] = notifications(asked)
    assert set(told.epoch.dispatches) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    stopped_with = asked.epochs[-1].checkpoint_id
    assert {part.completed_checkpoint for part in told.epoch.dispatches.values()} == {stopped_with}
    assert resumed(name, tmp_path, asked.path).status is JobStatus.FINISHED
    assert published(name) == ALL


def test_cancel_while_the_last_checkpoint_is_told_leaves_a_savepoint_that_can_be_used(
    name: str, tmp_path: Path
) -> None:
    asked = Asked(name, tmp_path, listening(name))
    at_the_notices(asked, asked.driver.cancel)
    asked.run({3: [StopMode.SUSPEND]})
    assert asked.driver.status is JobStatus.CANCELED
    assert isinstance(asked.error, StopIncompleteError)
    assert resumed(name, tmp_path, asked.error.path).status is JobStatus.FINISHED
    assert published(name) == ALL


def test_time_limit_of_a_stop_is_of_no_matter_once_the_last_checkpoint_is_told(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path, listening(name))
    asked.timeout_ms = 60_000
    at_the_notices(asked, lambda: setattr(asked.world, "time_ms", asked.world.time_ms + 120_000))
    asked.run({3: [StopMode.SUSPEND]})
    assert asked.path
    assert asked.kinds[-1] is ChainEntryKind.SUSPENDED


def test_checkpoint_that_is_asked_for_while_the_last_one_is_told_is_refused(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path, listening(name))
    at_the_notices(asked, lambda: asked.loop._mailbox.post(ev.CheckpointRequested(7)))
    asked.loop._handlers[do.AnswerCheckpoint] = lambda _: None
    asked.run({})
    [answer] = [step for step in asked.steps if isinstance(step, do.AnswerCheckpoint)]
    assert isinstance(answer.error, CheckpointRequestError)
    assert "the job is ending" in str(answer.error)


def test_epoch_of_notices_that_hangs_expires_and_runs_again(name: str, tmp_path: Path) -> None:
    quick = Asked(name, tmp_path / "quick", listening(name)).run({})
    last = len(quick.epochs) + 1
    again = new_name()
    asked = Asked(again, tmp_path, listening(again, stuck=frozenset({last})), timeout="1 min", tolerable="1").run({})
    assert asked.driver.status is JobStatus.FINISHED
    assert len(notifications(asked)) == 2
    assert asked.loop.coordinator.state.progress.restarts == 0
    assert published(again) == ALL


def test_job_in_which_nobody_listens_never_has_the_phase_for_it(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path, World(numbers_job(name), patience=3))
    seen: set[Phase] = set()
    perform = asked.loop.perform

    def watched(instruction: do.Instruction) -> None:
        seen.add(asked.loop.coordinator.phase)
        perform(instruction)

    asked.loop.perform = watched  # type: ignore[method-assign]
    asked.run({})
    assert Phase.NOTIFYING not in seen

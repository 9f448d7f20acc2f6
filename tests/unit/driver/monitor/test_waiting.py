"""Who holds a job back: how long each subtask waits behind its turn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.kit.world import World, numbers_job

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.plan.epoch_plan import EpochOutcome

#: By vertex and subtask: when it is done, in milliseconds since the epoch began.
DONE = {(0, 0): 30, (0, 1): 40, (1, 0): 100, (1, 1): 60}


def test_subtask_waits_from_its_end_to_that_of_the_slowest_one(tmp_path: Path) -> None:
    def timed(outcome: EpochOutcome) -> EpochOutcome:
        acks = (replace(ack, ended_ms=DONE[ack.vertex, ack.subtask]) for ack in outcome.acks)
        return replace(outcome, acks=tuple(acks))

    world = World(numbers_job("waiting"), patience=3)
    world.trouble[2] = timed
    driver, loop = world.driver(str(tmp_path / "checkpoints"), interval="1 s")
    driver.run(loop)
    assert driver.view.progress.epochs > 2
    waited = [[subtask.waited_ms for subtask in vertex] for vertex in driver.view.subtasks]
    assert waited == [[70, 60], [0, 40]]
    assert [subtask.last_waited_ms for subtask in driver.view.subtasks[0]] == [0, 0]

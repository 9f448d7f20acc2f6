"""What functions have logged in tasks is kept for the page."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.kit.world import World, numbers_job

from penstock._engine.protocol.control import LogLine

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.plan.epoch_plan import EpochOutcome


def test_last_lines_of_functions_are_kept_without_secrets_and_without_ours(tmp_path: Path) -> None:
    def logging_much(outcome: EpochOutcome) -> EpochOutcome:
        texts = [*(f"line {number}" for number in range(400)), "at postgres://joe:secret@db/sales"]
        lines = [LogLine("user.code", logging.INFO, text, 1.0, "Map", 0) for text in texts]
        ours = LogLine("penstock._engine.operators", logging.WARNING, "ours", 1.0, "Map", 0)
        return replace(outcome, log=(*lines, ours))

    world = World(numbers_job("logging"), patience=3)
    world.trouble[2] = logging_much
    driver, loop = world.driver(str(tmp_path / "checkpoints"), interval="1 s")
    driver.run(loop)
    texts = [line.message for line in driver.view.task_log]
    assert texts == [*(f"line {number}" for number in range(101, 400)), "at postgres://******@db/sales"]

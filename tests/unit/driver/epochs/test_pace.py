"""How long epochs last: with a backlog, and with a least pause between checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit import exchange
from tests.kit.clock import measure_by_the_clock
from tests.kit.stories import Sheet, Story
from tests.kit.world import Numbers, World, numbers_job
from tests.unit.driver.life.runs import start

from penstock._engine.coordinator.epochs.budget import FIRST_MS
from penstock._engine.protocol.control import StopMode
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from pathlib import Path


class OldNumbers(Numbers):
    """Numbers that are old news."""

    def create_enumerator(self, enum_context: Any) -> Any:
        enum_context.set_is_processing_backlog(True)
        return super().create_enumerator(enum_context)


@pytest.mark.parametrize(
    ("settings", "length_ms"),
    [
        ({"backlog": "1 min"}, 60_000),
        ({"backlog": "0"}, None),
        ({}, 1_000),
        ({"backlog": "1 min", **exchange.SETTINGS}, 60_000),
        ({"backlog": "0", **exchange.SETTINGS}, 1_000),
    ],
    ids=["longer", "none", "unset", "longer, pipelined", "none, pipelined"],
)
def test_source_that_reports_a_backlog_gets_epochs_of_their_own_length(
    name: str, settings: dict[str, str], length_ms: int | None
) -> None:
    world = World(numbers_job(name, source=OldNumbers(40, 5)), patience=5)
    driver, loop, _ = start(name, world, interval="1 s", **settings)
    driver.run(loop)
    assert loop.coordinator.state.budgets.interval_ms == length_ms


@pytest.mark.behaviour(161)
def test_least_pause_between_checkpoints_lengthens_the_epochs(name: str) -> None:
    driver, loop, _ = start(name, World(numbers_job(name), patience=5), interval="1 s", pause="5 s")
    driver.run(loop)
    assert driver.status is JobStatus.FINISHED
    assert loop.coordinator.state.budgets.interval_ms == 5_000


def test_the_epoch_that_a_savepoint_waits_for_is_short_and_no_other_becomes_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure_by_the_clock(monkeypatch)

    def program(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", list(range(20))))

    chapter = Story(tmp_path).run(program, asks={4: StopMode.NO}, interval="10 min")
    parts = [part for plan in chapter.runner.plans for slot in plan.levels[0].slots for part in slot]
    short = [part.max_time_ms for part in parts if part.for_savepoint]
    others = [part.max_time_ms for part in parts if not part.for_savepoint]
    assert short == [FIRST_MS]
    assert others[0] == FIRST_MS
    assert all(time_ms > FIRST_MS for time_ms in others[1:])

"""Conditional puts of drivers that take effect, and are refused when they are repeated: these are no conflicts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.kit.lost_answers import lose_first_answers
from tests.kit.stories import Sheet, Story
from tests.unit.driver.restore.test_committables import COMMITTABLES, PoisonSink, pending, poisoned
from tests.unit.driver.restore.test_committables import run as run_poisoned
from tests.unit.driver.test_batch_jobs import published
from tests.unit.driver.test_batch_recovery import CALLS, SUMS, kill_before_the_last_stage_but_one, run

from penstock._engine.protocol.control import StopMode
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def first_answers_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    lose_first_answers(monkeypatch, "_metadata", "/events/00000002", ".jsonl")


def test_a_job_stops_with_its_savepoint_and_goes_on_from_it(tmp_path: Path) -> None:
    def program(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", range(5), range(5, 10)))

    story = Story(tmp_path)
    stopped = story.run(program, asks={2: StopMode.SUSPEND}, restart="none")
    assert stopped.status is JobStatus.FINISHED, stopped.error
    assert 0 < len(stopped.outputs["out"]) < 10
    assert story.run(program, recover=stopped.savepoint, restart="none").status is JobStatus.FINISHED
    assert sorted(story.output("out")) == list(range(10))


def test_a_batch_job_is_taken_over_by_the_next_driver(tmp_path: Path) -> None:
    kill_before_the_last_stage_but_one(tmp_path)
    CALLS.clear()
    _, _, driver = run(tmp_path)
    assert published(tmp_path, "sums") == SUMS
    assert CALLS["left"] == CALLS["right"] == 0
    assert driver.view.progress.restarts == 0


def test_records_that_are_given_up_are_handed_over(name: str, tmp_path: Path) -> None:
    id_, file = poisoned(name), tmp_path / "lost.jsonl"
    lost = set(pending(name)[id_])
    driver = run_poisoned(name, PoisonSink(name, reads=True), **{COMMITTABLES: f"{id_}=give-up:{file}"})
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert set(map(json.loads, file.read_text().splitlines())) == lost

"""Conditional puts of drivers that take effect, and are refused when they are repeated: these are no conflicts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.kit.lost_answers import lose_first_answers
from tests.kit.stories import Sheet, Story
from tests.unit.driver.restore.test_committables import COMMITTABLES, PoisonSink, pending, poisoned, run

from penstock._engine.protocol.control import StopMode
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def first_answers_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    lose_first_answers(monkeypatch, "_metadata", ".jsonl")


def test_a_job_stops_with_its_savepoint_and_goes_on_from_it(tmp_path: Path) -> None:
    def program(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", range(5), range(5, 10)))

    story = Story(tmp_path)
    stopped = story.run(program, asks={2: StopMode.SUSPEND}, restart="none")
    assert stopped.status is JobStatus.FINISHED, stopped.error
    assert 0 < len(stopped.outputs["out"]) < 10
    assert story.run(program, recover=stopped.savepoint, restart="none").status is JobStatus.FINISHED
    assert sorted(story.output("out")) == list(range(10))


def test_records_that_are_given_up_are_handed_over(name: str, tmp_path: Path) -> None:
    id_, file = poisoned(name), tmp_path / "lost.jsonl"
    lost = set(pending(name)[id_])
    driver = run(name, PoisonSink(name, reads=True), **{COMMITTABLES: f"{id_}=give-up:{file}"})
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert set(map(json.loads, file.read_text().splitlines())) == lost

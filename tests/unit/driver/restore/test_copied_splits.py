"""Copies of a checkpoint in which a reader has finished and has left splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Story
from tests.unit.driver.epochs.test_splits_left_behind import ALL, reading

from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver

ITEMS: list[str] = ALL


def cancel(driver: JobDriver) -> None:
    driver.cancel()


@pytest.mark.behaviour(15)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_copy_has_the_splits_that_a_finished_reader_has_left_and_takes_none_from_the_original(
    tmp_path: Path, parallelism: int
) -> None:
    story = Story(tmp_path)
    chapter = story.run(reading(2), asks={4: cancel}, recover="latest")
    before = story.output()
    assert "a" in before
    assert "b" not in before
    copied: dict[str, Any] = {"recover": str(chapter.driver.checkpoint), "checkpoints": str(tmp_path / "copies")}
    for _ in range(2):
        copy = story.run(reading(parallelism), **copied)
        assert copy.status is JobStatus.FINISHED
        # What has finished stays finished where nothing has changed.
        expected = ITEMS if parallelism != 2 else [item for item in ITEMS if item not in ("b", "c")]
        assert sorted([*before, *copy.outputs["out"]]) == expected
    original = story.run(reading(3), recover="latest")
    assert original.driver.job_id == chapter.driver.job_id
    assert sorted([*before, *original.outputs["out"]]) == ITEMS

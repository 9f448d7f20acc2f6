"""What a start says that goes back behind what a job has published already."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Chapter, Sheet, Story
from tests.unit.rest.fakes import JOB, Api, FakeControl

from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver


def program(sheet: Sheet) -> None:
    sheet.collect(sheet.source("numbers", range(24)))


def cancel(driver: JobDriver) -> None:
    driver.cancel()


def said(chapter: Chapter) -> list[str]:
    logs = [step for step in chapter.steps if isinstance(step, do.LogMessage) and step.unexpected]
    return [log.text for log in logs if "is published again" in log.text]


def ids(chapter: Chapter) -> list[int]:
    """Return the checkpoints that a run has completed."""
    puts = [step.entry for step in chapter.steps if isinstance(step, do.PutChainEntry)]
    return [record.checkpoint_id for record in puts if record.kind is ChainEntryKind.CHECKPOINT]


@pytest.mark.parametrize("place", ["the same", "another"])
def test_start_from_an_older_checkpoint_names_those_that_are_published_again(
    tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    story = Story(tmp_path)
    first = story.run(program, retained="9", asks={5: cancel})
    _, older, *later = ids(first)
    assert len(later) > 1
    origin = tmp_path / "checkpoints" / first.driver.job_id / f"chk-{older}"
    settings = {} if place == "the same" else {"checkpoints": str(tmp_path / "others")}
    again = story.run(program, recover=str(origin), **settings)
    assert again.status is JobStatus.FINISHED
    [text] = said(again)
    assert f"checkpoints {later[0]} to {later[-1]}" in text
    assert text.startswith(f"{origin} is not the newest state of job {first.driver.job_id}")
    assert text in caplog.messages
    restored = again.driver.view.checkpoints.last_restored
    assert restored is not None
    assert (restored.checkpoint_id, restored.later) == (older, later[-1])


def test_start_from_an_older_savepoint_says_so_when_the_job_has_gone_on(tmp_path: Path) -> None:
    story = Story(tmp_path)
    first = story.run(program, asks={3: StopMode.NO})
    assert first.status is JobStatus.FINISHED, "its checkpoints are gone, and the record of its end is there"
    [text] = said(story.run(program, recover=first.savepoint))
    assert f"to {ids(first)[-1]} " in text


@pytest.mark.parametrize("stop", [StopMode.SUSPEND, StopMode.CANCEL, StopMode.DRAIN])
def test_start_from_what_a_stop_has_left_repeats_nothing_and_says_nothing(tmp_path: Path, stop: StopMode) -> None:
    story = Story(tmp_path)
    savepoint = story.run(program, asks={3: stop}).savepoint
    assert said(story.run(program, recover=savepoint)) == []


@pytest.mark.parametrize("place", ["the same", "another"])
def test_start_from_the_record_of_a_jobs_end_is_one_from_its_last_checkpoint(tmp_path: Path, place: str) -> None:
    story = Story(tmp_path)
    first = story.run(program, asks={4: cancel})
    ended = tmp_path / "checkpoints" / first.driver.job_id / f"chk-{ids(first)[-1] + 1}"
    assert ended.is_dir()
    settings = {} if place == "the same" else {"checkpoints": str(tmp_path / "others")}
    again = story.run(program, recover=str(ended), **settings)
    assert (again.status, said(again)) == (JobStatus.FINISHED, [])
    restored = again.driver.view.checkpoints.last_restored
    assert restored is not None
    assert restored.checkpoint_id == ids(first)[-1]


@pytest.mark.parametrize("claim", ["NO_CLAIM", "CLAIM"])
def test_start_from_the_newest_checkpoint_says_nothing(tmp_path: Path, claim: str) -> None:
    story = Story(tmp_path)
    newest = str(story.run(program, asks={4: cancel}).driver.checkpoint)
    again = story.run(program, recover=newest, claim=claim)
    assert (again.status, said(again)) == (JobStatus.FINISHED, [])


def test_origin_that_another_job_has_gone_on_from_by_latest_is_older(tmp_path: Path) -> None:
    story = Story(tmp_path)
    first = story.run(program, recover="latest", retained="9", asks={3: cancel})
    story.run(program, recover="latest", retained="9", asks={3: cancel})
    [text] = said(story.run(program, recover=str(first.driver.checkpoint)))
    assert "after it" in text


@pytest.mark.parametrize("lost", ["directory", "record"])
def test_what_cannot_be_told_keeps_no_job_from_its_start(tmp_path: Path, lost: str) -> None:
    story = Story(tmp_path)
    first = story.run(program, asks={3: StopMode.NO, 5: cancel})
    job = tmp_path / "checkpoints" / first.driver.job_id
    if lost == "directory":
        shutil.rmtree(job)
    else:
        for record in job.glob("chk-*/_metadata"):
            record.write_bytes(b"{")
    again = story.run(program, recover=first.savepoint)
    assert (again.status, said(again)) == (JobStatus.FINISHED, [])


# ------------------------------------------------------------------------------------- others that go on from there


def others(chapter: Chapter) -> list[str]:
    logs = [step.text for step in chapter.steps if isinstance(step, do.LogMessage) and step.unexpected]
    return [text for text in logs if "may continue from, too" in text]


@pytest.mark.parametrize("place", ["the same", "another"])
def test_copy_of_a_job_that_goes_on_says_so_at_its_start(tmp_path: Path, place: str) -> None:
    story, copies = Story(tmp_path), list[Chapter]()
    settings = {} if place == "the same" else {"checkpoints": str(tmp_path / "others")}

    def copy(driver: JobDriver) -> None:
        newest = tmp_path / "checkpoints" / driver.job_id / "chk-3"
        copies.append(story.run(program, recover=str(newest), claim="NO_CLAIM", **settings))

    first = story.run(program, retained="9", asks={4: copy})
    assert first.status is copies[0].status is JobStatus.FINISHED
    [text] = others(copies[0])
    assert text.startswith(f"{tmp_path / 'checkpoints' / first.driver.job_id / 'chk-3'} is what job")
    assert first.driver.job_id in text


def test_second_copy_of_what_was_cancelled_names_the_first_while_that_goes_on(tmp_path: Path) -> None:
    story, copies = Story(tmp_path), list[Chapter]()
    newest = str(story.run(program, asks={4: cancel}).driver.checkpoint)
    copied = {"recover": newest, "claim": "NO_CLAIM"}
    one = story.run(program, asks={2: lambda _: copies.append(story.run(program, **copied))}, **copied)
    assert others(one) == []
    [text] = others(copies[0])
    assert one.driver.job_id in text
    assert others(story.run(program, **copied)) == [], "all others have ended"


def test_rest_tells_what_is_published_again() -> None:
    control = FakeControl()
    shown: list[Any] = []
    for later in (None, 9):
        restored = control.view.checkpoints.last_restored
        assert restored is not None
        object.__setattr__(restored, "later", later)
        shown.append(Api(control).get(f"/v1/jobs/{JOB}/checkpoints")["penstock"]["published_again"])
    assert shown == [None, {"first": 3, "last": 9}]

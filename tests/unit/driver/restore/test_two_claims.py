"""One checkpoint or savepoint is claimed by one job at a time, from any checkpoint directory, under any name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Chapter, Story
from tests.unit.driver.restore.test_claim import LONG, cancel, contents, expect_everything, program

from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.checkpoints.claimants import Claimant, check_claim, claim
from penstock._engine.protocol.control import StopMode
from penstock._engine.savepoints.disposal import dispose
from penstock._engine.storage.local import LocalStorage
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointClaimedError

if TYPE_CHECKING:
    from penstock._engine.driver.driver import JobDriver

ORIGINS = ["checkpoint", "savepoint"]
START_ORDER = {"claim": "CLAIM", "retained": "9"}


def origin(story: Story, kind: str) -> str:
    """Return what a job has left that was cancelled, or suspended."""
    chapter = story.run(program, asks={3: cancel if kind == "checkpoint" else StopMode.SUSPEND})
    return str(chapter.driver.checkpoint) if kind == "checkpoint" else chapter.savepoint


def elsewhere(story: Story, place: str) -> dict[str, Any]:
    return {} if place == "the same" else {"checkpoints": str(story.place / "others")}


@pytest.mark.parametrize("place", ["the same", "another"])
@pytest.mark.parametrize("kind", ORIGINS)
def test_second_claim_is_refused_before_anything_is_written_and_names_the_first(
    tmp_path: Path, kind: str, place: str
) -> None:
    story, seconds = Story(tmp_path), list[Chapter]()
    path = origin(story, kind)

    def second(_: JobDriver) -> None:
        other = Story(tmp_path)
        before = contents(tmp_path / "checkpoints")
        seconds.append(other.run(program, recover=path, **START_ORDER, **elsewhere(story, place)))
        assert contents(tmp_path / "checkpoints") == before
        assert not list((tmp_path / "others").rglob("_metadata"))

    first = story.run(program, asks={2: second}, recover=path, **START_ORDER)
    error = seconds[0].error
    assert isinstance(error, CheckpointClaimedError)
    assert (error.job_id, error.job_name) == (first.driver.job_id, "story")
    assert Path(error.path).name == Path(path).name
    assert str(tmp_path / "checkpoints") in error.directory
    assert first.status is JobStatus.FINISHED
    expect_everything(story)


@pytest.mark.parametrize("kind", ORIGINS)
def test_copies_may_start_from_what_is_claimed_and_are_told_by_whom(tmp_path: Path, kind: str) -> None:
    story, copies = Story(tmp_path), list[Chapter]()
    path = origin(story, kind)
    before = len(story.output())

    def copy(_: JobDriver) -> None:
        copies.append(Story(tmp_path).run(program, recover=path, checkpoints=str(tmp_path / "others")))

    first = story.run(program, asks={2: copy}, recover=path, **START_ORDER)
    assert first.status is copies[0].status is JobStatus.FINISHED
    assert sorted(map(str, first.outputs["out"])) == sorted(map(str, copies[0].outputs["out"]))
    assert before + len(first.outputs["out"]) == len(LONG) + 1
    logs = [step.text for step in copies[0].steps if isinstance(step, do.LogMessage) and step.unexpected]
    assert [text for text in logs if "may go on from, too" in text and first.driver.job_id in text]


@pytest.mark.parametrize("kind", ORIGINS)
def test_who_has_ended_claims_no_more(tmp_path: Path, kind: str) -> None:
    story = Story(tmp_path)
    path = origin(story, kind)
    story.run(program, asks={1: cancel}, recover=path, **START_ORDER)
    assert story.run(program, recover=path, **START_ORDER).status is JobStatus.FINISHED
    expect_everything(story)


class KilledError(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("kind", ORIGINS)
def test_a_claim_outlives_its_process_and_is_there_for_the_same_job(tmp_path: Path, kind: str) -> None:
    story = Story(tmp_path)
    path = origin(story, kind)

    def kill(_: JobDriver) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        story.run(program, asks={1: kill}, recover=path, job_id="ab" * 16, **START_ORDER)
    refused = story.run(program, recover=path, **START_ORDER)
    assert isinstance(refused.error, CheckpointClaimedError)
    assert refused.error.job_id == "ab" * 16
    again = story.run(program, recover="latest", job_id="ab" * 16, **START_ORDER)
    assert again.status is JobStatus.FINISHED
    expect_everything(story)


def test_of_two_that_start_at_the_same_moment_one_claims(tmp_path: Path) -> None:
    story, seconds = Story(tmp_path), list[Chapter]()
    path = origin(story, "savepoint")

    def meanwhile(instruction: do.Instruction, perform: Any) -> None:
        if isinstance(instruction, do.RecordStart) and not seconds:  # the first has looked, and claims now
            others = {"checkpoints": str(tmp_path / "others"), **START_ORDER}
            seconds.append(story.run(program, asks={2: cancel}, recover=path, **others))
            with pytest.MonkeyPatch.context() as patch:  # as though the other one had not ended yet
                patch.setattr("penstock._engine.driver.checkpoints.claimants.has_ended", lambda *_: False)
                perform(instruction)
            return
        perform(instruction)

    first = story.run(program, step=meanwhile, recover=path, **START_ORDER)
    assert seconds[0].status is JobStatus.CANCELED
    assert isinstance(first.error, CheckpointClaimedError)
    assert first.error.job_id == seconds[0].driver.job_id
    assert first.outputs == {}


def test_a_copy_of_a_savepoint_is_not_claimed_with_it(tmp_path: Path) -> None:
    story, seconds = Story(tmp_path), list[Chapter]()
    path = origin(story, "savepoint")

    def second(_: JobDriver) -> None:
        shutil.copytree(path, tmp_path / "copied")
        settings = {"recover": str(tmp_path / "copied"), "checkpoints": str(tmp_path / "others")}
        seconds.append(Story(tmp_path).run(program, **settings, **START_ORDER))

    story.run(program, asks={2: second}, recover=path, **START_ORDER)
    assert seconds[0].status is JobStatus.FINISHED


def test_a_disposal_takes_the_claim_with_the_savepoint(tmp_path: Path) -> None:
    story = Story(tmp_path)
    path = origin(story, "savepoint")
    story.run(program, asks={1: cancel}, recover=path, **START_ORDER)
    assert list(Path(path).glob("_claim-*"))
    dispose(path)
    assert not Path(path).exists()


@pytest.mark.parametrize("kind", ORIGINS)
def test_nothing_is_left_of_a_claim_once_newer_checkpoints_are_there(tmp_path: Path, kind: str) -> None:
    story = Story(tmp_path)
    path = origin(story, kind)
    assert story.run(program, recover=path, claim="CLAIM").status is JobStatus.FINISHED
    assert list(tmp_path.rglob("_claim-*")) == []


def test_claims_have_numbers_and_the_last_one_counts(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    mine = Claimant("1" * 32, "one", str(tmp_path), storage.full_path("chk-7"))
    claim(storage, "chk-7", mine, {})
    assert storage.names("chk-7") == [], "there is no such checkpoint"
    storage.put("chk-7/_metadata", b"")
    for number in (1, 2, 2):  # jobs without records have ended
        claim(storage, "chk-7", Claimant(f"{number}" * 32, "n", str(tmp_path), mine.path), {})
    assert storage.names("chk-7") == ["_claim-1", "_claim-2", "_metadata"]
    assert check_claim(storage, "chk-7", "2" * 32, {}) is not None
    storage.put("chk-7/_claim-2", b'{"job_id"')
    assert check_claim(storage, "chk-7", "3" * 32, {}) is None
    storage.put(f"{'1' * 32}/chk-1/_metadata", b"cannot be read, so it may go on")
    storage.delete(["chk-7/_claim-2"])
    with pytest.raises(CheckpointClaimedError, match="was claimed by job 'n'"):
        claim(storage, "chk-7", Claimant("3" * 32, "n", str(tmp_path), mine.path), {})

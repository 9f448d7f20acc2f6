"""One checkpoint or savepoint is claimed by one job at a time, from any checkpoint directory, under any name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import CLOCK
from tests.kit.driving import Driven, Epochs
from tests.kit.stories import Chapter, Sheet, Story
from tests.unit.driver.restore.test_claim import LONG, cancel, contents, expect_everything, program

from penstock._engine.coordinator import instructions as do
from penstock._engine.driver import assembly
from penstock._engine.driver.checkpoints import claimants
from penstock._engine.driver.checkpoints.claimants import check_claim, claim, release
from penstock._engine.protocol.control import StopMode
from penstock._engine.savepoints.disposal import dispose
from penstock._engine.savepoints.holders import HoldingJob
from penstock._engine.storage.local import LocalStorage
from penstock._engine.storage.scratch import ScratchDirectory
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointClaimedError, SavepointChangeError

if TYPE_CHECKING:
    from penstock._engine.driver.driver import JobDriver

pytestmark = pytest.mark.sampled(2)

ORIGINS = ["checkpoint", "savepoint"]
TO_OWN: dict[str, Any] = {"claim": "CLAIM", "retained": "9"}


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
        seconds.append(other.run(program, recover=path, **TO_OWN, **elsewhere(story, place)))
        assert contents(tmp_path / "checkpoints") == before
        assert not list((tmp_path / "others").rglob("_metadata"))

    first = story.run(program, asks={2: second}, recover=path, **TO_OWN)
    error = seconds[0].error
    assert isinstance(error, CheckpointClaimedError)
    assert (error.job_id, error.job_name) == (first.driver.job_id, "story")
    assert Path(error.path).name == Path(path).name
    assert str(tmp_path / "checkpoints") in error.directory
    assert first.status is JobStatus.FINISHED
    expect_everything(story)


@pytest.mark.parametrize("place", ["the same", "another"])
def test_job_does_not_continue_from_its_own_checkpoint_that_another_one_has_claimed(tmp_path: Path, place: str) -> None:
    story, others = Story(tmp_path), list[Chapter]()
    before = story.run(program, asks={3: cancel})

    def again(_: JobDriver) -> None:
        records = contents(tmp_path / "checkpoints")
        others.append(Story(tmp_path).run(program, recover="latest", job_id=before.driver.job_id))
        assert contents(tmp_path / "checkpoints") == records

    claimant = story.run(
        program, asks={2: again}, recover=str(before.driver.checkpoint), **TO_OWN, **elsewhere(story, place)
    )
    error = others[0].error
    assert isinstance(error, CheckpointClaimedError)
    assert (error.path, error.job_id) == (before.driver.checkpoint, claimant.driver.job_id)
    expect_everything(story)


@pytest.mark.parametrize("kind", ORIGINS)
def test_copies_may_start_from_what_is_claimed_and_are_told_by_whom(tmp_path: Path, kind: str) -> None:
    story, copies = Story(tmp_path), list[Chapter]()
    path = origin(story, kind)
    before = len(story.output())

    def copy(_: JobDriver) -> None:
        copies.append(Story(tmp_path).run(program, recover=path, checkpoints=str(tmp_path / "others")))

    first = story.run(program, asks={2: copy}, recover=path, **TO_OWN)
    assert first.status is copies[0].status is JobStatus.FINISHED
    assert sorted(map(str, first.outputs["out"])) == sorted(map(str, copies[0].outputs["out"]))
    assert before + len(first.outputs["out"]) == len(LONG) + 1
    logs = [step.text for step in copies[0].steps if isinstance(step, do.LogMessage) and step.unexpected]
    assert [text for text in logs if "may continue from, too" in text and first.driver.job_id in text]


@pytest.mark.parametrize("kind", ORIGINS)
def test_who_has_ended_claims_no_more(tmp_path: Path, kind: str) -> None:
    story = Story(tmp_path)
    path = origin(story, kind)
    story.run(program, asks={1: cancel}, recover=path, **TO_OWN)
    assert not list(tmp_path.rglob("_claim-*"))
    assert story.run(program, recover=path, **TO_OWN).status is JobStatus.FINISHED
    expect_everything(story)


class KilledError(BaseException):
    """The process is gone."""


def kill(_: JobDriver | None = None) -> None:
    raise KilledError


def killed_claimant(story: Story, path: str, **settings: Any) -> None:
    """Have the process of a job that claims killed in its first epoch."""
    with pytest.raises(KilledError):
        story.run(program, asks={1: kill}, recover=path, job_id="ab" * 16, **TO_OWN, **settings)


@pytest.mark.parametrize("kind", ORIGINS)
def test_a_claim_outlives_its_process_and_is_there_for_the_same_job(tmp_path: Path, kind: str) -> None:
    story = Story(tmp_path)
    path = origin(story, kind)

    killed_claimant(story, path)
    refused = story.run(program, recover=path, **TO_OWN)
    assert isinstance(refused.error, CheckpointClaimedError)
    assert refused.error.job_id == "ab" * 16
    again = story.run(program, recover="latest", job_id="ab" * 16, **TO_OWN)
    assert again.status is JobStatus.FINISHED
    expect_everything(story)


@pytest.mark.parametrize("kind", ORIGINS)
@pytest.mark.parametrize("way_out", ["mount it", "a copy", "delete the claim"])
def test_claimant_whose_directory_is_not_mounted_here_is_not_taken_for_ended(
    tmp_path: Path, kind: str, way_out: str
) -> None:
    story, mounted, away = Story(tmp_path), tmp_path / "others", tmp_path / "elsewhere"
    path = origin(story, kind)
    killed_claimant(story, path, checkpoints=str(mounted))
    mounted.rename(away)
    before = contents(tmp_path / "checkpoints")
    error = story.run(program, recover=path, **TO_OWN).error
    assert isinstance(error, CheckpointClaimedError)
    assert error.job_id == "ab" * 16
    assert error.newest is None
    for part in (str(mounted), error.file, "not mounted", "NO_CLAIM"):
        assert part in str(error)
    assert contents(tmp_path / "checkpoints") == before, "the refused one has written nothing"
    settings: dict[str, Any] = TO_OWN
    match way_out:
        case "mount it":
            away.rename(mounted)
            refused = story.run(program, recover=path, **TO_OWN).error
            assert isinstance(refused, CheckpointClaimedError)
            assert refused.newest is not None
            assert "has not ended" in str(refused)
            settings = {"recover": "latest", "job_id": "ab" * 16, "checkpoints": str(mounted), **TO_OWN}
        case "a copy":
            settings = {"recover": path}
        case _:
            Path(error.file).unlink()
            settings = {"recover": path, **TO_OWN}
    assert story.run(program, **settings).status is JobStatus.FINISHED
    expect_everything(story)


@pytest.mark.parametrize("left", ["its checkpoints", "nothing"])
def test_claimant_with_temporary_checkpoints_that_was_killed_blocks_until_its_claim_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    story, temporary = Story(tmp_path), ScratchDirectory("penstock-checkpoints-", tmp_path)
    path = origin(story, "savepoint")
    with monkeypatch.context() as patch:
        patch.setattr(assembly, "ScratchDirectory", lambda _: temporary)
        sheet = Sheet(tmp_path, recover=path, claim="CLAIM", restart="none")
        program(sheet)
        driven = Driven(sheet.env, tmp_path / "state", Epochs(2))
    driven.at_epoch(2, kill)
    with pytest.raises(KilledError):
        driven.run()
    driven.runner.close()
    temporary._lock.close()  # as the system does
    if left == "nothing":  # as after the next cleaning of temporary directories
        shutil.rmtree(temporary.path)
    error = story.run(program, recover=path, **TO_OWN).error
    assert isinstance(error, CheckpointClaimedError)
    assert (error.newest is not None) is (left == "its checkpoints")
    for part in (str(temporary.path), f"gone for good, delete {error.file}", "NO_CLAIM"):
        assert part in str(error)
    Path(error.file).unlink()
    assert story.run(program, recover=path, **TO_OWN).status is JobStatus.FINISHED


@pytest.mark.parametrize("kind", ORIGINS)
def test_claimant_that_has_ended_claims_no_more_where_its_records_are_gone(tmp_path: Path, kind: str) -> None:
    story = Story(tmp_path)
    path = origin(story, kind)
    story.run(program, asks={1: cancel}, recover=path, checkpoints=str(tmp_path / "others"), **TO_OWN)
    shutil.rmtree(tmp_path / "others")
    assert story.run(program, recover=path, **TO_OWN).status is JobStatus.FINISHED
    expect_everything(story)


def test_job_that_ends_takes_no_claim_but_its_own_back(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put("chk-7/_metadata", b"")
    claim(storage, "chk-7", HoldingJob("2" * 32, "n", str(tmp_path), storage.full_path("chk-7")), {})
    release(storage, "chk-7", "1" * 32)
    assert storage.names("chk-7") == ["_claim-1", "_metadata"]
    release(storage, "chk-7", "2" * 32)
    release(storage, "chk-7", "2" * 32)
    assert storage.names("chk-7") == ["_metadata"]


def test_of_two_that_start_at_the_same_moment_one_claims(tmp_path: Path) -> None:
    story, met = Story(tmp_path), list[str]()
    path = origin(story, "savepoint")

    def meanwhile(instruction: do.Instruction, perform: Any) -> None:
        if isinstance(instruction, do.RecordStart) and not met:  # the first has looked, and claims now
            met.append(instruction.job_id)
            killed_claimant(story, path, checkpoints=str(tmp_path / "others"))
        perform(instruction)

    first = story.run(program, step=meanwhile, recover=path, **TO_OWN)
    assert met == [first.driver.job_id]
    assert isinstance(first.error, CheckpointClaimedError)
    assert first.error.job_id == "ab" * 16
    assert first.outputs == {}


def test_a_copy_of_a_savepoint_is_not_claimed_with_it(tmp_path: Path) -> None:
    story, seconds = Story(tmp_path), list[Chapter]()
    path = origin(story, "savepoint")

    def second(_: JobDriver) -> None:
        shutil.copytree(path, tmp_path / "copied")
        settings: dict[str, Any] = {"recover": str(tmp_path / "copied"), "checkpoints": str(tmp_path / "others")}
        seconds.append(Story(tmp_path).run(program, **settings, **TO_OWN))

    story.run(program, asks={2: second}, recover=path, **TO_OWN)
    assert seconds[0].status is JobStatus.FINISHED


def test_a_disposal_takes_the_claim_with_the_savepoint(tmp_path: Path) -> None:
    story = Story(tmp_path)
    path = origin(story, "savepoint")
    killed_claimant(story, path)
    assert list(Path(path).glob("_claim-*"))
    with pytest.raises(SavepointChangeError, match="continues from it"):
        dispose(path)
    shutil.rmtree(tmp_path / "checkpoints")
    dispose(path, no_job_waits=True)
    assert not Path(path).exists()


@pytest.mark.parametrize("kind", ORIGINS)
def test_nothing_is_left_of_a_claim_once_newer_checkpoints_are_there(tmp_path: Path, kind: str) -> None:
    story = Story(tmp_path)
    path = origin(story, kind)
    assert story.run(program, recover=path, claim="CLAIM").status is JobStatus.FINISHED
    assert list(tmp_path.rglob("_claim-*")) == []


def test_claims_have_numbers_and_the_last_one_counts(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    mine = HoldingJob("1" * 32, "one", str(tmp_path), storage.full_path("chk-7"))
    claim(storage, "chk-7", mine, {})
    assert storage.names("chk-7") == [], "there is no such checkpoint"
    storage.put("chk-7/_metadata", b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claimants, "has_ended", lambda *_: True)
        for number in (1, 2, 2):
            claim(storage, "chk-7", HoldingJob(f"{number}" * 32, "n", str(tmp_path), mine.path), {})
    assert storage.names("chk-7") == ["_claim-1", "_claim-2", "_metadata"]
    assert check_claim(storage, "chk-7", "2" * 32, {}) is not None
    storage.put("chk-7/_claim-2", b'{"job_id"')
    assert check_claim(storage, "chk-7", "3" * 32, {}) is None
    storage.put(f"{'1' * 32}/chk-1/_metadata", b"cannot be read, so it may go on")
    storage.delete(["chk-7/_claim-2"])
    with pytest.raises(CheckpointClaimedError, match="was claimed by job 'n'"):
        claim(storage, "chk-7", HoldingJob("3" * 32, "n", str(tmp_path), mine.path), {})


# --------------------------------------------------------------------------------------------- clocks that are set


def long(sheet: Any) -> None:
    sheet.collect(sheet.source("numbers", range(24)))


@pytest.mark.parametrize("by_ms", [-86_400_000, -60_000, 60_000, 86_400_000])
@pytest.mark.parametrize("claim", ["NO_CLAIM", "CLAIM"])
def test_clock_that_is_set_between_the_steps_of_a_claim_changes_no_order(
    tmp_path: Path, by_ms: int, claim: str
) -> None:
    """Each of the first steps finds the clock set by that much more."""
    story, turned = Story(tmp_path), list[int]()

    def jumping(instruction: do.Instruction, perform: Any) -> None:
        if len(turned) < 12:
            turned.append(by_ms)
            CLOCK.jump(by_ms)
        perform(instruction)

    older = story.run(long, asks={3: cancel})
    try:
        newer = story.run(long, asks={3: cancel}, step=jumping, recover=str(older.driver.checkpoint), claim=claim)
    finally:
        CLOCK.jump(-sum(turned))
    claims = [step for step in newer.steps[:12] if isinstance(step, (do.PutChainEntry, do.RecordStart))]
    assert len(claims) > 2, "all of the claim has seen it"
    assert newer.status is JobStatus.CANCELED
    last = story.run(long, recover="latest")
    assert (last.driver.job_id, last.status) == (newer.driver.job_id, JobStatus.FINISHED)
    assert sorted(story.output()) == list(range(24))

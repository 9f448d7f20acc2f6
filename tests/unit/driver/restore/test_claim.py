"""Whose a checkpoint or savepoint is that a job was started from: CLAIM, NO_CLAIM, and the job's own with latest."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import CLOCK
from tests.kit.stories import Chapter, Sheet, Story
from tests.unit.driver.restore.test_finished_operators import Counts, Remembers

from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind
from penstock._engine.protocol.metadata_document import decode_chain_entry
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointStorageError
from penstock.testing import FailingStorage

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.sampled(2)

JOB_ID = "0123456789abcdef" * 2
LONG = list(range(30))


@pytest.fixture(autouse=True)
def all_state_lies_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no state be so small that it stands in the metadata."""
    monkeypatch.setattr("penstock._engine.runtime.subtask_state._INLINE_UNION_BYTES", 0)
    monkeypatch.setattr("penstock._engine.coordinator.checkpoints.snapshots.MAX_INLINE", 0)


def program(sheet: Sheet) -> None:
    """A source that ends soon with a union list behind it, and one that goes on with keyed state behind it."""
    lists = sheet.source("lists", ["a"], LONG).set_parallelism(2)
    sheet.collect(lists.map(Remembers(union=True)).uid("remembers").set_parallelism(2), "remembered")
    sheet.collect(lists.key_by(str).process(Counts()).uid("counts"))


def cancel(driver: Any) -> None:
    driver.cancel()


def record_at(path: str | Path) -> ChainEntry:
    file = Path(path, "_metadata")
    return decode_chain_entry(file.read_bytes(), str(file))


def files_of(story: Story, records: Iterable[ChainEntry]) -> set[str]:
    """Return the state files that records name, all of which have to be there."""
    named = {name for record in records if record.snapshot is not None for name in state_files(record.snapshot)}
    for name in named:
        assert (story.place / "checkpoints" / name).exists(), name
    return named


def checkpoints_of(story: Story, chapter: Chapter) -> list[ChainEntry]:
    """Return the checkpoints that a job has left."""
    own = [record for record in story.records_of_jobs() if record.job_id == chapter.driver.job_id]
    return [record for record in own if record.kind is ChainEntryKind.CHECKPOINT]


def expect_everything(story: Story) -> None:
    assert sorted(story.output(), key=str) == sorted([(value, 1) for value in ["a", *LONG]], key=str)


def cancelled_checkpoint(story: Story, at: int = 5, **settings: str) -> str:
    """Run the job for a while and return its newest checkpoint."""
    chapter = story.run(program, asks={at: cancel}, **settings)
    assert chapter.status is JobStatus.CANCELED
    assert chapter.driver.checkpoint is not None
    return chapter.driver.checkpoint


def contents(directory: str | Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(directory)): file.read_bytes() for file in Path(directory).rglob("*") if file.is_file()
    }


def test_savepoint_that_is_not_claimed_is_never_touched_and_never_needed(tmp_path: Path) -> None:
    story = Story(tmp_path)
    savepoint = story.run(program, asks={4: StopMode.SUSPEND}).savepoint
    before = contents(savepoint)
    path = cancelled_checkpoint(story, 4, recover=savepoint)
    assert contents(savepoint) == before
    shutil.rmtree(savepoint)
    assert story.run(program, recover=path).status is JobStatus.FINISHED
    expect_everything(story)


def test_claimed_savepoint_goes_when_newer_checkpoints_are_there(tmp_path: Path) -> None:
    story = Story(tmp_path)
    savepoint = story.run(program, asks={4: StopMode.SUSPEND}).savepoint
    seen: list[bool] = []

    def look(_: Any) -> None:
        seen.append(Path(savepoint).exists())

    again = story.run(
        program, asks={1: look, 2: look, 3: look, 4: look, 5: look}, recover=savepoint, claim="CLAIM", retained="2"
    )
    assert again.status is JobStatus.FINISHED
    assert seen[:2] == [True, True], "as long as it is one of the two newest"
    assert not seen[-1]
    assert not Path(savepoint).exists()
    expect_everything(story)


def test_claimed_savepoint_stays_where_its_job_was_cancelled_early_and_keeps_checkpoints(tmp_path: Path) -> None:
    story = Story(tmp_path)
    savepoint = story.run(program, asks={4: StopMode.SUSPEND}).savepoint
    again = story.run(program, asks={1: cancel}, recover=savepoint, claim="CLAIM")
    assert again.driver.checkpoint == savepoint
    story.run(program, recover=savepoint)
    expect_everything(story)


@pytest.mark.parametrize("retention", ["DELETE_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"])
def test_claimed_savepoint_goes_with_the_checkpoints_of_a_cancelled_job(tmp_path: Path, retention: str) -> None:
    story = Story(tmp_path)
    savepoint = story.run(program, asks={4: StopMode.SUSPEND}).savepoint
    story.run(program, asks={2: cancel}, recover=savepoint, claim="CLAIM", retention=retention)
    assert not Path(savepoint).exists()


def test_own_checkpoint_that_is_not_claimed_stays_and_the_next_one_names_no_file_of_it(tmp_path: Path) -> None:
    story = Story(tmp_path, workers=2)
    path = cancelled_checkpoint(story, job_id=JOB_ID, retained="1")
    old = record_at(path)
    old_files = files_of(story, [old])
    assert old_files
    assert any(part.finished for part in old.snapshot.operators["remembers"].subtasks)  # type: ignore[union-attr]
    again = story.run(program, asks={4: cancel}, recover=path, job_id=JOB_ID, retained="9")
    assert record_at(path) == old
    assert files_of(story, [old]) == old_files
    newer = [record for record in checkpoints_of(story, again) if record.checkpoint_id > old.checkpoint_id]
    assert len(newer) > 1
    assert not files_of(story, newer) & old_files
    for name in old_files:
        (tmp_path / "checkpoints" / name).unlink()
    shutil.rmtree(path)
    assert again.driver.checkpoint is not None
    last = story.run(program, recover=again.driver.checkpoint)
    assert last.status is JobStatus.FINISHED
    expect_everything(story)
    assert all("a" in before for value, before in last.outputs["remembered"] if value != "a")


@pytest.mark.parametrize("settings", [{"claim": "CLAIM"}, {"recover": "latest"}])
def test_own_checkpoint_goes_as_any_other_where_it_is_claimed_and_with_latest(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    story = Story(tmp_path)
    path = cancelled_checkpoint(story, job_id=JOB_ID, retained="1")
    again = story.run(program, asks={4: cancel}, job_id=JOB_ID, retained="1", **{"recover": path, **settings})
    assert not Path(path).exists()
    assert len(checkpoints_of(story, again)) == 1
    story.run(program, job_id=JOB_ID, recover="latest")
    expect_everything(story)


def test_claimed_checkpoint_of_another_job_goes_with_what_only_it_names(tmp_path: Path) -> None:
    story = Story(tmp_path)
    path = cancelled_checkpoint(story, retained="2")
    first = story.chapters[0]
    _, newest = checkpoints_of(story, first)
    again = story.run(program, recover=path, claim="CLAIM")
    assert again.status is JobStatus.FINISHED
    expect_everything(story)
    [left] = checkpoints_of(story, first)
    assert left.checkpoint_id == newest.checkpoint_id - 1
    assert files_of(story, [left])


def test_claim_of_the_newest_record_of_a_job_closes_its_chain(tmp_path: Path) -> None:
    story = Story(tmp_path)
    path = Path(cancelled_checkpoint(story, job_id=JOB_ID))
    terminal = path.with_name(f"chk-{int(path.name.rpartition('-')[2]) + 1}")
    shutil.rmtree(terminal)  # as if its process had been killed
    again = story.run(program, recover=str(path), claim="CLAIM")
    assert not path.exists()
    closed = record_at(terminal)
    assert closed.kind is ChainEntryKind.CANCELED
    assert again.driver.job_id in closed.reason


def test_checkpoint_of_another_job_that_is_not_claimed_stays(tmp_path: Path) -> None:
    story = Story(tmp_path)
    path = cancelled_checkpoint(story)
    before = contents(tmp_path / "checkpoints")
    assert story.run(program, recover=path).status is JobStatus.FINISHED
    after = contents(tmp_path / "checkpoints")
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize(
    ("retention", "kept"),
    [("RETAIN_ON_CANCELLATION", True), ("DELETE_ON_CANCELLATION", False), ("NO_EXTERNALIZED_CHECKPOINTS", False)],
)
@pytest.mark.behaviour(165)
def test_cancelled_job_leaves_checkpoints_as_its_retention_says(tmp_path: Path, retention: str, kept: bool) -> None:
    story = Story(tmp_path)
    cancelled = story.run(program, asks={5: cancel}, retention=retention)
    assert bool(checkpoints_of(story, cancelled)) is kept
    assert (cancelled.driver.checkpoint is not None) is kept
    assert any((tmp_path / "checkpoints").glob("*/shared/*")) is kept


@pytest.mark.parametrize(
    ("retention", "kept"),
    [("RETAIN_ON_CANCELLATION", True), ("DELETE_ON_CANCELLATION", True), ("NO_EXTERNALIZED_CHECKPOINTS", False)],
)
@pytest.mark.behaviour(165)
def test_failed_job_leaves_checkpoints_as_its_retention_says(tmp_path: Path, retention: str, kept: bool) -> None:
    def broken(sheet: Sheet) -> None:
        lists = sheet.source("lists", LONG)
        sheet.collect(lists.key_by(str).process(Counts()).uid("counts"))
        sheet.collect(lists.map(lambda value: 1 // (value - 9)), "quotients")

    story = Story(tmp_path)
    failed = story.run(broken, retention=retention)
    assert failed.status is JobStatus.FAILED
    assert bool(checkpoints_of(story, failed)) is kept


@pytest.mark.parametrize("retention", ["RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"])
@pytest.mark.behaviour(165)
def test_finished_job_leaves_no_checkpoints(tmp_path: Path, retention: str) -> None:
    story = Story(tmp_path)
    assert checkpoints_of(story, story.run(program, retention=retention)) == []


class KilledError(BaseException):
    """Stands for SIGKILL."""


def kill(_: Any) -> None:
    raise KilledError


def killed(story: Story, at: int, **settings: str) -> None:
    """Run the job until its process is killed at the beginning of an epoch."""
    with pytest.raises(KilledError):
        story.run(program, asks={at: kill}, job_id=JOB_ID, **settings)


@pytest.mark.parametrize("at", [1, 2, 4])
def test_claim_outlives_the_process_that_made_it(tmp_path: Path, at: int) -> None:
    story = Story(tmp_path)
    savepoint = story.run(program, asks={4: StopMode.SUSPEND}).savepoint
    killed(story, at, recover=savepoint, claim="CLAIM", retained="3")
    assert Path(savepoint).exists()
    story.run(program, asks={4: cancel}, recover="latest", job_id=JOB_ID, retained="3")
    assert not Path(savepoint).exists()


def test_start_without_claim_takes_an_earlier_claim_back(tmp_path: Path) -> None:
    story = Story(tmp_path)
    savepoint = story.run(program, asks={4: StopMode.SUSPEND}).savepoint
    killed(story, 1, recover=savepoint, claim="CLAIM")
    before = contents(savepoint)
    killed(story, 3, recover=savepoint)
    assert story.run(program, recover="latest", job_id=JOB_ID).status is JobStatus.FINISHED
    assert contents(savepoint) == before


@pytest.mark.parametrize("again", [{}, {"recover": "older"}])
def test_job_goes_back_over_the_local_state_of_the_process_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: dict[str, str]
) -> None:
    monkeypatch.setattr("penstock._engine.state.local.local_backend._MAX_PENDING_DELTAS", 0)
    story = Story(tmp_path)
    older = cancelled_checkpoint(story, 3, job_id=JOB_ID)
    killed(story, 4, recover=older)
    assert list(tmp_path.glob("state-1/**/data.mdb")), "what the next one finds"
    settings = {"recover": older} if again else {}
    chapter = story.run(program, job_id=JOB_ID, **settings)
    assert chapter.status is JobStatus.FINISHED, chapter.error


@pytest.mark.parametrize("at", [1, 3])
def test_own_checkpoint_that_is_not_claimed_stays_also_when_a_later_process_goes_on(tmp_path: Path, at: int) -> None:
    story = Story(tmp_path)
    path = cancelled_checkpoint(story, job_id=JOB_ID, retained="1")
    old = record_at(path)
    old_files = files_of(story, [old])
    killed(story, at, recover=path, retained="1")
    story.run(program, asks={4: cancel}, recover="latest", job_id=JOB_ID, retained="1")
    CLOCK.advance(3_600_000)  # files are looked for that nobody needs
    assert story.run(program, recover="latest", job_id=JOB_ID).status is JobStatus.FINISHED
    assert record_at(path) == old
    assert files_of(story, [old]) == old_files
    assert not checkpoints_of(story, story.chapters[-1])[1:]


def test_claim_takes_no_file_that_somebody_has_put_into_the_savepoint(tmp_path: Path) -> None:
    story = Story(tmp_path)
    savepoint = Path(story.run(program, asks={4: StopMode.SUSPEND}).savepoint)
    (savepoint / "notes.txt").write_text("keep this")
    assert story.run(program, recover=str(savepoint), claim="CLAIM").status is JobStatus.FINISHED
    assert [file.name for file in savepoint.iterdir()] == ["notes.txt"]


def spared_checkpoint(story: Story) -> tuple[str, str]:
    """Leave a checkpoint that a later run has started from without claiming it, and the newest one of that run."""
    path = cancelled_checkpoint(story, job_id=JOB_ID, retained="2")
    newest = cancelled_checkpoint(story, job_id=JOB_ID, recover=path, retained="1")
    assert record_at(newest).begins > record_at(path).checkpoint_id
    return path, newest


def test_job_that_cannot_read_whose_its_checkpoints_are_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path)
    path, newest = spared_checkpoint(story)
    before = contents(tmp_path / "checkpoints")
    storage = FailingStorage(str(tmp_path / "checkpoints"))
    storage.refuse("find", paths="*/_metadata")
    with monkeypatch.context() as patched:
        patched.setattr("penstock._engine.driver.assembly.open_storage", lambda *_: storage)
        refused = story.run(program, job_id=JOB_ID, recover=newest, claim="CLAIM", retained="1")
    assert isinstance(refused.error, CheckpointStorageError)
    assert contents(tmp_path / "checkpoints") == before
    story.run(program, job_id=JOB_ID, recover=newest, claim="CLAIM", retained="1")
    assert Path(path, "_metadata").is_file()


def test_newest_record_that_is_damaged_hinders_no_start_from_elsewhere(tmp_path: Path) -> None:
    story = Story(tmp_path)
    path, newest = spared_checkpoint(story)
    last = max((tmp_path / "checkpoints" / JOB_ID).glob("chk-*"), key=lambda place: int(place.name[4:]))
    assert str(last) != newest
    (last / "_metadata").write_bytes(b"{")
    assert story.run(program, job_id=JOB_ID, recover=newest, claim="CLAIM", retained="1").status is JobStatus.FINISHED
    assert Path(path, "_metadata").is_file()


@pytest.mark.parametrize(
    "start",
    [
        {},
        {"recover": "oldest"},
        {"recover": "oldest", "claim": "CLAIM"},
        {"recover": "savepoint"},
        {"recover": "savepoint", "claim": "CLAIM"},
    ],
    ids=["anew", "from one of them", "from one that it claims", "from a savepoint", "from a savepoint that it claims"],
)
@pytest.mark.parametrize("end", ["cancelled", "killed, then latest"])
def test_checkpoints_that_were_retained_stay_whatever_a_later_job_of_that_id_starts_from(
    tmp_path: Path, start: dict[str, str], end: str
) -> None:
    story = Story(tmp_path)
    savepoint = story.run(program, asks={2: StopMode.SUSPEND}).savepoint
    cancelled_checkpoint(story, 6, job_id=JOB_ID, retained="3")
    left = checkpoints_of(story, story.chapters[-1])
    assert len(left) == 3
    paths = {"oldest": str(tmp_path / "checkpoints" / JOB_ID / f"chk-{left[0].checkpoint_id}"), "savepoint": savepoint}
    settings = {**start, "recover": paths[start["recover"]]} if start else {}
    kept = left[1:] if start == {"recover": "oldest", "claim": "CLAIM"} else left
    before = {
        record.checkpoint_id: record_at(tmp_path / "checkpoints" / JOB_ID / f"chk-{record.checkpoint_id}")
        for record in kept
    }
    files = {name: (tmp_path / "checkpoints" / name).read_bytes() for name in files_of(story, kept)}
    CLOCK.advance(3_600_000)  # files are looked for that nobody needs

    def later(_: Any) -> None:
        CLOCK.advance(120_000)

    asks = {2: later, 3: later, 5: cancel if end == "cancelled" else kill}
    with contextlib.nullcontext() if end == "cancelled" else pytest.raises(KilledError):
        story.run(program, asks=asks, job_id=JOB_ID, retained="3", **settings)
    if end != "cancelled":
        again = story.run(program, asks={1: later, 2: later}, job_id=JOB_ID, retained="3", recover="latest")
        assert again.status is JobStatus.FINISHED
    for number, record in before.items():
        assert record_at(tmp_path / "checkpoints" / JOB_ID / f"chk-{number}") == record
    assert {name: (tmp_path / "checkpoints" / name).read_bytes() for name in files} == files
    newest = str(tmp_path / "checkpoints" / JOB_ID / f"chk-{kept[-1].checkpoint_id}")
    assert story.run(program, recover=newest).status is JobStatus.FINISHED


def test_start_that_leaves_checkpoints_behind_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    story = Story(tmp_path)
    cancelled_checkpoint(story, job_id=JOB_ID)
    assert "starts fresh" not in caplog.text
    story.run(program, job_id=JOB_ID)
    assert "starts fresh, although an earlier run of that id has left checkpoints" in caplog.text
    caplog.clear()
    story.run(program, job_id=JOB_ID)
    assert "starts fresh" not in caplog.text, "the run before has finished and left none"

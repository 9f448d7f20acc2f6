"""Savepoints and stops that meet a failure, a crash, a cancel or a job that is not running."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import CrashError
from tests.kit.stories import Story
from tests.kit.world import TARGETS, TargetCommitter, TargetSink, World, numbers_job, published
from tests.unit.driver.asked import ALL, STOPS, Asked, Unwritable, resumed
from tests.unit.driver.restore.test_finished_operators import EXPECTED, two_pipelines

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.metadata_document import decode_chain_entry
from penstock._engine.storage.opening import open_storage
from penstock.common.job_status import JobStatus
from penstock.errors import SavepointError, StopIncompleteError
from penstock.testing.failing_storage import FailingStorage

if TYPE_CHECKING:
    from penstock._engine.storage.checkpoint_storage import FileStorage


# ------------------------------------------------------------------------------------------------------------- failures


@STOPS
@pytest.mark.behaviour(53)
def test_directory_that_cannot_be_written_fails_the_call_and_not_the_job(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    (tmp_path / "file").write_text("in the way")
    asked = Asked(name, tmp_path, savepoints=str(tmp_path / "file")).run({3: [stop]})
    assert str(tmp_path / "file") in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert asked.driver.progress.restarts == 0
    assert published(name) == ALL


@STOPS
@pytest.mark.behaviour(53, 54, 164)
def test_failed_copy_fails_the_call_and_the_job_goes_on(name: str, tmp_path: Path, stop: StopMode) -> None:
    asked = Asked(name, tmp_path, restart="none")  # so that a restart that is counted would fail it
    Unwritable(asked.loop)
    asked.run({3: [stop]})
    assert "disk full" in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert published(name) == ALL


@pytest.mark.behaviour(54)
def test_drain_whose_copy_fails_goes_on_without_the_wait_of_the_restart_before(name: str, tmp_path: Path) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("once")

    world = World(numbers_job(name), patience=3, trouble={2: broken})
    asked = Asked(name, tmp_path, world, restart="fixed-delay", delay="1 h")
    Unwritable(asked.loop)
    asked.run({4: [StopMode.DRAIN]})
    assert "disk full" in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert [step.delay_ms for step in asked.steps if isinstance(step, do.SetAlarm)].count(3_600_000) == 1
    assert asked.driver.progress.restarts == 1
    assert published(name) == ALL


@pytest.mark.parametrize(
    ("stop", "full_for"),
    [
        (stop, full_for)
        for stop in (StopMode.NO, StopMode.SUSPEND, StopMode.DRAIN)
        for full_for in ("counts-1*", "_metadata*")
    ],
)
@pytest.mark.behaviour(53, 54)
def test_savepoint_on_a_full_disk_fails_the_call_and_leaves_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: StopMode, full_for: str
) -> None:
    """The disk fills up while the savepoint is being written: a part of it is there already."""
    disks: list[FailingStorage] = []

    def full(path: str, _: dict[str, str]) -> FileStorage:
        if "savepoint-" not in Path(path).name:  # it is opened to delete from
            return open_storage(path)
        disks.append(FailingStorage(path))
        disks[-1].refuse("put", "put_if_absent", paths=full_for, times=None, reason="the disk is full")
        return disks[-1]

    monkeypatch.setattr("penstock._engine.driver.checkpoints.savepoints.open_storage", full)
    monkeypatch.setattr("penstock._engine.coordinator.checkpoints.snapshots.MAX_INLINE", 0)
    story = Story(tmp_path)
    chapter = story.run(two_pipelines(long=2), asks={4: stop})
    [answer] = chapter.answers
    assert isinstance(error := answer.exception(0), SavepointError)
    assert "the disk is full" in str(error)
    assert error.path in str(error)
    assert not Path(error.path).exists(), "nothing of it takes up room"
    assert chapter.status is JobStatus.FINISHED
    assert sorted(story.output(), key=str) == EXPECTED


@STOPS
@pytest.mark.behaviour(56)
def test_savepoint_that_does_not_get_its_name_at_once_is_tried_again(name: str, tmp_path: Path, stop: StopMode) -> None:
    asked = Asked(name, tmp_path, restart="none")
    Unwritable(asked.loop, name=True, times=4)
    asked.run({3: [stop]})
    assert asked.driver.status is JobStatus.FINISHED
    assert asked.kinds[-1] in {ChainEntryKind.SUSPENDED, ChainEntryKind.DRAINED}
    assert resumed(name, tmp_path, asked.path).status is JobStatus.FINISHED
    assert published(name) == ALL


@STOPS
@pytest.mark.behaviour(53, 54)
def test_savepoint_that_gets_no_name_is_given_up_and_the_job_goes_on_from_its_checkpoint(
    name: str, tmp_path: Path, stop: StopMode, caplog: pytest.LogCaptureFixture
) -> None:
    asked = Asked(name, tmp_path, restart="none")
    Unwritable(asked.loop, name=True, times=5)
    asked.run({3: [stop]})
    assert "disk full" in str(asked.error)
    assert not isinstance(asked.error, StopIncompleteError)
    assert not Path(asked.error.path).exists(), "nothing is left of it"
    assert asked.driver.status is JobStatus.FINISHED
    assert asked.driver.progress.restarts == 0
    assert asked.kinds[-1] is ChainEntryKind.FINISHED
    assert "continues from checkpoint" in caplog.text
    assert ("was drained" in caplog.text) is (stop is StopMode.DRAIN)
    assert published(name) == ALL


@STOPS
def test_job_that_gave_a_stop_up_can_stop_into_another_directory(name: str, tmp_path: Path, stop: StopMode) -> None:
    asked = Asked(name, tmp_path)
    Unwritable(asked.loop, name=True, times=5)
    asked.run({3: [stop], 6: [stop]})
    assert isinstance(asked.error, SavepointError)
    assert resumed(name, tmp_path, asked.answers[1].result(0)).status is JobStatus.FINISHED
    assert published(name) == ALL


@STOPS
@pytest.mark.behaviour(55, 57)
def test_failure_in_the_stops_own_epoch_fails_the_call_and_restarts_the_job(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("bad snapshot")

    world = World(numbers_job(name), patience=3, trouble={4: broken, 5: broken})
    asked = Asked(name, tmp_path, world).run({3: [stop]})
    assert "bad snapshot" in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert asked.kinds[-1] is ChainEntryKind.FINISHED
    assert asked.kinds.count(ChainEntryKind.CHECKPOINT) > 5
    assert published(name) == ALL


class GoneTarget(TargetSink):
    """A target that takes nothing once there is a savepoint, or only the last of some tries; before that it waits."""

    def __init__(self, target: str, savepoints: Path, tries: int | None = None) -> None:
        super().__init__(target)
        self.savepoints, self.tries = savepoints, tries

    def create_committer(self, context: Any) -> TargetCommitter:
        return GoneCommitter(TARGETS.setdefault(self.target, {}), self)


class GoneCommitter(TargetCommitter):
    def __init__(self, published: dict[str, tuple[int, ...]], target: GoneTarget) -> None:
        super().__init__(published)
        self.target, self.failures = target, itertools.count(1)

    def commit(self, requests: Any) -> None:
        if any(self.target.savepoints.glob("*/_metadata")):
            if next(self.failures) != self.target.tries:
                raise OSError("the target is gone")
            super().commit(requests)
            return
        if len(self.published) < 4:
            super().commit(requests)
        else:
            for request in requests:
                request.retry_later()


@STOPS
@pytest.mark.behaviour(56)
def test_commit_that_fails_behind_the_savepoint_fails_the_job_and_the_call_names_the_way_on(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    sink = GoneTarget(name, tmp_path / "savepoints")
    world = World(numbers_job(name, sink=sink), patience=3)
    asked = Asked(name, tmp_path, world, restart="none", retries="1000").run({4: [stop]})
    assert asked.driver.status is JobStatus.FAILED
    assert isinstance(asked.error, StopIncompleteError)
    assert Path(asked.error.path, "_metadata").is_file()
    assert published(name).keys() < ALL.keys()
    assert resumed(name, tmp_path, asked.error.path).status is JobStatus.FINISHED
    assert published(name) == ALL


@STOPS
@pytest.mark.behaviour(56, 57)
def test_commit_that_keeps_failing_behind_a_stop_is_tried_until_it_succeeds_and_nothing_else_runs(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    """Decision 7: going back to RUNNING would have two jobs go on from one savepoint."""
    world = World(numbers_job(name, sink=GoneTarget(name, tmp_path / "savepoints", tries=4)), patience=3)
    asked = Asked(name, tmp_path, world, retries="1000").run({4: [stop]})
    assert isinstance(asked.error, StopIncompleteError)
    assert asked.driver.status is JobStatus.FINISHED
    statuses = [step.status for step in asked.steps if isinstance(step, do.ChangeStatus)]
    assert statuses.count(JobStatus.RESTARTING) == 3
    saved = next(place for place, step in enumerate(asked.steps) if isinstance(step, do.CompleteSavepoint))
    assert not any(isinstance(step, do.RunEpoch) for step in asked.steps[saved:])
    assert asked.kinds[-1] is (ChainEntryKind.SUSPENDED if stop is StopMode.SUSPEND else ChainEntryKind.DRAINED)
    assert resumed(name, tmp_path, asked.error.path).status is JobStatus.FINISHED
    assert published(name) == ALL


class Broken(TargetSink):
    """A sink whose commits fail from the stop's own checkpoint on, at once."""

    def __init__(self, target: str, from_checkpoint: int) -> None:
        super().__init__(target)
        self.from_checkpoint = from_checkpoint

    def create_committer(self, context: Any) -> TargetCommitter:
        return BrokenCommitter(TARGETS.setdefault(self.target, {}), self.from_checkpoint)


class BrokenCommitter(TargetCommitter):
    def __init__(self, published: dict[str, tuple[int, ...]], from_checkpoint: int) -> None:
        super().__init__(published)
        self.from_checkpoint = from_checkpoint

    def commit(self, requests: Any) -> None:
        if requests[0].checkpoint_id >= self.from_checkpoint:
            raise OSError("the target is gone")
        super().commit(requests)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("restart", ["none", "fixed-delay"])
@pytest.mark.behaviour(56)
def test_answer_of_a_stop_whose_commit_fails_at_once_is_what_is_true(
    name: str, tmp_path: Path, restart: str, seed: int
) -> None:
    """The commit may fail before the savepoint has its name, and after it."""
    world = World(numbers_job(name, sink=Broken(name, from_checkpoint=5)), Random(seed), patience=3)
    asked = Asked(name, tmp_path, world, restart=restart, attempts="2", delay="1 s").run({4: [StopMode.SUSPEND]})
    complete = Path(asked.error.path, "_metadata").is_file()
    assert complete is isinstance(asked.error, StopIncompleteError)
    assert asked.driver.status is JobStatus.FAILED
    assert Path(asked.error.path).exists() is complete
    start = asked.error.path if complete else "latest"
    place = tmp_path if complete else tmp_path / "latest"
    again = resumed(name, place, start) if complete else Asked(name, tmp_path, recover="latest").run({}).driver
    assert again.status is JobStatus.FINISHED
    assert published(name) == ALL


@STOPS
@pytest.mark.behaviour(60)
def test_first_of_two_stops_wins_however_long_its_directory_takes_to_answer(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    for seed in range(8):
        target, place = f"{name}-{seed}", tmp_path / str(seed)
        world = World(numbers_job(target), Random(seed), patience=3)
        asked = Asked(target, place, world).run({3: [stop, StopMode.SUSPEND]})
        assert Path(asked.path, "_metadata").is_file()
        refused = asked.answers[1].exception(0)
        assert isinstance(refused, SavepointError)
        assert asked.path in str(refused)
        assert [path.name for path in (place / "savepoints").iterdir()] == [Path(asked.path).name]


@STOPS
@pytest.mark.behaviour(60)
def test_second_stop_wins_where_the_first_has_no_directory(name: str, tmp_path: Path, stop: StopMode) -> None:
    (tmp_path / "file").write_text("in the way")
    asked = Asked(name, tmp_path)
    perform, answers = asked.loop.perform, list[Any]()

    def watched(instruction: do.Instruction) -> None:
        if isinstance(instruction, do.RunEpoch) and instruction.checkpoint_id == 4:
            answers.extend(asked.driver.savepoint(place, stop) for place in (str(tmp_path / "file"), None))
        perform(instruction)

    asked.loop.perform = watched  # type: ignore[method-assign]
    asked.run({})
    assert isinstance(answers[0].exception(0), SavepointError)
    assert Path(answers[1].result(0), "_metadata").is_file()


@STOPS
def test_savepoint_that_vanishes_behind_the_commit_point_is_written_anew(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: StopMode
) -> None:
    monkeypatch.setattr("penstock._engine.coordinator.checkpoints.snapshots.MAX_INLINE", 0)
    asked = Asked(name, tmp_path, World(numbers_job(name), patience=3, has_state=True))
    complete = asked.loop._handlers[do.CompleteSavepoint]

    def vanished(instruction: do.CompleteSavepoint) -> Any:
        shutil.rmtree(tmp_path / "savepoints")
        return complete(instruction)

    asked.loop._handlers[do.CompleteSavepoint] = vanished
    asked.run({3: [stop]})
    record = decode_chain_entry(Path(asked.path, "_metadata").read_bytes(), "")
    assert record.snapshot is not None
    assert all(Path(asked.path, file).is_file() for file in state_files(record.snapshot))
    assert not Path(asked.path, "_metadata.staged").exists()


@STOPS
def test_latest_goes_on_where_the_savepoint_of_a_killed_stop_can_never_be(
    name: str, tmp_path: Path, stop: StopMode
) -> None:
    asked = Asked(name, tmp_path)

    def killed(_: Any) -> None:
        raise CrashError

    asked.loop._handlers[do.CompleteSavepoint] = killed
    with pytest.raises(CrashError):
        asked.run({3: [stop]})
    shutil.rmtree(tmp_path / "savepoints")
    (tmp_path / "savepoints").write_text("in the way")
    again = Asked(name, tmp_path, recover="latest", restart="none").run({})
    assert again.driver.status is JobStatus.FINISHED
    assert again.kinds[-1] is ChainEntryKind.FINISHED
    assert published(name) == ALL


@STOPS
def test_stop_that_was_given_up_stays_so_for_the_next_start(name: str, tmp_path: Path, stop: StopMode) -> None:
    """The answer was that there is no savepoint: a later start must not make one of it."""
    asked = Asked(name, tmp_path)
    Unwritable(asked.loop, name=True, times=5)
    perform = asked.loop.perform

    def watched(instruction: do.Instruction) -> None:
        if isinstance(instruction, do.StartEnumerators) and asked.answers and asked.answers[0].done():
            raise CrashError
        perform(instruction)

    asked.loop.perform = watched  # type: ignore[method-assign]
    with pytest.raises(CrashError):
        asked.run({3: [stop]})
    again = Asked(name, tmp_path, recover="latest").run({})
    assert again.kinds[-1] is ChainEntryKind.FINISHED
    assert not list((tmp_path / "savepoints").glob("*/_metadata"))
    assert published(name) == ALL

"""Savepoints and stops: what the caller gets, what the sinks hold, how the job goes on."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.driver.world import TARGETS, TargetCommitter, TargetSink, World, numbers_job, published

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import Stop
from penstock._engine.protocol.metadata import RecordKind, decode_record
from penstock.common.job_status import JobStatus
from penstock.errors import JobCancelledError, SavepointError, StopIncompleteError, StopTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.driver.loop import JobLoop

_names = itertools.count()
ALL = dict.fromkeys(range(40), 1)
STOPS = pytest.mark.parametrize("stop", [Stop.SUSPEND, Stop.DRAIN])


@pytest.fixture
def name() -> str:
    return f"savepoints-{next(_names)}"


class Asked:
    """A run in which somebody asks for savepoints while certain epochs begin."""

    def __init__(
        self,
        name: str,
        directory: Path,
        world: World | None = None,
        *,
        checkpoints: str | None = "",
        **settings: str,
    ) -> None:
        self.world = world or World(numbers_job(name), patience=3)
        settings = {"savepoints": str(directory / "savepoints"), **settings}
        if checkpoints is not None:
            settings = {"interval": "1 s", **settings}
            checkpoints = checkpoints or str(directory / "checkpoints")
        self.driver, self.loop = self.world.driver(checkpoints, **settings)
        self.answers: list[Future[str]] = []
        #: How long a stop may take.
        self.timeout_ms: int | None = None
        self.steps: list[do.Instruction] = []
        self.asks: dict[int, list[Stop]] = {}
        self._perform = self.loop.perform
        self.loop.perform = self._watched  # type: ignore[method-assign]

    def _watched(self, instruction: do.Instruction) -> None:
        self.steps.append(instruction)
        if isinstance(instruction, do.RunEpoch):
            for stop in self.asks.get(len(self.epochs), []):
                self.answers.append(self.driver.savepoint(None, stop, self.timeout_ms))
        self._perform(instruction)

    def run(self, asks: dict[int, list[Stop]]) -> Asked:
        """Run the job; asks are the savepoints to ask for, by the number of the epoch that begins then."""
        self.asks = asks
        self.driver.run(self.loop)
        return self

    @property
    def epochs(self) -> list[do.RunEpoch]:
        return [step for step in self.steps if isinstance(step, do.RunEpoch)]

    @property
    def path(self) -> str:
        return self.answers[0].result(0)

    @property
    def error(self) -> SavepointError:
        error = self.answers[0].exception(0)
        assert isinstance(error, SavepointError)
        return error

    @property
    def kinds(self) -> list[RecordKind]:
        return [step.record.kind for step in self.steps if isinstance(step, do.PutRecord)]


def resumed(name: str, directory: Path, path: str) -> JobDriver:
    world = World(numbers_job(name), patience=3)
    driver, loop = world.driver(str(directory / "resumed"), recover=path)
    driver.run(loop)
    return driver


# ---------------------------------------------------------------------------------------------------------------- stops


@STOPS
@pytest.mark.behaviour(48, 63)
def test_stop_ends_finished_and_the_savepoint_goes_on_where_it_stood(name: str, tmp_path: Path, stop: Stop) -> None:
    asked = Asked(name, tmp_path).run({3: [stop]})
    assert asked.driver.status is JobStatus.FINISHED
    assert Path(asked.path, "_metadata").is_file()
    assert 0 < len(published(name)) < len(ALL)
    assert resumed(name, tmp_path, asked.path).status is JobStatus.FINISHED
    assert published(name) == ALL


@STOPS
@pytest.mark.behaviour(49, 59, 64)
def test_one_epoch_follows_the_running_one_and_reads_nothing(name: str, tmp_path: Path, stop: Stop) -> None:
    asked = Asked(name, tmp_path).run({3: [stop]})
    assert [epoch.stop for epoch in asked.epochs] in ([*[Stop.NO] * 3, stop], [*[Stop.NO] * 4, stop])
    assert asked.driver.progress.epoch_records == 0


@pytest.mark.parametrize(("stop", "kind"), [(Stop.SUSPEND, RecordKind.SUSPENDED), (Stop.DRAIN, RecordKind.DRAINED)])
def test_terminal_record_says_how_the_job_stopped_and_into_what(
    name: str, tmp_path: Path, stop: Stop, kind: RecordKind
) -> None:
    asked = Asked(name, tmp_path).run({2: [stop]})
    last = [step.record for step in asked.steps if isinstance(step, do.PutRecord)][-1]
    assert (last.kind, last.savepoint) == (kind, asked.path)


@pytest.mark.behaviour(46)
def test_latest_goes_on_from_the_savepoint_of_a_suspend(name: str, tmp_path: Path) -> None:
    Asked(name, tmp_path).run({2: [Stop.SUSPEND]})
    again = Asked(name, tmp_path, recover="latest").run({})
    assert again.driver.status is JobStatus.FINISHED
    assert published(name) == ALL


def test_latest_after_a_drain_says_so_and_runs_nothing(name: str, tmp_path: Path) -> None:
    Asked(name, tmp_path).run({2: [Stop.DRAIN]})
    again = Asked(name, tmp_path, recover="latest").run({})
    assert again.driver.status is JobStatus.FINISHED
    assert not again.epochs


@pytest.mark.behaviour(60)
def test_second_stop_is_refused_and_names_the_first(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path).run({3: [Stop.SUSPEND, Stop.DRAIN]})
    [done] = [answer.result(0) for answer in asked.answers if answer.exception(0) is None]
    [refused] = [answer.exception(0) for answer in asked.answers if answer.exception(0) is not None]
    assert done in str(refused)


@pytest.mark.behaviour(31)
@pytest.mark.parametrize("stop", [Stop.NO, Stop.SUSPEND, Stop.DRAIN])
def test_savepoint_that_is_asked_for_in_the_last_epoch_is_one_of_a_job_that_has_finished(
    name: str, tmp_path: Path, stop: Stop
) -> None:
    last = len(Asked(f"{name}-a", tmp_path / "a").run({}).epochs)
    asked = Asked(name, tmp_path).run({last: [stop]})
    assert len(asked.epochs) == last
    assert asked.kinds[-1] is RecordKind.FINISHED
    assert published(name) == ALL
    assert resumed(name, tmp_path, asked.path).status is JobStatus.FINISHED
    assert published(name) == ALL


@pytest.mark.behaviour(31)
@STOPS
def test_savepoint_of_the_last_epoch_that_fails_keeps_the_job_from_nothing(
    name: str, tmp_path: Path, stop: Stop
) -> None:
    last = len(Asked(f"{name}-a", tmp_path / "a").run({}).epochs)
    asked = Asked(name, tmp_path)
    Unwritable(asked.loop, record=True)
    asked.run({last: [stop]})
    assert "disk full" in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert published(name) == ALL


# ----------------------------------------------------------------------------------------------------------- savepoints


@pytest.mark.behaviour(51)
def test_savepoint_of_a_running_job_lets_it_go_on_and_has_no_commits_left(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path).run({3: [Stop.NO]})
    assert asked.driver.status is JobStatus.FINISHED
    assert published(name) == ALL
    path = Path(asked.path, "_metadata")
    record = decode_record(path.read_bytes(), str(path))
    assert record.kind is RecordKind.SAVEPOINT
    assert record.snapshot is not None
    assert record.snapshot.outstanding == ()


def test_savepoint_can_be_moved(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path).run({3: [Stop.SUSPEND]})
    Path(asked.path).rename(tmp_path / "elsewhere")
    (tmp_path / "checkpoints").rename(tmp_path / "gone")
    assert resumed(name, tmp_path, str(tmp_path / "elsewhere")).status is JobStatus.FINISHED
    assert published(name) == ALL


def test_call_without_a_directory_names_the_key(name: str, tmp_path: Path) -> None:
    driver, loop = World(numbers_job(name)).driver(str(tmp_path))
    driver.run(loop)
    assert "execution.checkpointing.savepoint-dir" in str(driver.savepoint(None, Stop.NO).exception(0))


# ------------------------------------------------------------------------------------------------ cancel with savepoint


def test_cancel_with_savepoint_publishes_what_it_covers_and_nothing_behind_it(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path).run({3: [Stop.CANCEL]})
    assert asked.driver.status is JobStatus.CANCELED
    assert isinstance(asked.driver.result.exception(0), JobCancelledError)
    covered = [epoch for epoch in asked.epochs if epoch.stop is Stop.NO]
    record = decode_record(Path(asked.path, "_metadata").read_bytes(), "")
    assert record.checkpoint_id == asked.epochs[-1].checkpoint_id == covered[-1].checkpoint_id + 1
    assert set(published(name).values()) == {1}
    before = dict(published(name))
    assert resumed(name, tmp_path, asked.path).status is JobStatus.FINISHED
    assert published(name) == ALL
    assert 0 < len(before) < len(ALL)


def test_cancel_with_savepoint_shows_the_statuses_of_a_cancel(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path).run({3: [Stop.CANCEL]})
    statuses = [step.status.name for step in asked.steps if isinstance(step, do.ChangeStatus)]
    assert statuses == ["INITIALIZING", "CREATED", "RUNNING", "CANCELLING", "CANCELED"]


@pytest.mark.parametrize("retention", ["RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"])
def test_latest_after_a_cancel_with_savepoint_goes_on_from_it(name: str, tmp_path: Path, retention: str) -> None:
    asked = Asked(name, tmp_path, retention=retention).run({3: [Stop.CANCEL]})
    assert asked.kinds[-1] is RecordKind.CANCELED
    assert Asked(name, tmp_path, recover="latest").run({}).driver.status is JobStatus.FINISHED
    assert published(name) == ALL


def test_failure_behind_the_commit_point_of_a_cancel_with_savepoint_is_brought_to_its_end(
    name: str, tmp_path: Path
) -> None:
    asked = Asked(name, tmp_path)
    Unwritable(asked.loop, record=True)
    asked.run({3: [Stop.CANCEL]})
    assert asked.driver.status is JobStatus.CANCELED
    assert asked.kinds[-1] is RecordKind.CANCELED
    assert resumed(name, tmp_path, asked.error.path).status is JobStatus.FINISHED
    assert published(name) == ALL


def test_driver_that_was_killed_behind_the_commit_point_leaves_the_cancel_to_the_next(
    name: str, tmp_path: Path
) -> None:
    asked = Asked(name, tmp_path)

    class KilledError(BaseException):
        pass

    def killed(instruction: Any) -> None:
        if instruction.record is not None:
            raise KilledError
        write(instruction)

    write = asked.loop._handlers[do.WriteSavepoint]
    asked.loop._handlers[do.WriteSavepoint] = killed
    with pytest.raises(KilledError):
        asked.run({3: [Stop.CANCEL]})
    again = Asked(name, tmp_path, recover="latest").run({})
    assert again.driver.status is JobStatus.CANCELED
    assert not again.epochs
    assert Asked(name, tmp_path, recover="latest").run({}).driver.status is JobStatus.FINISHED
    assert published(name) == ALL


# ------------------------------------------------------------------------------------------------------------- timeouts


@STOPS
def test_stop_that_takes_too_long_names_the_slow_subtask_and_cancels_the_job(
    name: str, tmp_path: Path, stop: Stop
) -> None:
    asked = Asked(name, tmp_path, World(numbers_job(name), patience=3, stuck=frozenset({3})))
    asked.timeout_ms = 5_000
    asked.run({3: [stop]})
    assert isinstance(asked.error, StopTimeoutError)
    assert asked.error.running == ("Source: numbers (1)",)
    assert "5000 ms" in str(asked.error)
    assert asked.driver.status is JobStatus.CANCELED
    assert asked.driver.checkpoint is not None
    assert Asked(name, tmp_path, recover="latest").run({}).driver.status is JobStatus.FINISHED
    assert published(name) == ALL


def test_stop_in_time_is_not_disturbed_by_its_timeout(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path)
    asked.timeout_ms = 600_000
    assert asked.run({3: [Stop.SUSPEND]}).driver.status is JobStatus.FINISHED
    assert Path(asked.path).exists()


def test_timeout_of_a_stop_that_was_given_up_cancels_nothing(name: str, tmp_path: Path) -> None:
    asked = Asked(name, tmp_path, restart="none")
    asked.timeout_ms = 250  # two epochs and a half: the copy fails behind the second
    Unwritable(asked.loop, record=False)
    asked.run({3: [Stop.SUSPEND]})
    assert "disk full" in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert len(asked.epochs) > 6


# ------------------------------------------------------------------------------------------------------------- failures


class Unwritable:
    """Lets the copy of a savepoint's files fail once, or the writing of its record."""

    def __init__(self, loop: JobLoop, *, record: bool) -> None:
        self.record, self.times = record, 1
        self.write = loop._handlers[do.WriteSavepoint]
        loop._handlers[do.WriteSavepoint] = self

    def __call__(self, instruction: Any) -> ev.Event | None:
        if self.times and (instruction.record is not None) is self.record:
            self.times -= 1
            return ev.SavepointFailed(instruction.path, OSError("disk full"))
        return self.write(instruction)


@STOPS
@pytest.mark.behaviour(53)
def test_directory_that_cannot_be_written_fails_the_call_and_not_the_job(name: str, tmp_path: Path, stop: Stop) -> None:
    (tmp_path / "file").write_text("in the way")
    asked = Asked(name, tmp_path, savepoints=str(tmp_path / "file")).run({3: [stop]})
    assert str(tmp_path / "file") in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert asked.driver.progress.restarts == 0
    assert published(name) == ALL


@STOPS
@pytest.mark.behaviour(53, 54, 164)
def test_failed_copy_fails_the_call_and_the_job_goes_on(name: str, tmp_path: Path, stop: Stop) -> None:
    asked = Asked(name, tmp_path, restart="none")  # so that a restart that is counted would fail it
    Unwritable(asked.loop, record=False)
    asked.run({3: [stop]})
    assert "disk full" in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert published(name) == ALL


@STOPS
@pytest.mark.behaviour(56)
def test_failure_behind_the_commit_point_is_brought_to_its_end_by_the_restart(
    name: str, tmp_path: Path, stop: Stop
) -> None:
    asked = Asked(name, tmp_path)
    Unwritable(asked.loop, record=True)
    asked.run({3: [stop]})
    assert asked.driver.status is JobStatus.FINISHED
    assert asked.kinds[-1] in {RecordKind.SUSPENDED, RecordKind.DRAINED}
    assert resumed(name, tmp_path, asked.error.path).status is JobStatus.FINISHED
    assert published(name) == ALL


@STOPS
@pytest.mark.behaviour(55, 57)
def test_failure_in_the_stops_own_epoch_fails_the_call_and_restarts_the_job(
    name: str, tmp_path: Path, stop: Stop
) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("bad snapshot")

    world = World(numbers_job(name), patience=3, trouble={4: broken, 5: broken})
    asked = Asked(name, tmp_path, world).run({3: [stop]})
    assert "bad snapshot" in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert asked.kinds[-1] is RecordKind.FINISHED
    assert asked.kinds.count(RecordKind.CHECKPOINT) > 5
    assert published(name) == ALL


class GoneTarget(TargetSink):
    """A target that takes nothing any more once there is a savepoint; before that it puts everything off."""

    def __init__(self, target: str, savepoints: Path) -> None:
        super().__init__(target)
        self.savepoints = savepoints

    def create_committer(self, context: Any) -> TargetCommitter:
        return GoneCommitter(TARGETS.setdefault(self.target, {}), self.savepoints)


class GoneCommitter(TargetCommitter):
    def __init__(self, published: dict[str, tuple[int, ...]], savepoints: Path) -> None:
        super().__init__(published)
        self.savepoints = savepoints

    def commit(self, requests: Any) -> None:
        if any(self.savepoints.glob("*/_metadata")):
            raise OSError("the target is gone")
        if len(self.published) < 4:
            super().commit(requests)
        else:
            for request in requests:
                request.retry_later()


@STOPS
@pytest.mark.behaviour(56)
def test_commit_that_fails_behind_the_savepoint_fails_the_job_and_the_call_names_the_way_on(
    name: str, tmp_path: Path, stop: Stop
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


# ---------------------------------------------------------------------------------------------- something comes between


class CrashError(BaseException):
    """Stands for SIGKILL: nothing may catch it."""


FEW = dict.fromkeys(range(12), 1)


def few(name: str, place: Path, restore: str = "latest") -> Asked:
    """Return a run of a job that takes few epochs."""
    world = World(numbers_job(name, limit=len(FEW), split_size=4), patience=3)
    return Asked(name, place, world, checkpoints=f"memory://{name}", recover=restore)


def go_on(name: str, place: Path) -> None:
    """Start the job from its savepoint where there is one, and else from its last checkpoint."""
    savepoint = next((place / "savepoints").glob("*/_metadata"), None)
    restore = "latest" if savepoint is None else str(savepoint.parent)
    few(name, place, restore).run({})


def at_step_after_the_stop(asked: Asked, position: int, act: Callable[[], None]) -> list[int]:
    """Do something before a step, counted from the one that follows the request; returns the steps so far."""
    perform, steps = asked.loop.perform, list[int]()

    def watched(instruction: do.Instruction) -> None:
        if asked.answers:
            steps.append(len(steps))
            if len(steps) == position + 1:
                act()
        perform(instruction)

    asked.loop.perform = watched  # type: ignore[method-assign]
    return steps


@STOPS
def test_crash_at_any_step_of_a_stop_leaves_the_job_or_the_savepoint_to_go_on_from(
    name: str, tmp_path: Path, stop: Stop
) -> None:
    def crash() -> None:
        raise CrashError

    stopped = 0
    for position in itertools.count():
        target, place = f"{name}-{position}", tmp_path / str(position)
        asked = few(target, place)
        at_step_after_the_stop(asked, position, crash)
        try:
            asked.run({2: [stop]})
        except CrashError:
            again = few(target, place).run({})
            assert again.driver.status is JobStatus.FINISHED
            if published(target) != FEW:  # it was past its commit point, and this run brought it to its end
                stopped += 1
                go_on(target, place)
            assert published(target) == FEW, position
        else:
            break
    assert position > 10
    assert 0 < stopped < position


@STOPS
@pytest.mark.behaviour(58)
def test_cancel_at_any_step_of_a_stop_wins_unless_the_stop_is_done(name: str, tmp_path: Path, stop: Stop) -> None:
    cancelled = 0
    for position in itertools.count():
        target, place = f"{name}-{position}", tmp_path / str(position)
        asked = few(target, place)
        steps = at_step_after_the_stop(asked, position, asked.driver.cancel)
        asked.run({2: [stop]})
        if len(steps) <= position:
            break
        if asked.driver.status is JobStatus.CANCELED:
            cancelled += 1
            assert isinstance(asked.answers[0].exception(0), SavepointError)
        else:
            assert asked.driver.status is JobStatus.FINISHED
            assert Path(asked.path, "_metadata").is_file()
        go_on(target, place)
        assert published(target) == FEW, position
    assert cancelled > 5


@pytest.mark.behaviour(61)
@pytest.mark.parametrize("stop", list(Stop))
def test_job_that_waits_for_its_restart_refuses_savepoints_with_its_status(
    name: str, tmp_path: Path, stop: Stop
) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("bad snapshot")

    asked = Asked(name, tmp_path, World(numbers_job(name), patience=3, trouble={2: broken}))
    perform = asked.loop.perform

    def watched(instruction: do.Instruction) -> None:
        perform(instruction)
        if isinstance(instruction, do.ChangeStatus) and instruction.status is JobStatus.RESTARTING:
            asked.answers.append(asked.driver.savepoint(None, stop))

    asked.loop.perform = watched  # type: ignore[method-assign]
    asked.run({})
    assert "RESTARTING" in str(asked.error)
    assert asked.driver.status is JobStatus.FINISHED
    assert published(name) == ALL


@pytest.mark.behaviour(51)
def test_failure_behind_a_savepoint_goes_back_to_the_last_checkpoint_and_not_to_the_savepoint(
    name: str, tmp_path: Path
) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("bad snapshot")

    world = World(numbers_job(name), patience=3, trouble={6: broken})
    asked = Asked(name, tmp_path, world).run({2: [Stop.NO]})
    assert Path(asked.path, "_metadata").is_file()
    failed, again = asked.epochs[5:7]
    assert (again.checkpoint_id, again.job_attempt) == (failed.checkpoint_id, 1)
    starts = [{part.completed_checkpoint for part in epoch.dispatches.values()} for epoch in (failed, again)]
    assert starts == [{failed.checkpoint_id - 1}] * 2
    assert published(name) == ALL


@STOPS
@pytest.mark.behaviour(59)
def test_job_that_stops_is_running_until_it_is_finished(name: str, tmp_path: Path, stop: Stop) -> None:
    asked = Asked(name, tmp_path).run({3: [stop]})
    statuses = [step.status.name for step in asked.steps if isinstance(step, do.ChangeStatus)]
    assert statuses == ["INITIALIZING", "CREATED", "RUNNING", "FINISHED"]


@STOPS
@pytest.mark.behaviour(62)
def test_savepoints_need_neither_an_interval_nor_a_checkpoint_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: Stop
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    asked = Asked(name, tmp_path, checkpoints=None).run({3: [stop]})
    assert asked.driver.status is JobStatus.FINISHED
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["savepoints", "tmp"]
    assert list((tmp_path / "tmp").iterdir()) == []
    assert resumed(name, tmp_path, asked.path).status is JobStatus.FINISHED
    assert published(name) == ALL


@pytest.mark.behaviour(56)
def test_error_behind_the_savepoint_says_that_it_is_complete() -> None:
    assert "complete and consistent" in str(StopIncompleteError("/s/savepoint-1", "the target is gone"))

"""Functions and readers hear of completed checkpoints, in every way in which a job may go on or end."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.diaries import Ending, Run
from tests.lifecycle.jobs import RESTARTS, Jobs
from tests.lifecycle.subjects import GATE, NUMBERS, RECORDS, SHORT, GatedSource, Place, one_input

from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.epochs import enumerators
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream.functions import CheckpointedFunction, CheckpointListener, MapFunction
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import EpochInfrastructureError, StopIncompleteError
from penstock.testing.sources import _ListReader

if TYPE_CHECKING:
    from collections.abc import Callable

ENDS = pytest.mark.parametrize("ending", [Ending.ENDS, Ending.SUSPEND, Ending.DRAIN], ids=lambda ending: ending.value)
#: By subtask, the lives of its function objects: what each was told.
LIVES: dict[int, list[list[Any]]] = defaultdict(list)
#: Acknowledged records.
ACKNOWLEDGED: list[int] = []


@pytest.fixture(autouse=True)
def nothing_notified() -> None:
    LIVES.clear()
    ACKNOWLEDGED.clear()


class Listens(MapFunction, CheckpointListener):
    """Notes its life; fails when it hears of one checkpoint."""

    def __init__(self, fails_at: int = 0) -> None:
        self.fails_at = fails_at

    def open(self, runtime_context: Any) -> None:
        self.life: list[Any] = ["open"]
        LIVES[runtime_context.get_index_of_this_subtask()].append(self.life)

    def map(self, value: Any) -> Any:
        self.life.append("map")
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.life.append(checkpoint_id)
        if checkpoint_id == self.fails_at:
            raise ValueError("not acknowledged")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.life.append(-checkpoint_id)

    def close(self) -> None:
        self.life.append("close")


class Acknowledges(MapFunction, CheckpointedFunction, CheckpointListener):
    """Acknowledges each record once a checkpoint has it; until then it stands in a list."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("pending"))
        self.pending: list[tuple[int, int]] = list(self.state)
        self.fresh: list[int] = []

    def snapshot_state(self, context: Any) -> None:
        self.pending += [(context.get_checkpoint_id(), value) for value in self.fresh]
        self.fresh = []
        self.state.update(self.pending)

    def map(self, value: int) -> int:
        self.fresh.append(value)
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        ACKNOWLEDGED.extend(value for number, value in self.pending if number <= checkpoint_id)
        self.pending = [item for item in self.pending if item[0] > checkpoint_id]


def notified(life: list[Any]) -> list[int]:
    return [call for call in life if isinstance(call, int)]


def listening(place: Place) -> None:
    place.write(place.numbers(NUMBERS).rebalance().map(Listens()).set_parallelism(2))


def failing_at(checkpoint_id: int) -> Callable[[Place], None]:
    def build(place: Place) -> None:
        place.write(place.numbers(NUMBERS).map(Listens(checkpoint_id)))

    return build


def acknowledging(place: Place) -> None:
    place.write(place.numbers(NUMBERS).rebalance().map(Acknowledges()).set_parallelism(2))


def completed(run: Run) -> list[int]:
    """Return the checkpoints of a run; the first id of all is the driver's claim."""
    return [publish.progress.checkpoint_id for publish in run.of(do.PublishProgress)]


def last_checkpoint(run: Run) -> int:
    return completed(run)[-1]


@ENDS
@pytest.mark.behaviour(38, 42)
def test_function_is_notified_of_each_checkpoint_once_and_of_the_last_one_before_it_is_closed(
    jobs: Jobs, ending: Ending
) -> None:
    run = jobs.make(listening)
    assert run.to_its_end(ending, after=GATE).status is JobStatus.FINISHED
    assert len(completed(run)) > 3
    for subtask in (0, 1):
        [life] = LIVES[subtask]
        assert notified(life) == completed(run)
        assert life[-2:] == [last_checkpoint(run), "close"]


@ENDS
@pytest.mark.behaviour(42)
def test_ids_rise_for_each_object_and_someone_is_notified_of_each_checkpoint_in_whatever_process(
    jobs: Jobs, ending: Ending
) -> None:
    run = Run(lambda env: listening(Place(env, jobs.out)), jobs.place, jobs.monkeypatch, workers=3)
    assert run.to_its_end(ending, after=GATE).status is JobStatus.FINISHED
    assert set(LIVES) == {0, 1}
    for lives in LIVES.values():
        assert len(lives) > 1
        assert all(notified(life) == sorted(set(notified(life))) for life in lives)
        assert sorted(number for life in lives for number in notified(life)) == completed(run)
        assert all(life.count("close") == 1 for life in lives)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.behaviour(42)
def test_what_waits_in_operator_state_is_acknowledged_to_the_last_record_in_whatever_process(
    jobs: Jobs, workers: int
) -> None:
    run = Run(lambda env: acknowledging(Place(env, jobs.out)), jobs.place, jobs.monkeypatch, workers=workers)
    assert run.to_its_end().status is JobStatus.FINISHED
    assert sorted(ACKNOWLEDGED) == list(NUMBERS)


@pytest.mark.behaviour(42)
def test_what_waits_in_files_is_acknowledged_to_the_last_record(jobs: Jobs) -> None:
    run = Run(
        lambda env: acknowledging(Place(env, jobs.out)),
        jobs.place,
        jobs.monkeypatch,
        settings={"execution.checkpointing.data-inline-threshold": "0 b"},
        workers=3,
    )
    assert run.to_its_end().status is JobStatus.FINISHED
    assert sorted(ACKNOWLEDGED) == list(NUMBERS)


@pytest.mark.behaviour(42)
def test_subtask_that_finishes_is_notified_of_that_with_the_next_epoch_of_the_others(jobs: Jobs) -> None:
    def build(place: Place) -> None:
        place.write(place.numbers(SHORT, NUMBERS).map(Listens()).set_parallelism(2))

    run = jobs.make(build)
    assert run.to_its_end().status is JobStatus.FINISHED
    finished = next(
        publish.progress.checkpoint_id
        for publish in run.of(do.PublishProgress)
        if any(ack.subtask == 0 and ack.finished for ack in publish.acks)
    )
    assert finished < last_checkpoint(run)
    assert [notified(life)[-1] for lives in (LIVES[0], LIVES[1]) for life in lives] == [finished, last_checkpoint(run)]
    [notification] = run.of(do.NotifyListeners)
    assert {subtask for _, subtask in notification.epoch.dispatches} == {1}


@ENDS
def test_job_in_which_nobody_listens_runs_no_epoch_for_that(jobs: Jobs, ending: Ending) -> None:
    run = jobs.make(one_input)
    run.to_its_end(ending, after=GATE)
    assert not run.of(do.NotifyListeners)
    assert not any(part.is_notification for epoch in run.of(do.RunEpoch) for part in epoch.dispatches.values())


@pytest.mark.behaviour(16, 42)
def test_function_that_had_finished_before_a_restore_is_notified_of_nothing(jobs: Jobs) -> None:
    def build(place: Place) -> None:
        place.write(place.numbers(SHORT, name="short").map(Listens()), "short")
        place.write(place.numbers(NUMBERS))

    first = jobs.make(build)
    first.to_its_end(Ending.SUSPEND, after=GATE + len(SHORT))
    assert len(LIVES[0]) == 1
    assert jobs.make(build, first.goes_on_from).to_its_end().status is JobStatus.FINISHED
    assert len(LIVES[0]) == 1


@pytest.mark.behaviour(43)
def test_error_on_hearing_of_a_checkpoint_restarts_the_job_from_that_checkpoint(jobs: Jobs) -> None:
    run = jobs.make(failing_at(3), settings=RESTARTS)
    assert run.to_its_end().status is JobStatus.FINISHED
    assert run.loop.coordinator.state.progress.restarts == 1
    failed, after = LIVES[0]
    assert notified(failed) == [2, 3]
    assert notified(after) == completed(run)[2:]
    # What lay before the checkpoint is not read again.
    assert [failed.count("map"), after.count("map")] == [4, RECORDS - 4]
    assert jobs.published == {"out": dict.fromkeys(NUMBERS, 1)}


@pytest.mark.behaviour(43)
def test_error_on_hearing_of_the_last_checkpoint_leaves_it_valid(jobs: Jobs) -> None:
    probe = jobs.make(failing_at(0))
    probe.to_its_end()
    last = last_checkpoint(probe)
    LIVES.clear()
    place = jobs.place / "again"
    place.mkdir()
    again = Jobs(place, jobs.monkeypatch)
    run = again.make(failing_at(last), settings=RESTARTS)
    assert run.to_its_end().status is JobStatus.FINISHED
    assert run.loop.coordinator.state.progress.restarts == 1
    assert [notified(life)[-1] for life in LIVES[0]] == [last]
    assert last_checkpoint(run) == last
    assert again.published == {"out": dict.fromkeys(NUMBERS, 1)}


@pytest.mark.parametrize("ending", [Ending.SUSPEND, Ending.DRAIN], ids=lambda ending: ending.value)
@pytest.mark.behaviour(43, 56)
def test_error_on_hearing_of_a_stops_checkpoint_fails_the_call_and_the_stop_comes_to_its_end(
    jobs: Jobs, ending: Ending
) -> None:
    stop_at = 8
    run = jobs.make(failing_at(stop_at), settings=RESTARTS)
    run.to_its_end(ending, after=GATE)
    assert last_checkpoint(run) == stop_at
    assert run.driver.status is JobStatus.FINISHED
    assert run.loop.coordinator.state.progress.restarts == 1
    assert run.stopped is not None
    error = run.stopped.exception(0)
    assert isinstance(error, StopIncompleteError)
    jobs.make(failing_at(0), error.path).to_its_end()
    assert jobs.published == {"out": dict.fromkeys(NUMBERS, 1)}


@pytest.mark.behaviour(42)
def test_object_that_runs_a_void_epoch_again_is_notified_that_it_came_to_nothing(jobs: Jobs) -> None:
    run = jobs.make(listening)
    run_epoch, lost = run.runner.run, iter([4])

    def lose_once(plan: Any) -> Any:
        outcome = run_epoch(plan)
        if plan.checkpoint_id == 4 and next(lost, None):
            raise EpochInfrastructureError("an executor is gone")
        return outcome

    run.runner.run = lose_once  # type: ignore[method-assign]
    assert run.to_its_end().status is JobStatus.FINISHED
    assert run.loop.coordinator.state.progress.restarts == 0
    for subtask in (0, 1):
        before, after = LIVES[subtask]
        assert notified(before) == [2, 3]
        assert notified(after) == [3, -4, *completed(run)[2:]]


def test_epoch_of_notices_that_is_lost_runs_again(jobs: Jobs) -> None:
    run = jobs.make(listening)
    run_epoch, lost = run.runner.run, iter([True])

    def lose_once(plan: Any) -> Any:
        outcome = run_epoch(plan)
        if any(part.is_notification for level in plan.levels for slot in level.slots for part in slot) and next(
            lost, False
        ):
            raise EpochInfrastructureError("an executor is gone")
        return outcome

    run.runner.run = lose_once  # type: ignore[method-assign]
    assert run.to_its_end().status is JobStatus.FINISHED
    last = last_checkpoint(run)
    assert [notified(life)[-1:] for life in LIVES[0]] == [[last], [last]]
    assert all(life[-1] == "close" for life in LIVES[0])


class Deaf(MapFunction):
    """Listens to nothing, and cannot be closed."""

    def map(self, value: int) -> int:
        return value

    def close(self) -> None:
        LIVES[0].append(["close"])
        raise ValueError("cannot be closed")


class Hears(Deaf, CheckpointListener):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        pass


@ENDS
@pytest.mark.parametrize("function", [Deaf, Hears])
@pytest.mark.behaviour(38, 40)
def test_function_is_closed_when_all_is_published_and_its_error_takes_nothing_back(
    jobs: Jobs, ending: Ending, function: type[Deaf], caplog: pytest.LogCaptureFixture
) -> None:
    def build(place: Place) -> None:
        place.write(place.numbers(NUMBERS).map(function()))

    run = jobs.make(build, settings={"restart-strategy.type": "none"})
    closed_before: list[str] = []

    def watch(step: do.Instruction) -> None:
        if LIVES[0] and isinstance(step, do.PutChainEntry | do.Commit | do.PublishProgress):
            closed_before.append(type(step).__name__)

    run.watchers.append(watch)
    assert run.to_its_end(ending, after=GATE).status is JobStatus.FINISHED
    assert LIVES[0] == [["close"]]
    assert closed_before in ([], ["PutChainEntry"]), "at most the terminal record comes after it"
    assert run.loop.coordinator.state.progress.restarts == 0
    assert "failed to close; the job is not affected" in caplog.text


# ------------------------------------------------------------------------------------------------- sources hear as well


class ListeningReader(_ListReader):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        LIVES[self.number][-1].append(checkpoint_id)

    def start(self) -> None:
        self.number = 0
        LIVES[self.number].append([])
        super().start()


class ListeningSource(GatedSource):
    def create_reader(self, reader_context: Any) -> Any:
        from pathlib import Path

        return ListeningReader(reader_context, self._lists, Path(self._happened_in), 1)


@ENDS
@pytest.mark.behaviour(42)
def test_reader_that_listens_is_notified_of_the_last_checkpoint(jobs: Jobs, ending: Ending) -> None:
    def build(place: Place) -> None:
        source = ListeningSource(list(NUMBERS), happened_in=str(place.folder), gate=None)
        place.write(place.env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers"))

    run = jobs.make(build)
    run.to_its_end(ending, after=GATE)
    assert LIVES[0] == [completed(run)]


@ENDS
@pytest.mark.behaviour(42)
def test_enumerator_is_notified_of_every_checkpoint_and_of_the_last_one_before_it_is_closed(
    jobs: Jobs, ending: Ending
) -> None:
    told: list[int] = []
    deliver = enumerators._deliver

    def noted(running: Any, completed: int, delivery: Any) -> None:
        told.append(completed)
        deliver(running, completed, delivery)

    jobs.monkeypatch.setattr(enumerators, "_deliver", noted)
    run = jobs.make(one_input)
    run.to_its_end(ending, after=GATE)
    assert [number for number in told if number] == completed(run)

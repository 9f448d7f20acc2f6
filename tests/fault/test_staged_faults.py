"""A batch job with recovery on a full disk, with a clock that jumps, and beside what a dead driver's tasks still do."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.fault.staged import KILLED, StagedDrivers, StagedLife, now_s
from tests.fault.staged_job import TRUTH, WHOLE, attempts, environment, graph_of, published
from tests.fault.support import Points
from tests.kit.clock import HastyClock
from tests.kit.driving import assembled

from penstock.common import Configuration
from penstock.common.job_status import JobStatus
from penstock.testing.failing_storage import FailingStorage
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver

pytestmark = pytest.mark.fault

HOUR_S, DAY_S = 3_600, 86_400


@pytest.fixture(scope="module")
def drivers() -> Iterator[StagedDrivers]:
    with StagedDrivers() as started:
        yield started


def ran(place: Path) -> Counter[tuple[str, int]]:
    """Return how often each subtask was begun."""
    return Counter((attempt.vertex, attempt.subtask) for attempt in attempts(place))


# ---------------------------------------------------------------------------------------------------------- full disks


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FailingStorage:
    """The storage that the job in ``tmp_path`` will find where it looks for its directory, in tasks as well."""
    storage = FailingStorage(str(tmp_path / "checkpoints"))
    for user in ("driver.assembly", "runtime.worker_cache"):
        monkeypatch.setattr(f"penstock._engine.{user}.open_storage", lambda *_: storage)
    (tmp_path / "calls").mkdir()
    return storage


def run_here(place: Path, **settings: str) -> JobDriver:
    env = environment(place, None, **settings)
    configuration = Configuration(env._configuration)
    driver, loop = assembled(graph_of(env), configuration, place / "state", InProcessEpochRunner(), HastyClock())
    Points({}).watch(loop)
    driver.run(loop)
    return driver


def test_a_disk_that_is_full_for_a_while_costs_the_subtask_that_wrote_and_no_other(
    tmp_path: Path, storage: FailingStorage
) -> None:
    retries = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "5"}
    storage.refuse("put", paths="*/results/*-2-1-*", times=2, reason="the disk is full")
    driver = run_here(tmp_path, **retries)
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert driver.progress.restarts == 2
    assert published(tmp_path) == TRUTH
    repeated = {place: count for place, count in ran(tmp_path).items() if count > 1}
    assert repeated == {("join", 1): 3}


def test_a_disk_that_stays_full_ends_the_job_which_names_it_and_publishes_nothing(
    tmp_path: Path, storage: FailingStorage
) -> None:
    storage.refuse("put", paths="*/results/*-2-1-*", times=None, reason="the disk is full")
    driver = run_here(tmp_path)
    assert driver.status is JobStatus.FAILED
    error = str(driver.result.exception())
    assert "the disk is full" in error
    assert str(tmp_path / "checkpoints") in error
    assert not published(tmp_path)
    assert StagedLife(tmp_path).left("results", "finished", "events") == []
    storage.heal()
    assert run_here(tmp_path).status is JobStatus.FINISHED
    assert published(tmp_path) == TRUTH


# ---------------------------------------------------------------------------------------------------- clocks that jump


@pytest.mark.parametrize("seconds", [-HOUR_S, DAY_S])
def test_clocks_that_jump_before_and_behind_a_kill_change_nothing(
    tmp_path: Path, drivers: StagedDrivers, seconds: int
) -> None:
    life = StagedLife(tmp_path)
    jumps = {"event-2-before": ["shift", seconds], "event-4-after": ["kill"]}
    assert drivers.run(tmp_path, actions=jumps) == KILLED
    life.killed(now_s())
    behind = {"list_partitions-1-before": ["shift", -seconds], "run_epoch-1-before": ["shift", 2 * seconds]}
    assert drivers.run(tmp_path, actions=behind) == 0
    life.check_end()


def test_the_wait_for_results_does_not_depend_on_the_time_of_day(tmp_path: Path, drivers: StagedDrivers) -> None:
    assert drivers.run(tmp_path, actions={"note_sink-10-before": ["kill"]}) == KILLED
    assert ("sort", 1) in StagedLife(tmp_path).recorded()
    [lost] = tmp_path.glob("checkpoints/*/results/*-4-1-*")
    lost.unlink()
    behind = {"claim_job_events-1-after": ["note-time"], "list_partitions-1-after": ["shift", DAY_S]}
    assert drivers.run(tmp_path, actions=behind | {"run_epoch-1-before": ["note-time"]}) == 0
    began, ended = map(float, (tmp_path / "times").read_text().split())
    assert ended - began > 1.999  # the wait has two seconds, counted in whole milliseconds
    assert published(tmp_path) == TRUTH
    assert ran(tmp_path)["sort", 1] == 2


# ------------------------------------------------------------------------------------------- tasks of drivers that died


def keep_late_files(place: Path, drivers: StagedDrivers, number: int) -> tuple[StagedLife, set[tuple[str, int]]]:
    """Kill a driver before it writes an event, and put aside what its tasks have stored and no event tells of.

    Returns:
        The life of the job, and the subtasks that have to run again.
    """
    life = StagedLife(place)
    assert drivers.run(place, actions={f"event-{number}-before": ["kill"]}) == KILLED
    life.killed(now_s())
    late = {(attempt.vertex, attempt.subtask) for attempt in attempts(place) if attempt.name in life.lost}
    recorded = {f"-{vertex}-{subtask}-" for vertex, subtask in life.finished}
    for kind in ("results", "finished"):
        (place / "late" / kind).mkdir(parents=True)
        for path in place.glob(f"checkpoints/*/{kind}/*"):
            if not any(name in path.name for name in recorded):
                path.rename(place / "late" / kind / path.name)
    return life, late


@pytest.mark.behaviour(151)
def test_what_a_dead_drivers_task_stores_after_the_wait_is_not_used(tmp_path: Path, drivers: StagedDrivers) -> None:
    """The files of its last subtasks turn up when the next driver has begun: as if a task had outlived its driver."""
    # On a busy machine a driver may have told all that is stored: then a later one is killed.
    numbers = iter(range(4, 9))
    while not any(tmp_path.glob("late/*/*")):
        number = next(numbers)
        tmp_path = tmp_path / f"killed-{number}"
        tmp_path.mkdir()
        life, late = keep_late_files(tmp_path, drivers, number)
    [job] = (path for path in (tmp_path / "checkpoints").iterdir() if len(path.name) == 32)
    turn_up = {
        f"run_epoch-1-{side}": ["bring", f"late/{kind}", f"checkpoints/{job.name}/{kind}"]
        for side, kind in (("before", "results"), ("after", "finished"))
    }
    before = ran(tmp_path)
    assert drivers.run(tmp_path, actions=turn_up) == 0
    assert not any((tmp_path / "late").glob("*/*"))
    assert all(ran(tmp_path)[place] == before[place] + 1 for place in late)
    life.check_end()


def test_the_counts_of_an_undisturbed_job_are_the_ones_that_all_others_are_compared_with(
    tmp_path: Path, drivers: StagedDrivers
) -> None:
    assert drivers.run(tmp_path) == 0
    StagedLife(tmp_path).check_end()
    read = Counter[str]()
    for attempt in attempts(tmp_path):
        read[attempt.vertex] += attempt.records
    assert read == WHOLE

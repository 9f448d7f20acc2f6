"""SIGKILL of the drivers of a batch job with recovery: nothing is lost or repeated, and little is done again.

The drivers are real processes with real events and results; their stages run in the process itself. On Spark the same
is done by ``test_staged_kills_on_spark``.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from tests.fault.staged import KILLED, StagedDrivers, StagedLife, now_s
from tests.fault.staged_job import TRUTH, attempts, published

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.fault

#: More drivers than it takes to write each event of the job once.
MOST_DRIVERS = 30


@pytest.fixture(scope="module")
def drivers() -> Iterator[StagedDrivers]:
    with StagedDrivers() as started:
        yield started


def killed(drivers: StagedDrivers, life: StagedLife, point: str) -> bool:
    """Run a driver that dies at a point; tell whether it did."""
    ended = drivers.run(life.directory, actions={point: ["kill"]})
    assert ended in {KILLED, 0}, (life.directory / "log").read_text()
    if ended:
        life.killed(now_s())
    return bool(ended)


def finish(drivers: StagedDrivers, life: StagedLife) -> None:
    assert drivers.run(life.directory) == 0, (life.directory / "log").read_text()
    life.check_end()


@pytest.mark.behaviour(144)
@pytest.mark.parametrize("point", ["event-2-after", "event-3-before"])
def test_a_job_whose_drivers_die_at_each_write_of_an_event_comes_to_its_end(
    tmp_path: Path, drivers: StagedDrivers, point: str
) -> None:
    life = StagedLife(tmp_path)
    count = 0
    while killed(drivers, life, point):  # the first event of a driver is its claim; each writes one more, and dies
        count += 1
        assert count < MOST_DRIVERS
    assert count >= 3  # an interval may have the events of two vertices
    life.check_end()


@pytest.mark.behaviour(153)
@pytest.mark.parametrize(
    "point",
    ["put_chain_entry-2-before", "put_chain_entry-2-after", "publish-1-before", "publish-1-after"],
)
def test_a_driver_that_dies_around_the_commit_leaves_it_to_the_next_one(
    tmp_path: Path, drivers: StagedDrivers, point: str
) -> None:
    life = StagedLife(tmp_path)
    assert killed(drivers, life, point)
    finish(drivers, life)


def test_drivers_that_die_in_the_midst_of_a_subtask_leave_it_to_the_next_one(
    tmp_path: Path, drivers: StagedDrivers
) -> None:
    life = StagedLife(tmp_path)
    for vertex, record in (("left", 5), ("right", 20), ("join", 50), ("aggregate", 9), ("sort", 20), ("sink", 8)):
        assert killed(drivers, life, f"note_{vertex}-{record}-before")
    finish(drivers, life)


@pytest.mark.parametrize("point", ["put_chain_entry-3-after", "end_driver-1-after"])
def test_a_job_whose_driver_dies_between_its_last_entry_and_its_end_has_finished_and_the_next_start_starts_fresh(
    tmp_path: Path, drivers: StagedDrivers, point: str
) -> None:
    life = StagedLife(tmp_path)
    assert killed(drivers, life, point)
    assert published(tmp_path) == TRUTH
    before = attempts(tmp_path)
    finish(drivers, life)
    assert attempts(tmp_path) == before
    assert drivers.run(tmp_path) == 0
    assert published(tmp_path) == TRUTH + TRUTH


def test_drivers_that_die_while_they_recover_leave_all_to_the_next_one(tmp_path: Path, drivers: StagedDrivers) -> None:
    life = StagedLife(tmp_path)
    for point in ("event-4-after", "claim_job_events-1-before", "event-1-before", "list_partitions-1-after"):
        assert killed(drivers, life, point)
    assert killed(drivers, life, "start_enumerators-1-after")
    finish(drivers, life)


@pytest.mark.parametrize(
    "point", ["event-2-before", "event-2-after", "run_epoch-3-before", "put_chain_entry-2-before", "publish-1-before"]
)
def test_a_driver_that_was_stopped_while_another_did_its_job_is_fenced(
    tmp_path: Path, drivers: StagedDrivers, point: str
) -> None:
    life = StagedLife(tmp_path)
    old = drivers.start(tmp_path, actions={point: ["stop"]})
    assert drivers.wait(old) is None
    life.killed(now_s())
    assert drivers.run(tmp_path) == 0, (tmp_path / "log").read_text()
    os.kill(old, signal.SIGCONT)
    assert drivers.wait(old) == 3
    assert "FencedError: " in (tmp_path / "log").read_text()
    assert published(tmp_path) == TRUTH
    assert life.left("events") == []


def test_of_two_drivers_at_once_one_does_the_job_and_the_other_one_is_fenced(
    tmp_path: Path, drivers: StagedDrivers
) -> None:
    both = [drivers.start(tmp_path) for _ in range(2)]
    assert sorted(map(str, map(drivers.wait, both))) == ["0", "3"], (tmp_path / "log").read_text()
    assert published(tmp_path) == TRUTH

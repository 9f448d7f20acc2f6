"""A supervised program finds the jobs of the process before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._engine.driver.resumption import Resumption
from penstock.common.configuration import Configuration
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from pathlib import Path

DIRECTORY = {"execution.checkpointing.dir": "/checkpoints"}
GIVEN = Configuration.from_dict(DIRECTORY | {"execution.state-recovery.path": "/savepoints/one"})


class Driver:
    def __init__(self, job_name: str, job_id: str) -> None:
        self.job_name, self.job_id = job_name, job_id


def run(path: Path, name: str, job_id: str, configuration: Configuration, *statuses: JobStatus) -> Configuration:
    """Let a program of one job run for a while; answers what the job was started with."""
    started_with, noted = Resumption(path).next_job(name, configuration)
    if noted is not None:
        driver: Any = Driver(name, job_id)
        listener = noted.follow(driver)
        for status in statuses:
            listener.on_status(status)
    return started_with


def test_job_that_claimed_its_place_goes_on_from_its_newest_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "jobs"
    assert run(path, "prices", "a" * 32, GIVEN, JobStatus.INITIALIZING, JobStatus.CREATED) == GIVEN
    again = run(path, "prices", "b" * 32, GIVEN)
    expected = DIRECTORY | {"execution.state-recovery.path": "latest", "penstock.job-id": "a" * 32}
    assert again.to_dict() == expected


def test_job_that_crashed_before_that_starts_as_it_was_told_to(tmp_path: Path) -> None:
    path = tmp_path / "jobs"
    run(path, "prices", "a" * 32, GIVEN, JobStatus.INITIALIZING)
    assert run(path, "prices", "b" * 32, GIVEN) == GIVEN


def test_jobs_of_one_name_are_told_apart_by_their_order(tmp_path: Path) -> None:
    configuration = Configuration.from_dict(DIRECTORY)
    first = Resumption(tmp_path / "jobs")
    for job_id in ("a" * 32, "b" * 32):
        _, noted = first.next_job("prices", configuration)
        assert noted is not None
        driver: Any = Driver("prices", job_id)
        noted.follow(driver).on_status(JobStatus.CREATED)
    second = Resumption(tmp_path / "jobs")
    found = [second.next_job("prices", configuration)[0].to_dict()["penstock.job-id"] for _ in range(2)]
    assert found == ["a" * 32, "b" * 32]


def test_other_job_in_its_place_is_none_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "jobs"
    run(path, "prices", "a" * 32, GIVEN, JobStatus.CREATED)
    assert run(path, "orders", "b" * 32, GIVEN) == GIVEN


def test_job_without_a_checkpoint_directory_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "jobs"
    configuration = Configuration()
    run(path, "prices", "a" * 32, configuration, JobStatus.CREATED)
    assert not path.exists()
    assert run(path, "prices", "b" * 32, configuration) == configuration

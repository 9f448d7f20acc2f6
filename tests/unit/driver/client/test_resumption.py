"""A supervised program finds the jobs of the process before it, and knows when it cannot."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import CrashError, Driven
from tests.kit.stories import Asks, Chapter, Sheet, Story
from tests.kit.world import World, numbers_job

from penstock._engine.coordinator.settings import EarlierRun
from penstock._engine.driver.client import resumption
from penstock._engine.driver.client.resumption import _NOTED, Resumption
from penstock._engine.gateway.progress import JobProgress
from penstock._engine.processes.supervision_note import SupervisionNote
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.non_recoverable import is_non_recoverable
from penstock.common.config_loading import RESUME_VARIABLE
from penstock.common.configuration import Configuration
from penstock.common.job_status import JobStatus
from penstock.errors import MissingRecordsError, SupervisionNoteError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver

DIRECTORY = {"execution.checkpointing.dir": "/checkpoints"}
GIVEN = Configuration.from_dict(DIRECTORY | {"execution.state-recovery.path": "/savepoints/one"})


class Driver:
    def __init__(self, job_name: str, job_id: str) -> None:
        self.job_name, self.job_id = job_name, job_id


@pytest.fixture
def note(tmp_path: Path) -> SupervisionNote:
    note = SupervisionNote(tmp_path / "jobs.json")
    note.create()
    return note


def run(
    note: SupervisionNote, name: str, job_id: str, configuration: Configuration, *statuses: JobStatus
) -> Configuration:
    """Let a program of one job run for a while; answers what the job was started with."""
    started_with, noted = Resumption(note).next_job(name, configuration)
    driver: Any = Driver(name, job_id)
    listener = noted.follow(driver)
    for status in statuses:
        listener.on_status(status)
    return started_with


def test_job_that_claimed_its_place_goes_on_from_its_newest_checkpoint(note: SupervisionNote) -> None:
    assert run(note, "prices", "a" * 32, GIVEN, JobStatus.INITIALIZING, JobStatus.CREATED) == GIVEN
    again = run(note, "prices", "b" * 32, GIVEN)
    expected = DIRECTORY | {"execution.state-recovery.path": "latest", "penstock.job-id": "a" * 32}
    assert again.to_dict() == expected


def test_job_that_crashed_before_that_starts_as_it_was_told_to(note: SupervisionNote) -> None:
    run(note, "prices", "a" * 32, GIVEN, JobStatus.INITIALIZING)
    assert run(note, "prices", "b" * 32, GIVEN) == GIVEN


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.SUSPENDED])
def test_job_that_ended_before_its_claim_is_not_noted(note: SupervisionNote, status: JobStatus) -> None:
    run(note, "prices", "a" * 32, GIVEN, JobStatus.INITIALIZING, status)
    assert note.read() == {}


def test_jobs_of_one_name_are_told_apart_by_their_order(note: SupervisionNote) -> None:
    configuration = Configuration.from_dict(DIRECTORY)
    first = Resumption(note)
    for job_id in ("a" * 32, "b" * 32):
        _, noted = first.next_job("prices", configuration)
        driver: Any = Driver("prices", job_id)
        noted.follow(driver).on_status(JobStatus.CREATED)
    second = Resumption(note)
    found = [second.next_job("prices", configuration)[0].to_dict()["penstock.job-id"] for _ in range(2)]
    assert found == ["a" * 32, "b" * 32]


def start(resumption: Resumption, name: str, fresh_id: str, *, crashes: bool = False) -> str:
    """Start the next job of a program, and return the id with which it goes on or begins."""
    started_with, noted = resumption.next_job(name, Configuration.from_dict(DIRECTORY))
    job_id = started_with.to_dict().get("penstock.job-id", fresh_id)
    driver: Any = Driver(name, job_id)
    if not crashes:
        noted.follow(driver).on_status(JobStatus.CREATED)
    return job_id


@pytest.mark.parametrize("order", tuple(permutations("abc")), ids="".join)
def test_jobs_that_threads_start_go_on_in_whatever_order_they_come(
    note: SupervisionNote, order: tuple[str, ...]
) -> None:
    first = Resumption(note)
    ids = {name: start(first, name, name * 32) for name in "abc"}
    for crash_at in (0, 1, 2, None):  # a process that crashes before all have started forgets none
        process = Resumption(note)
        for count, name in enumerate(order):
            assert start(process, name, "f" * 32, crashes=count == crash_at) == ids[name]
            if count == crash_at:
                break
    assert {job.job_name: job.job_id for job in note.read().values()} == ids
    assert start(Resumption(note), "b", "f" * 32) == ids["b"]


def test_another_job_of_a_name_starts_fresh_beside_the_one_that_goes_on(note: SupervisionNote) -> None:
    first = Resumption(note)
    start(first, "a", "a" * 32)
    start(first, "b", "b" * 32)
    second = Resumption(note)
    assert [start(second, "b", "f" * 32), start(second, "b", "c" * 32)] == ["b" * 32, "c" * 32]


def test_other_job_in_its_place_is_none_that_goes_on_and_that_is_said(
    note: SupervisionNote, caplog: pytest.LogCaptureFixture
) -> None:
    run(note, "prices", "a" * 32, GIVEN, JobStatus.CREATED)
    assert run(note, "orders", "b" * 32, GIVEN) == GIVEN
    assert f"'orders' starts fresh. An earlier process has started 'prices' ({'a' * 32}) in its place" in caplog.text


def test_job_without_a_checkpoint_directory_starts_fresh_and_is_noted_as_such(note: SupervisionNote) -> None:
    configuration = Configuration()
    run(note, "prices", "a" * 32, configuration, JobStatus.CREATED)
    assert [job.is_kept for job in note.read().values()] == [False]
    assert run(note, "prices", "b" * 32, configuration) == configuration


def test_job_whose_directory_is_not_set_any_more_is_not_started_fresh(note: SupervisionNote) -> None:
    run(note, "prices", "a" * 32, GIVEN, JobStatus.CREATED)
    with pytest.raises(
        MissingRecordsError, match=r"'prices' \(a{32}\).*execution.checkpointing.dir is not set any more"
    ):
        run(note, "prices", "b" * 32, Configuration())


def test_next_process_knows_how_far_the_job_has_come(note: SupervisionNote, tmp_path: Path) -> None:
    _, noted = Resumption(note).next_job("prices", GIVEN)
    assert noted.earlier is None
    driver: Any = Driver("prices", "a" * 32)
    listener = noted.follow(driver)
    listener.on_status(JobStatus.CREATED)
    for checkpoint_id in (3, 7):
        listener.on_progress(JobProgress(checkpoint_id))
    assert Resumption(note).next_job("prices", GIVEN)[1].earlier == EarlierRun(_NOTED, 7)
    run(note, "prices", "a" * 32, GIVEN, JobStatus.CREATED)  # and is killed before its own first checkpoint
    assert Resumption(note).next_job("prices", GIVEN)[1].earlier == EarlierRun(_NOTED, 7)
    note.path.rename(tmp_path / "away")
    listener.on_progress(JobProgress(8))  # which ends no job


def test_end_of_a_job_is_noted(note: SupervisionNote) -> None:
    run(note, "prices", "a" * 32, GIVEN, JobStatus.CREATED)
    assert [(job.has_ended, job.pid) for job in note.read().values()] == [(False, os.getpid())]
    run(note, "prices", "a" * 32, GIVEN, JobStatus.FINISHED)  # a process that only finds that it has
    assert [job.has_ended for job in note.read().values()] == [True]


def run_next(process: Resumption, story: Story, asks: Asks | None = None, **settings: str) -> Chapter:
    """Run the next job of a program."""
    kept = {"execution.checkpointing.dir": str(story.place / "checkpoints")}
    found, noted = process.next_job("story", Configuration.from_dict(kept))

    def watch(driven: Driven) -> None:
        start = driven.loop.coordinator._start
        start._settings = replace(start._settings, earlier=noted.earlier)
        driven.loop.add_listener(noted.follow(driven.driver))

    def program(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", range(12)))

    known = {"recover": "latest", "job_id": found.to_dict()["penstock.job-id"]} if noted.earlier else {}
    return story.run(program, asks=asks, watch=watch, **known, **settings)


def cancel(driver: JobDriver) -> None:
    driver.cancel()


def crash(_: JobDriver) -> None:
    raise CrashError


@pytest.mark.parametrize("retention", ["RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"])
@pytest.mark.parametrize("how", [cancel, StopMode.SUSPEND, StopMode.DRAIN, StopMode.CANCEL])
def test_job_that_a_user_has_ended_stays_so_while_the_others_of_its_program_resume(
    note: SupervisionNote, tmp_path: Path, how: Any, retention: str
) -> None:
    ended, going = Story(tmp_path / "ended"), Story(tmp_path / "going")
    first = Resumption(note)
    before = run_next(first, ended, {3: how}, retention=retention)
    with pytest.raises(CrashError):
        run_next(first, going, {3: crash})
    records = len(ended.records_of_jobs())
    run_next(Resumption(note), ended, retention=retention)  # and this process crashes then
    second = Resumption(note)
    again = run_next(second, ended, retention=retention)
    assert (again.status, again.outputs) == (before.status, {})
    assert (type(again.error), str(again.error)) == (type(before.error), str(before.error))
    assert len(ended.records_of_jobs()) == records
    last = run_next(second, going)
    assert last.status is JobStatus.FINISHED
    assert last.outputs["out"] == list(range(4, 12))


def lose(note: SupervisionNote, how: str) -> None:
    """Do to a note what cleaners, full disks, careless copies and other users do."""
    path = note.path
    match how:
        case "the directory is removed":
            path.unlink()
            path.parent.rename(path.parent.with_name("gone"))
        case "the file is removed":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut short":
            path.write_bytes(path.read_bytes()[:-9])
        case "of another program":
            path.write_text(path.read_text().replace(f'"{path.parent.name}"', '"another"'))
        case "open to others":
            path.chmod(0o666)
        case "a link":
            path.rename(path.with_name("elsewhere"))
            path.symlink_to(path.with_name("elsewhere"))
        case "a folder":
            path.unlink()
            path.mkdir()
        case other:
            raise AssertionError(other)


WAYS = [
    "the directory is removed",
    "the file is removed",
    "empty",
    "cut short",
    "of another program",
    "open to others",
    "a link",
    "a folder",
]


@pytest.mark.parametrize("how", WAYS)
def test_note_that_was_there_and_is_lost_starts_no_job(
    note: SupervisionNote, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(note, "prices", "a" * 32, GIVEN, JobStatus.CREATED)
    lose(note, how)
    monkeypatch.setenv(RESUME_VARIABLE, str(note.path))
    resumption.resumption.cache_clear()  # a job of this process may have found that it is not supervised
    for _ in range(2):  # a program may go on after the first error
        with pytest.raises(SupervisionNoteError, match=r"penstock run --supervise -s latest") as caught:
            resumption.resumption()
    assert str(note.path) in str(caught.value)


def test_note_of_another_user_starts_no_job(note: SupervisionNote, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(SupervisionNoteError, match="belongs to user"):
        Resumption(note)


@pytest.mark.parametrize("how", ["the directory is removed", "a folder"])
def test_job_that_cannot_be_noted_fails_at_its_start_for_good(note: SupervisionNote, how: str) -> None:
    _, noted = Resumption(note).next_job("numbers", GIVEN)
    lose(note, how)
    world = World(numbers_job("resumption-unnoted"))
    driver, loop = world.driver("memory://resumption-unnoted", restart="fixed-delay", attempts="100")
    loop.add_listener(noted.follow(driver))
    driver.run(loop)
    error = driver.result.exception(0)
    assert isinstance(error, SupervisionNoteError)
    assert is_non_recoverable(error)
    assert driver.status is JobStatus.FAILED
    assert world.runs == 0

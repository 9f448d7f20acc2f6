"""Which of several jobs of one name `latest` goes on with: the one that was claimed last, whatever clocks say."""

from __future__ import annotations

import itertools
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Chapter, Sheet, Story
from tests.unit.driver.restore.test_start import run

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.checkpoints import start_lookups
from penstock._engine.driver.checkpoints.start_lookups import StartLookups
from penstock._engine.driver.checkpoints.start_order import record_start, started_jobs
from penstock._engine.protocol.metadata_document import decode_chain_entry, encode_chain_entry
from penstock._engine.protocol.paths import (
    START_ORDER,
    checkpoint_ids,
    is_job_directory,
    metadata_path,
    start_order_directory,
)
from penstock._engine.savepoints.chains import newest_entry
from penstock._engine.storage.opening import open_storage
from penstock.common.job_status import JobStatus
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.protocol.metadata import ChainEntry

HOUR_MS = 3_600_000
JOBS = [f"{number:032x}" for number in range(40)]


def program(sheet: Sheet) -> None:
    sheet.collect(sheet.source("numbers", range(8)))


def cancelled(story: Story, **settings: str) -> Chapter:
    return story.run(program, asks={3: lambda driver: driver.cancel()}, **settings)


def move_clock(place: Path, job_id: str, by_ms: int) -> None:
    """Have a job's records as a driver writes them whose clock is wrong."""
    storage = open_storage(str(place / "checkpoints"))
    for number in checkpoint_ids(storage.names(job_id)):
        path = metadata_path(job_id, number)
        if (data := storage.find(path)) is not None:
            record = decode_chain_entry(data, path)
            object.__setattr__(record, "created_ms", record.created_ms + by_ms)
            storage.put(path, encode_chain_entry(record))


@pytest.mark.parametrize("by_ms", [-HOUR_MS, 0, HOUR_MS], ids=["an hour back", "right", "an hour ahead"])
@pytest.mark.parametrize("recover", ["latest", "checkpoint"], ids=["found", "named"])
def test_latest_goes_on_with_the_job_that_was_claimed_last(tmp_path: Path, by_ms: int, recover: str) -> None:
    story = Story(tmp_path)
    older = cancelled(story).driver
    settings = {} if recover == "latest" else {"recover": str(older.checkpoint)}
    newer = cancelled(story, **settings).driver
    assert older.job_id != newer.job_id
    move_clock(tmp_path, newer.job_id, by_ms)
    assert story.run(program, recover="latest").driver.job_id == newer.job_id


def test_job_that_is_claimed_again_under_its_id_is_the_last_one(tmp_path: Path) -> None:
    story = Story(tmp_path)
    first, second = (cancelled(story).driver.job_id for _ in range(2))
    assert cancelled(story, job_id=first, recover="latest").driver.job_id == first
    move_clock(tmp_path, second, HOUR_MS)
    assert story.run(program, recover="latest").driver.job_id == first


def test_where_the_last_job_was_removed_the_one_before_goes_on(tmp_path: Path) -> None:
    story = Story(tmp_path)
    first, second, third = (cancelled(story).driver.job_id for _ in range(3))
    move_clock(tmp_path, first, HOUR_MS)
    shutil.rmtree(tmp_path / "checkpoints" / third)
    assert story.run(program, recover="latest").driver.job_id == second


def test_id_that_a_job_of_another_name_has_taken_over_is_not_gone_on_with(name: str) -> None:
    run(name, job_id=JOBS[1], cancel_after=2)
    storage = open_storage(f"memory://{name}")
    record_start(storage, "former name", JOBS[1])
    keeper = StartLookups(storage)
    former, now = (keeper.list_jobs(do.ListJobs(wanted)) for wanted in ("former name", "numbers"))
    assert isinstance(former, ev.JobsListed)
    assert (former.started_last, [job.job_name for job in former.jobs]) == (None, ["numbers"])
    assert now == ev.JobsListed((), JOBS[1])


def test_directory_of_an_older_version_is_gone_by_the_times_of_checkpoints(tmp_path: Path) -> None:
    story = Story(tmp_path)
    first, second = (cancelled(story).driver.job_id for _ in range(2))
    shutil.rmtree(tmp_path / "checkpoints" / START_ORDER)
    move_clock(tmp_path, first, HOUR_MS)
    assert cancelled(story, recover="latest").driver.job_id == first
    move_clock(tmp_path, second, 2 * HOUR_MS)
    assert story.run(program, recover="latest").driver.job_id == first


def test_driver_that_is_killed_between_claim_and_list_has_done_nothing_to_go_on_from(tmp_path: Path) -> None:
    story = Story(tmp_path)
    first = cancelled(story).driver.job_id
    shutil.copytree(tmp_path / "checkpoints" / START_ORDER, tmp_path / "before")
    killed = cancelled(story).driver.job_id
    shutil.rmtree(tmp_path / "checkpoints" / START_ORDER)
    (tmp_path / "before").rename(tmp_path / "checkpoints" / START_ORDER)
    for record in sorted((tmp_path / "checkpoints" / killed).glob("chk-*"))[1:]:
        shutil.rmtree(record)
    again = story.run(program, recover="latest")
    assert (again.driver.job_id, again.status) == (first, JobStatus.FINISHED)


@pytest.mark.parametrize("damage", [b"", b"0123", b"\xff" * 40])
def test_list_that_is_damaged_is_an_error_that_names_the_file(tmp_path: Path, damage: bytes) -> None:
    story = Story(tmp_path)
    cancelled(story)
    directory = tmp_path / "checkpoints" / start_order_directory("story")
    (directory / "1").write_bytes(damage)
    error = story.run(program, recover="latest").error
    assert isinstance(error, CorruptCheckpointError)
    assert error.path.endswith(f"{start_order_directory('story')}/1")
    shutil.rmtree(directory)
    assert story.run(program, recover="latest").status is JobStatus.FINISHED


def test_drivers_that_claim_jobs_of_one_name_at_the_same_time_have_an_order(tmp_path: Path) -> None:
    storage, together = open_storage(str(tmp_path)), threading.Barrier(8)

    def note(job_id: str) -> None:
        together.wait()
        record_start(storage, "name", job_id)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(note, JOBS[:8]))
    assert sorted(started_jobs(storage, "name")) == JOBS[:8]
    assert sorted(storage.names(start_order_directory("name"))) == [str(number) for number in range(1, 9)]
    assert list(started_jobs(storage, "another")) == []


def test_list_stays_short(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    for job_id in itertools.chain(JOBS, JOBS[-1:] * 3):
        record_start(storage, "name", job_id)
    assert list(started_jobs(storage, "name")) == JOBS[:-17:-1]
    assert not [found for found in storage.names("") if is_job_directory(found)]


def test_job_that_makes_its_first_entry_while_jobs_are_listed_is_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = run(f"{name}-first", recover="latest", cancel_after=2)
    before, storage = open_storage(f"memory://{name}-first"), open_storage(f"memory://{name}")
    path = metadata_path(first.job_id, 1)
    storage.put(f"{first.job_id}/state", b"")  # its directory is there

    def read(*where: Any) -> ChainEntry | None:
        found = newest_entry(*where)
        storage.put(path, before.read(path))
        return found

    monkeypatch.setattr(start_lookups, "newest_entry", read)
    listed = StartLookups(storage).list_jobs(do.ListJobs("another"))
    assert isinstance(listed, ev.JobsListed)
    assert [(job.job_id, job.job_name) for job in listed.jobs] == [(first.job_id, "numbers")]
    assert listed.nameless == ()

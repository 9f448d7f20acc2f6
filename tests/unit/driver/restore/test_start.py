"""Which job a driver runs, and what it starts from."""

from __future__ import annotations

import itertools
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.kit.cells import cells
from tests.kit.stories import Sheet, Story
from tests.kit.world import World, numbers_job, published

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.settings import EarlierRun
from penstock._engine.driver.checkpoints.start_lookups import StartLookups
from penstock._engine.processes.exit_codes import ExitCode, exit_code_of
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind
from penstock._engine.protocol.metadata_document import decode_chain_entry
from penstock._engine.protocol.paths import (
    MARK,
    START_ORDER,
    checkpoint_ids,
    is_job_directory,
    job_id_of_name,
    metadata_path,
)
from penstock._engine.storage.opening import open_storage
from penstock.common.job_status import JobStatus
from penstock.errors import (
    CorruptCheckpointError,
    JobExecutionError,
    MissingRecordsError,
    MovedCheckpointError,
    NoCheckpointError,
    UnclaimedStateError,
    UndeliveredResultsError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.driver import JobDriver

JOB_ID = "0123456789abcdef" * 2


def run(
    name: str, *, world: World | None = None, cancel_after: int | None = None, **settings: str
) -> tuple[JobDriver, World]:
    """Run a job; with a number of epochs, it is cancelled after that many."""
    world = world or World(numbers_job(name, limit=40, split_size=20), patience=3)
    driver, loop = world.driver(f"memory://{name}", interval="1 s", **settings)
    perform, epochs = loop.perform, itertools.count(1)

    def watched(instruction: do.Instruction) -> None:
        perform(instruction)
        if isinstance(instruction, do.PublishProgress) and next(epochs) == cancel_after:
            loop._mailbox.post(ev.CancelRequested())

    loop.perform = watched
    driver.run(loop)
    return driver, world


def chain(name: str, job_id: str) -> list[ChainEntry]:
    storage = open_storage(f"memory://{name}")
    ids = checkpoint_ids(storage.names(job_id))
    return [decode_chain_entry(storage.read(metadata_path(job_id, number)), "") for number in ids]


def chain_kinds(name: str, ids: list[int]) -> list[ChainEntryKind]:
    storage = open_storage(f"memory://{name}")
    return [decode_chain_entry(storage.read(metadata_path(JOB_ID, number)), "").kind for number in ids]


def cancelled(name: str, **settings: str) -> JobDriver:
    return run(name, recover="latest", cancel_after=2, **settings)[0]


#: By what an operator has done to the directory, and who knows of the run before: what the next start says; None where
#: it goes on as it should.
KNOWN = EarlierRun("an earlier process has run it", 2)
STARTS: dict[tuple[str, str], str | None] = {
    ("nothing", "its supervisor"): None,
    ("nothing", "-s latest"): None,
    ("nothing", "its id"): None,
    ("gone", "its supervisor"): "directory has no record of it, and an earlier process has run it",
    ("gone", "-s latest"): "penstock run -s latest says that the job has run.*--allow-first-start.*is mistyped",
    ("gone", "its id"): "has no record of it, and penstock.job-id says that.*penstock.allow-first-start: true",
    ("another job's", "its supervisor"): "directory has no record of it",
    ("another job's", "-s latest"): "directory has no record of it",
    ("another job's", "its id"): "directory has no record of it",
    ("older", "its supervisor"): "its records there end with chk-1, before chk-2, and an earlier process has run it",
    ("older", "-s latest"): None,  # it cannot know
}


@cells("lost, who", list(STARTS))
def test_start_that_finds_nothing_is_the_first_only_where_nobody_knows_of_another(lost: str, who: str) -> None:
    name = f"found-{lost}-{who}".replace(" ", "-")
    before, storage = cancelled(name), open_storage(f"memory://{name}")
    job_id = before.job_id
    ids = checkpoint_ids(storage.names(job_id))
    if lost in {"gone", "another job's"}:
        storage.delete([file.path for file in storage.files("")])
    if lost == "another job's":
        graph = replace(numbers_job(f"{name}-other"), name="other")
        run(name, world=World(graph), recover="latest")
    if lost == "older":
        storage.delete([metadata_path(job_id, number) for number in ids[1:]])
    settings = {"its id": {"job_id": job_id}, "-s latest": {"penstock.allow-first-start": "false"}}.get(who, {})
    world = World(numbers_job(name, limit=40, split_size=20), patience=3)
    driver, loop = world.driver(f"memory://{name}", interval="1 s", recover="latest", **settings)
    if who == "its supervisor":
        start = loop.coordinator._start
        start._settings, start.job_id = replace(start._settings, earlier=KNOWN), job_id
    driver.run(loop)
    error, expected = driver.result.exception(0), STARTS[lost, who]
    if expected is None:
        assert error is None
        assert driver.job_id == job_id
        return
    assert isinstance(error, MissingRecordsError)
    assert re.search(expected, str(error)), error
    assert exit_code_of(error) is ExitCode.MISSING
    assert world.runs == 0
    assert checkpoint_ids(storage.names(job_id)) == (ids[:1] if lost == "older" else ())


REFUSED: dict[str, dict[str, str]] = {
    "-s latest": {"recover": "latest", "penstock.allow-first-start": "false"},
    "its id": {"recover": "latest", "job_id": JOB_ID},
    "a savepoint": {"recover": "/no/savepoint"},
}


@cells("who", list(REFUSED))
def test_start_that_is_refused_creates_nothing_in_a_mistyped_directory(who: str, tmp_path: Path) -> None:
    driver, loop = World(numbers_job(f"refused {who}")).driver(str(tmp_path / "a" / "b"), **REFUSED[who])
    driver.run(loop)
    assert isinstance(driver.result.exception(0), NoCheckpointError)
    assert list(tmp_path.iterdir()) == []


def test_first_start_with_latest_says_so_unless_nothing_was_to_be_found(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    job = cancelled(name, job_id=JOB_ID, **{"penstock.allow-first-start": "true"})
    assert f"Job 'numbers' ({job.job_id}) starts fresh: memory://{name} has no record of it" in caplog.text
    caplog.clear()
    run(name, recover="latest")
    run(name)
    assert "no record of it" not in caplog.text


@cells("is_there", [True, False])
def test_job_that_was_stopped_into_a_savepoint_that_was_moved_asks_for_its_new_place(is_there: bool) -> None:
    story = Story.somewhere()

    def program(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", range(12)))

    first = story.run(program, recover="latest", asks={3: StopMode.SUSPEND})
    moved = Path(first.savepoint).rename(story.place / "elsewhere")
    error = story.run(program, recover="latest").error
    assert isinstance(error, MovedCheckpointError)
    record = f"{first.driver.job_id}/chk-"
    assert f"continues from {first.savepoint}, and nothing is there: its last record, {record}" in str(error)
    assert "without state" not in str(error)
    assert exit_code_of(error) is ExitCode.MISSING
    if is_there:
        again = story.run(program, recover=str(moved))
        assert sorted(story.output()) == list(range(12))
        assert again.error is None


def test_job_without_an_id_gets_a_random_one_each_time(name: str) -> None:
    first, second = (run(name)[0].job_id for _ in range(2))
    assert first != second
    assert sorted(filter(is_job_directory, open_storage(f"memory://{name}").names(""))) == sorted([first, second])


def test_first_job_of_a_name_that_asks_for_latest_has_an_id_of_that_name_and_the_mark(name: str) -> None:
    driver, _ = run(name, recover="latest")
    mark = open_storage(f"memory://{name}").read(MARK).decode().strip()
    assert driver.job_id == job_id_of_name("numbers", mark)


def test_jobs_of_one_name_in_two_directories_have_two_ids(name: str) -> None:
    assert len({run(f"{name}-{place}", recover="latest")[0].job_id for place in range(2)}) == 2


@pytest.mark.parametrize("spelling", ["{}", "file://{}", "{}/", "{}/../checkpoints", "link", "relative"])
def test_directory_that_is_moved_and_spelt_otherwise_gives_the_same_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    story = Story(tmp_path / "first")

    def program(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", range(4)))

    first = story.run(program, recover="latest", reopen="numbers")
    moved = Path((tmp_path / "first" / "checkpoints").rename(tmp_path / "checkpoints"))
    (tmp_path / "link").symlink_to(moved)
    monkeypatch.chdir(tmp_path)
    path = {"link": str(tmp_path / "link"), "relative": "checkpoints"}.get(spelling, spelling.format(moved))
    again = story.run(program, checkpoints=path, recover="latest", reopen="numbers")
    assert again.driver.job_id == first.driver.job_id
    for job in moved.iterdir():
        if is_job_directory(job.name):
            job.rename(tmp_path / "gone")  # then the id is made anew
    third = story.run(program, checkpoints=path, recover="latest")
    assert third.driver.job_id == first.driver.job_id


def test_drivers_that_find_no_mark_at_the_same_time_agree(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    keepers = [StartLookups(storage) for _ in range(8)]
    together = threading.Barrier(len(keepers))

    def read(number: int) -> ev.Event:
        together.wait()
        return keepers[number].read_mark(do.ReadMark(f"{number:032x}"))

    with ThreadPoolExecutor(len(keepers)) as pool:
        marks = set(pool.map(read, range(len(keepers))))
    assert len(marks) == 1
    assert marks <= {ev.MarkRead(f"{number:032x}") for number in range(len(keepers))}


@pytest.mark.parametrize("damaged", [b"", b"0123", b"0" * 32, b"\xff" * 33, b"0" * 32 + b"\n0"])
def test_mark_that_is_damaged_is_an_error_that_names_it_and_no_other_id(name: str, damaged: bytes) -> None:
    storage = open_storage(f"memory://{name}")
    storage.put(MARK, damaged)
    driver, world = run(name, recover="latest")
    error = driver.result.exception()
    assert isinstance(error, CorruptCheckpointError)
    assert error.path == f"memory://{name}/{MARK}"
    assert world.runs == 0
    assert storage.names("") == [MARK]


def test_job_that_is_found_keeps_its_id_whatever_has_become_of_the_mark(name: str) -> None:
    first, _ = run(name, recover="latest", cancel_after=3)
    open_storage(f"memory://{name}").put(MARK, b"")
    assert run(name, recover="latest", cancel_after=1)[0].job_id == first.job_id
    open_storage(f"memory://{name}").delete([MARK])
    assert run(name, recover="latest")[0].job_id == first.job_id


def test_latest_does_not_start_fresh_beside_a_job_whose_name_cannot_be_read(name: str) -> None:
    run(name, job_id=JOB_ID, cancel_after=2)
    storage = open_storage(f"memory://{name}")
    for number in checkpoint_ids(storage.names(JOB_ID)):
        storage.put(metadata_path(JOB_ID, number), b"{")
    claimed = run(name, recover="latest")[0].result.exception()
    assert isinstance(claimed, CorruptCheckpointError)
    assert claimed.path.startswith(f"memory://{name}/{JOB_ID}/chk-")
    storage.delete(file.path for file in storage.files(START_ORDER))  # as where they were lost
    driver, world = run(name, recover="latest")
    error = driver.result.exception()
    assert isinstance(error, CorruptCheckpointError)
    assert (error.path, world.runs) == (f"memory://{name}/{JOB_ID}", 0)
    assert "penstock.job-id" in error.reason


def test_latest_finds_a_job_that_had_a_random_id(name: str) -> None:
    first, _ = run(name, cancel_after=3)
    second, _ = run(name, recover="latest")
    assert second.job_id == first.job_id
    assert published(name) == dict.fromkeys(range(40), 1)


def test_latest_after_finished_reports_that_and_runs_nothing(name: str) -> None:
    run(name, recover="latest")
    driver, world = run(name, recover="latest")
    assert driver.result.result().get_net_runtime() >= 0
    assert (driver.status, world.runs) == (JobStatus.FINISHED, 0)


def test_latest_after_finished_does_not_give_an_empty_result_to_a_program_that_collects(name: str) -> None:
    run(name, recover="latest")
    collecting = World(numbers_job(name, limit=40, split_size=20, collects=True), patience=3)
    driver, world = run(name, world=collecting, recover="latest")
    assert isinstance(driver.result.exception(), UndeliveredResultsError)
    assert world.runs == 0


def test_latest_after_canceled_goes_on_from_the_newest_checkpoint(name: str) -> None:
    first, _ = run(name, recover="latest", cancel_after=4)
    assert first.status is JobStatus.CANCELED
    before = published(name)
    assert before
    driver, _ = run(name, recover="latest")
    assert driver.status is JobStatus.FINISHED
    assert published(name) == dict.fromkeys(range(40), 1)


def test_latest_after_a_cancel_that_kept_nothing_is_an_error(name: str) -> None:
    run(name, recover="latest", cancel_after=4, retention="DELETE_ON_CANCELLATION")
    driver, world = run(name, recover="latest")
    assert driver.status is JobStatus.FAILED
    assert isinstance(driver.result.exception(), NoCheckpointError)
    assert world.runs == 0


def test_latest_after_a_failure_before_the_first_checkpoint_starts_fresh(tmp_path: Path) -> None:
    story = Story(tmp_path)

    def program(divisor: int) -> Callable[[Sheet], None]:
        return lambda sheet: sheet.collect(sheet.source("numbers", range(8)).map(lambda n: n // divisor))

    failed = story.run(program(0), recover="latest", restart="none")
    assert isinstance(failed.error, JobExecutionError)
    again = story.run(program(1), recover="latest", restart="none")
    assert again.status is JobStatus.FINISHED
    assert story.output() == list(range(8))


def test_latest_after_a_cancel_before_the_first_checkpoint_is_an_error(tmp_path: Path) -> None:
    story = Story(tmp_path)

    def program(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", range(8)))

    assert story.run(program, recover="latest", asks={1: lambda driver: driver.cancel()}).status is JobStatus.CANCELED
    again = story.run(program, recover="latest")
    assert isinstance(again.error, NoCheckpointError)
    assert "ended (canceled) before its first checkpoint" in str(again.error)


def test_job_that_does_not_ask_for_recovery_starts_afresh_under_the_same_id(name: str) -> None:
    run(name, job_id=JOB_ID, cancel_after=4)
    other = f"{name}-again"
    world = World(numbers_job(other, limit=40, split_size=20))
    driver, _ = run(name, world=world, job_id=JOB_ID)
    assert driver.status is JobStatus.FINISHED
    assert published(other) == dict.fromkeys(range(40), 1)


@pytest.mark.behaviour(165)
def test_given_path_is_restored_by_another_job_whose_ids_go_on_rising(name: str) -> None:
    first, _ = run(name, cancel_after=4)
    assert first.checkpoint is not None
    taken = int(first.checkpoint.rpartition("-")[2])
    second, _ = run(name, recover=first.checkpoint)
    assert second.job_id != first.job_id
    assert published(name) == dict.fromkeys(range(40), 1)
    records = chain(name, second.job_id)
    assert records[0].kind is ChainEntryKind.TAKEOVER
    assert records[0].parent is not None
    assert records[0].parent.checkpoint_id == taken
    assert records[-1].checkpoint_id > taken + 1


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_first_checkpoint_behind_one_from_elsewhere_has_a_higher_id(name: str, epochs: int) -> None:
    first, _ = run(name, cancel_after=epochs)
    second, _ = run(name, recover=str(first.checkpoint), cancel_after=1)
    taken, own = (int(str(driver.checkpoint).rpartition("-")[2]) for driver in (first, second))
    assert (taken, own) == (epochs + 1, epochs + 3)  # a claim stands between them


def test_metadata_file_is_as_good_as_its_directory(name: str) -> None:
    first, _ = run(name, cancel_after=4)
    run(name, recover=f"{first.checkpoint}/_metadata")
    assert published(name) == dict.fromkeys(range(40), 1)


def test_path_without_a_checkpoint_is_an_error_that_names_it(name: str) -> None:
    driver, world = run(name, recover=f"memory://{name}/{JOB_ID}/chk-9")
    error = driver.result.exception()
    assert isinstance(error, NoCheckpointError)
    assert f"memory://{name}/{JOB_ID}/chk-9" in str(error)
    assert world.runs == 0


def damaged(name: str, *newest: int, retained: str) -> list[int]:
    """Leave a chain as a driver that died left it, with some of its newest checkpoints damaged; return its ids."""
    run(name, job_id=JOB_ID, cancel_after=5, retained=retained)
    storage = open_storage(f"memory://{name}")
    *ids, terminal = checkpoint_ids(storage.names(JOB_ID))
    storage.delete([metadata_path(JOB_ID, terminal)])
    for place in newest:
        path = metadata_path(JOB_ID, ids[-place])
        storage.put(path, storage.read(path)[:-20])
    return ids


def refusal(name: str, **settings: str) -> CorruptCheckpointError:
    driver, world = run(name, job_id=JOB_ID, **settings)
    error = driver.result.exception()
    assert isinstance(error, CorruptCheckpointError)
    assert world.runs == 0
    return error


def test_damaged_newest_checkpoint_is_an_error_that_names_it_and_offers_the_one_before(name: str) -> None:
    ids = damaged(name, 1, retained="3")
    error = refusal(name, recover="latest")
    assert error.path == f"memory://{name}/{JOB_ID}/chk-{ids[-1]}/_metadata"
    offer = error.reason.rpartition(" ")[2]
    assert offer == f"memory://{name}/{JOB_ID}/chk-{ids[-2]}"
    driver, _ = run(name, job_id=JOB_ID, recover=offer)
    assert driver.status is JobStatus.FINISHED


def test_checkpoint_that_is_offered_is_not_damaged_itself(name: str) -> None:
    ids = damaged(name, 1, 2, retained="3")
    assert refusal(name, recover="latest").reason.endswith(f"chk-{ids[-3]}")


def test_given_path_that_is_damaged_is_offered_the_one_before_as_well(name: str) -> None:
    ids = damaged(name, 2, retained="3")
    path = f"memory://{name}/{JOB_ID}/chk-{ids[-2]}"
    assert refusal(name, recover=path).reason.endswith(f"chk-{ids[-3]}")


def test_claim_is_not_offered_for_a_checkpoint(name: str) -> None:
    ids = damaged(name, 1, retained="1")
    assert chain_kinds(name, ids[:-1]) == [ChainEntryKind.TAKEOVER]
    assert "the one before" not in str(refusal(name, recover="latest"))


def test_checkpoint_that_does_not_fit_is_refused_before_the_job_is_claimed(name: str) -> None:
    first, _ = run(name, job_id=JOB_ID, cancel_after=4)
    before = [record.checkpoint_id for record in chain(name, JOB_ID)]
    graph = numbers_job(name, limit=40, split_size=20, source_uid="other")
    driver, world = run(name, world=World(graph), job_id=JOB_ID, recover="latest")
    assert isinstance(driver.result.exception(), UnclaimedStateError)
    assert [record.checkpoint_id for record in chain(name, JOB_ID)] == before
    assert first.status is JobStatus.CANCELED
    assert world.runs == 0


@pytest.mark.behaviour(165)
def test_ids_are_dense_and_each_record_names_the_checkpoint_before(name: str) -> None:
    driver, _ = run(name, job_id=JOB_ID, cancel_after=6, retained="100")
    records = chain(name, JOB_ID)
    assert [record.checkpoint_id for record in records] == list(range(1, len(records) + 1))
    kinds = [record.kind for record in records]
    assert kinds == [
        ChainEntryKind.TAKEOVER,
        *[ChainEntryKind.CHECKPOINT] * (len(records) - 2),
        ChainEntryKind.CANCELED,
    ]
    parents = [record.parent and record.parent.checkpoint_id for record in records]
    assert parents == [None, None, *range(2, len(records))]
    assert driver.checkpoint == f"memory://{name}/{JOB_ID}/chk-{len(records) - 1}"


@pytest.mark.parametrize("readers", [1, 3])
def test_splits_go_back_to_the_enumerator_at_another_parallelism(name: str, readers: int) -> None:
    run(name, recover="latest", cancel_after=4)
    half = published(name)
    assert 0 < len(half) < 40
    graph = numbers_job(name, limit=40, split_size=20, readers=readers)
    driver, _ = run(name, world=World(graph), recover="latest")
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert published(name) == dict.fromkeys(range(40), 1)

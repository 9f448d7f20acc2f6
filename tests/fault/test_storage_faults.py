"""The checkpoint directory fails or is damaged: the error says what and where, and nothing is lost or written twice."""

from __future__ import annotations

import re
import shutil
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.fault.job import is_truth, published, rows
from tests.fault.support import crash, run_here
from tests.kit.driving import CrashError

from penstock._engine.protocol.paths import is_job_directory
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointStorageError, CorruptCheckpointError
from penstock.testing.failing_storage import FailingStorage, StorageCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver

#: The records of an undisturbed run: the claim, four checkpoints, the end.
RECORDS = range(1, 7)


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FailingStorage:
    """The storage that the job in ``tmp_path`` will find where it looks for its directory, in tasks as well."""
    storage = FailingStorage(str(tmp_path / "checkpoints"))

    def open_this_one(*_: object) -> FailingStorage:
        return storage

    for user in ("driver.assembly", "runtime.worker_cache"):
        monkeypatch.setattr(f"penstock._engine.{user}.open_storage", open_this_one)
    return storage


def error_of(driver: JobDriver) -> str:
    assert driver.status is JobStatus.FAILED
    return str(driver.result.exception())


# ------------------------------------------------------------------------------------------------------- lost answers


@pytest.mark.parametrize("record", RECORDS)
def test_answer_lost_on_a_conditional_put_is_looked_up_and_the_job_goes_on(
    tmp_path: Path, storage: FailingStorage, record: int
) -> None:
    storage.lose_answer("put_if_absent", paths=f"*/chk-{record}/_metadata")
    driver = run_here(tmp_path, restart="none")
    assert driver.status is JobStatus.FINISHED
    assert is_truth(tmp_path)


@pytest.mark.parametrize("record", RECORDS)
def test_conditional_put_that_did_not_arrive_is_tried_again(
    tmp_path: Path, storage: FailingStorage, record: int
) -> None:
    storage.refuse("put_if_absent", paths=f"*/chk-{record}/_metadata", times=3)
    tries: list[int] = []
    count = {f"put_chain_entry-{number}-after": partial(tries.append, number) for number in range(1, 20)}
    driver = run_here(tmp_path, actions=count, restart="none")
    assert driver.status is JobStatus.FINISHED
    assert len(tries) == len(RECORDS) + 3
    assert is_truth(tmp_path)


def test_checkpoint_whose_answer_stays_lost_is_found_after_the_restart(tmp_path: Path, storage: FailingStorage) -> None:
    storage.lose_answer("put_if_absent", "find", paths="*/chk-3/_metadata", times=10)
    driver = run_here(tmp_path)
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.restarts >= 1
    assert is_truth(tmp_path)


# ---------------------------------------------------------------------------------------- a directory that is of no use


def full_from(storage: FailingStorage) -> Callable[[], None]:
    return lambda: storage.refuse("put", "put_if_absent", times=None, reason="the disk is full")


@pytest.mark.parametrize("point", ["put_chain_entry-3-after", "snapshot_enumerators-3-before"])
def test_full_disk_ends_the_job_with_the_path_and_its_last_checkpoint_is_as_good_as_before(
    tmp_path: Path, storage: FailingStorage, point: str
) -> None:
    error = error_of(run_here(tmp_path, actions={point: full_from(storage)}, restart="none"))
    assert "the disk is full" in error
    assert str(tmp_path / "checkpoints") in error
    assert max(rows(published(tmp_path)).values()) == 1
    storage.heal()
    run_here(tmp_path)
    assert is_truth(tmp_path)


@pytest.mark.parametrize("calls", [("put",), ("put_if_absent",)])
def test_disk_that_was_full_for_a_while_costs_restarts_and_nothing_else(
    tmp_path: Path, storage: FailingStorage, calls: tuple[StorageCall, ...]
) -> None:
    full = {"put_chain_entry-3-after": lambda: storage.refuse(*calls, times=12, reason="the disk is full")}
    driver = run_here(tmp_path, actions=full)
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.restarts >= 1
    assert is_truth(tmp_path)


def test_deleting_old_checkpoints_may_fail_and_the_job_goes_on(tmp_path: Path, storage: FailingStorage) -> None:
    storage.refuse("delete", paths="*/*", times=None, reason="it is read-only")
    storage.refuse("files", times=None)
    driver = run_here(tmp_path, restart="none")
    assert driver.status is JobStatus.FINISHED
    assert is_truth(tmp_path)


def test_directory_that_cannot_be_written_to_is_refused_before_the_job_starts(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file is in its place, which stops root, too")
    with pytest.raises(CheckpointStorageError, match=re.escape(str(tmp_path / "checkpoints"))):
        run_here(tmp_path)


def next_place(directory: Path) -> Path:
    """Return where the fourth record of the only job goes."""
    [job] = (path for path in (directory / "checkpoints").iterdir() if is_job_directory(path.name))
    return job / "chk-4"


def test_directory_that_cannot_be_written_to_any_more_ends_the_job_with_the_path(tmp_path: Path) -> None:
    driver = run_here(
        tmp_path, actions={"put_chain_entry-3-after": lambda: next_place(tmp_path).touch()}, restart="none"
    )
    place = next_place(tmp_path)
    assert str(place) in error_of(driver)
    place.unlink()
    run_here(tmp_path)
    assert is_truth(tmp_path)


# ------------------------------------------------------------------------------------------------------------- damage


def left_behind(directory: Path) -> Path:
    """Run the job until the third of four checkpoints is there and nothing of it is published; return the newest."""
    with pytest.raises(CrashError):
        run_here(directory, actions={"put_chain_entry-4-after": crash}, retained="10")
    shutil.rmtree(directory / "state")  # as on another machine, where all state comes out of the checkpoint
    return next_place(directory)


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[min(1000, len(data) // 2)] ^= 1
    file.write_bytes(data)


def remove(file: Path) -> None:
    file.unlink()


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def offered(error: str) -> str:
    """Return the checkpoint that an error offers in place of the damaged one."""
    found = re.search(r"the one before it is (\S+/chk-\d+)", error)
    assert found, error
    return found.group(1)


def assert_offer_leads_on(directory: Path, error: str) -> None:
    driver = run_here(directory, recover=offered(error))
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert is_truth(directory)


@pytest.mark.parametrize("damage", [cut_short, empty, flip])
def test_damaged_metadata_is_named_and_the_checkpoint_before_leads_on(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    newest = left_behind(tmp_path)
    damage(newest / "_metadata")
    driver = run_here(tmp_path)
    assert isinstance(driver.result.exception(), CorruptCheckpointError)
    error = error_of(driver)
    assert str(newest / "_metadata") in error
    assert_offer_leads_on(tmp_path, error)


@pytest.mark.parametrize("damage", [flip, remove])
def test_damaged_state_file_is_named_at_once_and_the_checkpoint_before_leads_on(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    newest = left_behind(tmp_path)
    shutil.copytree(tmp_path / "out", tmp_path / "out before")
    [file, *_] = sorted(newest.parent.glob("shared/*-4-*"))
    damage(file)
    driver = run_here(tmp_path)
    assert isinstance(driver.result.exception(), CorruptCheckpointError)
    assert driver.progress.restarts == 0
    error = error_of(driver)
    assert f"{file} " in error
    # The commits of the newest checkpoint come before its state: who goes back behind them takes the files back, too.
    shutil.rmtree(tmp_path / "out")
    shutil.move(tmp_path / "out before", tmp_path / "out")
    assert_offer_leads_on(tmp_path, error)


def test_state_file_that_was_brought_back_leads_on(tmp_path: Path) -> None:
    newest = left_behind(tmp_path)
    [file, *_] = sorted(newest.parent.glob("shared/*-4-*"))
    flip(file)
    assert error_of(run_here(tmp_path))
    flip(file)
    assert run_here(tmp_path).status is JobStatus.FINISHED
    assert is_truth(tmp_path)


def test_checkpoint_that_needs_the_damaged_file_itself_is_not_offered(tmp_path: Path) -> None:
    newest = left_behind(tmp_path)
    [file, *_] = sorted(newest.parent.glob("shared/*-2-*"))  # all later checkpoints build on it
    flip(file)
    assert "the one before" not in error_of(run_here(tmp_path))

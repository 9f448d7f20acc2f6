"""What lies in temporary directories vanishes under a live job, as cleaners have it: no loss, or an error by name."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import HastyClock
from tests.kit.driving import Driven, Epochs
from tests.kit.stories import Sheet, Story

from penstock._engine.driver.driver import JobDriver
from penstock._engine.spark.directories import RunDirectory
from penstock._engine.storage.local_state import LocalStateDirectory
from penstock._engine.storage.scratch import DirectoryLock, ScratchDirectory
from penstock.common.job_status import JobStatus
from penstock.datastream import MapFunction
from penstock.errors import CorruptCheckpointError, JobExecutionError, TemporaryCheckpointsError

if TYPE_CHECKING:
    from collections.abc import Callable


NUMBERS = list(range(60))
KEYS = 5


def sums(sheet: Sheet) -> None:
    added = sheet.source("numbers", NUMBERS).map(lambda number: (number % KEYS, number))
    sheet.collect(added.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("sums"))


def truth() -> list[tuple[int, int]]:
    totals = dict.fromkeys(range(KEYS), 0)
    result: list[tuple[int, int]] = []
    for number in NUMBERS:
        totals[number % KEYS] += number
        result.append((number % KEYS, totals[number % KEYS]))
    return result


def _remove(pattern: str) -> Callable[[Path], None]:
    def act(state: Path) -> None:
        for path in sorted(state.rglob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    return act


LOSSES: dict[str, Callable[[Path], None]] = {
    "all of it": lambda state: shutil.rmtree(state, ignore_errors=True),
    "the run's": lambda state: [shutil.rmtree(path) for path in state.iterdir()] and None,
    "what the subtasks have": _remove("version-*"),
    "the data": _remove("data.mdb"),
    "the locks": _remove("lock*"),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("workers", [1, 2], ids=["one process", "two processes"])
def test_local_state_that_vanishes_under_a_live_job_is_no_loss(tmp_path: Path, loss: str, workers: int) -> None:
    story = Story(tmp_path, records=2, workers=workers)

    class Cleaner:
        def get(self, epoch: int, /) -> Any:
            return (lambda _: LOSSES[loss](tmp_path / "state-0")) if epoch % 3 == 0 else None

    chapter = story.run(sums, asks=Cleaner(), restart="none")
    assert chapter.status is JobStatus.FINISHED, chapter.error
    assert story.output() == truth()


def run_without_checkpoint_directory(place: Path, clean: Callable[[Path], None], *, fails: bool) -> tuple[Any, int]:
    """Run a job whose temporary checkpoints are cleaned before its fifth epoch; answers its error and its restarts."""
    mark = place / "failed"

    def once(number: int) -> int:
        if fails and number == 20 and not mark.exists():
            mark.touch()
            shutil.rmtree(place / "state")  # so that state has to come from the checkpoints
            raise OSError("once")
        return number

    sheet = Sheet(place, restart="fixed-delay", attempts="5", delay="1 ms")
    counted = sheet.source("numbers", NUMBERS).map(once).map(lambda number: (number % KEYS, number))
    sheet.collect(counted.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("sums"))
    driven = Driven(sheet.env, place / "state", Epochs(2, clock=None), HastyClock())

    def cleaned() -> None:
        (directory,) = place.glob("penstock-checkpoints-*")
        clean(directory)

    driven.at_epoch(5, cleaned)
    driven.run()
    driver = driven.driver
    assert not list(place.glob("penstock-checkpoints-*"))
    return driver.result.exception(0), driver.progress.restarts


def removed(directory: Path) -> None:
    while directory.exists():  # the job removes old checkpoints at the same time
        shutil.rmtree(directory, ignore_errors=True)


def remade(directory: Path) -> None:
    removed(directory)
    directory.mkdir()


@pytest.mark.parametrize(
    ("clean", "fails"),
    [(removed, True), (remade, False)],
    ids=["removed, and the job restarts", "removed and made again"],
)
def test_temporary_checkpoints_that_vanish_end_the_job_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: Callable[[Path], None], fails: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    error, restarts = run_without_checkpoint_directory(tmp_path, clean, fails=fails)
    assert isinstance(error, TemporaryCheckpointsError)
    assert "execution.checkpointing.dir" in str(error)
    assert restarts == 0


def test_files_of_temporary_checkpoints_that_vanish_end_the_job_that_needs_them_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone: list[Path] = []

    def clean(directory: Path) -> None:
        for folder, _, files in os.walk(directory):  # unlike rglob it bears that the job removes folders meanwhile
            gone.extend(Path(folder, file) for file in files if file != "lock")
        for path in gone:
            path.unlink(missing_ok=True)

    error, _ = run_without_checkpoint_directory(tmp_path, clean, fails=True)
    assert gone
    if error is not None:  # state that was small enough stood in the driver's memory, too
        assert isinstance(error, CorruptCheckpointError)
        assert "gone" in str(error)


class FailsAfter(MapFunction):
    """Fails once the checkpoint directory is new; local state is gone then, so that all comes from the checkpoints."""

    def __init__(self, place: Path, at: int) -> None:
        self.place, self.at = place, at

    def map(self, value: int) -> int:
        if value == self.at and not (self.place / "failed").exists():
            (self.place / "failed").touch()
            shutil.rmtree(self.place / "state-0")
            raise OSError("once")
        return value


@pytest.mark.parametrize("inline", ["0 b", "20 kb"], ids=["state in files", "state in the metadata"])
@pytest.mark.parametrize("then", ["ends", "is cancelled", "restarts"])
def test_checkpoint_directory_that_its_user_deletes_under_a_live_job_loses_nothing_in_silence(
    tmp_path: Path, inline: str, then: str
) -> None:
    story = Story(tmp_path, records=2)

    def write(sheet: Sheet) -> None:
        numbers = sheet.source("numbers", NUMBERS).map(FailsAfter(tmp_path, 16 if then == "restarts" else -1))
        keyed = numbers.map(lambda number: (number % KEYS, number)).key_by(lambda pair: pair[0])
        sheet.collect(keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("sums"))

    def delete(_: JobDriver) -> None:
        shutil.rmtree(tmp_path / "checkpoints")

    asks: dict[int, Any] = {5: delete, **({8: JobDriver.cancel} if then == "is cancelled" else {})}
    chapter = story.run(write, asks=asks, inline=inline, restart="fixed-delay", retention="RETAIN_ON_CANCELLATION")
    if then == "is cancelled":
        assert chapter.status is JobStatus.CANCELED
        chapter = story.run(write, inline=inline, recover="latest")
    if inline == "0 b" and then != "ends":  # deltas before the deletion are gone: told by name, and no record repeated
        assert isinstance(_corrupt(chapter.error), CorruptCheckpointError)
        assert "is gone" in str(_corrupt(chapter.error))
        assert story.output() == truth()[: len(story.output())]
    else:
        assert chapter.status is JobStatus.FINISHED, chapter.error
        assert story.output() == truth()


def _corrupt(error: BaseException | None) -> BaseException | None:
    return error.__cause__ if isinstance(error, JobExecutionError) else error


# ------------------------------------------------------------------------------------------------- cleaners that lock


def is_passed_over(directory: Path) -> bool:
    """Whether systemd-tmpfiles passes over a directory: it cleans none of which it cannot have the lock alone."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def test_cleaners_that_honour_locks_pass_over_temporary_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch = ScratchDirectory("penstock-checkpoints-")
    assert is_passed_over(scratch.path)
    scratch._lock.close()
    assert not is_passed_over(scratch.path)


def test_cleaners_that_honour_locks_pass_over_local_state(tmp_path: Path) -> None:
    directory = LocalStateDirectory("run", tmp_path / "state")
    directory.hold()
    assert is_passed_over(directory.path)
    directory.remove()
    assert not directory.path.exists()


def test_cleaners_that_honour_locks_pass_over_sparks_files(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert is_passed_over(directory.path)
    directory.remove()


def test_directory_that_was_made_again_is_not_the_one_that_was_held(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with closing(DirectoryLock(tmp_path / "one")) as held:
        assert held.is_there(tmp_path / "one")
        remade(tmp_path / "one")
        assert not held.is_there(tmp_path / "one")

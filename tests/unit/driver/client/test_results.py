"""What a job prints and collects reaches the program once, or the program hears that it does not."""

from __future__ import annotations

import contextlib
import io
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells
from tests.kit.clock import CLOCK
from tests.kit.driving import Driven
from tests.kit.program import Program

from penstock._builders.results import CloseableIterator
from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.client.job_client import JobHandle
from penstock.common.job_status import JobStatus
from penstock.errors import JobExecutionError, UnreadableOutputError
from penstock.testing.failing_storage import FailingStorage
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.driver.loop import JobLoop

#: Too much for an ack, so that their output is a file.
LONG = [f"{number} " + "x" * 500 for number in range(300)]


def job(place: Path, records: list[Any], *, as_text: bool = False, **settings: str) -> tuple[JobDriver, JobLoop]:
    """Return the driver of a job that prints or collects records, half of them in each of two epochs."""
    given = {"interval": "1 s", "restart": "fixed-delay", "attempts": "3", "delay": "5 min", **settings}
    program = Program(place, checkpoints=str(place / "checkpoints"), **given)
    half = len(records) // 2
    program.collect(program.source(records[:half], records[half:], events=place), as_text=as_text)
    driven = Driven(program.env, place / "state", InProcessEpochRunner(clock=CLOCK.now_ms))
    return driven.driver, driven.loop


def uid_of(driver: JobDriver) -> str:
    return next(iter(driver.results._collectors))


def failing_reads(driver: JobDriver) -> FailingStorage:
    """Return what stands before the storage that outputs are read from."""
    storage = FailingStorage(driver.results._storage)
    driver.results._storage = storage
    return storage


def collected(driver: JobDriver) -> list[Any]:
    return list(JobHandle(driver).results(uid_of(driver)))


def output_files(place: Path) -> list[Path]:
    return list((place / "checkpoints").rglob("*.out"))


@pytest.mark.parametrize("failures", [1, 3])
def test_output_that_cannot_be_read_for_a_while_is_collected_once_after_the_restart(
    tmp_path: Path, failures: int
) -> None:
    driver, loop = job(tmp_path, LONG)
    failing_reads(driver).refuse("find", paths="*.out", times=failures)
    driver.run(loop)
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.restarts == failures
    assert collected(driver) == LONG
    assert output_files(tmp_path) == []


def test_output_that_is_never_read_ends_the_iterator_with_an_error_that_names_it(tmp_path: Path) -> None:
    driver, loop = job(tmp_path, LONG)
    failing_reads(driver).refuse("find", paths="*.out", times=None)
    driver.run(loop)
    with pytest.raises(JobExecutionError, match=rf"operator 'out' \(uid '{uid_of(driver)}'\).*out of order") as raised:
        collected(driver)
    assert isinstance(raised.value.__cause__, UnreadableOutputError)
    assert driver.status is JobStatus.FAILED


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"\x91\xc4")])
def test_output_that_is_gone_or_damaged_ends_the_job_at_once(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    driver, loop = job(tmp_path, LONG)
    perform = loop.perform

    def watched(instruction: do.Instruction) -> None:
        if isinstance(instruction, do.DeliverOutputs):
            for file in output_files(tmp_path):
                damage(file)
        perform(instruction)

    loop.perform = watched
    driver.run(loop)
    assert driver.progress.restarts == 0
    with pytest.raises(JobExecutionError, match=r"it (is gone|was replaced)"):
        collected(driver)


class Choking(io.StringIO):
    """Standard output that fails at its second write."""

    def __init__(self) -> None:
        super().__init__()
        self._writes = 0

    def write(self, text: str, /) -> int:
        self._writes += 1
        if self._writes == 2:
            raise OSError("the terminal is gone")
        return super().write(text)


def test_lines_that_could_not_be_printed_are_printed_after_the_restart(tmp_path: Path) -> None:
    driver, loop = job(tmp_path, LONG, as_text=True)
    shown = Choking()
    with contextlib.redirect_stdout(shown):
        driver.run(loop)
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.restarts == 1
    assert shown.getvalue().splitlines() == LONG


@cells("encoding, shown", [("utf-8", "\u20ac\\ud83d\u00e9"), ("latin-1", "?\\ud83d\u00e9"), ("ascii", "?\\ud83d?")])
def test_a_printed_record_that_standard_output_cannot_encode_loses_no_line(
    encoding: str, shown: str, tmp_path: Path
) -> None:
    records = ["before", "\u20ac\ud83d\u00e9", "behind", "last"]
    driver, loop = job(tmp_path, records, as_text=True)
    written = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(written, encoding)):
        driver.run(loop)
        assert (driver.status, driver.progress.restarts) == (JobStatus.FINISHED, 0)
        assert written.getvalue().decode(encoding).splitlines() == ["before", shown, "behind", "last"]


def test_a_collected_record_keeps_its_lone_surrogates(tmp_path: Path) -> None:
    driver, loop = job(tmp_path, ["a", "\ud83d"])
    driver.run(loop)
    assert collected(driver) == ["a", "\ud83d"]


class AtHome:
    """A record that comes back in the process that made it only."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not threading.current_thread().name.startswith("penstock"):
            raise state["error"]("mine")
        self.__dict__.update(state)


@cells("error", (ValueError, StopIteration, SystemExit))
def test_a_collected_record_that_the_program_cannot_unpickle_is_an_error_that_names_the_operator(
    error: type[BaseException], tmp_path: Path
) -> None:
    program = Program(tmp_path, checkpoints=str(tmp_path / "checkpoints"), interval="1 s")
    program.collect(program.source([1], [2]).map(lambda _: AtHome(error)))
    driven = Driven(program.env, tmp_path / "state", InProcessEpochRunner(clock=CLOCK.now_ms))
    driven.driver.start(driven.loop)
    records = CloseableIterator(
        JobHandle(driven.driver).results(uid_of(driven.driver)), JobHandle(driven.driver).client
    )
    named = f"'out' .uid '{uid_of(driven.driver)}'"
    with records, pytest.raises(UnreadableOutputError, match=f"{named}.* unpickled here: {error.__name__}: mine"):
        next(records)
    assert list(records) == []
    driven.driver.result.exception(timeout=10)


def test_same_output_of_two_epochs_is_collected_twice(tmp_path: Path) -> None:
    driver, loop = job(tmp_path, [1, 1])
    driver.run(loop)
    assert collected(driver) == [1, 1]


def test_fault_of_ours_at_the_end_of_a_job_reaches_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, loop = job(tmp_path, ["a", "b"])

    def refuse(*_: object) -> None:
        raise ValueError("a view that cannot be made")

    monkeypatch.setattr(driver.watch, "ended", refuse)
    driver.run(loop)
    with pytest.raises(JobExecutionError, match="a view that cannot be made"):
        driver.result.result(timeout=0)


@cells("error", (ValueError, SystemExit, KeyboardInterrupt))
def test_whatever_ends_the_thread_of_a_job_reaches_the_program(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, loop = job(tmp_path, ["a", "b"])

    def fall() -> None:
        raise error("over")

    monkeypatch.setattr(loop, "run", fall)
    driver.start(loop)
    with pytest.raises(JobExecutionError, match=f"{error.__name__}: over"):
        driver.result.result(timeout=10)

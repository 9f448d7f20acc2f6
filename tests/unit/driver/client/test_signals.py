"""What SIGINT, SIGTERM and SIGHUP do to a job, by the number of times that they come."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.driver.client import signals
from penstock._engine.driver.client.job_client import JobHandle
from penstock._engine.driver.client.results import Results
from penstock._engine.driver.client.resumption import Resumption
from penstock._engine.driver.client.signals import Interruption, ending_on_signals, ending_the_start
from penstock._engine.processes import supervision_note
from penstock._engine.processes.supervision_note import SupervisionNote
from penstock._engine.protocol.control import StopMode
from penstock._engine.storage.opening import open_storage
from penstock.common.interrupts import holding_interrupts
from penstock.errors import JobCancelledError, SavepointError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Driver:
    """Takes note of what is asked of a job."""

    job_name = "prices"
    view = SimpleNamespace(ended=None)

    def __init__(self, directory: str | None, checkpoint: str | None = None) -> None:
        self.savepoint_directory, self.checkpoint = directory, checkpoint
        self.stops: list[Future[str]] = []
        #: A stop that another client has requested.
        self.stopping: tuple[str, Future[str]] | None = None
        self.cancelled = 0
        self.now_s = 0.0
        self.interruption = Interruption(self.job_name, self, lambda: self.now_s)  # type: ignore[arg-type]

    def savepoint(self, directory: str | None, stop: StopMode) -> Future[str]:
        assert (directory, stop) == (None, StopMode.SUSPEND)
        self.stops.append(Future())
        return self.stops[-1]

    def cancel(self) -> None:
        self.cancelled += 1


def get(number: int) -> None:
    os.kill(os.getpid(), number)


def wait(driver: Any, *happenings: Callable[[], None]) -> None:
    """Wait for a job, while this and that happens."""
    with ending_on_signals(driver.interruption):
        for happening in happenings:
            happening()


def interrupt() -> None:
    get(signal.SIGINT)


def end_cancelled() -> None:
    raise JobCancelledError("0" * 32, "prices")


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signal_during_a_stop_says_where_it_goes_and_begins_no_other(capfd: pytest.CaptureFixture[str]) -> None:
    driver = Driver("/savepoints")
    driver.stopping = "/savepoints/savepoint-7", (stop := Future[str]())
    with pytest.raises(SystemExit) as exit_:
        wait(driver, interrupt, lambda: stop.set_result("/savepoints/savepoint-7"))
    assert exit_.value.code == 128 + signal.SIGINT
    assert (driver.stops, driver.cancelled) == ([], 0)
    first, last = capfd.readouterr().err.splitlines()
    assert "is stopping already, into /savepoints/savepoint-7; once more cancels it" in first
    assert last.endswith("/savepoints/savepoint-7")


@pytest.mark.parametrize("number", ENDING)
def test_first_signal_stops_with_a_savepoint_and_the_last_line_names_it(
    capfd: pytest.CaptureFixture[str], number: int
) -> None:
    driver = Driver("/savepoints")
    with pytest.raises(SystemExit) as exit_:
        wait(driver, lambda: get(number), lambda: driver.stops[0].set_result("/savepoints/savepoint-1"))
    assert exit_.value.code == 128 + number
    assert driver.cancelled == 0
    assert capfd.readouterr().err.splitlines()[-1].endswith("/savepoints/savepoint-1")


def in_another_thread(driver: Driver, result: Future[None]) -> None:
    """Take a signal as the kernel may hand it over, and end the job as soon as its main thread has heard it."""
    while sys._current_frames()[threading.main_thread().ident or 0].f_code.co_name != "wait":
        time.sleep(0.001)
    time.sleep(0.05)  # from its frame on to its lock
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    deadline = time.monotonic() + 10
    while not driver.cancelled and time.monotonic() < deadline:
        time.sleep(0.01)
    result.set_exception(JobCancelledError("0" * 32, "prices") if driver.cancelled else TimeoutError("not heard"))


@pytest.mark.parametrize("waits_for", ["the job's end", "its records"])
def test_signal_that_another_thread_gets_is_handled_while_the_main_thread_waits(waits_for: str) -> None:
    driver: Any = Driver(None)
    driver.result, driver.results = Future(), Results({"records": ("Collect", False)}, open_storage("memory://signals"))
    driver.result.add_done_callback(lambda result: driver.results.end(result.exception()))
    handle = JobHandle(driver)
    other = threading.Thread(target=in_another_thread, args=(driver, driver.result))
    ends = {
        "the job's end": handle.client.get_job_execution_result().result,
        "its records": handle.results("records").__next__,
    }
    with pytest.raises(SystemExit) as exit_:
        wait(driver, other.start, ends[waits_for])
    other.join()
    assert exit_.value.code == 128 + signal.SIGTERM


def test_interruption_where_a_person_types_ends_the_job_and_not_the_process(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    before = {number: signal.getsignal(number) for number in ENDING}
    driver = Driver(None, checkpoint="/checkpoints/chk-7")
    with pytest.raises(KeyboardInterrupt):
        wait(driver, interrupt, end_cancelled)
    first, last = capfd.readouterr().err.splitlines()
    assert first.endswith("once more stops waiting for its end.")
    assert last.endswith("/checkpoints/chk-7")
    assert {number: signal.getsignal(number) for number in ENDING} == before
    with pytest.raises(JobCancelledError):  # its result, for the next cell that asks
        wait(driver, end_cancelled)
    stopping = Driver("/savepoints")
    with pytest.raises(KeyboardInterrupt):
        wait(stopping, interrupt, lambda: stopping.stops[0].set_result("/savepoints/savepoint-1"))
    wait(stopping)
    assert (driver.cancelled, stopping.cancelled) == (1, 0)
    with pytest.raises(SystemExit):  # not typed by anybody
        wait(Driver(None), lambda: get(signal.SIGTERM), end_cancelled)


def test_second_interruption_where_a_person_types_stops_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    driver = Driver(None)

    def later() -> None:
        driver.now_s += 60

    with pytest.raises(KeyboardInterrupt):
        wait(driver, interrupt, later, interrupt, lambda: pytest.fail("it still waits"))
    assert driver.cancelled == 1


def test_first_signal_cancels_where_no_savepoint_has_a_place_to_go(capfd: pytest.CaptureFixture[str]) -> None:
    driver = Driver(None, checkpoint="/checkpoints/chk-7")
    with pytest.raises(SystemExit):
        wait(driver, interrupt, end_cancelled)
    assert (driver.stops, driver.cancelled) == ([], 1)
    assert capfd.readouterr().err.splitlines()[-1].endswith("/checkpoints/chk-7")


def test_second_signal_cancels_a_job_that_is_stopping_also_between_two_waits() -> None:
    driver = Driver("/savepoints")
    wait(driver, interrupt)
    driver.now_s += 1
    with pytest.raises(SystemExit):
        wait(driver, interrupt, end_cancelled)
    assert (len(driver.stops), driver.cancelled) == (1, 1)


@pytest.mark.parametrize("first", ENDING)
@pytest.mark.parametrize("second", ENDING)
def test_two_signals_within_a_second_are_one(first: int, second: int) -> None:
    driver = Driver("/savepoints")
    wait(driver, lambda: get(first))
    driver.now_s += 0.9
    with pytest.raises(SystemExit) as exit_:
        wait(driver, lambda: get(second), lambda: driver.stops[0].set_result("/savepoints/savepoint-1"))
    assert exit_.value.code == 128 + first
    assert (len(driver.stops), driver.cancelled) == (1, 0)


def test_second_signal_in_the_middle_of_the_handler_of_the_first_is_the_same_one() -> None:
    class Interrupted(Driver):
        def savepoint(self, directory: str | None, stop: StopMode) -> Future[str]:
            get(signal.SIGTERM)
            return super().savepoint(directory, stop)

    driver = Interrupted("/savepoints")
    wait(driver, lambda: get(signal.SIGTERM))
    assert (len(driver.stops), driver.cancelled) == (1, 0)


def test_signal_that_comes_within_the_second_and_after_the_end_of_the_job_does_not_disturb_the_exit() -> None:
    driver = Driver("/savepoints")
    with pytest.raises(SystemExit):
        wait(driver, interrupt, lambda: driver.stops[0].set_result("/savepoints/savepoint-1"))
    interrupt()  # else this would be a KeyboardInterrupt
    assert (len(driver.stops), driver.cancelled) == (1, 0)


def test_signal_that_the_process_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    driver = Driver("/savepoints")
    wait(driver, lambda: get(signal.SIGHUP))
    assert driver.stops == []
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_what_a_job_prints_after_its_terminal_was_closed_goes_nowhere(tmp_path: Path) -> None:
    terminal, its_end = os.openpty()
    program = (
        "import sys, time\n"
        "from penstock._engine.driver.client.signals import leave_closed_terminal\n"
        "sys.stdin.readline()\n"
        "leave_closed_terminal()\n"
        "print('nobody reads this', flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4] / "src")}
    with (
        (tmp_path / "errors").open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=its_end, stderr=errors, env=environment
        ) as process,
    ):
        os.close(its_end)
        os.close(terminal)
        process.communicate(b"closed\n")
    assert (process.returncode, (tmp_path / "errors").read_text()) == (0, "")


def test_last_words_into_a_terminal_that_was_closed_do_not_stand_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

    driver = Driver("/savepoints")
    monkeypatch.setattr(sys, "stderr", Closed())
    with pytest.raises(SystemExit):
        wait(driver, lambda: get(signal.SIGHUP), lambda: driver.stops[0].set_result("/savepoints/savepoint-1"))
    assert len(driver.stops) == 1


def test_job_that_cannot_stop_goes_on_and_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    driver = Driver("/savepoints")
    error = SavepointError("/savepoints/savepoint-1", "the disk is full")
    wait(driver, interrupt, lambda: driver.stops[0].set_exception(error))
    assert driver.cancelled == 0
    assert "the disk is full" in capfd.readouterr().err


def test_supervisor_is_told_of_a_stop_that_failed_and_the_line_says_who_guards_the_job(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    note = SupervisionNote(tmp_path / "jobs.json")
    note.create()  # by this process, which is its supervisor then
    noted = Resumption(note)
    monkeypatch.setattr(signals, "resumption", lambda: noted)
    monkeypatch.setattr(supervision_note.os, "kill", lambda *sent: told.append(sent))
    lines: list[str] = []
    for parent in (os.getpid(), 1):
        monkeypatch.setattr(supervision_note.os, "getppid", lambda parent=parent: parent)
        driver = Driver("/savepoints")
        driver.interruption.on_signal(signal.SIGTERM, None)
        driver.stops[0].set_exception(SavepointError("/savepoints", "No space left on device."))
        lines.append(capfd.readouterr().err.splitlines()[-1])
    note.path.unlink()
    driver = Driver("/savepoints")
    driver.interruption.on_signal(signal.SIGTERM, None)
    driver.stops[0].set_exception(SavepointError("/savepoints", "No space left on device."))
    lines.append(capfd.readouterr().err.splitlines()[-1])
    assert told == [(os.getpid(), supervision_note.STOP_FAILED)]
    guarded, killed, lost = lines
    assert "device. The program runs on, and it is guarded still: its supervisor starts it again" in guarded
    assert "its supervisor has ended, so nobody starts it again" in killed
    assert "its supervisor could not be told" in lost


def test_stop_that_failed_with_the_job_leaves_nothing_to_guard(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Driver, "view", SimpleNamespace(ended=1))
    driver = Driver("/savepoints")
    driver.interruption.on_signal(signal.SIGTERM, None)
    driver.stops[0].set_exception(SavepointError("/savepoints", "the job is FAILED"))
    assert "has ended. There is no savepoint" in capfd.readouterr().err.splitlines()[-1]


def test_handlers_of_the_program_are_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []
    wait(Driver(None), lambda: seen.append(signal.getsignal(signal.SIGINT)))
    assert seen != [before]
    assert signal.getsignal(signal.SIGINT) is before


# -------------------------------------------------------------------------------------------------------- at the start


def test_ctrl_c_while_spark_starts_ends_the_program_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, ending_the_start("prices"):
        signal.raise_signal(signal.SIGINT)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Job 'prices' was interrupted while Spark started; nothing of it has run.\n"


def test_a_program_with_a_handler_of_its_own_gets_ctrl_c_while_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, mine)
    try:
        with pytest.raises(KeyboardInterrupt), ending_the_start("prices"):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_held_back_until_the_block_ends_and_then_acts_by_the_former_handler() -> None:
    before = signal.getsignal(signal.SIGINT)
    steps: list[str] = []

    def start() -> None:
        with holding_interrupts():
            signal.raise_signal(signal.SIGINT)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a library may do
            steps.append("started")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert steps == ["started"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_is_not_held_back() -> None:
    steps: list[str] = []

    def start() -> None:
        with holding_interrupts():
            signal.raise_signal(signal.SIGINT)
            steps.append("first")
            signal.raise_signal(signal.SIGINT)
            steps.append("second")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert steps == ["first"]

"""Commands about a job of a supervised program that has no process at this moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.unit.cli.fake_driver import FakeDriver, completed, serving

from penstock._engine.cli import rest_client
from penstock._engine.processes import supervision_note
from penstock._engine.processes.exit_codes import ExitCode
from penstock._engine.processes.registry import JobRegistry, default_directory
from penstock._engine.processes.supervision_note import NotedJob, Supervision
from penstock._engine.processes.supervisor import RestartLimit, Supervisor

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.unit.cli.conftest import Command

JOB = "ab" * 16
#: No process has this number.
DEAD = 2**22 + 1
SOURCES = Path(__file__).parents[3] / "src"


@contextmanager
def supervised(*, has_ended: bool = False, pid: int = DEAD) -> Generator[Supervision]:
    """Let this process supervise a job whose process is dead."""
    with Supervision() as found:
        found.note.write({1: NotedJob("prices", JOB, pid, True, has_ended)})
        yield found


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "_LONGEST_PAUSE_S", 0.01)


def test_list_shows_the_job_as_restarting(penstock: Command) -> None:
    with supervised():
        (row,) = json.loads(penstock("list", "--json").out)
        assert (row["jid"], row["name"], row["state"], row["supervisor"]) == (JOB, "prices", "RESTARTING", os.getpid())
        assert "RESTARTING" in penstock("list").out
    assert json.loads(penstock("list", "--json").out) == []


def test_job_that_has_a_process_or_has_ended_is_not_restarting(penstock: Command) -> None:
    with supervised(pid=os.getpid()):
        assert json.loads(penstock("list", "--json").out) == []
    with supervised(has_ended=True):
        assert json.loads(penstock("list", "--json").out) == []
    driver = FakeDriver(job_id=JOB)
    with supervised(), serving(driver):
        assert [row["state"] for row in json.loads(penstock("list", "--json").out)] == ["RUNNING"]


def test_job_of_a_supervisor_that_was_killed_is_not_restarting(penstock: Command) -> None:
    with supervised() as found:
        found._lock.close()
        assert json.loads(penstock("list", "--json").out) == []


def test_info_says_who_starts_the_next_process(penstock: Command) -> None:
    with supervised():
        done = penstock("info", "prices")
    assert done.code == ExitCode.UNREACHABLE
    assert f"process {os.getpid()} supervises it" in done.err


@pytest.mark.parametrize(
    ("words", "answer", "printed"),
    [
        (("stop",), {"location": "/sp/1"}, "/sp/1"),
        (("stop", "--drain"), {"location": "/sp/1"}, "/sp/1"),
        (("savepoint", "take"), {"location": "/sp/1"}, "/sp/1"),
        (("cancel", "--with-savepoint"), {"location": "/sp/1"}, "/sp/1"),
        (("checkpoint",), {"checkpointId": 7}, "7"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_command_waits_for_the_next_process_and_asks_it(
    penstock: Command, words: tuple[str, ...], answer: dict[str, object], printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeDriver(job_id=JOB, answers=[completed(answer)])
    if words[0] == "cancel":
        driver.state_after_cancel = driver.state = "RUNNING"
    with supervised(), _begun_when_asked(driver, monkeypatch):
        done = penstock(*words, JOB[:8], "--timeout", "60 s")
    assert done.code == ExitCode.OK, done.err
    assert done.out.split() == [printed]
    assert f"has no process at this moment; waiting until process {os.getpid()}" in done.err
    assert [method for method, _, _ in driver.asked] == ["POST"]


@contextmanager
def _begun_when_asked(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Start the next process, which is this one, once a command waits for it."""
    begin, over = threading.Event(), threading.Event()

    def serve() -> None:
        begin.wait(60)
        with serving(driver):
            over.wait(60)

    thread = threading.Thread(target=serve)
    thread.start()
    until = rest_client.Poller.until

    def watched(self: rest_client.Poller, done: object) -> None:
        begin.set()
        if driver.asked and driver.asked[-1][2] == {"cancel-job": True}:
            driver.state = "CANCELED"
        until(self, done)  # type: ignore[arg-type]

    monkeypatch.setattr(rest_client.Poller, "until", watched)
    try:
        yield
    finally:
        begin.set()
        over.set()
        thread.join()


def test_stop_that_waits_too_long_for_a_process_asked_for_nothing(penstock: Command) -> None:
    with supervised():
        done = penstock("stop", "prices", "--timeout", "0 s")
    assert done.code == ExitCode.TIMEOUT
    assert "The job was asked for nothing" in done.err


def test_stop_ends_when_the_supervisor_gives_up(penstock: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with supervised() as found:

        def gives_up(supervisor: int) -> bool:
            assert supervisor == os.getpid()
            found.note.path.unlink()
            return supervision_note.is_supervising(supervisor)

        monkeypatch.setattr("penstock._engine.cli.jobs.is_supervising", gives_up)
        done = penstock("stop", "prices")
    assert done.code == ExitCode.UNREACHABLE
    assert "there is no other process" in done.err


#: Notes a job of this process, and crashes.
CRASHES = """
import os
from pathlib import Path
from penstock._engine.processes.supervision_note import NotedJob, SupervisionNote
note = SupervisionNote(Path(os.environ["PENSTOCK_RESUME_FILE"]))
note.write({1: NotedJob("prices", "ab" * 16, os.getpid())})
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("way", ["cancel", "signal"])
def test_supervisor_that_waits_with_a_restart_ends_at_once(penstock: Command, way: str) -> None:
    Path("job.py").write_text(CRASHES)
    command = [sys.executable, "-m", "penstock", "run", "--supervise", "--restart-delay", "10 min", "job.py"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "starts again" in process.stderr.readline()
        threading.Thread(target=process.wait, daemon=True).start()  # a process that nobody waits for is still there
        if way == "signal":
            process.send_signal(signal.SIGTERM)
        else:
            done = penstock("cancel", "prices", "--timeout", "60 s")
            assert done.code == ExitCode.OK
            assert f"Its supervisor, process {process.pid}, has ended and does not start it again" in done.err
        assert "Ended by SIGTERM between two processes" in process.stderr.read()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert json.loads(penstock("list", "--json").out) == []


def test_registry_is_not_asked_where_an_address_is_given(penstock: Command) -> None:
    driver = FakeDriver(job_id="cd" * 16)
    with supervised(), serving(driver, registered=False):
        rows = json.loads(penstock("list", "--json", "--address", driver.address).out)
    assert [row["jid"] for row in rows] == ["cd" * 16]
    assert JobRegistry(default_directory()).entries() == []


def test_supervisor_has_no_note_left_behind(home: Path) -> None:
    assert Supervisor(["true"], RestartLimit(1, 60), 0).run() == 0
    assert list((home / ".local/state/penstock/supervised").iterdir()) == []

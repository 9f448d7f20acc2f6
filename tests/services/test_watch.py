"""Servers of tests do not outlive the processes that use them, however these end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30
#: Starts a server that sleeps, alone or for all processes of a run, tells its number and its directory, and waits.
USER = """
import subprocess, sys, time
from tests.services.shared import shared
from tests.services.watch import Watch

def start(place):
    place.mkdir()
    process = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, start_new_session=True)
    return {"pid": process.pid, "place": str(place), "process": process}

def alone():
    from pathlib import Path
    found = start(Path(sys.argv[2]))
    watch = Watch(found["pid"], Path(found["place"]))
    print(found["pid"], found["place"], flush=True)
    time.sleep(1000)

def together():
    def started(place):
        found = start(place)
        found.pop("process").returncode = 0
        return found
    with shared("sleep", started) as found:
        print(found["pid"], found["place"], flush=True)
        sys.stdin.read()

{"alone": alone, "together": together}[sys.argv[1]]()
"""


class User:
    """A process that uses a server."""

    def __init__(self, *words: str, run: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_XDIST_TESTRUNUID": run},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        number, place = self.process.stdout.readline().split()
        self.server, self.place = int(number), Path(place)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def leave(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0

    def has_server(self) -> bool:
        try:
            state = Path(f"/proc/{self.server}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return state.rpartition(")")[2].split()[0] != "Z"

    def has_nothing(self) -> bool:
        deadline = time.monotonic() + PATIENCE_S
        while self.has_server() or self.place.exists():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux to look at foreign processes")


def test_a_server_ends_with_the_process_that_is_killed(tmp_path: Path) -> None:
    user = User("alone", str(tmp_path / "server"), run="x")
    assert user.has_server()
    user.kill()
    assert user.has_nothing()


def test_a_shared_server_lives_until_its_last_user_has_left_or_was_killed(tmp_path: Path) -> None:
    for last_one_leaves in (True, False):
        run = f"{tmp_path.name}-{os.getpid()}-{last_one_leaves}"
        first, second = User("together", run=run), User("together", run=run)
        assert first.server == second.server
        first.kill()
        assert second.has_server()
        if last_one_leaves:  # the other one was killed and is still counted, so the watch ends it
            second.leave()
        else:
            second.kill()
        assert second.has_nothing()

"""The keeper of the JVM, with a shell in the JVM's place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.fault.processes import Watched, descendants

from penstock._engine.spark import keeper

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux to look at foreign processes")

#: Starts a keeper as a driver does, and then waits, or forks a process that holds the pipe.
DRIVER = """
import os, subprocess, sys, time
command = [sys.executable, "-I", "-S", sys.argv[1], str(os.getpid()), "/bin/sh", "-c", sys.argv[2]]
kept = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
if "fork" in sys.argv and os.fork() == 0:
    os.setsid()
else:
    print(kept.pid, flush=True)
time.sleep(60)
"""
#: Processes that nothing but SIGKILL ends, one of them in a process group of its own.
STUBBORN = "set -m; (trap '' HUP INT TERM; sleep 60; sleep 60) & trap '' HUP INT TERM; sleep 60; sleep 60"


@pytest.fixture
def drivers() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        assert process.stdout is not None
        process.stdout.close()
        process.kill()
        process.wait()


def start(drivers: list[subprocess.Popen[str]], *words: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a driver, and return it with the processes of its keeper, once all are there."""
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, keeper.__file__, STUBBORN, *words], stdout=subprocess.PIPE, text=True
    )
    drivers.append(process)
    assert process.stdout is not None
    kept = int(process.stdout.readline())
    deadline = time.monotonic() + 30
    while len(found := [kept, *descendants(kept)]) < 5:  # the keeper, the shell, its child and two that sleep
        assert time.monotonic() < deadline, f"of the keeper's processes there are {found}"
        time.sleep(0.01)
    return process, found


def test_all_processes_are_gone_at_once_when_the_driver_is_killed(drivers: list[subprocess.Popen[str]]) -> None:
    driver, kept = start(drivers)
    watched = Watched(kept)
    driver.kill()
    assert watched.still_alive_after(5) == []


def test_process_that_the_driver_has_forked_keeps_nothing_alive(drivers: list[subprocess.Popen[str]]) -> None:
    driver, kept = start(drivers, "fork")
    forked = [pid for pid in descendants(driver.pid) if pid not in kept]
    watched = Watched(kept)
    driver.kill()
    try:
        assert watched.still_alive_after(5) == []
    finally:
        for pid in forked:
            os.kill(pid, signal.SIGKILL)


def test_signals_that_end_a_machine_or_a_control_group_are_left_to_the_driver(
    drivers: list[subprocess.Popen[str]],
) -> None:
    driver, kept = start(drivers)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        for pid in kept[:2]:
            os.kill(pid, number)
    assert Watched(kept[:2]).still_alive_after(0.2) == kept[:2]
    driver.kill()


def test_exit_code_of_the_command_is_the_keepers() -> None:
    command = [sys.executable, "-I", "-S", keeper.__file__, str(os.getpid()), "/bin/sh", "-c", "exit 7"]
    assert subprocess.run(command, stdin=subprocess.PIPE, start_new_session=True, check=False).returncode == 7

"""Starts drivers that are to die or to suffer, and says at which points of their work."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest
from tests.fault.job import assembled, counting_graph, is_truth, published, rows
from tests.fault.points import Points
from tests.kit.clock import HastyClock
from tests.kit.driving import CrashError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.graph.job_graph import JobGraph
    from penstock.testing.in_process import InProcessEpochRunner

ROOT = Path(__file__).parents[2]
#: For the campaign, whose tests take all points that there are: which part of them, such as "1/4".
SHARD = os.environ.get("PENSTOCK_FAULT_POINTS")
#: Longest wait for a driver to end; a busy machine is slow.
PATIENCE_S = 120


@dataclass(frozen=True)
class Run:
    """How a driver's process ended."""

    code: int
    log: str

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL

    @property
    def has_finished(self) -> bool:
        return self.code == 0

    @property
    def was_fenced(self) -> bool:
        return self.code == 3 and re.search(r"^FencedError: ", self.log, re.MULTILINE) is not None


class Driver:
    """A driver in a process of its own, see ``killed_driver``; what is left of it behind a ``with`` is killed."""

    def __init__(self, directory: Path, *options: str, program: str = "tests.fault.killed_driver") -> None:
        self._log = directory / "log"
        with self._log.open("ab") as log:
            self._start = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", program, str(directory), *options],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def wait_until_stopped(self) -> bool:
        """Wait until it has stopped itself; False when it ended without."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.process.pid, os.WUNTRACED | os.WNOHANG)
            if pid and os.WIFSTOPPED(status):
                return True
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                return False
            time.sleep(0.02)
        raise TimeoutError(self.process.args)

    def go_on(self) -> Run:
        """Continue it, and wait for its end."""
        self.process.send_signal(signal.SIGCONT)
        return self.end()

    def end(self) -> Run:
        """Wait for its end."""
        code = self.process.wait(PATIENCE_S)
        return Run(code, self._log.read_bytes()[self._start :].decode())


def run(directory: Path, *options: str) -> Run:
    """Run a driver to its end."""
    with Driver(directory, *options) as driver:
        return driver.end()


def killed_at(directory: Path, point: str, *options: str) -> None:
    """Run a driver that dies at a point, and look at what it leaves to readers: nothing twice."""
    ended = run(directory, "--kill", point, *options)
    if ended.has_finished:
        not_reached(point)
    assert ended.was_killed, ended.log
    assert max(rows(published(directory)).values(), default=1) == 1


def not_reached(point: str) -> None:
    """Pass over a point that depends on the chances of threads; one that was chosen does not."""
    if SHARD is not None:
        pytest.skip(f"this time the driver did not come to {point}")


def finish(directory: Path, *options: str) -> None:
    """Run the job from where it stands to its end, and compare its files with the truth."""
    ended = run(directory, *options)
    assert ended.has_finished, ended.log
    assert is_truth(directory)


@functools.cache
def all_points(*kills: str, options: tuple[str, ...] = (), first: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the points of an undisturbed run with some options, or of the one that goes on after what came first.

    Args:
        kills: Points at which drivers were killed before.
        options: The driver's options.
        first: Options of a driver that came to its end before.
    """
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        if first:
            assert run(directory, *first).has_finished
            (directory / "points").unlink()
        for point in kills:
            killed_at(directory, point)
            (directory / "points").unlink()
        ended = run(directory, *options)
        assert ended.has_finished, ended.log
        return tuple((directory / "points").read_text().split())


def points(
    *chosen: str, kills: tuple[str, ...] = (), options: tuple[str, ...] = (), first: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the points that a test takes: the chosen ones, or a part of all of them in a campaign."""
    if SHARD is None:
        return chosen
    part, parts = map(int, SHARD.split("/"))
    return all_points(*kills, options=options, first=first)[part - 1 :: parts]


def last(step: str) -> str:
    """Return the point behind a step of which an undisturbed run takes no further one."""
    return [point for point in all_points() if point.startswith(f"{step}-")][-1]


# ------------------------------------------------------------------------------------------ drivers in this process


def crash() -> None:
    raise CrashError


def run_here(
    directory: Path,
    /,
    *,
    graph: JobGraph | None = None,
    runner: InProcessEpochRunner | None = None,
    actions: dict[str, Callable[[], None]] | None = None,
    **others: str,
) -> JobDriver:
    """Run a job to its end in this process, with something that happens at points of it.

    Args:
        directory: Where everything lies.
        graph: The job; the counting job by default.
        runner: Runs its epochs.
        actions: What happens before or after which instruction.
        others: Settings by their short names.
    """
    driver, loop = assembled(graph or counting_graph(directory), directory, runner, HastyClock(), **others)
    Points(actions or {}).watch(loop)
    driver.run(loop)
    return driver

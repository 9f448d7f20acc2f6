"""A batch job with recovery on real Spark is killed again and again: the truth, and little is done again.

Three kills in ``make test``; ``make campaign`` has fifty, at ten seeds.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.fault.processes import Watched, descendants
from tests.fault.staged import ROOT, StagedLife, now_s
from tests.fault.staged_job import PACE, WHOLE, attempts, published

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 240
#: All processes of a job are gone so long after they were killed.
END_S = 10
KILLS = int(os.environ.get("PENSTOCK_STAGED_KILLS", "3"))
#: A job is killed so often before it is let go to its end.
KILLS_OF_A_LIFE = 5
#: With this kill of a life a task of the driver is not killed: it is held, and goes on beside the next driver.
SPARES = 3


def start(directory: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", PACE: "15"}
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.fault.staged_job", str(directory)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
            cwd=ROOT,
        )


def noted(directory: Path) -> int:
    return sum(attempt.records for attempt in attempts(directory))


def wait_for(directory: Path, process: subprocess.Popen[bytes], records: float) -> bool:
    """Wait until so many records are noted; tell whether the job still runs."""
    deadline = time.monotonic() + PATIENCE_S
    while noted(directory) < records and not published(directory):
        if process.poll() is not None:
            break
        assert time.monotonic() < deadline, (directory / "log").read_text()
        time.sleep(0.02)
    return process.poll() is None


def kill(process: subprocess.Popen[bytes], spared: int | None) -> float:
    """Kill a driver and all that it has started, but for a task, which is held; return the time."""
    others = descendants(process.pid)
    if spared in others:
        os.kill(spared, signal.SIGSTOP)
    killed_s = now_s()
    watched = Watched([pid for pid in others if pid != spared])
    for pid in (process.pid, *others):
        if pid != spared:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()
    assert watched.still_alive_after(END_S) == []
    return killed_s


def task_at_work(directory: Path, process: subprocess.Popen[bytes]) -> int | None:
    """Return the process of a task that is in the midst of its records."""
    ours = descendants(process.pid)
    return next((one.pid for one in attempts(directory) if one.ended_s is None and one.pid in ours), None)


def has_ended(life: StagedLife) -> bool:
    """Tell whether the program may know that its job has ended: what it leaves then is cleaned up."""
    return bool(published(life.directory)) and not life.left("events")


def live(directory: Path, kills: int, rng: random.Random) -> int:
    """Kill a job so often, at moments all over its work, and let it end; return how often it was killed."""
    life, left, count = StagedLife(directory), float(sum(WHOLE.values())), 0
    held: int | None = None
    (directory / "calls").mkdir()
    try:
        while not has_ended(life):
            process, begun = start(directory), noted(directory)
            if held is not None and wait_for(directory, process, begun + 1):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(held, signal.SIGCONT)  # the next driver is past its wait for results
                held = None
            if count == kills:
                assert process.wait(PATIENCE_S) == 0, (directory / "log").read_text()
            elif wait_for(directory, process, begun + rng.uniform(0, 2 * left / (kills - count))):
                time.sleep(rng.uniform(0, 0.3))
                count += 1
                held = task_at_work(directory, process) if count == SPARES else None
                life.killed(kill(process, held))
                left = max(20.0, left - (noted(directory) - begun))
            else:
                assert process.returncode == 0, (directory / "log").read_text()
    finally:
        if held is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(held, signal.SIGKILL)
    life.check_end()
    return count


@pytest.mark.fault
@pytest.mark.spark
@pytest.mark.behaviour(144)
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux to look at foreign processes")
def test_a_job_that_is_killed_again_and_again_publishes_the_truth_and_repeats_little(tmp_path: Path) -> None:
    rng = random.Random(int(os.environ.get("PENSTOCK_TEST_SEED", "383")))
    kills = 0
    for life in range(2 * KILLS):  # one may end before it is killed so often
        if kills < KILLS:
            directory = tmp_path / f"{life}"
            directory.mkdir()
            kills += live(directory, min(KILLS_OF_A_LIFE, KILLS - kills), rng)
    assert kills >= KILLS

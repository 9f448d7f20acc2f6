"""Real kills: a job gets SIGKILL with all it has started, starts again, and its files hold exactly the truth.

Between the kills the history says that it is lost, and from where it is resumed.

Once in ``make test``; ``make campaign`` kills five times, at twenty seeds.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.fault.processes import Watched, descendants

from penstock._engine.rest.history import History

JOB = Path(__file__).with_name("counting_job.py")
NUMBERS = 60_000
KEYS = 97
KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "1"))
#: All processes of a job are gone so long after they were killed.
END_S = 10
#: Longest wait for a sign of life; a busy machine starts a JVM slowly.
PATIENCE_S = 240


def start(directory: Path) -> subprocess.Popen[bytes]:
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(JOB), str(directory), str(NUMBERS)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PENSTOCK_JOBMANAGER__ARCHIVE__FS__DIR": str(directory / "archives")},
        )


def kill_at_work(directory: Path, rng: random.Random) -> None:
    """Start the job, and kill its whole process group at some moment after it has checkpointed anew."""
    before = checkpoints(directory)
    process = start(directory)
    deadline = time.monotonic() + PATIENCE_S
    while checkpoints(directory) - before == set():
        assert process.poll() is None, (directory / "log").read_text()
        assert time.monotonic() < deadline, "the job made no checkpoint"
        time.sleep(0.05)
    time.sleep(rng.uniform(0.0, 2.5))
    watched = Watched(descendants(process.pid))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    [line] = [line for line in runs(directory) if not line["penstock"]["lost"]["was_resumed"]]
    last, resumed_from = line["penstock"]["checkpoint_id"], line["penstock"]["lost"]["checkpoint"]
    if last:  # else it was killed before a checkpoint of its own
        assert resumed_from.endswith(f"/chk-{last}")
    assert resumed_from is None or Path(resumed_from.removeprefix("file:"), "_metadata").is_file()
    assert watched.still_alive_after(END_S) == []


def runs(directory: Path) -> list[dict[str, Any]]:
    """Return what the history says of the runs of the job."""
    return History(str(directory / "archives"), {}).lines()


def checkpoints(directory: Path) -> set[Path]:
    return set(directory.glob("checkpoints/*/chk-*/_metadata"))


def truth() -> set[tuple[int, int]]:
    """Return (key, count) for each record: every key counts up by one."""
    counts: dict[int, int] = defaultdict(int)
    for number in range(NUMBERS):
        counts[number % KEYS] += 1
    return {(key, count) for key, total in counts.items() for count in range(1, total + 1)}


@pytest.mark.fault
@pytest.mark.spark
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux to look at foreign processes")
def test_files_hold_each_record_once_after_the_job_was_killed_again_and_again(tmp_path: Path) -> None:
    rng = random.Random(int(os.environ.get("PENSTOCK_TEST_SEED", "20131")))
    for _ in range(KILLS):
        kill_at_work(tmp_path, rng)
    process = start(tmp_path)
    assert process.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()
    last, *lost = runs(tmp_path)
    assert (last["state"], "lost" in last["penstock"]) == ("FINISHED", False)
    assert [line["penstock"]["lost"]["was_resumed"] for line in lost] == [True] * KILLS

    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and not path.name.startswith(".")]
    lines = [line for path in files for line in path.read_text().splitlines()]
    rows = [tuple(map(int, line.split(","))) for line in lines]
    assert sorted(number for _, number, _ in rows) == list(range(NUMBERS))
    assert {(key, count) for key, _, count in rows} == truth()

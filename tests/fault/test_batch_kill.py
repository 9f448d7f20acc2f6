"""A batch job on real Spark is killed in its last stage, and starts again: nothing was published, then all of it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.fault.batch_job import KEYS, TOTAL
from tests.fault.processes import Watched, descendants

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240


def start(directory: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.fault.batch_job", str(directory), *options]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment, cwd=ROOT)


def published(directory: Path, name: str) -> list[str]:
    files = [path for path in (directory / name).rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return sorted(line for path in files for line in path.read_text().splitlines())


def stored(directory: Path) -> list[Path]:
    return [path for path in directory.glob("checkpoints/*/results/*") if path.is_file()]


@pytest.mark.behaviour(143)
@pytest.mark.fault
@pytest.mark.spark
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux to look at foreign processes")
def test_a_batch_job_that_is_killed_publishes_nothing_and_starts_again(tmp_path: Path) -> None:
    process, deadline = start(tmp_path, "--wait"), time.monotonic() + PATIENCE_S
    while not (tmp_path / "waiting").exists():
        assert process.poll() is None, (tmp_path / "log").read_text()
        assert time.monotonic() < deadline, "the last stage did not begin"
        time.sleep(0.05)
    watched = Watched(descendants(process.pid))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert watched.still_alive_after(10) == []
    assert stored(tmp_path) != []
    assert (published(tmp_path, "all"), published(tmp_path, "sums")) == ([], [])

    assert start(tmp_path).wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()
    assert published(tmp_path, "all") == sorted(map(str, range(TOTAL)))
    assert published(tmp_path, "sums") == sorted(f"{key},{sum(range(key, TOTAL, KEYS))}" for key in range(KEYS))
    assert stored(tmp_path) == []

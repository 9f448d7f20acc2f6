"""On real Spark: a Python worker dies, the driver's process dies alone, a function raises, an executor dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.fault.job import NAME, count, is_truth, published
from tests.fault.processes import Watched, descendants
from tests.fault.spark_driver import TOTAL, TRAP, environment, numbers
from tests.fault.support import PATIENCE_S, ROOT, SHARD

from penstock.datastream.functions import MapFunction
from penstock.errors import JobExecutionError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.spark.session import SparkHandle
    from penstock.datastream import StreamExecutionEnvironment

pytestmark = [
    pytest.mark.spark,
    pytest.mark.fault,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux to look at foreign processes"),
]

#: A driver that was killed is gone with its JVM and their workers after this time.
END_S = 10


@dataclass
class Trap(MapFunction):
    """Springs at one record; a file remembers how often."""

    notes: Path
    springs: str

    def map(self, value: int) -> int:
        if value == TRAP:
            with self.notes.open("a") as notes:
                notes.write("sprung\n")
            if self.springs == "raises":
                raise ValueError(value)
            if times_sprung(self.notes) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        return value


def times_sprung(notes: Path) -> int:
    return len(notes.read_text().split())


@pytest.fixture
def env(spark: SparkHandle, tmp_path: Path) -> StreamExecutionEnvironment:
    del spark  # that there is one is enough
    return environment(tmp_path)


@pytest.mark.behaviour(169)
def test_killed_python_worker_costs_no_restart_and_no_record(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    count(numbers(env).map(Trap(notes, "kills")), tmp_path)
    env.execute(NAME)
    assert times_sprung(notes) == 2
    assert is_truth(tmp_path, TOTAL)


def test_function_that_raises_is_not_run_again_by_spark(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    count(numbers(env).map(Trap(notes, "raises")), tmp_path)
    with pytest.raises(JobExecutionError, match=f"ValueError: {TRAP}"):
        env.execute(NAME)
    assert times_sprung(notes) == 1


# ----------------------------------------------------------------------------------------------- processes of their own


def start(directory: Path, *options: str) -> subprocess.Popen[bytes]:
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.fault.spark_driver", str(directory), *options],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for_the_trap(process: subprocess.Popen[bytes], directory: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not (directory / "waiting").exists():
        assert process.poll() is None, (directory / "log").read_text()
        assert time.monotonic() < deadline, "the job never came that far"
        time.sleep(0.05)


def finish(directory: Path, *options: str) -> None:
    process = start(directory, *options)
    try:
        assert process.wait(PATIENCE_S) == 0, (directory / "log").read_text()
    finally:
        process.kill()
        process.wait()
    assert is_truth(directory, TOTAL)


def test_driver_process_that_is_killed_alone_takes_jvm_and_workers_along_and_they_commit_nothing(
    tmp_path: Path,
) -> None:
    process = start(tmp_path, "--wait")
    wait_for_the_trap(process, tmp_path)
    others = descendants(process.pid)
    assert len(others) >= 3  # the JVM, the daemon of the workers, a worker in the middle of a task
    watched = Watched(others)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = sorted(published(tmp_path))
    assert before
    assert watched.still_alive_after(END_S) == []
    assert sorted(published(tmp_path)) == before
    finish(tmp_path)


@pytest.mark.skipif(SHARD is None, reason="starts a small cluster: for the campaign")
def test_killed_executor_costs_no_record(tmp_path: Path) -> None:
    finish(tmp_path, "--cluster", "--kill-executor")
    assert times_sprung(tmp_path / "notes") >= 2

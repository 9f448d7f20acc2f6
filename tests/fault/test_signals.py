"""Signals to a program on Spark and to its process group: how it ends, what it leaves, and how it goes on.

The table is {SIGINT, SIGTERM, SIGHUP, SIGKILL} x {process, group} x {starting, running, in a stop}. In ``make test``
two stand for all of them, in one life of a job; ``make campaign`` takes each one, and the stop by SIGTERM twenty times.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import pytest
from tests.fault.processes import Watched, descendants
from tests.fault.support import PATIENCE_S, SHARD
from tests.spark.programs import java_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.spark,
    pytest.mark.fault,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux to look at foreign processes"),
]

#: All processes of a job are gone so long after its driver.
END_S = 10
RECORDS, KEYS, PER_EPOCH = 900, 7, 60
#: What an epoch takes where a stop has to last longer than the second within which two signals are one.
SLOW_EPOCH_S = 4

JOB = f"""
import sys, time
from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink

slow = len(sys.argv) > 2
settings = {{
    "execution.checkpointing.interval": "{SLOW_EPOCH_S} s" if slow else "200 ms",
    "execution.checkpointing.dir": "checkpoints",
    "execution.checkpointing.savepoint-dir": "savepoints",
    "execution.state-recovery.path": sys.argv[1],
}}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(1)
source = DataGeneratorSource(
    lambda index: (index % {KEYS}, 1), {RECORDS}, RateLimiterStrategy.per_checkpoint({PER_EPOCH})
)

def count(record):
    if slow:
        time.sleep({SLOW_EPOCH_S / PER_EPOCH})
    return f"{{record[0]}} {{record[1]}}"

counted = (
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    .key_by(lambda record: record[0])
    .reduce(lambda a, b: (a[0], a[1] + b[1]))
    .map(count)
)
counted.sink_to(FileSink.for_row_format("out", Encoder.simple_string_encoder()).build())
env.execute("counting")
"""


@dataclass(frozen=True)
class Case:
    """A signal, to whom it goes, and when."""

    number: signal.Signals
    to_group: bool
    moment: str

    def send(self, process: subprocess.Popen[str]) -> None:
        (os.killpg if self.to_group else os.kill)(process.pid, self.number)

    def __str__(self) -> str:
        return f"{self.number.name}-{'group' if self.to_group else 'process'}-{self.moment}"


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
ALL = [Case(*each) for each in product(SIGNALS, (False, True), ("starting", "running", "stopping"))]
STARTING = Case(signal.SIGTERM, to_group=True, moment="starting")


def cases(shard: str) -> list[Case]:
    """Return a part of all of them for the campaign; else one of them comes before the stop by SIGTERM."""
    part, parts = map(int, shard.split("/"))
    return ALL[part - 1 :: parts]


class Program:
    """The job in a process, and a process group, of its own."""

    def __init__(self, place: Path, restore: str = "latest", *, slow: bool = False) -> None:
        (place / "job.py").write_text(JOB)
        self.place = place
        with (place / "log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "job.py", restore, *(["slow"] if slow else [])],
                cwd=place,
                env=java_environment(place),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def wait_until(self, what: str, seen: Iterator[bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not next(seen):
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, f"never came to {what}: {self.log}"
            time.sleep(0.02)

    def wait_for_checkpoints(self, count: int) -> None:
        def seen() -> Iterator[bool]:
            while True:
                yield len(list(self.place.glob("checkpoints/*/chk-*/_metadata"))) >= count

        self.wait_until(f"{count} checkpoints", seen())

    def wait_for_spark(self) -> None:
        def seen() -> Iterator[bool]:
            while True:
                yield bool(descendants(self.process.pid))

        self.wait_until("Spark", seen())

    def wait_for_line(self, text: str) -> None:
        def seen() -> Iterator[bool]:
            while True:
                yield text in self.log

        self.wait_until(f"the line {text!r}", seen())

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)

    @property
    def log(self) -> str:
        return (self.place / "log").read_text()


def savepoints(place: Path) -> list[Path]:
    return [path.parent for path in place.glob("savepoints/*/_metadata")]


def goes_on_to_the_truth(place: Path, restore: str) -> None:
    program = Program(place, restore)
    assert program.end() == 0, program.log
    files = [path for path in place.glob("out/**/*") if path.is_file() and not path.name.startswith(".")]
    found = Counter(line for path in files for line in path.read_text().splitlines())
    totals = Counter(index % KEYS for index in range(RECORDS))
    assert found == Counter(f"{key} {seen}" for key, total in totals.items() for seen in range(1, total + 1))


if SHARD is not None:

    @pytest.mark.parametrize("case", cases(SHARD), ids=str)
    def test_signal_leaves_no_process_and_the_next_start_goes_on_to_the_truth(tmp_path: Path, case: Case) -> None:
        goes_on_to_the_truth(tmp_path, signalled(tmp_path, case))


def signalled(tmp_path: Path, case: Case) -> str:
    """Send a program a signal, and return what the next start goes on from."""
    program = Program(tmp_path, slow=case.moment == "stopping")
    if case.moment == "starting":
        program.wait_for_spark()
    else:
        program.wait_for_checkpoints(2 if case.moment == "stopping" else 3)  # the first one is that of the start
    if case.moment == "stopping":
        program.process.send_signal(signal.SIGTERM)
        program.wait_for_line("Stopping job")
        time.sleep(1.1)  # within a second the two would be one
        assert program.process.poll() is None, program.log
    watched = Watched(descendants(program.process.pid))
    case.send(program.process)
    code = program.end()
    assert watched.still_alive_after(END_S) == []

    killed = case.number is signal.SIGKILL
    if case.moment == "starting" or killed:
        assert code in {-case.number, 128 + case.number}, program.log
    elif case.moment == "running":
        assert code == 128 + case.number, program.log
        [savepoint] = savepoints(tmp_path)
        return str(savepoint)
    else:  # the second signal cancels, and the first one is what the exit code tells
        assert code == 128 + signal.SIGTERM, program.log
        assert "was cancelled" in program.log
    return "latest"


TIMES = int(os.environ.get("PENSTOCK_TEST_SIGTERMS", "1"))


@pytest.mark.parametrize("time_", range(TIMES))
def test_sigterm_to_the_process_group_ends_with_a_savepoint_that_starts(tmp_path: Path, time_: int) -> None:
    if SHARD is None:
        assert signalled(tmp_path, STARTING) == "latest"
    rng = random.Random(f"{os.environ.get('PENSTOCK_TEST_SEED', '20131')}-{time_}")
    program = Program(tmp_path)
    program.wait_for_checkpoints(1)
    time.sleep(rng.uniform(0, 1.0))
    watched = Watched(descendants(program.process.pid))
    for _ in range(rng.randint(1, 2)):  # `timeout` signals its child, and then the group that they share
        os.killpg(program.process.pid, signal.SIGTERM)
    assert program.end() == 128 + signal.SIGTERM, program.log
    assert watched.still_alive_after(END_S) == []
    [savepoint] = savepoints(tmp_path)
    goes_on_to_the_truth(tmp_path, str(savepoint))

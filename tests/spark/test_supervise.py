"""A supervised job on Spark: killed or stopped in the middle, it continues to the right output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.docs.supervised import Unit
from tests.spark.programs import java_environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

RECORDS, KEYS, PER_EPOCH = 900, 7, 60
PATIENCE_S = 120
#: A stop with a savepoint takes a second or two; systemd is told to wait for a quarter of an hour.
STOP_S = 60

JOB = f"""
import os
from penstock.common import Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink

with open("pids", "a") as pids:
    print(os.getpid(), file=pids)
env = StreamExecutionEnvironment.get_execution_environment()
rate = RateLimiterStrategy.per_checkpoint({PER_EPOCH})
source = DataGeneratorSource(lambda index: (index % {KEYS}, 1), {RECORDS}, rate)
counted = (
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    .key_by(lambda record: record[0])
    .reduce(lambda a, b: (a[0], a[1] + b[1]))
    .map(lambda record: f"{{record[0]}} {{record[1]}}")
)
counted.sink_to(FileSink.for_row_format("out", Encoder.simple_string_encoder()).build())
env.execute("counting")
"""


def lines(place: Path) -> Counter[str]:
    files = [path for path in place.glob("out/**/*") if path.is_file() and not path.name.startswith(".")]
    return Counter(line for path in files for line in path.read_text().splitlines())


def truth() -> Counter[str]:
    totals = Counter(index % KEYS for index in range(RECORDS))
    return Counter(f"{key} {seen}" for key, total in totals.items() for seen in range(1, total + 1))


def checkpoints(place: Path) -> set[Path]:
    return set(place.glob("checkpoints/*/chk-*/_metadata"))


def wait_for(place: Path, pattern: str, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(list(place.glob(pattern))) < count:
        assert time.monotonic() < deadline, f"there are no {count} {pattern}"
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform == "win32", reason="signals and process groups")
def test_unit_of_the_documentation_stops_with_a_savepoint_in_time_and_goes_on_though_it_is_killed(
    tmp_path: Path,
) -> None:
    """The unit's program stops; supervised it goes on, is killed, started again and ends; then it has ended already."""
    unit = Unit()
    (tmp_path / "prices.py").write_text(JOB)
    places = {name: value.replace("/data/", f"{tmp_path}/") for name, value in unit.environment.items()}
    environment = {**java_environment(tmp_path), **places, "PENSTOCK_EXECUTION__CHECKPOINTING__INTERVAL": "300ms"}
    _, run, *words = unit.command

    def start(*options: str, **variables: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "penstock", run, *options, *words]
        piped = {"stderr": subprocess.PIPE, "text": True}
        env = {**environment, **variables}
        return subprocess.Popen(command, cwd=tmp_path, env=env, start_new_session=True, **piped)

    with start(PENSTOCK_ALLOW_FIRST_START="true") as process:
        try:
            wait_for(tmp_path, "checkpoints/*/chk-[3-9]/_metadata", 1)
            begin = time.monotonic()
            process.send_signal(signal.Signals[unit.service["KillSignal"]])
            _, said = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert unit.service["TimeoutStopSec"] == "15min"
    assert time.monotonic() - begin < STOP_S
    assert str(process.returncode) == unit.service["SuccessExitStatus"], said
    assert len(list(tmp_path.glob("savepoints/savepoint-*/_metadata"))) == 1
    read_by_then = sum(lines(tmp_path).values())
    assert 0 < read_by_then < RECORDS

    (tmp_path / "pids").unlink()
    before = checkpoints(tmp_path)
    with start("--supervise") as process:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while len(checkpoints(tmp_path) - before) < 2:
                assert time.monotonic() < deadline, "it does not go on"
                time.sleep(0.05)
            os.kill(int((tmp_path / "pids").read_text()), signal.SIGKILL)
            _, said = process.communicate(timeout=PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
    assert process.returncode == 0, said
    assert "SIGKILL" in said
    assert len((tmp_path / "pids").read_text().split()) == 2
    assert lines(tmp_path) == truth()

    with start() as process:  # it has ended already
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert lines(tmp_path) == truth()
    assert len(list((tmp_path / "checkpoints").glob("?" * 32))) == 1  # all of them took the same job up

"""Functions in Spark's workers are closed when their job has ended, however it did."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.spark import programs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

PROGRAM = """
import sys, time
from pathlib import Path
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.errors import JobCancelledError, JobExecutionError

NOTES = Path(sys.argv[1])

class Noted(MapFunction):
    def __init__(self, fails_at=None):
        self.fails_at = fails_at

    def note(self, what):
        with NOTES.open("a") as notes:
            notes.write(what + "\\n")

    def open(self, runtime_context):
        self.note("open")

    def map(self, value):
        if value == self.fails_at:
            raise ValueError(value)
        return value

    def close(self):
        self.note("close")

def job(fails_at=None):
    settings = {
        "execution.checkpointing.interval": "200 ms",
        "restart-strategy.type": "none",
        "parallelism.default": "3",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    source = DataGeneratorSource(int, None, RateLimiterStrategy.per_second(2_000))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(Noted()).key_by(lambda number: number).map(Noted(fails_at)).filter(lambda number: False).print()
    return env.execute_async("noted")

client = job(fails_at=3_000)
try:
    client.get_job_execution_result().result()
except JobExecutionError:
    pass
failed = NOTES.read_text().split()
client = job()
while len(NOTES.read_text().split()) < len(failed) + 6:
    time.sleep(0.05)
time.sleep(1)
client.cancel()
try:
    client.get_job_execution_result().result()
except JobCancelledError:
    pass
cancelled = NOTES.read_text().split()[len(failed):]
for notes in (failed, cancelled):
    print(notes.count("open"), notes.count("close"))
"""


@pytest.mark.both_exchanges
@pytest.mark.behaviour(40, 45)
def test_functions_of_a_job_that_failed_or_was_cancelled_are_closed_before_its_result_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "notes")]
    env = programs.java_environment(tmp_path)
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    failed, cancelled = (tuple(map(int, line.split())) for line in result.stdout.splitlines())
    for opened, closed in (failed, cancelled):
        assert opened >= 6
        assert opened == closed

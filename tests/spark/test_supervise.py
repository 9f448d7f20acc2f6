"""``penstock run --supervise`` with a job on Spark: killed in the middle, it goes on, and its files hold the truth."""

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
from tests.spark.programs import java_environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

RECORDS, KEYS, RATE = 900, 7, 200
PATIENCE_S = 120

JOB = f"""
import os
from penstock.common import Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink

with open("pids", "a") as pids:
    print(os.getpid(), file=pids)
env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: (index % {KEYS}, 1), {RECORDS}, RateLimiterStrategy.per_second({RATE}))
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


def wait_for(place: Path, pattern: str, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(list(place.glob(pattern))) < count:
        assert time.monotonic() < deadline, f"there are no {count} {pattern}"
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_killed_program_is_started_again_and_ends_with_each_record_once(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    settings = {"execution.checkpointing.interval": "300 ms", "execution.checkpointing.dir": "checkpoints"}
    options = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "penstock", "run", "--supervise", *options, "job.py"],
        cwd=tmp_path,
        env=java_environment(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            wait_for(tmp_path, "checkpoints/*/chk-[3-9]/_metadata", 1)
            os.kill(int((tmp_path / "pids").read_text()), signal.SIGKILL)
            _, said = process.communicate(timeout=PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
    assert process.returncode == 0, said
    assert "SIGKILL" in said
    assert len((tmp_path / "pids").read_text().split()) == 2
    totals = Counter(index % KEYS for index in range(RECORDS))
    truth = Counter(f"{key} {seen}" for key, total in totals.items() for seen in range(1, total + 1))
    assert lines(tmp_path) == truth
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1  # the second process took the same job up

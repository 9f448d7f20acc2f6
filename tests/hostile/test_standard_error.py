"""A whole program whose standard error is full, or closed: its job starts, stops, continues and ends all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Final

import pytest
from tests.spark.programs import SOURCES, java_environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")

PATIENCE_S: Final = 120
RECORDS, KEYS = 300, 7

JOB: Final = f"""
import logging
import sys

import tests.hostile.programs_without_spark

from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink

settings = {{
    "execution.checkpointing.interval": "50 ms",
    "execution.checkpointing.dir": "checkpoints",
    "execution.checkpointing.savepoint-dir": "savepoints",
    "execution.state-recovery.path": "latest",
    "penstock.log.format": "text",
    "penstock.log.level": "DEBUG",
    "penstock.progress.enabled": "true",
    "pipeline.no-such-key": "is warned of",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "1 ms",
}}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(1)
source = DataGeneratorSource(lambda index: (index % {KEYS}, 1), {RECORDS}, RateLimiterStrategy.per_checkpoint(10))

def count(record):
    logging.getLogger("job").warning("a record")
    return f"{{record[0]}} {{record[1]}}"

counted = (
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    .key_by(lambda record: record[0])
    .reduce(lambda a, b: (a[0], a[1] + b[1]))
    .map(count)
)
counted.sink_to(FileSink.for_row_format("out", Encoder.simple_string_encoder()).build())
env.execute("counting")
print("after the job")
"""
PENSTOCK: Final = ("-P", "-m", "penstock", "run")
COMMANDS: Final = {"python": (), "run": PENSTOCK, "supervise": (*PENSTOCK, "--supervise")}
ENDS: Final = {"full": "2>/dev/full", "closed": "2>&-"}
#: How it is started, and interrupted, and how it is started then. The program of a supervisor is one of `penstock run`.
FEW: Final = [(("supervise", "full"), "SIGINT", ("python", "closed"))]
ALL: Final = [(how, name, how) for how in product(COMMANDS, ENDS) for name in ("SIGINT", "SIGTERM")]


def started(command: str, end: str, place: Path) -> subprocess.Popen[str]:
    (place / "job.py").write_text(JOB)
    words = [sys.executable, *COMMANDS[command], "job.py"]
    environment = java_environment(place) | {"PYTHONPATH": os.pathsep.join((str(SOURCES), str(SOURCES.parent)))}
    return subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$@" {ENDS[end]}', "sh", *words],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def lines(place: Path) -> Counter[str]:
    files = [path for path in place.glob("out/**/*") if path.is_file() and not path.name.startswith(".")]
    return Counter(line for path in files for line in path.read_text().splitlines())


def truth() -> Counter[str]:
    totals = Counter(index % KEYS for index in range(RECORDS))
    return Counter(f"{key} {seen}" for key, total in totals.items() for seen in range(1, total + 1))


@pytest.mark.parametrize(("how", "name", "then"), ALL if os.environ.get("PENSTOCK_ALL_CELLS") else FEW)
def test_job_starts_is_interrupted_continues_and_ends(
    how: tuple[str, str], name: str, then: tuple[str, str], tmp_path: Path
) -> None:
    with started(*how, tmp_path) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not any(int(path.parent.name[4:]) >= 3 for path in tmp_path.glob("checkpoints/*/chk-*/_metadata")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.Signals[name])
        assert process.communicate(timeout=PATIENCE_S)[0] == ""
    assert process.returncode == 128 + signal.Signals[name]
    assert list(tmp_path.glob("savepoints/*/_metadata"))
    assert 0 < lines(tmp_path).total() < RECORDS
    with started(*then, tmp_path) as process:
        assert process.communicate(timeout=PATIENCE_S)[0] == "after the job\n"
    assert process.returncode == 0
    assert lines(tmp_path) == truth()

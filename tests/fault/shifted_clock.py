"""A driver with real threads, real waits and real storage, whose process is told another time of day while a job runs.

Usage: python -m tests.fault.shifted_clock DIRECTORY SECONDS

Standard output has a line of JSON: the milliseconds that passed from each epoch's begin to the next one's, how the job
ended, how long it says that it ran, and what it logged.
"""

from __future__ import annotations

import itertools
import json
import logging
import sys
import time
from pathlib import Path

from tests.fault.job import published
from tests.kit.driving import Driven

from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.mailbox import SystemClock
from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink
from penstock.testing.in_process import InProcessEpochRunner

RECORDS, PER_SECOND, SHIFTED_AT = 60, 20, 6
_time_ns, _time = time.time_ns, time.time
_shift_s = 0


def shift(number: int) -> int:
    """Have the clock set with a certain record."""
    global _shift_s  # noqa: PLW0603 - the clock of a process is one
    if number == SHIFTED_AT:
        _shift_s = int(sys.argv[2])
    return number


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def main() -> None:
    """Run the job."""
    time.time_ns = lambda: _time_ns() + _shift_s * 1_000_000_000
    time.time = lambda: _time() + _shift_s
    logging.getLogger("penstock").addHandler(log := Lines())
    place = Path(sys.argv[1])
    configuration = Configuration.from_dict(
        {"execution.checkpointing.dir": str(place / "checkpoints"), "execution.checkpointing.interval": "200 ms"}
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    source = DataGeneratorSource(int, RECORDS, RateLimiterStrategy.per_second(PER_SECOND))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").map(shift).map(str)
    stream.sink_to(FileSink.for_row_format(str(place / "out"), Encoder.simple_string_encoder()).build()).uid("files")
    driven = Driven(env, place / "state", InProcessEpochRunner(), SystemClock())
    driver, begun = driven.driver, list[float]()

    def watched(instruction: do.Instruction) -> None:
        if isinstance(instruction, do.RunEpoch):
            begun.append(time.monotonic() * 1000)

    driven.watchers.append(watched)
    driven.run()
    gaps = [later - earlier for earlier, later in itertools.pairwise(begun)]
    runtime_ms = driver.result.result(0).get_net_runtime()
    told = [line for line in log.lines if "clock" in line]
    json.dump([gaps, driver.status.name, runtime_ms, told, sorted(map(int, published(place)))], sys.stdout)


if __name__ == "__main__":
    from tests.fault import shifted_clock  # functions of the job find the clock there

    shifted_clock.main()

"""How long a stop with savepoint takes, beyond the rest of the epoch that runs when somebody asks for it.

    python benchmarks/stop.py                 ten jobs, suspended and drained in turn, about two minutes
    python benchmarks/stop.py --jobs 30

Each job counts numbers by key at parallelism 2, 2,000 records/s, interval 1 s, and is stopped at a random moment of an
epoch after its fifth. What the answer takes beyond the end of that epoch is the stop's own: one more epoch in which
nothing is read, the savepoint, and the commits.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from figures import Figures
from jobs import start

from penstock._engine.protocol.control import StopMode
from penstock._engine.spark.epoch import SparkEpochRunner
from penstock._engine.spark.session import SparkHandle, get_session
from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink

if TYPE_CHECKING:
    from penstock._engine.gateway.progress import JobProgress

SLOTS = 2
INTERVAL_S = 1.0
RATE = 2_000
EPOCHS_BEFORE = 5
WHAT = ("answer", "beyond the end of the running epoch", "its own epoch")


def job(directory: Path) -> StreamExecutionEnvironment:
    """Return the job: numbers, counted by key, in files."""
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    configuration.set_string("execution.checkpointing.interval", f"{INTERVAL_S:.0f} s")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(SLOTS)
    source = DataGeneratorSource(lambda index: (index % 1000, 1), None, RateLimiterStrategy.per_second(RATE))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    counts = numbers.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
    files = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build()
    counts.map(str).sink_to(files)
    return env


def stop_once(spark: SparkHandle, stop: StopMode, delay_s: float) -> tuple[float, float, float]:
    """Run a job and stop it; return the seconds of `WHAT`."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        directory, ready = Path(scratch), threading.Event()
        ends: list[float] = []

        def on_epoch(_: JobProgress) -> None:
            ends.append(time.perf_counter())
            if len(ends) == EPOCHS_BEFORE:
                ready.set()

        driver = start(
            job(directory), "stop", SparkEpochRunner(spark), slots=SLOTS, state_directory=directory / "state",
            on_epoch=on_epoch,
        )  # fmt: skip
        if not ready.wait(120):
            driver.result.result(0)
        time.sleep(delay_s)
        asked = time.perf_counter()
        driver.savepoint(str(directory / "savepoints"), stop).result(120)
        answered = time.perf_counter()
        driver.result.result(60)
    running, own = ends[-2:]
    return answered - asked, answered - running, own - running


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10, help="jobs to be stopped (10)")
    arguments = parser.parse_args()
    spark, rng = get_session(SLOTS), random.Random(1)
    figures = Figures(f"Stop with savepoint, interval {INTERVAL_S:.0f} s")
    found: dict[StopMode, list[tuple[float, float, float]]] = {StopMode.SUSPEND: [], StopMode.DRAIN: []}
    stop_once(spark, StopMode.SUSPEND, 0.0)  # warms up
    for number in range(arguments.jobs):
        stop = (StopMode.SUSPEND, StopMode.DRAIN)[number % 2]
        found[stop].append(stop_once(spark, stop, rng.uniform(0.0, INTERVAL_S)))
    for stop, times in found.items():
        for what, values in zip(WHAT, zip(*times, strict=True), strict=True):
            figures.add(f"{stop.name.lower()}: {what}", f"median {median(values):.2f} s, most {max(values):.2f} s")
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())

"""A job whose levels run at the same time: python -m tests.spark.pipelined_job FOLDER; it makes 20 numbers a second.

Its sink writes each number with the milliseconds since it was made, at once and into a file of its own. Once it has
some it is asked for a savepoint, while another job takes one of its slots; the seconds until that is there are printed.
Then it starts again with a function behind an exchange that fails, and the seconds until that is told are printed.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.kit.exchange import SETTINGS

from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.base import Sink, SinkWriter
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import JobExecutionError

NUMBERS, PER_SECOND, INTERVAL_MS = 160, 20, 60_000


def made(number: int) -> tuple[int, float]:
    return number, time.time()


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: tuple[int, float], ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield *value, self.count.value()


class AtOnce(Sink[Any]):
    """Writes what comes when it comes.

    Args:
        folder: For its files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_writer(self, context: Any) -> AtOnceWriter:
        return AtOnceWriter(self.folder)


class AtOnceWriter(SinkWriter[Any]):
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / uuid.uuid4().hex).open("w")

    def write(self, element: tuple[int, float, int], context: Any) -> None:
        number, made_s, count = element
        print(number, count, round((time.time() - made_s) * 1_000), file=self.file, flush=True)

    def flush(self, end_of_input: bool) -> None: ...

    def close(self) -> None:
        self.file.close()


def take_a_slot() -> None:
    """Let a task of another job of Spark have a slot of the next epoch for a while."""
    context = SparkSession.active().sparkContext
    context.parallelize([2.0], 1).foreach(time.sleep)


def fail(_: Any) -> None:
    raise ValueError("on purpose")


def main(place: Path) -> None:
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.dir": str(place / "checkpoints"),
        "execution.checkpointing.interval": f"{INTERVAL_MS} ms",
        **SETTINGS,
        "penstock.local.slots": "1",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    source = DataGeneratorSource(made, NUMBERS, RateLimiterStrategy.per_second(PER_SECOND))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    counts = numbers.key_by(lambda each: each[0] % 7).process(Count()).uid("count")
    counts.key_by(lambda each: each[0] % 5).map(lambda each: each).sink_to(AtOnce(place / "out"))
    client = env.execute_async("pipelined")
    while not any(file.stat().st_size for file in (place / "out").glob("*")):
        time.sleep(0.01)
    threading.Thread(target=take_a_slot).start()
    asked_s = time.monotonic()
    client.trigger_savepoint(str(place / "savepoints")).result()
    print(time.monotonic() - asked_s)  # noqa: T201 - for the test
    client.get_job_execution_result().result()

    configuration.set_string("restart-strategy.type", "none")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    endless = DataGeneratorSource(made, None, RateLimiterStrategy.per_second(PER_SECOND))
    numbers = env.from_source(endless, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda each: each[0] % 7).map(fail).print()
    begun_s = time.monotonic()
    try:
        env.execute("failing")
    except JobExecutionError:
        print(time.monotonic() - begun_s)  # noqa: T201 - for the test


if __name__ == "__main__":
    main(Path(sys.argv[1]))

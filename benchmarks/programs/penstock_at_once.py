"""The latency job with a sink that shows each record when it comes: PORT DIRECTORY SECONDS INTERVAL_MS EXCHANGE LEVELS.

With three levels a second keyed process function with a counter follows the first. A line of the sink's files is the
record, and the time in nanoseconds at which it was written.
"""

import sys
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock_latency import KEYS, Count, Feed, run_for

from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.base import Sink, SinkWriter
from penstock.datastream.functions import RuntimeContext
from penstock.datastream.state import ValueStateDescriptor


class AtOnce(Sink[str]):
    """Writes what comes when it comes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_writer(self, context: Any) -> SinkWriter[str]:
        return AtOnceWriter(self.folder)


class AtOnceWriter(SinkWriter[str]):
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / uuid.uuid4().hex).open("w")

    def write(self, element: str, context: Any) -> None:
        self.file.write(f"{element},{time.time_ns()}\n")

    def flush(self, end_of_input: bool) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class CountAgain(KeyedProcessFunction):
    """Counts the records of each key, and passes them on."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen again"))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        self.seen.update((self.seen.value() or 0) + 1)
        yield value


def main(port: int, directory: Path, seconds: float, interval_ms: int, *, exchange: str, levels: int) -> None:
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.interval": f"{interval_ms} ms",
        "penstock.local.slots": "1",
        "penstock.exchange": exchange,
        "penstock.exchange.trusted-network": "true",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    lines = env.from_source(Feed(port), WatermarkStrategy.no_watermarks(), "feed")
    counts = lines.key_by(lambda record: record[0] % KEYS).process(Count())
    if levels > 2:
        counts = counts.key_by(lambda line: line.split(",")[0]).process(CountAgain())
    counts.sink_to(AtOnce(directory / "at-once"))
    run_for(env, seconds)


if __name__ == "__main__":
    port, directory, seconds, interval_ms, exchange, levels = sys.argv[1:]
    main(int(port), Path(directory), float(seconds), int(interval_ms), exchange=exchange, levels=int(levels))

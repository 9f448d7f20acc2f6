"""The latency job for PyFlink: PORT DIRECTORY SECONDS INTERVAL_MS process|thread [LEVELS].

Flink's socket source, a keyed process function in Python with a counter in a ValueState, and Flink's file sink, whose
files get their names when a checkpoint is complete. The socket source is Java's: PyFlink has no name for it.

With LEVELS records are shown when they come, as those of penstock_at_once.py: PyFlink has no sinks in Python, so a
function writes them. With three levels a second keyed process function follows the first.
"""

import sys
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

from pyflink.common import Configuration, Encoder, Types
from pyflink.datastream import (
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.file_system import FileSink, RollingPolicy
from pyflink.datastream.state import ValueStateDescriptor

KEYS = 1_000
RECORD = Types.TUPLE([Types.LONG(), Types.LONG()])
#: How long PyFlink may keep records to send them to Python together (process mode).
BUNDLE_MS = 10
#: How long Flink may keep records to send them together, where they are to be shown at once (its default is 100).
BUFFER_MS = 2


class Count(KeyedProcessFunction):
    """Counts the records of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        yield f"{value[0]},{value[1]},{seen}"


class CountAgain(KeyedProcessFunction):
    """Counts the records of each key, and passes them on."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen again", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        self.seen.update((self.seen.value() or 0) + 1)
        yield value


class AtOnce(MapFunction):
    """Writes what comes when it comes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        self.file = Path(self.folder, uuid.uuid4().hex).open("w", buffering=1)  # noqa: SIM115 - as long as the function

    def map(self, value: str) -> str:
        self.file.write(f"{value},{time.time_ns()}\n")
        return value


def parsed(line: str) -> tuple[int, int]:
    number, created = line.split(",")
    return int(number), int(created)


def main(port: int, directory: Path, seconds: float, interval_ms: int, mode: str, *, levels: int | None) -> None:
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", directory.joinpath("checkpoints").as_uri())
    configuration.set_string("execution.checkpointing.interval", f"{interval_ms} ms")
    configuration.set_string("python.execution-mode", mode)
    configuration.set_string("python.fn-execution.bundle.time", str(BUNDLE_MS))
    configuration.set_string("python.executable", sys.executable)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2 if levels is None else 1)
    if levels is not None:
        env.set_buffer_timeout(BUFFER_MS)
    lines = DataStream(env._j_stream_execution_environment.socketTextStream("127.0.0.1", port))
    records = lines.map(parsed, RECORD)
    counts = records.key_by(lambda record: record[0] % KEYS, Types.LONG()).process(Count(), Types.STRING())
    if levels is None:
        counts.sink_to(
            FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder())
            .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
            .build()
        )
    else:
        if levels > 2:
            keyed = counts.key_by(lambda line: line.split(",")[0], Types.STRING())
            counts = keyed.process(CountAgain(), Types.STRING())
        counts.map(AtOnce(str(directory / "at-once")), Types.STRING())
    client = env.execute_async("latency")
    time.sleep(seconds)
    client.cancel().result()


if __name__ == "__main__":
    port, directory, seconds, interval_ms, mode, *levels = sys.argv[1:]
    main(int(port), Path(directory), float(seconds), int(interval_ms), mode, levels=int(levels[0]) if levels else None)
